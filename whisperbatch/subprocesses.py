"""Generators that run in other Python processes, beside the interpreter lock of this process.

    this process, Subprocess.items           the other process, serve
    name of a function, arguments  ───────►  calls the generator function
    an input                       ───────►  runs the generator until it needs another input
    yields the items               ◄───────  the items
    the next input                 ───────►  runs the generator until it ends
    yields the items, and ends     ◄───────  the items, and the end or an error

The other process is a new Python interpreter (`sys.executable`): it is no fork of this process, and
does not import the program of the user. Both talk through two pipes. Log records of whisperbatch
come between the answers, and are logged here.

The other process ignores Ctrl-C, which would reach all processes of a terminal. It ends when this
process closes the pipe or ends, also by SIGKILL: its pipe then ends.
"""

import logging
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from importlib import import_module
from io import FileIO
from itertools import chain, islice, repeat
from typing import Any, Final

from whisperbatch.boundary import as_error
from whisperbatch.errors import ClosedError, EngineError, OptionError
from whisperbatch.runtimes.interpreter import how_ended, python_command
from whisperbatch.threads import in_background, reset_after_fork, stop_at_exit

PIPE_SIZE: Final = 2**18  # bytes that wait in a pipe: 4 s of audio
KILL_TIMEOUT: Final = 5.0  # seconds until a process that was killed has ended
WORD: Final = struct.Struct("<Q")
LOGGER: Final = "whisperbatch"


def check_interpreter(option: str) -> None:
    """Refuse an option that needs further interpreters where none can be started.

    Raises:
        OptionError: this program is frozen, or does not know its interpreter.
    """
    if getattr(sys, "frozen", False) or not sys.executable:
        raise OptionError(
            f"`{option}=True` starts Python interpreters, and this program has none that it could "
            f"start; leave `{option}` out"
        )


# Messages to the other process
CALL: Final = "call a function"
INPUT: Final = "an input"
NO_INPUT: Final = "the inputs have ended"
STOP: Final = "no further item is needed"
# Messages from the other process
ITEMS: Final = "the items after an input"
END: Final = "the last items"
ERROR: Final = "the last items, and an error"
LOG: Final = "a log record"


class _BrokenError(BaseException):
    """The other process has closed its pipe. A BaseException: no generator may keep it."""


class _Pipes:
    """Sends and receives messages. Several threads may send; one thread receives.

    A message is one write and two reads, because each may wake the other process:

        size of the rest | number of arrays | size of the pickle, of each array | pickle | arrays

    Args:
        reads: the end of a pipe from which messages come.
        writes: the end of a pipe to which messages go.
    """

    def __init__(self, reads: FileIO, writes: FileIO) -> None:
        self._reads, self._writes = reads, writes
        self._sending = threading.Lock()
        with suppress(ImportError, AttributeError, OSError):  # not Linux, or no room for the user
            import fcntl  # noqa: PLC0415 - not on Windows

            fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, PIPE_SIZE)

    def send(self, kind: str, value: object = None) -> None:
        """Send a message.

        Raises:
            _BrokenError: the other process has closed its end.
        """
        buffers: list[pickle.PickleBuffer] = []
        content = pickle.dumps((kind, value), protocol=5, buffer_callback=buffers.append)
        parts: list[Any] = [content, *(buffer.raw() for buffer in buffers)]
        sizes = struct.pack(f"<{1 + len(parts)}Q", len(buffers), *map(len, parts))
        pieces = [sizes, *(piece for part in parts for piece in (part, _padding(len(part))))]
        rest = memoryview(b"".join((WORD.pack(sum(map(len, pieces))), *pieces)))
        try:
            with self._sending:
                while rest:
                    rest = rest[self._writes.write(rest) or 0 :]
        except (OSError, ValueError) as error:  # a ValueError: this process has closed the pipe
            raise _BrokenError from error

    def receive(self) -> tuple[str, Any]:
        """Wait for a message.

        Raises:
            _BrokenError: the other process has closed its end.
        """
        message = self._read(*WORD.unpack(self._read(WORD.size)))
        [count] = WORD.unpack(message[: WORD.size])
        start = (2 + count) * WORD.size
        parts: list[memoryview] = []
        for [size] in WORD.iter_unpack(message[WORD.size : start]):
            parts.append(message[start : start + size])
            start += size + len(_padding(size))
        found: tuple[str, Any] = pickle.loads(parts[0], buffers=parts[1:])  # noqa: S301 - our own
        return found

    def close(self) -> None:
        """Close both pipes. Safe to call twice."""
        self._reads.close()
        self._writes.close()

    def _read(self, size: int) -> memoryview:
        content = memoryview(bytearray(size))
        rest = content
        while rest:
            try:
                count = self._reads.readinto(rest)
            except (OSError, ValueError) as error:
                raise _BrokenError from error
            if not count:
                raise _BrokenError
            rest = rest[count:]
        return content


