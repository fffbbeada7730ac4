"""Find the recordings of a job and choose the paths of their outputs.

talks/                      --output-dir text        without --output-dir
  monday/a.mp3              text/monday/a.srt        talks/monday/a.srt
  monday/b.wav, b.mp3       text/monday/b.wav.srt    talks/monday/b.wav.srt
                            text/monday/b.mp3.srt    talks/monday/b.mp3.srt
  notes.pdf                 ignored                  ignored
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
MEDIA_SUFFIXES: Final = frozenset(AUDIO + VIDEO)
"""Suffixes of recordings in a directory. A file that is named explicitly may have any suffix."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """A recording that was found.

    Attributes:
        source: its path, its URL, or "-" for standard input.
        subfolder: its folder, relative to the directory that was searched; "." if the recording
            itself was named.
        directory: the directory that contains the file; None for URLs and standard input.
    """

    source: str
    subfolder: PurePosixPath
    directory: Path | None


@dataclass(frozen=True, slots=True)
class WorkItem:
    """A recording and the files to write for it.

    Attributes:
        source: the recording's path, its URL, or "-" for standard input.
        outputs: one path for each format.
    """

    source: str
    outputs: tuple[Path, ...]

    @property
    def path(self) -> Path | None:
        """The recording's path; None for URLs and standard input."""
        return None if _has_no_path(self.source) else Path(self.source)


def find_inputs(
    inputs: Iterable[str], output_suffixes: Collection[str] = ()
) -> Iterator[InputFile]:
    """Find the recordings that the inputs name, in order, each recording once.

    Directories are searched with all their subfolders. In directories and patterns, hidden files
    and files without the suffix of a recording are ignored. A file that does not exist is
    yielded, too: reading it raises the error.

    Args:
        inputs: files, directories, patterns (such as "talks/**/*.mp3"), URLs, or "-".
        output_suffixes: the suffixes of transcripts, with the dot. A file with such a suffix is
            ignored if the recording of the same name is an input, too. This happens when a shell
            expands "talks/*".

    Raises:
        OptionError: an input is empty.
    """
    files: dict[str, InputFile] = {}
    for file in chain.from_iterable(map(_find, inputs)):
        files.setdefault(_identity(file.source), file)
    recording_stems = {
        _stem(file.source) for file in files.values() if _suffix(file.source) not in output_suffixes
    }
    for file in files.values():
        is_output = _suffix(file.source) in output_suffixes
        if not is_output or _stem(file.source) not in recording_stems:
            yield file


def plan_outputs(
    files: Sequence[InputFile], formats: Sequence[str], output_dir: Path | None
) -> tuple[WorkItem, ...]:
    """Choose the path of each output.

    Recordings whose names differ only in the suffix keep the suffix in the name of their outputs,
    so that neither overwrites the other.

    Args:
        files: all recordings of the job.
        formats: suffixes of the outputs, without the dot.
        output_dir: the outputs go here, in the same subfolders as the recordings. None writes
            each output next to its recording, and the outputs of URLs and standard input into
            the working directory.

    Raises:
        OptionError: two recordings of the same name would be written to the same path.
    """
    folders = [
        output_dir / file.subfolder if output_dir else file.directory or Path() for file in files
    ]
    names = [_name(file.source) for file in files]
    stems = [
        str(folder / PurePosixPath(name).stem) for folder, name in zip(folders, names, strict=True)
    ]
    counts = Counter(stem.casefold() for stem in stems)
    bases = [
        str(folder / name) if counts[stem.casefold()] > 1 else stem
        for folder, name, stem in zip(folders, names, stems, strict=True)
    ]
    owners: dict[str, str] = {}
    for file, base in zip(files, bases, strict=True):
        owner = owners.setdefault(base.casefold(), file.source)
        if owner != file.source and formats:
            raise OptionError(
                f"{owner} and {file.source} would both be written to {base}.{formats[0]}; "
                "transcribe them in separate runs, or into different directories"
            )
    return tuple(
        WorkItem(file.source, tuple(Path(f"{base}.{suffix}") for suffix in formats))
        for file, base in zip(files, bases, strict=True)
    )


def _find(name: str) -> Iterator[InputFile]:
    """Yield the recordings of one input."""
    if not name:
        raise OptionError("the name of a recording is empty; give a file or a directory")
    if _has_no_path(name):
        yield InputFile(name, PurePosixPath(), None)
        return
    path = Path(name)
    # os.path functions return False for names that are too long; those of Path raise
    if os.path.isdir(name):  # noqa: PTH112 - see above
        yield from _search(path)
    elif not os.path.exists(name) and glob.has_magic(name):  # noqa: PTH110 - see above
        matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - takes absolute patterns
        for match in matches or (name,):
            if match == name or (_suffix(match) in MEDIA_SUFFIXES and Path(match).is_file()):
                yield InputFile(match, PurePosixPath(), Path(match).parent)
    else:
        yield InputFile(name, PurePosixPath(), path.parent)


def _search(directory: Path) -> Iterator[InputFile]:
    """Yield the recordings in a directory and its subfolders, sorted by path.

    Symbolic links are followed, and no folder is searched twice.
    """
    searched: set[str] = set()

    def warn(error: OSError) -> None:
        log.warning("%s: the folder cannot be searched: %s", error.filename, error.strerror)

    paths: list[Path] = []
    for folder, subfolders, names in os.walk(directory, followlinks=True, onerror=warn):
        real = os.path.realpath(folder)
        if real in searched:
            subfolders[:] = []
            continue
        searched.add(real)
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        paths += [Path(folder, name) for name in names if not name.startswith(".")]
    for path in sorted(paths):
        if path.suffix.lower() in MEDIA_SUFFIXES and path.is_file():
            subfolder = path.relative_to(directory).parent
            yield InputFile(str(path), PurePosixPath(subfolder.as_posix()), path.parent)


def _identity(source: str) -> str:
    """Return the same text for all spellings of a path. Symbolic links are not resolved."""
    return source if _has_no_path(source) else os.path.abspath(source)  # noqa: PTH100 - links stay


def _stem(source: str) -> str:
    return _identity(source).removesuffix(Path(source).suffix)


def _suffix(source: str) -> str:
    return "" if _has_no_path(source) else Path(source).suffix.lower()


def _has_no_path(source: str) -> bool:
    return source == STANDARD_INPUT or "://" in source


def _name(source: str) -> str:
    """Return the file name that the outputs of a recording are named after."""
    if source == STANDARD_INPUT:
        return "stdin"
    if "://" in source:
        try:
            parts = urlsplit(source)
        except ValueError:  # FFmpeg will report the malformed URL
            return "recording"
        return unquote(PurePosixPath(parts.path).name) or parts.netloc or "recording"
    return Path(source).name
