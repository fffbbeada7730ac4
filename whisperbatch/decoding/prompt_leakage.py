"""Prompt leakage: words of the prompt that appear in the text but are not spoken.

A word of the prompt in the text proves nothing, because a prompt contains words that are expected.
If the text contains a run of the prompt's words, the row is decoded again without the prompt:

    prompt          Kubernetes, Istio and Envoy
    with prompt     Kubernetes Istio and Envoy  Today we talk of Istio and Envoy.
    without prompt                              Today we talk of each toe and convoy.
                    '-------- leaked -------'                  '- spoken, misspelled -'
"""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

MIN_RUN: Final = 3  # consecutive words of the prompt that are suspicious


def suspicious_words(words: Sequence[str], prompt: Sequence[str]) -> list[int]:
    """Return the indices of words that belong to a run of the prompt's words.

    A text of fewer than MIN_RUN words is suspicious if all its words are a run of the prompt.

    Args:
        words: normalised words of the text.
        prompt: normalised words of the prompt.
    """
    suspicious: set[int] = set()
    length = min(MIN_RUN, len(words))
    prompt_runs = {
        tuple(prompt[start : start + length]) for start in range(len(prompt) - length + 1)
    }
    for start in range(len(words) - length + 1):
        if length and tuple(words[start : start + length]) in prompt_runs:
            suspicious.update(range(start, start + length))
    return sorted(suspicious)


def leaked_words(
    words: Sequence[str], without_prompt: Sequence[str], suspicious: Sequence[int]
) -> list[int]:
    """Return the suspicious words that the text without the prompt does not replace.

    Words are leaked if the text without the prompt has nothing in their place, or has fewer than
    half as many words.

    Args:
        words: normalised words of the text with the prompt.
        without_prompt: normalised words of the text without the prompt.
        suspicious: indices of `words` from `suspicious_words`.
    """
    matcher = SequenceMatcher(None, words, without_prompt, autojunk=False)
    absent: set[int] = set()
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        if kind == "delete" or (kind == "replace" and 2 * (other_end - other_start) < end - start):
            absent.update(range(start, end))
    return [index for index in suspicious if index in absent]
