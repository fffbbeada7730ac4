"""The handshake of a live session: /v1/realtime, below or without /v1.

    ?intent=transcription   a transcription session, as OpenAI's guide opens it
    ?model=NAME             a model of the server, or a name of OpenAI's

A session is refused by the HTTP answer to its handshake: a wrong key (401), a web page that is not
allowed (403), an unknown model (404), too many sessions (429), a server that shuts down (503).

The subprotocol `realtime` is selected if it is offered, because browsers need an answer. The
subprotocol with the key is never repeated.
"""

from typing import Final

from starlette.websockets import WebSocket

from whisperbatch.server.errors import ApiError
from whisperbatch.server.guard import key_of, refuse, subprotocols_of
from whisperbatch.server.metrics import Metrics
from whisperbatch.server.models import Models
from whisperbatch.server.realtime.client_secrets import Secrets
from whisperbatch.server.realtime.configuration import Configuration
from whisperbatch.server.realtime.limits import Sessions
from whisperbatch.server.realtime.old import OldGeneration, is_old
from whisperbatch.server.realtime.session import Parts, Session
from whisperbatch.server.records import RECORD, Record
from whisperbatch.server.settings import ServerSettings

ROUTE: Final = "/v1/realtime"  # in figures
SUBPROTOCOL: Final = "realtime"
TRANSCRIPTION: Final = "transcription"


class Realtime:
    """Opens live sessions.

    Args:
        settings: of the server.
        models: the models.
        sessions: the places.
        metrics: the figures.
        secrets: the short-lived keys; each has the configuration of its sessions.
    """

    def __init__(
        self,
        settings: ServerSettings,
        models: Models,
        sessions: Sessions,
        metrics: Metrics,
        secrets: Secrets,
    ) -> None:
        self._secrets = secrets
        defaults = settings.default_options()
        self._parts = Parts(settings, models, sessions, metrics, defaults, set())

    async def connect(self, socket: WebSocket) -> None:
        """Answer a handshake, and the events of its session.

        Args:
            socket: the handshake.
        """
        try:
            await self._open(socket)
        except ApiError as error:  # the framework would answer nothing
            scope, metrics = socket.scope, self._parts.metrics
            await refuse(error, metrics, scope, socket.receive, socket.send)

    async def _open(self, socket: WebSocket) -> None:
        """Open a session, and answer its events.

        Raises:
            ApiError: the session is refused.
        """
        parts = self._parts
        record: Record = socket.scope[RECORD]
        record.route = ROUTE
        query = socket.query_params
        secret = self._secrets.find(key_of(socket.headers))
        configuration = secret.configuration if secret else Configuration()
        if model := query.get("model"):
            parts.models.find(model)
        if model and not configuration.model:
            configuration = configuration.updated(
                {"audio": {"input": {"transcription": {"model": model}}}}
            )
        offered = subprotocols_of(socket.headers)
        old = None
        if is_old(socket.headers, offered):
            old = OldGeneration(transcription=query.get("intent") == TRANSCRIPTION)
        with parts.sessions.opened(record.client):
            await socket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
            parts.metrics.sessions.inc()
            try:
                session = Session(
                    parts,
                    record.client,
                    socket.receive,
                    socket.send,
                    configuration=configuration,
                    old=old,
                )
                await session.run()
            finally:
                parts.metrics.sessions.dec()
