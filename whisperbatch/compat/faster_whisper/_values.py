"""Values that a program passes, or that are defaults; faster-whisper's own functions and classes.

Some of faster-whisper's defaults do not give the fewest errors here. Where a program leaves one of
these parameters at its default, whisperbatch uses its own best setting; where the program passes
the value, the value is used. Each of these defaults is therefore a number or flag that equals
faster-whisper's and prints the same, but has a different type.

Programs import tokenizer, feature extractor and small functions from faster-whisper's modules; the
modules of the drop-in return the originals. The methods that decode single windows are originals,
too. All are imported at their first use: faster-whisper's import takes long.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from typing import Any, Final, TypeVar, cast

from whisperbatch.errors import OptionError
from whisperbatch.options import checks, is_number, plain
from whisperbatch.text import shown

T = TypeVar("T", bool, int)

FASTER_WHISPER_NAMES: Final = {
    "vad_onset": "threshold of vad_parameters",
    "vad_offset": "neg_threshold of vad_parameters",
    "min_speech_duration": "min_speech_duration_ms of vad_parameters",
    "max_speech_duration": "max_speech_duration_s of vad_parameters",
    "min_silence_duration": "min_silence_duration_ms of vad_parameters",
    "speech_pad": "speech_pad_ms of vad_parameters",
    "vad": "vad_filter",
    "inter_threads": "num_workers",
    "intra_threads": "cpu_threads",
}
"""faster-whisper's names of our options and settings, where the names differ."""


class _ImplicitInt(int):
    """An integer default."""


class _ImplicitBool(int):
    """A True or False default."""

    def __repr__(self) -> str:
        return repr(bool(self))


def implicit(value: T) -> T:
    """Return a default that equals `value` and that `is_explicit` recognizes as a default."""
    implicit_type = _ImplicitBool if isinstance(value, bool) else _ImplicitInt
    return cast("Any", implicit_type(value))  # type: ignore[no-any-return]  # equal to `value`


def is_explicit(value: object) -> bool:
    """Return whether a program passed the value: it is not a default made by `implicit`."""
    return not issubclass(type(value), _ImplicitInt | _ImplicitBool)


def flag(name: str, value: object) -> Any:  # noqa: ANN401 - see below
    """Return True or False, or an implicit default; None, 0 and 1 are accepted, too."""
    if not is_explicit(value):
        return value
    value = plain(value)
    if value is None or is_number(value, 0) or is_number(value, 1):
        return bool(value)
    checks.boolean(name, value)
    return value


def tokens(name: str, value: object) -> object:
    """Return token ids as a tuple, which can be read more than once; None and text unchanged."""
    value = plain(value)
    if value is None or type(value) in {str, tuple}:
        return value
    try:  # at most one token more than an option can hold: an iterator may have no end
        return tuple(map(plain, islice(cast("Any", value), checks.MAX_TOKEN + 1)))
    except Exception as error:  # an iterator of the caller may raise anything
        raise OptionError(f"{name} must be token ids, not {shown(value)}") from error


@contextmanager
def faster_whisper_names() -> Iterator[None]:
    """Add faster-whisper's names of options to the message of an OptionError."""
    try:
        yield
    except OptionError as error:
        names = [name for name in FASTER_WHISPER_NAMES if name in error.options]
        hint = "; ".join(f"{name} is {FASTER_WHISPER_NAMES[name]}" for name in names)
        raise OptionError(f"{error.marked} ({hint})" if hint else error.marked) from error


def original(module: str, name: str) -> Any:  # noqa: ANN401 - untyped
    """Return a name of faster-whisper's module, for example of "transcribe"."""
    return getattr(import_module(f"faster_whisper.{module}"), name)


def originals(module: str, *names: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module, which takes names from faster-whisper's module."""

    def get(name: str) -> Any:  # noqa: ANN401 - untyped
        if name not in names:
            raise AttributeError(f"module {module} has no attribute {name!r}")
        return original(module.rpartition(".")[2], name)

    return get


class OriginalMethod:
    """A method of a class of faster-whisper that has the same name in a class of the drop-in.

    The method gets the object of the drop-in. It calls the methods of this object, also those that
    a subclass of the program replaces, and CTranslate2 through the attribute `model`.

    Args:
        class_name: of faster-whisper's class in its module `transcribe`.
    """

    def __init__(self, class_name: str) -> None:
        self._class_name: Final = class_name
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object | None, owner: type) -> Any:  # noqa: ANN401 - untyped
        function = getattr(original("transcribe", self._class_name), self._name)
        return function.__get__(instance, owner)
