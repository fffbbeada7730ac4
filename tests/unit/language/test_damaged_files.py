"""`detect_language` on damaged files: a result or an AudioError, nothing else."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.unit.fakes import FakeEngine, noise
from tests.unit.media_files import encode
from whisperbatch import AudioError, Transcriber
from whisperbatch.types import LanguageDetection

RATE = 48_000
FORMATS = {
    "wav": ("wav", "pcm_s16le"),
    "flac": ("flac", "flac"),
    "mp3": ("mp3", "libmp3lame"),
    "m4a": ("ipod", "aac"),
    "aac": ("adts", "aac"),
    "ogg": ("ogg", "libopus"),
    "webm": ("webm", "libopus"),
    "ts": ("mpegts", "aac"),
    "mov": ("mov", "pcm_s16be"),
    "ac3": ("ac3", "ac3"),
}


@cache
def media(kind: str) -> bytes:
    return encode([noise(6)], *FORMATS[kind], rate=RATE)


def flipped(data: bytes, rng: np.random.Generator, first: int, last: int, count: int) -> bytes:
    """The data with `count` other bytes between two positions."""
    array = np.frombuffer(data, np.uint8).copy()
    last = min(last, len(data))
    array[rng.integers(first, last, count)] = rng.integers(0, 256, count, np.uint8)
    return array.tobytes()


def hole(data: bytes, rng: np.random.Generator) -> bytes:
    """The data without a stretch."""
    first, last = sorted(rng.integers(0, len(data), 2))
    return data[:first] + data[last:]


def shuffled(data: bytes, rng: np.random.Generator) -> bytes:
    """The data with its blocks in another order."""
    blocks = [data[start : start + 4096] for start in range(0, len(data), 4096)]
    return b"".join(blocks[number] for number in rng.permutation(len(blocks)))


Damage = Callable[[bytes, np.random.Generator], bytes]
DAMAGE: dict[str, Damage] = {
    "header": lambda data, rng: flipped(data, rng, 0, 400, 12),
    "start": lambda data, rng: flipped(data, rng, 8, 64, 3),
    "end": lambda data, rng: flipped(data, rng, len(data) * 9 // 10, len(data), 200),
    "everywhere": lambda data, rng: flipped(data, rng, 0, len(data), len(data) // 100),
    "cut": lambda data, rng: data[: int(rng.integers(1, len(data)))],
    "beginning lost": lambda data, rng: data[int(rng.integers(1, len(data))) :],
    "hole": hole,
    "zeros": lambda data, rng: data[:2000] + bytes(len(data) // 2) + data[2000:],
    "shuffled": shuffled,
    "twice": lambda data, rng: data + data[len(data) // 3 :],
}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_has_a_language_or_an_audio_error(
    kind: str, damage: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(list(f"{damage} {kind}".encode()))
    data = DAMAGE[damage](media(kind), rng)
    path = tmp_path / f"damaged.{kind}"
    path.write_bytes(data)
    with Transcriber(FakeEngine()) as asr:
        for source in (data, path):
            try:
                detection = asr.detect_language(source, vad=False)
            except AudioError as error:
                assert "\n" not in str(error)  # noqa: PT017 - the error is optional
            else:
                assert isinstance(detection, LanguageDetection)
    assert capfd.readouterr() == ("", "")
