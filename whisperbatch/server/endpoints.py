"""The interface of Hugging Face Inference Endpoints: POST / and /predict.

body ──> recording, parameters ──> submit ──> wait ──> text, chunks, speakers

The recording and the parameters come in three forms; the recording is written to disk while it
arrives:

application/json       {"inputs": "UklGRi...", "parameters": {...}}      decoded while it arrives
multipart/form-data    file, and the field `parameters` with JSON
audio/*, video/*       the recording; the parameters are in the query. The same without a content
                       type: clients of Hugging Face send bytes like this
"""

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

import whisperbatch as wb
from whisperbatch.huggingface import Inference, JsonBody, answer_of, parse_object, parse_parameters
from whisperbatch.server.admission import Admission
from whisperbatch.server.downloads import Downloads
from whisperbatch.server.errors import ApiError, invalid, message_for_clients
from whisperbatch.server.fields import within_limits
from whisperbatch.server.formats import as_json
from whisperbatch.server.metrics import Metrics
from whisperbatch.server.models import Models
from whisperbatch.server.settings import ServerSettings
from whisperbatch.server.submitting import (
    before,
    client_of,
    disconnect,
    fit_prompt,
    submit,
    timed_out,
)
from whisperbatch.server.uploads import (
    FILE,
    Form,
    Spool,
    boundary_of,
    disk_full,
    new_spool,
    pieces,
    too_large,
)

JSON_FORM: Final = MappingProxyType(
    {
        "type": "object",
        "required": ["inputs"],
        "properties": {
            "inputs": {
                "type": "string",
                "description": "The recording: base64, or a data: URL; or an allowed URL.",
            },
            "parameters": {"type": "object", "description": "Options, by name."},
        },
    }
)
FILE_FORM: Final = MappingProxyType(
    {
        "type": "object",
        "required": ["file"],
        "properties": {
            "file": {"type": "string", "format": "binary"},
            "parameters": {"type": "string", "description": "Options as a JSON object."},
        },
    }
)
OPENAPI: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": dict(JSON_FORM)},
                "multipart/form-data": {"schema": dict(FILE_FORM)},
                "audio/*": {"schema": {"type": "string", "format": "binary"}},
            },
        }
    }
)
"""The description of the body for the OpenAPI page."""
INPUTS: Final = "inputs"
PARAMETERS: Final = "parameters"
MEDIA: Final = ("audio/", "video/")
BYTES: Final = (
    *("", "*/*", "application/octet-stream", "binary/octet-stream"),
    *("application/ogg", "application/mp4"),
)
"""Content types that only say "bytes", and containers of sound."""
NewSpool = Callable[[str], Spool]


class Endpoints:
    """Answers requests in the form of Hugging Face Inference Endpoints.

    Args:
        settings: of the server.
        models: the models; requests use the first.
        assisted: the first model with a draft model; None without a draft model.
        admission: the limit of requests.
        metrics: the figures.
        downloads: read recordings that are named by a URL.
    """

    def __init__(
        self,
        settings: ServerSettings,
        models: Models,
        assisted: Models | None,
        admission: Admission,
        metrics: Metrics,
        *,
        downloads: Downloads,
    ) -> None:
        self._settings = settings
        self._models, self._assisted = models, assisted
        self._admission, self._metrics = admission, metrics
        self._defaults = settings.endpoint_options()
        self._downloads = downloads

    async def answer(self, request: Request) -> Response:
        """Return the answer to a request.

        Args:
            request: with a recording and parameters; see `bodies`.

        Returns:
            The transcript: text, chunks, speakers.

        Raises:
            ApiError: the request is wrong, or the server cannot work on it.
            WhisperBatchError: the recording cannot be transcribed.
        """
        started = time.perf_counter()
        max_time = self._settings.max_time
        async with AsyncExitStack() as stack:
            client = client_of(request)
            stack.enter_context(self._admission.admitted(client))
            recording, parameters = await receive_body(
                request, self._settings, stack, takes_urls=self._downloads.enabled
            )
            gone = asyncio.ensure_future(disconnect(request.receive))
            stack.callback(gone.cancel)
            if isinstance(recording, str):
                recording = await self._downloads.fetch(recording, gone, INPUTS)
                stack.callback(recording.close)
            if not recording.size:
                raise invalid("the recording is empty", None, "invalid_audio")
            asked = self._asked(parameters)
            models = self._assisted if self._assisted and asked.assisted else self._models
            asr = await stack.enter_async_context(models.using(models.names[0]))
            options, headers = fit_prompt(asr, asked.options)
            submission = await submit(
                asr,
                models,
                recording,
                options,
                client=client,
                admission=self._admission,
                max_batch=self._defaults.batch_size,
            )
            stack.callback(submission.cancel)
            transcript = await before(gone, submission, max_time)
            if transcript is None:
                raise timed_out(max_time)
            self._metrics.note(transcript, time.perf_counter() - started)
            body = as_json(answer_of(transcript, words=asked.words))
            return Response(body, headers=headers, media_type="application/json")
        raise AssertionError  # the block above returns or raises

    def _asked(self, parameters: object) -> Inference:
        """Return what the parameters ask for, within the limits of the server.

        Raises:
            ApiError: a parameter is wrong.
        """
        try:
            asked = parse_parameters(
                parameters, self._defaults, can_assist=self._assisted is not None
            )
        except wb.OptionError as error:
            named = _named(str(error), parameters)
            raise invalid(message_for_clients(error), named) from error
        options = within_limits(asked.options, self._defaults, self._settings.max_beams)
        return replace(asked, options=options)


