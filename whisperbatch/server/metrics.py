"""Figures for Prometheus: what the server does, and how fast."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

import whisperbatch as wb

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SECONDS: Final = (0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 600, 1800)
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
        self._registry.register(_Engines(active, loaded))

    def note(self, transcript: wb.Transcript, seconds: float) -> None:
        """Count a recording that has been transcribed in some seconds."""
        self.audio.inc(transcript.duration)
        if transcript.duration:
            self.speed.observe(transcript.duration / max(seconds, 1e-6))

    def text(self) -> bytes:
        """Return all figures in the format of Prometheus."""
        return generate_latest(self._registry)


class _Engines:
    """The figures that the models keep themselves."""

    def __init__(
        self, active: Callable[[], int], loaded: Callable[[], Iterable[wb.Transcriber]]
    ) -> None:
        self._active, self._loaded = active, loaded

    def collect(self) -> Iterator[Metric]:
        """Yield the figures as they are now."""
        activities = [asr.activity for asr in self._loaded()]
        yield GaugeMetricFamily(
            "whisperbatch_active_requests",
            "Requests that are uploaded, wait or are transcribed",
            value=self._active(),
        )
        yield GaugeMetricFamily(
            "whisperbatch_waiting_rows",
            "Rows that wait for the engine",
            value=sum(activity.waiting_rows for activity in activities),
        )
        yield CounterMetricFamily(
            "whisperbatch_engine_rows",
            "Rows computed; divided by the number of calls: rows per batch",
            value=sum(activity.rows for activity in activities),
        )
        yield CounterMetricFamily(
            "whisperbatch_engine_calls",
            "Calls of the engine",
            value=sum(activity.calls for activity in activities),
        )
