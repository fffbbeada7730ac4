"""Sources that cannot be read: each is refused with one line that names the source."""

import io
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO, cast

import av
import numpy as np
import numpy.typing as npt
import pytest

from tests.unit.media_files import encode, read, tone, wav
from whisperbatch.audio.reader import open_audio
from whisperbatch.errors import AudioError, OptionError
from whisperbatch.features.whisper import WhisperFeatures
from whisperbatch.options import Options
from whisperbatch.types import SAMPLING_RATE, Audio, Source


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
    "empty": ("talk.mp3", lambda: b"", "is empty; "),
    "text": ("talk.mp3", lambda: b"a text, not music\n" * 500, "is not media"),
    "html": ("talk.mp4", lambda: b"<!DOCTYPE html><html>404</html>" * 50, "is not media"),
    "zeros": ("talk.wav", lambda: bytes(100_000), "is not media"),
    "noise": ("talk.flac", lambda: np.random.default_rng(3).bytes(50_000), "is not media|no sound"),
    "cut off mp4": ("talk.mp4", cut_mp4, "is cut off at its start|index is missing"),
    "film": ("film.mp4", silent_film, "has no audio track"),
    "header only": ("talk.wav", lambda: wav(8000, 1, 2, b""), "no sound"),
    "0 Hz": (
        "talk.wav",
        lambda: wav(8000, 1, 2, bytes(8))[:24] + bytes(40),
        "is not media|no sound",
    ),
}


@pytest.mark.parametrize(("name", "make", "message"), FILES.values(), ids=FILES)
def test_files_without_readable_audio(
    name: str,
    make: Callable[[], bytes],
    message: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / name
    path.write_bytes(make())
    for source, label in ((path, str(path)), (str(path), str(path)), (make(), "<bytes>")):
        with pytest.raises(AudioError, match=message) as caught:
            read(source)
        assert str(caught.value).startswith(f"{label}: ")
        assert "\n" not in str(caught.value)
        assert caught.value.source == label
    with path.open("rb") as file:
        if path.stat().st_size:
            with pytest.raises(AudioError, match=message) as caught:
                read(file)
            assert caught.value.source == str(path)
        assert not file.closed
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "name", ["no such file.mp3", "no such folder/talk.mp3", "x" * 5000, "a\0b"]
)
def test_missing_paths(name: str, tmp_path: Path) -> None:
    for source in (str(tmp_path / name), tmp_path / name):
        with pytest.raises(AudioError, match=r"there is no such file|cannot be opened") as caught:
            read(source)
        assert caught.value.source == str(tmp_path / name)


def test_directory(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match=r"is a directory; give the files in it"):
        read(tmp_path)


