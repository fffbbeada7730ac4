"""The recording and the parameters of a request to an endpoint, in three forms.

application/json       {"inputs": "UklGRi...", "parameters": {...}}      decoded while it arrives
multipart/form-data    file, and the field `parameters` with JSON
audio/*, video/*       the recording; the parameters are in the query

The recording is written to disk while it arrives.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

from starlette.requests import Request

import whisperbatch as wb
from whisperbatch.huggingface import JsonBody, parse_object
from whisperbatch.server.clients.receiving import disk_full, new_spool, pieces
from whisperbatch.server.errors import ApiError, invalid
from whisperbatch.server.settings import ServerSettings
from whisperbatch.server.spool import Spool
from whisperbatch.server.uploads import FILE, Form, boundary_of, too_large

INPUTS: Final = "inputs"
PARAMETERS: Final = "parameters"
MEDIA: Final = ("audio/", "video/", "application/octet-stream")
NewSpool = Callable[[str], Spool]


async def receive_body(
    request: Request, settings: ServerSettings, stack: AsyncExitStack
) -> tuple[Spool, object]:
    """Receive the body of a request.

    Args:
        request: of a client.
        settings: of the server.
        stack: deletes the recording at its end.

    Returns:
        The recording, complete, and the parameters; None if there are none.

    Raises:
        ApiError: the body is wrong or too large, or the client is too slow or gone.
    """
    directory = str(settings.upload_directory) if settings.upload_directory else None

    def new(name: str) -> Spool:
        spool = new_spool(name, directory)
        stack.callback(spool.close)
        return spool

    body = _body_of(request, new, int(settings.max_upload))
    try:
        async for data in pieces(request, settings.idle_timeout, settings.upload_timeout):
            body.feed(data)
        spool, parameters = body.finish()
    except OSError as error:
        raise disk_full(error) from error
    except wb.OptionError as error:
        param = INPUTS if str(error).startswith(INPUTS) else None
        raise invalid(str(error), param) from error
    if not spool.size:
        raise invalid("the recording is empty", None, "invalid_audio")
    return spool, parameters


class _Body(ABC):
    """A body while it arrives.

    Args:
        request: of a client.
        new_spool: makes the file of a recording.
        max_bytes: limit of the recording's size.
    """

    @abstractmethod
    def __init__(self, request: Request, new_spool: NewSpool, max_bytes: int) -> None: ...

    @abstractmethod
    def feed(self, data: bytes) -> None:
        """Read the next piece.

        Raises:
            ApiError: the body is wrong or too large.
            OptionError: the body is wrong.
            OSError: the disk is full.
        """

    @abstractmethod
    def finish(self) -> tuple[Spool, object]:
        """Return the recording and the parameters, at the end of the body.

        Raises:
            ApiError: the body is wrong, or is cut off.
            OptionError: the body is wrong, or is cut off.
        """


class _Media(_Body):
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


class _Json(_Body):
    """A JSON object with `inputs` and `parameters`."""

    def __init__(self, request: Request, new_spool: NewSpool, max_bytes: int) -> None:
        _refuse_query(request)
        self._spool = new_spool(INPUTS)
        self._json = JsonBody(lambda data: _write(self._spool, data, max_bytes))

    def feed(self, data: bytes) -> None:
        self._json.feed(data)

    def finish(self) -> tuple[Spool, object]:
        self._json.finish()
        _check_names(self._json.values)
        if not self._json.has_inputs:
            raise invalid("inputs is missing: send the recording in base64", INPUTS, "missing")
        self._spool.finish()
        return self._spool, self._json.values.get(PARAMETERS)


class _MultipartForm(_Body):
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


def _body_of(request: Request, new_spool: NewSpool, max_bytes: int) -> _Body:
    """Return the empty body of a request, by its content type.

    Raises:
        ApiError: the content type is none of the three, or the query is wrong.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type == "application/json":
        return _Json(request, new_spool, max_bytes)
    if content_type == "multipart/form-data":
        return _MultipartForm(request, new_spool, max_bytes)
    if content_type.startswith(MEDIA):
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
