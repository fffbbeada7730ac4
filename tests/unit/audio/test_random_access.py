"""Random access returns the samples that sequential reading returns at the same time."""

import io
import os
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.unit.media_files import UnseekableBytes, encode, read
from whisperbatch.audio.reader import open_audio
from whisperbatch.errors import AudioError
from whisperbatch.options import Options
from whisperbatch.types import SAMPLING_RATE, Audio, Samples

SECONDS = 30

LOSSLESS = {
    "wav": ("wav", "pcm_s16le", 16_000),
    "wav at 8 kHz": ("wav", "pcm_s16le", 8_000),
    "flac": ("flac", "flac", 16_000),
    "flac at 48 kHz": ("flac", "flac", 48_000),
}
LOSSY = {
    "mp3": ("mp3", "libmp3lame", 44_100),
    "m4a": ("ipod", "aac", 44_100),
    "adts": ("adts", "aac", 44_100),
    "ogg": ("ogg", "libopus", 48_000),
    "webm": ("webm", "libopus", 48_000),
    "mkv": ("matroska", "aac", 48_000),
}


@cache
def sweep(rate: int = SAMPLING_RATE) -> Samples:
    """A tone that rises by 20 Hz per second, so that every stretch is unique."""
    times = np.arange(SECONDS * rate) / rate
    return (0.3 * np.sin(2 * np.pi * (200 + 10 * times) * times)).astype(np.float32)


@cache
def media(container: str, codec: str, rate: int) -> bytes:
    return encode([sweep(rate)], container, codec, rate=rate)


def read_at(source: bytes | Path, start: float, length: float = 3.0) -> tuple[float, Samples]:
    with open_audio(source, Options()) as reader, reader.random_access() as recording:
        assert recording is not None
        assert recording.duration == pytest.approx(SECONDS, abs=0.3)
        return recording.read(start, length)


def locate(samples: Samples, recording: Samples) -> tuple[float, float]:
    """Where in the recording the samples fit best, in seconds, and the correlation there."""
    size = 1 << (len(recording) + len(samples)).bit_length()
    spectrum = np.fft.rfft(recording, size) * np.conj(np.fft.rfft(samples, size))
    first = int(np.argmax(np.fft.irfft(spectrum, size)[: len(recording)]))
    stretch = recording[first : first + len(samples)]
    correlation = np.corrcoef(samples[: len(stretch)], stretch)[0, 1]
    return first / SAMPLING_RATE, float(correlation)


@pytest.mark.parametrize("kind", LOSSLESS)
@pytest.mark.parametrize("kind_of_source", ["path", "bytes"])
def test_lossless_files_are_read_exactly(kind: str, kind_of_source: str, tmp_path: Path) -> None:
    data = media(*LOSSLESS[kind])
    path = tmp_path / "recording"
    path.write_bytes(data)
    recording = read(data)
    source = path if kind_of_source == "path" else data
    for start in (17.3, 0.0, 5.0, 26.9):
        true_start, samples = read_at(source, start)
        assert start - 0.11 <= true_start <= start  # the frame that contains `start` is complete
        assert len(samples) == 3 * SAMPLING_RATE
        first = round(true_start * SAMPLING_RATE)
        inner = slice(100, -100)  # at its ends a resampler needs samples beyond the stretch
        expected = recording[first : first + len(samples)]
        np.testing.assert_allclose(samples[inner], expected[inner], atol=1e-4)


