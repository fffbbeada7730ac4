"""The command `whisperbatch live`: text while people speak.

the microphone, standard input, an address or a file -> session -> screen
                                                              └──> the file of --output, which grows
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from io import FileIO
from pathlib import Path
from threading import Event
from typing import Annotated, Any, Final

import typer

import whisperbatch as wb
from whisperbatch.addresses import without_secrets
from whisperbatch.cli.flags import DEFAULT_MODEL, MESSAGES, OUTPUT_FILE, Model, Verbose
from whisperbatch.cli.live_screen import LISTENING, LiveScreen, open_live_screen
from whisperbatch.cli.messages import message_of
from whisperbatch.cli.microphone import Microphone, list_devices
from whisperbatch.cli.printing import ExitOnSignal, loading_status, print_note, print_result
from whisperbatch.cli.recordings import with_home
from whisperbatch.cli.transcribe import is_file, with_words
from whisperbatch.engines.settings import settings_of
from whisperbatch.errors import (
    AudioError,
    ClosedError,
    OptionError,
    WhisperBatchError,
    WriteError,
)
from whisperbatch.live import Failed, LiveSession, LiveSettings
from whisperbatch.live import Final as FinalText
from whisperbatch.live.settings import live_options, split_keywords
from whisperbatch.threads import JOIN_TIMEOUT, in_background
from whisperbatch.types import Segment, Transcript
from whisperbatch.writers import (
    FORMATS,
    SPEAKER_FORMATS,
    TABLE_FORMATS,
    FileOptions,
    SubtitleOptions,
    TableOptions,
    format_of,
    make_folder,
    write,
)

MIN_RATE: Final = 8_000  # Hz, of raw samples
MAX_RATE: Final = 192_000  # Hz, of raw samples
BLOCK: Final = 0.1  # seconds of raw samples that are read at a time
ENDING: Final = "ended; the last text follows, a second Ctrl-C stops at once"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveArguments:
    """The arguments of the command: a flag for each field, and those of the last two."""

    source: Annotated[
        str,
        typer.Argument(
            metavar="[SOURCE]",
            help="An address, a file, or - for standard input; else the microphone.",
            show_default=False,
        ),
    ] = ""
    raw: Annotated[
        int | None,
        typer.Option(
            "--raw",
            metavar="HZ",
            min=MIN_RATE,
            max=MAX_RATE,
            help="Standard input has 16-bit mono samples at this rate. They have no header and are "
            "little endian. Without this flag, it has a media file or stream, such as WAV or MP3.",
            show_default=False,
        ),
    ] = None
    input_device: Annotated[
        str,
        typer.Option(
            "--input-device",
            metavar="NAME",
            help="Number of the microphone, or a part of its name.",
            show_default=False,
        ),
    ] = ""
    list_devices: Annotated[
        bool, typer.Option("--list-devices", help="List the microphones, and end.")
    ] = False
    file: Annotated[
        str,
        typer.Option(
            *("--output", "-o"),
            metavar="FILE",
            help=f"Also write the final text. {OUTPUT_FILE} It is complete after each turn, and an "
            "existing file is replaced.",
            show_default=False,
        ),
    ] = ""
    json_lines: Annotated[
        bool, typer.Option("--json-lines", help="Print each event as a line of JSON.")
    ] = False
    model: Model = DEFAULT_MODEL
    quiet: Annotated[
        bool,
        typer.Option(
            *("--quiet", "-q"),
            help="Print only text and errors.",
            rich_help_panel=MESSAGES,
        ),
    ] = False
    verbose: Verbose = False
    layout: SubtitleOptions = field(default_factory=SubtitleOptions)
    tables: TableOptions = field(default_factory=TableOptions)
    load_keywords: Mapping[str, Any]
    options: Mapping[str, Any]


def transcribe_live(arguments: LiveArguments) -> int:
    """Transcribe speech while it is spoken, and return the exit status.

    Raises:
        WhisperBatchError: an argument is invalid, the source cannot be read, the model does not
            load, or a file cannot be written.
    """
    if arguments.list_devices:
        for line in list_devices():
            print_result(line)
        return 0
    _check_source(arguments)
    file = _file_of(arguments)
    keywords = _keywords(arguments)
    microphone = None if _has_source(arguments) else Microphone(arguments.input_device)
    screen = open_live_screen(
        json_lines=arguments.json_lines,
        quiet=arguments.quiet,
        shows_lag=arguments.source in ("", "-") or "://" in arguments.source,
    )
    run = _Run(screen, file)
    with ExitOnSignal(run.say_goodbye, first=run.end), closing(screen), ExitStack() as stack:
        with loading_status(arguments.model, screen.show_status):
            asr = stack.enter_context(wb.load(arguments.model, **arguments.load_keywords))
        if microphone:
            stack.enter_context(microphone)
            start = partial(asr.live, sampling_rate=microphone.sampling_rate, **keywords)
            blocks = microphone.blocks(run.ended, run.note_lost)
        elif arguments.raw:
            start = partial(asr.live, sampling_rate=arguments.raw, **keywords)
            blocks = _raw_blocks(arguments.raw)
        else:
            start, blocks = partial(_read, asr, with_home(arguments.source), keywords), None
        run.transcribe(start, blocks, waits=microphone is None)
    return run.status


def _read(asr: wb.Transcriber, source: str, keywords: Mapping[str, Any]) -> LiveSession:
    """Return a session that reads its source itself."""
    if source != "-":
        return asr.live(source, **keywords)
    file = _standard_input()
    try:
        return asr.live(file, **keywords)
    except AudioError as error:
        hint = "samples without a header need --raw with their rate, for example --raw 16000"
        raise AudioError(f"{error}; {hint}") from error


def _keywords(arguments: LiveArguments) -> dict[str, Any]:
    """Return the keywords of `Transcriber.live`, without the sampling rate.

    Raises:
        OptionError: an option is invalid, or has no effect.
    """
    formats = (format_of(arguments.file),) if arguments.file else ()
    keywords = with_words(arguments.options, arguments.layout, arguments.tables, formats)
    check_keywords(keywords, arguments.load_keywords)
    return keywords


def check_keywords(keywords: Mapping[str, Any], load_keywords: Mapping[str, Any]) -> None:
    """Check keywords of `Transcriber.live` before the model is loaded.

    Args:
        keywords: of `Transcriber.live`.
        load_keywords: of `load`.

    Raises:
        OptionError: a keyword is invalid, or has no effect in a live session.
    """
    settings, others = split_keywords(dict(keywords))
    LiveSettings(**settings)
    settings_of(load_keywords).check(live_options(None, **others).search)


def _has_source(arguments: LiveArguments) -> bool:
    return bool(arguments.source or arguments.raw)


def _check_source(arguments: LiveArguments) -> None:
    if arguments.raw and arguments.source not in ("", "-"):
        raise OptionError(
            "--raw has an effect on standard input only; give - in place of the file, or leave "
            "--raw out"
        )
    if arguments.input_device and _has_source(arguments):
        raise OptionError("--input-device has no effect if the microphone is not used")


def _file_of(arguments: LiveArguments) -> "GrowingFile | None":
    """Return the file of --output, and make its folder.

    Raises:
        OptionError: the path has no suffix of a format, or is no file of this machine.
        WriteError: the folder cannot be made.
    """
    path = with_home(arguments.file)
    if not path:
        return None
    name, known = format_of(path), [name for name in FORMATS if name not in SPEAKER_FORMATS]
    if name not in known or "://" in path or not is_file(path):
        raise OptionError(
            f"--output {without_secrets(path, whole=True)} must be a file on this machine, such as "
            f"talk.srt; its suffix is one of {', '.join(known)}"
        )
    options = (arguments.tables if name in TABLE_FORMATS else arguments.layout).fitted(name)
    make_folder(Path(path).parent)
    return GrowingFile(Path(path), options)


class GrowingFile:
    """The file of --output: complete after each final text.

    If it cannot be written, a line says so, and the next final text tries again.

    Args:
        path: of the file; the suffix is the format.
        options: of the format.
    """

    def __init__(self, path: Path, options: FileOptions | None) -> None:
        self._path, self._options = path, options
        self._segments: list[Segment] = []
        self.error: WriteError | None = None

    def add(self, event: FinalText) -> None:
        """Write the file again, with more text."""
        self._segments += event.segments
        if not event.segments:
            return
        transcript = Transcript(
            segments=tuple(self._segments),
            language=event.language,
            language_probability=1.0,
            duration=self._segments[-1].end,
            source=str(self._path),
        )
        try:
            write(transcript, self._path, options=self._options)
        except WriteError as error:
            if self.error is None:
                print_note(f"{message_of(error)}; the next text tries again")
            self.error = error
        else:
            self.error = None


class _Run:
    """A live session of the command.

    Args:
        screen: shows the events.
        file: gets the final text, if there is one.

    Attributes:
        ended: whether the audio has ended, or should end.
    """

    def __init__(self, screen: LiveScreen, file: GrowingFile | None) -> None:
        self._screen, self._file = screen, file
        self._session: LiveSession | None = None
        self._failure: WhisperBatchError | None = None  # of the source
        self._failed = self._lost = False
        self.ended = Event()

    @property
    def status(self) -> int:
        """The exit status.

        Raises:
            WhisperBatchError: the source failed, or the file could not be written.
        """
        if self._failure:
            raise self._failure
        if self._file and self._file.error:
            raise self._file.error
        return int(self._failed)

    def transcribe(
        self, start: Callable[[], LiveSession], blocks: Iterator[bytes] | None, *, waits: bool
    ) -> None:
        """Show the text of a session until it ends.

        Args:
            start: returns the session.
            blocks: the audio; None if the session reads its source itself.
            waits: whether the source waits while the session is busy.
        """
        with start() as session:
            self._session = session
            thread = None
            if blocks is not None:
                feed = partial(self._feed, session, blocks, waits=waits)
                thread = in_background(feed, "whisperbatch-feed")
            self._screen.show_status(LISTENING)
            try:
                for event in session:
                    if isinstance(event, FinalText) and self._file:
                        self._file.add(event)
                    self._failed |= isinstance(event, Failed)
                    self._screen.show(event)
            finally:
                self.ended.set()
                if thread and not waits:  # a microphone that is closed while it is read may crash
                    thread.join(JOIN_TIMEOUT)

    def end(self) -> bool:
        """End the audio; the last text still comes. Called by a signal.

        Returns:
            Whether a session has begun.
        """
        if self._session is None:
            return False
        self.ended.set()
        # in a thread: the signal may have interrupted the session
        in_background(partial(self._close, self._session), "whisperbatch-end")
        return True

    def _close(self, session: LiveSession) -> None:
        self._screen.show_status(ENDING)
        session.close()

    def note_lost(self) -> None:
        """Say once that the microphone has lost samples."""
        if not self._lost:
            self._lost = True
            print_note("samples of the microphone were lost: this machine is too slow or too busy")

    def say_goodbye(self) -> None:
        """Restore the terminal, and print the text so far."""
        with suppress(Exception):  # the reader of the output may have ended
            self._screen.close()

    def _feed(self, session: LiveSession, blocks: Iterator[bytes], *, waits: bool) -> None:
        """Give the audio to the session."""
        try:
            for block in blocks:
                session.feed(block, timeout=None if waits else 0.0)
                if self.ended.is_set():
                    break
        except ClosedError:
            pass
        except WhisperBatchError as error:
            self._failure = error
        except OSError as error:
            self._failure = AudioError(f"standard input cannot be read: {error.strerror}")
        finally:
            session.close()


def _raw_blocks(rate: int) -> Iterator[bytes]:
    """Yield the samples of standard input as they come."""
    file, size = _standard_input(), int(BLOCK * rate) * 2
    while block := file.read(size):
        yield block


def _standard_input() -> FileIO:
    """Return standard input without its buffer.

    After Ctrl-C, a thread that still waits for input would hold the lock of the buffer, and Python
    would abort when the process ends. The buffer would also wait until it is full.

    Raises:
        AudioError: standard input is closed.
    """
    file: FileIO | None = getattr(getattr(sys.stdin, "buffer", None), "raw", None)
    if file is None:
        raise AudioError("standard input is closed; give a file, or connect a pipe")
    return file
