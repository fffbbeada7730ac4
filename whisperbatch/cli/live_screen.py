"""What `whisperbatch live` shows: settled text, which stays, and the tail, which may change.

0:03  Hello Ann, how are you? I am       settled: printed once, line by line
      calling about the                  the last line is drawn again, with the tail in grey
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Protocol

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from whisperbatch.cli.messages import message_of
from whisperbatch.cli.printing import (
    clock,
    print_error,
    print_note_on_terminal,
    print_result,
    print_text,
)
from whisperbatch.cli.screen import MIN_TEXT_WIDTH, SharedConsole, hanging_lines
from whisperbatch.live import Failed, Lag, LiveEvent, Settled, Tail, TurnStarted
from whisperbatch.live import Final as FinalText
from whisperbatch.text import UNSPACED, escape_controls, escape_controls_in_json
from whisperbatch.writers import one_line, segment_values

SHOWN_LAG: Final = 3.0  # seconds: a shorter lag is not shown
MARGIN: Final = 10  # columns of the start of a turn, before its text
LISTENING: Final = "listening; Ctrl-C ends"
"""The status before the first speech."""


class LiveScreen(Protocol):
    """Shows the events of a live session. Thread-safe."""

    def show(self, event: LiveEvent) -> None:
        """Show an event."""
        ...

    def show_status(self, text: str) -> None:
        """Show what the program does; "" removes the text."""
        ...

    def close(self) -> None:
        """Print what waits, and restore the terminal. Safe to call twice."""
        ...


@dataclass(slots=True)
class Turn:
    """The text of a turn so far.

    Attributes:
        start: of the speech, in seconds.
        text: the settled text, without the lines that a terminal has printed.
        tail: the text after it, which may change.
        language: of the text.
        ended: whether no more text comes.
        begun: whether a terminal has printed a line.
    """

    start: float = 0.0
    text: str = ""
    tail: str = ""
    language: str = ""
    ended: bool = False
    begun: bool = False


class Turns:
    """The turns that are not completely shown, in their order."""

    def __init__(self) -> None:
        self.open: dict[int, Turn] = {}

    def take(self, event: LiveEvent) -> None:
        """Note an event."""
        if isinstance(event, Lag):
            return
        if isinstance(event, TurnStarted):
            self.open[event.turn] = Turn(event.start)
        turn = self.open.setdefault(event.turn, Turn())
        if isinstance(event, Settled):
            turn.text += event.text
            turn.tail, turn.language = "", event.language
        elif isinstance(event, Tail):
            turn.tail = event.text
        elif isinstance(event, FinalText | Failed) and event.complete:
            turn.ended, turn.tail = True, ""

    def finished(self) -> Iterator[Turn]:
        """Remove and yield the first turns, up to the first that has not ended."""
        while self.open and next(iter(self.open.values())).ended:
            yield self.open.pop(next(iter(self.open)))


class LiveLines:
    """Prints settled text for a pipe or file, as soon as it settles; a line for each turn."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._turns, self._quiet = Turns(), quiet
        self._printed = ""  # of the first open turn

    def show(self, event: LiveEvent) -> None:
        """See `LiveScreen`."""
        if isinstance(event, Failed):
            print_error(event.error)
        self._turns.take(event)
        for turn in self._turns.finished():
            self._print(turn, end="\n")
        for turn in [*self._turns.open.values()][:1]:
            self._print(turn)

    def show_status(self, text: str) -> None:
        """See `LiveScreen`."""
        if not self._quiet:
            print_note_on_terminal(text)

    def close(self) -> None:
        """See `LiveScreen`. After Ctrl-C, the text so far is printed."""
        for turn in self._turns.open.values():
            self._print(turn, end="\n")
        self._turns.open.clear()

    def _print(self, turn: Turn, end: str = "") -> None:
        text = one_line(turn.text)
        more = escape_controls(text[len(self._printed) :])
        if end:
            self._printed = ""
            more += end if text else ""
        else:
            self._printed = text
        if more:
            print_text(more)


