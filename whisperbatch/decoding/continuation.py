"""Second decoding of chunks, with the text of the previous chunks as context.

first pass     chunk 0       chunk 1       chunk 2        independent of each other
               "caller"      "color"       "the caller"
second pass         '-----> "caller" ----> "the caller"   context: text of the first pass

openai/whisper decodes each window after the final text of the previous window. Then no two windows
of a recording can be decoded in parallel, and the next windows repeat text that an earlier window
made up. Here, the context of a chunk is the text of the previous chunks in the first pass, if
that text passed its audit. The second pass may correct words, but not passages: if the context
changes more than a few words, the model has copied the context, or the context has made the model
ignore the speech.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

from whisperbatch.recording import RecordingState

MAX_CONTEXT: Final = 64  # tokens of text before a chunk; 220 tokens made as few errors
MAX_CHANGED_WORDS: Final = 5  # consecutive words that a context may change
# A change may add or remove at most this many words; three in a row can be prompt leakage
# (`leaked_words`).
MAX_LENGTH_CHANGE: Final = 2


def advance(
    recording: RecordingState, index: int, tokens: Sequence[int], *, section: int = 0
) -> tuple[int, ...]:
    """Return the last tokens before a chunk in its section, and add the tokens of the chunk.

    The chunks of a recording come in order, but on several threads. Each chunk waits until the
    previous chunk has added its tokens. The wait ends, because the decoding of chunks begins in
    order, and a chunk whose decoding fails adds no tokens.

    Args:
        recording: state of the recording, with the tokens of the previous chunks.
        index: index of the chunk.
        tokens: text tokens of the chunk; empty if the text must not be used as context.
        section: number of the section of the chunk.

    Returns:
        At most MAX_CONTEXT tokens.
    """
    history = recording.history
    with recording.changed:
        recording.changed.wait_for(lambda: history.index >= index - 1)
        before = history.tokens if history.section == section else ()
        if history.index < index:
            history.index, history.section = index, section
            history.tokens = (*before, *tokens)[-MAX_CONTEXT:]
            recording.changed.notify_all()
        return before


def only_corrects_words(without_context: Sequence[str], with_context: Sequence[str]) -> bool:
    """Return whether the two texts differ in a few words here and there at most.

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
