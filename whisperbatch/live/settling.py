"""Which words of an unfinished text are settled: they are shown, and never taken back.

    speech       [ the quick brown fox jumps ov
    1st text       the quick brown folks
    2nd text       the quick brown fox jumps
    settled        the quick brown              the rest is the tail

A word is settled if it ends early enough before the end of the audio, because Whisper's last words
change when more audio comes (the rule of AlignAtt, S. Papi et al., 2023, and of Simul-Whisper,
H. Wang et al., 2024, applied to the times of the decoded words), and if the model is sure of
the word, or the text before had the same word (local agreement: D. Macháček et al., 2023). The last
word and the punctuation after the last settled word stay in the tail.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Final, Literal

from whisperbatch.decoding.words import APPENDED
from whisperbatch.segmentation.timed_text import AlignedWord
from whisperbatch.types import to_samples

JITTER: Final = 0.3  # seconds: the times of the same word in two texts differ by less
MATCHED: Final = 20  # last settled words that are compared with the final text

Agreement = Literal["never", "doubtful", "always"]


@dataclass(frozen=True, slots=True)
class Policy:
    """When a word is settled.

    Attributes:
        hold_back: seconds between the end of the word and the end of the audio.
        agreement: which words the text before must have, too.
        sure: probability from which a word is not doubtful.
        patience: seconds after which a word is settled without agreement.
        first: seconds of audio from which the first words of a part are settled. Whisper often
            mistakes the words of shorter audio.
    """

    hold_back: float
    agreement: Agreement = "doubtful"
    sure: float = 0.6
    patience: float = 4.0
    first: float = 2.0


@dataclass(frozen=True, slots=True)
class Progress:
    """The new settled words of a turn, and the text after them."""

    words: tuple[AlignedWord, ...]
    tail: str


class PartText:
    """The settled words of one part of a turn.

    Attributes:
        words: the settled words, in order.
    """

    def __init__(self) -> None:
        self.words: list[AlignedWord] = []
        self._previous: tuple[str, ...] = ()  # the words after the settled words, in the last text

    @property
    def end(self) -> int:
        """Sample at which the last settled word ends; 0 if no word is settled."""
        return self.words[-1].end if self.words else 0

    def text_from(self, start: int) -> str:
        """Return the settled words that start at a sample or later, joined."""
        return "".join(word.text for word in self.words if word.start >= start)

    def offer(
        self, words: Sequence[AlignedWord], prefix: str, end: int, policy: Policy
    ) -> Progress:
        """Add a decoded text, and return the words that are settled now.

        Args:
            words: of the decoded text, which begins with `prefix`.
            prefix: the settled words with which the text had to begin.
            end: sample at which the audio ended.
            policy: when a word is settled.
        """
        new = _after(words, prefix)
        count = 0
        if not self.words and new and end - new[0].start < to_samples(policy.first):
            return self._settle(new, 0)
        for index, word in enumerate(new[:-1]):
            if not self._is_settled(index, word, end, policy):
                break
            if _may_part(word, new[index + 1]):
                count = index + 1
        return self._settle(new, count)

    def offer_pause(self, words: Sequence[AlignedWord]) -> Progress:
        """Add the text of all audio before a pause: all words but the last are settled.

        Args:
            words: of the text of the part.
        """
        new = list(words[self._position(words) :])
        count = len(new) - 1
        while count > 0 and not _may_part(new[count - 1], new[count]):
            count -= 1
        return self._settle(new, max(count, 0))

    def _settle(self, new: Sequence[AlignedWord], count: int) -> Progress:
        """Settle the first words, without the marks after the last of them."""
        settled = list(new[:count])
        while settled and not _normal(settled[-1].text):  # marks wait for the next word
            settled.pop()
        rest = list(new[len(settled) :])
        self._previous = tuple(_normal(word.text) for word in rest)
        if settled and (marks := _trailing_marks(settled[-1].text)):
            last = settled[-1]
            settled[-1] = replace(last, text=last.text[: -len(marks)])
            rest.insert(0, replace(last, text=marks))
        self.words += settled
        return Progress(tuple(settled), "".join(word.text for word in rest))

    def finish(self, words: Sequence[AlignedWord]) -> tuple[AlignedWord, ...]:
        """Return the words of the final text that follow the settled words.

        Args:
            words: of the final text of the part.
        """
        rest = tuple(words[self._position(words) :])
        self.words += rest
        return rest

    def _is_settled(self, index: int, word: AlignedWord, end: int, policy: Policy) -> bool:
        age = end - word.end
        if age < to_samples(policy.hold_back):
            return False
        if policy.agreement == "never" or age >= to_samples(policy.patience):
            return True
        if policy.agreement == "doubtful" and word.probability >= policy.sure:
            return True
        return index < len(self._previous) and self._previous[index] == _normal(word.text)

    def _position(self, words: Sequence[AlignedWord]) -> int:
        """Return the number of words of the final text that the settled words stand for."""
        if not self.words:
            return 0
        settled = [_normal(word.text) for word in self.words[-MATCHED:]]
        final = [_normal(word.text) for word in words]
        blocks = SequenceMatcher(None, settled, final, autojunk=False).get_matching_blocks()
        end = self.end
        latest = end + to_samples(JITTER)
        matched = [block.b + block.size for block in blocks if block.size]
        position = max((m for m in matched if words[m - 1].start <= latest), default=0)
        while position < len(words) and words[position].start + words[position].end < 2 * end:
            position += 1
        return position


def _after(words: Sequence[AlignedWord], prefix: str) -> list[AlignedWord]:
    """Return the words after a prefix. Marks that follow the prefix become a word of their own."""
    length = len("".join(prefix.split()))
    count = 0
    for index, word in enumerate(words):
        if count >= length:
            return list(words[index:])
        count += len("".join(word.text.split()))
        if count > length:  # marks after the last word of the prefix
            marks = word.text[len(word.text) - (count - length) :]
            return [replace(word, text=marks), *words[index + 1 :]]
    return []


def _may_part(word: AlignedWord, following: AlignedWord) -> bool:
    """Return whether two words are no parts of one: "ill-disposed", "l'été".

    In languages without spaces, every character is a word.
    """
    return following.text[:1].isspace() or (word.text[-1:] + following.text[:1]).isalnum()


def _trailing_marks(text: str) -> str:
    kept = text.rstrip("".join(APPENDED))
    return text[len(kept) :] if kept.strip() else ""


def _normal(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())
