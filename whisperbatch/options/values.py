"""Values of options: known speakers and the diarizer; and all values as text, as in a form."""

import ast
import re
import types
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    Protocol,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
    runtime_checkable,
)

from whisperbatch.errors import OptionError
from whisperbatch.options import checks
from whisperbatch.text.messages import escape_controls, shown

if TYPE_CHECKING:
    from whisperbatch.types import Source
else:  # the module of this type loads NumPy
    Source = object

KnownSpeakers: TypeAlias = Mapping[str, Source]

MAX_DIARIZER: Final = 4096  # characters of the name or path of a diarizer
BUILTIN: Final = "builtin"
OTHERS: Final = ("senko", "pyannote")
DIARIZERS: Final = (BUILTIN, *OTHERS)
COUNTS: Final = ("num_speakers", "min_speakers", "max_speakers")
VOICES: Final = (*COUNTS, "known_speakers")
"""The options that need a comparison of voices."""

OPTION: Final = "known_speakers"
MAX_KNOWN: Final = 100
MAX_NAME: Final = 100  # characters
GIVEN_NAME: Final = re.compile(r"speaker_\d+")
"""The names that whisperbatch gives to other speakers, in small letters."""

_FILES: Final = (str, PathLike, bytes, bytearray, memoryview)


TRUTH_VALUES: Final = {"true": True, "false": False}

_QUOTED_NAME: Final = re.compile(r"'([\w.:/+-]+)'")

TEMPERATURES: Final = float | tuple[float, ...]
RANGES: Final = tuple[tuple[float, float | None], ...]


@runtime_checkable
class AnyDiarizer(Protocol):
    """A diarizer of the user. `whisperbatch.diarization.Diarizer` is its contract."""

    @property
    def fingerprint(self) -> str:
        """Identifies everything that the turns depend on."""
        ...

    def __call__(self, blocks: Any, limits: Any, /) -> Iterator[Any]:  # noqa: ANN401 - see there
        """Yield the turns of a recording."""
        ...

    def close(self) -> None:
        """Free the weights."""
        ...


DiarizerChoice: TypeAlias = str | PathLike[str] | AnyDiarizer


class References(KnownSpeakers):
    """Names and recordings, checked and frozen. The recordings are not read here.

    Two values are equal if they have the same names with the same paths, the same bytes or the
    identical objects. The samples of two arrays are not compared.

    Args:
        pairs: names with their recordings.

    Raises:
        OptionError: a name is wrong or occurs twice, or a value is not a recording.
    """

    __slots__ = ("_sources",)

    def __init__(self, pairs: tuple[tuple[object, object], ...]) -> None:
        if len(pairs) > MAX_KNOWN:
            raise OptionError(f"`{OPTION}` has {len(pairs)} names; give at most {MAX_KNOWN}")
        sources: dict[str, Source] = {}
        keys: dict[str, str] = {}
        for given, source in pairs:
            name = _checked_name(given)
            key = _key(name)
            if key in keys:
                raise OptionError(
                    f"`{OPTION}`: {shown(name)} and {shown(keys[key])} are the same name; join the "
                    "recordings of one speaker, or choose another name"
                )
            keys[key] = name
            if not _is_recording(source):
                raise OptionError(
                    f"`{OPTION}`[{shown(name)}]={shown(source)} is not a recording; give a path, "
                    "bytes, an open binary file, an Audio, or a float32 or int16 array"
                )
            sources[name] = cast("Source", source)
        self._sources = sources

    def __getitem__(self, name: str) -> Source:
        return self._sources[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, References):
            return NotImplemented
        return self.keys() == other.keys() and all(
            _is_same(source, other[name]) for name, source in self.items()
        )

    def __hash__(self) -> int:
        return hash(frozenset(self))

    def __repr__(self) -> str:
        pairs = (
            f"{name!r}: {'<array>' if _is_samples(source) else shown(source)}"
            for name, source in self.items()
        )
        return f"{{{', '.join(pairs)}}}"


def references(value: object) -> References | None:
    """Return the checked value of the option; None without names.

    Raises:
        OptionError: the value is not a mapping, or a name or a recording is wrong.
    """
    if value is None or type(value) is References:
        return value
    try:
        pairs = _pairs(value)
    except Exception:  # noqa: BLE001 - the methods of a foreign class may raise anything
        pairs = None
    if pairs is None:
        raise OptionError(
            f'`{OPTION}` must be a mapping of names to recordings, such as {{"Ann": "ann.wav"}}, '
            f"not {shown(value)}"
        )
    return References(pairs) if pairs else None


