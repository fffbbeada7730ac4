"""Check the constants that decide about speech, text and languages, for a model.

python -m benchmarks.constants                                # base, all languages
python -m benchmarks.constants --model tiny.en --languages en
python -m benchmarks.constants --kinds run --constants decoding.retries.MIN_GAIN
python -m benchmarks.constants --rates                        # letters and tokens per second
python -m benchmarks.constants --list                         # all constants, with their meaning

Each constant is compared with a lower and a higher value. Two figures say what a value costs; both
are best at 0 (benchmarks/constants/figures.py):

    uncovered, fast, limit, threshold, removed, second opinion
                       right rows that the rule flags, in %; faulty rows that it does not flag
    sequence, decision rows and recordings with the wrong language (a multilingual model)
    vad, filter        speech that is rejected, in %; other sound that is accepted
    run, context       word errors, in %; speech that is more than 0.5 s from every word
    segments, phrases  segments that end no sentence, in %; sentences that end no segment
    switching          speech in the wrong language, in % (a multilingual model)
    detect             recordings whose language is detected wrongly, in %

The recordings are those of `benchmarks.corpora`, with an even seed (development) and an odd seed
(test), and for rows three sentences in each of nine languages by other speakers. They are decoded
once for the first two groups of kinds. The rows and all figures are kept in `.cache/constants`, so
a stopped run continues.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Final

import whisperbatch as wb
from benchmarks import corpora, speech
from benchmarks.arguments import require_directories
from benchmarks.constants import languages, rates, rows, runs, sounds
from benchmarks.constants.figures import TITLES, Check, Figures
from benchmarks.constants.first_pass import (
    CACHE,
    CLIPS,
    VAD_OFF,
    FirstPass,
    first_passes,
    language_of,
)
from benchmarks.constants.inventory import Number, constants, shipped
from benchmarks.constants.store import Store
from benchmarks.lost_speech import nonspeech, turns
from benchmarks.lost_speech.__main__ import HALVES
from whisperbatch.errors import WhisperBatchError

SPEECH: Final = ("prompts", "telephone", *turns.KINDS, "noise_under", "music_under")
DIFFICULT: Final = ("telephone", "whispered", "hoarse", "quieter", "distant", "cafe", "pumping")
CHECKS: Final = (*rows.CHECKS, *languages.CHECKS, *sounds.CHECKS, *runs.CHECKS)
CLIP_LANGUAGES: Final = ("en", "es", "fr", "hi", "it", "ja", "pl", "pt", "zh")
MIN_TOTAL: Final = 10  # rows or seconds of a language: fewer prove nothing
Results = dict[Number | None, dict[str, Figures]]  # by value and recording


def row_names(codes: Sequence[str], seconds: float, seeds: Sequence[int]) -> list[str]:
    """Return the recordings whose rows are decoded once."""
    names = [
        f"{kind}:{code}:{seconds:g}:{seed}" for kind in SPEECH for code in codes for seed in seeds
    ]
    if "en" in codes:
        names += [f"read:en:{seconds:g}:{seed}" for seed in seeds]
    if 0 in seeds:
        names += [f"{CLIPS}:{code}:0:0" for code in (CLIP_LANGUAGES if len(codes) > 1 else codes)]
    sounds_only = [f"{kind}:en:{seconds:g}:{seed}" for kind in nonspeech.KINDS for seed in seeds]
    return names + [f"{VAD_OFF}:{name}" for name in sounds_only]


def sound_names(kind: str, codes: Sequence[str], seeds: Sequence[int]) -> list[str]:
    """Return the recordings of a check on sound alone: a minute each."""
    voices = DIFFICULT if kind == "vad" else ("hoarse", "whispered", "distant")
    return [
        *(f"{voice}:{code}:60:{seed}" for voice in voices for code in codes for seed in seeds),
        *(f"{sound}:en:60:{seed}" for sound in nonspeech.KINDS for seed in seeds),
    ]


class Program:
    """The checks of one call of the program.

    Args:
        parsed: the command line.
    """

    def __init__(self, parsed: argparse.Namespace) -> None:
        self._model: str = parsed.model
        self._codes: Sequence[str] = parsed.languages
        self._seeds = [HALVES.index(half) for half in parsed.half]
        self._seconds: float = parsed.seconds
        self._store = Store(parsed.results, parsed.model)
        self._directory: Path = parsed.results
        self._passes: dict[str, FirstPass] = {}
        self._asr: wb.Transcriber | None = None

    def __call__(self, check: Check) -> Results:
        """Return the figures of a constant's lower, own and higher value, by recording."""
        measures = list(self._measures(check))
        results: Results = {}
        for value in (check.values[0], None, check.values[1]):
            results[value] = {
                name: self._store.figures(check, value, name, partial(measure, value))
                for name, measure in measures
            }
            self._store.save()
        return results

    def _measures(self, check: Check) -> Iterator[tuple[str, Callable[[Number | None], Figures]]]:
        """Yield each recording, or half of the recordings, and the function that measures it."""
        if check in rows.CHECKS:
            for first_pass in self.rows():
                yield first_pass.name, partial(rows.measure, check, [first_pass])
        elif check in languages.CHECKS:
            for seed in self._seeds:
                half = [p for p in self.rows() if p.name.endswith(f":{seed}")]
                yield HALVES[seed], partial(languages.measure, check, half)
        elif check in sounds.CHECKS:
            for name in sound_names(check.kind, self._codes, self._seeds):
                yield name, partial(sounds.measure, check, [name])
        else:
            asr = self._transcriber()
            for seed in self._seeds:
                for name in runs.names_for(check.kind, self._codes, seed):
                    yield name, partial(runs.measure, check, asr, name)

    def rows(self) -> list[FirstPass]:
        """Return the recordings that are decoded once."""
        if not self._passes:
            names = row_names(self._codes, self._seconds, self._seeds)
            for first_pass in first_passes(self._model, names, self._directory):
                self._passes[first_pass.name] = first_pass
        return list(self._passes.values())

    def _transcriber(self) -> wb.Transcriber:
        if self._asr is None:
            self._asr = wb.load(self._model, device="cpu", compute_type="int8")
        return self._asr

    def close(self) -> None:
        """Free the model, and write the figures."""
        self._store.save()
        if self._asr:
            self._asr.close()


