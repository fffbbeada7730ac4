"""Segments of a window, between its timestamp tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

TIMESTAMP_STEP: Final = 0.02  # seconds between two timestamp tokens


@dataclass(frozen=True, slots=True)
class Stretch:
    """The tokens between two timestamps.

    Attributes:
        start: in seconds from the start of the window.
        end: in seconds from the start of the window.
        tokens: token ids, with the timestamps.
    """

    start: float
    end: float
    tokens: list[int]


def split_at_timestamps(
    tokens: Sequence[int], first_timestamp: int, duration: float
) -> tuple[list[Stretch], float]:
    """Return the stretches of a window, and where the next window starts.

    Two timestamps in a row end a stretch and begin the next. Text after the last pair is not
    complete: the next window starts at this pair. If only one timestamp ends the text, there is no
    more speech in the window, and the next window starts at its end.

    Args:
        tokens: of the window.
        first_timestamp: the token of 0.00 s.
        duration: of the window in seconds.

    Returns:
        The stretches in order, and seconds from the start of the window, above 0.
    """
    is_time = [token >= first_timestamp for token in tokens]
    times = [(token - first_timestamp) * TIMESTAMP_STEP for token in tokens]
    borders = [end for end in range(1, len(tokens)) if is_time[end - 1] and is_time[end]]
    if not borders:
        last = next(
            (time for time, known in zip(times[::-1], is_time[::-1], strict=True) if known), 0
        )
        return [Stretch(0.0, last or duration, list(tokens))], duration
    ends_with_text_and_time = is_time[-1] and not is_time[-2]
    if ends_with_text_and_time:
        borders.append(len(tokens))
    stretches = [
        Stretch(times[start] if is_time[start] else 0.0, times[end - 1], list(tokens[start:end]))
        for start, end in pairwise([0, *borders])
    ]
    next_start = duration if ends_with_text_and_time else times[borders[-1] - 1]
    return stretches, next_start if next_start > 0 else duration
