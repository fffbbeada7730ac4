"""What a job is to work on, and where its outputs go.

talks/                      --output-dir text        without --output-dir
  monday/a.mp3              text/monday/a.srt        talks/monday/a.srt
  monday/b.wav, b.mp3       text/monday/b.wav.srt    beside them, too
  notes.pdf                 left alone
"""

import glob
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from whisperbatch.errors import OptionError

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
class Found:
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
class Task:
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


def find(inputs: Iterable[str]) -> Iterator[Found]:
    """The recordings that are meant, in order, each once.

    Args:
        inputs: files, directories, patterns such as "talks/**/*.mp3", URLs, or "-". Directories are
            searched through; what has no name of a recording and what is hidden is left alone.
            What is not there is taken for a file all the same: whoever reads it says so.
    """
    seen: set[str] = set()
    for one in inputs:
        for found in _find(one):
            if found.source not in seen:
                seen.add(found.source)
                yield found


def plan(
    found: Sequence[Found], formats: Sequence[str], output_dir: Path | None
) -> tuple[Task, ...]:
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
                "transcribe them apart, or leave the output directory out"
            )
    return tuple(
        Task(one.source, tuple(Path(f"{base}.{kind}") for kind in formats))
        for one, base in zip(found, bases, strict=True)
    )


def _find(one: str) -> Iterator[Found]:
    if _has_no_path(one):
        yield Found(one, PurePosixPath(), None)
        return
    path = Path(one)
    if path.is_dir():
        yield from _inside(path)
    elif not path.exists() and glob.has_magic(one):
        matches = sorted(glob.glob(one, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
        for match in matches:
            if Path(match).is_file():
                yield Found(match, PurePosixPath(), Path(match).parent)
        if not matches:
            yield Found(one, PurePosixPath(), path.parent)
    else:
        yield Found(one, PurePosixPath(), path.parent)


def _inside(directory: Path) -> Iterator[Found]:
    for path in sorted(directory.rglob("*")):
        inside = path.relative_to(directory)
        hidden = any(part.startswith(".") for part in inside.parts)
        if path.suffix.lower() in SUFFIXES and not hidden and path.is_file():
            yield Found(str(path), PurePosixPath(inside.parent.as_posix()), path.parent)


def _has_no_path(source: str) -> bool:
    return source == STANDARD_INPUT or "://" in source


def _name(source: str) -> str:
    if source == STANDARD_INPUT:
        return "stdin"
    if "://" in source:
        parts = urlsplit(source)
        return unquote(PurePosixPath(parts.path).name) or parts.netloc or "recording"
    return Path(source).name
