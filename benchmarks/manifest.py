"""Manifests: JSON lines that list your own recordings with their truth.

    {"audio": "talk.mp3", "text": "Good morning. ...", "language": "en", "name": "talk",
     "utterances": [{"start": 1.25, "end": 2.5, "text": "Good morning."}, ...]}

`audio` is relative to the manifest's directory; `language` is Whisper's code. `name` and
`utterances` are optional. Without utterances, made-up words, missed speech and segment starts are
not measured. A recording without speech has an empty text and an empty list of utterances.
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
from whisperbatch.text.language_names import check_language

FILE = "corpus.jsonl"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a manifest: a file with its text and, if known, its utterances."""

    name: str
    audio: Path
    text: str
    language: str
    utterances: tuple[Utterance, ...] | None = None


def read_manifest(path: Path) -> list[Entry]:
    """Return all recordings of a manifest.

    Raises:
        CorpusError: a line is wrong; the message starts with the file and the line number.
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
            raise CorpusError(f"{path}:{number}: not JSON: {error.msg}") from None
        except (CorpusError, OptionError) as error:
            raise CorpusError(f"{path}:{number}: {error}") from None
    if not entries:
        raise CorpusError(f"{path}: no recordings")
    return entries


def write_manifest(recordings: Iterable[Recording], directory: Path) -> Path:
    """Write recordings as wav files with a manifest in the same directory; return its path."""
    directory.mkdir(parents=True, exist_ok=True)
    lines = []
    for recording in recordings:
        audio = re.sub(r"[^\w.-]+", "-", recording.name) + ".wav"
        write(recording, directory / audio)
        value = {
            "name": recording.name,
            "audio": audio,
            "language": recording.language,
            "text": recording.text,
            "utterances": [
                {"start": utterance.start, "end": utterance.end, "text": utterance.text}
                for utterance in recording.utterances
            ],
        }
        lines.append(json.dumps(value, ensure_ascii=False) + "\n")
    path = directory / FILE
    path.write_text("".join(lines), encoding="utf-8")
    return path


def duration(path: Path) -> float:
    """Return the seconds of audio in a file by decoding it; raise CorpusError if that fails."""
    try:
        if path.suffix == ".wav":
            with wave.open(str(path), "rb") as file:
                return file.getnframes() / file.getframerate()
    except (wave.Error, EOFError):
        pass  # FFmpeg reads more wav formats
    try:
        with av.open(str(path)) as container:
            resampler = av.AudioResampler("s16", "mono", SAMPLING_RATE)
            blocks = (
                block for frame in container.decode(audio=0) for block in resampler.resample(frame)
            )
            return sum(block.samples for block in blocks) / SAMPLING_RATE
    except (av.FFmpegError, IndexError) as error:
        raise CorpusError(f"{path}: has no readable audio: {error}") from error


def _entry(value: Any, directory: Path) -> Entry:  # noqa: ANN401 - any JSON value
    if not isinstance(value, dict):
        raise CorpusError(
            'a recording must be an object: {"audio": ..., "text": ..., "language": ...}'
        )
    audio = directory / _text(value, "audio")
    if not audio.is_file():
        raise CorpusError(f"no such file: {audio}")
    language = check_language(_text(value, "language"))
    utterances = value.get("utterances")
    return Entry(
        name=_text(value, "name") if "name" in value else audio.stem,
        audio=audio,
        text=_text(value, "text"),
        language=language,
        utterances=None if utterances is None else _utterances(utterances, language),
    )


def _utterances(values: Any, language: str) -> tuple[Utterance, ...]:  # noqa: ANN401 - any JSON value
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise CorpusError('utterances must be a list of {"start": ..., "end": ..., "text": ...}')
    utterances = tuple(
        Utterance(_seconds(value, "start"), _seconds(value, "end"), _text(value, "text"), language)
        for value in values
    )
    for number, utterance in enumerate(utterances, 1):
        if not 0 <= utterance.start < utterance.end:
            raise CorpusError(
                f"utterance {number} is from {utterance.start:g} to {utterance.end:g} seconds"
            )
    for number, (previous, utterance) in enumerate(pairwise(utterances), 2):
        if utterance.start < previous.start:
            raise CorpusError(f"utterance {number} starts before utterance {number - 1}")
    return utterances


def _text(value: dict[str, Any], key: str) -> str:
    text = value.get(key)
    if not isinstance(text, str) or (key == "audio" and not text):
        raise CorpusError(f'"{key}" must be text' + ("" if key in value else ", and is missing"))
    return text


def _seconds(value: dict[str, Any], key: str) -> float:
    time = value.get(key)
    if isinstance(time, bool) or not isinstance(time, int | float) or not isfinite(time):
        raise CorpusError(f'"{key}" of an utterance must be seconds, not {time!r}')
    return float(time)
