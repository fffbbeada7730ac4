"""`whisperbatch live`: screens, the file that grows, sources, signals."""

import io
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from rich.cells import cell_len
from typer.testing import CliRunner

from tests.unit.cli.displays import Display
from tests.unit.cli.fake_live import FakeSession, FakeTranscriber, failed, final
from tests.unit.transcripts import segment
from whisperbatch.cli import app as program
from whisperbatch.cli import live
from whisperbatch.cli.live import GrowingFile, LiveArguments, transcribe_live
from whisperbatch.cli.live_screen import (
    LISTENING,
    LiveLines,
    LiveRecords,
    LiveTerminal,
)
from whisperbatch.cli.microphone import Microphone, list_devices
from whisperbatch.errors import (
    AudioError,
    BacklogError,
    MissingExtraError,
    OptionError,
    WriteError,
)
from whisperbatch.live import Lag, LiveEvent, Settled, Tail, TurnEnded, TurnStarted
from whisperbatch.types import Word
from whisperbatch.writers import FORMATS, SPEAKER_FORMATS

HELLO: tuple[LiveEvent, ...] = (
    TurnStarted(0, 3.1),
    Tail(0, " Hello"),
    Settled(0, " Hello Ann,", (Word(3.2, 3.6, " Hello", 0.9),), 3.2, 3.9, "en"),
    Tail(0, " how are"),
    Settled(0, " how are you?", (), 4.0, 4.6, "en"),
    Tail(0, ""),
    TurnEnded(0, 3.1, 4.7),
)
DONE = final(0, segment("Hello, Ann! How are you?", 3.2, 4.6))
THANKS = final(1, segment("Fine, thanks.", 6.1, 6.5, id=1))
FINE: tuple[LiveEvent, ...] = (
    TurnStarted(1, 6.0),
    Settled(1, " Fine.", (), 6.1, 6.5, "en"),
    TurnEnded(1, 6.0, 6.6),
    THANKS,
)
SILENT_TURN: tuple[LiveEvent, ...] = (TurnStarted(2, 9.0), TurnEnded(2, 9.0, 9.5), final(2))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeSession], FakeTranscriber]:
    """Let `load` return a transcriber with this session."""

    def open_with(session: FakeSession) -> FakeTranscriber:
        transcriber = FakeTranscriber(session)
        monkeypatch.setattr("whisperbatch.load", lambda *_, **__: transcriber)
        return transcriber

    return open_with


def give_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(
        sys, "stdin", SimpleNamespace(buffer=SimpleNamespace(raw=io.BytesIO(content)))
    )


def arguments(**values: Any) -> LiveArguments:
    return LiveArguments(**{"load_keywords": {}, "options": {}, **values})


# The screens


@pytest.mark.parametrize("width", [60, 80, 120])
def test_settled_text_stays_and_the_tail_is_rewritten(width: int) -> None:
    display = Display(width)
    screen = LiveTerminal(display.console)
    shown = []
    for event in HELLO:
        screen.show(event)
        shown.append(display.rows())
    assert shown == [
        [],
        ["    0:03  Hello"],
        ["    0:03  Hello Ann,"],
        ["    0:03  Hello Ann, how are"],
        ["    0:03  Hello Ann, how are you?"],
        ["    0:03  Hello Ann, how are you?"],
        ["    0:03  Hello Ann, how are you?"],
    ]
    for event in (DONE, *FINE, *SILENT_TURN):
        screen.show(event)
    screen.close()
    screen.close()
    assert display.rows() == ["    0:03  Hello Ann, how are you?", "    0:06  Fine."]


