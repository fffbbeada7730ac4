"""What is read at a place is what reading through gives there."""

import io
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.unit.media_files import encode, read
from whisperbatch.audio.reader import open_audio
from whisperbatch.errors import AudioError
from whisperbatch.options import AudioOptions
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


def sweep(rate: int = SAMPLING_RATE) -> Samples:
    """A tone that rises by 20 Hz a second, so that each place sounds like no other."""
    times = np.arange(SECONDS * rate) / rate
    return (0.3 * np.sin(2 * np.pi * (200 + 10 * times) * times)).astype(np.float32)


def media(container: str, codec: str, rate: int) -> bytes:
    return encode([sweep(rate)], container, codec, rate=rate)


def at(source: bytes | Path, start: float, length: float = 3.0) -> tuple[float, Samples]:
    with open_audio(source, AudioOptions()) as reader, reader.random_access() as recording:
        assert recording is not None
        assert recording.duration == pytest.approx(SECONDS, abs=0.3)
        return recording.read(start, length)


def place(samples: Samples, whole: Samples) -> tuple[float, float]:
    """Where in the whole they are most alike, in seconds, and how much alike."""
    size = 1 << (len(whole) + len(samples)).bit_length()
    spectrum = np.fft.rfft(whole, size) * np.conj(np.fft.rfft(samples, size))
    first = int(np.argmax(np.fft.irfft(spectrum, size)[: len(whole)]))
    other = whole[first : first + len(samples)]
    alike = np.corrcoef(samples[: len(other)], other)[0, 1]
    return first / SAMPLING_RATE, float(alike)


@pytest.mark.parametrize("kind", LOSSLESS)
@pytest.mark.parametrize("given_as", ["path", "bytes"])
def test_a_place_in_a_lossless_file_is_read_exactly(
    kind: str, given_as: str, tmp_path: Path
) -> None:
    data = media(*LOSSLESS[kind])
    path = tmp_path / "recording"
    path.write_bytes(data)
    whole = read(data)
    source = path if given_as == "path" else data
    for start in (17.3, 0.0, 5.0, 26.9):
        begins, samples = at(source, start)
        assert start - 0.11 <= begins <= start  # with the frame that it lies in
        assert len(samples) == 3 * SAMPLING_RATE
        first = round(begins * SAMPLING_RATE)
        inner = slice(100, -100)  # a resampler hears beyond the ends of what it is given
        expected = whole[first : first + len(samples)]
        np.testing.assert_allclose(samples[inner], expected[inner], atol=1e-4)


