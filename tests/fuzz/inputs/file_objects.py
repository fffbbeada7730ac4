"""File objects that break the rules of files: their reads, positions and errors."""

import errno
import io
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import numpy as np


class OwnBaseError(BaseException):
    """An exception of a caller that is no Exception."""


class OwnError(Exception):
    """An exception of a caller."""


class UnprintableError(Exception):
    """An exception whose text cannot be made."""

    def __str__(self) -> str:
        raise ValueError("no text")


EXCEPTIONS: Final[tuple[Callable[[], BaseException], ...]] = (
    *(OSError, KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration, OwnBaseError),
    OwnError,
    *(MemoryError, RecursionError, EOFError, BlockingIOError, InterruptedError, TimeoutError),
    *(NotImplementedError, AssertionError, io.UnsupportedOperation, UnprintableError),
    lambda: OSError(errno.EIO, "Input/output error"),
    lambda: OSError(errno.EAGAIN, "Resource temporarily unavailable"),
    lambda: ValueError("read of closed file"),
    lambda: KeyError("part"),
    lambda: RuntimeError("first line\nsecond line\x1b[31m\0"),
    lambda: RuntimeError("x" * 10_000),
    lambda: OwnError("own"),
    lambda: OwnError("\ud800"),
    lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    lambda: SystemExit(3),
    lambda: BaseExceptionGroupLike("several"),
)


class BaseExceptionGroupLike(BaseException):
    """As asyncio.CancelledError: an exception that must end the caller's work."""


READ_FAULTS: Final[dict[str, Callable[[bytes, int], Any]]] = {
    "one byte too many": lambda data, _: data + b"\0",
    "many bytes too many": lambda data, size: data + bytes(max(size, 1) * 3),
    "ten megabytes too many": lambda data, _: data + bytes(10_000_000),
    "half as many bytes": lambda data, size: data[: max(size // 2, 1)],
    "None": lambda *_: None,
    "text": lambda data, _: data.decode("latin-1"),
    "bytearray": lambda data, _: bytearray(data),
    "memoryview": lambda data, _: memoryview(data),
    "array": lambda data, _: np.frombuffer(data, np.uint8),
    "list": lambda data, _: list(data[:100]),
    "number": lambda data, _: len(data),
    "nothing": lambda *_: b"",
    "zeros": lambda data, _: bytes(len(data)),
    "itself": lambda data, _: type("OwnBytes", (bytes,), {})(data),
}
"""What a faulty `read` returns, from the correct bytes and the size that was requested."""

POSITION_FAULTS: Final[dict[str, Callable[[int], Any]]] = {
    "0": lambda _: 0,
    "-1": lambda _: -1,
    "2**62": lambda _: 2**62,
    "2**63": lambda _: 2**63,
    "10**30": lambda _: 10**30,
    "None": lambda _: None,
    "text": str,
    "float": float,
    "one more": lambda value: value + 1,
    "half": lambda value: value // 2,
}
"""What a faulty `seek` or `tell` returns, from the correct position."""

NAMES: Final = (
    None, 3, b"bytes.wav", "talk.wav", "line\nbreak.wav", "\ud800.wav", "z" * 5000, "", "<x>",
    "\x1b[31mred", "http://example.org/talk", "a\u202eb", "https://user:secret@host/x",
)  # fmt: skip


@dataclass(eq=False)
class HostileFile:
    """A binary file with at most one fault in each of its methods, which starts after some reads.

    Attributes:
        raised: the exceptions that it has raised.
    """

    content: bytes
    read_fault: str = ""
    seek_fault: str = ""
    tell_fault: str = ""
    exception: Callable[[], BaseException] | None = None
    start: int = 0  # number of calls without a fault
    once: bool = False  # whether the fault occurs in one call only
    max_read: int = 0  # bytes of a short read; 0: no limit
    can_seek: Any = True
    seek_moves: bool = True

    def __post_init__(self) -> None:
        self._file = io.BytesIO(self.content)
        self._calls = 0
        self.raised: list[BaseException] = []

    def read(self, size: int = -1) -> Any:
        """Read as the fault allows. `read(0)`, which tests the type, has no fault."""
        if size == 0:
            return b""
        self._calls += 1
        faulty = self._calls - 1 == self.start if self.once else self._calls > self.start
        if faulty and self.exception is not None:
            error = self.exception()
            self.raised.append(error)
            raise error
        data = self._file.read(min(size, self.max_read) if self.max_read else size)
        if faulty and self.read_fault and data:
            return READ_FAULTS[self.read_fault](data, size)
        return data

    def seek(self, offset: int, whence: int = 0) -> Any:
        if not self.can_seek:
            raise io.UnsupportedOperation("seek")
        position = self._file.seek(offset, whence) if self.seek_moves else self._file.tell()
        return POSITION_FAULTS[self.seek_fault](position) if self.seek_fault else position

    def tell(self) -> Any:
        position = self._file.tell()
        return POSITION_FAULTS[self.tell_fault](position) if self.tell_fault else position

    def seekable(self) -> Any:
        return self.can_seek


class OnlyRead:
    """An object with no method but `read`."""

    def __init__(self, content: bytes) -> None:
        self._file = io.BytesIO(content)

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)


def hostile_file(content: bytes, random: Random) -> tuple[HostileFile, str]:
    """A file with a random fault, and the description of the fault."""
    start = random.choice((0, 0, 1, 2, 5, 20))
    file = HostileFile(content, start=start, once=random.random() < 0.3)
    kind = random.choice(("exception", "exception", "read", "read", "short", "position", "seek"))
    text = kind
    if kind == "exception":
        file.exception = random.choice(EXCEPTIONS)
        text = f"read raises {file.exception()!r:.80}"
    elif kind == "read":
        file.read_fault = random.choice(tuple(READ_FAULTS))
        text = f"read returns {file.read_fault}"
    elif kind == "short":
        file.max_read = random.choice((1, 7, 1000))
        file.content = content[:200_000]
    elif kind == "position":
        file.seek_fault = random.choice(("", *POSITION_FAULTS))
        file.tell_fault = random.choice(("", *POSITION_FAULTS))
        text = f"seek returns {file.seek_fault or 'well'}, tell {file.tell_fault or 'well'}"
    else:
        file.can_seek = random.choice((False, None, 0, "yes", True))
        file.seek_moves = random.random() < 0.5
        text = f"seekable {file.can_seek!r}, moves {file.seek_moves}"
    if random.random() < 0.4:
        name = random.choice(NAMES)
        file.name = name  # type: ignore[attr-defined]  # only some files have a name
        text += f", name {str(name)[:20]!r}"
    once = "once " if file.once else ""
    return file, f"{text} {once}after {start} calls"
