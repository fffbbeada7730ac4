"""The output of a job: on a terminal, to a pipe or file, as JSON lines, and as a whole file."""

import json
import sys
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Protocol

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
)
from rich.progress import (
    Task as Bar,
)
from rich.spinner import Spinner
from rich.table import Column
from rich.text import Text
from typing_extensions import Self

import whisperbatch as wb
from whisperbatch.audio import stated_duration
from whisperbatch.cli.messages import message_of
from whisperbatch.cli.printing import (
    clock,
    print_error,
    print_note,
    print_result,
    print_segment,
    print_text,
)
from whisperbatch.cli.recordings import missing_message
from whisperbatch.jobs import Event, Failed, Finished, FinishedElsewhere, SegmentReady, WorkItem
from whisperbatch.text import UNSPACED, counted, escape_controls, escape_controls_in_json
from whisperbatch.threads import in_background
from whisperbatch.types import Segment
from whisperbatch.writers import (
    FileOptions,
    one_line,
    render,
    segment_values,
    speaker_prefix,
    transcript_values,
)
from whisperbatch.writers.breaks import visible_parts
from whisperbatch.writers.formatting import columns

MAX_PROBED: Final = 200
"""Recordings whose duration is read at the start; the duration of more is estimated."""
CHANGED_SPEAKERS: Final = (
    "some speakers above have changed at the end; --format txt has the final ones"
)
NO_SPEECH: Final = "no speech found"
LINES: Final = "lines"
"""What is printed: the text of each segment as a line, as soon as it is known."""
WITH_BAR: Final = 70  # columns of a terminal that has progress bars: below, the times need them
DRAWING: Final = 0.1  # seconds between two drawings of the bars
MIN_TEXT_WIDTH: Final = 20  # columns of text beside its start


class Screen(Protocol):
    """Shows the events of a job."""

    def show(self, event: Event) -> None:
        """Show an event as soon as it happens."""
        ...

    def show_status(self, text: str) -> None:
        """Show what the program does before the first segment; "" removes the text."""
        ...

    def close(self) -> None:
        """Restore the terminal, and print what waits. Safe to call twice."""
        ...


class _WithoutTerminal:
    """Base of the screens that have no terminal to restore.

    Args:
        status: whether `show_status` prints a line to standard error.
    """

    def __init__(self, *, status: bool) -> None:
        self._status = status

    def show_status(self, text: str) -> None:
        """See `Screen`."""
        if text and self._status:
            print_note(text)

    def close(self) -> None:
        """See `Screen`."""


class Turns:
    """Lets several recordings that are transcribed at the same time be printed one after another.

    Args:
        items: the recordings, in the order of printing.
    """

    def __init__(self, items: Sequence[WorkItem]) -> None:
        self._waiting: dict[str, list[Event]] = {item.source: [] for item in items}

    def take(self, event: Event) -> list[Event]:
        """Return the events that can be printed: those of the first recording that has not ended.

        The events of later recordings wait.
        """
        self._waiting.setdefault(event.item.source, []).append(event)
        ready: list[Event] = []
        while self._waiting:
            source = next(iter(self._waiting))
            events, self._waiting[source] = self._waiting[source], []
            ready += events
            if not events or isinstance(events[-1], SegmentReady):
                break
            del self._waiting[source]
        return ready

    def rest(self) -> list[Event]:
        """Return the events that wait."""
        rest = [event for events in self._waiting.values() for event in events]
        self._waiting.clear()
        return rest


