"""The output of a job: on a terminal, to a pipe or file, and as JSON lines."""

import json
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from rich.console import Console
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
from rich.text import Text

import whisperbatch as wb
from whisperbatch.audio import stated_duration
from whisperbatch.cli.printing import clock, print_error, print_note, print_result, print_segment
from whisperbatch.jobs import Event, Failed, Finished, FinishedElsewhere, SegmentReady, WorkItem
from whisperbatch.text import escape_controls, escape_controls_in_json
from whisperbatch.types import Segment
from whisperbatch.writers import one_line, segment_values, speaker_prefix, transcript_values

MAX_PROBED: Final = 200
"""Recordings whose duration is read at the start; the duration of more is estimated."""
CHANGED_SPEAKERS: Final = (
    "some speakers above have changed at the end; --format txt has the final ones"
)
NAME_WIDTH: Final = 40  # columns for the name of a recording


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


class Lines(_WithoutTerminal):
    """Prints the text of each segment as a line, for a pipe or file.

    Args:
        text: whether to print text.
        errors: whether to print errors to standard error.
        status: whether to print the status to standard error.
    """

    def __init__(self, *, text: bool, errors: bool = True, status: bool = False) -> None:
        super().__init__(status=status)
        self._text, self._errors = text, errors
        self._held: deque[Segment] = deque()

    def show(self, event: Event) -> None:
        """See `Screen`. Segments whose speaker may still change are printed at the end."""
        if isinstance(event, FinishedElsewhere):
            return
        if isinstance(event, SegmentReady):
            if self._text and event.segment.provisional:
                self._held.append(event.segment)
            elif self._text:
                print_segment(event.segment)
            return
        if self._held and isinstance(event, Finished):
            self._held = deque(event.transcript.segments)
        self._print_held()
        if isinstance(event, Failed) and self._errors:
            print_error(event.error)

    def close(self) -> None:
        """See `Screen`. After Ctrl-C, segments that wait are printed, with provisional speakers."""
        self._print_held()

    def _print_held(self) -> None:
        """Print the segments that wait. If Ctrl-C interrupts this, `close` prints the rest."""
        try:
            while self._held:
                print_segment(self._held[0])
                self._held.popleft()
        finally:
            self._held.clear()  # after an error, too: `close` must not fail again


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
        record: dict[str, object] = {"source": event.item.name}
        if isinstance(event, SegmentReady):
            record |= {"type": "segment", **segment_values(event.segment)}
        elif isinstance(event, Finished):
            record |= {"type": "transcript", **transcript_values(event.transcript)}
        else:
            record |= {"type": "error", "error": str(event.error)}
            if self._errors:
                print_error(event.error)
        ascii_only = (sys.stdout.encoding or "").lower() != "utf-8"
        line = json.dumps(record, ensure_ascii=ascii_only)
        print_result(escape_controls_in_json(line))


