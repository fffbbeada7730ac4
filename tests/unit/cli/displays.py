"""A terminal in memory."""

import io

import pyte

from whisperbatch.cli.screen import SharedConsole


class Display:
    """A terminal in memory, with a clock that only the test moves."""

    def __init__(self, columns: int, rows: int = 24) -> None:
        self._out = io.StringIO()
        self._read = 0
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.Stream(self._screen)
        self.now = 0.0
        self.console = SharedConsole(
            file=self._out,
            force_terminal=True,
            width=columns,
            height=rows,
            legacy_windows=False,
            get_time=lambda: self.now,
        )

    def rows(self) -> list[str]:
        """The rows on the screen, without empty rows at the end."""
        written = self._out.getvalue()  # a thread of Rich may write at any time
        self._stream.feed(written[self._read :].replace("\n", "\r\n"))
        self._read = len(written)
        # pyte has an empty cell after each wide character
        rows = [row.rstrip() for row in self._screen.display]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def cells(self, row: int) -> list[pyte.screens.Char]:
        """The characters of a row, with their colours, as `rows` has seen them last."""
        return [self._screen.buffer[row][column] for column in range(self._screen.columns)]
