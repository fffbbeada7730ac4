"""Diarization error rates of whisperbatch and others on conversations between recorded voices.

    make diarizers
    .venv-diarizers/bin/python -m benchmarks.diarization --seeds 3 --json results.json

One line for each class of conversations and system:

    DER      diarization error rate in percent, overlaps counted, without collar
    DER .25  without 0.25 s on each side of the starts and ends of the reference
    miss, false alarm, confusion   the parts of the DER without collar
    words    share of the words with a wrong speaker, in percent (`words`; Whisper base transcribes)
    cpWER    of Whisper's words with the speakers found, in percent, where all text is known
    right    in how many of the conversations the number of speakers is right
    speed    seconds of audio per second, without loading the models
"""

import argparse
import json
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.diarization import conversations, measures, systems, words
from benchmarks.diarization.conversations import CLASSES, SAMPLE
from benchmarks.diarization.measures import Diarization
from benchmarks.diarization.systems import DiarizerError
from benchmarks.speech import SpeechError

HEADER = (
    "class            system          DER  DER .25   miss  false  conf.  words  cpWER"
    "   right   speed"
)


def main(arguments: list[str] | None = None) -> None:
    """Print the table, a line as soon as it is known."""
    options = _parser().parse_args(arguments)
    print(HEADER)
    rows: list[dict[str, Any]] = []
    for name in options.classes:
        for system in options.systems:
            try:
                rows.append(_row(name, system, options))
            except (DiarizerError, SpeechError, conversations.VoiceError) as error:
                print(f"{name:16} {system:13} {error}", flush=True)
                continue
            print(line(rows[-1]), flush=True)
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    if not rows:
        sys.exit("diarization: nothing was measured")


def _row(name: str, system: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the measurements of a system on a class, as a row of the JSON file."""
    total = Diarization()
    each = []
    wrong = said = 0
    rates: list[float] = []
    version = ""
    seeds = 1 if name == SAMPLE else options.seeds
    for seed in range(options.first_seed, options.first_seed + seeds):
        talk = conversations.build(
            name, seed, options.set, options.minutes, with_text=options.with_text
        )
        told = len(talk.speakers) if options.tell_speakers else None
        result = systems.run(system, talk, told, dict(options.models).get(system))
        measured = measures.measure(talk.turns, result.turns, talk.duration, result.took)
        each.append({"name": talk.name, **figures(measured)})
        if not options.no_words:
            errors, count, rate = words.measure(talk, result.turns, result.exclusive)
            wrong, said = wrong + errors, said + count
            rates += [rate] if rate is not None else []
            each[-1]["cpwer"] = rate
        total, version = total + measured, result.version
    return {
        "class": name,
        "system": system,
        "version": version,
        "set": options.set,
        "told": options.tell_speakers,
        "with_text": options.with_text,
        **figures(total),
        "wrong_words": wrong / said if said else None,
        "cpwer": mean(rates) if rates else None,
        "each": each,
    }


def figures(measured: Diarization) -> dict[str, Any]:
    """Return the measurements by name; error rates are fractions."""
    return {
        "der": measured.exact.rate,
        "der_collar": measured.tolerant.rate,
        "exact": asdict(measured.exact),
        "tolerant": asdict(measured.tolerant),
        "speakers": measured.speakers,
        "right": measured.right_counts,
        "seconds": measured.seconds,
        "took": measured.took,
    }


def line(row: dict[str, Any]) -> str:
    """Return a row of the table."""
    exact = row["exact"]
    parts = [
        100 * exact[part] / (exact["speech"] or 1)
        for part in ("missed", "false_alarm", "confusion")
    ]
    right = f"{row['right']} of {len(row['speakers'])}"
    speed = row["seconds"] / row["took"] if row["took"] else 0.0
    return (
        f"{row['class']:16} {row['system']:13} {100 * row['der']:5.1f}    "
        f"{100 * row['der_collar']:5.1f}  {parts[0]:5.1f}  {parts[1]:5.1f}  {parts[2]:5.1f}"
        f"  {_percent(row.get('wrong_words'))}  {_percent(row.get('cpwer'))}"
        f"  {right:>6}  {speed:5.1f}x"
    )


def _percent(share: float | None) -> str:
    return "    -" if share is None else f"{100 * share:5.1f}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.diarization",
        description=(__doc__ or "").partition("\n")[0],
        formatter_class=partial(argparse.ArgumentDefaultsHelpFormatter, width=100),
    )
    every = [SAMPLE, *CLASSES]
    parser.add_argument("--set", choices=("development", "test"), default="test")
    usual = [name for name in every if name != "long"]
    parser.add_argument("--classes", nargs="+", choices=every, default=usual, metavar="CLASS")
    parser.add_argument(
        "--systems",
        nargs="+",
        choices=systems.SYSTEMS,
        default=["whisperbatch", "senko", "senko-speech"],
    )
    parser.add_argument("--seeds", type=int, default=1, help="conversations of each class")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, help="duration; by default that of the class")
    parser.add_argument(
        "--tell-speakers", action="store_true", help="tell the systems how many speakers there are"
    )
    parser.add_argument(
        "--with-text", action="store_true", help="only voices whose text is known, for the cpWER"
    )
    parser.add_argument("--no-words", action="store_true", help="measure no words")
    parser.add_argument("--models", nargs="+", type=_models, default=[], metavar="SYSTEM=DIRECTORY")
    parser.add_argument("--json", type=Path, help="write all measurements to a file")
    return parser


def _models(text: str) -> tuple[str, Path]:
    system, _, directory = text.partition("=")
    if system not in systems.NEEDS_MODELS or not Path(directory).is_dir():
        known = ", ".join(f"{name}=DIRECTORY" for name in systems.NEEDS_MODELS)
        raise argparse.ArgumentTypeError(f"expected {known}, with an existing directory")
    return system, Path(directory)


if __name__ == "__main__":
    try:
        main()
    except ModuleNotFoundError as error:
        sys.exit(f"diarization: {error.name} is not installed; run `make diarizers`")
