"""Requests to an endpoint: from the request to the answer.

body ──> bodies ──> recording, parameters ──> submit ──> wait ──> text, chunks, speakers
"""

import asyncio
import re
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import MappingProxyType
from typing import Any, BinaryIO, Final, cast

from starlette.requests import Request
from starlette.responses import Response

import whisperbatch as wb
from whisperbatch.huggingface import Inference, answer_of, parse_parameters
from whisperbatch.server.admission import Admission
from whisperbatch.server.clients.waiting import before, disconnect, timed_out
from whisperbatch.server.endpoints.bodies import PARAMETERS, receive_body
from whisperbatch.server.errors import invalid
from whisperbatch.server.fields import limited
from whisperbatch.server.formats import as_json
from whisperbatch.server.metrics import Metrics
from whisperbatch.server.models import Models
from whisperbatch.server.requests.submitting import submit
from whisperbatch.server.settings import ServerSettings

JSON_FORM: Final = MappingProxyType(
    {
        "type": "object",
        "required": ["inputs"],
        "properties": {
            "inputs": {"type": "string", "description": "The recording: base64, or a data: URL."},
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


class Endpoints:
    """Answers requests in the form of Hugging Face Inference Endpoints.

    Args:
        settings: of the server.
        models: the models; requests use the first.
        assisted: the first model with a draft model; None without a draft model.
        admission: the limit of requests.
        metrics: the figures.
    """

    def __init__(
        self,
        settings: ServerSettings,
        models: Models,
        assisted: Models | None,
        admission: Admission,
        metrics: Metrics,
    ) -> None:
        self._settings = settings
        self._models, self._assisted = models, assisted
        self._admission, self._metrics = admission, metrics
        self._defaults = settings.endpoint_options()

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
            stack.enter_context(self._admission.admitted())
            spool, parameters = await receive_body(request, self._settings, stack)
            gone = asyncio.ensure_future(disconnect(request.receive))
            stack.callback(gone.cancel)
            asked = self._asked(parameters)
            models = self._assisted if self._assisted and asked.assisted else self._models
            asr = await stack.enter_async_context(models.using(models.names[0]))
            file = cast("BinaryIO", spool.open())
            submission = await submit(asr, models, file, asked.options)
            stack.callback(submission.cancel)
            transcript = await before(gone, submission, max_time)
            if transcript is None:
                raise timed_out(max_time)
            self._metrics.note(transcript, time.perf_counter() - started)
            return Response(as_json(answer_of(transcript)), media_type="application/json")
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
            raise invalid(str(error), _named(str(error), parameters)) from error
        return Inference(limited(asked.options, self._defaults), asked.assisted)


def _named(message: str, parameters: object) -> str:
    """Return the parameter that a message names."""
    names = parameters if isinstance(parameters, Mapping) else {}
    return next((word for word in re.findall(r"\w+", message) if word in names), PARAMETERS)
