"""Transcriptions of uploads: from the request to the answer.

    form ──> fields ──────────────────┬─> submit ──> wait ──> answer
     └─────> file (Spool) ────────────┘                  └──> events, with stream=true

With a given language, and all fields before the file, the recording is submitted while the upload
runs, if its container can be read in order, and few other uploads are read like this. Otherwise it
is submitted when the upload is complete.
When the client is gone, the work is cancelled.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import replace
from typing import Any, Final, Literal

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

import whisperbatch as wb
from whisperbatch.server.admission import Admission
from whisperbatch.server.clients import Client
from whisperbatch.server.downloads import Downloads
from whisperbatch.server.errors import as_api_error, shutting_down
from whisperbatch.server.fields import TranscriptionRequest, about, parse_request
from whisperbatch.server.formats import CONTENT_TYPES, DONE, body_of, ending_with, events_of
from whisperbatch.server.metrics import Metrics
from whisperbatch.server.models import Models
from whisperbatch.server.records import note_error
from whisperbatch.server.settings import ServerSettings
from whisperbatch.server.submitting import (
    before,
    client_of,
    disconnect,
    fit_prompt,
    submit,
    timed_out,
)
from whisperbatch.server.uploads import Form, received

Task = Literal["transcribe", "translate"]

ERRORS_FIRST: Final = 5.0  # seconds; an error before the first segment is no event, but a status

log = logging.getLogger(__name__)


class Transcriptions:
    """Answers requests for transcriptions.

    Args:
        settings: of the server.
        models: the models.
        admission: the limit of requests.
        metrics: the figures.
        downloads: read recordings that are named by a URL.
    """

    def __init__(
        self,
        settings: ServerSettings,
        models: Models,
        admission: Admission,
        metrics: Metrics,
        downloads: Downloads,
    ) -> None:
        self.settings = settings
        self.models, self.admission, self._metrics = models, admission, metrics
        self.defaults = settings.default_options()
        self.early: set[_Work] = set()
        self.downloads = downloads

    async def answer(self, request: Request, task: Task) -> Response:
        """Return the answer to a request.

        Args:
            request: with a form.
            task: of the path.

        Returns:
            The transcript in the requested form, or a stream of events.

        Raises:
            ApiError: the request is wrong, or the server cannot work on it.
            WhisperBatchError: the recording cannot be transcribed.
        """
        started = time.perf_counter()
        async with AsyncExitStack() as stack:
            stack.enter_context(self.admission.admitted(client_of(request)))
            work = _Work(self, task, stack, client_of(request))
            await work.receive(request)
            asked, submission = work.submitted()
            gone = work.gone
            if asked.stream:
                await before(gone, _first(submission), ERRORS_FIRST)
                if submission.done:
                    await submission  # raises the error of the recording
                self._metrics.first_segment.observe(time.perf_counter() - started)
                events = self._note(events_of(submission, asked), submission, started)
                streamed = _EventResponse(
                    events, gone, stack.pop_all(), self.settings.max_time, self.admission.cut
                )
                streamed.headers.update(work.headers)
                return streamed
            transcript = await before(gone, submission, self.settings.max_time)
            if transcript is None:
                raise timed_out(self.settings.max_time)
            self._metrics.note(transcript, time.perf_counter() - started)
            named = replace(transcript, source=work.file_name)
            media_type = CONTENT_TYPES[asked.response_format]
            return Response(body_of(named, asked), headers=work.headers, media_type=media_type)
        raise AssertionError  # the block above returns or raises

    def may_begin_early(self, asr: wb.Transcriber) -> bool:
        """Return whether a recording may be submitted before its upload is complete.

        A slow upload holds a place. It must not hold one that a complete recording needs.
        """
        return asr.submitted.has_long_place and not self.early

    async def _note(
        self, events: AsyncIterator[str], submission: wb.Submission, started: float
    ) -> AsyncIterator[str]:
        """Yield events; note the end of the recording in the figures before the last of them."""
        async for event in events:
            if event == DONE:
                try:
                    self._metrics.note(await submission, time.perf_counter() - started)
                except wb.WhisperBatchError as error:
                    code = as_api_error(error).code
                    note_error(code)
                    self._metrics.errors.labels(code or "none").inc()
            yield event


class _Work:
    """A request while its form is received, and then while its recording is transcribed."""

    def __init__(
        self, of: Transcriptions, task: Task, stack: AsyncExitStack, client: Client
    ) -> None:
        self._of, self._task, self._stack, self._client = of, task, stack, client
        self._asked: TranscriptionRequest | None = None
        self._asr: wb.Transcriber | None = None
        self._submission: wb.Submission | None = None
        self.headers: dict[str, str] = {}  # of the answer
        self._decided = False  # whether the recording is submitted while the upload runs

    @property
    def file_name(self) -> str:
        """Name of the uploaded file."""
        return self._form.file.name if self._form.file else ""

    async def receive(self, request: Request) -> None:
        """Receive the form, and submit its recording.

        Raises:
            ApiError: the form is wrong, or has a URL that cannot be read.
        """
        settings = self._of.settings
        directory, max_bytes = settings.upload_directory, int(settings.max_upload)
        self._form = form = Form.of(request.headers, directory, max_bytes)
        self._stack.callback(form.close)
        with ExitStack() as uploading:
            async for _ in received(form, request, settings.upload_limits):
                await self._submit_early(uploading)
        self.gone = asyncio.ensure_future(disconnect(request.receive))
        self._stack.callback(self.gone.cancel)
        await self._of.downloads.complete(form, self.gone)
        asked = self._parse()
        if self._submission and asked == self._asked:
            return
        if self._submission:  # a field came after the file
            self._submission.cancel()
        await self._submit(asked)

    def submitted(self) -> tuple[TranscriptionRequest, wb.Submission]:
        """Return the request and its recording, after `receive`."""
        if self._asked is None or self._submission is None:
            raise AssertionError
        return self._asked, self._submission

    async def _submit_early(self, uploading: ExitStack) -> None:
        """Submit the recording while its upload runs, if the request allows this."""
        form = self._form
        if self._decided or form.file is None or form.complete:
            return
        if "model" not in form.fields or not form.fields.get("language", [""])[0]:
            self._decided = True  # the language is detected from the complete recording
            return
        in_order = form.file.can_be_read_in_order()
        if in_order is None:
            return
        self._decided = True
        if in_order:
            asked = self._parse()
            await self._choose_model(asked)
            if self._of.may_begin_early(self._model()):
                self._of.early.add(self)
                uploading.callback(self._of.early.discard, self)
                await self._submit(asked)

    def _parse(self) -> TranscriptionRequest:
        of = self._of
        return parse_request(self._form.fields, self._task, of.defaults, of.settings.max_beams)

    def _model(self) -> wb.Transcriber:
        if self._asr is None:
            raise AssertionError
        return self._asr

    async def _choose_model(self, asked: TranscriptionRequest) -> None:
        if self._asr is None or self._asked is None or asked.model != self._asked.model:
            name = asked.model or self._of.models.names[0]
            self._asr = await self._stack.enter_async_context(self._of.models.using(name))
        self._asked = asked

    async def _submit(self, asked: TranscriptionRequest) -> None:
        await self._choose_model(asked)
        if (spool := self._form.file) is None:
            raise AssertionError
        # The text of some recordings depends on whether the file has random access. It must not
        # depend on how fast the upload arrives, so that both are decided by the request alone.
        in_order = asked.options.language is not None and spool.can_be_read_in_order()
        of = self._of
        options, self.headers = fit_prompt(self._model(), asked.options)
        try:
            self._submission = await submit(
                self._model(),
                of.models,
                spool,
                options,
                client=self._client,
                admission=of.admission,
                max_batch=of.defaults.batch_size,
                in_order=bool(in_order),
            )
        except wb.OptionError as error:  # an option that this model cannot honour
            raise about(error, self._form.fields) from error
        self._stack.callback(self._submission.cancel)


class _EventResponse(Response):
    """A stream of events. The work ends with the stream, and when the client is gone."""

    def __init__(
        self,
        events: AsyncIterator[str],
        gone: "asyncio.Future[None]",
        stack: AsyncExitStack,
        max_time: float,
        cut: asyncio.Event,
    ) -> None:
        super().__init__(media_type="text/event-stream")
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-cache"
        self.headers["x-accel-buffering"] = "no"  # a proxy sends each event at once
        self._events, self._gone = events, gone
        self._stack, self._max_time, self._cut = stack, max_time, cut

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - of the base class
        async with self._stack:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            sending = asyncio.ensure_future(self._send(send))
            cut = asyncio.ensure_future(self._cut.wait())
            ends: set[asyncio.Future[Any]] = {self._gone, sending, cut}
            try:
                await asyncio.wait(
                    ends,
                    timeout=self._max_time,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                late = not self._gone.done() and not sending.done()
                if sending.done():
                    sending.result()
            finally:
                sending.cancel()
                cut.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await sending
            if late:
                error = shutting_down() if self._cut.is_set() else timed_out(self._max_time)
                note_error(error.code)
                for event in ending_with(error):
                    await send(_body(event))
                await send(_body(""))

    async def _send(self, send: Send) -> None:
        async for event in self._events:
            await send(_body(event))
        await send(_body(""))


def _body(text: str) -> dict[str, object]:
    """Return a piece of the body of an answer; an empty piece is the last."""
    return {"type": "http.response.body", "body": text.encode(), "more_body": bool(text)}


async def _first(submission: wb.Submission) -> None:
    """Wait for the first segment, or for the end of the recording."""
    async for _ in submission:
        return