class LiveRecords:
    """Prints each event as a line of JSON; the key "type" has the name of the event."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet

    def show(self, event: LiveEvent) -> None:
        """See `LiveScreen`."""
        ascii_only = (sys.stdout.encoding or "").lower() != "utf-8"
        line = json.dumps(event_values(event), ensure_ascii=ascii_only)
        print_result(escape_controls_in_json(line))

    def show_status(self, text: str) -> None:
        """See `LiveScreen`."""
        if not self._quiet:
            print_note_on_terminal(text)

    def close(self) -> None:
        """See `LiveScreen`."""


def event_values(event: LiveEvent) -> dict[str, Any]:
    """Return an event as JSON values: its fields, and "type", such as "turn_started"."""
    name = type(event).__name__
    spelled = "".join(f"_{char.lower()}" if char.isupper() else char for char in name)
    values: dict[str, Any] = {"type": spelled.removeprefix("_")}
    for field in fields(event):
        values[field.name] = getattr(event, field.name)
    if isinstance(event, FinalText):
        values |= {"text": event.text, "segments": [*map(segment_values, event.segments)]}
    elif isinstance(event, Settled):
        names = ("start", "end", "word", "probability")
        values["words"] = [{name: getattr(word, name) for name in names} for word in event.words]
    elif isinstance(event, Failed):
        values["error"] = str(event.error)
    return values


class LiveTerminal:
    """Prints settled text on a terminal, and draws its last line with the tail again and again.

    Args:
        console: the terminal.
        quiet: show no status.
        shows_lag: show how far the text is behind. A file is read ahead of its text.
    """

    def __init__(
        self, console: SharedConsole, *, quiet: bool = False, shows_lag: bool = True
    ) -> None:
        self._console, self._quiet, self._shows_lag = console, quiet, shows_lag
        self._turns = Turns()
        self._status, self._lag = "", 0.0
        self._live = Live(
            self, console=console, transient=True, auto_refresh=False, vertical_overflow="crop"
        )
        with console:
            self._live.start()

    def show(self, event: LiveEvent) -> None:
        """See `LiveScreen`."""
        with self._console:
            if isinstance(event, Lag):
                self._lag = event.seconds if self._shows_lag else 0.0
            elif isinstance(event, TurnStarted) and self._status == LISTENING:
                self._status = ""
            self._turns.take(event)
            for turn in self._turns.finished():
                self._print(self._styled(turn))
            for turn in [*self._turns.open.values()][:1]:
                self._print_complete_lines(turn)
            if isinstance(event, Failed):
                self._print([Text.assemble(("failed ", "bold red"), message_of(event.error))])
            self._live.refresh()

    def show_status(self, text: str) -> None:
        """See `LiveScreen`. The status is the last line."""
        with self._console:
            self._status = "" if self._quiet else escape_controls(text)
            self._live.refresh()

    def close(self) -> None:
        """See `LiveScreen`. After Ctrl-C, the text so far is printed."""
        with self._console:
            for turn in self._turns.open.values():
                turn.tail = ""
                self._print(self._styled(turn))
            self._turns.open.clear()
            self._status, self._lag = "", 0.0
            self._live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines that may change: the ends of the open turns, and the status."""
        lines: list[Text] = []
        for turn in self._turns.open.values():
            lines += self._styled(turn)
        if self._lag >= SHOWN_LAG:
            lines.append(Text(f"the text is {self._lag:.0f} s behind", "yellow"))
        if self._status:
            lines.append(Text(self._status, "dim", no_wrap=True, overflow="ellipsis"))
        yield from lines[-max(console.height - 1, 1) :]

    def _print(self, lines: list[Text]) -> None:
        for line in lines:
            self._console.print(line, soft_wrap=True, highlight=False)

    def _print_complete_lines(self, turn: Turn) -> None:
        """Print the settled lines, except the last, which may become longer."""
        settled = self._styled(replace(turn, tail=""))
        if len(settled) > 1:
            self._print(settled[:-1])
            turn.text, turn.begun = settled[-1].plain[self._margin :], True

    @property
    def _margin(self) -> int:
        """Columns before the text; none in a terminal that has no room for them."""
        return MARGIN if self._console.width >= MARGIN + MIN_TEXT_WIDTH else 0

    def _styled(self, turn: Turn) -> list[Text]:
        """Return the lines of a turn: its start, and its text beside it; none without text."""
        settled, text = one_line(turn.text), one_line(f"{turn.text}{turn.tail}")
        if not text:
            return []
        margin = self._margin
        start = " " * margin if turn.begun else f"{clock(turn.start):>{MARGIN - 2}}  "[:margin]
        width, unspaced = self._console.width - margin, turn.language in UNSPACED
        lines: list[Text] = []
        place = 0  # of the line in the text
        for line in hanging_lines(text, width, unspaced=unspaced):
            place = text.index(line, place)
            styled = Text.assemble((start, "dim"), line)
            styled.stylize("bright_black", margin + max(len(settled) - place, 0))
            lines.append(styled)
            place += len(line)
            start = " " * margin
        return lines


def open_live_screen(*, json_lines: bool, quiet: bool, shows_lag: bool = True) -> LiveScreen:
    """Return the screen for the terminal, pipe or file that standard output is.

    Args:
        json_lines: print each event as a line of JSON.
        quiet: show no status.
        shows_lag: on a terminal, show how far the text is behind.
    """
    if json_lines:
        return LiveRecords(quiet=quiet)
    if sys.stdout.isatty():
        return LiveTerminal(SharedConsole(), quiet=quiet, shows_lag=shows_lag)
    return LiveLines(quiet=quiet)
