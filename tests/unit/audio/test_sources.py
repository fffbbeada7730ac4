"""Sources as they come: big-endian files, HTTP answers, file objects, and what is refused."""

import io
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, cast

import av
import numpy as np
import numpy.typing as npt
import pytest

from tests.unit.fakes import FakeEngine
from tests.unit.media_files import bursts, encode, pipe, read, tone, wav
from whisperbatch import Transcriber
from whisperbatch.audio import decode_audio, known_duration, stated_duration
from whisperbatch.audio.file_objects import HttpAnswer, RifxFile, is_http, open_rifx
from whisperbatch.audio.media import MediaDecoder
from whisperbatch.audio.reader import open_audio
from whisperbatch.audio.sources import check_several
from whisperbatch.errors import AudioError, OptionError
from whisperbatch.features.whisper import WhisperFeatures
from whisperbatch.options import Options
from whisperbatch.types import SAMPLING_RATE, Audio, Notice, Notices, Source

SOUND = tone(440, 3)
KINDS = {  # format tag and NumPy's type of a sample
    "u8": (1, "u1"),
    "s16": (1, ">i2"),
    "s24": (1, "24"),
    "s32": (1, ">i4"),
    "f32": (3, ">f4"),
    "f64": (3, ">f8"),
}


def chunk(name: bytes, content: bytes) -> bytes:
    return name + struct.pack(">I", len(content)) + content + bytes(len(content) % 2)


def samples_of(kind: str, channels: int) -> tuple[bytes, int]:
    """The bytes of the samples, and the bits of one."""
    sound = np.repeat(SOUND[:, None], channels, axis=1).astype(np.float64)
    tag, dtype = KINDS[kind]
    if kind == "s24":
        wide = np.ascontiguousarray((sound * (2**23 - 1)).astype(">i4"))
        return wide.view(np.uint8).reshape(-1, 4)[:, 1:].tobytes(), 24
    bits = np.dtype(dtype).itemsize * 8
    if kind == "u8":
        return (sound * 127 + 128).astype("u1").tobytes(), bits
    scale = 2 ** (bits - 1) - 1 if tag == 1 else 1
    return (sound * scale).astype(dtype).tobytes(), bits


def rifx(kind: str, channels: int = 1, *, extensible: bool = False, before: bytes = b"") -> bytes:
    data, bits = samples_of(kind, channels)
    tag, _ = KINDS[kind]
    align = channels * bits // 8
    fmt = struct.pack(
        ">HHIIHH",
        *(0xFFFE if extensible else tag, channels, SAMPLING_RATE, SAMPLING_RATE * align),
        *(align, bits),
    )
    if extensible:  # as sox writes samples of 24 and 32 bits
        fmt += struct.pack(">HHIIHH", 22, bits, 0, tag, 0, 16) + bytes.fromhex("800000aa00389b71")
    body = b"WAVE" + before + chunk(b"fmt ", fmt) + chunk(b"data", data) + chunk(b"LIST", b"INFO")
    return b"RIFX" + struct.pack(">I", len(body)) + body


@pytest.mark.parametrize("extensible", [False, True])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_the_sound_is_right(kind: str, channels: int, tmp_path: Path, *, extensible: bool) -> None:
    media = rifx(kind, channels, extensible=extensible, before=chunk(b"bext", bytes(603)))
    path = tmp_path / "recording.wav"
    path.write_bytes(media)
    for source in (media, path, io.BytesIO(media)):
        np.testing.assert_allclose(read(source), SOUND, atol=0.02)
    with pipe(media) as file:
        np.testing.assert_allclose(read(file), SOUND, atol=0.02)
    assert stated_duration(str(path)) == pytest.approx(3)
    np.testing.assert_allclose(decode_audio(str(path))[0], SOUND, atol=0.02)


def test_seeking_and_random_access(tmp_path: Path) -> None:
    path = tmp_path / "recording.wav"
    path.write_bytes(rifx("s24"))
    first = 2 * SAMPLING_RATE + 17
    decoder = MediaDecoder("file", str(path), Options(), Notices("file"), first)
    with closing(decoder):
        assert decoder.position == SAMPLING_RATE, "not read by seeking"
        samples = np.concatenate(list(decoder.blocks()))
    np.testing.assert_allclose(samples, SOUND[SAMPLING_RATE:], atol=0.001)
    with open_audio(path, Options()) as reader, reader.random_access() as access:
        assert access is not None
        start, samples = access.read(1.0, 1.0)
        first = round(start * SAMPLING_RATE)
        np.testing.assert_allclose(samples, SOUND[first : first + len(samples)], atol=0.001)


