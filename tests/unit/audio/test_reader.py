"""Kinds of sources, streaming, memory and closing."""

import io
import sys
import tracemalloc
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO, cast

import av
import numpy as np
import numpy.typing as npt
import psutil
import pytest

from tests.unit.media_files import LEVEL, bursts, encode, level, onset, pipe, read, tone, wav
from whisperbatch.audio.reader import open_audio
from whisperbatch.errors import AudioError, OptionError
from whisperbatch.options import Options
from whisperbatch.types import SAMPLING_RATE, Audio, Source

Array = npt.NDArray[np.float32] | npt.NDArray[np.int16]

PIPED = {
    "wav": ("wav", "pcm_s16le"),
    "mp3": ("mp3", "libmp3lame"),
    "ogg": ("ogg", "libopus"),
    "webm": ("webm", "libopus"),
    "adts": ("adts", "aac"),
}


@pytest.fixture(scope="module")
def flac() -> bytes:
    """Two seconds of stereo: 440 Hz in the left channel, 880 Hz in the right."""
    channels = [tone(440, 2, 48_000), tone(880, 2, 48_000)]
    return encode(channels, "flac", "flac", rate=48_000, layout="stereo")


class CountingStream(io.RawIOBase):
    """A stream without seeking that counts the bytes read from it, and can fail."""

    def __init__(self, data: bytes, *, fails_at: int | None = None) -> None:
        self._file = io.BytesIO(data)
        self._fails_at = fails_at
        self.bytes_read = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if self._fails_at is not None and self.bytes_read >= self._fails_at:
            raise RuntimeError("the line went dead")
        data = self._file.read(size)
        self.bytes_read += len(data)
        return data


def test_all_kinds_of_sources_return_the_same_samples(flac: bytes, tmp_path: Path) -> None:
    path = tmp_path / "12:30 café #1.flac"  # FFmpeg takes text before a colon for a protocol
    path.write_bytes(flac)
    expected = read(flac)
    sources = (path, str(path), bytearray(flac), memoryview(flac), io.BytesIO(flac))
    for source in sources:
        np.testing.assert_array_equal(read(cast("Source", source)), expected)
    with path.open("rb") as file:
        np.testing.assert_array_equal(read(file), expected)
        file.seek(0)  # the file is still open
        np.testing.assert_array_equal(read(file), expected)
    with pipe(flac) as file:
        np.testing.assert_allclose(read(file)[: len(expected)], expected, atol=1e-3)


@pytest.mark.parametrize(("container", "codec"), PIPED.values(), ids=PIPED)
def test_pipe_is_read_to_its_end(container: str, codec: str) -> None:
    recording = encode([bursts([0.5, 1.5], 2, 48_000)], container, codec, rate=48_000)
    with pipe(recording) as file:
        samples = read(file)
        assert not file.closed
    assert len(samples) / SAMPLING_RATE == pytest.approx(2, abs=0.06)
    assert onset(samples) == pytest.approx(0.5, abs=0.05)
    assert onset(samples, after=1) == pytest.approx(1.5, abs=0.05)


def test_dash_is_standard_input(flac: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(flac)))
    reader = open_audio("-", Options())
    assert reader.name == "<stdin>"
    assert sum(map(len, reader.blocks())) == 2 * SAMPLING_RATE
    reader.close()
    assert not sys.stdin.closed


def test_first_block_is_returned_before_the_file_is_read_completely() -> None:
    file = CountingStream(wav(SAMPLING_RATE, 1, 2, bytes(2 * SAMPLING_RATE * 600)))
    reader = open_audio(cast("BinaryIO", file), Options())
    assert len(next(reader.blocks())) <= 2 * SAMPLING_RATE
    assert file.bytes_read < 1_000_000  # of 19 million; FFmpeg reads a little ahead
    reader.close()
    assert not file.closed


