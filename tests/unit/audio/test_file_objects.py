"""File objects of callers that break the rules: an error in one line, no crash, no endless read."""

import io
from collections.abc import Callable
from functools import cache
from typing import Any, cast

import numpy as np
import pytest

from tests.unit.fakes import FakeEngine
from tests.unit.media_files import encode, read, tone
from whisperbatch import AudioError, Transcriber
from whisperbatch.audio import decode_audio
from whisperbatch.audio.reader import open_audio
from whisperbatch.types import SAMPLING_RATE

SECONDS = 20


@cache
def wav() -> bytes:
    return encode([tone(440, SECONDS)], "wav", "pcm_s16le", rate=SAMPLING_RATE)


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
        super().__init__(wav() if media is None else media)
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
    return encode([tone(440, SECONDS)], container, codec, rate=SAMPLING_RATE)


@pytest.mark.parametrize(
    "convert",
    [bytearray, memoryview, lambda data: memoryview(data)[:], type("Bytes", (bytes,), {})],
    ids=["bytearray", "memoryview", "slice", "subclass"],
)
def test_any_kind_of_bytes_is_read(convert: Callable[[bytes], Any]) -> None:
    file = Faulty("read", lambda data, size: convert(data), 0)
    np.testing.assert_array_equal(read(file), read(wav()))


def test_short_reads_are_read_completely() -> None:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(size or 0, 777))

    np.testing.assert_array_equal(read(Slow(wav())), read(wav()))


def test_a_file_that_cannot_tell_its_position_is_read_like_a_pipe() -> None:
    class Minimal:
        def __init__(self) -> None:
            self._file = io.BytesIO(wav())

        def read(self, size: int) -> bytes:
            return self._file.read(size)

        @property
        def name(self) -> str:
            raise RuntimeError

    with open_audio(cast("Any", Minimal())) as reader:
        assert reader.name == "<Minimal>"
        with reader.random_access() as recording:
            assert recording is None
        np.testing.assert_array_equal(np.concatenate(list(reader.blocks())), read(wav()))


def test_the_position_of_a_file_is_restored_or_reported() -> None:
    file = Faulty("seek", raising(OSError("no way back")), 10**9)
    with open_audio(file) as reader:
        with reader.random_access() as recording:
            assert recording is not None
            recording.read(15, 2)
            file._after = 0  # the next seek restores the position
        with pytest.raises(AudioError, match="<Faulty>: cannot be read: no way back"):
            list(reader.blocks())
