"""Measure lost speech and invented words on difficult voices and on sounds without speech.

python -m benchmarks.lost_speech                                  # the test half, beam 5 and 1
python -m benchmarks.lost_speech --minutes 2 --corpora hoarse whispered animals
python -m benchmarks.lost_speech --half development --option vad_onset=0.3
python -m benchmarks.lost_speech --model tiny.en --languages en   # an English-only model

For each corpus (benchmarks/lost_speech/turns.py and nonspeech.py) and system:

    WER %          errors per 100 words of the truth
    missed %       speech that is more than 0.5 s from every recognized word
    lost %         speech in utterances of which no word is correct
    invented/min   words more than 0.5 s from any utterance, per minute without speech
    speed          times real time, including reading and word times

Each figure is compared with that of the reference, faster-whisper's sequential mode at beam 5, by a
paired bootstrap over recordings: `!` is significantly worse, `+` significantly better (95 %); `?`
marks corpora of fewer than five recordings. Results of single recordings are kept in
`.cache/lost_speech`: a stopped run continues, and after a change of whisperbatch only its own
results are computed again.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from math import ceil
from pathlib import Path
from typing import Any, Final

from benchmarks import corpora, manifest, speech, systems
from benchmarks.accuracy import option, system_name
from benchmarks.arguments import require_directories
from benchmarks.lost_speech import nonspeech, turns
from benchmarks.lost_speech.bootstrap import MIN_RECORDINGS
from benchmarks.lost_speech.report import TITLES, Report
from benchmarks.lost_speech.results import PACKAGES, Result, Results
from benchmarks.measures import measure
from whisperbatch.errors import WhisperBatchError

SYSTEMS = ("faster-whisper-5", "whisperbatch-5", "whisperbatch-1")
REFERENCE: Final = "faster-whisper-5"
CORPORA = (*turns.KINDS, *nonspeech.KINDS)
HALVES = ("development", "test")
MAX_RECORDING: Final = 120.0  # seconds
CACHE: Final = Path(__file__).parents[2] / ".cache" / "lost_speech"


def recording_names(
    corpus: str, half: str, minutes: float, languages: Sequence[str] = speech.LANGUAGES
) -> list[str]:
    """Return the names of a corpus's recordings: 1 to 2 minutes each, the languages in turn."""
    count = max(ceil(60 * minutes / MAX_RECORDING), min(int(minutes), MIN_RECORDINGS))
    seconds = f"{60 * minutes / count:g}"
    return [
        f"{corpus}:{languages[number % len(languages)]}:{seconds}:"
        f"{2 * (number // len(languages)) + HALVES.index(half)}"
        for number in range(count)
    ]


def measured(
    recordings: Sequence[str], names: Sequence[str], results: Results, parsed: argparse.Namespace
) -> Iterator[tuple[str, str, Result]]:
    """Yield each recording and system with its result; known results are loaded."""
    known = {
        (recording, name): results.load(recording, name)
        for recording in recordings
        for name in names
    }
    pending = dict.fromkeys(name for (_, name), result in known.items() if result is None)
    options = systems.check_options(dict(parsed.option))
    with (
        systems.open_systems(pending, parsed.model, options) as opened,
        tempfile.TemporaryDirectory() as directory,
    ):
        for recording in recordings:
            for name in names:
                result = known[recording, name]
                if result is None:
                    result = _run(recording, opened[name], Path(directory, recording))
                    results.save(recording, name, result)
                yield recording, name, result


def _run(recording: str, system: systems.System, directory: Path) -> Result:
    """Run a system on a recording, which is written to `directory` at first use."""
    path = directory / manifest.FILE
    if not path.is_file():
        manifest.write_manifest([corpora.build(recording)], directory)
    (entry,) = manifest.read_manifest(path)
    _, language, _, _ = corpora.parse(recording)  # also of a recording without speech
    started = time.perf_counter()
    transcript = system(entry.audio, language)
    took = time.perf_counter() - started
    accuracy = measure(entry, transcript, manifest.duration(entry.audio), took)
    return Result(accuracy, transcript.text, transcript.counts)


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.lost_speech",
        description="Lost speech and invented words on difficult voices and on other sounds.",
    )
    parser.add_argument(
        "--corpora", nargs="+", choices=corpora.KINDS, default=CORPORA, metavar="NAME"
    )
    parser.add_argument("--systems", nargs="+", type=system_name, default=SYSTEMS, metavar="NAME")
    parser.add_argument(
        "--languages",
        nargs="+",
        choices=speech.LANGUAGES,
        default=speech.LANGUAGES,
        metavar="CODE",
    )
    parser.add_argument("--half", choices=HALVES, default="test")
    parser.add_argument("--minutes", type=minutes, default=10.0, help="of each corpus")
    parser.add_argument("--model", default="base")
    parser.add_argument(
        "--option", nargs="+", action="extend", type=option, default=[], metavar="NAME=VALUE"
    )
    parser.add_argument("--json", type=Path, metavar="out.json")
    parser.add_argument("--results", type=Path, default=CACHE, metavar="DIRECTORY")
    parsed = parser.parse_args(argv)
    require_directories(parser, parsed.json)
    return parsed


def minutes(text: str) -> float:
    """Parse the minutes of a corpus."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.5 <= value <= 1440:
        raise argparse.ArgumentTypeError(f"{text}: write minutes from 0.5 to 1440")
    return value


def evaluate(parsed: argparse.Namespace) -> None:
    """Measure, print and write the results."""
    names = list(dict.fromkeys([REFERENCE, *parsed.systems]))
    results = Results(parsed.results, parsed.model, dict(parsed.option))
    about: dict[str, Any] = {
        "model": parsed.model,
        "half": parsed.half,
        "minutes": parsed.minutes,
        "languages": list(parsed.languages),
        "options": dict(parsed.option),
        "reference": REFERENCE,
        "versions": {name: version(name) for name in PACKAGES},
    }
    report = Report(about, names, REFERENCE)
    chosen = list(dict.fromkeys(parsed.corpora))
    recordings = {
        name: corpus
        for corpus in chosen
        for name in recording_names(corpus, parsed.half, parsed.minutes, parsed.languages)
    }
    print(TITLES, flush=True)
    last = {corpus: (name, names[-1]) for name, corpus in recordings.items()}
    for recording, system, result in measured(list(recordings), names, results, parsed):
        corpus = recordings[recording]
        report.add(corpus, system, recording, result)
        if last[corpus] == (recording, system):
            print(*report.lines(corpus, [corpus]), sep="\n", flush=True)
    totals = {
        "speech": [corpus for corpus in chosen if corpus not in nonspeech.KINDS],
        "no speech": [corpus for corpus in chosen if corpus in nonspeech.KINDS],
        "all": chosen,
    }
    groups = {title: members for title, members in totals.items() if len(members) > 1}
    for title, members in groups.items():
        print(*report.lines(title, members), sep="\n")
    if parsed.json:
        text = json.dumps(report.value(groups), ensure_ascii=False, indent=1)
        parsed.json.write_text(text + "\n", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write the results; return exit code 0, or 2 after an error."""
    parsed = arguments(argv)
    try:
        evaluate(parsed)
    except (corpora.CorpusError, speech.SpeechError, WhisperBatchError) as error:
        print(f"lost_speech: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
