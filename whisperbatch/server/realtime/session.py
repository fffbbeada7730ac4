"""One live session of a client, from the handshake to the close of its WebSocket.

    client ──> receive ──> inbox ──> work ──> asr.live ──> report ──> outbox ──> send ──> client
                (bounded)      └── errors, session.updated ──────────────┘ (bounded)

Every event of the client is answered in order. A mistake is answered with `error`, and the session
goes on. When the inbox is full, nothing more is read from the client's connection. A client that is
gone, or does not read, ends the session at once, and its work is dropped.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from starlette.types import Message, Receive, Send

import whisperbatch as wb
from whisperbatch.boundary import hide_secrets
from whisperbatch.errors import BacklogError
from whisperbatch.live import LiveSession, Settled
from whisperbatch.server.clients import Client
from whisperbatch.server.errors import ApiError, as_api_error, invalid
from whisperbatch.server.formats import as_json
from whisperbatch.server.metrics import Metrics
from whisperbatch.server.models import Models
from whisperbatch.server.realtime import protocol
from whisperbatch.server.realtime.configuration import INPUT, Configuration, as_answer
from whisperbatch.server.realtime.limits import Sessions
from whisperbatch.server.realtime.old import OLD_UPDATE, OldGeneration
from whisperbatch.server.realtime.protocol import Event, error_event, event, id_of, new_id
from whisperbatch.server.realtime.turns import Turns
from whisperbatch.server.records import note_audio, note_error
from whisperbatch.server.settings import ServerSettings
from whisperbatch.server.submitting import fit_prompt, started

MIN_COMMIT: Final = 0.1  # seconds of audio
MAX_INBOX: Final = 16 * 2**20  # characters of the events that wait for their turn
MAX_OUTBOX: Final = 256  # events that wait for the client
SEND_TIME: Final = 30.0  # seconds in which a client must read an event
BACKLOG_TIME: Final = 30.0  # seconds in which a piece of audio must find a place
LAST_TEXT: Final = 10.0  # seconds for the last text of a session that the server ends
AHEAD: Final = 2.0  # seconds of audio before its time; then sessions are heard one after the other
LOOK: Final = 0.5  # seconds between two looks at the limits

NORMAL: Final = 1000  # codes of a close
GOING_AWAY: Final = 1001
MISUSE: Final = 1008
FAILED: Final = 1011
RESTART: Final = 1012  # OpenAI's clients connect again
OVERLOADED: Final = 1013

log = logging.getLogger(__name__)


class Ending(Exception):  # noqa: N818 - not only errors
    """The end of a session.

    Attributes:
        code: of the close; None if the client is gone.
        error: that the client is told before; None without an error.
    """

    def __init__(self, code: int | None, error: ApiError | None = None) -> None:
        super().__init__(code, error)
        self.code, self.error = code, error


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the server that sessions use.

    Attributes:
        settings: of the server.
        models: the models.
        sessions: the places.
        metrics: the figures.
        defaults: options of the server.
        unused: options of the server that live sessions do not have; they are logged once.
    """

    settings: ServerSettings
    models: Models
    sessions: Sessions
    metrics: Metrics
    defaults: wb.Options
    unused: set[str]


