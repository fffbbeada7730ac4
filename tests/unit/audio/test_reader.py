"""Kinds of sources, streaming, memory, closing, and reading from a later sample."""

import io
import struct
import sys
import tracemalloc
from contextlib import closing
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import BinaryIO, cast

import av
import numpy as np
import numpy.typing as npt
import psutil
import pytest

from tests.unit.media_files import (
    BURST,
    BURST_TONE,
    LEVEL,
    bursts,
    damage,
    encode,
    level,
    onset,
    pipe,
    read,
    tone,
    wav,
)
from whisperbatch import chunk_audio
from whisperbatch.audio import media
from whisperbatch.audio.file_objects import FileObject
from whisperbatch.audio.media import MediaDecoder
from whisperbatch.audio.reader import open_audio
from whisperbatch.audio.track import Track
from whisperbatch.errors import AudioError, OptionError
from whisperbatch.options import Options
from whisperbatch.types import (
    SAMPLING_RATE,
    Audio,
    Notices,
    Samples,
    Source,
    Span,
    SpanSource,
    to_samples,
)

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
    """A stream without seeking that counts the bytes read from it."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)
        self.bytes_read = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
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


SECONDS = 12
STARTS = (0, 1, 16_000, 31_999, 80_000, 100_003, 16_000 * (SECONDS + 5))
LATE = Span(1)  # begins at 283.616 s


def noise(rate: int, seconds: float = SECONDS) -> Samples:
    return (0.1 * np.random.default_rng(3).standard_normal(round(seconds * rate))).astype(
        np.float32
    )


@cache
def encoded_media(container: str, codec: str, rate: int, channels: int = 1) -> bytes:
    layout = {1: "mono", 2: "stereo", 6: "5.1"}[channels]
    planes = [noise(rate) * np.float32((1 + number) / channels) for number in range(channels)]
    return encode(planes, container, codec, rate=rate, layout=layout)


@cache
def from_the_start(kind: tuple[str, str, int, int]) -> Samples:
    return read(encoded_media(*kind))


def decoded(data: bytes, start: int, path: Path | None = None) -> tuple[int, Samples]:
    """Return the position and the samples of a decoder that begins before `start`."""
    file = str(path) if path else FileObject("memory", io.BytesIO(data))
    with closing(MediaDecoder("memory", file, Options(), Notices("memory"), start)) as decoder:
        return decoder.position, np.concatenate(list(decoder.blocks()))


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(
    "kind",
    [
        ("wav", "pcm_s16le", 16_000, 1),
        ("wav", "pcm_s16le", 44_100, 2),
        ("wav", "pcm_s24le", 48_000, 6),
        ("wav", "pcm_f32le", 8_000, 1),
        ("flac", "flac", 16_000, 1),
        ("flac", "flac", 44_100, 2),
        ("flac", "flac", 48_000, 1),
        ("ogg", "libopus", 48_000, 1),
        ("mp3", "libmp3lame", 44_100, 1),
        ("matroska", "flac", 16_000, 1),
    ],
)
def test_samples_after_a_seek(kind: tuple[str, str, int, int], start: int, tmp_path: Path) -> None:
    data = encoded_media(*kind)
    whole = from_the_start(kind)
    path = tmp_path / "recording"
    path.write_bytes(data)
    for position, samples in (decoded(data, start), decoded(data, start, path)):
        assert position <= start
        needed = samples[start - position :]
        np.testing.assert_array_equal(needed, whole[start:])
        exact = kind[0] in media.EXACT_FORMATS
        in_file = exact and start < SECONDS * SAMPLING_RATE
        assert position == (media.whole_second(start) * SAMPLING_RATE if in_file else 0)


@pytest.mark.parametrize(
    ("container", "codec", "exact"),
    [
        ("wav", "pcm_s16le", True),
        ("flac", "flac", True),
        ("wav", "adpcm_ima_wav", False),
        ("matroska", "flac", False),
        ("mp3", "libmp3lame", False),
        ("ogg", "libopus", False),
    ],
)
def test_only_exact_formats_are_read_by_seeking(
    container: str, codec: str, exact: bool, tmp_path: Path
) -> None:
    rate = 48_000 if codec == "libopus" else 16_000
    path = tmp_path / "recording"
    path.write_bytes(encoded_media(container, codec, rate))
    with closing(Track("recording", str(path))) as track:
        assert media.seeks_exactly(track, str(path)) is exact
        assert not media.seeks_exactly(track, "https://example.org/recording")
        assert not media.seeks_exactly(track, str(tmp_path))


def test_pipes_and_files_that_were_read_before_are_not_read_by_seeking() -> None:
    data = encoded_media("wav", "pcm_s16le", 16_000)
    opened = io.BytesIO(b"other" + data)
    opened.seek(5)
    with pipe(data) as stream:
        for source in (stream, opened):
            file = FileObject("file", source)
            with closing(
                MediaDecoder("file", file, Options(), Notices("file"), 100_000)
            ) as decoder:
                assert decoder.position == 0
                assert sum(map(len, decoder.blocks())) == SECONDS * SAMPLING_RATE


def test_the_audio_of_a_damaged_file_keeps_its_place() -> None:
    data = damage(encoded_media("flac", "flac", 16_000), 0.7, 3000)
    start = 60_000
    position, samples = decoded(data, start)
    assert position
    np.testing.assert_array_equal(samples[start - position :], read(data)[start:])


@pytest.mark.parametrize("rate", [16_000, 44_100])
@pytest.mark.parametrize("kind", ["array", "wav", "channels"])
def test_the_reader_of_a_span_begins_at_its_first_sample(kind: str, rate: int) -> None:
    samples = noise(rate, 290)
    integers = (samples * 32767).astype("<i2")
    source: Source = Audio(integers, rate)
    if kind == "wav":
        source = wav(rate, 1, 2, integers.tobytes())
    elif kind == "channels":
        source = Audio(np.stack([integers, integers], axis=1), rate)
    options = Options()
    if kind == "channels":
        options = Options(diarize=True, speaker="channel")
    with open_audio(SpanSource(source, LATE), options) as late, open_audio(source, options) as all_:
        assert late.start == LATE.start
        expected = np.concatenate(list(all_.channels()))
        np.testing.assert_array_equal(np.concatenate(list(late.channels())), expected[LATE.start :])
        assert late.position == all_.position == len(expected)


def test_a_reader_that_begins_after_the_end_has_no_audio() -> None:
    with open_audio(SpanSource(noise(16_000), LATE)) as reader:
        assert list(reader.blocks()) == []
        assert reader.position == SECONDS * SAMPLING_RATE


HOURS = 10
TEN_HOURS = 3600 * HOURS
SPEECH = (5.0, 18_000.25, TEN_HOURS - 2.0)  # starts of the sounds, in seconds
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
        size = TEN_HOURS * SAMPLING_RATE * BYTES
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
        assert reader.position == TEN_HOURS * SAMPLING_RATE
    assert [round(time) for time in sounds] == [6, 18_001, TEN_HOURS - 1]


@pytest.mark.slow
def test_the_end_of_ten_hours_is_found() -> None:
    with open_audio(long_wav("right")) as reader, reader.random_access() as recording:
        assert recording is not None
        assert recording.duration == TEN_HOURS
        start, samples = recording.read(SPEECH[1] - 1, 3.0)
        assert start + onset(samples) == pytest.approx(SPEECH[1], abs=0.02)
    ranges = ((TEN_HOURS - 3.0, None),)
    (chunk,) = chunk_audio(long_wav("right"), vad=False, clip_timestamps=ranges)
    assert (chunk.start, chunk.end) == (to_samples(TEN_HOURS - 3.0), to_samples(TEN_HOURS))
    assert onset(chunk.samples) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("kind", HEADERS)
def test_a_wrong_size_in_the_header_loses_no_sound(kind: str) -> None:
    sound = bursts([1.0, 8.5], 10)
    data = (sound * 32768).astype("<i2").tobytes()
    samples = read(HEADERS[kind](len(data)) + data)
    assert len(samples) == len(sound)
    np.testing.assert_allclose(samples, sound, atol=1e-4)
    assert onset(samples, after=5) == pytest.approx(8.5, abs=0.02)
