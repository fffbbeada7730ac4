"""Times as the file formats write them: whole milliseconds, printed as text."""

from typing import Final

SECOND: Final = 1000  # ms
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE


def milliseconds(seconds: float, step: int = 1) -> int:
    """Round seconds to the nearest multiple of `step` milliseconds; negative times become 0."""
    return max(round(seconds * SECOND / step), 0) * step


def clock(time: int, mark: str = ".") -> str:
    """Format milliseconds as hours, minutes and seconds: "01:02:03.045".

    Hours have at least two digits. `mark` separates seconds from milliseconds.
    """
    hours, minutes = time // HOUR, time // MINUTE % 60
    seconds, fraction = divmod(time % MINUTE, SECOND)
    return f"{hours:02d}:{minutes:02d}:{seconds:02d}{mark}{fraction:03d}"


def short_clock(time: int) -> str:
    """Format milliseconds as minutes and seconds: "62:03.04".

    Minutes may exceed 59. Thousandths of a second are cut off.
    """
    seconds, fraction = divmod(time % MINUTE, SECOND)
    return f"{time // MINUTE:02d}:{seconds:02d}.{fraction // 10:02d}"


def decimal(time: int) -> str:
    """Format milliseconds as seconds: "3723.045"."""
    return f"{time // SECOND}.{time % SECOND:03d}"