@pytest.mark.parametrize("kind", LOSSY)
def test_lossy_files_are_read_approximately(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "recording"
    path.write_bytes(media(*LOSSY[kind]))
    recording = read(path)
    for start in (17.3, 0.0, 5.0, 26.5):
        true_start, samples = read_at(path, start)
        assert true_start == pytest.approx(start, abs=0.11)
        assert len(samples) / SAMPLING_RATE == pytest.approx(3, abs=0.03)
        time, correlation = locate(samples, recording)
        assert time == pytest.approx(true_start, abs=0.01)
        assert correlation > 0.98


@pytest.mark.parametrize("kind", ["wav", "flac at 48 kHz", "mp3", "ogg"])
def test_no_samples_after_the_end(kind: str) -> None:
    data = media(*(LOSSLESS | LOSSY)[kind])
    _, samples = read_at(data, SECONDS - 1)
    assert len(samples) / SAMPLING_RATE == pytest.approx(1, abs=0.11)
    for start in (SECONDS + 1.0, SECONDS + 1000.0, 1e15):
        true_start, samples = read_at(data, start)
        assert true_start == start
        assert samples.shape == (0,)


def test_channels_are_selected() -> None:
    sound = sweep()
    data = encode([sound, 0.5 * sound], "flac", "flac", rate=SAMPLING_RATE, layout="stereo")
    levels = []
    for options in (Options(channel="left"), Options(channel="right"), Options()):
        with open_audio(data, options) as reader, reader.random_access() as recording:
            assert recording is not None
            levels.append(float(np.std(recording.read(10, 5)[1])))
    assert levels[1] == pytest.approx(levels[0] / 2, rel=0.01)
    assert levels[2] == pytest.approx(levels[0] * 0.75, rel=0.01)


@pytest.mark.parametrize("kind", ["wav", "flac", "mp3", "ogg", "m4a"])
def test_position_of_an_open_file_is_restored(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "recording"
    path.write_bytes(media(*(LOSSLESS | LOSSY)[kind]))
    expected = read(path)
    with path.open("rb") as file, open_audio(file, Options()) as reader:
        before = file.tell()
        with reader.random_access() as recording:
            assert recording is not None
            _, samples = recording.read(25, 2)
            assert locate(samples, expected)[0] == pytest.approx(25, abs=0.11)
        assert file.tell() == before
        np.testing.assert_array_equal(np.concatenate(list(reader.blocks())), expected)
        reader.close()
        assert not file.closed


@pytest.mark.parametrize("rate", [16_000, 8_000, 44_100])
@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_arrays(dtype: type[np.float32 | np.int16], rate: int) -> None:
    sound = sweep(rate)
    source: npt.NDArray[np.float32] | npt.NDArray[np.int16] = sound
    if dtype is np.int16:
        source = (sound * 32768).astype(np.int16)
    copy = source.copy()
    with open_audio(Audio(source, rate), Options()) as reader:
        expected = np.concatenate(list(reader.blocks()))
        with reader.random_access() as recording:
            assert recording is not None
            assert recording.duration == SECONDS
            for start in (0.0, 12.34, 26.0):
                true_start, samples = recording.read(start, 3)
                assert true_start == start
                assert len(samples) == pytest.approx(3 * SAMPLING_RATE, abs=1)
                first = round(start * SAMPLING_RATE)
                np.testing.assert_allclose(
                    samples[100:-100], expected[first : first + len(samples)][100:-100], atol=1e-3
                )
            assert len(recording.read(29, 3)[1]) == pytest.approx(SAMPLING_RATE, abs=1)
            assert recording.read(SECONDS + 1, 3)[1].shape == (0,)
    np.testing.assert_array_equal(source, copy)


class CountingFile(io.BytesIO):
    bytes_read = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.bytes_read += len(data)
        return data


@pytest.mark.parametrize("kind", ["wav", "flac", "mp3", "m4a"])
def test_only_the_stretch_is_read(kind: str) -> None:
    data = media(*(LOSSLESS | LOSSY)[kind])
    file = CountingFile(data)
    with open_audio(file, Options()) as reader, reader.random_access() as recording:
        assert recording is not None
        before = file.bytes_read
        assert len(recording.read(10, 2)[1]) == 2 * SAMPLING_RATE
        assert file.bytes_read - before < len(data) / 2


def test_no_random_access_to_pipes_and_unseekable_files(tmp_path: Path) -> None:
    data = media(*LOSSLESS["wav at 8 kHz"])
    with open_audio(UnseekableBytes(data), Options()) as reader:
        with reader.random_access() as recording:
            assert recording is None
        assert sum(map(len, reader.blocks())) == SECONDS * SAMPLING_RATE
    read_end, write_end = os.pipe()
    os.write(write_end, data[:50_000])
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe, open_audio(pipe, Options()) as reader:
        with reader.random_access() as recording:
            assert recording is None
        assert sum(map(len, reader.blocks())) > SAMPLING_RATE


def test_no_random_access_to_a_file_at_an_offset() -> None:
    """FFmpeg reads from the offset, so its times are not times of the file."""
    file = io.BytesIO(b"other" + encode([sweep(16_000)], "mp3", "mp3", rate=16_000))
    file.seek(len(b"other"))
    with open_audio(file, Options()) as reader:
        with reader.random_access() as recording:
            assert recording is None
        assert next(reader.blocks()).size


def test_no_random_access_to_a_closed_reader(tmp_path: Path) -> None:
    path = tmp_path / "recording.flac"
    path.write_bytes(media(*LOSSLESS["flac"]))
    for source in (path, sweep()):
        reader = open_audio(source, Options())
        reader.close()
        with reader.random_access() as recording:
            assert recording is None


def test_reader_may_be_closed_during_random_access(tmp_path: Path) -> None:
    path = tmp_path / "recording.flac"
    path.write_bytes(media(*LOSSLESS["flac"]))
    reader = open_audio(path, Options())
    with reader.random_access() as recording:
        assert recording is not None
        reader.close()
        assert len(recording.read(10, 3)[1])
    assert list(reader.blocks()) == []


class Failing(io.BytesIO):
    broken = False

    def read(self, size: int | None = -1, /) -> bytes:
        if self.broken:
            raise RuntimeError("the line went dead")
        return super().read(size)


def test_errors_of_a_file_object_are_audio_errors() -> None:
    file = Failing(media(*LOSSLESS["wav"]))
    with open_audio(file, Options()) as reader, reader.random_access() as recording:
        assert recording is not None
        file.broken = True
        with pytest.raises(AudioError, match=r"<Failing>: cannot be read: the line went dead"):
            recording.read(20, 3)


def test_damaged_file_is_read_outside_the_damage() -> None:
    data = bytearray(media(*LOSSY["mp3"]))
    middle = len(data) // 2
    data[middle : middle + 4000] = np.random.default_rng(0).bytes(4000)
    _, samples = read_at(bytes(data), 14.0)
    assert np.isfinite(samples).all()
    _, samples = read_at(bytes(data), 25.0)
    assert len(samples) == 3 * SAMPLING_RATE


def test_no_stretch_starts_before_the_recording() -> None:
    damaged = bytearray(media("mp3", "libmp3lame", 24_000))
    header = damaged.index(b"\xff\xf3")  # of the first frame, which has no sound
    damaged[header + 2] ^= 0xFF
    with open_audio(bytes(damaged)) as reader, reader.random_access() as recording:
        assert recording is not None
        start, samples = recording.read(0.0, 3.0)
    assert start == 0
    assert len(samples) == 3 * SAMPLING_RATE