def checked_diarizer(value: object) -> object:
    """Return the name of a diarizer, a folder or repository as text, or an object."""
    expected = (
        f"one of {', '.join(DIARIZERS)}, a folder, a repository, or an object (not a class) with "
    )
    expected += "fingerprint, __call__ and close"
    if type(value) is str:
        checks.text("diarizer", value, max_length=MAX_DIARIZER)
        is_path = value[0] in ".~" or any(mark in value for mark in ("/", "\\"))
        if value not in DIARIZERS and not is_path:
            raise OptionError(
                f"`diarizer={shown(value)}` is none of {', '.join(DIARIZERS)}; write a folder as "
                "./folder, and a repository as owner/name"
            )
        return value
    try:
        if isinstance(value, PathLike):
            return str(Path(value).expanduser().absolute())
        if isinstance(value, AnyDiarizer) and not isinstance(value, type):
            return value
    except Exception as error:  # a foreign object may raise anything
        raise OptionError(f"`diarizer` must be {expected}, not {shown(value)}") from error
    raise OptionError(f"`diarizer` must be {expected}, not {shown(value)}")


def parse_pairs(text: str) -> tuple[tuple[str, str], ...]:
    """Return the pairs of "NAME=FILE,NAME=FILE". A file name may contain commas.

    Raises:
        ValueError: the text does not begin with a name and "=".
    """
    parts: list[str] = []
    for part in text.split(","):
        if "=" in part or not parts:
            parts.append(part)
        else:
            parts[-1] += f",{part}"
    pairs = [part.partition("=") for part in parts]
    if not all(equals and file.strip() for _, equals, file in pairs):
        raise ValueError(f"{text!r} has a name without a file")
    return tuple((name.strip(), file.strip()) for name, _, file in pairs)


def _pairs(value: object) -> tuple[tuple[object, object], ...] | None:
    """Return the pairs of a mapping, or pairs unchanged; None for another value."""
    if issubclass(type(value), Mapping):
        return tuple(cast("Mapping[object, object]", value).items())
    is_pairs = (
        type(value) is tuple
        and value
        and all(
            type(pair) is tuple and len(pair) == 2  # noqa: PLR2004 - a name and a recording
            for pair in value
        )
    )
    return value if is_pairs else None  # type: ignore[return-value]  # just checked


def _is_recording(source: object) -> bool:
    if issubclass(type(source), _FILES) or _is_samples(source):
        return True
    try:
        return callable(getattr(source, "read", None)) or hasattr(type(source), "__array__")
    except Exception:  # noqa: BLE001 - an attribute of a foreign class may raise anything
        return False


def _is_samples(source: object) -> bool:
    from numpy import ndarray  # noqa: PLC0415 - slow to import, and rarely needed

    from whisperbatch.types import Audio  # noqa: PLC0415 - loads NumPy

    return issubclass(type(source), ndarray | Audio)


def _checked_name(name: object) -> str:
    """Return a name that every output format can hold, in exactly the type str."""
    if not issubclass(type(name), str):
        raise OptionError(f"`{OPTION}`: a name must be text, not {shown(name)}")
    name = str.__str__(cast("str", name))
    if not any(unicodedata.category(c) != "Cf" and not c.isspace() for c in name):
        raise OptionError(f"`{OPTION}`: the name {shown(name)} is empty; give every speaker a name")
    checks.text(f"{OPTION}: a name", name, max_length=MAX_NAME)
    if escape_controls(name) != name:
        raise OptionError(
            f"`{OPTION}`: the name {shown(name)} has a line break or another control character; "
            "leave it out"
        )
    if name != name.strip():
        raise OptionError(f"`{OPTION}`: the name {shown(name)} has a space at an end; leave it out")
    if GIVEN_NAME.fullmatch(_key(name)):
        raise OptionError(
            f"`{OPTION}`: {shown(name)} is a name that whisperbatch gives to other speakers; "
            "choose another name"
        )
    return name


def _key(name: str) -> str:
    """Return what two names have in common that a reader, or the format RTTM, takes for one."""
    return re.sub(r"[\s_]+", "_", unicodedata.normalize("NFKC", name).casefold())


def _is_same(one: object, two: object) -> bool:
    if one is two:
        return True
    comparable = (str, PathLike, bytes)
    return isinstance(one, comparable) and isinstance(two, comparable) and one == two


def parse_text(annotation: object, text: str) -> object:
    """Return the value of an option that has this type.

    Args:
        annotation: declared type of the option.
        text: the value as text; "none" is None if the type includes None.

    Raises:
        ValueError: the text is not of the form `metavar_of` the type.
    """
    if accepts_none(annotation) and text.lower() == "none":
        return None
    value_type = without_none(annotation)
    if value_type is bool:
        if text.lower() not in TRUTH_VALUES:
            raise ValueError(f"{text!r} is neither true nor false")
        return TRUTH_VALUES[text.lower()]
    if value_type is str or get_origin(value_type) is Literal:
        return text
    return FORMS[value_type][1](text)