def test_the_tail_is_grey_and_settled_text_is_not() -> None:
    display = Display(60)
    screen = LiveTerminal(display.console)
    for event in HELLO[:4]:
        screen.show(event)
    display.rows()
    row = display.cells(0)
    colours = "".join(
        "-" if cell.fg == "default" else "g" for cell in row[: len("    0:03  ") + 18]
    )
    screen.close()
    # the comma is settled; the tail begins with its space
    assert colours[10:] == "-" * len("Hello Ann,") + "g" * len(" how are")


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("language", ["en", "ja"])
def test_a_long_turn_scrolls_and_loses_nothing(width: int, language: str) -> None:
    words = ["本日の会議では、", "予算を"] if language == "ja" else [" a", " longer", " sentence,"]
    said = [words[number % len(words)] for number in range(90)]
    display, all_rows = Display(width, rows=4), Display(width)
    for each in (display, all_rows):
        screen = LiveTerminal(each.console)
        screen.show(TurnStarted(0, 0.0))
        for number, word in enumerate(said):
            screen.show(Settled(0, word, (), number, number + 1.0, language))
            screen.show(Tail(0, "".join(said[number + 1 : number + 3])))
        screen.show(final(0))
        screen.close()
    rows = all_rows.rows()
    assert len(rows) > 4
    assert all(cell_len(row) <= width for row in rows)
    text = "".join(row.strip().removeprefix("0:00").replace(" ", "") for row in rows)
    assert text == "".join(said).replace(" ", "")
    assert display.rows() == rows[-len(display.rows()) :]


def test_turns_are_shown_in_their_order_when_they_overlap() -> None:
    """The final text of a turn may come after the next turn has begun."""
    display = Display(80)
    screen = LiveTerminal(display.console)
    for event in (*HELLO, FINE[0], FINE[1], Tail(1, " Thank"), DONE):
        screen.show(event)
    assert display.rows() == ["    0:03  Hello Ann, how are you?", "    0:06  Fine. Thank"]
    screen.close()
    assert display.rows() == ["    0:03  Hello Ann, how are you?", "    0:06  Fine."]


@pytest.mark.parametrize(
    ("width", "rows"),
    [
        (30, ["    0:03  Hello Ann, how are", "          you?", "    0:06  Fine."]),
        (29, ["Hello Ann, how are you?", "Fine."]),
        (20, ["Hello Ann, how are", "you?", "Fine."]),
    ],
)
def test_a_narrow_terminal_has_no_times(width: int, rows: list[str]) -> None:
    display = Display(width)
    screen = LiveTerminal(display.console)
    for event in (*HELLO, DONE, *FINE):
        screen.show(event)
    screen.close()
    assert display.rows() == rows


def test_a_terminal_shows_the_status_the_lag_and_failures() -> None:
    display = Display(60)
    screen = LiveTerminal(display.console)
    screen.show_status(LISTENING)
    assert display.rows() == [LISTENING]
    screen.show(TurnStarted(0, 1.0))
    assert display.rows() == []
    screen.show(Settled(0, "Well,", (), 1.0, 2.0, "en"))
    screen.show(Lag(12.4))
    assert display.rows() == ["    0:01  Well,", "the text is 12 s behind"]
    screen.show(Lag(0.0))
    screen.show(failed(0))
    screen.close()
    assert display.rows() == ["    0:01  Well,", "failed out of memory"]
    quiet = Display(60)
    screen = LiveTerminal(quiet.console, quiet=True, shows_lag=False)
    screen.show_status(LISTENING)
    screen.show(Lag(12.4))
    assert quiet.rows() == []
    screen.close()


def test_text_cannot_control_the_terminal() -> None:
    display = Display(60)
    screen = LiveTerminal(display.console)
    screen.show(Settled(0, "a\x1b[2Jb", (), 0.0, 1.0, "en"))
    screen.show(Tail(0, "[red]c"))
    assert display.rows() == ["    0:00  a[2Jb[red]c"]
    screen.close()


