"""What to transcribe: the recordings that files, folders, patterns, URLs and manifests name.

A manifest lists recordings, a row for each:

{"uri": "s3://talks/a.mp3", "duration": 61.5, "language": "en"}        JSONL, or parquet
{"id": "a", "sources": [{"source": "a.wav", ...}], "duration": 61.5}   lhotse's recordings
{"id": "a-0", "start": 0, "duration": 61.5, "recording": {...}}        lhotse's cuts
"""

import gzip
import io
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from whisperbatch.addresses import identity_of
from whisperbatch.boundary import describe, hide_secrets
from whisperbatch.errors import AudioError, MissingExtraError, OptionError, WhisperBatchError
from whisperbatch.jobs.inputs import (
    STANDARD_INPUT,
    absolute,
    file_name,
    find_inputs,
    is_media,
    log_others,
)
from whisperbatch.jobs.names import distinct_names, make_id
from whisperbatch.jobs.plans.stores import file_system, is_local
from whisperbatch.limits import MAX_DURATION
from whisperbatch.options import checks
from whisperbatch.text.language_names import given_language

SUFFIXES: Final = (".jsonl", ".jsonl.gz", ".parquet")
URI_COLUMNS: Final = ("uri", "url", "path", "audio_filepath")
CUT_TOLERANCE: Final = 0.1  # seconds by which a cut of a whole recording may be shorter


@dataclass(frozen=True, slots=True)
class ManifestRow:
    """A recording as a manifest describes it.

    Attributes:
        uri: a URL, or a path; relative paths start at the folder of the manifest.
        duration: in seconds; None if it is to be probed.
        language: Whisper's code; None if it is to be detected.
        etag: version of the recording; None to ask its store.
    """

    uri: str
    duration: float | None = None
    language: str | None = None
    etag: str | None = None


def read_manifest(uri: str) -> Iterator[ManifestRow]:
    """Yield the rows of a manifest.

    Args:
        uri: of a file whose name ends with one of `SUFFIXES`.

    Raises:
        OptionError: the file cannot be read, or a row is wrong; the message names the row.
        MissingExtraError: the file is parquet, and pyarrow is not installed.
    """
    rows = _parquet_rows(uri) if uri.lower().endswith(".parquet") else _json_rows(uri)
    folder = uri.rpartition("/")[0] if "/" in uri else "."
    for number, row in enumerate(rows, 1):
        place = f"{uri}: row {number}"
        if not isinstance(row, dict):
            raise OptionError(f"{place} is not a JSON object")
        found = _cut(row, place) if "recording" in row else _recording(row, place)
        path = found.uri
        if "://" not in path and not Path(path).is_absolute():
            path = f"{folder}/{path}"
        yield ManifestRow(path, found.duration, found.language, found.etag)


def _data(uri: str) -> bytes:
    system, path = file_system(uri)
    try:
        data: bytes = system.cat_file(path)
        return gzip.decompress(data) if uri.lower().endswith(".gz") else data
    except Exception as error:
        hide_secrets(error)
        raise OptionError(f"{uri}: the manifest cannot be read: {describe(error)}") from error


def _json_rows(uri: str) -> Iterator[Any]:
    for number, line in enumerate(_data(uri).splitlines(), 1):
        if not line.strip():
            continue
        try:
            yield json.loads(line)
        except ValueError as error:
            raise OptionError(f"{uri}: line {number} is not JSON: {error}") from error


def _parquet_rows(uri: str) -> Iterator[Any]:
    try:
        from pyarrow import parquet  # noqa: PLC0415 - large, and not installed by default
    except ImportError as error:
        raise MissingExtraError(
            f"{uri}: a parquet manifest needs pyarrow: pip install pyarrow"
        ) from error
    try:
        rows: list[Any] = parquet.read_table(io.BytesIO(_data(uri))).to_pylist()
    except OptionError:
        raise
    except Exception as error:
        raise OptionError(f"{uri}: is not a parquet file: {describe(error)}") from error
    # a table has every column in every row
    return iter([{key: value for key, value in row.items() if value is not None} for row in rows])


def _recording(row: Mapping[str, Any], place: str) -> ManifestRow:
    """Return a row with a URI, or a recording of lhotse."""
    sources = row.get("sources")
    if isinstance(sources, list | tuple):
        uri = _lhotse_source(sources, place)
    else:
        uri = next((row[name] for name in URI_COLUMNS if name in row), None)
    if not isinstance(uri, str) or not uri:
        raise OptionError(f"{place} names no recording; give it the column uri")
    try:
        if (duration := row.get("duration")) is not None:
            checks.number("duration", duration, minimum=0.0, maximum=MAX_DURATION)
        if (language := row.get("language")) is not None:
            language = given_language(language)
        if (etag := row.get("etag")) is not None:
            checks.text("etag", etag, max_length=1000)
    except OptionError as error:
        raise OptionError(f"{place}: {error.marked}") from error
    return ManifestRow(uri, duration, language, etag)


def _lhotse_source(sources: list[Any] | tuple[Any, ...], place: str) -> str | None:
    if len(sources) != 1:
        raise OptionError(f"{place} has {len(sources)} files; mix them to one file first")
    source = sources[0]
    if not isinstance(source, dict) or source.get("type") not in {"file", "url"}:
        raise OptionError(f"{place}: only sources of the type file or url can be read")
    found: str | None = source.get("source")
    return found


def _cut(row: Mapping[str, Any], place: str) -> ManifestRow:
    """Return the recording of a cut of lhotse."""
    if not isinstance(row["recording"], dict):
        raise OptionError(f"{place} names no recording; give it the column uri")
    recording = _recording(row["recording"], place)
    start, length = row.get("start", 0.0), row.get("duration", recording.duration)
    end = None if length is None or recording.duration is None else recording.duration - length
    if start or (end is not None and end > CUT_TOLERANCE):
        raise OptionError(
            f"{place} is a part of a recording; give the manifest of the recordings instead"
        )
    return recording


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
        [recording.folder / file_name(recording.uri) for recording in listed],
        [make_id(identity_of(recording.uri))[:16] for recording in listed],
    )


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