def problem_of(annotation: object, text: str) -> str:
    """Return why `parse_text` refuses a text, and what to give instead.

    Args:
        annotation: declared type of the option.
        text: that `parse_text` refuses.
    """
    value_type = without_none(annotation)
    if value_type == RANGES:
        return f"{shown(text)} is not a list of times; give seconds, as 5,10 or 0,10,20,30"
    if value_type in (TEMPERATURES, tuple[int, ...], int | tuple[int, ...]):
        is_whole = value_type != TEMPERATURES
        wrong = next((part for part in _parts(text) if not _parses(part, is_whole)), text)
        noun, several = ("a whole number", "1 or 1,2") if is_whole else ("a number", "0 or 0,0.2")
        return f"{shown(wrong)} is not {noun}; give one or several, as {several}"
    form = metavar_of(value_type)
    named = {"N": "a whole number", "X": "a number"}.get(form, f"of the form {form}")
    return f"{shown(text)} is not {named}"


def _parses(text: str, is_whole: bool) -> bool:
    try:
        (int if is_whole else float)(text)
    except ValueError:
        return False
    return True


def as_text(literal: str) -> str:
    """Return a value as a flag or a form has it: "none", "0.0,0.2", "Ann=ann.wav".

    Args:
        literal: the value as Python writes it; a part of a literal is returned without quotes.
    """
    try:
        value = ast.literal_eval(literal)
    except (ValueError, SyntaxError, MemoryError, RecursionError):  # shortened, or several values
        return _QUOTED_NAME.sub(r"\1", literal)
    if isinstance(value, str):
        return _QUOTED_NAME.sub(r"\1", repr(value))  # other text keeps its quotes
    if isinstance(value, Mapping):
        return ",".join(f"{name}={item}" for name, item in value.items())
    if isinstance(value, tuple | list):
        return ",".join(as_text(repr(item)) for item in value if item is not None)
    return str(value).lower()


def metavar_of(value_type: object) -> str:
    """Return the placeholder of a value on the help page: "N,N"."""
    if value_type is bool:
        return "true or false"
    return FORMS[value_type][0] if value_type in FORMS else "TEXT"


def without_none(annotation: object) -> object:
    """Return a type without None; `str` if the type includes text."""
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation
    members = [member for member in get_args(annotation) if member is not type(None)]
    if str in members:
        return str
    union = members[0]
    for member in members[1:]:
        union |= member
    return union


def accepts_none(annotation: object) -> bool:
    """Return whether None is a value of a type."""
    return type(None) in get_args(annotation)


def _or_auto(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a function that parses "auto", or a number with another function."""
    return lambda text: text.lower() if text.lower() == "auto" else parse(text)


def _parse_integers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in _parts(text))


def _parse_devices(text: str) -> int | tuple[int, ...]:
    values = _parse_integers(text)
    return values if len(values) != 1 else values[0]


def _parse_temperatures(text: str) -> float | tuple[float, ...]:
    values = tuple(float(part) for part in _parts(text))
    return values if len(values) != 1 else values[0]


def _parse_ranges(text: str) -> tuple[tuple[float, float | None], ...]:
    """Parse "start,end,start,end,..."; the last end may be missing."""
    return ranges_of([float(part) for part in _parts(text)])


def ranges_of(times: Sequence[float]) -> tuple[tuple[float, float | None], ...]:
    """Return the time ranges of start, end, start, end, ...; the last end may be missing."""
    ends: list[float | None] = [*times[1::2], None]
    return tuple(zip(times[::2], ends, strict=False))


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


FORMS: Final[dict[object, tuple[str, Callable[[str], Any]]]] = {
    int: ("N", int),
    float: ("X", float),
    int | Literal["auto"]: ("N", _or_auto(int)),
    float | Literal["auto"]: ("X", _or_auto(float)),
    tuple[int, ...]: ("N,N", _parse_integers),
    tuple[str, ...]: ("A,B", lambda text: tuple(_parts(text))),
    int | tuple[int, ...]: ("N,N", _parse_devices),
    TEMPERATURES: ("X,X", _parse_temperatures),
    RANGES: ("X,X", _parse_ranges),
    KnownSpeakers: ("NAME=FILE,NAME=FILE", parse_pairs),
}
"""Type -> placeholder of its values on the help page, and the function that parses a text."""
