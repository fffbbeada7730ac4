"""Values of options, made from the declared types and the numbers in the descriptions."""

import dataclasses
import enum
import fractions
import pathlib
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from os import PathLike
from random import Random
from typing import Any, Final, Literal

import numpy as np

from whisperbatch.api import LOAD_PARAMETERS, load
from whisperbatch.engines.settings import SETTINGS, EngineSettings, LoadKeywords
from whisperbatch.errors import OptionError
from whisperbatch.options import Options, documented_fields
from whisperbatch.options.values import AnyDiarizer
from whisperbatch.text.languages import LANGUAGES
from whisperbatch.types import Diarization

INTEGERS: Final = (-2, -1, 0, 1, 2, 3, 5, 8, 10, 30, 50, 220, 224, 448, 1000, 50_257, 51_864)
ATTEMPTS: Final = 10  # to make a value that is accepted
FLOATS: Final = (-1.0, -0.5, 0.0, 0.01, 0.1, 0.35, 0.5, 0.99, 1.0, 1.5, 2.4, 5.0, 30.0, 100.0)
STRINGS: Final = (
    *("en", "fr", "hello there", "Dr. Müller, GPU", "auto", "cpu", "cuda", "int8", "tiny.en", "是"),
    *("float32", "none", "English", "<|endoftext|>", "word " * 60, "whisper", "mix", "EN"),
)
EXTREMES: Final = (
    *(10**30, -(10**30), 10**5000, 2**31, 2**32, 2**53, 2**63, 2**64, -(2**63), 1e308, -1e308),
    *(5e-324, float("nan"), float("inf"), float("-inf"), -0.0, "", " ", "\0", "\ud800", "a\nb"),
    *("x" * 1_000_000, "\u202e", "\x1b[31m", "é" * 300, (), ("",), (None,), tuple(range(100_000))),
    *((10**30,), (-1, -1), ((),), ((0.0, 0.0),), ((1.0, 0.5),), ((0.0, float("nan")),)),
    *(((0.0, 1e308),), ((0.0, None), (1.0, 2.0)), (float("nan"),), tuple(range(51_865))),
    tuple((n / 1000, n / 1000 + 0.0005) for n in range(2000)),
    tuple(n / 100 for n in range(300)),
)


class _Number(enum.IntEnum):
    ONE = 1


class _Own:
    """An object with a representation of two lines."""

    def __repr__(self) -> str:
        return "<an object\nof a caller>"


class _OwnText(str):
    __slots__ = ()


class _OwnFloat(float):
    __slots__ = ()


WRONG: Final[tuple[Callable[[], Any], ...]] = (
    *(lambda: None, list, dict, set, object, bytes, _Own, lambda: 1j, lambda: Decimal("0.5")),
    *(lambda: fractions.Fraction(1, 2), lambda: True, lambda: False, lambda: ..., lambda: _Own),
    *(lambda: np.array([1, 2]), lambda: np.array([]), lambda: np.float32(0.5), lambda: np.int64(1)),
    *(
        lambda: np.bool_(1),
        lambda: np.str_("en"),
        lambda: np.array(1.0),
        lambda: "1",
        lambda: "0.5",
    ),
    *(lambda: (1,), lambda: [1], lambda: ["en"], lambda: {"a": 1}, lambda: {"en"}, lambda: b"en"),
    *(
        lambda: range(3),
        lambda: iter(()),
        lambda: print,
        lambda: ValueError("x"),
        lambda: _Number.ONE,
    ),
    *(lambda: _OwnText("en"), lambda: _OwnFloat(0.5), lambda: pathlib.Path("x"), lambda: ("en", 1)),
    *(lambda: NotImplemented, lambda: [[1, 2]] * 2, lambda: slice(1), lambda: [0] * 100_000),
    *(
        lambda: {n: n for n in range(10_000)},
        lambda: np.zeros((100, 100)),
        lambda: memoryview(b"x"),
    ),
)


@dataclasses.dataclass(frozen=True)
class Declared:
    """An option or setting: its class, name, type, default and description."""

    owner: type
    name: str
    type: Any
    default: Any
    text: str


def _declared(owner: type) -> Iterator[Declared]:
    texts = documented_fields(owner)
    hints = typing.get_type_hints(owner)
    for field in dataclasses.fields(owner):
        yield Declared(
            owner, field.name, hints[field.name], field.default, texts.get(field.name, "")
        )


def options() -> dict[str, Declared]:
    """Return the fields of `Options`."""
    return {option.name: option for option in _declared(Options)}


def settings() -> dict[str, Declared]:
    """Return the keywords of `load`."""
    hints = typing.get_type_hints(LoadKeywords)
    texts = documented_fields(load)
    owners = {
        field.name: owner for owner in SETTINGS.values() for field in dataclasses.fields(owner)
    }
    return {
        name: Declared(
            owners.get(name, LoadKeywords), name, hints[name], parameter.default, texts[name]
        )
        for name, parameter in LOAD_PARAMETERS.items()
    }


def value(option: Declared, random: Random) -> tuple[Any, str]:
    """Return a value of an option, and the description of the value."""
    kind = random.choices(("valid", "boundary", "extreme", "wrong"), (50, 20, 15, 15))[0]
    if kind == "valid":
        made = valid(option.type, random, option)
    elif kind == "boundary":
        made = boundary(option, random)
    elif kind == "extreme":
        made = random.choice(EXTREMES)
    else:
        made = random.choice(WRONG)()
    return made, f"{option.name}={shown(made)} ({kind})"


