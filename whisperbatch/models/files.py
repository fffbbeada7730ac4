"""Reads the files of a model directory, which may come from anywhere.

Only regular files are opened: opening a named pipe waits for a writer, and reading a device may
never end. Files that are read into memory have a maximum size.
"""

import json
import stat
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

from whisperbatch.addresses import without_secrets
from whisperbatch.dependencies import interface_note
from whisperbatch.errors import ModelError

MAX_BYTES: Final = 64 << 20  # of a file read into memory; the tokenizer.json of large-v3 has 4 MB
MAX_REASON: Final = 300  # characters of a library's message


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; the caller closes it.

    Raises:
        ModelError: the file is missing, is not a regular file, or cannot be opened.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ModelError(f"{path}: is not a regular file; replace it by the model's file")
        return path.open("rb")
    except FileNotFoundError as error:
        raise ModelError(f"{path}: is missing; copy it from the source of the model") from error
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from error


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file of at most `MAX_BYTES`.

    Raises:
        ModelError: see `open_regular`; or the file is too large or not UTF-8.
    """
    with open_regular(path) as file:
        try:
            data = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(data) > MAX_BYTES:
        raise ModelError(f"{path}: has more than {MAX_BYTES >> 20} MB; download it again")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: is damaged (not UTF-8); download it again") from error


def read_json(path: Path, kind: type) -> Any:  # noqa: ANN401 - any JSON
    """Return the content of a JSON file, which must be of type `kind`.

    Raises:
        ModelError: see `read_text`; or the file is not JSON, or has another type.
    """
    try:
        content = json.loads(read_text(path), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: is damaged ({one_line(error)}); download it again") from error
    if not isinstance(content, kind):
        raise ModelError(f"{path}: is damaged (not a JSON {kind.__name__}); download it again")
    return content


def _refuse_constant(constant: str) -> NoReturn:
    """Refuse NaN and Infinity: Python accepts them, CTranslate2's parser does not."""
    raise ValueError(f"{constant} is not JSON")


def first_line(error: BaseException) -> str:
    """Return the first line of the message of a library's error. See `one_line`."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__) + interface_note(error)


def one_line(error: BaseException) -> str:
    """Return the message of a library's error as one line of at most `MAX_REASON` characters.

    If the library has another interface than expected, the versions that work follow.
    """
    text = " ".join(without_secrets(str(error)).split()) or type(error).__name__
    if len(text) > MAX_REASON:
        text = f"{text[: MAX_REASON - 3]}..."
    return text + interface_note(error)
