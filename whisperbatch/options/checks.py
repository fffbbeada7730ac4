"""Checks of option values. Each check raises an OptionError that names the option.

Programs pass `np.int64(5)`, `np.float32(0.5)`, `np.bool_(True)` or a member of a `StrEnum` where
an option needs an int, a float, a bool or a str. All options accept these values. `plain` converts
them first: the checks see only exact types, so no method of a foreign class is called.
"""

import math
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, Final, TypeAlias, cast

from whisperbatch.errors import OptionError
from whisperbatch.limits import MAX_DURATION
from whisperbatch.text.language_names import check_language
from whisperbatch.text.messages import shown

NESTED: Final = 2  # levels of tuples: clip_timestamps is a tuple of pairs
MIN_CLIP: Final = 0.01  # seconds: one feature frame; the encoder sees nothing of a shorter clip
MAX_TOKEN: Final = 99_999  # Whisper's vocabularies have up to 51,866 tokens


Converter: TypeAlias = Callable[[Any], object]


def plain(value: object, levels: int = NESTED) -> object:
    """Return a value of bool, int, float, str or tuple in exactly this type.

    Args:
        value: any value; NumPy's numbers and values of derived types are converted, and a list
            becomes a tuple.
        levels: levels of tuples and lists whose items are converted, too.

    Returns:
        The converted value; a value of another type is returned unchanged.
    """
    kind = type(value)
    if kind in {bool, int, float, str, type(None)}:
        return value
    if kind is list:
        value, kind = tuple(cast("list[object]", value)), tuple
    if issubclass(kind, tuple) and levels:
        items = tuple.__iter__(cast("tuple[object, ...]", value))
        return tuple(plain(item, levels - 1) for item in items)
    for foreign, convert in _converters():
        if issubclass(kind, foreign):
            return convert(value)
    return value


def _converters() -> Iterator[tuple[type, Converter]]:
    """Yield types, each with the function that converts their values."""
    yield int, int.__int__  # the methods of the built-in types, not those of a derived type
    yield float, float.__float__
    yield str, str.__str__
    if numpy := sys.modules.get("numpy"):  # if it is not imported, no value is of its types
        yield (
            numpy.timedelta64,
            lambda duration: duration,
        )  # a derived type of numpy.integer, but no number
        yield numpy.bool_, bool
        yield numpy.integer, int
        yield numpy.floating, float


def is_number(value: object, number: float) -> bool:
    """Return whether any value equals a number; False and True are no numbers."""
    converted = plain(value)
    return type(converted) in {int, float} and converted == number


def is_same(value: object, other: object) -> bool:
    """Return whether any value equals a value of Python's own type; 0 is not the same as False."""
    converted = plain(value)
    return type(converted) is type(other) and converted == other


def convert_fields(group: object, declared_in: type) -> None:
    """Convert the values of a frozen dataclass with `plain`.

    Args:
        group: the value that is being made.
        declared_in: its class, or a base class: only the fields of this class are converted.
    """
    for field in fields(declared_in):
        value = getattr(group, field.name)
        converted = plain(value)
        if converted is not value:
            object.__setattr__(group, field.name, converted)


def default(group: type, name: str) -> object:
    """Return the default value of a field of a dataclass."""
    return next(field.default for field in fields(group) if field.name == name)


def without_effect(group: object, names: tuple[str, ...], where: str) -> None:
    """Refuse options that have no effect in this situation and are not at their defaults.

    Args:
        group: a value of a dataclass of options.
        names: the fields that have no effect.
        where: the situation, for the message: "with `vad=False`".

    Raises:
        OptionError: the value of a field is not its default.
    """
    for name in names:
        if getattr(group, name) != default(type(group), name):
            raise OptionError(f"`{name}` has no effect {where}; leave it out")


def number(name: str, value: object, *, minimum: float, maximum: float) -> None:
    """Check for a finite number in a range."""
    if type(value) not in {int, float}:
        raise OptionError(f"`{name}` must be a number, not {shown(value)}")
    _in_range(name, value, minimum, maximum)


def integer(name: str, value: object, *, minimum: int, maximum: int) -> None:
    """Check for a whole number in a range."""
    if type(value) is not int:
        raise OptionError(f"`{name}` must be a whole number, not {shown(value)}")
    _in_range(name, value, minimum, maximum)


def _in_range(name: str, value: object, minimum: float, maximum: float) -> None:
    if not minimum <= value <= maximum:  # type: ignore[operator]  # a number
        raise OptionError(
            f"`{name}={shown(value)}` is out of range: from {minimum:.12g} to {maximum:.12g}"
        )


def boolean(name: str, value: object) -> None:
    """Check for True or False."""
    if type(value) is not bool:
        raise OptionError(f"`{name}` must be True or False, not {shown(value)}")


