"""Make a plan: find the recordings, probe their durations, divide and pack them.

recordings   a [==] b [=] c [===================================] d [===]
spans        a [==] b [=] c [===========][===========][=========] d [===]
tasks        0: c's first    1: c's second    2: c's third    3: d, a, b
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from whisperbatch.addresses import identity_of, without_secrets
from whisperbatch.boundary import as_error
from whisperbatch.errors import MissingExtraError, OptionError, WhisperBatchError
from whisperbatch.jobs.names import make_id
from whisperbatch.jobs.plans.format import (
    Failure,
    Header,
    Plan,
    PlannedSpan,
    Recording,
    Task,
)
from whisperbatch.jobs.plans.recordings import probe_duration, version_of
from whisperbatch.jobs.plans.settings import options_of
from whisperbatch.jobs.plans.sources import FoundRecording, find_recordings, output_names
from whisperbatch.jobs.workers.results import failure_of
from whisperbatch.options import Options
from whisperbatch.prefetch import map_ordered
from whisperbatch.types import SEARCH, SECTION, to_seconds

SECTION_DURATION: Final = to_seconds(SECTION)
"""Seconds from one nominal boundary to the next; the first is at 0."""

UNDIVIDED: Final = ("diarize", "clip_timestamps", "prefix")
"""With these options, a recording is one span: they concern the recording as a whole."""

MAX_SPANS: Final = 500  # of a task: more would take long to list, and to repeat after a death


def divide(duration: float, longest: float) -> tuple[tuple[int, int | None], ...]:
    """Divide a recording at boundaries into spans of about equal length.

    Args:
        duration: of the recording, in seconds; it may be a little wrong.
        longest: of a span, in seconds, at least `SECTION_DURATION`.

    Returns:
        The first boundary of each span, and the boundary after the span. The last span has None: it
        continues to the end of the recording, whatever its true duration is.
    """
    # the last boundary is found in the audio after its nominal position, or there is none
    boundaries = max(-int(-(duration - to_seconds(SEARCH)) // SECTION_DURATION), 1)
    count = -(-boundaries // max(int(longest // SECTION_DURATION), 1))
    bounds = [boundaries * number // count for number in range(count + 1)]
    ends: list[int | None] = [*bounds[1:-1], None]
    return tuple(zip(bounds[:-1], ends, strict=True))


def can_divide(options: Options) -> bool:
    """Return whether a recording may be divided into several spans with these options."""
    default = Options()
    return all(getattr(options, name) == getattr(default, name) for name in UNDIVIDED)


def span_duration(first: int, last: int | None, duration: float) -> float:
    """Return the seconds of a span of a recording with this duration."""
    end = duration if last is None else min(last * SECTION_DURATION, duration)
    return max(end - first * SECTION_DURATION, 0.0)


def pack(spans: Iterable[PlannedSpan], duration: float) -> Iterator[Sequence[PlannedSpan]]:
    """Yield the spans of each task, the longest first.

    Args:
        spans: of all recordings.
        duration: of a task, in seconds. A longer span is a separate task.
    """
    task: list[PlannedSpan] = []
    total = 0.0
    for span in sorted(spans, key=lambda span: (-span.duration, span.id)):
        if task and (total + span.duration > duration or len(task) == MAX_SPANS):
            yield task
            task, total = [], 0.0
        task.append(span)
        total += span.duration
    if task:
        yield task


PROBES: Final = 16  # recordings that are probed at a time: probing waits for the store
TASK_DURATION: Final = 1800.0  # seconds
MAX_TASK_DURATION: Final = 86_400.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Probed:
    """The properties of a recording, from probing."""

    found: FoundRecording
    version: str = ""
    duration: float = 0.0
    failure: Failure | None = None


def make_plan(sources: Sequence[str], header: Header) -> Plan:
    """Return the plan of these sources.

    Args:
        sources: files, folders, patterns, URLs, manifests.
        header: the settings; its counts are ignored.

    Raises:
        OptionError: there are no recordings, or a source or manifest is wrong.
        MissingExtraError: a package for a kind of URL is not installed.
    """
    options = options_of(header)
    found = find_recordings(sources)
    probe = partial(_probe, track=options.track)
    probed = list(map_ordered(probe, found, workers=PROBES, depth=4 * PROBES))
    recordings: list[Recording] = []
    spans: list[PlannedSpan] = []
    for item, output in zip(probed, output_names(found), strict=True):
        recording, own = _plan(item, output, header, options)
        recordings.append(recording)
        spans += own
    tasks = [
        Task(make_id(*(span.id for span in group)), tuple(group))
        for group in pack(spans, header.task_duration)
    ]
    tasks.sort(key=lambda task: -task.duration)
    duration = sum(recording.duration for recording in recordings)
    counted = replace(header, recordings=len(recordings), tasks=len(tasks), duration=duration)
    return Plan(counted, tuple(recordings), tuple(tasks))


def _probe(found: FoundRecording, track: int | None) -> _Probed:
    """Return the version and the duration of a recording, or why they are unknown."""
    row = found.row
    if found.failure:
        return _Probed(found, failure=failure_of(found.failure))
    try:
        version = f"etag {row.etag}" if row and row.etag else version_of(found.uri)
        given = row.duration if row else None
        duration = probe_duration(found.uri, track) if given is None else given
    except MissingExtraError:
        raise
    except WhisperBatchError as error:
        return _Probed(found, failure=failure_of(error))
    except Exception as error:  # noqa: BLE001 - ends this recording only
        return _Probed(found, failure=failure_of(as_error(error, found.uri)))
    return _Probed(found, version, duration)


def _plan(
    probed: _Probed, output: str, header: Header, options: Options
) -> tuple[Recording, list[PlannedSpan]]:
    """Return a recording of the plan, and its spans."""
    uri, duration = probed.found.uri, probed.duration
    language = options.language or (probed.found.row.language if probed.found.row else None)
    if language and options.multilingual:
        name = without_secrets(uri, whole=True)
        raise OptionError(
            f"{name}: the manifest states `language={language!r}`, which `multilingual=True` "
            "cannot use; leave out one of them"
        )
    id_ = make_id(identity_of(uri), probed.version, language, header.fingerprint)
    recording = Recording(
        id_, uri, probed.version, duration, language, output, failure=probed.failure
    )
    if probed.failure:
        return recording, []
    parts: tuple[tuple[int, int | None], ...] = ((0, None),)
    if can_divide(options):
        parts = divide(duration, max(header.task_duration, SECTION_DURATION))
    detects = len(parts) > 1 and not language and not options.multilingual
    task = make_id("language", id_) if detects else None
    spans = list(_spans(recording, parts, task))
    ids = tuple(span.id for span in spans)
    return replace(recording, spans=ids, language_task=task), spans


def _spans(
    recording: Recording, parts: Sequence[tuple[int, int | None]], language_task: str | None
) -> Iterator[PlannedSpan]:
    for first, last in parts:
        yield PlannedSpan(
            id=make_id(recording.id, first, last),
            recording=recording.id,
            uri=recording.uri,
            version=recording.version,
            first=first,
            last=last,
            duration=span_duration(first, last, recording.duration),
            language=recording.language,
            language_task=language_task,
        )
