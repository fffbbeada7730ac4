"""What to transcribe: the recordings that files, folders, patterns, URLs and manifests name."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from whisperbatch.addresses import identity_of
from whisperbatch.boundary import describe
from whisperbatch.errors import AudioError, OptionError, WhisperBatchError
from whisperbatch.jobs.file_names import distinct_names, name_of_url
from whisperbatch.jobs.fingerprints import make_id
from whisperbatch.jobs.inputs import STANDARD_INPUT, find_inputs, log_others
from whisperbatch.jobs.media_files import is_media
from whisperbatch.jobs.plans.manifests import SUFFIXES, ManifestRow, read_manifest
from whisperbatch.jobs.plans.recordings import absolute
from whisperbatch.jobs.plans.stores import file_system, is_local

PATTERN: Final = frozenset("*?[")
WITHOUT_FOLDERS: Final = ("http", "https")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FoundRecording:
    """A recording that was found, before it is probed.

    Attributes:
        uri: an absolute path or a URL.
        folder: folder of its transcript in the output folder; "." for the output folder itself.
        row: what a manifest says about it; None without a manifest.
        failure: why its folder cannot be listed; None if it was.
    """

    uri: str
    folder: PurePosixPath
    row: ManifestRow | None = None
    failure: WhisperBatchError | None = None


def find_recordings(sources: Iterable[str]) -> list[FoundRecording]:
    """Find the recordings that the sources name, in order, each once.

    Args:
        sources: files, folders and patterns, local or in a store, and manifests.

    Raises:
        OptionError: a source is empty or standard input, a manifest is wrong, or there are no
            recordings.
        MissingExtraError: the package for a kind of URL, or for parquet, is not installed.
    """
    names = tuple(sources)
    found: dict[str, FoundRecording] = {}
    others: list[str] = []
    for name in names:
        for recording in _find(name, others):
            found.setdefault(identity_of(recording.uri), recording)
    log_others([other for other in dict.fromkeys(others) if other not in found])
    if not found:
        raise OptionError(f"no recordings in {', '.join(names) or 'the sources'}")
    return list(found.values())


def output_names(recordings: Iterable[FoundRecording]) -> list[str]:
    """Return the path of each transcript in the output folder, without a suffix.

    Recordings whose names differ only in the suffix keep it. If two names are still equal, a hash
    of the URI is added.
    """
    listed = list(recordings)
    return distinct_names(
        [recording.folder / _file_name(recording.uri) for recording in listed],
        [make_id(identity_of(recording.uri))[:16] for recording in listed],
    )


def _file_name(uri: str) -> str:
    return name_of_url(uri) if "://" in uri else Path(uri).name


def _find(name: str, others: list[str]) -> Iterator[FoundRecording]:
    """Yield the recordings of a source, and append the files that are not taken to `others`."""
    if name == STANDARD_INPUT:
        raise OptionError("standard input cannot be planned, because it can be read only once")
    if name.lower().endswith(SUFFIXES):
        for row in read_manifest(name):
            yield FoundRecording(absolute(row.uri), PurePosixPath(), row)
    elif "://" in name:
        yield from _find_in_store(name, others)
    else:
        errors: list[AudioError] = []
        for file in find_inputs((name,), on_error=errors.append, on_others=others.extend):
            yield FoundRecording(absolute(file.source), file.subfolder)
        for error in errors:
            yield FoundRecording(absolute(error.source or name), PurePosixPath(), failure=error)


def _find_in_store(url: str, others: list[str]) -> Iterator[FoundRecording]:
    system, path = file_system(url)
    if url.partition("://")[0] in WITHOUT_FOLDERS:
        yield FoundRecording(url, PurePosixPath())
        return
    try:
        system.invalidate_cache(path)
        is_pattern = not PATTERN.isdisjoint(path) and not system.exists(path)
        if is_pattern:
            named = PATTERN.isdisjoint(PurePosixPath(path).suffix or "*")
            paths = [
                found
                for found in system.glob(path)
                if named or _is_recording(system, found, others)
            ]
        elif system.isdir(path):
            paths = [found for found in system.find(path) if _is_recording(system, found, others)]
        else:
            yield FoundRecording(_uri(system, path), PurePosixPath())
            return
    except Exception as error:  # noqa: BLE001 - of any file system; the other sources go on
        problem = AudioError(f"cannot be listed: {describe(error)}", source=url)
        yield FoundRecording(url, PurePosixPath(), failure=problem)
        return
    root = PurePosixPath(path)
    for found in sorted(paths):
        file = PurePosixPath(found)
        folder = PurePosixPath() if is_pattern else file.relative_to(root).parent
        yield FoundRecording(_uri(system, found), folder)


def _uri(system: Any, path: str) -> str:  # noqa: ANN401 - of fsspec
    """Return the same URI for all spellings of a path."""
    return path if is_local(system) else str(system.unstrip_protocol(path))


def _is_recording(system: Any, path: str, others: list[str]) -> bool:  # noqa: ANN401 - of fsspec
    hidden = any(part.startswith(".") for part in PurePosixPath(path).parts)
    if not hidden and is_media(path, system):
        return True
    others.append(_uri(system, path))
    return False
