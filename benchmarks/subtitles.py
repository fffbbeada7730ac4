"""Faults of subtitles: whisperbatch's rules beside openai-whisper's and WhisperX's writers.

python -m benchmarks.subtitles                           # our own writers
python -m benchmarks.subtitles --transcripts DIR --list  # with each faulty cue

The writers of openai-whisper and WhisperX are in the table if their packages are found:

pip install --no-deps --target DIR openai-whisper whisperx
PYTHONPATH=DIR python -m benchmarks.subtitles

Ten recordings in six languages and more are transcribed once, with their words; `--transcripts`
keeps the transcripts in a folder. All writers get the same words.

This module judges files with its own reader, its own lists of words and its own numbers, so that a
fault of the package's rules is found, too. "Forced" are faults that no other times could avoid: the
cue has all the time between its neighbours, or it is a single word.
"""

import argparse
import json
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

import whisperbatch as wb
from benchmarks import clips, corpora, recordings
from benchmarks.diarization import conversations
from whisperbatch.writers import SubtitleOptions, render

RECORDINGS: Final = (
    *("prompts:en:300:0", "dense:en:300:0", "read:en:200:0", "sped_up:en:180:0"),
    *("prompts:es:200:0", "prompts:fr:200:0", "prompts:it:200:0", "prompts:ru:200:0"),
    *("switching", "clips", "conversation"),
)
MODEL: Final = "base"
WIDTHS: Final = {"ja": 26, "zh": 32, "ko": 32, "ru": 39}
SPEEDS: Final = {"en": 20.0, "ar": 20.0, "hi": 22.0, "ja": 8.0, "zh": 18.0, "ko": 24.0}
FRAME: Final = 1000 / 24  # ms
FORMAT_ERROR: Final = 1  # ms: times are rounded
CUE: Final = re.compile(
    r"(\d+):(\d\d):(\d\d),(\d{3}) --> (\d+):(\d\d):(\d\d),(\d{3})\n(.*?)(?=\n\n|\n*\Z)", re.DOTALL
)
FAULTS: Final = (
    *("line too long", "more than two lines", "too fast", "under 5/6 s", "over 7 s"),
    *("gap", "overlap", "bad break", "orphan"),
)

# fmt: off
BOUND: Final = {
    "en": "a an the my your his her its our their this these of in on at by for from to with "
          "without into about and or but that which if because is are was were be has have had "
          "will would can could may must not very your dr mr mrs no",
    "es": "el la los las un una su sus mi este esta de del en a al con por para sin que y o es "
          "son no ha se más muy",
    "fr": "le la les un une des du de à au aux en dans sur par pour avec sans et ou mais que qui "
          "son sa ses votre vos notre ce cette est sont ne se très plus",
    "it": "il lo la i gli le un una di del della dei in nel nella a al alla con per da dal su e o "
          "ma che è sono non si suo sua molto più",
    "ru": "в во на с со к о об от до из у за под по для без и а но или что если не ни",
    "de": "der die das den dem ein eine einen von zu mit für auf in im und oder aber dass ist "
          "sind nicht sehr",
    "pt": "o a os as um uma de do da em no na com por para sem que e ou é são não se seu sua",
    "pl": "w we z ze na do od dla po przez i a oraz lub że nie jest są",
}
# fmt: on


@dataclass(frozen=True, slots=True)
class ShownCue:
    """A cue of a file: times in milliseconds, and lines."""

    start: int
    end: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a cue."""

    number: int
    kind: str
    forced: bool


def read_srt(text: str) -> list[ShownCue]:
    """Return the cues of a SubRip file."""
    return [
        ShownCue(
            _time(*match.groups()[:4]), _time(*match.groups()[4:8]), tuple(match[9].split("\n"))
        )
        for match in CUE.finditer(text)
    ]


def _time(*parts: str) -> int:
    """Return hours, minutes, seconds and milliseconds as milliseconds."""
    hours, minutes, seconds, fraction = map(int, parts)
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + fraction


def width(text: str) -> int:
    """Return the columns of a text: two for a full-width character, none for a mark."""
    columns = 0
    for character in text:
        if unicodedata.category(character) not in {"Mn", "Me", "Cf"}:
            columns += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return columns


def faults(cues: Sequence[ShownCue], transcript: wb.Transcript) -> Iterator[Fault]:
    """Yield the faults of the cues of a transcript's file."""
    languages = [_segment_at(cue, transcript).language for cue in cues]
    starts = sorted(word.start * 1000 for s in transcript.segments for word in s.words or ())
    for number, (cue, language) in enumerate(zip(cues, languages, strict=True)):
        before = cues[number - 1] if number else None
        after = cues[number + 1] if number + 1 < len(cues) else None
        for kind, forced in _faults_of(cue, language, before, after, starts):
            yield Fault(number + 1, kind, forced)
        if before and cue.start < before.end - FORMAT_ERROR:
            yield Fault(number + 1, "overlap", forced=False)
        elif before and not _is_good_gap(cue.start - before.end):
            yield Fault(number + 1, "gap", forced=False)
        for first, second in pairwise(cue.lines):
            if is_bad_break(first, second, language):
                forced = not _has_better_lines(" ".join(cue.lines), language)
                yield Fault(number + 1, "bad break", forced)
        same = after and _segment_at(cue, transcript) is _segment_at(after, transcript)
        if after and same and is_bad_break(cue.lines[-1], after.lines[0], language):
            yield Fault(number + 1, "bad break", forced=False)


