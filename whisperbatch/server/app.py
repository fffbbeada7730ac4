"""The application: its routes, and its state from its start to its end.

recorder ──> guard ┬─> /v1/audio/... ──> transcriptions ──> asr.submit
                   ├─> /v1/realtime ──> realtime ──> asr.live
                   ├─> /v1/realtime/client_secrets ──> client_secrets
                   ├─> /, /predict ──> endpoints ──> asr.submit
                   ├─> /v1/audio/diarization, /v1/audio/vad ──> analyses
                   ├─> /api/ps, /api/load, /api/unload ──> administration
                   ├─> /, for browsers ──> page
                   └─> /v1/models, /health, /ready, /metrics, /docs
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import WebSocketRoute

import whisperbatch as wb
from whisperbatch.boundary import hide_secrets
from whisperbatch.server.administration import Administration
from whisperbatch.server.admission import Admission, Limits
from whisperbatch.server.analyses import (
    DIARIZATION_FORM,
    TIMESTAMPS_FORM,
    VAD_FORM,
    Analyses,
)
from whisperbatch.server.browsers import Browsers
from whisperbatch.server.docs_page import page_of
from whisperbatch.server.downloads import Downloads
from whisperbatch.server.endpoints import OPENAPI, Endpoints
from whisperbatch.server.errors import (
    ApiError,
    as_api_error,
    response_of,
    shutting_down,
    unavailable,
)
from whisperbatch.server.guard import Guard
from whisperbatch.server.metrics import CONTENT_TYPE, Metrics
from whisperbatch.server.models import Models
from whisperbatch.server.openapi import form_of
from whisperbatch.server.page import Page, wants_page
from whisperbatch.server.realtime.client_secrets import ClientSecrets, Secrets
from whisperbatch.server.realtime.endpoint import Realtime
from whisperbatch.server.realtime.limits import Sessions
from whisperbatch.server.records import REQUESTS, Record, Recorder, note_error
from whisperbatch.server.settings import ServerSettings
from whisperbatch.server.spans import Spans
from whisperbatch.server.transcriptions import Transcriptions

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

TITLE: Final = "whisperbatch"
API_PREFIXES: Final = ("/v1", "", "/api/v1")
"""OpenAI's, of LocalAI, and of the endpoint that Hugging Face published."""

REALTIME_PATHS: Final = tuple(f"{prefix}/realtime" for prefix in API_PREFIXES)

log = logging.getLogger(__name__)


