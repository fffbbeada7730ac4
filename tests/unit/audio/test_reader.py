"""What can be opened, what comes out of it, and what is said of what cannot be opened."""

import io
import os
import sys
import threading
import tracemalloc
import wave
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO, cast

import av
import numpy as np
import numpy.typing as npt
import psutil
import pytest

from tests.unit.media_files import LEVEL, bursts, encode, level, onset, read, tone
from whisperbatch.audio.reader import open_audio
from whisperbatch.errors import AudioError, OptionError
from whisperbatch.options import AudioOptions
from whisperbatch.types import SAMPLING_RATE, Audio, Source

Array = npt.NDArray[np.float32] | npt.NDArray[np.int16]

STEREO = {
    "wav": ("wav", "pcm_s16le", 0.0),
    "wav of 24 bits": ("wav", "pcm_s24le", 0.0),
    "wav of floats": ("wav", "pcm_f32le", 0.0),
    "flac": ("flac", "flac", 0.0),
    "mp3": ("mp3", "libmp3lame", 0.0),
    "m4a": ("ipod", "aac", 0.03),  # encoders' delay, and a last frame that is not full
    "adts": ("adts", "aac", 0.05),
    "ogg": ("ogg", "libopus", 0.0),
}


def wav(rate: int, channels: int, width: int, samples: bytes) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as output:
        output.setnchannels(channels)
        output.setsampwidth(width)
        output.setframerate(rate)
        output.writeframes(samples)
    return file.getvalue()


@pytest.fixture(scope="module")
def flac() -> bytes:
    """Two seconds, 440 Hz on the left and 880 Hz on the right."""
    channels = [tone(440, 2, 48_000), tone(880, 2, 48_000)]
    return encode(channels, "flac", "flac", rate=48_000, layout="stereo")


@pytest.mark.parametrize(("container", "codec", "longer"), STEREO.values(), ids=STEREO)
def test_channels_are_mixed_or_chosen(container: str, codec: str, longer: float) -> None:
    channels = [tone(440, 2, 48_000), tone(880, 2, 48_000)]
    recording = encode(channels, container, codec, rate=48_000, layout="stereo")
    mix, left, right = (read(recording, channel=name) for name in ("mix", "left", "right"))
    assert len(mix) == len(left) == len(right)
    assert len(mix) / SAMPLING_RATE == pytest.approx(2 + longer / 2, abs=longer / 2 + 0.002)
    levels = [(level(found, 440), level(found, 880)) for found in (mix, left, right)]
    expected = [(LEVEL / 2, LEVEL / 2), (LEVEL, 0.0), (0.0, LEVEL)]
    np.testing.assert_allclose(levels, expected, atol=0.02)


@pytest.mark.parametrize(
    ("container", "codec", "rate"),
    [("wav", "pcm_u8", 8000), ("wav", "pcm_mulaw", 8000), ("g722", "g722", 16_000)],
)
def test_telephone_formats(container: str, codec: str, rate: int, tmp_path: Path) -> None:
    path = tmp_path / f"call.{container}"  # g722 is known by its name alone
    path.write_bytes(encode([tone(440, 2, rate)], container, codec, rate=rate))
    samples = read(path)
    assert len(samples) / SAMPLING_RATE == pytest.approx(2, abs=0.01)
    assert level(samples, 440) == pytest.approx(LEVEL, abs=0.01)


@pytest.mark.parametrize("late", [0.0, 1.5])
@pytest.mark.parametrize(
    ("container", "codec", "video"),
    [("mp4", "aac", "mpeg4"), ("webm", "libopus", "libvpx"), ("matroska", "aac", "mpeg4")],
)
def test_sound_of_a_video_keeps_its_place(
    container: str, codec: str, video: str, late: float
) -> None:
    sound = bursts([0.5, 1.5], 2, 48_000)
    samples = read(encode([sound], container, codec, rate=48_000, video=video, late=late))
    assert len(samples) / SAMPLING_RATE == pytest.approx(2 + late, abs=0.03)
    assert onset(samples) == pytest.approx(0.5 + late, abs=0.03)
    assert onset(samples, after=1 + late) == pytest.approx(1.5 + late, abs=0.03)


@pytest.mark.parametrize("container", ["matroska", "mp4"])
def test_the_second_track_can_be_chosen(container: str) -> None:
    recording = encode([tone(440, 1)], container, "aac", rate=16_000, more=[tone(1000, 1)])
    assert level(read(recording), 440) == pytest.approx(LEVEL, abs=0.02)
    assert level(read(recording), 1000) == pytest.approx(0, abs=0.02)
    assert level(read(recording, track=1), 1000) == pytest.approx(LEVEL, abs=0.02)
    with pytest.raises(AudioError, match=r"track=2.* 2 audio track|track=2.* 0 to 1"):
        read(recording, track=2)


