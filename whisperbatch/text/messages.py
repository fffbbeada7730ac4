"""Values in error messages: one short line, whatever the value is. Characters that are not shown.

A file name or a text may contain an escape sequence, which moves the cursor of a terminal or sets
its title, or a bidirectional control, which reorders the text around it (CVE-2021-42574).
"""

import math
import re
import reprlib
from collections.abc import Mapping, Sized
from dataclasses import fields
from typing import Any, Final

from whisperbatch.addresses import without_secrets
from whisperbatch.errors import OptionError

MAX_SHOWN: Final = 80  # characters of a value in a message
MAX_DIGITS: Final = 40  # longer whole numbers are shown by their number of digits
MAX_REPR: Final = 120  # characters of the repr of a public object
MAX_PART: Final = 40  # characters of one of its values

CONTROLS: Final = "\0-\x1f\x7f-\x9f"
"""All characters of the Unicode category Cc, as a range for regular expressions."""

BIDIRECTIONAL_CONTROLS: Final = "\u202a-\u202e\u2066-\u2069"
"""Embeddings, overrides and isolates, which stay in force until another control or the end of the
paragraph. The marks U+200E, U+200F and U+061C, which Arabic and Hebrew need, have no such effect.
"""

LINE_SEPARATORS: Final = "\u2028\u2029"

_UNSAFE: Final = re.compile(f"[{CONTROLS}{BIDIRECTIONAL_CONTROLS}{LINE_SEPARATORS}]")

MAX_REVISION: Final = 255  # characters: git's limit for the name of a branch on most systems

_NAME: Final = re.compile(r"(?!.*\.\.)[\w+@-][\w.+@-]*(/[\w+@-][\w.+@-]*)*")


class _ShortRepr(reprlib.Repr):
    """`repr` that reads only the beginning of a large value."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxtuple = self.maxlist = self.maxdict = self.maxset = self.maxarray = 12
        self.maxstring = self.maxother = MAX_SHOWN

    def repr_int(self, number: int, level: int) -> str:  # noqa: ARG002 - reprlib's signature
        """Return the digits; Python refuses to write numbers of more than 4300 digits."""
        digits = int(number.bit_length() * math.log10(2)) + 1
        if digits <= MAX_DIGITS:
            return repr(number)
        return f"<whole number of {digits} digits>"

    def repr_str(self, text: str, level: int) -> str:
        """Return the beginning and the end, without the secrets of URLs."""
        return super().repr_str(without_secrets(text, whole=True), level)

    def repr_bytes(self, data: bytes, level: int) -> str:  # noqa: ARG002 - reprlib's signature
        """Return the first bytes."""
        return repr(data[:MAX_SHOWN])


_SHORT: Final = _ShortRepr()


def shown(value: object) -> str:
    """Return the repr of a value for a message: one line of at most `MAX_SHOWN` characters.

    The function never fails: a value may be huge or recursive, its repr may raise an exception,
    have several lines, or contain characters that cannot be encoded.
    """
    try:
        text = _SHORT.repr(value)
    except Exception:  # noqa: BLE001 - the repr of a foreign class may raise anything
        text = f"<{type(value).__name__} without a repr>"
    return one_line(text)


def one_line(text: str) -> str:
    """Return the printable characters of a text in one line of at most `MAX_SHOWN` characters.

    A backtick becomes an apostrophe: in a message, backticks mark options.
    """
    text = without_secrets(text)[: 4 * MAX_SHOWN].replace("`", "'")
    if not text.isprintable():
        printable = "".join(letter if letter.isprintable() else " " for letter in text)
        text = " ".join(printable.split())
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."


def description(item: object, *parts: str) -> str:
    """Return the repr of an object: its class and these parts, at most `MAX_REPR` characters."""
    text = f"{type(item).__name__}({', '.join(part for part in parts if part)})"
    return text if len(text) <= MAX_REPR else f"{text[: MAX_REPR - 4]}...)"


def short_repr(item: Any, *names: str) -> str:  # noqa: ANN401 - a dataclass
    """Return one line: the class of a dataclass, and the values that are not defaults.

    Args:
        item: the dataclass.
        names: of the fields and properties that are shown; by default all fields.
    """
    defaults = {field.name: field.default for field in fields(item) if field.repr or names}
    return description(item, *(_part(item, name, defaults.get(name)) for name in names or defaults))


def _part(item: object, name: str, default: object) -> str:
    """Return a value with its name, "3 words" for a long collection, or "" for the default."""
    value = getattr(item, name, None)
    if value is default or (isinstance(value, int | float | str | tuple) and value == default):
        return ""
    if isinstance(value, float):
        return f"{name}={round(value, 3):.10g}"
    if isinstance(value, tuple | list | Mapping) and (
        len(shown(value)) > MAX_PART or any(hasattr(one, "__dataclass_fields__") for one in value)
    ):
        return counted(value, name.removesuffix("s"))
    return f"{name}={brief_name(value) if name == 'source' and value else brief(value)}"


def counted(items: Sized, noun: str) -> str:
    """Return the number of items with their noun: "1 word", "2 words"."""
    return f"{len(items)} {noun}{'s' * (len(items) != 1)}"


def brief(value: object) -> str:
    """Return the repr of a value in at most `MAX_PART` characters; the end of a text is cut."""
    if isinstance(value, str) and len(shown(value)) > MAX_PART:
        return f"{shown(value[:MAX_PART])[: MAX_PART - 4]}...'"
    text = shown(value)
    return text if len(text) <= MAX_PART else f"{text[: MAX_PART - 3]}..."


def brief_name(source: str) -> str:
    """Return the repr of the name of a recording in at most `MAX_PART` characters.

    Of a long path, the end is shown: it has the name of the file.
    """
    name = without_secrets(source, whole=True)
    return brief(name if len(name) <= MAX_PART - 2 else f"...{name[5 - MAX_PART :]}")


def escape_controls(text: str) -> str:
    r"""Return a text on one line that a terminal shows unchanged: ESC becomes "\x1b".

    Surrogates stay. The streams of the command line escape them.
    """
    return _UNSAFE.sub(lambda match: ascii(match[0])[1:-1], text)


def escape_controls_in_json(text: str) -> str:
    r"""Return JSON in which control characters are escaped as "\u001b"; its value is the same.

    Args:
        text: JSON without line breaks between the values, or with line feeds only.
    """
    return _UNSAFE.sub(
        lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", text
    )


def check_revision(revision: object) -> None:
    """Check that a value is the name of a commit, branch or tag, or None.

    Raises:
        OptionError: the value is something else.
    """
    if revision is None:
        return
    if type(revision) is not str or len(revision) > MAX_REVISION or not _NAME.fullmatch(revision):
        raise OptionError(
            f"`revision={shown(revision)}` is not the name of a commit, branch or tag of the "
            "Hugging Face hub"
        )
