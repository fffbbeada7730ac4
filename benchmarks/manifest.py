"""Recordings of anybody's with their truth: a file of JSON, one recording a line.

    {"audio": "talk.mp3", "text": "Good morning. ...", "language": "en", "name": "talk",
     "utterances": [{"start": 1.25, "end": 2.5, "text": "Good morning."}, ...]}

`audio` counts from the manifest's own directory, `language` is Whisper's code. `name` and
`utterances` may be left out; without utterances nobody knows what was made up or missed, or when
a segment should start. A recording in which nobody speaks has no text and a list of none.
"""

import json
import re
import wave
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any

import av

from benchmarks.corpora import CorpusError
from benchmarks.recordings import SAMPLING_RATE, Recording, Utterance, write
from whisperbatch.errors import OptionError
from whisperbatch.text.languages import check_language

FILE = "corpus.jsonl"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: a recording on disk, and its truth as far as it is known."""

    name: str
    audio: Path
    text: str
    language: str
    utterances: tuple[Utterance, ...] | None = None


def read_manifest(path: Path) -> list[Entry]:
    """All recordings of a manifest.

    Raises:
        CorpusError: a line is wrong; the message begins with the file and the line's number.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"{path}: cannot be read: {error}") from error
    entries = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entries.append(_entry(json.loads(line), path.parent))
        except json.JSONDecodeError as error:
            raise CorpusError(f"{path}:{number}: no JSON: {error.msg}") from None
        except (CorpusError, OptionError) as error:
            raise CorpusError(f"{path}:{number}: {error}") from None
    if not entries:
        raise CorpusError(f"{path}: no recordings")
    return entries


def write_manifest(recordings: Iterable[Recording], directory: Path) -> Path:
    """Write recordings as wav files, and a manifest beside them, which is returned."""
    directory.mkdir(parents=True, exist_ok=True)
    lines = []
    for recording in recordings:
        audio = re.sub(r"[^\w.-]+", "-", recording.name) + ".wav"
        write(recording, directory / audio)
        value = {
            "name": recording.name,
            "audio": audio,
            "language": recording.utterances[0].language,
            "text": recording.text,
            "utterances": [
                {"start": spoken.start, "end": spoken.end, "text": spoken.text}
                for spoken in recording.utterances
            ],
        }
        lines.append(json.dumps(value, ensure_ascii=False) + "\n")
    path = directory / FILE
    path.write_text("".join(lines), encoding="utf-8")
    return path


def duration(path: Path) -> float:
    """Seconds of audio in a file, all of it decoded; raises CorpusError if that fails."""
    try:
        if path.suffix == ".wav":
            with wave.open(str(path), "rb") as file:
                return file.getnframes() / file.getframerate()
    except (wave.Error, EOFError):
        pass  # FFmpeg reads more kinds of wav
    try:
        with av.open(str(path)) as container:
            resampler = av.AudioResampler("s16", "mono", SAMPLING_RATE)
            blocks = (
                block for frame in container.decode(audio=0) for block in resampler.resample(frame)
            )
            return sum(block.samples for block in blocks) / SAMPLING_RATE
    except (av.FFmpegError, IndexError) as error:
        raise CorpusError(f"{path}: no audio that can be read: {error}") from error


def _entry(value: Any, directory: Path) -> Entry:  # noqa: ANN401 - whatever JSON holds
    if not isinstance(value, dict):
        raise CorpusError('a recording is an object: {"audio": ..., "text": ..., "language": ...}')
    audio = directory / _text(value, "audio")
    if not audio.is_file():
        raise CorpusError(f"there is no file {audio}")
    language = check_language(_text(value, "language"))
    utterances = value.get("utterances")
    return Entry(
        name=_text(value, "name") if "name" in value else audio.stem,
        audio=audio,
        text=_text(value, "text"),
        language=language,
        utterances=None if utterances is None else _utterances(utterances, language),
    )


def _utterances(values: Any, language: str) -> tuple[Utterance, ...]:  # noqa: ANN401 - likewise
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise CorpusError('utterances are a list of {"start": ..., "end": ..., "text": ...}')
    found = tuple(
        Utterance(_seconds(value, "start"), _seconds(value, "end"), _text(value, "text"), language)
        for value in values
    )
    for number, spoken in enumerate(found, 1):
        if not 0 <= spoken.start < spoken.end:
            raise CorpusError(
                f"utterance {number} is from {spoken.start:g} to {spoken.end:g} seconds"
            )
    for number, (one, other) in enumerate(pairwise(found), 2):
        if other.start < one.start:
            raise CorpusError(f"utterance {number} starts before the one before it")
    return found


def _text(value: dict[str, Any], key: str) -> str:
    found = value.get(key)
    if not isinstance(found, str) or (key == "audio" and not found):
        raise CorpusError(f'"{key}" must be text' + ("" if key in value else ", and is missing"))
    return found


def _seconds(value: dict[str, Any], key: str) -> float:
    found = value.get(key)
    if isinstance(found, bool) or not isinstance(found, int | float) or not isfinite(found):
        raise CorpusError(f'"{key}" of an utterance must be seconds, not {found!r}')
    return float(found)
