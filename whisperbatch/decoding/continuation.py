"""Chunks decoded again as the continuation of the text before them.

first    chunk 0       chunk 1       chunk 2         side by side, none knows of another
          "caller"      "color"       "the caller"
again           '-----> "caller" ----> "the caller"  each after what was read before it at first

Whisper's own way, each window after the final text of the window before, lets nothing of a
recording be decoded side by side, and what one window makes up goes on in those that follow. Here
a chunk depends on what the chunks before it were at first, as far as that was sound, and a context
may mend words, not passages: where it changes more, it has been copied, or has talked the model out
of what is said.
"""

import threading
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

from whisperbatch.types import Chunk

TAIL: Final = 64  # tokens of text before a chunk; 220 made as few errors
PASSAGE: Final = 5  # words in a row that a context may change
MORE: Final = 2  # or so many more or fewer; three in a row can be a leak (`echoes`)


class History:
    """The last tokens of each recording's text, as its chunks come.

    Chunks of a recording come in order, but on several threads: each waits for the one before it.
    Batches are started in order, so what is waited for is being decoded.
    """

    def __init__(self) -> None:
        self._latest: dict[int, tuple[int, tuple[int, ...]]] = {}  # by recording: index, tail
        self._changed = threading.Condition()

    def follow(self, chunk: Chunk, tokens: Sequence[int]) -> tuple[int, ...]:
        """The tokens before a chunk, at most TAIL, to which its own are added.

        Args:
            chunk: that all before it have come, or are being decoded.
            tokens: of its text; none, if nobody should go on from it.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._last(chunk.recording)[0] >= chunk.index - 1)
            index, before = self._last(chunk.recording)
            if index < chunk.index:
                self._latest[chunk.recording] = (chunk.index, (*before, *tokens)[-TAIL:])
                self._changed.notify_all()
            return before

    def forget(self, recording: int) -> None:
        """The recording has ended."""
        with self._changed:
            self._latest.pop(recording, None)

    def _last(self, recording: int) -> tuple[int, tuple[int, ...]]:
        return self._latest.get(recording, (-1, ()))


def corrects(plain: Sequence[str], continued: Sequence[str]) -> bool:
    """Whether a context has changed words here and there, if any, and nothing else.

    Args:
        plain: words of the text without the context, normalised.
        continued: of the text with it.
    """
    changes = SequenceMatcher(None, plain, continued, autojunk=False).get_opcodes()
    return all(
        max(end - start, until - there) <= PASSAGE and abs((end - start) - (until - there)) <= MORE
        for kind, start, end, there, until in changes
        if kind != "equal"
    )