def good_value(option: Declared, random: Random) -> tuple[Any, str]:
    """Return a value that is accepted if no other option is given, and its description."""
    made = option.default
    for _ in range(ATTEMPTS):
        candidate = valid(option.type, random, option)
        try:
            option.owner(**{option.name: candidate})
        except OptionError:
            continue
        made = candidate
        break
    return made, f"{option.name}={shown(made)} (good)"


def shown(made: object) -> str:
    """Return a short representation; Python refuses to write integers of 5000 digits."""
    if isinstance(made, int) and abs(made) > 10**40:
        return "10**5000"
    if isinstance(made, tuple) and made and isinstance(made[0], int) and len(made) > 20:
        return f"(0, ..., {len(made) - 1})"
    return ascii(made)[:80] if len(str(type(made))) < 200 else "?"


def valid(hint: Any, random: Random, option: Declared) -> Any:
    """Return a random value of a type.

    Raises:
        NotImplementedError: no value of such a type can be made; add its maker to `MAKERS`.
    """
    kind = typing.get_origin(hint) or hint
    if kind not in MAKERS:
        raise NotImplementedError(f"{option.name}: a value of type {hint}")
    return MAKERS[kind](hint, random, option)


def _valid_choice(hint: Any, random: Random, _: Declared) -> Any:
    return random.choice(typing.get_args(hint))


def _valid_union(hint: Any, random: Random, option: Declared) -> Any:
    return valid(random.choice(typing.get_args(hint)), random, option)


def _valid_tuple(hint: Any, random: Random, option: Declared) -> tuple[Any, ...]:
    arguments = typing.get_args(hint)
    if arguments[-1] is not Ellipsis:
        made = [valid(argument, random, option) for argument in arguments]
        numbers = sorted(abs(number) for number in made if number is not None)
        return tuple(numbers + [None] * (len(made) - len(numbers)))
    items = [valid(arguments[0], random, option) for _ in range(random.choice((0, 1, 1, 2, 4)))]
    if random.random() < 0.7 and not any(isinstance(item, tuple) for item in items):
        items = sorted(set(items))
    return tuple(items)


def _valid_text(_: Any, random: Random, option: Declared) -> str:
    if "language" in option.name:
        return random.choice(tuple(LANGUAGES))
    quoted: list[str] = re.findall(r'"(\w[\w-]*)"', option.text)
    return random.choice((*STRINGS, *quoted * 3))


def _valid_number(kind: Any, random: Random, option: Declared) -> Any:
    numbers = numbers_in(option)
    if kind is int:
        return random.choice((*INTEGERS, *(int(number) for number in numbers)))
    low, high = min((*numbers, 0.0)), max((*numbers, 1.0))
    return random.choice((random.choice(FLOATS), random.uniform(low, high), random.random()))


def numbers_in(option: Declared) -> list[float]:
    """Return the numbers in the description of an option, and its default."""
    found = re.findall(r"(?<![\w.*])-?\d[\d_]*(?:\.\d+)?(?:\*\*\d+)?(?![\w*])",
                       option.text.replace(" ** ", "**"))  # fmt: skip
    numbers = [float(n) if "**" not in n else float(2 ** int(n.split("**")[1])) for n in found]
    if isinstance(option.default, float | int):
        numbers.append(float(option.default))
    return numbers


def boundary(option: Declared, random: Random) -> Any:
    """Return a number at, or next to, a number in the option's description."""
    number = random.choice((*numbers_in(option), 0.0, 1.0))
    number += random.choice((0, 0, 1, -1, 1e-9, -1e-9, 0.001))
    made: Any = int(number) if number == int(number) and random.random() < 0.8 else number
    if typing.get_origin(option.type) is tuple:
        return random.choice(((made,), ((made, made + 1),), (made, made)))
    return made


class _NobodySpeaks:
    """A diarizer that finds no turns."""

    fingerprint = "nobody speaks"

    def __call__(self, blocks: Iterable[Any], _: object) -> Iterator[Diarization]:
        for _block in blocks:
            pass
        yield Diarization(())

    def close(self) -> None:
        """Free nothing."""


def _valid_mapping(_: Any, random: Random, __: Declared) -> dict[str, Any]:
    recordings: tuple[Any, ...] = ("nowhere.wav", b"no media", np.zeros(32_000, np.float32))
    names = random.sample(("Ann", "Bob", "Çelik"), random.choice((0, 1, 2)))
    return {name: random.choice(recordings) for name in names}


MAKERS: Final[dict[Any, Callable[[Any, Random, Declared], Any]]] = {
    Literal: _valid_choice,
    typing.Union: _valid_union,
    types.UnionType: _valid_union,
    tuple: _valid_tuple,
    str: _valid_text,
    int: _valid_number,
    float: _valid_number,
    types.NoneType: lambda *_: None,
    bool: lambda _, random, __: random.random() < 0.5,
    PathLike: lambda *_: pathlib.Path("nowhere"),
    Mapping: _valid_mapping,
    AnyDiarizer: lambda *_: _NobodySpeaks(),
    EngineSettings: lambda _, random, __: random.choice(tuple(SETTINGS.values()))(),
}
"""For each type, or origin of a generic type, the function that makes a value of the type."""
