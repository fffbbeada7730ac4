"""Errors of the HTTP API, in the form that OpenAI's clients read.

    {"error": {"message": ..., "type": ..., "param": ..., "code": ...}}

Every error has this body, also an unexpected exception. OpenAI's clients repeat a request after the
statuses 408, 409, 429 and 500 to 599, unless the header `x-should-retry` says "false".
"""

import math
import re
from collections.abc import Mapping
from dataclasses import fields
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

from starlette.responses import JSONResponse

import whisperbatch as wb
from whisperbatch.addresses import without_secrets
from whisperbatch.options import as_text

OPTION_NAMES: Final = frozenset(
    field.name for group in (wb.Options, wb.SubtitleOptions) for field in fields(group)
)

_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})

QUOTED: Final = re.compile(r"('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")")
TUPLE: Final = re.compile(r"(?:(?<=\bnot )|(?<=such as )|(?<=\[\d\]=))\((?:[^()]|\([^()]*\))*\)")
"""A value that is a tuple, perhaps of tuples, and not the value of an option."""
CALL: Final = re.compile(r", for example from \w+\(\)")
WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {"True": "true", "False": "false", "None": "none", "tuple": "list"}
)
"""Words of Python, and what a client writes."""


class ApiError(Exception):
    """An answer that is an error.

    Attributes:
        status: HTTP status.
        message: one line for the user of the client.
        type: OpenAI's kind of error.
        param: name of the field that is wrong; None if no field is.
        code: identifier for programs; None if there is none.
        retry_after: seconds after which a repetition may succeed; None if not known.
        may_retry: whether a client should repeat the request; None leaves this to the client.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        retry_after: float | None = None,
        may_retry: bool | None = None,
    ) -> None:
        message = without_secrets(message)
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = kind
        self.param = param
        self.code = code
        self.retry_after = retry_after
        self.may_retry = may_retry

    @property
    def body(self) -> dict[str, Any]:
        """The value that is sent as JSON."""
        return {
            "error": {
                "message": self.message,
                "type": self.type,
                "param": self.param,
                "code": self.code,
            }
        }

    @property
    def headers(self) -> dict[str, str]:
        """The headers that tell clients whether, when and how to repeat the request."""
        headers = {}
        if self.retry_after is not None:
            headers["retry-after"] = str(max(math.ceil(self.retry_after), 1))
        if self.may_retry is not None:
            headers["x-should-retry"] = str(self.may_retry).lower()
        if self.status == HTTPStatus.UNAUTHORIZED:
            headers["www-authenticate"] = "Bearer"
        return headers


def response_of(error: ApiError, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return an error as a response.

    Args:
        error: the error.
        headers: more headers.

    Returns:
        The response, with the headers for clients that repeat requests.
    """
    return JSONResponse(error.body, error.status, {**error.headers, **(headers or {})})


def invalid(message: str, param: str | None, code: str | None = "invalid_value") -> ApiError:
    """Return the error for a field that is wrong (status 400)."""
    return ApiError(400, message, param=param, code=code)


def as_api_error(error: BaseException, names: Mapping[str, str] = _NO_NAMES) -> ApiError:  # noqa: PLR0911 - one for each kind
    """Return the answer to an exception of the library.

    Args:
        error: any exception; an unknown exception is an error of the server.
        names: options that the client's form sets by fields with another name.

    Returns:
        The answer. Its message names the cause.
    """
    if isinstance(error, ApiError):
        return error
    if isinstance(error, wb.AudioError):
        if str(error).startswith("known_speakers["):
            return invalid(message_for_clients(error), "known_speaker_references", "invalid_audio")
        too_long = "max_duration=" in str(error)
        code = "audio_too_long" if too_long else "invalid_audio"
        return invalid(message_for_clients(error), "file", code)
    if isinstance(error, wb.OptionError):
        option = next((name for name in error.options if name in OPTION_NAMES), None)
        return invalid(message_for_clients(error, names), names.get(option or "", option))
    if isinstance(error, wb.MissingExtraError):
        return ApiError(501, str(error), kind="server_error", code="not_installed", may_retry=False)
    if isinstance(error, wb.ClosedError):
        return unavailable("the model was closed; repeat the request later")
    if isinstance(error, wb.EngineError):
        return ApiError(500, str(error), kind="server_error", code="engine_failed")
    cause = str(error) or type(error).__name__
    message = cause if isinstance(error, wb.WhisperBatchError) else f"unexpected error: {cause}"
    return ApiError(500, message, kind="server_error", code="internal_error", may_retry=False)


def message_for_clients(error: wb.WhisperBatchError, names: Mapping[str, str] = _NO_NAMES) -> str:
    """Return the message of an error with options as clients write them, not as Python does.

    vad=False, temperature=(0.0, 0.2), task='translate'     in Python
    vad=false, temperature=0.0,0.2, task=translate          in a form

    Args:
        error: of the library.
        names: options that the client's form sets by fields with another name.
    """

    def spell(option: str, value: str | None) -> str:
        name = names.get(option, option)
        return name if value is None else f"{name}={as_text(value)}"

    text = TUPLE.sub(lambda match: as_text(match[0]), CALL.sub("", error.spelled(spell)))
    parts = QUOTED.split(text)
    parts[::2] = [
        re.sub(rf"\b({'|'.join(WORDS)})\b", lambda match: WORDS[match[1]], part)
        for part in parts[::2]
    ]
    return "".join(parts)


def unavailable(message: str, retry_after: float = 5.0) -> ApiError:
    """Return the error of a server that is not ready, or shuts down (status 503)."""
    return ApiError(503, message, kind="server_error", code="unavailable", retry_after=retry_after)


def client_gone() -> ApiError:
    """Return the error of a request without a client (status 499): no client receives it."""
    return ApiError(499, "the client has closed the connection", code="client_gone")


def shutting_down() -> ApiError:
    """Return the error of a server that shuts down (status 503)."""
    return unavailable("the server is shutting down")