def test_a_pipe_gets_settled_words_at_once_and_a_line_for_each_turn(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = LiveLines()
    for event in HELLO[:4]:
        screen.show(event)
    assert capsys.readouterr().out == "Hello Ann,"
    for event in (*HELLO[4:], FINE[0], FINE[1]):
        screen.show(event)
    assert capsys.readouterr().out == " how are you?"
    for event in (DONE, *FINE[2:], *SILENT_TURN):
        screen.show(event)
    assert capsys.readouterr().out == "\nFine.\n"
    screen.show(Settled(3, "And", (), 9.0, 9.1, "en"))
    screen.close()
    screen.close()
    assert capsys.readouterr().out == "And\n"


def test_a_failed_turn_ends_its_line_and_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    screen = LiveLines()
    screen.show(Settled(0, "Well,", (), 0.0, 1.0, "en"))
    screen.show(failed(0, complete=False))
    screen.show(Settled(0, " yes.", (), 30.0, 31.0, "en"))
    screen.show(final(0))
    assert capsys.readouterr() == ("Well, yes.\n", "failed: out of memory\n")


def test_events_are_lines_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    screen = LiveRecords()
    for event in (*HELLO, DONE, Lag(4.5), failed(1)):
        screen.show(event)
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["type"] for record in records] == [
        *("turn_started", "tail", "settled", "tail", "settled", "tail", "turn_ended", "final"),
        *("lag", "failed"),
    ]
    assert records[0] == {"type": "turn_started", "turn": 0, "start": 3.1}
    assert records[2]["words"] == [{"start": 3.2, "end": 3.6, "word": " Hello", "probability": 0.9}]
    final = records[7]
    assert (final["text"], final["complete"]) == ("Hello, Ann! How are you?", True)
    assert (final["segments"][0]["start"], final["segments"][0]["text"]) == (3.2, final["text"])
    assert records[9] == {"type": "failed", "turn": 1, "error": "out of memory", "complete": True}


# The file


def test_the_file_grows_and_is_complete_after_each_final_text(tmp_path: Path) -> None:
    path = tmp_path / "talk.srt"
    file = GrowingFile(path, None)
    file.add(final(0))
    assert not path.exists()
    file.add(DONE)
    assert path.read_text() == "1\n00:00:03,200 --> 00:00:04,600\nHello, Ann! How are you?\n"
    file.add(THANKS)
    blocks = [block.splitlines() for block in path.read_text().split("\n\n")]
    assert [(number, text) for number, _, text in blocks] == [
        ("1", "Hello, Ann! How are you?"),
        ("2", "Fine, thanks."),
    ]
    assert [each.name for each in tmp_path.iterdir()] == ["talk.srt"]


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in SPEAKER_FORMATS])
def test_a_file_of_each_format_grows(
    name: str, tmp_path: Path, opened: Callable[[FakeSession], FakeTranscriber]
) -> None:
    session = FakeSession((*HELLO, DONE, *FINE, THANKS))
    session.close()
    opened(session)
    path = tmp_path / "texts" / f"talk.{name.upper()}"
    assert transcribe_live(arguments(source="talk.wav", file=str(path))) == 0
    text = path.read_text(encoding="utf-8")
    assert text.index("Hello, Ann! How are you?") < text.index("Fine, thanks.")


def test_a_file_that_cannot_be_written_does_not_end_the_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "texts"
    folder.write_bytes(b"")  # a file in place of the folder
    file = GrowingFile(folder / "talk.txt", None)
    file.add(DONE)
    file.add(THANKS)
    assert isinstance(file.error, WriteError)
    assert capsys.readouterr().err.count("\n") == 1
    folder.unlink()
    file.add(final(2, segment("Bye.", 8.0, 9.0, id=2)))
    assert file.error is None
    assert (folder / "talk.txt").read_text() == "Hello, Ann! How are you?\nFine, thanks.\nBye.\n"


# The sources


