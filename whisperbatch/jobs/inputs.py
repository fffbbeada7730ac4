"""Find the recordings of a job, and choose the paths of their outputs.

talks/                      --output-dir text        without --output-dir
  monday/a.mp3              text/monday/a.srt        talks/monday/a.srt
  monday/b.wav, b.mp3       text/monday/b.wav.srt    talks/monday/b.wav.srt
                            text/monday/b.mp3.srt    talks/monday/b.mp3.srt
  notes.pdf                 not taken                not taken

The recordings of a directory are the files that FFmpeg can read:

suffix          .mp3 .mkv ...         recording; if FFmpeg cannot read it, its recording fails
                .pdf .jpg .srt ...    other file
                all others, and none  FFmpeg opens the file and decodes its first packets
"""

import glob
import logging
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, Final, TypeAlias

from fsspec.implementations.local import LocalFileSystem

from whisperbatch.addresses import identity_of, without_secrets
from whisperbatch.audio import is_recording
from whisperbatch.errors import AudioError, OptionError
from whisperbatch.jobs.names import distinct_names, hash_of, name_of_url, output_name

AUDIO: Final = (
    *(".3ga", ".aa", ".aac", ".aax", ".ac3", ".aif", ".aifc", ".aiff", ".amr", ".ape", ".au"),
    *(".awb", ".bwf", ".caf", ".dss", ".dts", ".eac3", ".flac", ".g722", ".gsm", ".m2a", ".m4a"),
    *(".m4b", ".m4r", ".mka", ".mp2", ".mp3", ".mpga", ".oga", ".ogg", ".oma", ".opus", ".qcp"),
    *(".ra", ".rf64", ".rm", ".snd", ".sph", ".spx", ".tta", ".voc", ".w64", ".wav", ".wave"),
    *(".weba", ".wma", ".wv"),
)
VIDEO: Final = (
    *(".3g2", ".3gp", ".3gpp", ".asf", ".avi", ".divx", ".dv", ".f4v", ".flv", ".m2t", ".m2ts"),
    *(".m2v", ".m4v", ".mk3d", ".mkv", ".mov", ".mp4", ".mpe", ".mpeg", ".mpg", ".mts", ".mxf"),
    *(".nut", ".ogm", ".ogv", ".ogx", ".qt", ".rmvb", ".tod", ".ts", ".vob", ".webm", ".wmv"),
    ".wtv",
)
PROBE_RANGE: Final = 2**18  # bytes of a request to a store: most headers are shorter

MEDIA_SUFFIXES: Final = frozenset(AUDIO + VIDEO)

OTHER_SUFFIXES: Final = frozenset(
    (
        # transcripts, subtitles, and other text
        *(".ass", ".bib", ".cfg", ".conf", ".csv", ".ctm", ".cue", ".html", ".htm", ".ini"),
        *(".json", ".jsonl", ".log", ".lrc", ".md", ".nfo", ".rst", ".rtf", ".rttm", ".sbv"),
        *(".srt", ".ssa", ".stm", ".sub", ".tex", ".toml", ".tsv", ".ttml", ".txt", ".uem"),
        *(".vtt", ".xml", ".yaml", ".yml"),
        # playlists name other files and addresses, which must not be opened for them
        *(".asx", ".m3u", ".m3u8", ".mpd", ".pls", ".ram", ".sdp", ".xspf"),
        # documents
        *(".doc", ".docx", ".epub", ".key", ".numbers", ".odp", ".ods", ".odt", ".pages", ".pdf"),
        *(".ppt", ".pptx", ".ps", ".xls", ".xlsx"),
        # pictures
        *(".bmp", ".gif", ".heic", ".heif", ".ico", ".jpeg", ".jpg", ".png", ".psd", ".raw"),
        *(".svg", ".tif", ".tiff", ".webp"),
        # archives, programs, databases
        *(".7z", ".bat", ".bz2", ".c", ".cpp", ".css", ".db", ".dll", ".dmg", ".exe", ".go"),
        *(".gz", ".h", ".ipynb", ".iso", ".jar", ".java", ".js", ".lock", ".npy", ".npz"),
        *(".o", ".parquet", ".part", ".pickle", ".pkl", ".ps1", ".py", ".pyc", ".rar", ".rs"),
        *(".sh", ".so", ".sql", ".sqlite", ".tar", ".tgz", ".tmp", ".torrent", ".whl", ".xz"),
        *(".zip", ".zst"),
    )
)
"""Suffixes of files that are never opened to look for sound: this would take 10 ms for each file.
FFmpeg would also take some programs for MPEG streams (`audio.media`)."""


def is_known_suffix(suffix: str) -> bool:
    """Return whether a suffix, with the dot, is one of files that are no transcripts, or may be."""
    return suffix in MEDIA_SUFFIXES or suffix in OTHER_SUFFIXES


