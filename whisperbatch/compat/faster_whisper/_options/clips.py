"""faster-whisper's `clip_timestamps` as time ranges."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from whisperbatch.errors import OptionError
from whisperbatch.text import shown


def parse_clips(value: object) -> tuple[tuple[float, float | None], ...]:
    """Return time ranges in seconds; none for the whole recording.

    Args:
        value: "start,end,start,...", a list of these times, or a list of dicts with the keys
            "start" and "end".

    Raises:
        OptionError: the value is of another kind.
    """
    try:
        if isinstance(value, str):
            value = [float(time) for time in value.split(",") if time.strip()]
        clips = _time_ranges(cast("Sequence[Any]", value or ()))
    except Exception as error:  # a foreign object may raise anything
        raise OptionError(
            f"clip_timestamps={shown(value)} is neither times such as '10,20,30', a list of times, "
            "nor a list of {'start': 10, 'end': 20}"
        ) from error
    return () if clips == ((0, None),) else clips


def _time_ranges(values: Sequence[Any]) -> tuple[tuple[float, float | None], ...]:
    if values and isinstance(values[0], Mapping):
        return tuple((float(clip["start"]), float(clip["end"])) for clip in values)
    times = [float(time) for time in values]
    ends: list[float | None] = [*times[1::2], None]
    return tuple(zip(times[::2], ends, strict=False))
