"""A server with the Wyoming protocol, for Home Assistant. Needs the extra `wyoming`.

client   transcribe, audio-start, audio-chunk ..., audio-stop
server      transcript-start, transcript-chunk ...            settled text, while audio comes
                                  transcript, transcript-stop  final text

Each recording is a live session, so recordings of several clients share the calls of the engine. A
client that breaks the protocol gets an error event, and its connection is closed.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from typing import Any, Final

import numpy as np
from wyoming.asr import (
    Transcribe,
    Transcript,
    TranscriptChunk,
    TranscriptStart,
    TranscriptStop,
)
from wyoming.audio import AudioChunk, AudioFormat, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import Event
from wyoming.info import AsrModel, AsrProgram, Attribution, Describe, Info
from wyoming.ping import Ping, Pong
from wyoming.server import AsyncEventHandler, AsyncServer

import whisperbatch as wb
from whisperbatch.boundary import describe
from whisperbatch.errors import BacklogError, OptionError, WhisperBatchError
from whisperbatch.live import Failed, LiveSession, Settled
from whisperbatch.live import Final as FinalText
from whisperbatch.text import LANGUAGES, UNSPACED
from whisperbatch.types import Segment
from whisperbatch.types import Transcript as Text

MAX_EVENT: Final = 16 * 2**20  # bytes of the audio or data of an event
MAX_CLIENTS: Final = 64  # connections at a time
IDLE: Final = 300.0  # seconds without an event, after which a connection is closed
WAIT: Final = 0.2  # seconds before audio that the session did not take is given again
WIDTHS: Final = {1: "i1", 2: "<i2", 4: "<i4"}  # bytes of a sample: its type
SILENCES: Final = {"aggressive": 0.3, "relaxed": 1.0}
"""`vad_sensitivity`: seconds of silence that end a turn; others have the default."""

log = logging.getLogger(__name__)


class LimitedReader:
    """A stream of events whose parts are bounded, and must come in time."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def readline(self) -> bytes:
        """Return the next line; asyncio limits its length."""
        return await asyncio.wait_for(self._reader.readline(), IDLE)

    async def readexactly(self, count: int) -> bytes:
        """Return the next bytes.

        Raises:
            ValueError: they are too many.
        """
        if not 0 <= count <= MAX_EVENT:
            raise ValueError(f"an event has {count} bytes; the limit is {MAX_EVENT}")
        return await asyncio.wait_for(self._reader.readexactly(count), IDLE)

    def feed_eof(self) -> None:
        """End the stream."""
        self._reader.feed_eof()


@dataclass(frozen=True, slots=True)
class Service:
    """What all clients share.

    Attributes:
        asr: transcribes.
        model: its name.
        options: keywords of `Transcriber.live`.
        clients: the open connections.
    """

    asr: wb.Transcriber
    model: str
    options: Mapping[str, Any]
    clients: set["Client"] = field(default_factory=set)


