"""Second decoding of chunks, with the text of the previous chunks as context.

first pass     chunk 0       chunk 1       chunk 2        independent of each other
               "caller"      "color"       "the caller"
second pass         '-----> "caller" ----> "the caller"   context: text of the first pass

openai/whisper decodes each window after the final text of the previous window. Then no two windows
of a recording can be decoded in parallel, and the next windows repeat text that an earlier window
made up. Here, the context of a chunk is the text of the previous chunks in the first pass, if
that text passed its audit. The second pass may correct words, but not passages: if the context
changes more than a few words, the model has copied the context, or the context has made the model
ignore what is spoken.
"""

import threading
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

from whisperbatch.types import Chunk

MAX_CONTEXT: Final = 64  # tokens of text before a chunk; 220 tokens made as few errors
MAX_CHANGED_WORDS: Final = 5  # consecutive words that a context may change
# A change may add or remove at most this many words; three in a row can be prompt leakage
# (`leaked_words`).
MAX_LENGTH_CHANGE: Final = 2


class History:
    """The last tokens of each recording's text, added chunk by chunk.

    The chunks of a recording come in order, but on several threads. Each chunk waits for the
    previous chunk. The wait ends, because batches are started in order: the previous chunk is
    already being decoded.
    """

    def __init__(self) -> None:
        self._latest: dict[int, tuple[int, tuple[int, ...]]] = {}  # recording: (index, tokens)
        self._changed = threading.Condition()

    def advance(self, chunk: Chunk, tokens: Sequence[int]) -> tuple[int, ...]:
        """Return the last tokens before a chunk, and add the tokens of the chunk.

        Waits until the previous chunk has added its tokens.

        Args:
            chunk: a chunk whose previous chunks have all come or are being decoded.
            tokens: text tokens of the chunk; empty if the text must not be used as context.

        Returns:
            At most MAX_CONTEXT tokens.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._last(chunk.recording)[0] >= chunk.index - 1)
            index, before = self._last(chunk.recording)
            if index < chunk.index:
                self._latest[chunk.recording] = (chunk.index, (*before, *tokens)[-MAX_CONTEXT:])
                self._changed.notify_all()
            return before

    def forget(self, recording: int) -> None:
        """Free the tokens of a recording that has ended."""
        with self._changed:
            self._latest.pop(recording, None)

    def _last(self, recording: int) -> tuple[int, tuple[int, ...]]:
        return self._latest.get(recording, (-1, ()))


def only_corrects_words(without_context: Sequence[str], with_context: Sequence[str]) -> bool:
    """Return whether the two texts differ in single words at most.

    Args:
        without_context: normalised words of the text that was decoded without context.
        with_context: normalised words of the text that was decoded with context.
    """
    matcher = SequenceMatcher(None, without_context, with_context, autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind == "equal":
            continue
        removed, added = end - start, new_end - new_start
        if max(removed, added) > MAX_CHANGED_WORDS or abs(removed - added) > MAX_LENGTH_CHANGE:
            return False
    return True
