"""The help page of a command with many flags: a list in groups, readable on narrow terminals."""

from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from typer.core import TyperCommand

MAX_WIDTH: Final = 100  # columns: longer lines are hard to read
UNGROUPED: Final = "Options"  # heading of the flags without a group


class ListedCommand(TyperCommand):
    """A command whose help page lists each flag above its description.

    Typer's own table cuts names off when the terminal is narrow.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002 - as in Typer
        """Print the usage, the description, and the flags of each group."""
        console = Console(highlight=False)
        console.width = min(console.width, MAX_WIDTH)
        console.print(escape(self.get_usage(ctx)))
        console.print(f"\n{escape(self.help or '')}")
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                panel = getattr(parameter, "rich_help_panel", None) or UNGROUPED
                groups.setdefault(str(panel), []).append(record)
        for panel, records in groups.items():
            console.print(f"\n[bold]{panel}[/bold]")
            for names, description in records:
                console.print(f"  [cyan]{escape(names)}[/cyan]")
                console.print(Padding(escape(description), (0, 0, 0, 6)))