def row(check: Check, results: Results) -> str:
    """Return the row of a check: its values, and both figures for all recordings and the worst."""
    low, _, high = results
    values = " / ".join(f"{value:g}" for value in (low, shipped(check.key), high))
    totals = [reduce(add, by_name.values(), Figures()) for by_name in results.values()]
    harm = " / ".join(_percent(total.harm) for total in totals)
    failure = " / ".join(_percent(total.failure) for total in totals)
    code, worst = worst_language(results[None])
    counts = f"{totals[1].speech:.0f}, {totals[1].faults:.0f}"
    return f"| `{check.key}` | {values} | {harm} | {failure} | {counts} | {code} {worst} |"


def worst_language(figures: dict[str, Figures]) -> tuple[str, str]:
    """Return the language with the highest first figure, and this figure."""
    by_language: dict[str, Figures] = {}
    for name, values in figures.items():
        if name not in HALVES:
            code = language_of(name)
            by_language[code] = by_language.get(code, Figures()) + values
    harms = {code: f.harm for code, f in by_language.items() if f.speech >= MIN_TOTAL}
    if not harms:
        return "", ""
    code = max(harms, key=lambda code: harms[code] or 0.0)
    return code, _percent(harms[code])


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def inventory() -> Iterator[str]:
    """Yield a line for each constant."""
    checked = {check.key for check in CHECKS}
    for key, constant in constants().items():
        mark = "*" if key in checked else " "
        yield f"{mark} {key} = {constant.value}  # {constant.meaning}"


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    keys = list(dict.fromkeys(check.key for check in CHECKS))
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.constants",
        description="Compare each constant with a lower and a higher value.",
    )
    parser.add_argument("--model", default="base")
    parser.add_argument(
        "--languages", nargs="+", choices=speech.LANGUAGES, default=speech.LANGUAGES, metavar="CODE"
    )
    parser.add_argument("--half", nargs="+", choices=HALVES, default=HALVES)
    parser.add_argument("--kinds", nargs="+", choices=tuple(TITLES), default=tuple(TITLES))
    parser.add_argument("--constants", nargs="+", choices=keys, default=keys, metavar="NAME")
    parser.add_argument("--seconds", type=float, default=120.0, help="of each decoded recording")
    parser.add_argument("--json", type=Path, metavar="out.json")
    parser.add_argument("--results", type=Path, default=CACHE, metavar="DIRECTORY")
    parser.add_argument("--rates", action="store_true", help="show rates of speech, and stop")
    parser.add_argument("--list", action="store_true", help="list the constants, and stop")
    parsed = parser.parse_args(argv)
    require_directories(parser, parsed.json)
    return parsed


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write the results; return exit code 0, or 2 after an error."""
    parsed = arguments(argv)
    if parsed.list:
        print(*inventory(), sep="\n")
        return 0
    program = Program(parsed)
    try:
        evaluate(program, parsed)
    except (corpora.CorpusError, speech.SpeechError, WhisperBatchError) as error:
        print(f"constants: {error}", file=sys.stderr)
        return 2
    finally:
        program.close()
    return 0


def evaluate(program: Program, parsed: argparse.Namespace) -> None:
    """Measure and print each check, and write the figures of all recordings as JSON."""
    if parsed.rates:
        print(*rates.table(program.rows()), sep="\n")
        return
    chosen = [c for c in CHECKS if c.kind in parsed.kinds and c.key in parsed.constants]
    values: dict[str, dict[str, dict[str, tuple[float, ...]]]] = {}
    kind = None
    for check in chosen:
        if check.kind != kind:
            kind = check.kind
            first, second = TITLES[kind]
            print(f"\n| {kind} | values | {first}, % | {second}, % | totals | worst |")
            print("|---|---|---|---|---|---|")
        results = program(check)
        print(row(check, results), flush=True)
        values[check.key] = {
            str(value): {
                name: (f.harmed, f.speech, f.passed, f.faults) for name, f in by_name.items()
            }
            for value, by_name in results.items()
        }
    if parsed.json:
        text = json.dumps({"model": parsed.model, "figures": values}, indent=1)
        parsed.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
