"""Words of the prompt that turn up in the text though nobody says them.

That a word is in the prompt is no evidence: prompts hold what is expected to be said. A row whose
text has a run of the prompt's words is decoded once more without the prompt:

    prompt         Kubernetes, Istio and Envoy
    with it        Kubernetes Istio and Envoy  Today we talk of Istio and Envoy.
    without it                                 Today we talk of each toe and convoy.
                   '------- echo ----------'                    '- said: spelled otherwise -'
"""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

SUSPICIOUS: Final = 3  # words of the prompt in a row


def suspects(words: Sequence[str], prompt: Sequence[str]) -> list[int]:
    """Numbers of the words that are in a run of the prompt's.

    Args:
        words: of a text, normalised.
        prompt: likewise.
    """
    found: set[int] = set()
    least = min(SUSPICIOUS, len(words))
    grams = {tuple(prompt[n : n + least]) for n in range(len(prompt) - least + 1)}
    for number in range(len(words) - least + 1):
        if least and tuple(words[number : number + least]) in grams:
            found.update(range(number, number + least))
    return sorted(found)


def echoes(words: Sequence[str], plain: Sequence[str], suspicious: Sequence[int]) -> list[int]:
    """Which of the suspicious words have nothing in their place when there is no prompt.

    Args:
        words: of the text with the prompt, normalised.
        plain: of the text without it.
        suspicious: numbers of `words`.
    """
    matcher = SequenceMatcher(None, words, plain, autojunk=False)
    absent: set[int] = set()
    for kind, start, end, there, until in matcher.get_opcodes():
        if kind == "delete" or (kind == "replace" and 2 * (until - there) < end - start):
            absent.update(range(start, end))
    return [number for number in suspicious if number in absent]