def test_every_channel_but_the_lowest_is_in_the_mix_of_six() -> None:
    channels = [tone(440 + 100 * number, 1) for number in range(6)]
    recording = encode(channels, "flac", "flac", rate=SAMPLING_RATE, layout="5.1")
    mix = read(recording)
    levels = [level(mix, 440 + 100 * number) for number in range(6)]
    assert levels[2] == max(levels)  # the centre, which is speech's
    assert all(found > 0.1 for number, found in enumerate(levels) if number != 3)
    assert level(read(recording, channel="right"), 540) == pytest.approx(LEVEL, abs=0.01)


@pytest.mark.parametrize("count", [3, 8, 9, 16, 32])
def test_any_number_of_channels_is_read(count: int) -> None:
    ramp = (tone(440, 1)[:, None] * 32767 * np.eye(count)[1]).astype(np.int16)  # in the second
    recording = wav(SAMPLING_RATE, count, 2, ramp.tobytes())
    assert level(read(recording, channel="right"), 440) == pytest.approx(LEVEL, abs=0.01)
    assert level(read(recording, channel="left"), 440) == pytest.approx(0, abs=0.01)
    assert level(read(recording), 440) > LEVEL / count / 2


class Trickle(io.RawIOBase):
    """A recording that counts how much of it was asked for."""

    def __init__(self, data: bytes, *, fails_at: int | None = None) -> None:
        self._file = io.BytesIO(data)
        self._fails_at = fails_at
        self.given = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if self._fails_at is not None and self.given >= self._fails_at:
            raise RuntimeError("the line went dead")
        data = self._file.read(size)
        self.given += len(data)
        return data


def pipe(data: bytes) -> BinaryIO:
    """One that another thread writes to, in pieces that are no frame's."""
    read_end, write_end = os.pipe()

    def write() -> None:
        with os.fdopen(write_end, "wb", buffering=0) as file:
            for start in range(0, len(data), 1000):
                file.write(data[start : start + 1000])

    threading.Thread(target=write, daemon=True).start()
    return os.fdopen(read_end, "rb")


def test_every_kind_of_source_gives_the_same(flac: bytes, tmp_path: Path) -> None:
    path = tmp_path / "12:30 café #1.flac"  # FFmpeg takes what precedes a colon for a protocol
    path.write_bytes(flac)
    expected = read(flac)
    sources = (path, str(path), bytearray(flac), memoryview(flac), io.BytesIO(flac))
    for source in sources:
        np.testing.assert_array_equal(read(cast("Source", source)), expected)
    with path.open("rb") as file:
        np.testing.assert_array_equal(read(file), expected)
        file.seek(0)  # it stayed open
        np.testing.assert_array_equal(read(file), expected)
    with pipe(flac) as file:
        np.testing.assert_allclose(read(file)[: len(expected)], expected, atol=1e-3)


@pytest.mark.parametrize("kind", ["wav", "mp3", "ogg", "adts"])
def test_a_pipe_is_read_to_its_end(kind: str) -> None:
    container, codec, _ = STEREO[kind]
    recording = encode([bursts([0.5, 1.5], 2, 48_000)], container, codec, rate=48_000)
    with pipe(recording) as file:
        samples = read(file)
        assert not file.closed
    assert len(samples) / SAMPLING_RATE == pytest.approx(2, abs=0.06)
    assert onset(samples) == pytest.approx(0.5, abs=0.05)
    assert onset(samples, after=1) == pytest.approx(1.5, abs=0.05)


def test_a_dash_is_standard_input(flac: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(flac)))
    reader = open_audio("-", AudioOptions())
    assert reader.name == "<stdin>"
    assert sum(map(len, reader.blocks())) == 2 * SAMPLING_RATE
    reader.close()
    assert not sys.stdin.closed


def test_the_first_block_comes_before_the_file_is_read() -> None:
    file = Trickle(wav(SAMPLING_RATE, 1, 2, bytes(2 * SAMPLING_RATE * 600)))
    reader = open_audio(cast("BinaryIO", file), AudioOptions())
    assert len(next(reader.blocks())) <= 2 * SAMPLING_RATE
    assert file.given < 1_000_000  # of 19 million: FFmpeg looks ahead a little
    reader.close()
    assert not file.closed