@pytest.mark.parametrize("size", [1, 7, 1000, 10**6])
def test_reads_of_any_size(size: int) -> None:
    file = RifxFile(io.BytesIO(rifx("s24")))
    whole = b"".join(iter(lambda: file.read(10**9), b""))
    file.seek(0)
    assert b"".join(iter(lambda: file.read(size), b"")) == whole
    assert file.tell() == len(whole) == file.seek(0, 2)
    file.seek(-5, 1)
    assert file.read(10) == whole[-5:]


def test_recording_that_was_cut_off() -> None:
    media = rifx("s32")
    with open_audio(media[: len(media) * 4 // 10]) as reader:
        length = sum(map(len, reader.blocks())) / SAMPLING_RATE
    # PyAV 17 does not decode the last packet (48 ms), in which a sample was cut, as in any WAV file
    assert length == pytest.approx(1.2, abs=0.05)
    (notice,) = reader.notices.all()
    assert notice.kind == "incomplete"
    assert notice.end == pytest.approx(3.0, abs=0.15)


def test_files_without_samples_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "recording.wav"
    path.write_bytes(b"RIFX\0\0\0\x10WAVEjunk\xff\xff\xff\xff")
    with pytest.raises(AudioError, match="big-endian"):
        open_rifx(str(path))
    with pytest.raises(AudioError, match="big-endian"):
        open_audio(path.read_bytes())
    assert open_rifx(str(tmp_path / "missing")) is None


SECONDS = 20.0
FORMATS = {
    "ogg": ("ogg", "libopus"),
    "mp3": ("mp3", "libmp3lame"),
    "webm": ("webm", "libopus"),
    "wav": ("wav", "pcm_s16le"),
}
CLOSE = b"Connection: close\r\n"


@cache
def recording(kind: str) -> bytes:
    container, codec = FORMATS[kind]
    return encode([bursts([2, 15], SECONDS, 48_000)], container, codec, rate=48_000)


@contextmanager
def server(head: bytes, body: bytes) -> Iterator[str]:
    """The address of a server that sends an answer, and closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, suppress(OSError):
                        connection.recv(65_536)
                        connection.sendall(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n" + body)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/recording"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def chunked(data: bytes, *, last: bool) -> bytes:
    pieces = (data[start : start + 5000] for start in range(0, len(data), 5000))
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n" * last


def read_url(address: str) -> tuple[float, tuple[Notice, ...]]:
    with open_audio(address) as reader:
        return sum(map(len, reader.blocks())) / SAMPLING_RATE, reader.notices.all()


@pytest.mark.parametrize("head", [b"", CLOSE])
@pytest.mark.parametrize("kind", FORMATS)
def test_answer_without_a_length_ends_with_its_connection(kind: str, head: bytes) -> None:
    with server(head, recording(kind)) as address:
        length, notices = read_url(address)
    assert length == pytest.approx(SECONDS, abs=0.1)
    assert not notices


@pytest.mark.parametrize("head", [b"", CLOSE])
@pytest.mark.parametrize("kind", FORMATS)
def test_chunked_answer(kind: str, head: bytes) -> None:
    head += b"Transfer-Encoding: chunked\r\n"
    with server(head, chunked(recording(kind), last=True)) as address:
        length, notices = read_url(address)
    assert length == pytest.approx(SECONDS, abs=0.1)
    assert not notices


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("head", [b"", CLOSE])
@pytest.mark.parametrize("kind", FORMATS)
def test_chunked_answer_that_breaks(kind: str, head: bytes, *, within: bool) -> None:
    part = recording(kind)
    part = part[: len(part) * 4 // 10]
    body = chunked(part, last=False)
    if within:
        body = b"%x\r\n%b" % (len(part) + 100, part)
    with server(head + b"Transfer-Encoding: chunked\r\n", body) as address:
        length, (notice,) = read_url(address)
    assert notice.kind == "incomplete"
    assert "connection" in notice.text
    assert notice.start == pytest.approx(length, abs=0.1)
    assert 0.2 * SECONDS < length < 0.5 * SECONDS
    if kind in ("mp3", "webm", "wav"):  # the header states the duration
        assert notice.end == pytest.approx(SECONDS, abs=0.5)


def test_chunked_answer_that_breaks_between_two_chunks_of_an_mp3_without_a_header_frame() -> None:
    part = recording("mp3")[2000:80_000]
    with server(b"Transfer-Encoding: chunked\r\n", chunked(part, last=False)) as address:
        _, (notice,) = read_url(address)
    assert notice.kind == "incomplete"


@pytest.mark.parametrize("kind", FORMATS)
def test_answer_shorter_than_its_length_is_an_error(kind: str) -> None:
    media = recording(kind)
    head = b"Content-Length: %d\r\n" % len(media)
    with (
        server(head, media[: len(media) * 4 // 10]) as address,
        pytest.raises(AudioError, match="cannot be read"),
    ):
        read_url(address)
    with server(head, media) as address:
        length, notices = read_url(address)
    assert length == pytest.approx(SECONDS, abs=0.1)
    assert not notices


def test_answers_that_ffmpeg_reads_itself() -> None:
    with server(b"Content-Length: 3\r\n", b"abc") as address:
        assert HttpAnswer.get(address) is None
    assert HttpAnswer.get(address) is None, "there is no server any more"
    assert is_http("https://host/a.wav?token=x")
    assert not is_http("https://user:password@host/a.wav")
    assert not is_http("rtsp://host/a")
    assert not is_http("/home/a.wav")


TONE_SECONDS = 20


@cache
def tone_wav() -> bytes:
    return encode([tone(440, TONE_SECONDS)], "wav", "pcm_s16le", rate=SAMPLING_RATE)


class Faulty(io.BytesIO):
    """A file whose method behaves as given after `after` calls of this method.

    Args:
        method: "read", "seek" or "tell".
        fault: gets the results of the true method and its first argument.
        after: number of calls that succeed.
        media: contents of the file.
    """

    def __init__(
        self, method: str, fault: Callable[[Any, int], Any], after: int, media: bytes | None = None
    ) -> None:
        super().__init__(tone_wav() if media is None else media)
        self._method, self._fault, self._after = method, fault, after
        self.calls = {"read": 0, "seek": 0, "tell": 0}

    def _result(self, method: str, result: Any, argument: int = 0) -> Any:
        self.calls[method] += 1
        if method == self._method and self.calls[method] > self._after:
            return self._fault(result, argument)
        return result

    def read(self, size: int | None = -1, /) -> bytes:
        return cast("bytes", self._result("read", super().read(size), size or 0))

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return cast("int", self._result("seek", super().seek(offset, whence), offset))

    def tell(self) -> int:
        return cast("int", self._result("tell", super().tell()))


def raising(error: BaseException) -> Callable[[Any, int], Any]:
    def fault(*_: Any) -> Any:
        raise error

    return fault


FAULTS: dict[str, tuple[Callable[[Any, int], Any], str]] = {
    "twice the bytes": (lambda data, size: bytes(2 * size), r"read\(\d+\) returned \d+ bytes"),
    "one more byte": (lambda data, size: bytes(size + 1), r"read\(\d+\) returned \d+ bytes"),
    "a megabyte": (lambda data, size: bytearray(1 << 20), r"read\(\d+\) returned 1048576 bytes"),
    "text": (lambda data, size: "text", "is open as text; open it with mode 'rb'"),
    "None": (lambda data, size: None, r"its read\(\) returns NoneType; open it as a blocking"),
    "a number": (lambda data, size: 5, r"its read\(\) returns int"),
    "a list": (lambda data, size: [1, 2], r"its read\(\) returns list"),
    "OSError": (raising(OSError(5, "the disk is on fire")), "cannot be read: the disk is on fire"),
    "no text": (raising(TimeoutError()), "cannot be read: TimeoutError"),
    "StopIteration": (raising(StopIteration()), "cannot be read: StopIteration"),
    "MemoryError": (raising(MemoryError()), "cannot be read: MemoryError"),
}
faults = pytest.mark.parametrize(("fault", "message"), FAULTS.values(), ids=FAULTS)
# read(0) while the file is opened; then FFmpeg's probe; then the samples
moments = pytest.mark.parametrize("after", [0, 1, 2, 8])


@faults
@moments
def test_a_faulty_read_is_an_error_of_the_recording(
    fault: Callable[[Any, int], Any], message: str, after: int, capfd: pytest.CaptureFixture[str]
) -> None:
    file = Faulty("read", fault, after)
    with pytest.raises(AudioError, match=rf"^<Faulty>: .*{message}") as caught:
        read(file)
    assert "\n" not in str(caught.value)
    assert caught.value.source == "<Faulty>"
    assert file.calls["read"] <= after + 2  # nothing is read after the fault; read(0) is none
    assert capfd.readouterr() == ("", ""), "PyAV printed a dropped exception"


@faults
@moments
def test_a_faulty_read_in_other_functions(
    fault: Callable[[Any, int], Any], message: str, after: int
) -> None:
    with pytest.raises(AudioError, match=message):
        decode_audio(Faulty("read", fault, after))
    with Transcriber(FakeEngine()) as asr, pytest.raises(AudioError, match=message):
        asr.detect_language(Faulty("read", fault, after), vad=False)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
@moments
def test_a_request_to_stop_ends_the_read_at_once(
    stop: type[BaseException], after: int, capfd: pytest.CaptureFixture[str]
) -> None:
    for function in (read, decode_audio):
        file = Faulty("read", raising(stop("now")), after)
        with pytest.raises(stop, match="now"):
            function(file)
        assert file.calls["read"] <= after + 1
    file = Faulty("read", raising(stop("now")), after)
    with Transcriber(FakeEngine()) as asr, pytest.raises(stop, match="now"):
        asr.detect_language(file, vad=False)
    assert capfd.readouterr() == ("", "")


POSITIONS: dict[str, Callable[[Any, int], Any]] = {
    "OSError": raising(OSError("no such place")),
    "no text": raising(OSError()),
    "text": lambda position, offset: "here",
    "None": lambda position, offset: None,
    "negative": lambda position, offset: -5,
    "huge": lambda position, offset: 2**70,
    "float": lambda position, offset: 1.5,
    "elsewhere": lambda position, offset: position + 7,
    "zero": lambda position, offset: 0,
}


@pytest.mark.parametrize("container", ["wav", "mp3", "ipod"])
@pytest.mark.parametrize("method", ["seek", "tell"])
@pytest.mark.parametrize("fault", POSITIONS.values(), ids=POSITIONS)
@pytest.mark.parametrize("after", [0, 1, 3])
def test_positions_that_are_wrong(
    container: str,
    method: str,
    fault: Callable[[Any, int], Any],
    after: int,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The file is read, or there is an AudioError; the samples of a lying file may be wrong."""
    codec = {"wav": "pcm_s16le", "mp3": "libmp3lame", "ipod": "aac"}[container]
    media = encoded(container, codec)
    try:
        with open_audio(Faulty(method, fault, after, media)) as reader:
            with reader.random_access() as recording:
                if recording:
                    recording.read(12, 2)
            samples = np.concatenate(list(reader.blocks()))
    except AudioError as error:
        assert str(error).startswith("<Faulty>: ")  # noqa: PT017 - the error is optional
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert np.isfinite(samples).all()
    assert capfd.readouterr() == ("", "")


@cache
def encoded(container: str, codec: str) -> bytes:
    return encode([tone(440, TONE_SECONDS)], container, codec, rate=SAMPLING_RATE)


@pytest.mark.parametrize(
    "convert",
    [bytearray, memoryview, lambda data: memoryview(data)[:], type("Bytes", (bytes,), {})],
    ids=["bytearray", "memoryview", "slice", "subclass"],
)
def test_any_kind_of_bytes_is_read(convert: Callable[[bytes], Any]) -> None:
    file = Faulty("read", lambda data, size: convert(data), 0)
    np.testing.assert_array_equal(read(file), read(tone_wav()))


def test_short_reads_are_read_completely() -> None:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(size or 0, 777))

    np.testing.assert_array_equal(read(Slow(tone_wav())), read(tone_wav()))


def test_a_file_that_cannot_tell_its_position_is_read_like_a_pipe() -> None:
    class Minimal:
        def __init__(self) -> None:
            self._file = io.BytesIO(tone_wav())

        def read(self, size: int) -> bytes:
            return self._file.read(size)

        @property
        def name(self) -> str:
            raise RuntimeError

    with open_audio(cast("Any", Minimal())) as reader:
        assert reader.name == "<Minimal>"
        with reader.random_access() as recording:
            assert recording is None
        np.testing.assert_array_equal(np.concatenate(list(reader.blocks())), read(tone_wav()))


def test_the_position_of_a_file_is_restored_or_reported() -> None:
    file = Faulty("seek", raising(OSError("no way back")), 10**9)
    with open_audio(file) as reader:
        with reader.random_access() as recording:
            assert recording is not None
            recording.read(15, 2)
            file._after = 0  # the next seek restores the position
        with pytest.raises(AudioError, match="<Faulty>: cannot be read: no way back"):
            list(reader.blocks())


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


class Tensor:
    """Samples of another package, as a tensor of PyTorch: no array, with `__array__`."""

    def __init__(self, samples: npt.NDArray[Any], failure: Exception | None = None) -> None:
        self.samples, self.failure = samples, failure

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if self.failure:
            raise self.failure
        return self.samples

    def __iter__(self) -> Iterator[float]:
        return iter(self.samples)


@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_samples_of_other_packages_are_read(dtype: Any) -> None:
    scale = 32767 if dtype is np.int16 else 1
    samples = (tone(440, 2) * scale).astype(dtype)
    for rate in (16_000, 48_000):
        expected = read(samples, sampling_rate=rate)
        np.testing.assert_array_equal(read(Tensor(samples), sampling_rate=rate), expected)
        np.testing.assert_array_equal(read(Audio(cast("Any", Tensor(samples)), rate)), expected)
    assert known_duration(Tensor(samples), Options(sampling_rate=8000)) == 4.0
    with open_audio(Tensor(samples)) as reader:
        assert (reader.name, reader.duration) == ("<array>", 2.0)


@pytest.mark.parametrize(("samples", "message"), BAD_ARRAYS.values(), ids=BAD_ARRAYS)
def test_samples_of_other_packages_have_the_same_rules(
    samples: npt.NDArray[Any], message: str
) -> None:
    with pytest.raises(AudioError, match=message):
        read(Tensor(samples))


def test_a_tensor_that_cannot_be_converted_says_why() -> None:
    hint = "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first."
    tensor = Tensor(tone(440, 1), TypeError(hint))
    with pytest.raises(AudioError, match=r"tests\.Tensor cannot be converted.* Tensor\.cpu"):
        read(tensor)
    assert known_duration(tensor, Options()) is None


def test_a_tensor_is_one_recording_and_a_column_of_paths_is_several() -> None:
    with pytest.raises(OptionError, match=r"for a single recording call transcribe\(\)"):
        check_several(Tensor(tone(440, 1)))
    column: Any = Tensor(np.array(["a.wav", "b.wav"], object))
    column.dtype = column.samples.dtype
    check_several(column)


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        (["a.wav", "b.wav"], r"list is not a recording; .* call transcribe_many"),
        ({"array": tone(440, 1), "sampling_rate": 16_000}, r"Audio\(item\['array'\].*, item\['sam"),
        ({"raw": tone(440, 1), "sampling_rate": 16_000}, r"Audio\(item\['raw'\].*, item\['samplin"),
        ({"a": 1}, "give a path, bytes, "),
    ],
)
def test_sources_of_other_programs_say_what_to_give(source: Any, hint: str) -> None:
    with pytest.raises(AudioError, match=hint):
        read(source)


def test_tensors_of_pytorch_are_read() -> None:
    torch = pytest.importorskip("torch")
    samples = tone(440, 2).astype(np.float32)
    np.testing.assert_array_equal(read(torch.from_numpy(samples)), read(samples))
    with pytest.raises(AudioError, match=r"torch\.Tensor cannot be converted.*detach"):
        read(torch.from_numpy(samples).requires_grad_())
    with pytest.raises(AudioError, match="not float64; convert"):
        read(torch.zeros(16_000, dtype=torch.float64))
