"""Help of a command of many flags: in groups, each name whole, however narrow the terminal is."""

from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from typer.core import TyperCommand

WIDEST: Final = 100  # columns: longer lines are hard to read
OTHERS: Final = "Options"


class Listed(TyperCommand):
    """A command that shows its flags as a list."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002 - typer's own
        """Usage, what it does, and the flags of each group, those of none first."""
        console = Console(highlight=False)
        console.width = min(console.width, WIDEST)
        console.print(escape(self.get_usage(ctx)))
        console.print(f"\n{escape(self.help or '')}")
        groups: dict[str, list[tuple[str, str]]] = {}
        for one in self.get_params(ctx):
            if record := one.get_help_record(ctx):
                panel = getattr(one, "rich_help_panel", None) or OTHERS
                groups.setdefault(str(panel), []).append(record)
        for panel, records in groups.items():
            console.print(f"\n[bold]{panel}[/bold]")
            for names, said in records:
                console.print(f"  [cyan]{escape(names)}[/cyan]")
                console.print(Padding(escape(said), (0, 0, 0, 6)))
