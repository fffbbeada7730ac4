"""Figures for Prometheus: what the server does, and how fast."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

import whisperbatch as wb
from whisperbatch.server.records import Record

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SECONDS: Final = (0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 600, 1800)
SETTLED_SECONDS: Final = (0.5, 0.75, 1, 1.25, 1.5, 2, 2.5, 3, 4, 6, 10, 30, 60)
TIMES_REAL_TIME: Final = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class Metrics:
    """The figures of a server.

    Args:
        active: returns the number of requests that the server works on.
        loaded: returns the models that are loaded.

    Attributes:
        requests: number of answers, by path and status.
        errors: number of errors, by code.
        audio: seconds of transcribed audio.
        speed: seconds of audio transcribed in a second, for each request.
        duration: seconds from the request to its answer.
        first_segment: seconds from the request to the first segment.
        waited: seconds that recordings waited for their place.
        client_requests: number of answers, by the name of the key.
        client_audio: seconds of audio that were transcribed, by the name of the key.
        sessions: number of open live sessions.
        lag: age of the oldest speech without text, of all live sessions.
        settled: seconds of audio after settled text, when it was sent.
    """

    def __init__(
        self, active: Callable[[], int], loaded: Callable[[], Iterable[wb.Transcriber]]
    ) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "whisperbatch_requests", "Answers", ("path", "status"), registry=self._registry
        )
        self.errors = Counter(
            "whisperbatch_errors", "Errors by their code", ("code",), registry=self._registry
        )
        self.audio = Counter(
            "whisperbatch_audio_seconds", "Seconds of transcribed audio", registry=self._registry
        )
        self.speed = Histogram(
            "whisperbatch_times_real_time",
            "Seconds of audio transcribed in a second, for each request",
            buckets=TIMES_REAL_TIME,
            registry=self._registry,
        )
        self.duration = Histogram(
            "whisperbatch_request_seconds",
            "Time from a request to the end of its answer",
            buckets=SECONDS,
            registry=self._registry,
        )
        self.first_segment = Histogram(
            "whisperbatch_first_segment_seconds",
            "Time from a request to its first segment",
            buckets=SECONDS,
            registry=self._registry,
        )
        self.waited = Histogram(
            "whisperbatch_wait_seconds",
            "Time that recordings waited for their place",
            buckets=SECONDS,
            registry=self._registry,
        )
        self.client_requests = Counter(
            "whisperbatch_client_requests",
            "Answers by the name of the key",
            ("client",),
            registry=self._registry,
        )
        self.client_audio = Counter(
            "whisperbatch_client_audio_seconds",
            "Seconds of transcribed audio by the name of the key, also of requests that failed",
            ("client",),
            registry=self._registry,
        )
        self.sessions = Gauge(
            "whisperbatch_live_sessions", "Open live sessions", registry=self._registry
        )
        self.lag = Gauge(
            "whisperbatch_live_lag_seconds",
            "Age of the oldest speech without text, of all live sessions",
            registry=self._registry,
        )
        self.settled = Histogram(
            "whisperbatch_live_settled_seconds",
            "Seconds of audio between the end of settled text and the newest audio",
            buckets=SETTLED_SECONDS,
            registry=self._registry,
        )
        self._engines = _Engines(active, loaded)
        self._registry.register(self._engines)

    def note_request(self, record: Record) -> None:
        """Count a request that has ended."""
        self._engines.update()
        self.requests.labels(record.route, str(record.status or "none")).inc()
        if record.method == "POST":
            self.duration.observe(record.seconds)
        if record.waited is not None:
            self.waited.observe(record.waited)
        if record.client.has_key:
            self.client_requests.labels(record.client.name).inc()
            self.client_audio.labels(record.client.name).inc(record.audio)

    def note(self, transcript: wb.Transcript, seconds: float) -> None:
        """Count a recording that has been transcribed in some seconds."""
        self.audio.inc(transcript.duration)
        if transcript.duration:
            self.speed.observe(transcript.duration / max(seconds, 1e-6))

    def text(self) -> bytes:
        """Return all figures in the format of Prometheus."""
        return generate_latest(self._registry)


class _Engines:
    """The figures that the models keep themselves, and the sums of all models until now."""

    def __init__(
        self, active: Callable[[], int], loaded: Callable[[], Iterable[wb.Transcriber]]
    ) -> None:
        self._active, self._loaded = active, loaded
        # of each model when it was looked at last; a model that is closed leaves, its sums stay
        self._seen: WeakKeyDictionary[wb.Transcriber, tuple[int, int]] = WeakKeyDictionary()
        self._rows = self._calls = 0

    def update(self) -> None:
        """Add what the models have computed since the last call."""
        for asr in {*self._loaded(), *self._seen}:  # also those that are being closed
            activity = asr.activity
            rows, calls = self._seen.get(asr, (0, 0))
            self._rows += activity.rows - rows
            self._calls += activity.calls - calls
            self._seen[asr] = activity.rows, activity.calls

    def collect(self) -> Iterator[Metric]:
        """Yield the figures as they are now."""
        self.update()
        submitted = [asr.submitted for asr in self._loaded()]
        yield GaugeMetricFamily(
            "whisperbatch_active_requests",
            "Requests that are uploaded, wait or are transcribed",
            value=self._active(),
        )
        yield GaugeMetricFamily(
            "whisperbatch_active_recordings",
            "Recordings that are read and decoded",
            value=sum(each.active for each in submitted),
        )
        yield GaugeMetricFamily(
            "whisperbatch_waiting_recordings",
            "Recordings that wait for a place",
            value=sum(each.waiting for each in submitted),
        )
        yield GaugeMetricFamily(
            "whisperbatch_waiting_rows",
            "Rows that wait for the engine",
            value=sum(asr.activity.waiting_rows for asr in self._loaded()),
        )
        yield CounterMetricFamily(
            "whisperbatch_engine_rows",
            "Rows computed; divided by the number of calls: rows per batch",
            value=self._rows,
        )
        yield CounterMetricFamily(
            "whisperbatch_engine_calls", "Calls of the engine", value=self._calls
        )