@pytest.mark.parametrize("dtype", [np.float32, np.int16])
@pytest.mark.parametrize("rate", [8000, 16_000, 44_100])
def test_arrays(dtype: type[np.float32 | np.int16], rate: int) -> None:
    scale = 32767 if dtype is np.int16 else 1
    samples = cast("Array", (tone(440, 2.5, rate) * scale).astype(dtype))
    before = samples.copy()
    samples.flags.writeable = False
    for source, option in ((samples, rate), (Audio(samples, rate), None)):
        converted = read(source, sampling_rate=option)
        assert len(converted) == pytest.approx(2.5 * SAMPLING_RATE, abs=2)
        assert level(converted, 440) == pytest.approx(LEVEL, abs=0.001)
    np.testing.assert_array_equal(samples, before)
    strided = cast("Array", np.repeat(samples, 2)[::2])  # like one channel of stereo samples
    np.testing.assert_array_equal(read(strided, sampling_rate=rate), converted)


def test_blocks_do_not_share_memory_with_the_array() -> None:
    samples = tone(440, 1)
    block = next(open_audio(samples, Options()).blocks())
    assert not (np.shares_memory(block, samples) and block.flags.writeable)


def test_array_is_converted_block_by_block() -> None:
    samples = np.zeros(SAMPLING_RATE * 600, np.int16)
    tracemalloc.start()
    try:
        reader = open_audio(samples, Options(sampling_rate=8000))
        assert sum(map(len, reader.blocks())) == 2 * len(samples)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000  # of 19 million bytes
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_duration(tmp_path: Path) -> None:
    minute = encode([tone(440, 60, 8000)], "flac", "flac", rate=8000)
    path = tmp_path / "hour.mka"
    with av.open(str(path), "w", format="matroska") as output:
        with av.open(io.BytesIO(minute), "r") as source:
            copy = output.add_stream_from_template(source.streams.audio[0])
            packets = [bytes(packet) for packet in source.demux(audio=0) if packet.size]
        length = 60 * 8000 // len(packets)
        for number in range(60 * len(packets)):
            packet = av.Packet(packets[number % len(packets)])
            packet.pts = packet.dts = number * length
            packet.time_base, packet.stream = Fraction(1, 8000), copy
            output.mux(packet)
    process = psutil.Process()
    peaks: list[int] = []
    with open_audio(path, Options()) as reader:
        for number, _ in enumerate(reader.blocks()):
            if number % 60 == 0:
                peaks.append(process.memory_info().rss)
        assert reader.position / SAMPLING_RATE == pytest.approx(3600, abs=5)
    assert max(peaks[2:]) - peaks[2] < 8_000_000  # bytes; the samples are 230 million


def test_close_before_and_while_reading(flac: bytes) -> None:
    reader = open_audio(flac, Options())
    reader.close()
    reader.close()
    assert list(reader.blocks()) == []
    reader = open_audio(flac, Options())
    blocks = reader.blocks()
    first = next(blocks)
    copy = first.copy()
    reader.close()
    assert list(blocks) == []
    np.testing.assert_array_equal(first, copy)  # the block does not share FFmpeg's memory
    assert reader.position == len(first)


@pytest.mark.parametrize("fails_at", [0, 40_000])
def test_errors_of_a_file_object_are_audio_errors(flac: bytes, fails_at: int) -> None:
    file = CountingStream(flac, fails_at=fails_at)
    with pytest.raises(AudioError, match=r"<CountingStream>: cannot be .*the line went dead"):
        read(cast("BinaryIO", file))
    assert not file.closed


@pytest.mark.parametrize("max_duration", [1.0, 2.99])
def test_longer_recordings_than_the_limit_fail(max_duration: float) -> None:
    for source in (tone(440, 3), wav(8000, 1, 2, bytes(3 * 16_000))):
        with open_audio(source, Options(max_duration=max_duration)) as reader:
            with pytest.raises(AudioError, match=f"is longer than max_duration={max_duration:g} s"):
                list(reader.blocks())
            assert reader.position <= max_duration * SAMPLING_RATE


def test_recordings_up_to_the_limit_are_read() -> None:
    with open_audio(tone(440, 3), Options(max_duration=3)) as reader:
        assert sum(map(len, reader.blocks())) == 3 * SAMPLING_RATE
        with pytest.raises(OptionError, match="give max_duration to open_audio"):
            open_audio(reader, Options(max_duration=4))
