"""Spans of OpenTelemetry: one for each request. Needs the extra `telemetry`.

The spans go where the environment of the process sends them; for example, start the server with
`opentelemetry-instrument`. Without this, OpenTelemetry drops them.
"""

from http import HTTPStatus
from typing import Final

import whisperbatch as wb
from whisperbatch.server.records import Record

NANOSECONDS: Final = 1_000_000_000  # of a second


class Spans:
    """Makes a span for each request that has ended.

    Raises:
        MissingExtraError: OpenTelemetry is not installed.
    """

    def __init__(self) -> None:
        try:
            from opentelemetry import propagate, trace  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise wb.MissingExtraError(
                "otel: OpenTelemetry is not installed: pip install 'whisperbatch[telemetry]'"
            ) from error
        self._trace, self._propagate = trace, propagate

    def note(self, record: Record) -> None:
        """Make the span of a request, below the span that its header `traceparent` names."""
        trace = self._trace
        span = trace.get_tracer("whisperbatch").start_span(
            f"{record.method} {record.route}",
            self._propagate.extract(dict(record.headers)),
            trace.SpanKind.SERVER,
            {f"whisperbatch.{name}": value for name, value in record.values.items()},
            start_time=int(record.began * NANOSECONDS),
        )
        span.set_attribute("http.request.method", record.method)
        span.set_attribute("http.route", record.route)
        if record.status is not None:
            span.set_attribute("http.response.status_code", record.status)
            if record.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                span.set_status(trace.StatusCode.ERROR)
        span.end(int((record.began + record.seconds) * NANOSECONDS))