class Lines(_WithoutTerminal):
    """Prints the text of each segment as a line, for a pipe or file.

    Several recordings get headings: "==> talk.mp3 <==".

    Args:
        items: the recordings whose text is printed; none prints no text.
        errors: whether to print errors to standard error.
        status: whether to print the status to standard error.
    """

    def __init__(
        self, items: Sequence[WorkItem] = (), *, errors: bool = True, status: bool = False
    ) -> None:
        super().__init__(status=status)
        self._turns = Turns(items)
        self._text, self._errors = bool(items), errors
        self._headings = Headings(items)
        self._held: deque[Segment] = deque()

    def show(self, event: Event) -> None:
        """See `Screen`. Segments whose speaker may still change are printed at the end."""
        if isinstance(event, Failed) and self._errors:
            print_error(event.error)
        for each in self._turns.take(event) if self._text else ():
            self._print(each)

    def close(self) -> None:
        """See `Screen`. After Ctrl-C, segments that wait are printed, with provisional speakers."""
        self._print_held()
        for event in self._turns.rest():
            self._print(event)
        self._print_held()

    def _print(self, event: Event) -> None:
        if isinstance(event, SegmentReady | Finished):
            for line in self._headings.before(event.item):
                print_result(line)
        if not isinstance(event, SegmentReady):
            if self._held and isinstance(event, Finished):
                self._held = deque(event.transcript.segments)
            self._print_held()
        elif event.segment.provisional:
            self._held.append(event.segment)
        else:
            print_segment(event.segment)

    def _print_held(self) -> None:
        """Print the segments that wait. If Ctrl-C interrupts this, `close` prints the rest."""
        try:
            while self._held:
                print_segment(self._held[0])
                self._held.popleft()
        finally:
            self._held.clear()  # after an error, too: `close` must not fail again


class Headings:
    """The lines before the text of each of several recordings."""

    def __init__(self, items: Sequence[WorkItem]) -> None:
        self._many = len(items) > 1
        self._last: WorkItem | None = None

    def before(self, item: WorkItem) -> list[str]:
        """Return the lines to print before the text; none if the recording has a heading."""
        if not self._many or item is self._last:
            return []
        empty = [""] if self._last else []
        self._last = item
        return [*empty, f"==> {item.name} <=="]


class Document:
    """Prints the file of a recording, such as its subtitles, when the recording has finished.

    Args:
        name: the format.
        options: of the format.
        progress: shows everything else; it is closed before the file is printed.
    """

    def __init__(self, name: str, options: FileOptions | None, progress: Screen) -> None:
        self._name, self._options, self._progress = name, options, progress

    def show(self, event: Event) -> None:
        """See `Screen`."""
        self._progress.show(event)
        if isinstance(event, Finished):
            self.close()
            text = render(event.transcript, self._name, self._options)
            print_text(escape_controls_in_json(text) if self._name == "json" else text)

    def show_status(self, text: str) -> None:
        """See `Screen`."""
        self._progress.show_status(text)

    def close(self) -> None:
        """See `Screen`."""
        self._progress.close()


class JsonLines(_WithoutTerminal):
    """Prints a JSON object on each line, of the type "segment", "transcript" or "error".

    Args:
        errors: whether to print errors to standard error, too.
        status: whether to print the status to standard error.
    """

    def __init__(self, *, errors: bool = True, status: bool = False) -> None:
        super().__init__(status=status)
        self._errors = errors

    def show(self, event: Event) -> None:
        """See `Screen`."""
        if isinstance(event, FinishedElsewhere):
            return
        if isinstance(event, Failed) and self._errors:
            print_error(event.error)
        print_record(event)


def print_record(event: SegmentReady | Finished | Failed) -> None:
    """Print an event as a line of JSON."""
    record: dict[str, object] = {"source": event.item.name}
    if isinstance(event, SegmentReady):
        record |= {"type": "segment", **segment_values(event.segment)}
    elif isinstance(event, Finished):
        record |= {"type": "transcript", **transcript_values(event.transcript)}
    else:
        record |= {"type": "error", "error": str(event.error)}
    ascii_only = (sys.stdout.encoding or "").lower() != "utf-8"
    print_result(escape_controls_in_json(json.dumps(record, ensure_ascii=ascii_only)))


