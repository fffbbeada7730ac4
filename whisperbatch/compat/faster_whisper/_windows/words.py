"""Words with times, and their places in segments."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from whisperbatch.compat.faster_whisper._windows.results import (
    POSITIONS_PER_SECOND,
    AlignmentResult,
)

MAX_TYPICAL_WORD: Final = 0.7  # seconds; upper limit of the median length of words
MAX_LENGTH: Final = 2  # a word beside a pause is at most this many times as long as the median
PAUSE: Final = 4  # a gap of this many median lengths before a segment is a pause

SegmentDict = dict[str, Any]
"""A segment with the keys start, end, tokens and seek; `place_words` adds the key words."""


def to_words(result: AlignmentResult, tokens: Sequence[int], tokenizer: Any) -> list[SegmentDict]:  # noqa: ANN401
    """Return the words of a window, with times in seconds from its start.

    Args:
        result: the alignment of the tokens.
        tokens: text tokens of the window.
        tokenizer: faster-whisper's.
    """
    words, groups = tokenizer.split_to_word_tokens([*tokens, tokenizer.eot])
    first_positions = dict(reversed(result.alignments))
    ends = np.cumsum([0, *map(len, groups[:-1])])
    return [
        {
            "word": word,
            "tokens": group,
            "start": first_positions[start] / POSITIONS_PER_SECOND,
            "end": first_positions[end] / POSITIONS_PER_SECOND,
            "probability": float(np.mean(result.text_token_probs[start:end])),
        }
        for word, group, (start, end) in zip(words, groups, pairwise(map(int, ends)), strict=False)
    ]


def typical_length(words: Iterable[Mapping[str, Any]]) -> float:
    """Return the median length of words in seconds, at most 0.7; 0 without words."""
    lengths = [word["end"] - word["start"] for word in words if word["end"] > word["start"]]
    return min(float(np.median(lengths)), MAX_TYPICAL_WORD) if lengths else 0.0


def place_words(
    segments: Sequence[SegmentDict],
    words: Sequence[SegmentDict],
    end_of_text: int,
    offset: float,
    last_speech: float,
) -> float:
    """Add each segment's words to the segment, which then begins and ends with its words.

    Args:
        segments: of one window, in order. A segment without words gets an empty list.
        words: of the window, from `to_words`; a word without text belongs to another word.
        end_of_text: text tokens are below.
        offset: start of the window in the recording, in seconds.
        last_speech: end of the speech before the window, in seconds.

    Returns:
        The end of the last speech in seconds.
    """
    remaining = list(words)
    limit = MAX_LENGTH * typical_length(words)
    for segment in segments:
        expected = sum(token < end_of_text for token in segment["tokens"])
        spoken: list[SegmentDict] = []
        while remaining and expected > 0:
            word = remaining.pop(0)
            expected -= len(word["tokens"])
            if word["word"]:
                times = {name: round(offset + word[name], 2) for name in ("start", "end")}
                spoken.append({"word": word["word"], **times, "probability": word["probability"]})
        segment["words"] = spoken
        if spoken:
            _shorten_first_word(spoken[0], limit, last_speech)
            segment["start"], segment["end"] = spoken[0]["start"], spoken[-1]["end"]
            last_speech = segment["end"]
    return last_speech


def _shorten_first_word(word: SegmentDict, limit: float, last_speech: float) -> None:
    """Let a long word after a pause begin later: the alignment counts the pause as part of it."""
    if (
        word["end"] - last_speech > limit * PAUSE / MAX_LENGTH
        and limit < word["end"] - word["start"]
    ):
        word["start"] = round(word["end"] - limit, 2)