def is_media(name: str, system: Any) -> bool:  # noqa: ANN401 - of fsspec
    """Return whether a file in a directory is a recording.

    Args:
        name: its path in the file system.
        system: opens the file if its suffix does not decide. A file that cannot be opened is no
            recording.
    """
    suffix = PurePath(name).suffix.lower()
    if suffix in MEDIA_SUFFIXES:
        return True
    if suffix in OTHER_SUFFIXES:
        return False
    try:
        with system.open(name, "rb", block_size=PROBE_RANGE) as file:
            return is_recording(name, file)
    except Exception:  # noqa: BLE001 - of any file system
        return False


log = logging.getLogger(__name__)

STANDARD_INPUT: Final = "-"
LEDGER_NAME: Final = ".whisperbatch.db"
"""Name of the file of a job (`ledger`); SQLite adds suffixes for two more files."""

OnError: TypeAlias = Callable[[AudioError], object]
OnOthers: TypeAlias = Callable[[Collection[str]], object]


def _warn(error: AudioError) -> None:
    log.warning("%s", error)


def log_others(paths: Collection[str]) -> None:
    """Log the files and hidden folders that are not taken: their number, and at INFO each path."""
    for path in paths:
        log.info("%s: not taken, because it is no recording or is hidden", path)
    if paths:
        log.warning(
            "%d files or folders are no recordings or are hidden, and were not taken; the log has "
            "their names at level INFO (--verbose)",
            len(paths),
        )


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

    @property
    def name(self) -> str:
        """The source without the secrets of a URL."""
        return without_secrets(self.source, whole=True)


@dataclass(frozen=True, slots=True)
class WorkItem:
    """A recording and the files to write for it.

    Attributes:
        source: the recording's path, its URL, or "-" for standard input. For messages, see `name`.
        outputs: one path for each format.
    """

    source: str
    outputs: tuple[Path, ...]

    @property
    def name(self) -> str:
        """The source without the secrets of a URL."""
        return without_secrets(self.source, whole=True)

    @property
    def path(self) -> Path | None:
        """The recording's path; None for URLs and standard input."""
        return None if _has_no_path(self.source) else Path(self.source)


def find_inputs(
    inputs: Iterable[str],
    output_suffixes: Collection[str] = (),
    *,
    on_error: OnError = _warn,
    on_others: OnOthers = log_others,
) -> Iterator[InputFile]:
    """Find the recordings that the inputs name, in order, each recording once.

    Directories are searched with all their subfolders. In directories and patterns, a file is a
    recording if `is_media` says so; hidden files are no recordings. A pattern that ends
    with a suffix, such as "*.dat", names its files: all of them are recordings. Pipes, sockets and
    devices with the suffix of a recording are skipped with a warning, because reading them may
    never end. A file that does not exist, cannot be read, or is a broken link is yielded, too:
    reading it raises the error.

    Args:
        inputs: files, directories, patterns (such as "talks/**/*.mp3"), URLs, or "-".
        output_suffixes: the suffixes of transcripts, with the dot. A file with such a suffix is
            ignored if the recording of the same name is an input, too. This happens when a shell
            expands "talks/*".
        on_error: called with the error of each folder that cannot be searched; the default logs a
            warning. The other folders are searched.
        on_others: called once, with the paths of the files and hidden folders in directories and
            patterns that are not taken. The ledger and transcripts of recordings are left out.

    Raises:
        OptionError: an input is empty.
    """
    files: dict[str, InputFile] = {}
    others: list[str] = []
    for name in inputs:
        for file in _find(name, on_error, others.append):
            files.setdefault(_identity(file.source), file)
    outputs = {
        _output_identity(file.source, suffix)
        for file in files.values()
        if _suffix(file.source) not in output_suffixes
        for suffix in output_suffixes
    }
    for file in files.values():
        suffix = _suffix(file.source)
        if suffix not in output_suffixes or _stem(file.source) + suffix not in outputs:
            yield file
    made = {
        name for file in files.values() for name in (_identity(file.source), _stem(file.source))
    }
    on_others(
        [
            path
            for path in dict.fromkeys(others)
            if _identity(path) not in files
            and not (_suffix(path) in output_suffixes and _stem(path).partition("~")[0] in made)
        ]
    )


