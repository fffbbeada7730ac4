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
from functools import partial
from importlib.metadata import version
from typing import Any, Final, NamedTuple

import numpy as np
from wyoming.asr import Transcribe, Transcript, TranscriptChunk, TranscriptStart, TranscriptStop
from wyoming.audio import AudioChunk, AudioFormat, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import Event, async_read_event
from wyoming.info import AsrModel, AsrProgram, Attribution, Describe, Info
from wyoming.ping import Ping, Pong
from wyoming.server import AsyncEventHandler, AsyncServer

import whisperbatch as wb
from whisperbatch.boundary import describe
from whisperbatch.live import Failed, LiveSession, Settled
from whisperbatch.live import Final as FinalText
from whisperbatch.text import LANGUAGES, UNSPACED

MAX_EVENT: Final = 16 * 2**20  # bytes of the audio or data of an event
MAX_CLIENTS: Final = 64  # connections at a time
IDLE: Final = 300.0  # seconds in which an event must come; then the connection is closed
WIDTHS: Final = {1: "i1", 2: "<i2", 4: "<i4"}  # bytes of a sample: its type
SILENCES: Final[Mapping[object, float]] = {"aggressive": 0.3, "relaxed": 1.0}  # `turn_silence`

log = logging.getLogger(__name__)


class Service(NamedTuple):
    """What all clients share: the model and its name, keywords of `live`, the open connections."""

    asr: wb.Transcriber
    model: str
    options: Mapping[str, Any]
    clients: set["Client"]


class _BoundedReader:
    """A stream of events whose parts are bounded; asyncio limits the lines."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader, self.readline, self.feed_eof = reader, reader.readline, reader.feed_eof

    async def readexactly(self, count: int) -> bytes:
        if not 0 <= count <= MAX_EVENT:
            raise ValueError(f"an event has {count} bytes; the limit is {MAX_EVENT}")
        return await self._reader.readexactly(count)


class Client(AsyncEventHandler):
    """The connection of a client."""

    def __init__(
        self, service: Service, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        super().__init__(_BoundedReader(reader), writer)  # type: ignore[arg-type]  # has what is used
        self._service = service
        self._request = Transcribe()
        self._form = 0, 0, 0
        self._session: LiveSession | None = None
        self._answer: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Answer events until the client has gone; then drop its work."""
        clients = self._service.clients
        try:
            if len(clients) >= MAX_CLIENTS:
                full = f"{MAX_CLIENTS} clients are connected"
                return await self._refuse("connection", wb.OptionError(full))
            clients.add(self)
            while event := await asyncio.wait_for(async_read_event(self.reader), IDLE):
                if not await self.handle_event(event):
                    break
        except (OSError, EOFError, asyncio.TimeoutError) as error:
            log.debug("a client of Wyoming has gone: %s", describe(error))
        finally:
            clients.discard(self)
            if self._session and self._answer:
                self._session.cancel()
                self._answer.cancel()
            self.writer.close()

    async def handle_event(self, event: Event) -> bool:
        """Answer an event; False closes the connection."""
        try:
            if Describe.is_type(event.type):
                await self.write_event(_info(self._service).event())
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
        except (wb.WhisperBatchError, KeyError, TypeError, ValueError) as error:
            await self._refuse(event.type, error)
            return False
        return True

    async def _refuse(self, subject: str, error: Exception) -> None:
        text = f"{subject}: {describe(error)}"
        log.warning("a client of Wyoming was refused: %s", text)
        await self.write_event(Error(text=text, code=type(error).__name__).event())

    async def _begin(self, audio: AudioFormat) -> LiveSession:
        """Open a session for the audio that follows."""
        if self._session:
            raise ValueError("the recording before has not ended")
        if audio.width not in WIDTHS or audio.channels < 1:
            raise ValueError(f"{audio.channels} channels of {audio.width} bytes cannot be read")
        request, options = self._request, dict(self._service.options)
        if request.language:
            options["language"] = request.language
        if names := [*(request.transcript_names or ()), *(request.transcript_terms or ())]:
            options["hotwords"] = ", ".join(names)
        if silence := SILENCES.get(request.vad_sensitivity):
            options["turn_silence"] = silence
        start = partial(self._service.asr.live, sampling_rate=audio.rate, **options)
        self._form = audio.rate, audio.width, audio.channels
        self._session = await asyncio.to_thread(start)
        self._answer = asyncio.create_task(self._write_text(self._session))
        # a client may go before the answer is awaited; then nobody wants its exception
        self._answer.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._session

    async def _feed(self, chunk: AudioChunk) -> None:
        session, size = self._session or await self._begin(chunk), chunk.width * chunk.channels
        if (chunk.rate, chunk.width, chunk.channels) != self._form or len(chunk.audio) % size:
            raise ValueError(f"{len(chunk.audio)} bytes of another format than the audio before")
        samples = np.frombuffer(chunk.audio, WIDTHS[chunk.width]).astype(np.float32)
        samples = samples.reshape(-1, chunk.channels).mean(axis=1) / 2 ** (8 * chunk.width - 1)
        for start in range(0, len(samples), chunk.rate):  # the socket is not read while this waits
            await session.feed_async(samples[start : start + chunk.rate], timeout=None)

    async def _end(self) -> None:
        if self._session and self._answer:
            await asyncio.to_thread(self._session.close)
            await self._answer
        else:
            await self.write_event(Transcript(text="").event())
        self._session, self._answer, self._request = None, None, Transcribe()

    async def _write_text(self, session: LiveSession) -> None:
        """Send settled text while it comes, and the final text at the end."""
        segments: list[wb.Segment] = []
        language: str | None = None
        settled = ""
        async for event in session:
            if isinstance(event, Settled):
                language = event.language
                if not settled:
                    await self.write_event(TranscriptStart(language=language).event())
                spaced = settled and not event.text[:1].isspace() and language not in UNSPACED
                settled += (text := f"{' ' * bool(spaced)}{event.text}")
                await self.write_event(TranscriptChunk(text=text).event())
            elif isinstance(event, FinalText):
                segments += event.segments
            elif isinstance(event, Failed):
                log.warning("a part of a recording has no text: %s", event.error)
        if not settled:
            await self.write_event(TranscriptStart(language=language).event())
        final = wb.Transcript(tuple(segments), language, 1.0, session.duration, "Wyoming").text
        await self.write_event(Transcript(text=final, language=language).event())
        await self.write_event(TranscriptStop().event())


def _info(service: Service) -> Info:
    """Return what this server can do."""
    own: Any = {"attribution": Attribution("whisperbatch", ""), "installed": True}
    own["version"] = version("whisperbatch")
    languages = list(LANGUAGES) if service.asr.is_multilingual else ["en"]
    about = f"Whisper, model {service.model}"
    model = AsrModel(name=service.model, description=about, languages=languages, **own)
    own |= {"description": "Whisper in batches, with text while people speak", "models": [model]}
    return Info(asr=[AsrProgram(name="whisperbatch", supports_transcript_streaming=True, **own)])


async def serve(asr: wb.Transcriber, uri: str, model: str, options: Mapping[str, Any]) -> None:
    """Serve until the process is stopped.

    Raises:
        OSError: the address cannot be used.
    """
    await AsyncServer.from_uri(uri).run(partial(Client, Service(asr, model, options, set())))