class Session:
    """A session of a client whose handshake was accepted.

    Args:
        parts: of the server.
        client: who speaks.
        receive: of ASGI.
        send: of ASGI.
        configuration: at the start.
        old: translates for a client of the old generation; None for other clients.
    """

    def __init__(
        self,
        parts: Parts,
        client: Client,
        receive: Receive,
        send: Send,
        *,
        configuration: Configuration,
        old: OldGeneration | None,
    ) -> None:
        self._parts, self._client = parts, client
        self._receive, self._send = receive, send
        self._old = old
        self._id = new_id("sess")
        self._began = self._heard = time.monotonic()
        self._expires = int(time.time() + parts.settings.max_session)
        self._turns = Turns()
        self._turns.configuration = configuration
        self._live: LiveSession | None = None
        self._model = ""  # of the live session
        self._using = AsyncExitStack()  # keeps the model loaded
        self._fed = 0.0  # seconds of audio
        self._first = self._began  # time of the first audio
        self._buffer = 0.0  # seconds of audio at which the buffer of the client begins
        self._inbox: asyncio.Queue[Message] = asyncio.Queue()
        self._waiting = 0  # characters in the inbox
        self._has_room = asyncio.Event()
        self._outbox: asyncio.Queue[Event | None] = asyncio.Queue(MAX_OUTBOX)
        self._ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._reporting: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Answer the client's events until the session ends."""
        self._parts.sessions.lags.add(self._lag)
        receiving = self._start(self._receive_all())
        sending = self._start(self._send_all())
        working = [self._start(self._work()), self._start(self._watch())]
        try:
            await self._say(event("session.created", session=self._described()))
            ending = await self._ending
            if ending.code == RESTART and not ending.error:
                await _first_of(self._start(self._finish()), receiving, seconds=LAST_TEXT)
            for task in working:
                task.cancel()
            if ending.error:
                note_error(ending.error.code)
            if ending.code is not None:
                await self._close(ending, receiving, sending)
        finally:
            self._parts.sessions.lags.discard(self._lag)
            note_audio(self._fed)
            self._parts.metrics.audio.inc(self._fed)
            if self._live:
                self._live.cancel()
            tasks = [receiving, sending, *working, *([self._reporting] if self._reporting else [])]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await self._using.aclose()

    # ------------------------------------------------------------------------------- the tasks

    def _start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Start a task. An exception ends the session."""

        async def run() -> None:
            try:
                await work
            except Ending as ending:
                self._end(ending)
            except wb.ClosedError as error:  # the model was closed
                self._end(Ending(RESTART, as_api_error(error)))
            except Exception as error:
                hide_secrets(error)
                log.exception("a live session has failed")
                self._end(Ending(FAILED, as_api_error(error)))

        return asyncio.ensure_future(run())

    def _end(self, ending: Ending) -> None:
        if not self._ending.done():
            self._ending.set_result(ending)

    async def _receive_all(self) -> None:
        """Put the client's messages in the inbox while it has room."""
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                raise Ending(None)
            self._inbox.put_nowait(message)
            self._waiting += _size(message)
            while self._waiting > MAX_INBOX:
                self._has_room.clear()
                await self._has_room.wait()

    async def _work(self) -> None:
        """Answer the client's events in their order."""
        while True:
            message = await self._inbox.get()
            given: Event = {}
            try:
                given = protocol.parse(message)
                protocol.check_type(given)
                await self._answer(given)
            except (ApiError, wb.WhisperBatchError) as error:
                if isinstance(error, wb.ClosedError):
                    raise
                answer = as_answer(error)
                self._parts.metrics.errors.labels(answer.code or "none").inc()
                await self._say(error_event(answer, id_of(given)))
            finally:
                self._waiting -= _size(message)
                self._has_room.set()

    async def _finish(self) -> None:
        """Wait until the audio that has arrived is heard."""
        while self._waiting:
            self._has_room.clear()
            await self._has_room.wait()

    async def _report(self, live: LiveSession) -> None:
        """Send what a live session reports."""
        async for reported in live:
            if isinstance(reported, Settled):
                self._parts.metrics.settled.observe(max(live.duration - reported.end, 0.0))
            padding = self._keywords(self._turns.configuration)["speech_pad"]
            for each in self._turns.events_of(reported, live.duration, padding):
                await self._say(each)

    async def _send_all(self) -> None:
        """Send the events of the outbox, until None."""
        while (made := await self._outbox.get()) is not None:
            text = as_json(made).encode("utf-8", "replace").decode()  # no half characters
            sending = self._send({"type": "websocket.send", "text": text})
            try:
                await asyncio.wait_for(sending, SEND_TIME)
            except asyncio.TimeoutError as error:
                raise Ending(None) from error
            except Exception as error:  # the connection is lost: each server has its own exception
                raise Ending(None) from error

    async def _watch(self) -> None:
        """End the session at the limits of time and audio, and when the server shuts down."""
        settings, sessions = self._parts.settings, self._parts.sessions
        while True:
            await asyncio.sleep(LOOK)
            now = time.monotonic()
            self._parts.metrics.lag.set(sessions.lag)
            if sessions.admission.closed:
                raise Ending(RESTART)
            if now - self._began > settings.max_session:
                raise Ending(GOING_AWAY, _expired("session_expired", settings.max_session, "open"))
            if now - self._heard > settings.session_idle:
                raise Ending(NORMAL, _expired("session_idle", settings.session_idle, "silent"))
            try:
                sessions.admission.check_audio(self._client, self._fed)
            except ApiError as error:
                raise Ending(MISUSE, error) from error

    async def _close(
        self, ending: Ending, receiving: "asyncio.Task[None]", sending: "asyncio.Task[None]"
    ) -> None:
        """Send the last text, why the session ends, and the close. Stop if the client is gone."""
        if self._live and self._reporting and ending.code not in {FAILED, OVERLOADED}:
            self._live.close()
            await _first_of(self._reporting, receiving, seconds=LAST_TEXT)
        if self._reporting:
            self._reporting.cancel()
        last = [error_event(ending.error)] if ending.error else []
        for made in (*last, None):
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._say(made), LAST_TEXT)
        await _first_of(sending, receiving, seconds=LAST_TEXT)
        if sending.done() and not receiving.done():
            reason = ending.error.code if ending.error else None
            message = {"type": "websocket.close", "code": ending.code, "reason": reason or ""}
            with suppress(Exception):  # the client is gone
                await asyncio.wait_for(self._send(message), LAST_TEXT)

    # ---------------------------------------------------------------------- the client's events

    async def _say(self, made: Event | None) -> None:
        """Put an event in the outbox; None is the end."""
        if made is not None and self._old:
            made = self._old.to_old(made)
            if made is None:
                return
        await self._outbox.put(made)

    async def _answer(self, given: Event) -> None:
        """Do what an event of the client asks for.

        Raises:
            ApiError: the event is wrong.
            WhisperBatchError: an option is wrong, or the model cannot be loaded.
            Ending: the session is too far behind.
        """
        if given["type"] == OLD_UPDATE and not self._old:
            self._old = OldGeneration(transcription=True)
        if self._old:
            given = self._old.to_current(given)
        kind = given["type"]
        if kind == protocol.APPEND:
            await self._append(protocol.audio_of(given))
        elif kind == protocol.UPDATE:
            if "session" not in given:
                raise invalid("session is missing", "session", "missing")
            await self._configure(self._turns.configuration.updated(given["session"]))
            await self._say(event("session.updated", session=self._described()))
        elif kind == protocol.COMMIT:
            await self._commit()
        elif kind == protocol.CLEAR:
            if self._live and (turn := self._live.clear()) is not None:
                self._turns.clear(turn)
            self._buffer = self._fed
            await self._say(event("input_audio_buffer.cleared"))
        else:
            raise protocol.unknown(kind)

    async def _append(self, audio: bytes) -> None:
        self._heard = time.monotonic()
        if not self._fed:
            self._first = self._heard
        if self._live is None:
            await self._configure(self._turns.configuration)
        audio_format = self._turns.configuration.format
        for piece in audio_format.pieces(audio):
            await self._feed(piece)
            self._fed += len(piece) / audio_format.bytes_per_second
            self._heard = time.monotonic()

    async def _feed(self, piece: Any) -> None:  # noqa: ANN401 - as `LiveSession.feed`
        """Feed audio; wait for a place if the session is behind."""
        if not self._live:
            raise AssertionError
        is_ahead = self._fed - (time.monotonic() - self._first) > AHEAD
        try:
            if is_ahead:
                await self._live.feed_async(b"", timeout=BACKLOG_TIME)  # a place, before the turn
                async with self._parts.sessions.in_turn():
                    await self._live.feed_async(piece)
            else:
                await self._live.feed_async(piece, timeout=BACKLOG_TIME)
        except BacklogError as error:
            answer = ApiError(503, str(error), kind="server_error", code="audio_backlog")
            raise Ending(OVERLOADED, answer) from error

    async def _commit(self) -> None:
        """End the turn. Audio without a turn, as it had no speech, has an empty text."""
        buffered = self._fed - max(self._buffer, self._turns.ended)
        if not self._live or buffered < MIN_COMMIT:
            raise invalid(
                f"the buffer has {max(buffered, 0.0) * 1000:.0f} ms of audio; append at least "
                f"{MIN_COMMIT * 1000:.0f} ms before a commit",
                None,
                "input_audio_buffer_commit_empty",
            )
        self._buffer = self._fed
        if self._live.flush() is None:
            for made in self._turns.silence(buffered):
                await self._say(made)

    # ------------------------------------------------------------------------- the live session

    async def _configure(self, configuration: Configuration) -> None:
        """Use a configuration; after an exception, the session is as before.

        Raises:
            ApiError: there is no such model, or the model or the format would change after audio.
            WhisperBatchError: an option is wrong, or the model cannot be loaded.
        """
        before = self._turns.configuration
        model = configuration.find_model(self._parts.models)
        same = model == self._model and configuration.format == before.format
        if self._live and not same and self._fed:
            name = "transcription.model" if model != self._model else "format"
            path = f"{INPUT}.{name}"
            raise invalid(f"{path} cannot change after audio was sent; open a session", path)
        if self._live and same:
            keywords = self._keywords(configuration)
            known = self._keywords(before)
            changed = {name: each for name, each in keywords.items() if each != known[name]}
            if changed:
                await asyncio.to_thread(self._live.update, **self._fitting(changed))
        else:
            await self._open(model, configuration)
        self._turns.configuration = configuration

    async def _open(self, model: str, configuration: Configuration) -> None:
        """Open the live session, in place of one without audio."""
        async with AsyncExitStack() as stack:
            self._asr = await stack.enter_async_context(self._parts.models.using(model))
            keywords = self._fitting(self._keywords(configuration))
            live = await started(partial(self._open_live, keywords))
            if self._live and self._reporting:
                self._reporting.cancel()
                self._live.cancel()
                await self._using.aclose()
            self._using = stack.pop_all()
        self._live, self._model = live, model
        self._reporting = self._start(self._report(live))

    def _open_live(self, keywords: dict[str, Any]) -> LiveSession:
        """Return a live session; leave out the server's options that it does not have."""
        unused = self._parts.unused
        given = self._parts.settings.given_options()
        while True:
            own = {k: v for k, v in given.items() if k not in keywords and k not in unused}
            try:
                client = self._client
                return self._asr.live(group=client.name, weight=client.priority, **own, **keywords)
            except wb.OptionError as error:
                named = set(error.options) & set(own)
                if not named:
                    raise
                unused |= named
                log.warning(
                    "live sessions do not use %s of the server: %s", ", ".join(named), error
                )

    def _keywords(self, configuration: Configuration) -> dict[str, Any]:
        return configuration.keywords_for(self._parts.defaults)

    def _fitting(self, keywords: dict[str, Any]) -> dict[str, Any]:
        """Return keywords with the end of a prompt that is too long."""
        if not keywords.get("initial_prompt"):
            return keywords
        texts = {n: keywords[n] for n in ("initial_prompt", "hotwords") if n in keywords}
        fitting, _ = fit_prompt(self._asr, wb.Options(**texts))
        return {**keywords, "initial_prompt": fitting.initial_prompt}

    def _described(self) -> dict[str, Any]:
        """Return the session in the form of the protocol."""
        models, configuration = self._parts.models, self._turns.configuration
        value = configuration.value(models.names[0], self._parts.defaults)
        return {
            "id": self._id,
            "object": configuration.object_type,
            "expires_at": self._expires,
            **value,
        }

    def _lag(self) -> float:
        return self._live.lag if self._live else 0.0


async def _first_of(*tasks: "asyncio.Task[None]", seconds: float) -> None:
    await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)


def _size(message: Message) -> int:
    return len(message.get("text") or message.get("bytes") or "")


def _expired(code: str, seconds: float, state: str) -> ApiError:
    message = f"the session was {state} for {seconds:g} s, the limit of this server"
    return invalid(message, None, code)
