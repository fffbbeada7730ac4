"""A wav file that really contains ten hours, and wav files whose header states a wrong size."""

import io
import struct
from typing import BinaryIO, cast

import numpy as np
import psutil
import pytest

from tests.unit.media_files import BURST, BURST_TONE, bursts, onset, read, tone
from whisperbatch import chunk_audio, open_audio
from whisperbatch.types import SAMPLING_RATE, to_samples

HOURS = 10
SECONDS = 3600 * HOURS
SPEECH = (5.0, 18_000.25, SECONDS - 2.0)  # starts of the sounds, in seconds
BYTES = 2  # of a sample
MAX_GROWTH = 30_000_000  # bytes of memory, while ten hours are read

HEADERS = {
    "right": lambda size: riff(b"RIFF", 36 + size, b"", size),
    "unknown": lambda size: riff(b"RIFF", 0xFFFFFFFF, b"", 0xFFFFFFFF),
    "zero": lambda size: riff(b"RIFF", 0, b"", 0),
    "rf64": lambda size: riff(
        b"RF64",
        0xFFFFFFFF,
        struct.pack("<4sIQQQI", b"ds64", 28, 72 + size, size, size // BYTES, 0),
        0xFFFFFFFF,
    ),
}


def riff(name: bytes, total: int, extra: bytes, size: int) -> bytes:
    """The header of a wav file, with the sizes that it states."""
    rates = (SAMPLING_RATE, SAMPLING_RATE * BYTES, BYTES, 8 * BYTES)
    parts = [name, struct.pack("<I", total), b"WAVE", extra, b"fmt "]
    parts += [struct.pack("<IHHIIHH", 16, 1, 1, *rates), b"data", struct.pack("<I", size)]
    return b"".join(parts)


class LongWav(io.RawIOBase):
    """A wav file of silence with a few short sounds; its bytes are made when they are read."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        size = SECONDS * SAMPLING_RATE * BYTES
        self._header = HEADERS[kind](size)
        self._size = len(self._header) + size
        self._position = 0
        self._sound = (tone(BURST_TONE, BURST) * 32768).astype("<i2").tobytes()
        starts = [len(self._header) + to_samples(time) * BYTES for time in SPEECH]
        self._parts = [(0, self._header), *((start, self._sound) for start in starts)]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def read(self, size: int = -1, /) -> bytes:
        start = self._position
        data = bytearray(max(min(size, self._size - start), 0))
        self._position = end = start + len(data)
        for first, part in self._parts:
            low, high = max(first, start), min(first + len(part), end)
            if low < high:
                data[low - start : high - start] = part[low - first : high - first]
        return bytes(data)


def long_wav(kind: str) -> BinaryIO:
    return cast("BinaryIO", LongWav(kind))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["right", "rf64"])
def test_ten_hours_are_read_completely_in_bounded_memory(kind: str) -> None:
    process = psutil.Process()
    sounds: list[float] = []
    with open_audio(long_wav(kind)) as reader:
        blocks = reader.blocks()
        next(blocks)
        before = process.memory_info().rss
        for number, block in enumerate(blocks, 1):
            if block.any():
                sounds.append(reader.position / SAMPLING_RATE)
            if number % 3600 == 0:
                assert process.memory_info().rss - before < MAX_GROWTH
        assert reader.position == SECONDS * SAMPLING_RATE
    assert [round(time) for time in sounds] == [6, 18_001, SECONDS - 1]


@pytest.mark.slow
def test_the_end_of_ten_hours_is_found() -> None:
    with open_audio(long_wav("right")) as reader, reader.random_access() as recording:
        assert recording is not None
        assert recording.duration == SECONDS
        start, samples = recording.read(SPEECH[1] - 1, 3.0)
        assert start + onset(samples) == pytest.approx(SPEECH[1], abs=0.02)
    ranges = ((SECONDS - 3.0, None),)
    (chunk,) = chunk_audio(long_wav("right"), vad=False, clip_timestamps=ranges)
    assert (chunk.start, chunk.end) == (to_samples(SECONDS - 3.0), to_samples(SECONDS))
    assert onset(chunk.samples) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("kind", HEADERS)
def test_a_wrong_size_in_the_header_loses_no_sound(kind: str) -> None:
    sound = bursts([1.0, 8.5], 10)
    data = (sound * 32768).astype("<i2").tobytes()
    samples = read(HEADERS[kind](len(data)) + data)
    assert len(samples) == len(sound)
    np.testing.assert_allclose(samples, sound, atol=1e-4)
    assert onset(samples, after=5) == pytest.approx(8.5, abs=0.02)
