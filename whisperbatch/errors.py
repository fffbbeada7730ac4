"""Every error that whisperbatch raises.

    WhisperBatchError
    ├── OptionError (ValueError)        an option or argument that cannot be honoured
    ├── AudioError                      a recording that cannot be read; names the recording
    ├── ModelError                      weights that are missing, damaged or of another kind
    ├── MissingExtraError (ImportError) an optional dependency that is not installed
    ├── EngineError                     the engine failed on a batch
    ├── WriteError                      an output file cannot be written
    └── ClosedError (RuntimeError)      a Transcriber was used after close()

Messages are one line: what is wrong, where, and the mend.
"""

__all__ = [
    "AudioError",
    "ClosedError",
    "EngineError",
    "MissingExtraError",
    "ModelError",
    "OptionError",
    "WhisperBatchError",
    "WriteError",
]


class WhisperBatchError(Exception):
    """The root of the tree: catch this to catch all of them.

    Attributes:
        source: the recording that the error belongs to, as a name for people;
            None where it belongs to none.
    """

    source: str | None = None


class OptionError(WhisperBatchError, ValueError):
    """An option or argument is of the wrong type, out of range, or cannot be honoured."""


class AudioError(WhisperBatchError):
    """A recording cannot be read: missing, empty, not audio, no such track, or bad samples."""

    def __init__(self, message: str, *, source: str | None = None) -> None:
        line = f"{source}: {message}" if source else message
        super().__init__(" ".join(line.splitlines()))  # a file's name may hold anything
        self.source = source


class ModelError(WhisperBatchError):
    """A model's weights cannot be found, or a file of theirs is damaged."""


class MissingExtraError(WhisperBatchError, ImportError):
    """An option needs a package that is not installed; the message says what to install."""


class EngineError(WhisperBatchError):
    """The inference engine failed; the cause is chained."""


class ClosedError(WhisperBatchError, RuntimeError):
    """A Transcriber was used after it was closed."""


class WriteError(WhisperBatchError):
    """An output file cannot be written; the old one, if there is one, is whole."""
