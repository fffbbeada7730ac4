"""faster-whisper's tokenizer: the original class, for programs that import it."""

from whisperbatch.compat.faster_whisper._values import originals

__getattr__ = originals(__name__, "Tokenizer", "_LANGUAGE_CODES", "_TASKS")