class Server:
    """The server's parts. `app` answers requests.

    Args:
        settings: of the server.

    Attributes:
        settings: as given.
        admission: the limit of requests; closed when the server shuts down.
        sessions: the places of live sessions.
        models: the models.
        app: the ASGI application.
        failure: why the models cannot be loaded; None if they can, or are not loaded yet.

    Raises:
        OptionError: a setting is wrong.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.admission = Admission(
            Limits(settings.max_requests, settings.max_client_requests, settings.max_wait)
        )
        self.models = Models(
            settings.models,
            settings.load,
            settings.max_memory,
            aliases=settings.aliases,
            ttl=settings.model_ttl,
        )
        self._assisted: Models | None = None
        if settings.assistant_model:
            first = (self.models.names[0],)
            self._assisted = Models(
                first, settings.load_assisted, settings.max_memory, ttl=settings.model_ttl
            )
        self._metrics = Metrics(lambda: self.admission.active, self._load)
        downloads = Downloads(settings)
        self._transcriptions = Transcriptions(
            settings, self.models, self.admission, self._metrics, downloads
        )
        self._endpoints = Endpoints(
            settings,
            self.models,
            self._assisted,
            self.admission,
            self._metrics,
            downloads=downloads,
        )
        models = [self.models, *([self._assisted] if self._assisted else [])]
        self._administration = Administration(settings, models, self.admission)
        self.sessions = Sessions(self.admission, settings.max_sessions)
        secrets = Secrets(lambda: self._guard.keys)
        self._client_secrets = ClientSecrets(settings, self.models, self.admission, secrets)
        self._realtime = Realtime(settings, self.models, self.sessions, self._metrics, secrets)
        self._analyses = Analyses(settings, self.models, self.admission, downloads)
        self._page = Page(settings.root_path) if settings.page else None
        self._preparing: asyncio.Task[None] | None = None
        routes = FastAPI(
            title=TITLE,
            description="Transcription with OpenAI's API.",
            lifespan=self._lifespan,
            docs_url=None,
            redoc_url=None,
        )
        self._add_routes(routes)
        self._guard = Guard(
            routes,
            settings.keys(),
            browsers=Browsers(settings.origins, local=settings.is_local and settings.uds is None),
            max_bytes=int(settings.max_upload),
            metrics=self._metrics,
            cut=self.admission.cut,
            secrets=secrets.client_of,
        )
        guarded: ASGIApp = self._guard
        if settings.origins:
            guarded = CORSMiddleware(
                guarded,
                allow_origins=settings.origins,
                allow_methods=["GET", "POST"],
                allow_headers=["*"],
                expose_headers=[
                    *("x-request-id", "retry-after", "x-should-retry", "x-whisperbatch-prompt")
                ],
            )
        ended = [self._metrics.note_request, self._note_audio]
        if settings.otel:
            ended.append(Spans().note)
        self.app: ASGIApp = Recorder(guarded, settings.root_path, ended)

    @property
    def active(self) -> int:
        """Number of requests and live sessions that have not ended."""
        return self.admission.active + self.sessions.active

    @property
    def failure(self) -> BaseException | None:
        """The error with which a model could not be loaded at the start; None without an error."""
        if self._preparing is None or not self._preparing.done() or self._preparing.cancelled():
            return None
        return self._preparing.exception()

    def reload_keys(self) -> None:
        """Read the keys again. Running requests go on. Keys that cannot be read are logged."""
        try:
            self._guard.keys = self.settings.keys()
        except wb.OptionError as error:
            log.error("the keys are not reloaded: %s", error)  # noqa: TRY400 - the user's error
        else:
            log.info("the keys are reloaded")

    @asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        """Load the models in the background, and free them at the end."""
        self._preparing = asyncio.create_task(self._prepare())
        try:
            yield
        finally:
            self.admission.closed = True
            self._preparing.cancel()
            await asyncio.wait({self._preparing})
            if not self.admission.cut.is_set():  # closing would wait for the running engine calls
                await self.models.close()
                if self._assisted:
                    await self._assisted.close()

    async def _prepare(self) -> None:
        """Load the models.

        Raises:
            WhisperBatchError: a model cannot be loaded.
        """
        options = self.settings.endpoint_options()
        if options.diarize and options.speaker == "voice":
            await self.models.load_diarizer(options.diarizer)
        await self.models.prepare()
        if self._assisted:
            await self._assisted.prepare()

    def _note_audio(self, record: Record) -> None:
        self.admission.note_audio(record.client, record.audio)

    def _load(self) -> list[wb.Transcriber]:
        return [*self.models.loaded, *(self._assisted.loaded if self._assisted else ())]

    def _add_routes(self, app: FastAPI) -> None:
        app.add_exception_handler(HTTPException, _as_http_error)
        app.add_exception_handler(RequestValidationError, _as_http_error)
        for kind in (ApiError, wb.WhisperBatchError, Exception):
            app.add_exception_handler(kind, self._as_response)
        for path, answer, summary in (
            ("/", self._begin, "A page for browsers, or whether the server runs"),
            ("/health", self._health, "Whether the server runs"),
            ("/ready", self._ready, "Whether the models are loaded"),
        ):
            app.get(path, summary=summary)(answer)
            app.head(path, include_in_schema=False)(answer)
        if self._page:
            app.get("/page/{name}", include_in_schema=False)(self._page.file)
        app.get("/docs", include_in_schema=False)(self._show_docs)
        app.get("/metrics", summary="Figures for Prometheus")(self._figures)
        app.get("/v1/models", summary="The models")(self._list_models)
        app.get("/v1/models/{model:path}", summary="One model")(self._show_model)
        for path, task in (("transcriptions", "transcribe"), ("translations", "translate")):
            for prefix in API_PREFIXES:
                app.post(
                    f"{prefix}/audio/{path}",
                    summary=f"{task.title()} a recording",
                    openapi_extra=form_of(task),
                    response_class=Response,
                    include_in_schema=prefix == API_PREFIXES[0],
                )(getattr(self, f"_{task}"))

        for path in REALTIME_PATHS:
            app.router.routes.append(WebSocketRoute(path, self._realtime.connect))
            app.get(path, include_in_schema=False)(_ask_for_upgrade)
            for name, create, summary in (
                ("client_secrets", self._client_secrets.create, "A short-lived key"),
                ("transcription_sessions", self._client_secrets.create_old, "The same, old form"),
            ):
                app.post(
                    f"{path}/{name}",
                    summary=f"{summary} for a browser that opens live sessions",
                    include_in_schema=path == REALTIME_PATHS[0],
                )(create)
        administration = self._administration
        app.get("/api/ps", summary="The loaded models")(administration.list_loaded)
        app.post("/api/load", summary="Load a model")(administration.load)
        app.post("/api/unload", summary="Unload a model")(administration.unload)
        for path, summary, analysis_form, analyse in (
            ("diarization", "Who speaks when", DIARIZATION_FORM, self._analyses.diarization),
            ("vad", "Where there is speech", VAD_FORM, self._analyses.vad),
            (
                "speech/timestamps",
                "Where there is speech, in the form of speaches",
                TIMESTAMPS_FORM,
                self._analyses.timestamps,
            ),
        ):
            app.post(
                f"/v1/audio/{path}",
                summary=summary,
                openapi_extra=analysis_form,
                response_class=Response,
            )(analyse)
        for path in ("/", "/predict"):
            app.post(
                path,
                summary="Transcribe a recording, in the form of Hugging Face",
                openapi_extra=dict(OPENAPI),
                response_class=Response,
            )(self._predict)
        app.add_middleware(_WithoutSlash)

    async def _as_response(self, _: Request, error: Exception) -> JSONResponse:
        hide_secrets(error)
        answer = as_api_error(error)
        note_error(answer.code)
        if answer.status == HTTPStatus.INTERNAL_SERVER_ERROR:
            log.error("%s", answer.message, exc_info=error)
        self._metrics.errors.labels(answer.code or "none").inc()
        return response_of(answer)

    async def _begin(self, request: Request) -> Response:
        if self._page and wants_page(request.headers):
            return self._page.show(request)
        return JSONResponse(await self._health())

    async def _health(self) -> dict[str, str]:
        return {"status": "ok"}

    async def _ready(self) -> dict[str, str]:
        if self.admission.closed:
            raise shutting_down()
        if self._preparing is None or not self._preparing.done():
            raise unavailable("the models are being loaded")
        self._preparing.result()
        return {"status": "ready"}

    async def _figures(self) -> Response:
        return Response(self._metrics.text(), media_type=CONTENT_TYPE)

    async def _show_docs(self, request: Request) -> HTMLResponse:
        return HTMLResponse(page_of(request.app.openapi()))

    async def _list_models(self) -> dict[str, Any]:
        names = (*self.models.names, *self.models.aliases)
        return {"object": "list", "data": [self._describe(name) for name in names]}

    async def _show_model(self, model: str) -> dict[str, Any]:
        return self._describe(model)

    def _describe(self, name: str) -> dict[str, Any]:
        """Return a model by its own name, or by an alias with the model that it means."""
        own = self.models.find(name).name
        described: dict[str, Any] = {
            "id": name if name in self.models.aliases else own,
            "object": "model",
            "created": 0,
            "owned_by": TITLE,
        }
        return {**described, "parent": own} if name in self.models.aliases else described

    async def _transcribe(self, request: Request) -> Response:
        return await self._transcriptions.answer(request, "transcribe")

    async def _predict(self, request: Request) -> Response:
        return await self._endpoints.answer(request)

    async def _translate(self, request: Request) -> Response:
        return await self._transcriptions.answer(request, "translate")


async def _ask_for_upgrade() -> None:
    """Refuse a request for a live session that is no WebSocket.

    Raises:
        ApiError: always.
    """
    raise ApiError(426, "connect to this path with a WebSocket", code="upgrade_required")


class _WithoutSlash:
    """Answers `/path/` like `/path`. A redirect would lead to the host that the client named.

    Args:
        app: the routes.
    """

    def __init__(self, app: "ASGIApp") -> None:
        self._app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] in REQUESTS and scope["path"] != f"{scope['root_path']}/":
            scope["path"] = scope["path"].removesuffix("/")
        await self._app(scope, receive, send)


async def _as_http_error(_: Request, error: Exception) -> JSONResponse:
    """Return an error of the framework, such as an unknown path, in OpenAI's form."""
    if isinstance(error, HTTPException):
        codes = {404: "not_found", 405: "method_not_allowed"}
        code = codes.get(error.status_code)
        note_error(code)
        return response_of(ApiError(error.status_code, str(error.detail), code=code), error.headers)
    note_error("invalid_request")
    return response_of(ApiError(400, str(error), code="invalid_request"))
