"""Progress as bars of tqdm: on a terminal, or as a widget in a notebook."""

import time
from pathlib import Path
from typing import Any

from whisperbatch.progress.meter import Progress
from whisperbatch.text.messages import MAX_PART

UNITS = {"transcribe": "s", "diarize": "s", "download": "B"}


class Bars:
    """Shows a bar for each work until it ends. A function for the keyword `progress`.

    Args:
        unit: of the numbers; None for that of the stage.
        named: whether a bar has the name of its recording.
    """

    def __init__(self, unit: str | None = None, *, named: bool = True) -> None:
        self._unit, self._named = unit, named
        self._bars: dict[tuple[str, str], Any] = {}

    def __call__(self, progress: Progress) -> None:
        """Show a progress: never beyond the end of its bar, where tqdm would warn."""
        key = progress.stage, progress.source
        if key not in self._bars:
            self._bars[key] = self._open(progress)
        bar = self._bars[key]
        bar.total = None if progress.total is None else round(progress.total, 2) or None
        bar.start_t = time.time() - progress.elapsed
        bar.n = min(round(progress.position, 2), bar.total or progress.position)
        bar.refresh()
        if progress.done:
            self._bars.pop(key).close()

    def _open(self, progress: Progress) -> Any:  # noqa: ANN401 - tqdm ships no types
        from tqdm.auto import tqdm  # noqa: PLC0415 - slow to import in a notebook

        what = {"transcribe": "", "diarize": "speakers of ", "download": "downloading "}
        name = progress.source if progress.stage == "download" else Path(progress.source).name
        return tqdm(
            desc=f"{what[progress.stage]}{name[-MAX_PART:]}" if self._named else None,
            unit=self._unit or UNITS[progress.stage],
            unit_scale=progress.stage == "download",
            leave=not self._named,
        )