class Client(AsyncEventHandler):
    """The connection of a client.

    Args:
        service: what all clients share.
        reader: of the connection.
        writer: of the connection.
    """

    def __init__(
        self, service: Service, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        super().__init__(LimitedReader(reader), writer)  # type: ignore[arg-type]  # has the methods that are used
        self._service = service
        self._request = Transcribe()
        self._format = AudioFormat(rate=0, width=0, channels=0)
        self._session: LiveSession | None = None
        self._answer: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Answer events until the client has gone."""
        clients = self._service.clients
        try:
            if len(clients) < MAX_CLIENTS:
                clients.add(self)
                await super().run()
            else:
                await self._refuse(
                    "connection", OptionError(f"{MAX_CLIENTS} clients are connected")
                )
                self.writer.close()
        except (OSError, EOFError, asyncio.TimeoutError) as error:
            log.debug("a client of Wyoming has gone: %s", describe(error))
        finally:
            clients.discard(self)

    async def disconnect(self) -> None:
        """Drop the work of a client that has gone."""
        if self._session and self._answer:
            self._session.cancel()
            self._answer.cancel()
        self._session = self._answer = None

    async def handle_event(self, event: Event) -> bool:
        """Answer an event; False closes the connection."""
        try:
            await self._handle(event)
        except (WhisperBatchError, KeyError, TypeError, ValueError) as error:
            await self._refuse(event.type, error)
            return False
        return True

    async def _refuse(self, subject: str, error: Exception) -> None:
        text = f"{subject}: {describe(error)}"
        log.warning("a client of Wyoming was refused: %s", text)
        await self.write_event(Error(text=text, code=type(error).__name__).event())

    async def _handle(self, event: Event) -> None:
        if Describe.is_type(event.type):
            await self.write_event(self._info().event())
        elif Ping.is_type(event.type):
            await self.write_event(Pong(text=Ping.from_event(event).text).event())
        elif Transcribe.is_type(event.type):
            self._request = Transcribe.from_event(event)
        elif AudioStart.is_type(event.type):
            await self._begin(AudioStart.from_event(event))
        elif AudioChunk.is_type(event.type):
            await self._feed(AudioChunk.from_event(event))
        elif AudioStop.is_type(event.type):
            await self._end()

    async def _begin(self, audio: AudioFormat) -> None:
        """Open a session for the audio that follows."""
        if self._session:
            raise ValueError("the recording before has not ended")
        if audio.width not in WIDTHS or audio.channels < 1:
            raise ValueError(f"{audio.channels} channels of {audio.width} bytes cannot be read")
        request, options = self._request, dict(self._service.options)
        if request.language:
            options["language"] = request.language
        # the fields below are newer than the oldest version of the package
        names = [
            *(getattr(request, "transcript_names", None) or ()),
            *(getattr(request, "transcript_terms", None) or ()),
        ]
        if names:
            options["hotwords"] = ", ".join(names)
        wanted = getattr(request, "vad_sensitivity", None)
        if silence := SILENCES.get(str(getattr(wanted, "value", wanted))):
            options["turn_silence"] = silence
        start = partial(self._service.asr.live, sampling_rate=audio.rate, **options)
        self._format = audio
        self._session = await asyncio.to_thread(start)
        self._answer = asyncio.create_task(self._write_text(self._session))
        # a client may go before the answer is awaited; then nobody wants its exception
        self._answer.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _feed(self, chunk: AudioChunk) -> None:
        if self._session is None:
            await self._begin(chunk)
        session, size = self._session, chunk.width * chunk.channels
        given, begun = ((each.rate, each.width, each.channels) for each in (chunk, self._format))
        if session is None or given != begun or len(chunk.audio) % size:
            raise ValueError(f"{len(chunk.audio)} bytes of another format than the audio before")
        samples = np.frombuffer(chunk.audio, WIDTHS[chunk.width]).astype(np.float32)
        samples = samples.reshape(-1, chunk.channels).mean(axis=1) / 2 ** (8 * chunk.width - 1)
        for start in range(0, len(samples), chunk.rate):
            block = samples[start : start + chunk.rate]
            while not await asyncio.to_thread(_is_fed, session, block):  # noqa: ASYNC110 - a thread
                await asyncio.sleep(WAIT)  # the client waits, too: its socket is not read

    async def _end(self) -> None:
        """Send the text of the recording."""
        if self._session and self._answer:
            await asyncio.to_thread(self._session.close)
            await self._answer
        else:
            await self.write_event(Transcript(text="").event())
        self._session = self._answer = None
        self._request = Transcribe()

    async def _write_text(self, session: LiveSession) -> None:
        """Send settled text while it comes, and the final text at the end."""
        segments: list[Segment] = []
        language: str | None = None
        settled = ""
        async for event in session:
            if isinstance(event, Settled):
                language = event.language
                if not settled:
                    await self.write_event(TranscriptStart(language=language).event())
                spaced = settled and not event.text[:1].isspace() and language not in UNSPACED
                text = f"{' ' * bool(spaced)}{event.text}"
                settled += text
                await self.write_event(TranscriptChunk(text=text).event())
            elif isinstance(event, FinalText):
                segments += event.segments
            elif isinstance(event, Failed):
                log.warning("a part of a recording has no text: %s", event.error)
        if not settled:
            await self.write_event(TranscriptStart(language=language).event())
        final = Text(tuple(segments), language, 1.0, session.duration, "Wyoming").text
        await self.write_event(Transcript(text=final, language=language).event())
        await self.write_event(TranscriptStop().event())

    def _info(self) -> Info:
        """Return what this server can do."""
        release, author = version("whisperbatch"), Attribution(name="whisperbatch", url="")
        common = {"attribution": author, "installed": True, "version": release}
        languages = list(LANGUAGES) if self._service.asr.is_multilingual else ["en"]
        description = f"Whisper, model {self._service.model}"
        model = AsrModel(
            name=self._service.model, description=description, languages=languages, **common
        )
        return Info(
            asr=[
                AsrProgram(
                    name="whisperbatch",
                    description="Whisper in batches, with text while people speak",
                    models=[model],
                    supports_transcript_streaming=True,
                    **common,
                )
            ]
        )


def _is_fed(session: LiveSession, samples: Any) -> bool:  # noqa: ANN401 - an array
    try:
        session.feed(samples)
    except BacklogError:
        return False
    return True


async def serve(asr: wb.Transcriber, uri: str, model: str, options: Mapping[str, Any]) -> None:
    """Serve until the process is stopped.

    Raises:
        OptionError: the address is of another form.
        OSError: the address cannot be used.
    """
    try:
        server = AsyncServer.from_uri(uri)
    except ValueError as error:
        raise OptionError(f"--uri {uri}: {error}") from error
    await server.run(partial(Client, Service(asr, model, options)))