class SharedConsole(Console):
    """A console of several threads: what a thread prints is written before others print.

    Rich computes which rows of the bars to erase when it prints, and writes later. Another thread
    that writes in between would erase text.
    """

    def __init__(self, **keywords: Any) -> None:  # noqa: ANN401 - of the base class
        self._writing = threading.RLock()
        super().__init__(**keywords)

    def __enter__(self) -> Self:
        self._writing.acquire()
        super().__enter__()
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        try:
            super().__exit__(kind, error, traceback)
        finally:
            self._writing.release()


class Terminal:
    """Prints text while it is decoded, above progress bars.

    A job of several recordings has a bar for each open recording, and a bar for the whole job.

    Args:
        console: the terminal.
        items: the recordings of the job.
        text: whether to print text.
    """

    def __init__(self, console: SharedConsole, items: Sequence[WorkItem], *, text: bool) -> None:
        self._console, self._bars, self._text = console, _Bars(console), text
        self._many = len(items) > 1
        self._turns, self._headings = Turns(items), Headings(items)
        self._speakers: list[str | None] = []  # of the printed segments of a recording
        self._open: dict[str, TaskID] = {}  # the bars of recordings
        self._seconds_done: dict[str, float] = {}
        self._count = self._remaining = len(items)
        self._durations = {item.source: _duration(item) for item in items[:MAX_PROBED]}
        self._total_bar = self._bars.add_task(
            f"{len(items)} left" if self._many else _printable(items[0].name),
            total=self._total_seconds(),
            whole_job=True,
        )
        with console:
            self._bars.start()
        self._closed = threading.Event()
        in_background(self._animate, "whisperbatch-bars")

    def show(self, event: Event) -> None:
        """See `Screen`."""
        with self._console:
            self._show(event)

    def _show(self, event: Event) -> None:
        if isinstance(event, SegmentReady):
            self._advance(event.item, event.segment.end)
        else:
            self._end(event)
        for each in self._turns.take(event) if self._text else ():
            self._print_text(each)
        if isinstance(event, Finished) and event.item.outputs:
            for line in _finished_lines(event, self._console.width):
                self._print(line)
        elif isinstance(event, Failed):
            for line in _failed_lines(event, self._console.width):
                self._print(line)

    def show_status(self, text: str) -> None:
        """See `Screen`. The status is a line above the bars."""
        with self._console:
            self._bars.status = escape_controls(text)
            self._bars.refresh()

    def close(self) -> None:
        """See `Screen`."""
        with self._console:
            self._closed.set()
            for event in self._turns.rest():
                self._print_text(event)
            self._bars.stop()

    def _animate(self) -> None:
        """Draw the bars again and again, until the screen is closed."""
        while not self._closed.wait(DRAWING):
            with self._console:
                if not self._closed.is_set():
                    self._bars.refresh()

    def _print_text(self, event: Event) -> None:
        """Print a segment; print what is to be said at the end of a recording."""
        if not isinstance(event, SegmentReady | Finished):
            return
        for heading in self._headings.before(event.item):
            self._print(Text(heading, "bold"))
            self._speakers = []
        if isinstance(event, SegmentReady):
            for line in _segment_lines(event.segment, self._console.width):
                self._print(line)
            self._speakers.append(event.segment.speaker)
            return
        segments = event.transcript.segments
        if [segment.speaker for segment in segments] != self._speakers:
            self._print(Text(CHANGED_SPEAKERS, "dim"))
        if not segments:
            self._print(Text(NO_SPEECH, "yellow"))

    def _print(self, line: Text) -> None:
        """Print a line; the terminal divides it if it is too long."""
        self._console.print(line, soft_wrap=True, highlight=False)

    def _end(self, event: Finished | Failed | FinishedElsewhere) -> None:
        """Move the bars: a recording has ended."""
        source = event.item.source
        if isinstance(event, Finished):
            self._advance(event.item, event.transcript.duration)
        else:
            self._durations.pop(source, None)
            self._count -= 1
        self._remaining -= 1
        if (bar := self._open.pop(source, None)) is not None:
            self._bars.remove_task(bar)
        if self._many:
            self._bars.update(
                self._total_bar,
                description=f"{self._remaining} left",
                total=self._total_seconds(),
            )

    def _advance(self, item: WorkItem, seconds: float) -> None:
        """Move the bars: a recording is transcribed up to this time."""
        source = item.source
        self._seconds_done[source] = max(seconds, self._seconds_done.get(source, 0.0))
        self._bars.update(self._total_bar, completed=sum(self._seconds_done.values()))
        if self._many:
            if source not in self._open:
                total = self._durations.get(source) or _duration(item)
                self._open[source] = self._bars.add_task(_printable(item.name), total=total)
            self._bars.update(self._open[source], completed=self._seconds_done[source])

    def _total_seconds(self) -> float | None:
        """Return the duration of all recordings; an unknown duration counts as the average."""
        known = [duration for duration in self._durations.values() if duration]
        return sum(known) / len(known) * self._count if known else None


