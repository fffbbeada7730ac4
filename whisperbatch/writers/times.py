"""Times as formats write them: counted in whole milliseconds, and put into words here alone."""

from typing import Final

SECOND: Final = 1000  # ms
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE


def milliseconds(seconds: float, step: int = 1) -> int:
    """Seconds to milliseconds: the nearest multiple of `step`, none below 0."""
    return max(round(seconds * SECOND / step), 0) * step


def clock(time: int, mark: str = ".") -> str:
    """Milliseconds as hours, minutes and seconds, "01:02:03.045"; hours have two digits or more."""
    rest = time % MINUTE
    hours, minutes = time // HOUR, time // MINUTE % 60
    return f"{hours:02d}:{minutes:02d}:{rest // SECOND:02d}{mark}{rest % SECOND:03d}"


def short_clock(time: int) -> str:
    """Milliseconds as minutes and seconds, "62:03.04", the rest cut off; minutes do not wrap."""
    rest = time % MINUTE
    return f"{time // MINUTE:02d}:{rest // SECOND:02d}.{rest % SECOND // 10:02d}"


def decimal(time: int) -> str:
    """Milliseconds as seconds, "3723.045"."""
    return f"{time // SECOND}.{time % SECOND:03d}"