@pytest.mark.parametrize("dtype", [np.float32, np.int16])
@pytest.mark.parametrize("rate", [8000, 16_000, 44_100])
def test_arrays(dtype: type[np.float32 | np.int16], rate: int) -> None:
    scale = 32767 if dtype is np.int16 else 1
    samples = cast("Array", (tone(440, 2.5, rate) * scale).astype(dtype))
    before = samples.copy()
    samples.flags.writeable = False
    for source, given in ((samples, rate), (Audio(samples, rate), None)):
        found = read(source, sampling_rate=given)
        assert len(found) == pytest.approx(2.5 * SAMPLING_RATE, abs=2)
        assert level(found, 440) == pytest.approx(LEVEL, abs=0.001)
    np.testing.assert_array_equal(samples, before)
    strided = cast("Array", np.repeat(samples, 2)[::2])  # as one channel of two is
    np.testing.assert_array_equal(read(strided, sampling_rate=rate), found)


def test_blocks_of_an_array_are_not_the_callers_memory() -> None:
    samples = tone(440, 1)
    block = next(open_audio(samples, AudioOptions()).blocks())
    assert not (np.shares_memory(block, samples) and block.flags.writeable)


def test_an_array_is_not_copied_whole() -> None:
    samples = np.zeros(SAMPLING_RATE * 600, np.int16)
    tracemalloc.start()
    try:
        reader = open_audio(samples, AudioOptions(sampling_rate=8000))
        assert sum(map(len, reader.blocks())) == 2 * len(samples)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000  # of 19 million bytes
    finally:
        tracemalloc.stop()


def silent_film() -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as output:
        stream = output.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        for number in range(5):
            frame = av.VideoFrame(64, 64, "yuv420p")
            frame.pts, frame.time_base = number, Fraction(1, 10)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return file.getvalue()


def cut_mp4() -> bytes:
    mp4 = encode([tone(440, 1)], "mp4", "aac", rate=SAMPLING_RATE)
    return mp4[: len(mp4) // 2]


FILES: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "empty": ("talk.mp3", lambda: b"", "is empty; is it still being written"),
    "text": ("talk.mp3", lambda: b"a text, not music\n" * 500, "is not media"),
    "html": ("talk.mp4", lambda: b"<!DOCTYPE html><html>404</html>" * 50, "is not media"),
    "zeros": ("talk.wav", lambda: bytes(100_000), "is not media"),
    "noise": ("talk.flac", lambda: np.random.default_rng(3).bytes(50_000), "is not media|no sound"),
    "cut off mp4": ("talk.mp4", cut_mp4, "is cut off at its start|index is missing"),
    "film": ("film.mp4", silent_film, "has no audio track"),
    "header alone": ("talk.wav", lambda: wav(8000, 1, 2, b""), "no sound"),
    "0 Hz": (
        "talk.wav",
        lambda: wav(8000, 1, 2, bytes(8))[:24] + bytes(40),
        "is not media|no sound",
    ),
}


@pytest.mark.parametrize(("name", "make", "says"), FILES.values(), ids=FILES)
def test_files_that_are_no_recording(
    name: str,
    make: Callable[[], bytes],
    says: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / name
    path.write_bytes(make())
    for source, called in ((path, str(path)), (str(path), str(path)), (make(), "<bytes>")):
        with pytest.raises(AudioError, match=says.partition(";")[0]) as caught:
            read(source)
        assert str(caught.value).startswith(f"{called}: ")
        assert "\n" not in str(caught.value)
        assert caught.value.source == called
    with path.open("rb") as file:
        if path.stat().st_size:
            with pytest.raises(AudioError, match=says) as caught:
                read(file)
            assert caught.value.source == str(path)
        assert not file.closed
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "name", ["no such file.mp3", "no such folder/talk.mp3", "x" * 5000, "a\0b"]
)
def test_paths_that_lead_nowhere(name: str, tmp_path: Path) -> None:
    for source in (str(tmp_path / name), tmp_path / name):
        with pytest.raises(AudioError, match=r"no such file|cannot be opened") as caught:
            read(source)
        assert caught.value.source == str(tmp_path / name)


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match=r"is a directory; give its files"):
        read(tmp_path)


def test_an_error_is_one_line_whatever_the_name(tmp_path: Path) -> None:
    path = tmp_path / "two\nlines.mp3"
    path.write_text("no music")
    for source in (path, tmp_path / "not\nthere"):
        with pytest.raises(AudioError) as caught:
            read(source)
        assert "\n" not in str(caught.value)


