"""What an option's value may be: each check raises OptionError, naming the option."""

import math
from dataclasses import fields
from typing import Final

from whisperbatch.errors import OptionError
from whisperbatch.text.languages import check_language

LONGEST: Final = 1e9  # seconds, some thirty years: no duration is longer


def default(group: type, name: str) -> object:
    """What a field of an option group is when nobody sets it."""
    return next(field.default for field in fields(group) if field.name == name)


def without_effect(group: object, names: tuple[str, ...], where: str) -> None:
    """Fields of an option group that have no effect, as `where` says, and so must be as they are.

    Raises:
        OptionError: one of them is not its default.
    """
    for name in names:
        if getattr(group, name) != default(type(group), name):
            raise OptionError(f"{name} has no effect {where}; leave it out")


def number(name: str, value: object, *, least: float, most: float = LONGEST) -> None:
    """A finite number in a range."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise OptionError(f"{name} must be a number, not {value!r}")
    if not least <= value <= most:
        raise OptionError(f"{name}={value!r} is out of range: {_range(least, most)}")


def integer(name: str, value: object, *, least: int, most: float = math.inf) -> None:
    """A whole number in a range."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise OptionError(f"{name} must be a whole number, not {value!r}")
    if not least <= value <= most:
        raise OptionError(f"{name}={value!r} is out of range: {_range(least, most)}")


def _range(least: float, most: float) -> str:
    return f"at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"


def boolean(name: str, value: object) -> None:
    """True or False."""
    if not isinstance(value, bool):
        raise OptionError(f"{name} must be True or False, not {value!r}")


def choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """One of the choices."""
    if value not in choices:
        raise OptionError(f"{name}={value!r} is none of {', '.join(choices)}")


def room(name: str, duration: float, pad: float) -> None:
    """A length that leaves room for speech between two margins."""
    if duration < 2 * pad + 1:
        raise OptionError(
            f"{name}={duration} leaves less than 1 s between two margins of speech_pad={pad}; "
            "raise the one or lower the other"
        )


def beam(beam_size: int, patience: float, length_penalty: float) -> None:
    """Beam search's own options, with a beam that they have an effect on."""
    if beam_size == 1:
        for name, value in (("patience", patience), ("length_penalty", length_penalty)):
            if value != 1:
                raise OptionError(
                    f"{name}={value} has no effect on greedy search; give a beam_size above 1"
                )
    if beam_size * patience < 1:
        raise OptionError(
            f"patience={patience} with beam_size={beam_size} asks for less than one hypothesis; "
            "raise either"
        )


def tokens(name: str, tokens: object, *, least: int) -> None:
    """A tuple of token ids."""
    if not isinstance(tokens, tuple) or not all(type(token) is int for token in tokens):
        raise OptionError(f"{name} must be a tuple of token ids, not {tokens!r}")
    if any(token < least for token in tokens):
        own = ", or -1 for the model's own list" if least < 0 else ""
        raise OptionError(f"{name}: an id is at least 0{own}")


def clips(clips: object) -> None:
    """Ranges in seconds, in order, without overlap."""
    wanted = "clip_timestamps must be a tuple of (start, end) pairs in seconds"
    if not isinstance(clips, tuple):
        raise OptionError(f"{wanted}, not {clips!r}")
    position = 0.0
    for place, clip in enumerate(clips):
        if not isinstance(clip, tuple) or len(clip) != 2:  # noqa: PLR2004 - a pair
            raise OptionError(f"{wanted}; number {place} is {clip!r}")
        start, end = clip
        number(f"clip_timestamps[{place}] start", start, least=0)
        if end is None and place < len(clips) - 1:
            raise OptionError("clip_timestamps: only the last range may have no end")
        if end is not None:
            number(f"clip_timestamps[{place}] end", end, least=0)
        if start < position or (end is not None and end <= start):
            raise OptionError(
                f"clip_timestamps[{place}]={clip!r}: ranges must have an end after their start "
                "and come in order, without overlap"
            )
        position = end if end is not None else math.inf


def languages(codes: object) -> tuple[str, ...]:
    """The codes of several languages, given by code or name, each once."""
    if not isinstance(codes, tuple):
        raise OptionError(f"languages must be a tuple of codes such as ('en', 'fr'), not {codes!r}")
    found = tuple(check_language(code, "languages") for code in codes)
    if len(set(found)) < len(found):
        raise OptionError(f"languages={codes!r} has a language twice")
    return found
