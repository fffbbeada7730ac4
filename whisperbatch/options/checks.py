"""Checks of option values. Each check raises an OptionError that names the option."""

import math
from dataclasses import fields
from typing import Final

from whisperbatch.errors import OptionError
from whisperbatch.text.languages import check_language

MAX_DURATION: Final = 1e9  # seconds: 30 years, longer than every recording


def default(group: type, name: str) -> object:
    """Return the default value of a field of an option group."""
    return next(field.default for field in fields(group) if field.name == name)


def without_effect(group: object, names: tuple[str, ...], where: str) -> None:
    """Refuse options that have no effect in this situation and are not at their defaults.

    Args:
        group: a value of an option group.
        names: the fields that have no effect.
        where: the situation, for the message: "with vad=False".

    Raises:
        OptionError: the value of a field is not its default.
    """
    for name in names:
        if getattr(group, name) != default(type(group), name):
            raise OptionError(f"{name} has no effect {where}; leave it out")


def number(name: str, value: object, *, minimum: float, maximum: float = MAX_DURATION) -> None:
    """Check for a finite number in a range."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise OptionError(f"{name} must be a number, not {value!r}")
    if not minimum <= value <= maximum:
        raise OptionError(f"{name}={value!r} is out of range: {_range(minimum, maximum)}")


def integer(name: str, value: object, *, minimum: int, maximum: float = math.inf) -> None:
    """Check for a whole number in a range."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise OptionError(f"{name} must be a whole number, not {value!r}")
    if not minimum <= value <= maximum:
        raise OptionError(f"{name}={value!r} is out of range: {_range(minimum, maximum)}")


def _range(minimum: float, maximum: float) -> str:
    return f"at least {minimum:g}" if maximum == math.inf else f"from {minimum:g} to {maximum:g}"


def boolean(name: str, value: object) -> None:
    """Check for True or False."""
    if not isinstance(value, bool):
        raise OptionError(f"{name} must be True or False, not {value!r}")


def choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Check for a value out of `choices`."""
    if value not in choices:
        raise OptionError(f"{name}={value!r} is none of {', '.join(choices)}")


def room_for_speech(name: str, duration: float, pad: float) -> None:
    """Check that a duration leaves at least 1 s for speech between two margins."""
    if duration < 2 * pad + 1:
        raise OptionError(
            f"{name}={duration} leaves less than 1 s between two margins of speech_pad={pad}; "
            f"raise {name} or lower speech_pad"
        )


def beam(beam_size: int, patience: float, length_penalty: float) -> None:
    """Check that the options of beam search fit the beam size."""
    if beam_size == 1:
        for name, value in (("patience", patience), ("length_penalty", length_penalty)):
            if value != 1:
                raise OptionError(
                    f"{name}={value} has no effect on greedy search; give a beam_size above 1"
                )
    if beam_size * patience < 1:
        raise OptionError(
            f"patience={patience} with beam_size={beam_size} asks for less than one hypothesis; "
            "raise patience or beam_size"
        )


def tokens(name: str, tokens: object, *, minimum: int) -> None:
    """Check for a tuple of token ids; `minimum` is -1 where -1 stands for the model's list."""
    if not isinstance(tokens, tuple) or not all(type(token) is int for token in tokens):
        raise OptionError(f"{name} must be a tuple of token ids, not {tokens!r}")
    if any(token < minimum for token in tokens):
        exception = ", or -1 for the model's own list" if minimum < 0 else ""
        raise OptionError(f"{name}: a token id must be at least 0{exception}")


def clips(clips: object) -> None:
    """Check for time ranges in seconds, in ascending order and without overlap."""
    form = "clip_timestamps must be a tuple of (start, end) pairs in seconds"
    if not isinstance(clips, tuple):
        raise OptionError(f"{form}, not {clips!r}")
    position = 0.0
    for index, clip in enumerate(clips):
        if not isinstance(clip, tuple) or len(clip) != 2:  # noqa: PLR2004 - a pair
            raise OptionError(f"{form}; number {index} is {clip!r}")
        start, end = clip
        number(f"clip_timestamps[{index}] start", start, minimum=0)
        if end is None and index < len(clips) - 1:
            raise OptionError("clip_timestamps: only the last range may have None as its end")
        if end is not None:
            number(f"clip_timestamps[{index}] end", end, minimum=0)
        if start < position or (end is not None and end <= start):
            raise OptionError(
                f"clip_timestamps[{index}]={clip!r}: the end of a range must be after its start, "
                "and ranges must be in ascending order, without overlap"
            )
        position = end if end is not None else math.inf


def languages(names: object) -> tuple[str, ...]:
    """Return the codes of languages given by code or English name; each may occur only once."""
    if not isinstance(names, tuple):
        raise OptionError(f"languages must be a tuple of codes such as ('en', 'fr'), not {names!r}")
    codes = tuple(check_language(name, "languages") for name in names)
    if len(set(codes)) < len(codes):
        raise OptionError(f"languages={names!r} contains a language twice; remove one of them")
    return codes