def plan_outputs(
    files: Sequence[InputFile],
    formats: Sequence[str],
    output_dir: Path | None,
    output_file: Path | None = None,
) -> tuple[WorkItem, ...]:
    """Choose the path of each output.

    Recordings whose names differ only in the suffix keep the suffix in the name of their outputs,
    so that neither overwrites the other; with equal names, a hash of their paths is added. A name
    that is too long is shortened by `output_name`.

    Args:
        files: all recordings of the job.
        formats: suffixes of the outputs, without the dot.
        output_dir: the outputs go here, in the same subfolders as the recordings. None writes
            each output next to its recording, and the outputs of URLs and standard input into
            the working directory.
        output_file: path of the first output, if there is only one recording. Other outputs get
            its name, too.
    """
    if output_file:
        folder, stem = output_file.parent, output_file.stem
        more = (folder / output_name(stem, f".{suffix}") for suffix in formats[1:])
        return (WorkItem(files[0].source, (output_file, *more)),)
    folders = [
        output_dir / file.subfolder if output_dir else file.directory or Path() for file in files
    ]
    bases = distinct_names(
        [folder / file_name(file.source) for folder, file in zip(folders, files, strict=True)],
        [hash_of(_identity(file.source)) for file in files],
    )
    return tuple(
        WorkItem(
            file.source,
            tuple(base.parent / output_name(base.name, f".{suffix}") for suffix in formats),
        )
        for file, base in zip(files, map(Path, bases), strict=True)
    )


def _find(name: str, on_error: OnError, on_other: Callable[[str], object]) -> Iterator[InputFile]:
    if not name:
        raise OptionError("the name of a recording is empty; give a file or a directory")
    if _has_no_path(name):
        yield InputFile(name, PurePosixPath(), None)
        return
    path = Path(name)
    # os.path functions return False for names that are too long; those of Path raise
    if os.path.isdir(name):  # noqa: PTH112 - see above
        yield from _search(path, on_error, on_other)
    elif not os.path.lexists(name) and glob.has_magic(name):
        named = path.suffix != "" and not glob.has_magic(path.suffix)
        matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - takes absolute patterns
        for match in matches or (name,):
            if match == name or _is_recording(match, on_other, named=named):
                yield InputFile(match, PurePosixPath(), Path(match).parent)
    else:
        yield InputFile(name, PurePosixPath(), path.parent)


def _search(
    directory: Path, on_error: OnError, on_other: Callable[[str], object]
) -> Iterator[InputFile]:
    """Yield the recordings in a directory and its subfolders, sorted by path.

    Symbolic links are followed, and no folder is searched twice.
    """
    searched: set[str] = set()

    def report(error: OSError) -> None:
        message = f"the folder cannot be searched: {error.strerror}"
        on_error(AudioError(message, source=str(error.filename)))

    paths: list[Path] = []
    for folder, subfolders, names in os.walk(directory, followlinks=True, onerror=report):
        real = os.path.realpath(folder)
        if real in searched:
            subfolders[:] = []
            continue
        searched.add(real)
        for name in [*subfolders, *names]:
            if name.startswith(".") and not name.startswith(LEDGER_NAME):
                on_other(str(Path(folder, name)))
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        paths += [Path(folder, name) for name in names if not name.startswith(".")]
    for path in sorted(paths):
        if _is_recording(str(path), on_other):
            subfolder = path.relative_to(directory).parent
            yield InputFile(str(path), PurePosixPath(subfolder.as_posix()), path.parent)


def _is_recording(name: str, on_other: Callable[[str], object], *, named: bool = False) -> bool:
    """Return whether a file in a directory is to be read; see `find_inputs`."""
    try:
        mode = os.stat(name).st_mode  # noqa: PTH116 - see `_find`
    except OSError:  # reading the file reports the error
        return named or _suffix(name) in MEDIA_SUFFIXES
    if stat.S_ISDIR(mode):
        return False
    if not stat.S_ISREG(mode):
        if _suffix(name) in MEDIA_SUFFIXES:
            log.warning(
                "%s: ignored, because it is not a file; name it explicitly to read it", name
            )
        else:
            on_other(name)
        return False
    if named or is_media(_identity(name), LocalFileSystem()):
        return True
    on_other(name)
    return False


def absolute(source: str) -> str:
    """Return a local path as an absolute path, and a URL unchanged. Symbolic links stay."""
    return source if _has_no_path(source) else os.path.abspath(source)  # noqa: PTH100 - see above


def _identity(source: str) -> str:
    """Return the same text for all spellings of a path or URL."""
    return identity_of(absolute(source))


def _output_identity(source: str, suffix: str) -> str:
    """Return the identity of the output next to a recording."""
    folder, name = os.path.split(_stem(source))
    return os.path.join(folder, output_name(name, suffix))  # noqa: PTH118 - as `_identity`


def _stem(source: str) -> str:
    return _identity(source).removesuffix(Path(source).suffix)


def _suffix(source: str) -> str:
    return "" if _has_no_path(source) else Path(source).suffix.lower()


def _has_no_path(source: str) -> bool:
    return source == STANDARD_INPUT or "://" in source


def file_name(source: str) -> str:
    """Return the file name that the outputs of a recording are named after."""
    if source == STANDARD_INPUT:
        return "stdin"
    return name_of_url(source) if "://" in source else Path(source).name
