"""What all results have in common: one line as their `repr`, and the habits of other programs.

A result is a frozen dataclass. Programs that read the dictionaries of openai-whisper and WhisperX
read the same fields by their names: `transcript["segments"][0]["start"]`. A name that another
program has, and no result here, gets an error that says what to write (`options.hints`).
"""

import dis
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import FrozenInstanceError, fields
from functools import cache, wraps
from opcode import opmap
from typing import TYPE_CHECKING, Any, Final, TypeVar

from typing_extensions import ParamSpec

from whisperbatch.text.messages import short_repr, shown
from whisperbatch.types.serialization import to_values

T = TypeVar("T")
P = ParamSpec("P")

UNPACKING: Final = frozenset({opmap["UNPACK_SEQUENCE"], opmap["UNPACK_EX"]})
"""CPython's instructions for `a, b = value` and `a, *b = value`."""


class Explained:
    """Says what to write in place of an attribute that only objects of other programs have."""

    __slots__ = ()

    if not TYPE_CHECKING:  # type checkers find misspelled names

        def __getattr__(self, name: str) -> object:
            kind = type(self).__name__
            hint = "" if name.startswith("__") else _hint(kind, name)
            message = f"{kind} has no attribute {shown(name)}{hint}"
            raise AttributeError(message, name=name, obj=self)

        def __getitem__(self, key: object) -> object:
            kind = type(self).__name__
            hint = _hint(kind, key) if isinstance(key, str) else ""
            raise TypeError(f"{kind} has no keys{hint}")


class Record(Explained):
    """Base of the results.

    Python names a wrong class when a property of a frozen dataclass with slots is assigned. Its
    subclasses therefore get their own `__setattr__`. Files, tables and hints are made above this
    package: methods import their makers when they are called.
    """

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__dataclass_fields__" in vars(cls):  # `dataclass` makes the class again, with slots
            cls.__setattr__ = cls.__delattr__ = _refuse_change  # type: ignore[method-assign]

    def __repr__(self) -> str:
        return short_repr(self)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as values that JSON can hold: dicts, lists, numbers, texts.

        Scores may be infinite or NaN, which Python's `json` writes and reads.
        """
        values: dict[str, Any] = to_values(self)
        return values

    def keys(self) -> tuple[str, ...]:
        """Return the names that `[...]` accepts: those of the fields and properties."""
        return _names(type(self))  # type: ignore[arg-type]  # a class is hashable

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - of any field
        """Return the value of a field; `default` if the value is None.

        Raises:
            KeyError: there is no such field.
        """
        value = field_value(self, name)
        return default if value is None else value

    if not TYPE_CHECKING:  # as above

        def __getitem__(self, name: str) -> object:
            return field_value(self, name)

        def __contains__(self, name: object) -> bool:
            return name in self.keys()


def field_value(item: Record, name: object) -> Any:  # noqa: ANN401 - of any field
    """Return the value of a field or property by its name.

    Raises:
        KeyError: there is no such field; the message names the fields, or says what to write.
    """
    names = _names(type(item))  # type: ignore[arg-type]  # a class is hashable
    if isinstance(name, str) and name in names:
        return getattr(item, name)
    kind = type(item).__name__
    hint = _hint(kind, name) if isinstance(name, str) else ""
    if type(name) in {int, slice} and "segments" in names:
        hint = f"; write transcript.segments[{'...' if isinstance(name, slice) else name}]"
    known = f"; it has {', '.join(names)}"
    raise KeyError(f"{kind} has no {shown(name)}{hint or known}")


@cache
def _names(kind: type[Record]) -> tuple[str, ...]:
    """Return the fields and properties of a result; without names that mean something elsewhere."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # a dataclass
    names += [name for name in dir(kind) if isinstance(getattr(kind, name), property)]
    return tuple(name for name in names if not _hint(kind.__name__, name))


def _hint(kind: str, name: str) -> str:
    from whisperbatch.options.hints import RESULT_NAMES  # noqa: PLC0415 - options imports types

    remedy = RESULT_NAMES.get(kind, {}).get(name)
    return f"; {remedy}" if remedy else ""


def _refuse_change(item: object, name: str, value: object = None) -> None:  # noqa: ARG001 - of `setattr`
    raise FrozenInstanceError(
        f"{type(item).__name__}.{name} cannot be changed; dataclasses.replace makes another value"
    )


def without_path(method: Callable[P, str]) -> Callable[P, str]:
    """Decorate a method that returns the text of a file: given a path, it says what writes one."""

    @wraps(method)
    def checked(*arguments: P.args, **keywords: P.kwargs) -> str:
        if len(arguments) > 1:
            raise TypeError(
                f"{method.__name__}() returns the text and takes no path; write "
                f"transcript.save({shown(arguments[1])})"
            )
        return method(*arguments, **keywords)

    return checked


def iterate(items: Iterable[T], what: str) -> Iterator[T]:
    """Return an iterator for the method `__iter__` that calls this, unless a program unpacks.

    `segments, info = model.transcribe(...)` is faster-whisper's habit. A transcript of two segments
    would be unpacked, and both names would be wrong.

    Args:
        items: to iterate over.
        what: names the object in the message.

    Raises:
        TypeError: the object is unpacked; the message says what to write.
    """
    if _caller_unpacks():
        raise _unpacked(what)
    return iter(items)


def refuse_unpacking(function: str, what: str) -> None:
    """Raise the error of `iterate` before the work: the result of a function will be unpacked.

    CPython calls the function, and the next instruction unpacks. The call must begin with the name
    of the function: in `a, b = list(map(asr.transcribe, files))`, `list` is called. Where Python
    has no positions of instructions, as in Python 3.10, only `iterate` raises the error.

    Args:
        function: name of the function that calls this, and that `options.keywords` decorates.
        what: names the result in the message.

    Raises:
        TypeError: the result will be unpacked; the message says what to write.
    """
    try:
        frame = sys._getframe(3)  # noqa: SLF001 - above this, the function and its decorator
    except ValueError:  # as below
        return
    following = frame.f_code.co_code[frame.f_lasti + 2 :: 2].lstrip(b"\0")  # without caches
    if not following or following[0] not in UNPACKING or sys.version_info < (3, 11):
        return
    instructions = list(dis.get_instructions(frame.f_code))
    before = [one for one in instructions if one.offset <= frame.f_lasti]
    place = _start_of(before[-1])
    if place[1] is not None and any(
        one.argval == function and _start_of(one) == place for one in before
    ):
        raise _unpacked(what)


def _start_of(instruction: dis.Instruction) -> tuple[int | None, int | None]:
    """Return the line and the column at which the expression of an instruction begins."""
    positions = getattr(instruction, "positions", None)
    return (positions.lineno, positions.col_offset) if positions else (None, None)


def _unpacked(what: str) -> TypeError:
    return TypeError(
        f"{what} cannot be unpacked; write result = ..., then result.segments and "
        "result.language, or import WhisperModel from whisperbatch.compat.faster_whisper"
    )


def _caller_unpacks() -> bool:
    """Return whether the caller of `__iter__` is at the instruction `a, b = value`.

    CPython asks for the iterator inside this instruction. If a `for`, `list(value)`, `f(*value)` or
    another call asks for it, the caller is at another instruction. A caller that is compiled to C
    has no instructions: its unpacking is not seen.
    """
    try:
        frame = sys._getframe(3)  # noqa: SLF001 - above this function, `iterate` and `__iter__`
    except ValueError:  # a thread that runs no Python code, such as `list`
        return False
    code = frame.f_code.co_code
    return 0 <= frame.f_lasti < len(code) and code[frame.f_lasti] in UNPACKING