def test_message_is_one_line_for_file_names_with_line_breaks(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(("samples", "message"), BAD_ARRAYS.values(), ids=BAD_ARRAYS)
def test_unsuitable_arrays(samples: npt.NDArray[Any], message: str) -> None:
    for source in (samples, Audio(samples)):
        with pytest.raises(AudioError, match=message) as caught:
            read(source)
        assert str(caught.value).startswith("<array>: ")
        assert "\n" not in str(caught.value)


SCALES: dict[str, tuple[npt.NDArray[Any], int]] = {
    "int16 as float32": ((tone(440, 2) * 32768).astype(np.int16), 16_000),
    "resampled": (tone(440, 2) * 32768 + 0.3, 44_100),
    "faint speech after silence": (np.r_[np.zeros(600_000), np.arange(-90, 90)], 16_000),
    "int32 as float32": (tone(440, 2) * 2.0**31, 16_000),
}


@pytest.mark.parametrize(("samples", "rate"), SCALES.values(), ids=SCALES)
def test_float_samples_in_the_range_of_integers(samples: npt.NDArray[Any], rate: int) -> None:
    samples = samples.astype(np.float32)
    peak = round(float(np.abs(samples).max()))
    for source in (Audio(samples, rate), Audio(samples[::-1], rate)):
        with pytest.raises(AudioError, match=rf"^<array>: has float32 samples up to {peak}, ") as e:
            read(source)
        assert "by 32768, or give them as int16" in str(e.value)
    with pytest.raises(AudioError, match=r"float32 samples up to"):
        read(samples)


LOUD: dict[str, npt.NDArray[Any]] = {
    "full scale": np.tile([1.0, -1.0], 9000),
    "overshoot": tone(440, 2) * 4 / 0.3,
    "20 dB too loud": tone(440, 2) * 10 / 0.3,
    "clicks": np.r_[tone(440, 2), 30_000.5, tone(440, 2), -1e30],
    "whole numbers": np.tile([0.0, 1.0, -1.0, 2.0], 4000),
    "silence": np.zeros(16_000),
}


@pytest.mark.parametrize("samples", LOUD.values(), ids=LOUD)
def test_loud_float_samples_are_read(samples: npt.NDArray[Any]) -> None:
    samples = samples.astype(np.float32)
    np.testing.assert_array_equal(read(samples), np.clip(samples, -16, 16))


def test_a_click_of_any_level_has_finite_features() -> None:
    samples = np.r_[tone(440, 2), np.finfo(np.float32).max, tone(440, 2)].astype(np.float32)
    assert np.isfinite(WhisperFeatures(80)(read(samples))).all()


@pytest.mark.parametrize(
    ("rate", "message"),
    [
        (0, "sampling_rate"),
        (-16_000, "sampling_rate"),
        (999, "sampling_rate=999 is out of range: from 1000 to 768000"),
        (10**12, "sampling_rate=1000000000000 is out of range"),
        (16_000.0, "sampling_rate must be a whole number"),
        (True, "sampling_rate must be a whole number"),
        ("16000", "sampling_rate must be a whole number"),
    ],
)
def test_impossible_sampling_rates_of_arrays(rate: int, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read(Audio(tone(440, 1), rate))
    with pytest.raises(OptionError, match=message):
        read(tone(440, 1), sampling_rate=rate)


def test_options_that_do_not_fit_the_source() -> None:
    samples = tone(440, 1)
    flac = encode([samples], "flac", "flac", rate=SAMPLING_RATE)
    with pytest.raises(
        OptionError, match=r"sampling_rate is only for arrays.*<bytes>.*leave it out"
    ):
        read(flac, sampling_rate=16_000)
    with pytest.raises(
        OptionError, match=r"sampling_rate=8000 contradicts the Audio, which states 16000"
    ):
        read(Audio(samples), sampling_rate=8000)
    with pytest.raises(OptionError, match="track=1: an array has only track 0"):
        read(samples, track=1)
    with pytest.raises(OptionError, match="channel='right': an array has one channel"):
        read(samples, channel="right")
    assert len(read(samples, channel="left")) == len(samples)


@pytest.mark.parametrize(
    "source",
    [None, 5, 1.5, [0.0, 0.1], {"a": 1}, object(), b"", b"path.mp3", Audio(cast("Any", [0.0]))],
    ids=lambda source: repr(source).partition(" at 0x")[0],
)
def test_objects_that_are_not_sources(source: object) -> None:
    with pytest.raises(AudioError) as caught:
        read(cast("Source", source))
    assert "\n" not in str(caught.value)
    assert "give" in str(caught.value) or "not" in str(caught.value)


def test_file_opened_as_text(tmp_path: Path) -> None:
    path = tmp_path / "talk.mp3"
    path.write_text("text")
    with path.open() as file, pytest.raises(AudioError, match=r"talk\.mp3: .*mode 'rb'"):
        read(cast("BinaryIO", file))


@pytest.mark.parametrize("rate", [1, 999])
def test_impossible_sampling_rates_of_files(rate: int) -> None:
    with pytest.raises(AudioError, match=f"<bytes>: states a sampling rate of {rate} Hz"):
        open_audio(wav(rate, 1, 2, bytes(2000)), Options())


def test_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    message = "<stdin>: standard input is closed; give a file, or connect a pipe"
    with pytest.raises(AudioError, match=message):
        read("-")
    stdin = io.TextIOWrapper(io.BytesIO())
    stdin.close()
    monkeypatch.setattr("sys.stdin", stdin)
    with pytest.raises(AudioError, match=message):
        read("-")


def test_every_message_has_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise TimeoutError

    path = tmp_path / "talk.wav"
    path.write_bytes(wav(16_000, 1, 2, bytes(1000)))
    monkeypatch.setattr("av.open", refuse)
    with pytest.raises(AudioError, match=r"talk\.wav: cannot be opened: TimeoutError$"):
        read(path)
    monkeypatch.setattr(Path, "is_dir", refuse)
    with pytest.raises(AudioError, match=r"talk\.wav: cannot be opened: TimeoutError$"):
        read(path)


def test_strided_bytes_are_read() -> None:
    media = wav(16_000, 1, 2, bytes(2000))
    strided: Any = memoryview(
        bytes(byte for pair in zip(media, media, strict=True) for byte in pair)
    )
    assert len(read(strided[::2])) == 1000
    with pytest.raises(AudioError, match="<bytes>: is empty"):
        read(strided[:0])


@pytest.mark.parametrize("kind", ["hls", "concat", "sdp"])
@pytest.mark.parametrize("suffix", ["m3u8", "ffconcat", "sdp"])
def test_contents_of_a_file_object_name_other_files_in_vain(
    tmp_path: Path, kind: str, suffix: str
) -> None:
    """A playlist from another person must not open the files and addresses that it names."""
    secret = tmp_path / "secret.ts"
    secret.write_bytes(encode([tone(440, 1)], "mpegts", "aac", rate=SAMPLING_RATE))
    contents = {
        "hls": f"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:1,\nfile://{secret}\n#EXT-X-ENDLIST\n",
        "concat": "ffconcat version 1.0\nfile secret.ts\n",
        "sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\n"
        "m=audio 5004 RTP/AVP 0\n",
    }
    playlist = tmp_path / f"list.{suffix}"
    playlist.write_text(contents[kind])
    with playlist.open("rb") as file, pytest.raises(AudioError, match=r"is not media|cannot be"):
        open_audio(file)