def _named(message: str, parameters: object) -> str:
    """Return the parameter that a message names."""
    names = parameters if isinstance(parameters, Mapping) else {}
    return next((word for word in re.findall(r"\w+", message) if word in names), PARAMETERS)


async def receive_body(
    request: Request,
    settings: ServerSettings,
    stack: AsyncExitStack,
    *,
    takes_urls: bool = False,
) -> tuple[Spool | str, object]:
    """Receive the body of a request.

    Args:
        request: of a client.
        settings: of the server.
        stack: deletes the recording at its end.
        takes_urls: whether a URL may be in place of the recording.

    Returns:
        The recording, complete, or its URL; and the parameters, None if there are none.

    Raises:
        ApiError: the body is wrong or too large, or the client is too slow or gone.
    """

    def new(name: str) -> Spool:
        spool = new_spool(name, settings.upload_directory)
        stack.callback(spool.close)
        return spool

    body = _body_of(request, new, int(settings.max_upload), takes_urls=takes_urls)
    try:
        async for data in pieces(request, settings.upload_limits):
            body.feed(data)
        return body.finish()
    except OSError as error:
        raise disk_full(error) from error
    except wb.OptionError as error:
        param = INPUTS if str(error).startswith(INPUTS) else None
        raise invalid(message_for_clients(error), param) from error


# A body while it arrives: `feed` reads the next piece, and `finish` returns the recording and the
# parameters. They raise ApiError or OptionError for a wrong body, and OSError if the disk is full.


class _Media:
    """A recording. The parameters are in the query."""

    def __init__(self, request: Request, new_spool: NewSpool, max_bytes: int) -> None:
        pairs = request.query_params.multi_items()
        self._parameters = dict(pairs)
        if len(self._parameters) < len(pairs):
            raise invalid("a parameter of the query is given more than once", None)
        self._spool = new_spool(INPUTS)
        self._max_bytes = max_bytes

    def feed(self, data: bytes) -> None:
        _write(self._spool, data, self._max_bytes)

    def finish(self) -> tuple[Spool, object]:
        self._spool.finish()
        return self._spool, self._parameters


class _Json:
    """A JSON object with `inputs` and `parameters`."""

    def __init__(
        self, request: Request, new_spool: NewSpool, max_bytes: int, *, takes_urls: bool
    ) -> None:
        _refuse_query(request)
        self._spool = new_spool(INPUTS)
        self._json = JsonBody(
            lambda data: _write(self._spool, data, max_bytes), takes_urls=takes_urls
        )

    def feed(self, data: bytes) -> None:
        self._json.feed(data)

    def finish(self) -> tuple[Spool | str, object]:
        self._json.finish()
        _check_names(self._json.values)
        if not self._json.has_inputs:
            raise invalid("inputs is missing: send the recording in base64", INPUTS, "missing")
        self._spool.finish()
        return self._json.url or self._spool, self._json.values.get(PARAMETERS)


class _MultipartForm:
    """A form with `file` and `parameters`."""

    def __init__(self, request: Request, new_spool: NewSpool, max_bytes: int) -> None:
        _refuse_query(request)
        self._form = Form(boundary_of(request.headers), new_spool, max_bytes)

    def feed(self, data: bytes) -> None:
        self._form.feed(data)

    def finish(self) -> tuple[Spool, object]:
        self._form.finish()
        _check_names(self._form.fields)
        if self._form.file is None:
            raise invalid("file is missing: send the recording as a file", FILE, "missing")
        texts = [text for text in self._form.fields.get(PARAMETERS, ()) if text]
        if len(texts) > 1:
            raise invalid("parameters is given more than once", PARAMETERS)
        return self._form.file, parse_object(texts[0]) if texts else None


def _body_of(
    request: Request, new_spool: NewSpool, max_bytes: int, *, takes_urls: bool
) -> _Media | _Json | _MultipartForm:
    """Return the empty body of a request, by its content type.

    Raises:
        ApiError: the content type is none of the three, or the query is wrong.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type == "application/json":
        return _Json(request, new_spool, max_bytes, takes_urls=takes_urls)
    if content_type == "multipart/form-data":
        return _MultipartForm(request, new_spool, max_bytes)
    if content_type.startswith(MEDIA) or content_type in BYTES:
        return _Media(request, new_spool, max_bytes)
    raise ApiError(
        415,
        "send the recording as application/json, multipart/form-data or audio/*",
        code="invalid_content_type",
        may_retry=False,
    )


def _write(spool: Spool, data: bytes, max_bytes: int) -> None:
    if spool.size + len(data) > max_bytes:
        raise too_large(max_bytes)
    spool.write(data)


def _refuse_query(request: Request) -> None:
    for name in request.query_params:
        raise invalid(f"{name[:50]}: give parameters in the body", name, "unknown_parameter")


def _check_names(names: "dict[str, object] | dict[str, list[str]]") -> None:
    """Check that the body has nothing beside the recording but `parameters`."""
    for name in names:
        if name != PARAMETERS:
            raise invalid(
                f"{name[:50]} is not a field of this path: give options in parameters",
                name,
                "unknown_parameter",
            )
