"""What a job is to work on, and where its outputs go.

talks/                      --output-dir text        without --output-dir
  monday/a.mp3              text/monday/a.srt        talks/monday/a.srt
  monday/b.wav, b.mp3       text/monday/b.wav.srt    beside them, too
  notes.pdf                 left alone
"""

import glob
import logging
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from whisperbatch.errors import OptionError

log = logging.getLogger(__name__)

STANDARD_INPUT: Final = "-"

AUDIO: Final = (
    *(".aac", ".ac3", ".aif", ".aiff", ".amr", ".au", ".caf", ".flac", ".g722", ".gsm", ".m4a"),
    *(".m4b", ".mka", ".mp2", ".mp3", ".oga", ".ogg", ".opus", ".ra", ".wav", ".weba", ".wma"),
    ".wv",
)
VIDEO: Final = (
    *(".3gp", ".avi", ".flv", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".mts", ".ogv"),
    *(".ts", ".webm", ".wmv"),
)
SUFFIXES: Final = frozenset(AUDIO + VIDEO)
"""What is taken for a recording in a directory. A file that is named is read whatever its name."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """A recording.

    Attributes:
        source: its path, URL, or "-".
        folder: of it, from the directory that was named: "." where it was named itself.
        own: the directory that it lies in; None of what has none.
    """

    source: str
    folder: PurePosixPath
    own: Path | None


@dataclass(frozen=True, slots=True)
class WorkItem:
    """A recording and what is to be written.

    Attributes:
        source: its path, URL, or "-".
        outputs: a path for each format.
    """

    source: str
    outputs: tuple[Path, ...]

    @property
    def path(self) -> Path | None:
        """Of the recording; None where it is no file."""
        return None if _has_no_path(self.source) else Path(self.source)


def find(inputs: Iterable[str], outputs: Collection[str] = ()) -> Iterator[InputFile]:
    """The recordings that are meant, in order, each once.

    Args:
        inputs: files, directories, patterns such as "talks/**/*.mp3", URLs, or "-". Of directories
            and patterns what has no name of a recording, or is hidden, is left alone. What is not
            there is taken for a file all the same: whoever reads it says so.
        outputs: suffixes, with the dot, of what is made of recordings: such a file is left alone
            where the recording of its name is meant, too (as by a shell's "talks/*").

    Raises:
        OptionError: an input is empty.
    """
    found: dict[str, InputFile] = {}
    for one in chain.from_iterable(map(_find, inputs)):
        found.setdefault(_identity(one.source), one)
    media = {_stem(one.source) for one in found.values() if _suffix(one.source) not in outputs}
    for one in found.values():
        if _suffix(one.source) not in outputs or _stem(one.source) not in media:
            yield one


def plan(
    found: Sequence[InputFile], formats: Sequence[str], output_dir: Path | None
) -> tuple[WorkItem, ...]:
    """Where the outputs of each recording go.

    Recordings that differ in their suffix alone keep it, so that neither overwrites the other.

    Args:
        found: all recordings of the job.
        formats: suffixes, without the dot.
        output_dir: where folders are made as they were found; None writes beside each recording,
            or into the working directory what has none.

    Raises:
        OptionError: two of the same name would be written to the same place.
    """
    homes = [(output_dir / one.folder if output_dir else one.own or Path()) for one in found]
    names = [_name(one.source) for one in found]
    stems = [str(home / PurePosixPath(name).stem) for home, name in zip(homes, names, strict=True)]
    shared = Counter(stem.casefold() for stem in stems)
    bases = [
        str(home / name) if shared[stem.casefold()] > 1 else stem
        for home, name, stem in zip(homes, names, stems, strict=True)
    ]
    taken: dict[str, str] = {}
    for one, base in zip(found, bases, strict=True):
        other = taken.setdefault(base.casefold(), one.source)
        if other != one.source and formats:
            raise OptionError(
                f"{other} and {one.source} would both be written to {base}.{formats[0]}; "
                "transcribe them apart, or into different directories"
            )
    return tuple(
        WorkItem(one.source, tuple(Path(f"{base}.{kind}") for kind in formats))
        for one, base in zip(found, bases, strict=True)
    )


def _find(one: str) -> Iterator[InputFile]:
    if not one:
        raise OptionError("the name of a recording is empty; give a file or a directory")
    if _has_no_path(one):
        yield InputFile(one, PurePosixPath(), None)
        return
    path = Path(one)
    if os.path.isdir(one):  # noqa: PTH112 - Path.is_dir raises where the name is too long
        yield from _inside(path)
    elif not os.path.exists(one) and glob.has_magic(one):  # noqa: PTH110 - likewise
        matches = sorted(glob.glob(one, recursive=True))  # noqa: PTH207 - takes absolute patterns
        for match in matches or (one,):
            if match == one or (_suffix(match) in SUFFIXES and Path(match).is_file()):
                yield InputFile(match, PurePosixPath(), Path(match).parent)
    else:
        yield InputFile(one, PurePosixPath(), path.parent)


def _inside(directory: Path) -> Iterator[InputFile]:
    """Of all folders below, also those that links lead to; none is searched twice."""
    seen: set[str] = set()

    def unreadable(error: OSError) -> None:
        log.warning("%s: cannot be searched: %s", error.filename, error.strerror)

    found: list[Path] = []
    for folder, folders, names in os.walk(directory, followlinks=True, onerror=unreadable):
        real = os.path.realpath(folder)
        folders[:] = [] if real in seen else [one for one in folders if not one.startswith(".")]
        if real not in seen:
            seen.add(real)
            found += [Path(folder, name) for name in names if not name.startswith(".")]
    for path in sorted(found):
        if path.suffix.lower() in SUFFIXES and path.is_file():
            inside = path.relative_to(directory).parent
            yield InputFile(str(path), PurePosixPath(inside.as_posix()), path.parent)


def _identity(source: str) -> str:
    return source if _has_no_path(source) else os.path.abspath(source)  # noqa: PTH100 - links stay


def _stem(source: str) -> str:
    return _identity(source).removesuffix(Path(source).suffix)


def _suffix(source: str) -> str:
    return "" if _has_no_path(source) else Path(source).suffix.lower()


def _has_no_path(source: str) -> bool:
    return source == STANDARD_INPUT or "://" in source


def _name(source: str) -> str:
    if source == STANDARD_INPUT:
        return "stdin"
    if "://" in source:
        try:
            parts = urlsplit(source)
        except ValueError:  # FFmpeg will say so, too
            return "recording"
        return unquote(PurePosixPath(parts.path).name) or parts.netloc or "recording"
    return Path(source).name
