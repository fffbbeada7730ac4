"""Loops of tokens: a text that has begun to repeat itself rarely ends before the token limit."""

from collections.abc import Sequence
from typing import Final

LOOP_TOKENS: Final = 64  # tokens of a loop at least: the text of 15 to 20 s of speech
LOOP_TIMES: Final = 6  # times that its tokens occur
MAX_PERIOD: Final = 36  # tokens that are repeated: six times within Whisper's 224 tokens


def ends_with_loop(tokens: Sequence[int]) -> bool:
    """Return whether the last tokens are a loop: the same few tokens again and again.

    A loop has at least `LOOP_TOKENS` tokens, and repeats the same tokens at least `LOOP_TIMES`
    times. The compression ratio of its text is above Whisper's threshold of 2.4
    (tests/unit/engines/search/test_loops.py), so the row fails its audit.
    """
    for period in range(1, min(MAX_PERIOD, len(tokens) - 1) + 1):
        length = period
        while length < len(tokens) and tokens[-1 - length] == tokens[-1 - length + period]:
            length += 1
        if length >= max(LOOP_TOKENS, LOOP_TIMES * period):
            return True
    return False