class _Bars(Progress):
    """Progress bars that fit into a row each, and a status above them.

    The name and the bar share the columns that the times leave free. A narrow terminal has no bar.
    """

    def __init__(self, console: Console) -> None:
        self.status = ""
        self._spinner = Spinner("dots")
        name = Column(ratio=1, no_wrap=True, overflow="ellipsis")
        columns: list[ProgressColumn] = [
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False, table_column=name),
        ]
        if console.width >= WITH_BAR:
            columns.append(BarColumn(None, table_column=Column(ratio=1)))
        times = Column(no_wrap=True, justify="right")
        super().__init__(
            *(*columns, _Clock(table_column=times)),
            console=console,
            transient=True,
            expand=True,
            auto_refresh=False,  # see `SharedConsole`
        )

    def get_renderables(self) -> Iterator[RenderableType]:
        """Yield the status and the bars."""
        if self.status:
            text = Text(self.status)
            text.truncate(max(self.console.width - 3, 1), overflow="ellipsis")
            self._spinner.update(text=text)
            yield self._spinner
        yield from super().get_renderables()


class _Clock(ProgressColumn):
    """Shows the transcribed time; for the whole job also the speed and the time left."""

    def render(self, task: Bar) -> Text:
        done = task.completed
        parts = [clock(done) + (f" of {clock(task.total)}" if task.total else "")]
        progress = wb.Progress("transcribe", "", done, task.total, task.elapsed or 0.0)
        if task.fields.get("whole_job") and progress.speed:
            parts.append(f"{progress.speed:.0f}x")
            if progress.remaining:
                parts.append(f"{clock(progress.remaining)} left")
        return Text(" · ".join(parts), style="cyan")


class _TwoScreens:
    """Text to a pipe; progress bars and errors on the terminal."""

    def __init__(self, pipe: Screen, terminal: Screen) -> None:
        self._pipe, self._terminal = pipe, terminal

    def show(self, event: Event) -> None:
        self._pipe.show(event)
        self._terminal.show(event)

    def show_status(self, text: str) -> None:
        self._terminal.show_status(text)

    def close(self) -> None:
        self._terminal.close()
        self._pipe.close()


def open_screen(
    items: Sequence[WorkItem],
    *,
    json_lines: bool,
    printed: str,
    file_options: FileOptions | None = None,
    quiet: bool,
) -> Screen:
    """Return the screen for the terminals, pipes or files that the output goes to.

    Args:
        items: the recordings of the job.
        json_lines: print JSON lines, and nothing else, to standard output.
        printed: `LINES` prints the text of segments, a format prints the file of the only
            recording, and "" prints nothing.
        file_options: of the format.
        quiet: print only text and errors.
    """
    lines = tuple(items) if printed == LINES else ()
    is_document = bool(printed) and not lines
    console = SharedConsole(stderr=json_lines or is_document or not sys.stdout.isatty())
    has_terminal = (sys.stderr if console.stderr else sys.stdout).isatty()
    status = not quiet and not printed
    screen: Screen
    if not items or quiet or not has_terminal:
        screen = JsonLines(status=status) if json_lines else Lines(lines, status=status)
    elif json_lines:
        screen = _TwoScreens(JsonLines(errors=False), Terminal(console, items, text=False))
    elif lines and console.stderr:
        screen = _TwoScreens(Lines(lines, errors=False), Terminal(console, items, text=False))
    else:
        screen = Terminal(console, items, text=bool(lines))
    return Document(printed, file_options, screen) if is_document else screen


