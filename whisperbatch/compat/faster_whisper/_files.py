"""`WhisperModel(files=...)`: the files of a model in memory."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from whisperbatch.errors import OptionError
from whisperbatch.options import checks
from whisperbatch.text import shown


def write_files(name: str | PathLike[str], files: object) -> "TemporaryDirectory[str] | None":
    """Write the files of a model to a new temporary directory.

    Args:
        name: of the model, for messages.
        files: for each file name, the contents as bytes or as an open binary file.

    Returns:
        The directory, which is removed with the object; None without files.

    Raises:
        OptionError: `files` is of another kind.
    """
    if files is None:
        return None
    checks.path("model_size_or_path", name)
    if not issubclass(type(files), Mapping):
        raise OptionError(f"files must be a dict of file names and contents, not {shown(files)}")
    contents = {
        _file_name(file): _contents(file, content)
        for file, content in cast("Mapping[Any, Any]", files).items()
    }
    if not contents:
        return None
    label = "".join(letter if letter.isalnum() else "-" for letter in Path(name).name)[:40]
    directory: TemporaryDirectory[str] = TemporaryDirectory(prefix=f"whisperbatch-{label}-")
    for file, content in contents.items():
        (Path(directory.name) / file).write_bytes(content)
    return directory


def _file_name(name: object) -> str:
    if not isinstance(name, str) or not name or Path(name).name != name:
        raise OptionError(f"files: {shown(name)} is not the name of a file")
    return name


def _contents(name: str, content: Any) -> bytes:  # noqa: ANN401 - bytes or an open file
    try:
        content = content.read() if hasattr(content, "read") else content
        return bytes(memoryview(content))
    except Exception as error:  # a foreign object may raise anything
        raise OptionError(f"files: {name} must be bytes or an open binary file") from error