def _faults_of(
    cue: ShownCue,
    language: str,
    before: ShownCue | None,
    after: ShownCue | None,
    word_starts: Sequence[float],
) -> Iterator[tuple[str, bool]]:
    """Yield the faults of a single cue, and whether its neighbours and its speech force them."""
    duration = cue.end - cue.start
    text = " ".join(cue.lines)
    spoken = next((start for start in word_starts if start >= cue.start - 1), cue.start)
    full_after = after is not None and after.start - cue.end <= 2 * FRAME + 2
    full_before = before is not None and cue.start - before.end <= 2 * FRAME + 2
    has_no_time = full_after and (full_before or spoken - cue.start >= 3 * FRAME - 2)
    limit = WIDTHS.get(language, 42)
    for line in cue.lines:
        if width(line) > limit:
            yield "line too long", " " not in line.strip() and language not in WIDTHS
    if len(cue.lines) > 2:
        yield "more than two lines", False
    if sum(map(width, cue.lines)) * 1000 > (duration + FORMAT_ERROR) * SPEEDS.get(language, 17.0):
        yield "too fast", has_no_time
    if duration < 20 * FRAME - FORMAT_ERROR:
        yield "under 5/6 s", has_no_time
    if duration > 7000 + FORMAT_ERROR:
        yield "over 7 s", " " not in text
    if len(cue.lines) > 1 and language not in {"ja", "zh"}:
        short = min(cue.lines, key=width)
        ended = re.search(r"[.?!,:…]$", cue.lines[0])
        if " " not in short.strip() and not ended:
            yield "orphan", False


def _has_better_lines(text: str, language: str) -> bool:
    """Return whether a text can be divided into two lines that do not end badly."""
    words = text.split()
    limit = WIDTHS.get(language, 42)
    divisions = ((" ".join(words[:n]), " ".join(words[n:])) for n in range(2, len(words) - 1))
    return any(
        max(map(width, lines)) <= limit and not is_bad_break(*lines, language)
        for lines in divisions
    )


def _segment_at(cue: ShownCue, transcript: wb.Transcript) -> wb.Segment:
    """Return the segment that is spoken in the middle of a cue, or the nearest one."""
    middle = (cue.start + cue.end) / 2000
    return min(transcript.segments, key=lambda s: max(s.start - middle, middle - s.end, 0.0))


def _is_good_gap(gap: int) -> bool:
    """Return whether a gap is two frames, or at least half a second."""
    return abs(gap - 2 * FRAME) <= FORMAT_ERROR + 1 or gap >= 12 * FRAME - FORMAT_ERROR


def is_bad_break(before: str, after: str, language: str) -> bool:
    """Return whether a line ends inside a phrase: by own lists, and by numbers and names."""
    if not before.strip() or not after.strip() or language not in BOUND:
        return False
    last, first = before.rsplit(maxsplit=1)[-1], after.split(maxsplit=1)[0]
    bare = last.casefold().rstrip(".")
    if re.search(r"\d$", last) and first[:1].islower():
        return first not in BOUND[language].split()
    if bare in {"no", "nr", "núm"} and last.endswith("."):
        return first[:1].isdigit()
    if re.search(r"[.,;:?!…]$", last) and bare not in {"dr", "mr", "mrs", "st", "prof"}:
        return False
    return bare in BOUND[language].split()


