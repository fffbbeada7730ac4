"""`whisperbatch wyoming`: the events of the package's own client, asked of a running server."""

import asyncio
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from wyoming.asr import Transcribe, Transcript, TranscriptChunk, TranscriptStart, TranscriptStop
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.event import Event
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong

from tests.unit.cli.fake_live import FakeSession, FakeTranscriber
from whisperbatch.cli import wyoming_server
from whisperbatch.cli.wyoming import DEFAULT_URI, WyomingArguments, serve_wyoming
from whisperbatch.errors import MissingExtraError, OptionError

TONE = np.arange(-800, 800, dtype="<i2")


class Transcribers(FakeTranscriber):
    """Returns another session for each recording."""

    is_multilingual = True

    def __init__(self, *sessions: FakeSession) -> None:
        super().__init__(FakeSession())
        self.sessions: list[FakeSession] = []
        self._next = list(sessions)

    def live(self, *given: Any, **keywords: Any) -> FakeSession:
        self.session = self._next.pop(0) if self._next else FakeSession()
        self.sessions.append(self.session)
        return super().live(*given, **keywords)


@asynccontextmanager
async def served(
    asr: Transcribers, options: Mapping[str, Any] | None = None
) -> AsyncIterator[Callable[[], AsyncTcpClient]]:
    """Run the server; yield a maker of clients."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    uri = f"tcp://127.0.0.1:{port}"
    task = asyncio.create_task(wyoming_server.serve(asr, uri, "base", options or {}))  # type: ignore[arg-type]  # a fake
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            await asyncio.sleep(0.01)
    try:
        yield lambda: AsyncTcpClient("127.0.0.1", port)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def recording(
    samples: bytes = TONE.tobytes(), *, rate: int = 16000, width: int = 2, channels: int = 1
) -> list[Event]:
    form = {"rate": rate, "width": width, "channels": channels}
    chunk = AudioChunk(audio=samples, **form)
    return [AudioStart(**form).event(), chunk.event(), AudioStop().event()]


async def ask(client: AsyncTcpClient, *events: Event) -> list[Event]:
    """Send events, and return the answers up to the end of the transcript or the connection."""
    for event in events:
        await client.write_event(event)
    answers: list[Event] = []
    while True:
        answer: Event | None = await asyncio.wait_for(client.read_event(), 60)
        if answer is None:
            break
        answers.append(answer)
        if TranscriptStop.is_type(answer.type):
            break
    return answers


def test_the_server_says_what_it_can_do() -> None:
    async def check() -> None:
        async with served(Transcribers()) as connect, connect() as client:
            await client.write_event(Ping(text="there?").event())
            await client.write_event(Describe().event())
            pong, info = await client.read_event(), await client.read_event()
            assert pong
            assert info
            assert Pong.from_event(pong).text == "there?"
            [program] = Info.from_event(info).asr
            assert program.supports_transcript_streaming
            [model] = program.models
            assert (model.name, model.installed) == ("base", True)
            assert {"en", "de", "ja"} <= set(model.languages)

    asyncio.run(check())


def test_text_streams_and_the_final_text_comes_last() -> None:
    async def check() -> None:
        asr = Transcribers()
        async with served(asr, {"beam_size": 2}) as connect, connect() as client:
            request = Transcribe(language="de").event()
            answers = await ask(client, request, *recording(np.zeros(40000, "<i2").tobytes()))
            kinds = [event.type for event in answers]
            assert kinds == [
                *("transcript-start", "transcript-chunk", "transcript-chunk", "transcript-chunk"),
                *("transcript", "transcript-stop"),
            ]
            # at most a second is fed at a time
            assert [len(block) for block in asr.sessions[0].fed] == [16000, 16000, 8000]
            streamed = "".join(TranscriptChunk.from_event(each).text for each in answers[1:4])
            assert streamed == " 16000 bytes. 16000 bytes. 8000 bytes."
            final = Transcript.from_event(answers[4])
            assert (final.text, final.language) == (streamed.strip(), "en")
            assert TranscriptStart.from_event(answers[0]).language == "en"
            assert asr.keywords == {"sampling_rate": 16000, "beam_size": 2, "language": "de"}
            # the connection takes another recording, which has its own request
            await ask(client, *recording(rate=8000))
            assert asr.keywords == {"sampling_rate": 8000, "beam_size": 2}
            assert len(asr.sessions) == 2

    asyncio.run(check())


@pytest.mark.parametrize(("width", "kind"), [(1, "i1"), (2, "<i2"), (4, "<i4")])
@pytest.mark.parametrize("channels", [1, 3])
def test_other_formats_become_mono_samples_from_minus_1_to_1(
    width: int, kind: str, channels: int
) -> None:
    full = 2 ** (8 * width - 1)
    mono = np.array([-full, -full // 2, 0, full // 2], np.int64)
    samples = np.repeat(mono[:, None], channels, axis=1)
    if channels == 3:
        samples[3] = (0, full // 2, full // 4)  # their mean is full / 4

    async def check() -> None:
        asr = Transcribers()
        async with served(asr) as connect, connect() as client:
            content = samples.astype(kind).tobytes()
            await ask(client, *recording(content, width=width, channels=channels))
        [block] = asr.sessions[0].fed
        expected = [-1, -0.5, 0, 0.25 if channels == 3 else 0.5]
        assert np.allclose(np.asarray(block), expected)

    asyncio.run(check())


def test_names_and_sensitivity_of_a_request_are_used() -> None:
    async def check() -> None:
        asr = Transcribers()
        async with served(asr) as connect, connect() as client:
            request = Event(
                "transcribe",
                {
                    "transcript_names": ["Ann", "Kitchen lamp"],
                    "transcript_terms": ["dim"],
                    "vad_sensitivity": "relaxed",
                },
            )
            await ask(client, request, *recording())
        assert asr.keywords["hotwords"] == "Ann, Kitchen lamp, dim"
        assert asr.keywords["turn_silence"] == 1.0

    asyncio.run(check())


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([Event("audio-start", {"rate": 16000})], "audio-start: 'width'"),
        (recording(width=3), "3 bytes cannot be read"),
        (recording(channels=0), "0 channels"),
        (recording(b"abc"), "3 bytes of another format"),
        ([*recording()[:1], *recording(rate=8000)[1:]], "of another format than the audio before"),
        ([*recording()[:1], *recording()], "the recording before has not ended"),
    ],
)
def test_a_wrong_event_is_answered_and_others_go_on(events: list[Event], problem: str) -> None:
    async def check() -> None:
        asr = Transcribers()
        async with served(asr) as connect, connect() as good, connect() as wrong:
            await good.write_event(recording()[0])
            answers = await ask(wrong, *events)
            assert problem in Error.from_event(answers[-1]).text
            answers = await ask(good, *recording()[1:])
            assert "1600 bytes." in Transcript.from_event(answers[-2]).text

    asyncio.run(check())


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\xff not JSON\n",
        b'{"type": "audio-chunk", "payload_length": 99999999999}\n',
        b'{"type": "audio-chunk", "payload_length": -5}\n',
        b'{"data": {}}\n',
        b"[1]\n",
        b"a" * 200_000,
        b'{"type": "audio-chunk", "payload_length": 100}\nshort',
    ],
)
def test_a_broken_client_hurts_no_other(sent: bytes) -> None:
    async def check() -> None:
        asr = Transcribers()
        async with served(asr) as connect, connect() as good:
            port = good.port
            await good.write_event(recording()[0])
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            writer.write_eof()
            reader = _
            assert b"transcript" not in await asyncio.wait_for(reader.read(), 60), "it is closed"
            writer.close()
            answers = await ask(good, *recording()[1:])
            assert "1600 bytes." in Transcript.from_event(answers[-2]).text

    asyncio.run(check())


def test_the_work_of_a_client_that_has_gone_is_dropped() -> None:
    async def check() -> None:
        asr = Transcribers()
        async with served(asr) as connect:
            async with connect() as client:
                for event in recording()[:2]:
                    await client.write_event(event)
                while not asr.sessions or not asr.sessions[0].fed:  # noqa: ASYNC110 - a fake
                    await asyncio.sleep(0.01)
            for _ in range(500):
                if asr.sessions[0].cancelled:
                    break
                await asyncio.sleep(0.01)
            assert asr.sessions[0].cancelled

    asyncio.run(check())


def test_a_client_waits_while_its_session_is_busy() -> None:
    async def check() -> None:
        asr = Transcribers(FakeSession(refused=7))
        async with served(asr) as connect, connect() as client:
            await ask(client, *recording())
        assert [len(block) for block in asr.sessions[0].fed] == [1600]

    asyncio.run(check())


def test_too_many_and_silent_clients_are_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wyoming_server, "MAX_CLIENTS", 2)

    async def check() -> None:
        async with served(Transcribers()) as connect, connect() as first, connect() as second:
            for client in (first, second):
                await client.write_event(Ping().event())
                assert await client.read_event()
            async with connect() as third:
                [answer] = await ask(third)
                assert "2 clients are connected" in Error.from_event(answer).text
            await first.write_event(Ping().event())
            assert await first.read_event(), "the others stay"
        monkeypatch.setattr(wyoming_server, "IDLE", 0.05)
        async with served(Transcribers()) as connect, connect() as client:
            assert await ask(client) == []

    asyncio.run(check())


def test_a_recording_without_audio_has_an_empty_text() -> None:
    async def check() -> None:
        async with served(Transcribers()) as connect, connect() as client:
            await client.write_event(AudioStop().event())
            answer = await client.read_event()
            assert answer
            assert Transcript.from_event(answer).text == ""
            start, _, stop = recording()
            kinds = [event.type for event in await ask(client, start, stop)]
            assert kinds == ["transcript-start", "transcript", "transcript-stop"]

    asyncio.run(check())


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Any, ...]]]:
    """Note with what the server starts, in place of a server."""
    calls: list[tuple[Any, ...]] = []

    async def serve(*given: Any) -> None:
        calls.append(given)

    monkeypatch.setattr(wyoming_server, "serve", serve)
    monkeypatch.setattr("whisperbatch.load", lambda *_, **__: FakeTranscriber(FakeSession()))
    yield calls
    assert threading.current_thread() is threading.main_thread()


@pytest.mark.parametrize(
    ("uri", "warns"),
    [
        (DEFAULT_URI, False),
        ("tcp://localhost:1", False),
        ("tcp://[::1]:10300", False),
        ("unix:///run/asr", False),
        ("tcp://0.0.0.0:10300", True),
        ("tcp://host.example:10300", True),
    ],
)
def test_addresses_that_other_machines_reach_have_a_warning(
    uri: str, warns: bool, started: list[tuple[Any, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    serve_wyoming(WyomingArguments(uri=uri, load_keywords={}, options={"beam_size": 2}))
    assert started[0][1:] == (uri, "base", {"beam_size": 2})
    assert ("has no password" in capsys.readouterr().err) is warns


@pytest.mark.parametrize(
    ("uri", "options", "problem"),
    [
        ("stdio://", {}, "--uri 'stdio://' is not of the form tcp://127.0.0.1:10300"),
        ("tcp://127.0.0.1", {}, "is not of the form"),
        ("tcp://127.0.0.1:x", {}, "is not of the form"),
        ("unix://", {}, "is not of the form"),
        (DEFAULT_URI, {"diarize": True}, "diarize"),
        (DEFAULT_URI, {"turn_silence": 0.0}, "turn_silence"),
    ],
)
def test_wrong_arguments_are_refused_before_the_model_is_loaded(
    uri: str, options: dict[str, Any], problem: str, started: list[tuple[Any, ...]]
) -> None:
    with pytest.raises(OptionError) as error:
        serve_wyoming(WyomingArguments(uri=uri, load_keywords={}, options=options))
    assert problem in str(error.value)
    assert started == []


def test_an_address_that_is_used_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whisperbatch.load", lambda *_, **__: FakeTranscriber(FakeSession()))
    with socket.create_server(("127.0.0.1", 0)) as used:
        uri = f"tcp://127.0.0.1:{used.getsockname()[1]}"
        with pytest.raises(OptionError, match="--uri tcp"):
            serve_wyoming(WyomingArguments(uri=uri, load_keywords={}, options={}))


def test_without_the_package_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Finder:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            if name == "wyoming":
                raise ModuleNotFoundError("No module named 'wyoming'", name=name)

    ours = "whisperbatch.cli.wyoming_server"
    for name in [name for name in sys.modules if name.partition(".")[0] == "wyoming"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, ours)
    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    with pytest.raises(MissingExtraError, match=r"pip install 'whisperbatch\[wyoming\]'"):
        serve_wyoming(WyomingArguments(load_keywords={}, options={}))