BAD_ARRAYS: dict[str, tuple[npt.NDArray[Any], str]] = {
    "empty": (np.zeros(0, np.float32), "has no samples"),
    "nan": (np.array([0, 0, np.nan], np.float32), r"NaN or infinite samples at 0\.000 s; replace"),
    "inf": (np.r_[np.zeros(24_000), np.inf].astype(np.float32), r"infinite samples at 1\.500 s"),
    "columns": (np.zeros((9, 2), np.float32), r"shape \(9, 2\).*choose a channel"),
    "scalar": (np.zeros((), np.float32), r"shape \(\)"),
    "float64": (np.zeros(9), "not float64; convert"),
    "int32": (np.zeros(9, np.int32), "not int32; convert"),
    "uint8": (np.zeros(9, np.uint8), "not uint8; convert"),
    "complex": (np.zeros(9, np.complex64), "not complex64; convert"),
    "object": (np.array(["a", 1], object), "not object; convert"),
    "big-endian": (np.zeros(9, ">f4"), "not >f4; convert"),
}


@pytest.mark.parametrize(("samples", "says"), BAD_ARRAYS.values(), ids=BAD_ARRAYS)
def test_arrays_that_are_no_recording(samples: npt.NDArray[Any], says: str) -> None:
    for source in (samples, Audio(samples)):
        with pytest.raises(AudioError, match=says) as caught:
            read(source)
        assert str(caught.value).startswith("<array>: ")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rate", "says"),
    [
        (0, "sampling_rate"),
        (-16_000, "sampling_rate"),
        (999, "sampling_rate=999 is out of range: 1000 to 768000 Hz"),
        (10**12, "sampling_rate=1000000000000 is out of range"),
        (16_000.0, "sampling_rate must be a whole number"),
        (True, "sampling_rate must be a whole number"),
        ("16000", "sampling_rate must be a whole number"),
    ],
)
def test_sampling_rates_that_make_no_sense(rate: int, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        read(Audio(tone(440, 1), rate))
    with pytest.raises(OptionError, match=says):
        read(tone(440, 1), sampling_rate=rate)


def test_options_that_do_not_fit_the_source(flac: bytes) -> None:
    samples = tone(440, 1)
    with pytest.raises(OptionError, match=r"sampling_rate is for samples.*<bytes>.*leave it out"):
        read(flac, sampling_rate=16_000)
    with pytest.raises(OptionError, match=r"sampling_rate=8000, but the Audio says 16000"):
        read(Audio(samples), sampling_rate=8000)
    with pytest.raises(OptionError, match="track=1: an array has one track"):
        read(samples, track=1)
    with pytest.raises(OptionError, match="channel='right': an array has one channel"):
        read(samples, channel="right")
    assert len(read(samples, channel="left")) == len(samples)


@pytest.mark.parametrize(
    "source",
    [None, 5, 1.5, [0.0, 0.1], {"a": 1}, object(), b"", b"path.mp3", Audio(cast("Array", [0.0]))],
    ids=repr,
)
def test_things_that_are_no_source(source: object) -> None:
    with pytest.raises(AudioError) as caught:
        read(cast("Source", source))
    assert "\n" not in str(caught.value)
    assert "give" in str(caught.value) or "not" in str(caught.value)


def test_a_file_open_as_text(tmp_path: Path) -> None:
    path = tmp_path / "talk.mp3"
    path.write_text("text")
    with path.open() as file, pytest.raises(AudioError, match=r"talk\.mp3: .*mode 'rb'"):
        read(cast("BinaryIO", file))


def test_an_hour_takes_no_more_memory_than_a_minute(tmp_path: Path) -> None:
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
    with open_audio(path, AudioOptions()) as reader:
        for number, _ in enumerate(reader.blocks()):
            if number % 60 == 0:
                peaks.append(process.memory_info().rss)
        assert reader.position / SAMPLING_RATE == pytest.approx(3600, abs=5)
    assert max(peaks) - peaks[2] < 8_000_000  # of 230 million bytes of samples


def test_close_at_any_moment(flac: bytes) -> None:
    reader = open_audio(flac, AudioOptions())
    reader.close()
    reader.close()
    assert list(reader.blocks()) == []
    reader = open_audio(flac, AudioOptions())
    blocks = reader.blocks()
    first = next(blocks)
    kept = first.copy()
    reader.close()
    assert list(blocks) == []
    np.testing.assert_array_equal(first, kept)  # its memory is not FFmpeg's
    assert reader.position == len(first)


def test_a_file_that_fails_while_it_is_read(flac: bytes) -> None:
    for fails_at in (0, 40_000):
        file = Trickle(flac, fails_at=fails_at)
        with pytest.raises(AudioError, match=r"<Trickle>: cannot be .*the line went dead"):
            read(cast("BinaryIO", file))
        assert not file.closed


@pytest.mark.parametrize("rate", [1, 999])
def test_rates_that_make_no_sense_are_refused(rate: int) -> None:
    with pytest.raises(AudioError, match=f"<bytes>: states a sampling rate of {rate} Hz"):
        open_audio(wav(rate, 1, 2, bytes(2000)), AudioOptions())