def transcripts(folder: Path) -> Iterator[tuple[str, wb.Transcript]]:
    """Yield each recording's transcript, from the folder or transcribed into it."""
    model = None
    for name in RECORDINGS:
        path = folder / f"{name.replace(':', '_')}.json"
        if not path.exists():
            model = model or wb.load(MODEL)
            samples, options = _recording(name)
            transcript = model.transcribe(samples, word_timestamps=True, **options)
            path.write_text(json.dumps(transcript.to_dict(), ensure_ascii=False), encoding="utf-8")
        value = json.loads(path.read_text(encoding="utf-8"))
        yield name, wb.Transcript.from_dict(value)


def _recording(name: str) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    """Return the samples of a recording, and the options of its transcription."""
    if name == "conversation":
        talk = conversations.build("three", seed=0, part="development")
        return talk.samples, {"language": "en", "diarize": True}
    if name == "clips":  # nine languages, then a telephone call
        paused = [(2.0, clip) for clip in (*clips.audioeval_clips(), clips.telephone_clip())]
        return recordings.assemble(name, paused, seed=0).samples, {"multilingual": True}
    if name == "switching":
        return recordings.switching(duration=300).samples, {"multilingual": True}
    recording = corpora.build(name)
    return recording.samples, {"language": recording.language}


Writer = Callable[[wb.Transcript], str]


def writers() -> dict[str, Writer]:
    """Return the writers by name: those of other programs only if they are installed."""
    names = ("plain", "netflix")  # the others have other rules than this checker
    found: dict[str, Writer] = {
        f"whisperbatch, {name}": lambda transcript, name=name: render(  # type: ignore[misc]
            transcript, "srt", SubtitleOptions(subtitle_rules=name, speaker_style="none")
        )
        for name in names
    }
    for label, module, words in (
        ("openai-whisper, 42 x 2", "whisper", str),
        ("WhisperX, 42 x 2", "whisperx", str.strip),
    ):
        limits = {"max_line_width": 42, "max_line_count": 2}
        if writer := _foreign_writer(module, limits, words):
            found[label] = writer
    no_limits = {"max_line_width": None, "max_line_count": None}
    if writer := _foreign_writer("whisperx", no_limits, str.strip):
        found["WhisperX, default"] = writer
    return found


def _foreign_writer(
    package: str, limits: dict[str, Any], spelling: Callable[[str], str]
) -> Writer | None:
    """Return the writer of another program; None if it is not installed.

    Its module is loaded alone, because the package imports PyTorch.
    """
    found = find_spec(package)
    if found is None or found.origin is None:
        return None
    spec = spec_from_file_location(f"{package}_utils", Path(found.origin).with_name("utils.py"))
    if spec is None or spec.loader is None:
        return None
    utils = module_from_spec(spec)
    spec.loader.exec_module(utils)

    def write(transcript: wb.Transcript) -> str:
        segments = [
            {
                "start": segment.start,
                "end": segment.end,
                "text": segment.text,
                "words": [
                    {"word": spelling(word.word), "start": word.start, "end": word.end}
                    for word in segment.words or ()
                ],
            }
            for segment in transcript.segments
        ]
        options = {"highlight_words": False, "max_words_per_line": None, **limits}
        result = {"segments": segments, "language": transcript.language}
        with TemporaryDirectory() as folder:
            utils.get_writer("srt", folder)(result, "a.wav", options)
            return (Path(folder) / "a.srt").read_text(encoding="utf-8")

    return write


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; return exit code 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.subtitles")
    parser.add_argument("--transcripts", type=Path, metavar="DIRECTORY")
    parser.add_argument("--list", action="store_true", help="print each faulty cue")
    arguments = parser.parse_args(argv)
    with TemporaryDirectory() as temporary:
        folder = arguments.transcripts or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        texts = list(transcripts(folder))
    print(f"| writer | cues | {' | '.join(FAULTS)} |")
    print("|---" * (len(FAULTS) + 2) + "|")
    for label, writer in writers().items():
        count, kinds, forced = 0, Counter[str](), Counter[str]()
        for name, transcript in texts:
            cues = read_srt(writer(transcript))
            count += len(cues)
            for fault in faults(cues, transcript):
                kinds[fault.kind] += 1
                forced[fault.kind] += fault.forced
                if arguments.list:
                    lines = " / ".join(cues[fault.number - 1].lines)
                    print(label, name, fault, lines, file=sys.stderr)
        cells = [
            f"{kinds[kind]} ({forced[kind]})" if forced[kind] else f"{kinds[kind]}"
            for kind in FAULTS
        ]
        print(f"| {label} | {count} | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
