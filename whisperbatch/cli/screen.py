"""What is shown of a job: on a terminal, to a pipe, as JSON lines."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
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

from whisperbatch.audio import stated_duration
from whisperbatch.errors import WhisperBatchError
from whisperbatch.jobs import Event, Failed, Finished, SegmentReady, WorkItem
from whisperbatch.types import Segment

PROBED: Final = 200  # recordings whose duration is asked for at once; of more it is estimated
NARROW: Final = 40  # columns for a recording's name


class Screen(Protocol):
    """Where events are shown."""

    def show(self, event: Event) -> None:
        """One event, as it happens."""
        ...

    def close(self) -> None:
        """Give the terminal back. Safe to call twice."""
        ...


class _Plain:
    """Holds nothing of the terminal."""

    def close(self) -> None:
        """See `Screen`."""


class Lines(_Plain):
    """To a pipe or file: each segment's text on a line.

    Args:
        text: whether to write text.
        errors: whether to write errors, to standard error.
    """

    def __init__(self, *, text: bool, errors: bool = True) -> None:
        self._text, self._errors = text, errors

    def show(self, event: Event) -> None:
        """See `Screen`."""
        if isinstance(event, SegmentReady) and self._text:
            put(event.segment.text)
        elif isinstance(event, Failed) and self._errors:
            complain(event.error)


class JsonLines(_Plain):
    """To a program: an object a line, of the type "segment", "transcript" or "error".

    Args:
        errors: whether to write errors to standard error, too.
    """

    def __init__(self, *, errors: bool = True) -> None:
        self._errors = errors

    def show(self, event: Event) -> None:
        """See `Screen`."""
        about: dict[str, object] = {"source": event.task.source}
        if isinstance(event, SegmentReady):
            about |= {"type": "segment", **asdict(event.segment)}
        elif isinstance(event, Finished):
            found = asdict(event.transcript)
            del found["segments"], found["source"]
            about |= {"type": "transcript", **found}
        else:
            about |= {"type": "error", "error": str(event.error)}
            if self._errors:
                complain(event.error)
        plain = (sys.stdout.encoding or "").lower() != "utf-8"
        put(json.dumps(about, ensure_ascii=plain))


class Terminal:
    """Text as it is decoded, bars for the recordings that are going on and for the whole job.

    Args:
        console: the terminal.
        tasks: of the job.
        text: whether to show text.
    """

    def __init__(self, console: Console, tasks: Sequence[WorkItem], *, text: bool) -> None:
        bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            _Clock(),
            console=console,
            transient=True,
        )
        self._console, self._bars, self._text = console, bars, text
        self._many = len(tasks) > 1
        self._going: dict[str, TaskID] = {}
        self._places: dict[str, float] = {}  # seconds of each that are done
        self._count = self._left = len(tasks)
        self._durations = {task.source: _duration(task) for task in tasks[:PROBED]}
        self._whole = bars.add_task(self._name(tasks), total=self._total(), whole=True)
        bars.start()

    def show(self, event: Event) -> None:
        """See `Screen`."""
        if isinstance(event, SegmentReady):
            if self._text:
                self._console.print(_line(event.segment), soft_wrap=True, highlight=False)
            self._advance(event.task, event.segment.end)
            return
        if isinstance(event, Finished):
            self._advance(event.task, event.transcript.duration)
            if self._many or event.task.outputs:
                self._console.print(_done(event), soft_wrap=True, highlight=False)
        else:
            self._console.print(_failed(event.error), soft_wrap=True, highlight=False)
            self._durations.pop(event.task.source, None)
            self._count -= 1
        self._left -= 1
        if (bar := self._going.pop(event.task.source, None)) is not None:
            self._bars.remove_task(bar)
        if self._many:
            self._bars.update(self._whole, description=f"{self._left} left", total=self._total())

    def close(self) -> None:
        """See `Screen`."""
        self._bars.stop()

    def _name(self, tasks: Sequence[WorkItem]) -> str:
        return f"{len(tasks)} left" if self._many else _shortened(tasks[0].source)

    def _advance(self, task: WorkItem, seconds: float) -> None:
        source = task.source
        self._places[source] = max(seconds, self._places.get(source, 0.0))
        self._bars.update(self._whole, completed=sum(self._places.values()))
        if self._many:
            if source not in self._going:
                total = self._durations.get(source) or _duration(task)
                self._going[source] = self._bars.add_task(
                    _shortened(source), total=total, whole=False
                )
            self._bars.update(self._going[source], completed=self._places[source])

    def _total(self) -> float | None:
        """Seconds of all recordings: of those not asked, as many as the others have on average."""
        known = [one for one in self._durations.values() if one]
        return sum(known) / len(known) * self._count if known else None


class _Clock(ProgressColumn):
    """Recording time, speed, and what is left."""

    def render(self, task: Bar) -> Text:
        done = task.completed
        parts = [clock(done) + (f" of {clock(task.total)}" if task.total else "")]
        if task.fields["whole"] and task.elapsed and done:
            speed = done / task.elapsed
            parts.append(f"{speed:.0f}x")
            if task.total and task.total > done:
                parts.append(f"{clock((task.total - done) / speed)} left")
        return Text(" · ".join(parts), style="cyan")


def open_screen(tasks: Sequence[WorkItem], *, json_lines: bool, text: bool, quiet: bool) -> Screen:
    """The screen that fits where output goes.

    Args:
        tasks: of the job.
        json_lines: write them, and nothing else, to standard output.
        text: show the segments' text.
        quiet: show nothing but text and errors.
    """
    console = Console(stderr=json_lines or not sys.stdout.isatty())
    if not tasks or quiet or not (sys.stderr if console.stderr else sys.stdout).isatty():
        return JsonLines() if json_lines else Lines(text=text)
    if json_lines:
        return _Both(JsonLines(errors=False), Terminal(console, tasks, text=False))
    if console.stderr:
        return _Both(Lines(text=text, errors=False), Terminal(console, tasks, text=False))
    return Terminal(console, tasks, text=text)


class _Both:
    """Text to a pipe, bars and errors to the terminal."""

    def __init__(self, out: Screen, terminal: Screen) -> None:
        self._screens = out, terminal

    def show(self, event: Event) -> None:
        for screen in self._screens:
            screen.show(event)

    def close(self) -> None:
        for screen in self._screens:
            screen.close()


def complain(error: WhisperBatchError) -> None:
    """One line, to standard error."""
    print(f"failed: {error}", file=sys.stderr, flush=True)  # noqa: T201 - a program's output


def clock(seconds: float) -> str:
    """1:02:03, or 2:03."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def put(line: str) -> None:
    """A line of what was asked for, to standard output, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _line(segment: Segment) -> Text:
    times = f"{clock(segment.start)}".rjust(8)
    return Text.assemble((times, "dim"), "  ", segment.text)


def _done(event: Finished) -> Text:
    outputs = event.task.outputs
    written = ", ".join(str(one) for one in outputs[:1]) + (
        f" and {len(outputs) - 1} more" if len(outputs) > 1 else ""
    )
    listed = len(event.transcript.omissions)
    left_out = f", {listed} left out or missed" if listed else ""
    return Text.assemble(
        ("done ", "green"),
        f"{_name(event.task.source)} ",
        (f"{clock(event.transcript.duration)} {event.transcript.language or 'no speech'}", "dim"),
        (left_out, "yellow"),
        (f" -> {written}" if written else "", "dim"),
    )


def _failed(error: WhisperBatchError) -> Text:
    return Text.assemble(("failed ", "bold red"), str(error))


def _name(source: str) -> str:
    return Path(source).name if "://" not in source else source


def _shortened(source: str) -> str:
    name = "".join(one if one.isprintable() else " " for one in _name(source))
    return name if len(name) <= NARROW else f"{name[: NARROW - 1]}…"


def _duration(task: WorkItem) -> float | None:
    return stated_duration(task.source) if task.path else None