def _padding(size: int) -> bytes:
    """Return the bytes after a part, so that the numbers of the next part are aligned."""
    return bytes(-size % WORD.size)


class Subprocess:
    """Another Python process, which runs generators, one after the other.

    Raises:
        EngineError: the process cannot be started.

    Attributes:
        is_usable: whether it can run another generator.
    """

    def __init__(self) -> None:
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter
                python_command(__name__, "serve"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,  # Ctrl-C does not reach it
            )
        except OSError as error:
            reason = error.strerror or error
            raise EngineError(f"a reader process cannot be started: {reason}") from error
        self._pipes = _Pipes(self._process.stdout, self._process.stdin)  # type: ignore[arg-type]
        self.is_usable = True
        self._is_running = self._was_ended = self._is_inherited = False
        reset_after_fork(self)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def _after_fork(self) -> None:
        """Close the pipes, so that the process still ends with the parent. See `Inheritable`."""
        self.is_usable, self._is_inherited = False, True
        self._process.returncode = 0  # it is no child of this process
        self._pipes.close()

    def __del__(self) -> None:
        if hasattr(self, "_is_inherited"):
            self.end()

    def items(
        self,
        function: str,
        arguments: tuple[object, ...] = (),
        inputs: Iterable[object] = (),
        *,
        ahead: int = 0,
    ) -> Generator[Any, None, None]:
        """Run a generator function in the process, and yield its items.

        Args:
            function: "module:name". Gets the iterator of the inputs, then the arguments.
            arguments: can be pickled.
            inputs: can be pickled. An input is taken when the items of the inputs before are
                yielded.
            ahead: number of inputs that are taken earlier, so that the process need not wait.

        Raises:
            WhisperBatchError: as the function raised it; an InternalError for other exceptions.
            EngineError: the process has ended, or belongs to the parent of a fork.
            ClosedError: the process was ended here.
            Exception: as `inputs` raised it.
        """
        messages = chain(((INPUT, each) for each in inputs), repeat((NO_INPUT, None)))
        level = logging.getLogger(LOGGER).getEffectiveLevel()
        self._is_running = True
        try:
            self._pipes.send(CALL, (function, arguments, level))
            for message in islice(messages, ahead):
                self._pipes.send(*message)
            for message in messages:
                self._pipes.send(*message)
                kind, (items, error) = self._answer()
                self._is_running = kind == ITEMS
                yield from items
                if error:
                    raise error
                if not self._is_running:
                    return
        except _BrokenError:
            raise self._death(function) from None
        finally:
            self._stop()

    def end(self) -> None:
        """End the process. Safe to call twice, and while another thread waits for an item."""
        if self._was_ended or self._is_inherited:
            return
        self._was_ended, self.is_usable = True, False
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(KILL_TIMEOUT)
        if not self._is_running:  # a thread that reads a pipe closes it
            self._pipes.close()

    def _stop(self) -> None:
        """Stop the generator unless it has ended, and forget its answers until its end."""
        with suppress(_BrokenError):
            if self._is_running and self.is_usable:
                self._pipes.send(STOP)
                while self._answer()[0] == ITEMS:
                    pass
            self._is_running = False
        if self._is_running or not self.is_usable:
            self.is_usable = self._is_running = False
            self._pipes.close()

    def _answer(self) -> tuple[str, Any]:
        """Return the next answer; log the log records before it."""
        while True:
            kind, value = self._pipes.receive()
            if kind != LOG:
                return kind, value
            logger = logging.getLogger(value.name)
            if logger.isEnabledFor(value.levelno):
                logger.handle(value)

    def _death(self, function: str) -> EngineError | ClosedError:
        """Return the error for a process that does not answer."""
        self.is_usable = False
        if self._is_inherited:
            return EngineError(
                "this work was begun before a fork, and its processes belong to the parent; begin "
                "the work in the process that needs the result"
            )
        if self._was_ended:
            return ClosedError("the work was stopped")
        self._process.kill()  # it may have closed its pipes only
        status = how_ended(self._process.wait())
        what = function.rpartition(":")[2].strip("_").replace("_", " ")
        return EngineError(
            f"a process that reads recordings ({what}) {status}; without `reader_processes`, this "
            "program reads them"
        )