def choice(name: str, value: object, choices: tuple[str | int, ...]) -> None:
    """Check for a value out of `choices`."""
    if type(value) not in {str, int} or value not in choices:
        raise OptionError(f"`{name}={shown(value)}` is none of {', '.join(map(str, choices))}")


def text(name: str, value: object, *, max_length: int) -> None:
    """Check for text that is not blank and that UTF-8 can encode."""
    if type(value) is not str:
        raise OptionError(f"`{name}` must be text, not {shown(value)}")
    if len(value) > max_length:
        raise OptionError(f"`{name}` has {len(value)} characters; give at most {max_length}")
    if not value.strip():
        raise OptionError(f"`{name}` is empty; leave it out")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise OptionError(
            f"`{name}={shown(value)}`: character {error.start} is a lone surrogate, which is not "
            "text; decode the text as UTF-8"
        ) from error


def path(name: str, value: object) -> None:
    """Check for the path of a file or directory: text, or an object with a path."""
    try:
        valid = type(os.fspath(value)) is str  # type: ignore[call-overload]  # any value
    except Exception as error:  # a foreign object may raise anything
        raise OptionError(f"`{name}={shown(value)}` must be a name or a path") from error
    if not valid:
        raise OptionError(f"`{name}={shown(value)}` must be a name or a path")


def room_for_speech(name: str, duration: float, pad: float) -> None:
    """Check that a duration leaves at least 1 s for speech between two margins."""
    if duration < 2 * pad + 1:
        raise OptionError(
            f"`{name}={duration}` leaves less than 1 s between two margins of `speech_pad={pad}`; "
            f"raise `{name}` or lower `speech_pad`"
        )


def beam(beam_size: int, patience: float, length_penalty: float) -> None:
    """Check that the options of beam search fit the beam size."""
    if beam_size == 1:
        for name, value in (("patience", patience), ("length_penalty", length_penalty)):
            if value != 1:
                raise OptionError(
                    f"`{name}={value}` has no effect on greedy search; give a `beam_size` above 1"
                )
    if beam_size * patience < 1:
        raise OptionError(
            f"`patience={patience}` with `beam_size={beam_size}` asks for less than one "
            "hypothesis; raise `patience` or `beam_size`"
        )


def tokens(name: str, tokens: object, *, minimum: int) -> None:
    """Check for a tuple of token ids; `minimum` is -1 where -1 stands for the model's list."""
    if type(tokens) is not tuple or not all(type(token) is int for token in tokens):
        raise OptionError(f"`{name}` must be a tuple of token ids, not {shown(tokens)}")
    for token in tokens:
        if not minimum <= token <= MAX_TOKEN:
            exception = ", or -1 for the model's own list" if minimum < 0 else ""
            raise OptionError(
                f"`{name}`: {shown(token)} is no token id: from 0 to {MAX_TOKEN}{exception}"
            )


def clips(clips: object) -> None:
    """Check for time ranges in seconds, in ascending order and without overlap."""
    form = "`clip_timestamps` must be a tuple of (start, end) pairs in seconds"
    if type(clips) is not tuple:
        raise OptionError(f"{form}, not {shown(clips)}")
    position = 0.0
    for index, clip in enumerate(clips):
        if type(clip) is not tuple or len(clip) != 2:  # noqa: PLR2004 - a pair
            raise OptionError(f"{form}; number {index} is {shown(clip)}")
        start, end = clip
        number(f"clip_timestamps[{index}] start", start, minimum=0, maximum=MAX_DURATION)
        if end is None:
            if index < len(clips) - 1:
                raise OptionError("`clip_timestamps`: only the last range may have None as its end")
            end = math.inf
        else:
            number(f"clip_timestamps[{index}] end", end, minimum=0, maximum=MAX_DURATION)
        if start < position or end <= start:
            raise OptionError(
                f"`clip_timestamps`[{index}]={shown(clip)}: the end of a range must be after its "
                "start, and ranges must be in ascending order, without overlap"
            )
        if round((end - start) / MIN_CLIP, 6) < 1:
            raise OptionError(
                f"`clip_timestamps`[{index}]={shown(clip)} is shorter than {MIN_CLIP} s, one frame "
                "of the model's input; give a longer range"
            )
        position = end


def languages(names: object) -> tuple[str, ...]:
    """Return the codes of languages given by any of their names; each may occur only once."""
    if type(names) is not tuple:
        raise OptionError(
            f"`languages` must be a tuple of codes such as ('en', 'fr'), not {shown(names)}"
        )
    codes = tuple(check_language(name, "languages") for name in names)
    if len(set(codes)) < len(codes):
        twice = next(code for code in codes if codes.count(code) > 1)
        raise OptionError(
            f"`languages={shown(names)}` contains {twice!r} twice; remove one of the two names"
        )
    return codes