@pytest.mark.parametrize("kind", LOSSY)
def test_a_place_in_a_lossy_file_is_read_nearly(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "recording"
    path.write_bytes(media(*LOSSY[kind]))
    whole = read(path)
    for start in (17.3, 0.0, 5.0, 26.5):
        begins, samples = at(path, start)
        assert begins == pytest.approx(start, abs=0.11)
        assert len(samples) / SAMPLING_RATE == pytest.approx(3, abs=0.03)
        where, alike = place(samples, whole)
        assert where == pytest.approx(begins, abs=0.01)
        assert alike > 0.98


@pytest.mark.parametrize("kind", ["wav", "flac at 48 kHz", "mp3", "ogg"])
def test_beyond_the_end_there_is_nothing(kind: str) -> None:
    data = media(*(LOSSLESS | LOSSY)[kind])
    _, samples = at(data, SECONDS - 1)
    assert len(samples) / SAMPLING_RATE == pytest.approx(1, abs=0.11)
    for start in (SECONDS + 1.0, SECONDS + 1000.0, 1e15):
        begins, samples = at(data, start)
        assert begins == start
        assert samples.shape == (0,)


def test_the_channel_that_is_asked_for_is_read() -> None:
    sound = sweep()
    data = encode([sound, 0.5 * sound], "flac", "flac", rate=SAMPLING_RATE, layout="stereo")
    levels = []
    for options in (AudioOptions(channel="left"), AudioOptions(channel="right"), AudioOptions()):
        with open_audio(data, options) as reader, reader.random_access() as recording:
            assert recording is not None
            levels.append(float(np.std(recording.read(10, 5)[1])))
    assert levels[1] == pytest.approx(levels[0] / 2, rel=0.01)
    assert levels[2] == pytest.approx(levels[0] * 0.75, rel=0.01)


@pytest.mark.parametrize("kind", ["wav", "flac", "mp3", "ogg", "m4a"])
def test_an_open_file_is_left_where_it_was(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "recording"
    path.write_bytes(media(*(LOSSLESS | LOSSY)[kind]))
    expected = read(path)
    with path.open("rb") as file, open_audio(file, AudioOptions()) as reader:
        before = file.tell()
        with reader.random_access() as recording:
            assert recording is not None
            _, samples = recording.read(25, 2)
            assert place(samples, expected)[0] == pytest.approx(25, abs=0.11)
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
    kept = source.copy()
    with open_audio(Audio(source, rate), AudioOptions()) as reader:
        whole = np.concatenate(list(reader.blocks()))
        with reader.random_access() as recording:
            assert recording is not None
            assert recording.duration == SECONDS
            for start in (0.0, 12.34, 26.0):
                begins, samples = recording.read(start, 3)
                assert begins == start
                assert len(samples) == pytest.approx(3 * SAMPLING_RATE, abs=1)
                first = round(start * SAMPLING_RATE)
                np.testing.assert_allclose(
                    samples[100:-100], whole[first : first + len(samples)][100:-100], atol=1e-3
                )
            assert len(recording.read(29, 3)[1]) == pytest.approx(SAMPLING_RATE, abs=1)
            assert recording.read(SECONDS + 1, 3)[1].shape == (0,)
    np.testing.assert_array_equal(source, kept)


class Counted(io.BytesIO):
    given = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.given += len(data)
        return data


@pytest.mark.parametrize("kind", ["wav", "flac", "mp3", "m4a"])
def test_no_more_is_read_than_is_asked_for(kind: str) -> None:
    data = media(*(LOSSLESS | LOSSY)[kind])
    file = Counted(data)
    with open_audio(file, AudioOptions()) as reader, reader.random_access() as recording:
        assert recording is not None
        before = file.given
        assert len(recording.read(10, 2)[1]) == 2 * SAMPLING_RATE
        assert file.given - before < len(data) / 2


class Unseekable(io.BytesIO):
    def seekable(self) -> bool:
        return False


def test_what_can_only_be_read_through_gives_none(tmp_path: Path) -> None:
    data = media(*LOSSLESS["wav at 8 kHz"])
    with open_audio(Unseekable(data), AudioOptions()) as reader:
        with reader.random_access() as recording:
            assert recording is None
        assert sum(map(len, reader.blocks())) == SECONDS * SAMPLING_RATE
    read_end, write_end = os.pipe()
    os.write(write_end, data[:50_000])
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe, open_audio(pipe, AudioOptions()) as reader:
        with reader.random_access() as recording:
            assert recording is None
        assert sum(map(len, reader.blocks())) > SAMPLING_RATE


def test_a_file_that_stands_in_its_middle_gives_none() -> None:
    """What is read begins there; a time in it is not a time in the file."""
    file = io.BytesIO(b"other" + encode([sweep(16_000)], "mp3", "mp3", rate=16_000))
    file.seek(len(b"other"))
    with open_audio(file, AudioOptions()) as reader:
        with reader.random_access() as recording:
            assert recording is None
        assert next(reader.blocks()).size


def test_a_closed_reader_gives_none(tmp_path: Path) -> None:
    path = tmp_path / "recording.flac"
    path.write_bytes(media(*LOSSLESS["flac"]))
    for source in (path, sweep()):
        reader = open_audio(source, AudioOptions())
        reader.close()
        with reader.random_access() as recording:
            assert recording is None


def test_a_reader_may_be_closed_while_it_is_listened_to(tmp_path: Path) -> None:
    path = tmp_path / "recording.flac"
    path.write_bytes(media(*LOSSLESS["flac"]))
    reader = open_audio(path, AudioOptions())
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


def test_a_file_that_fails_is_no_recording() -> None:
    """As where it is read through: no other errors reach the caller."""
    file = Failing(media(*LOSSLESS["wav"]))
    with open_audio(file, AudioOptions()) as reader, reader.random_access() as recording:
        assert recording is not None
        file.broken = True
        with pytest.raises(AudioError, match=r"<Failing>: cannot be read: the line went dead"):
            recording.read(20, 3)


def test_damage_leaves_what_can_be_read() -> None:
    data = bytearray(media(*LOSSY["mp3"]))
    middle = len(data) // 2
    data[middle : middle + 4000] = np.random.default_rng(0).bytes(4000)
    _, samples = at(bytes(data), 14.0)
    assert np.isfinite(samples).all()
    _, samples = at(bytes(data), 25.0)
    assert len(samples) == 3 * SAMPLING_RATE