class Subprocesses:
    """Processes that are kept for the next generators. Thread-safe."""

    def __init__(self) -> None:
        self._begin()
        reset_after_fork(self)
        stop_at_exit(self)

    def _begin(self) -> None:
        self._changing = threading.Lock()
        self._idle: list[Subprocess] = []
        self._used: Counter[str] = Counter()
        self._all: set[Subprocess] = set()
        self._is_closed = False

    def _after_fork(self) -> None:
        """Forget the processes of the parent. See `threads.Inheritable`."""
        self._begin()

    @contextmanager
    def process(self, purpose: str, most: int) -> Iterator[Subprocess | None]:
        """Take a process for the time of a `with` block; start one if none is idle.

        Args:
            purpose: for which processes are counted.
            most: number of processes for this purpose.

        Yields:
            The process; None if as many as `most` are in use.

        Raises:
            EngineError: the process cannot be started.
            ClosedError: the processes were closed.
        """
        with self._changing:
            if self._is_closed:
                raise ClosedError("the processes are closed")
            has_place = self._used[purpose] < most
            self._used[purpose] += has_place
            process = self._idle.pop() if has_place and self._idle else None
        try:
            if has_place and process is None:
                process = self._start()
            yield process
        finally:
            with self._changing:
                self._used[purpose] -= has_place
            if process:
                self._give_back(process)

    def close(self) -> None:
        """End the processes; those in use when they are given back. Safe to call twice."""
        with self._changing:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for process in idle:
            self._end(process)

    def stop_at_exit(self) -> None:
        """End all processes, also those in use. See `threads.Stoppable`."""
        self._is_closed = True
        for process in [*self._all]:
            process.end()

    def _start(self) -> Subprocess:
        process = Subprocess()
        self._all.add(process)
        if self._is_closed:  # the program ends
            process.end()
        return process

    def _give_back(self, process: Subprocess) -> None:
        with self._changing:
            is_kept = process.is_usable and not self._is_closed
            if is_kept:
                self._idle.append(process)
        if not is_kept:
            self._end(process)

    def _end(self, process: Subprocess) -> None:
        self._all.discard(process)
        process.end()


# In the other process:


class _StoppedError(BaseException):
    """No further item is needed. A BaseException: no generator may keep it."""


class _Sender(logging.Handler):
    """Sends log records, without objects that cannot be pickled."""

    def __init__(self, pipes: _Pipes) -> None:
        super().__init__()
        self._pipes = pipes

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record, whose traceback becomes text."""
        self.format(record)
        record.msg, record.args, record.exc_info = record.getMessage(), None, None
        self._pipes.send(LOG, record)


def serve() -> None:
    """Run generators until the process that started this process closes the pipe, or ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipes = _Pipes(FileIO(os.dup(0), "rb"), FileIO(os.dup(1), "wb"))
    if hasattr(select, "poll"):  # not on Windows
        in_background(_exit_with_parent(os.dup(0)), "whisperbatch-parent")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing if sys.stderr is None else 2, 1)  # what libraries print
    logger = logging.getLogger(LOGGER)
    logger.addHandler(_Sender(pipes))
    logger.propagate = False
    with suppress(_BrokenError):
        while True:
            kind, value = pipes.receive()
            if kind == CALL:  # otherwise an input that came after the end
                function, arguments, level = value
                logger.setLevel(level)
                _Call(pipes).run(function, arguments)
    os._exit(0)  # also if a thread of a library goes on


def _exit_with_parent(pipe: int) -> Callable[[], None]:
    """Return a function that ends this process, also during a call, when the pipe is closed."""

    def wait() -> None:
        hang_ups = select.poll()
        hang_ups.register(pipe, 0)
        hang_ups.poll()
        os._exit(0)

    return wait


class _Call:
    """A generator that runs for the other process."""

    def __init__(self, pipes: _Pipes) -> None:
        self._pipes = pipes
        self._items: list[object] = []  # that were not sent

    def run(self, function: str, arguments: tuple[object, ...]) -> None:
        """Send the items, and the end."""
        module, _, name = function.partition(":")
        error = None
        try:
            make: Callable[..., Generator[object, None, None]]
            make = getattr(import_module(module), name)
            with closing(make(self._inputs(), *arguments)) as items:
                self._items.extend(items)
        except _StoppedError:
            pass
        except Exception as raised:  # noqa: BLE001 - the other process raises it
            error = as_error(raised, None)
        self._pipes.send(ERROR if error else END, (self._items, error))

    def _inputs(self) -> Iterator[object]:
        while True:
            kind, value = self._pipes.receive()
            if kind == STOP:
                raise _StoppedError
            if kind == NO_INPUT:
                return
            yield value
            self._pipes.send(ITEMS, (self._items, None))
            self._items.clear()