class Terminal:
    """Prints text while it is decoded, above progress bars.

    A job of several recordings has a bar for each open recording, and a bar for the whole job.

    Args:
        console: the terminal.
        items: the recordings of the job.
        text: whether to print text.
    """

    def __init__(self, console: Console, items: Sequence[WorkItem], *, text: bool) -> None:
        bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            _Clock(),
            console=console,
            transient=True,
        )
        self._console, self._bars, self._text = console, bars, text
        self._many = len(items) > 1
        self._speakers: list[str | None] = []  # of the printed segments
        self._open: dict[str, TaskID] = {}  # the bars of recordings
        self._seconds_done: dict[str, float] = {}
        self._count = self._remaining = len(items)
        self._durations = {item.source: _duration(item) for item in items[:MAX_PROBED]}
        self._total_bar = bars.add_task(
            f"{len(items)} left" if self._many else _shorten(items[0].name),
            total=self._total_seconds(),
            whole_job=True,
        )
        self._status_bar: TaskID | None = None
        bars.start()

    def show(self, event: Event) -> None:
        """See `Screen`."""
        source = event.item.source
        if isinstance(event, SegmentReady):
            if self._text:
                self._console.print(_segment_line(event.segment), soft_wrap=True, highlight=False)
                self._speakers.append(event.segment.speaker)
            self._advance(event.item, event.segment.end)
            return
        if isinstance(event, Finished):
            self._advance(event.item, event.transcript.duration)
            final = [segment.speaker for segment in event.transcript.segments]
            if self._text and final != self._speakers:
                self._console.print(CHANGED_SPEAKERS, style="dim", soft_wrap=True, highlight=False)
            if self._many or event.item.outputs:
                self._console.print(_finished_line(event), soft_wrap=True, highlight=False)
        else:
            if isinstance(event, Failed):
                line = Text.assemble(("failed ", "bold red"), escape_controls(str(event.error)))
                self._console.print(line, soft_wrap=True, highlight=False)
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

    def show_status(self, text: str) -> None:
        """See `Screen`. The status has a bar without length."""
        if self._status_bar is not None:
            self._bars.remove_task(self._status_bar)
            self._status_bar = None
        if text:
            status = escape_controls(text)
            self._status_bar = self._bars.add_task(status, total=None, is_status=True)

    def close(self) -> None:
        """See `Screen`."""
        self._bars.stop()

    def _advance(self, item: WorkItem, seconds: float) -> None:
        """Move the bars: a recording is transcribed up to this time."""
        source = item.source
        self._seconds_done[source] = max(seconds, self._seconds_done.get(source, 0.0))
        self._bars.update(self._total_bar, completed=sum(self._seconds_done.values()))
        if self._many:
            if source not in self._open:
                total = self._durations.get(source) or _duration(item)
                self._open[source] = self._bars.add_task(_shorten(item.name), total=total)
            self._bars.update(self._open[source], completed=self._seconds_done[source])

    def _total_seconds(self) -> float | None:
        """Return the duration of all recordings; an unknown duration counts as the average."""
        known = [duration for duration in self._durations.values() if duration]
        return sum(known) / len(known) * self._count if known else None


class _Clock(ProgressColumn):
    """Shows the transcribed time; for the whole job also the speed and the time left."""

    def render(self, task: Bar) -> Text:
        if task.fields.get("is_status"):
            return Text("")
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


def open_screen(items: Sequence[WorkItem], *, json_lines: bool, text: bool, quiet: bool) -> Screen:
    """Return the screen for the terminals, pipes or files that the output goes to.

    Args:
        items: the recordings of the job.
        json_lines: print JSON lines, and nothing else, to standard output.
        text: print the text of segments.
        quiet: print only text and errors.
    """
    console = Console(stderr=json_lines or not sys.stdout.isatty())
    has_terminal = (sys.stderr if console.stderr else sys.stdout).isatty()
    if not items or quiet or not has_terminal:
        status = not quiet and not text
        return JsonLines(status=status) if json_lines else Lines(text=text, status=status)
    if json_lines:
        return _TwoScreens(JsonLines(errors=False), Terminal(console, items, text=False))
    if console.stderr:
        return _TwoScreens(Lines(text=text, errors=False), Terminal(console, items, text=False))
    return Terminal(console, items, text=text)


def _segment_line(segment: Segment) -> Text:
    times = f"{clock(segment.start)}".rjust(8)
    return Text.assemble(
        (times, "dim"), "  ", (speaker_prefix(segment), "cyan"), one_line(segment.text)
    )


def _finished_line(event: Finished) -> Text:
    transcript, outputs = event.transcript, event.item.outputs
    paths = ", ".join(map(str, outputs[:1]))
    if len(outputs) > 1:
        paths += f" and {len(outputs) - 1} more"
    recovered = transcript.recovered_duration
    found = f", {recovered:.1f} s of speech found that the VAD rejected" if recovered else ""
    count = len(transcript.omissions)
    omissions = f", {count} omission{'s' if count > 1 else ''}" if count else ""
    return Text.assemble(
        ("done ", "green"),
        escape_controls(f"{_name(event.item.name)} "),
        (f"{clock(transcript.duration)} {transcript.language or 'no speech'}", "dim"),
        (found, "dim"),
        ("" if transcript.is_complete else ", incomplete", "yellow"),
        (omissions, "yellow"),
        (escape_controls(f" -> {paths}") if paths else "", "dim"),
    )


def _name(source: str) -> str:
    return Path(source).name if "://" not in source else source


def _shorten(source: str) -> str:
    """Return the name of a recording in at most `NAME_WIDTH` printable characters."""
    name = "".join(char if char.isprintable() else " " for char in _name(source))
    return name if len(name) <= NAME_WIDTH else f"{name[: NAME_WIDTH - 1]}…"


def _duration(item: WorkItem) -> float | None:
    """Return the duration that the file states, in seconds; None if it is unknown."""
    return stated_duration(item.source) if item.path else None
