"""Every error that whisperbatch raises.

    WhisperBatchError
    ├── OptionError (ValueError)        an option or argument that cannot be honoured
    ├── AudioError                      a recording that cannot be read; names the recording
    ├── ModelError                      weights that are missing, damaged or of another kind
    ├── MissingExtraError (ImportError) an optional dependency that is not installed
    ├── EngineError                     the engine failed on a batch
    ├── BacklogError                    a live session is too far behind
    ├── WriteError                      an output file cannot be written
    ├── InternalError                   an unexpected exception: a bug in whisperbatch
    └── ClosedError (RuntimeError)      a Transcriber was used after close()

Each message is one line: the problem, its place, and its solution. A message is written for Python
and marks options with backticks, as docstrings do: "`beam_size` has no effect". The text of the
error has no backticks; `spelled` writes the options as another place does: "--beam-size".
"""

import re
from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

from whisperbatch.addresses import without_secrets

__all__ = [
    "AudioError",
    "BacklogError",
    "ClosedError",
    "EngineError",
    "InternalError",
    "MissingExtraError",
    "ModelError",
    "OptionError",
    "WhisperBatchError",
    "WriteError",
]


_UNSAFE: Final = re.compile("[\0-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that control terminals, reorder the text around them, or cannot be encoded."""

Spelling: TypeAlias = Callable[[str, str | None], str]
"""Writes an option from its name, and its value as a literal of Python (None: the name alone)."""

_OPTION: Final = re.compile(r"`([A-Za-z_]\w*)(?:=([^`]*))?([:\[][^`]*)?`")
"""An option in a message, alone, with a value in Python's spelling, or with the part that is meant:
`vad`, `vad=False`, `clip_timestamps[0]`."""


class WhisperBatchError(Exception):
    """The root of the tree: catch this class to catch every error of whisperbatch.

    The message is one line that a terminal shows unchanged: line breaks become spaces, and control
    characters are escaped. A file name may contain both. Passwords and signatures of URLs are
    removed.

    Attributes:
        source: name of the recording that the error belongs to; None if the error belongs to no
            recording.
        marked: the message with options between backticks.
    """

    source: str | None = None

    def __init__(self, message: object = "") -> None:
        line = " ".join(without_secrets(str(message)).splitlines())
        self.marked = _UNSAFE.sub(lambda match: ascii(match[0])[1:-1], line)
        super().__init__(self.spelled(spell_in_python))

    @property
    def options(self) -> tuple[str, ...]:
        """The options that the message names, in their order."""
        return tuple(match[1] for match in _OPTION.finditer(self.marked))

    def spelled(self, spell: Spelling) -> str:
        """Return the message with its options as a command line or a form writes them.

        Args:
            spell: writes an option from its name, and its value as a literal of Python; None for
                the name alone.

        Returns:
            The message, on one line.
        """
        return spell_options(self.marked, spell)


def spell_in_python(name: str, value: str | None) -> str:
    """Return an option as a keyword: "vad", "vad=False"."""
    return name if value is None else f"{name}={value}"


def spell_options(text: str, spell: Spelling) -> str:
    """Return a text whose options are marked with backticks, with the options as `spell` does."""
    return _OPTION.sub(lambda match: spell(match[1], match[2]) + (match[3] or ""), text)


class OptionError(WhisperBatchError, ValueError):
    """An option or argument has the wrong type, is out of range, or cannot be honoured."""


class AudioError(WhisperBatchError):
    """A recording cannot be read: missing, empty, not audio, no such track, or bad samples."""

    def __init__(self, message: str, *, source: str | None = None) -> None:
        source = without_secrets(source, whole=True) if source else source
        super().__init__(f"{source}: {message}" if source else message)
        self.source = source


class ModelError(WhisperBatchError):
    """A model's weights cannot be found, or one of the model's files is damaged."""


class MissingExtraError(WhisperBatchError, ImportError):
    """An option needs a package that is not installed; the message names the package to install."""


class EngineError(WhisperBatchError):
    """The inference engine failed; the original error is chained."""


class BrokenDeviceError(EngineError):
    """A GPU failed so that no further call can use it in this process. To users, an EngineError.

    Attributes:
        has_others: whether the engine has other GPUs that work. Calls of threads that have not used
            this GPU then succeed.
    """

    has_others: bool = False


class InternalError(WhisperBatchError):
    """An unexpected exception, which is chained: a bug in whisperbatch. Please report it.

    The traceback is logged by the logger `whisperbatch.boundary`.
    """


class ClosedError(WhisperBatchError, RuntimeError):
    """A Transcriber was used after it was closed."""


class BacklogError(WhisperBatchError):
    """A live session is too far behind: the audio that was fed last was not added."""


class WriteError(WhisperBatchError):
    """An output file cannot be written; an existing file of the same name is left unchanged."""


_Error = TypeVar("_Error", bound=WhisperBatchError)


def of_recording(error: _Error, source: str) -> _Error:
    """Return an error that names its recording; unchanged if the error names one.

    Args:
        error: gets the name, also before its message, unless the message has it.
        source: name of the recording.
    """
    if error.source is None:
        source = without_secrets(source, whole=True)
        error.source = source
        if source not in str(error):
            WhisperBatchError.__init__(error, f"{source}: {error.marked}")
    return error