def test_raw_samples_of_standard_input_are_fed_in_blocks(
    opened: Callable[[FakeSession], FakeTranscriber],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    session = FakeSession()
    transcriber = opened(session)
    give_input(monkeypatch, bytes(range(256)) * 25)  # 6,400 bytes: 0.4 s at 8 kHz
    made = arguments(
        raw=8000,
        file=str(tmp_path / "a" / "talk.vtt"),
        quiet=True,
        options={"delay": "high", "turn_silence": 0.8},
    )
    assert transcribe_live(made) == 0
    assert b"".join(session.fed) == bytes(range(256)) * 25
    assert [len(block) for block in session.fed] == [1600] * 4
    assert transcriber.given == ()
    assert transcriber.keywords == {
        "sampling_rate": 8000,
        "delay": "high",
        "turn_silence": 0.8,
        "word_timestamps": True,
    }
    assert capsys.readouterr() == ("1600 bytes.\n" * 4, "")
    assert (tmp_path / "a" / "talk.vtt").read_text().count("1600 bytes.") == 4
    assert session.cancelled, "the session is left"


def test_a_pipe_waits_while_the_session_is_busy(
    opened: Callable[[FakeSession], FakeTranscriber], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = FakeSession(refused=5)
    opened(session)
    give_input(monkeypatch, b"ab" * 4000)
    assert transcribe_live(arguments(raw=8000)) == 0
    assert b"".join(session.fed) == b"ab" * 4000, "nothing is lost"


@pytest.mark.parametrize("source", ["-", "talk.wav", "rtmp://host/live"])
def test_other_sources_are_read_by_the_session(
    source: str,
    opened: Callable[[FakeSession], FakeTranscriber],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    give_input(monkeypatch, b"a file")
    session = FakeSession((*HELLO, DONE))
    session.close()
    transcriber = opened(session)
    assert transcribe_live(arguments(source=source, options={"beam_size": 2})) == 0
    # the buffer of standard input is not read: see `_standard_input`
    assert transcriber.given == (sys.stdin.buffer.raw if source == "-" else source,)  # type: ignore[union-attr]  # a fake
    assert transcriber.keywords == {"beam_size": 2}
    assert capsys.readouterr().out == "Hello Ann, how are you?\n"


@pytest.mark.parametrize("values", [{"source": "-"}, {"raw": 16000}], ids=str)
def test_standard_input_is_closed(
    values: dict[str, Any],
    opened: Callable[[FakeSession], FakeTranscriber],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    opened(FakeSession())
    with pytest.raises(AudioError, match="standard input is closed"):
        transcribe_live(arguments(**values))


@pytest.mark.parametrize(
    ("source", "shown"), [("talk.wav", False), ("-", True), ("rtmp://host/live", True)]
)
def test_the_lag_of_a_file_is_not_shown(
    source: str,
    *,
    shown: bool,
    opened: Callable[[FakeSession], FakeTranscriber],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file is read ahead of its text."""
    asked: list[bool] = []

    def open_screen(*, shows_lag: bool, **_: bool) -> LiveLines:
        asked.append(shows_lag)
        return LiveLines()

    give_input(monkeypatch, b"")
    monkeypatch.setattr(live, "open_live_screen", open_screen)
    session = FakeSession()
    session.close()
    opened(session)
    assert transcribe_live(arguments(source=source)) == 0
    assert asked == [shown]


@pytest.mark.parametrize(("source", "has_hint"), [("-", True), ("talk.wav", False)])
def test_samples_without_a_header_get_a_hint(
    source: str,
    *,
    has_hint: bool,
    opened: Callable[[FakeSession], FakeTranscriber],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    give_input(monkeypatch, b"samples")
    transcriber = opened(FakeSession())

    def refuse(*_: object, **__: object) -> FakeSession:
        raise AudioError("is not media", source=source)

    monkeypatch.setattr(transcriber, "live", refuse)
    with pytest.raises(AudioError, match=f"^{source}: is not media") as error:
        transcribe_live(arguments(source=source))
    assert ("--raw 16000" in str(error.value)) is has_hint


def test_a_failed_turn_gives_status_1(opened: Callable[[FakeSession], FakeTranscriber]) -> None:
    session = FakeSession((failed(0), *FINE))
    session.close()
    opened(session)
    assert transcribe_live(arguments(source="talk.wav")) == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"raw": 16000, "source": "talk.wav"}, "--raw has an effect on standard input only"),
        ({"source": "-", "input_device": "USB"}, "--input-device has no effect"),
        ({"source": "-", "file": "texts/"}, "--output texts/ must be a file"),
        ({"source": "-", "file": "talk.rttm"}, "its suffix is one of txt, srt, vtt, tsv, json"),
        ({"source": "-", "file": "talk.docx"}, "--output talk.docx must be a file"),
        ({"source": "-", "file": "talk"}, "--output talk must be a file"),
        ({"source": "-", "file": "s3://ab:c@d/talk.srt"}, "d/talk.srt must be a file on this"),
        ({"source": "-", "options": {"beam_size": 0}}, "beam_size"),
        ({"source": "-", "options": {"delay": "slow"}}, "delay"),
        ({"source": "-", "options": {"diarize": True}}, "diarize"),
    ],
)
def test_arguments_without_effect_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as error:
        transcribe_live(arguments(**values))
    assert message in str(error.value)


# The microphone


class FakeStream:
    def __init__(self, blocks: Iterable[tuple[bytes, bool]], **settings: Any) -> None:
        self.settings, self._blocks = settings, iter(blocks)
        self.closed = self.started = False

    def start(self) -> None:
        self.started = True

    def read(self, frames: int) -> tuple[bytes, bool]:
        assert self.started
        assert not self.closed
        samples, lost = next(self._blocks, (b"", False))
        if not samples:
            raise RuntimeError("Device unavailable [PaErrorCode -9985]")
        return samples, lost

    def close(self) -> None:
        self.closed = True


class FakeSounddevice(ModuleType):
    """Two microphones and a loudspeaker, as sounddevice describes them."""

    def __init__(self, *, default: int = 2, rates: tuple[int, ...] = (16000,)) -> None:
        super().__init__("sounddevice")
        self.default = SimpleNamespace(device=(default, 1))
        self._rates = rates
        self.blocks: Iterable[tuple[bytes, bool]] = ()
        self.opened: list[FakeStream] = []
        self.devices = [
            self.device(0, "USB Audio: Mic", 1, 48000.0),
            self.device(1, "Speaker", 0, 44100.0),
            self.device(2, "Built-in Mic", 2, 44100.0),
        ]

    @staticmethod
    def device(index: int, name: str, channels: int, rate: float) -> dict[str, Any]:
        values = {"max_input_channels": channels, "default_samplerate": rate}
        return {"index": index, "name": name, **values}

    def query_devices(self) -> list[dict[str, Any]]:
        return self.devices

    def check_input_settings(self, *, samplerate: int, **settings: Any) -> None:
        if samplerate not in self._rates:
            raise RuntimeError("Invalid sample rate [PaErrorCode -9997]")

    def RawInputStream(self, **settings: Any) -> FakeStream:  # noqa: N802 - of sounddevice
        self.opened.append(FakeStream(self.blocks, **settings))
        return self.opened[-1]


@pytest.fixture
def sounddevice(monkeypatch: pytest.MonkeyPatch) -> FakeSounddevice:
    module = FakeSounddevice()
    monkeypatch.setitem(sys.modules, "sounddevice", module)
    return module


def test_microphones_are_listed(sounddevice: FakeSounddevice) -> None:
    assert list_devices() == [
        "  0  USB Audio: Mic (1 channel, 48000 Hz)",
        "  2  Built-in Mic (2 channels, 44100 Hz, default)",
    ]
    result = CliRunner().invoke(program.app, ["live", "--list-devices"])
    assert result.stdout == "\n".join([*list_devices(), ""])


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("", "Built-in Mic"),
        ("0", "USB Audio: Mic"),
        ("usb", "USB Audio: Mic"),
        ("in m", "Built-in Mic"),
    ],
)
def test_a_microphone_is_found(sounddevice: FakeSounddevice, wanted: str, name: str) -> None:
    assert Microphone(wanted).name == name
    assert Microphone("0").name == "USB Audio: Mic"


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [("mic", "several"), ("1", "there is no such"), ("Speaker", "there is no such")],
)
def test_a_wrong_microphone_is_refused(
    sounddevice: FakeSounddevice, wanted: str, problem: str
) -> None:
    with pytest.raises(OptionError, match=f"--input-device '{wanted}': {problem}"):
        Microphone(wanted)


def test_without_a_default_the_first_microphone_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    module = FakeSounddevice(default=-1, rates=())
    monkeypatch.setitem(sys.modules, "sounddevice", module)
    microphone = Microphone()
    assert (microphone.name, microphone.sampling_rate) == ("USB Audio: Mic", 48000)
    module.devices = module.devices[1:2]
    with pytest.raises(AudioError, match=r"no microphone; connect one.*live --raw 16000"):
        Microphone()


def test_without_the_package_or_its_library_the_message_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(MissingExtraError) as error:
        transcribe_live(arguments())
    assert "pip install 'whisperbatch[live]'" in str(error.value)
    assert "arecord -q -f S16_LE -r 16000 -t raw | whisperbatch live --raw 16000" in str(
        error.value
    )

    class Finder:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            if name == "sounddevice":
                raise OSError("PortAudio library not found")

    monkeypatch.delitem(sys.modules, "sounddevice")
    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    with pytest.raises(MissingExtraError, match="apt-get install libportaudio2"):
        list_devices()


def test_the_microphone_is_fed_until_it_stops(
    sounddevice: FakeSounddevice,
    opened: Callable[[FakeSession], FakeTranscriber],
    capsys: pytest.CaptureFixture[str],
) -> None:
    sounddevice.blocks = [(b"ab" * 1600, False), (b"cd" * 1600, True), (b"ef" * 1600, True)]
    session = FakeSession()
    transcriber = opened(session)
    with pytest.raises(AudioError, match="the microphone has stopped: Device unavailable"):
        transcribe_live(arguments())
    assert b"".join(session.fed) == b"ab" * 1600 + b"cd" * 1600 + b"ef" * 1600
    assert transcriber.keywords == {"sampling_rate": 16000}
    shown = capsys.readouterr()
    assert shown.out == "3200 bytes.\n" * 3
    assert shown.err.count("samples of the microphone were lost") == 1
    [stream] = sounddevice.opened
    assert stream.closed
    assert stream.settings["device"] == 2
    assert stream.settings["channels"] == 1


def test_a_microphone_does_not_wait_for_a_session_that_is_too_far_behind(
    sounddevice: FakeSounddevice, opened: Callable[[FakeSession], FakeTranscriber]
) -> None:
    sounddevice.blocks = [(b"ab" * 1600, False)] * 3
    opened(FakeSession(refused=1))
    with pytest.raises(BacklogError):
        transcribe_live(arguments())
    assert sounddevice.opened[0].closed


def test_ctrl_c_ends_the_audio_and_the_last_text_is_printed(
    opened: Callable[[FakeSession], FakeTranscriber],
    sounddevice: FakeSounddevice,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = signal.getsignal(signal.SIGINT)

    class Speaking(FakeSession):
        def feed(self, samples: bytes, *, timeout: float | None = 0.0) -> None:
            super().feed(samples, timeout=timeout)
            if len(self.fed) == 2:
                os.kill(os.getpid(), signal.SIGINT)

        def close(self) -> None:
            self._events.put(Settled(9, "Bye.", (), 9.0, 9.5, "en"))
            super().close()

    def endless() -> Iterator[tuple[bytes, bool]]:
        while True:
            time.sleep(0.01)
            yield b"ab" * 1600, False

    sounddevice.blocks = endless()
    session = Speaking()
    opened(session)
    assert transcribe_live(arguments()) == 0
    assert sounddevice.opened[0].closed
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["3200 bytes."] * 2
    assert lines[-1] == "Bye."
    assert signal.getsignal(signal.SIGINT) == before
