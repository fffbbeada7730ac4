"""The kinds of sources: the same media handed over as a path, bytes, a file, a pipe and so on."""

import io
import os
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.fuzz.cases import Environment
from tests.fuzz.inputs.file_objects import HostileFile, OnlyRead, hostile_file
from tests.unit.media_files import pipe

PATH_NAMES: Final = (
    *("talk", "talk.wav", "talk.mp3", "a b.ogg", "ünïcode.mp4", "-", "a:b.wav", "%d.wav", "#.flac"),
    *("line\nbreak.wav", "a\tb.wav", "\udcff.wav", "x" * 251 + ".wav", "a\u202eb.wav", "'\".wav"),
    *("concat:x|y", "\x1b[31m.wav", "a\\b.mp3", ".wav", "~", "$HOME.wav", "talk.txt", "x.m3u8"),
)

BAD_PATHS: Final = (
    *("", " ", ".", "..", "/", "/dev/null", "/dev/full", "/proc/self/mem", "/nowhere/talk.wav"),
    *("\0", "a\0b.wav", "x" * 300, "x/" * 3000, "\ud800", "talk.wav\n", "/dev/fd/99", "pipe:99"),
    *("file:///nowhere.wav", "file:/nowhere.wav", "data:audio/wav;base64,UklGRg==", "concat:a|b"),
    *(
        "subfile,,start,0,end,9,,:/dev/null",
        "crypto:x",
        "cache:x",
        "async:x",
        "tee:x",
        "fd:",
        "md5:",
    ),
    *(
        "http://127.0.0.1:9/talk",
        "https://127.0.0.1:9",
        "rtsp://127.0.0.1:9/x",
        "tcp://127.0.0.1:9",
    ),
    *("://", "http://", "x://y", "lavfi:sine", "hls://x", "rtmp://127.0.0.1:9/a", "gopher:"),
)
"""Paths and URLs that are no recordings; no URL leads to another machine.

"udp://" is not among them: it waits for packets without end.
"""


@dataclass
class GivenSource:
    """A source, with what its case must know.

    Attributes:
        value: the source.
        kind: of the source, for the description.
        raised: the exceptions that the source itself raised; a call may raise them unchanged.
        stack: closes the harness's own files.
    """

    value: Any
    kind: str
    raised: list[BaseException] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the recording in messages; empty if the source has no name."""
        name = getattr(self.value, "name", self.value)
        return str(name) if isinstance(name, str | Path) else ""


Maker = Callable[[bytes, Random, Path, ExitStack], GivenSource]


def _path(content: bytes, random: Random, folder: Path, _: ExitStack) -> GivenSource:
    name = random.choice(PATH_NAMES)
    path = folder / name
    try:
        path.write_bytes(content)
    except OSError:  # a file system with other rules for names
        path = folder / "talk.wav"
        path.write_bytes(content)
    relative = os.path.relpath(path) if random.random() < 0.1 else None
    value: Any = relative or (str(path) if random.random() < 0.5 else path)
    return GivenSource(value, f"path {name[:30]!r}")


def _bad_path(_: bytes, random: Random, folder: Path, stack: ExitStack) -> GivenSource:
    path = random.choice(BAD_PATHS)
    value: Any = Path(path) if random.random() < 0.2 else path
    if random.random() < 0.1:
        value = os.fsencode(folder)
    return GivenSource(value, f"path {path[:30]!r}")


def _bytes(content: bytes, random: Random, _: Path, stack: ExitStack) -> GivenSource:
    padded = content + bytes(-len(content) % 4 or 4)
    forms: dict[str, Callable[[], Any]] = {
        "bytes": lambda: content,
        "bytearray": lambda: bytearray(content),
        "memoryview": lambda: memoryview(content),
        "strided memoryview": lambda: memoryview(content)[::2],
        "reversed memoryview": lambda: memoryview(content)[::-1],
        "memoryview of shorts": lambda: memoryview(padded).cast("H"),
        "memoryview in two dimensions": lambda: memoryview(padded).cast("B", (len(padded) // 4, 4)),
        "released memoryview": _released,
    }
    kind = random.choices(list(forms), [8, 2, 2, 1, 1, 1, 1, 1])[0]
    return GivenSource(forms[kind](), kind)


def _released() -> memoryview:
    view = memoryview(b"RIFF")
    view.release()
    return view


def _open_file(content: bytes, random: Random, folder: Path, stack: ExitStack) -> GivenSource:
    path = folder / "talk.wav"
    path.write_bytes(content)
    mode = random.choices(("rb", "r+b", "wb", "ab", "r", "closed"), [12, 1, 1, 1, 1, 1])[0]
    file: Any = stack.enter_context(
        path.open("rb" if mode == "closed" else mode, buffering=0 if "b" in mode else -1)
    )
    if mode == "closed":
        file.close()
    elif mode == "rb" and random.random() < 0.3:
        file.seek(random.choice((0, 1, len(content) // 2, len(content), len(content) + 9)))
    return GivenSource(file, f"file of mode {mode}")


def _bytes_io(content: bytes, random: Random, _: Path, stack: ExitStack) -> GivenSource:
    file: Any = io.BytesIO(content)
    if random.random() < 0.3:
        file.seek(random.randrange(len(content) + 2))
    if random.random() < 0.3:
        file = io.BufferedReader(file)
    if random.random() < 0.1:
        return GivenSource(OnlyRead(content), "object with only read")
    return GivenSource(file, type(file).__name__)


def _pipe(content: bytes, random: Random, folder: Path, stack: ExitStack) -> GivenSource:
    if random.random() < 0.5:
        return GivenSource(stack.enter_context(pipe(content)), "pipe")
    path = folder / "fifo"
    os.mkfifo(path)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:  # no reader yet
                stop.wait(0.01)
                continue
            os.set_blocking(descriptor, True)
            with suppress(BrokenPipeError), os.fdopen(descriptor, "wb") as file:
                file.write(content)
            return

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    stack.callback(writer.join, 5)
    stack.callback(stop.set)
    return GivenSource(str(path), "FIFO")


def _standard_input(content: bytes, random: Random, _: Path, stack: ExitStack) -> GivenSource:
    stdin = sys.stdin
    stack.callback(setattr, sys, "stdin", stdin)
    closed = io.BytesIO()
    closed.close()
    value, kind = random.choice(
        (
            (None, "None"),
            (io.TextIOWrapper(io.BytesIO(content)), "bytes"),
            (io.StringIO("text"), "text"),
            (closed, "closed"),
            (stdin, "empty"),
        )
    )
    sys.stdin = value  # None: as in programs without a console
    return GivenSource("-", f"standard input: {kind}")


def _hostile(content: bytes, random: Random, _: Path, stack: ExitStack) -> GivenSource:
    file, text = hostile_file(content, random)
    return GivenSource(file, f"file object: {text}", file.raised)


MAKERS: Final[tuple[tuple[Maker, int], ...]] = (
    *((_path, 30), (_bytes, 20), (_open_file, 10), (_bytes_io, 12), (_pipe, 6)),
    *((_standard_input, 2), (_hostile, 20), (_bad_path, 3)),
)


def give(content: bytes, random: Random, env: Environment, stack: ExitStack) -> GivenSource:
    """Return media as a source of a random kind."""
    makers, weights = zip(*MAKERS, strict=True)
    folder = env.folder / f"source-{random.getrandbits(32):08x}"
    folder.mkdir()
    source: GivenSource = random.choices(makers, weights)[0](content, random, folder, stack)
    env.note(f"source: {source.kind}")
    return source


__all__ = ["GivenSource", "HostileFile", "give"]
