"""The progress of downloads from the Hugging Face hub, which reports to a class of tqdm.

`load(..., progress=...)` sets who shows the progress; the functions that download, far below, read
it. A version of the hub's package that does not count the bytes of a whole snapshot for such a
class shows bars of its own.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from whisperbatch.progress.meter import Meter, ShowProgress

_shown: Final[ContextVar[ShowProgress | None]] = ContextVar("shown", default=None)


@contextmanager
def shows_downloads(show: ShowProgress | None) -> Iterator[None]:
    """Show the downloads of this thread with a function, until the end of a `with` block."""
    token = _shown.set(show)
    try:
        yield
    finally:
        _shown.reset(token)


@contextmanager
def downloading(repository: str, *, local: bool = False) -> Iterator[dict[str, Any]]:
    """Return the keywords for `huggingface_hub.snapshot_download` with which it reports.

    Args:
        repository: its name.
        local: whether only the cache is read, so that there is no progress.
    """
    show = _shown.get()
    if show is None or local:
        yield {}
        return
    meter = Meter("download", repository, None, show)
    try:
        yield {"tqdm_class": _reporting(meter)}
    finally:
        meter.end()


def _reporting(meter: Meter) -> type:
    """Return a class of tqdm that writes nothing, and gives its bytes to the meter."""
    from tqdm import tqdm  # noqa: PLC0415 - only a download needs it

    class Bar(tqdm):  # type: ignore[misc]  # tqdm ships no types
        def __init__(self, *arguments: object, **keywords: object) -> None:
            keywords.pop("name", None)  # of the hub's own class
            super().__init__(*arguments, **{**keywords, "file": io.StringIO()})

        def display(self, *_: object, **__: object) -> None:
            if self.unit == "B":  # other bars count files
                meter.advance(self.n, self.total or None)

    return Bar