def show_missing(missing: Sequence[Failed], *, json_lines: bool) -> None:
    """Print that recordings do not exist: one line, and with `json_lines` a record for each."""
    print_note(f"failed: {missing_message(missing)}")
    if json_lines:
        for event in missing:
            print_record(event)


def _segment_lines(segment: Segment, width: int) -> Iterator[Text]:
    """Yield the lines of a segment on a terminal: its start, and its text beside it."""
    speaker = speaker_prefix(segment)
    start = f"{clock(segment.start):>8}  "
    unspaced = segment.language in UNSPACED
    said = f"{speaker}{one_line(segment.text)}"
    for line in hanging_lines(said, width - len(start), unspaced=unspaced):
        text = Text.assemble((start, "dim"), line)
        text.stylize("cyan", len(start), len(start) + len(speaker))
        yield text
        start, speaker = " " * len(start), ""


def hanging_lines(text: str, width: int, *, unspaced: bool = True) -> list[str]:
    """Divide a text into lines of at most `width` columns.

    Lines end between words, and if the language is `unspaced`, between characters. A word that is
    longer than a line is divided. East Asian wide characters have 2 columns.
    """
    width = max(width, MIN_TEXT_WIDTH)
    at = tuple(accumulate(map(columns, text), initial=0))
    lines: list[str] = []
    first = end = 0
    for begin, stop in visible_parts(text, unspaced=unspaced):
        if at[stop] - at[first] > width and begin > first:
            lines.append(text[first:end])
            first = begin
        while at[stop] - at[first] > width:
            cut = max(bisect_right(at, at[first] + width) - 1, first + 1)
            lines.append(text[first:cut])
            first = cut
        end = stop
    return [*lines, text[first:end]]


def _finished_lines(event: Finished, width: int) -> Iterator[Text]:
    """Yield what a terminal shows for a recording whose files are written: one line if it fits."""
    transcript, outputs = event.transcript, event.item.outputs
    paths = escape_controls(", ".join(map(str, outputs[:1])))
    if len(outputs) > 1:
        paths += f" and {len(outputs) - 1} more"
    recovered = transcript.recovered_duration
    found = f", {recovered:.1f} s of speech found that the VAD rejected" if recovered else ""
    omissions = f", {counted(transcript.omissions, 'omission')}" if transcript.omissions else ""
    line = Text.assemble(
        ("done ", "green"),
        escape_controls(f"{_name(event.item.name)} "),
        (f"{clock(transcript.duration)} {transcript.language or NO_SPEECH}", "dim"),
        (found, "dim"),
        ("" if transcript.is_complete else ", incomplete", "yellow"),
        (omissions, "yellow"),
    )
    target = Text(f" -> {paths}", "dim")
    if line.cell_len + target.cell_len <= width:
        yield line + target
    else:
        yield from (line, Text("    ") + target)


def _failed_lines(event: Failed, width: int) -> Iterator[Text]:
    """Yield what a terminal shows for a recording that failed."""
    word = "failed "
    for line in hanging_lines(escape_controls(message_of(event.error)), width - len(word)):
        yield Text.assemble((word, "bold red"), line)
        word = " " * len(word)


def _name(source: str) -> str:
    return Path(source).name if "://" not in source else source


def _printable(source: str) -> str:
    return "".join(char if char.isprintable() else " " for char in _name(source))


def _duration(item: WorkItem) -> float | None:
    """Return the duration that the file states, in seconds; None if it is unknown."""
    return stated_duration(item.source) if item.path else None
