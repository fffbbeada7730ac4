"""How good a transcript is: word errors, what was made up or missed, and when segments start.

Texts are compared as Whisper's authors do, with their normalisers, and as plainly as that allows:

- What can be written as a word or a digit is a digit on both sides, and digits stand alone: "1234",
  "1-2-3-4" and "one two three four" are the same four words. The English normaliser does the rest
  of the numbers; other languages have zero to ten, as prompts say them ("press one").
- Accents count, but for the languages whose texts in `benchmarks.speech` have lost theirs.
- Languages written without spaces are compared character by character.

Nothing else is forgiven: no list of names, no spelling that a model happens to choose.

Where the truth says when each utterance is spoken, two more things are known:

- Words whose time lies wholly more than 0.5 s from every utterance are made up: nobody speaks.
- An utterance of which no word is found, when all words are aligned with all of the truth, is
  missed.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import jiwer
from whisper_normalizer.basic import BasicTextNormalizer
from whisper_normalizer.english import EnglishTextNormalizer

from benchmarks.recordings import Utterance, gaps
from whisperbatch.text.languages import UNSPACED

FOLDED = ("es", "fr", "it", "ru")  # Asterisk's texts: without accents, or with some missing

COUNTING = {  # zero to ten
    "en": "zero one two three four five six seven eight nine ten",
    "es": "cero uno dos tres cuatro cinco seis siete ocho nueve diez",
    "fr": "zéro un deux trois quatre cinq six sept huit neuf dix",
    "hi": "शून्य एक दो तीन चार पांच छह सात आठ नौ दस",
    "it": "zero uno due tre quattro cinque sei sette otto nove dieci",
    "ja": "零 一 二 三 四 五 六 七 八 九 十",
    "pl": "zero jeden dwa trzy cztery pięć sześć siedem osiem dziewięć dziesięć",
    "pt": "zero um dois três quatro cinco seis sete oito nove dez",
    "ru": "ноль один два три четыре пять шесть семь восемь девять десять",
    "zh": "零 一 二 三 四 五 六 七 八 九 十",
}


@dataclass(frozen=True, slots=True)
class Score:
    """Word errors of a text; scores add up.

    Attributes:
        words: in the truth; characters in a language without spaces.
        substitutions: words that are wrong.
        deletions: words that are missing.
        insertions: words that nobody said.
    """

    words: int = 0
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0

    @property
    def errors(self) -> int:
        """Of all three kinds."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float:
        """Errors for each word of the truth: the word error rate, 0 at best."""
        return self.errors / self.words if self.words else float(self.errors > 0)

    def __add__(self, other: "Score") -> "Score":
        return Score(
            self.words + other.words,
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
        )


class TimedWord(NamedTuple):
    """A word that was recognised, and when: in seconds."""

    start: float
    end: float
    text: str


def word_error_rate(truth: str, text: str, language: str = "en") -> Score:
    """Compare `text` with what was really said."""
    expected, found = words(truth, language), words(text, language)
    if not expected:  # nothing to align with
        return Score(insertions=len(found))
    result = jiwer.process_words(" ".join(expected), " ".join(found))
    return Score(len(expected), result.substitutions, result.deletions, result.insertions)


def character_error_rate(truth: str, text: str, language: str = "en") -> Score:
    """The same in characters; between words that are written apart a space is one, too."""
    space = "" if language in UNSPACED else " "
    expected, found = (space.join(words(said, language)) for said in (truth, text))
    if not expected:
        return Score(insertions=len(found))
    result = jiwer.process_characters(expected, found)
    return Score(len(expected), result.substitutions, result.deletions, result.insertions)


def words(text: str, language: str = "en") -> list[str]:
    """The words of a text as they are compared; characters in a language without spaces."""
    spaced = language not in UNSPACED
    digits = _digits(language)
    if spaced:
        tokens = [digits.get(token, token) for token in _normalizer(language)(text).split()]
    else:
        tokens = [digits.get(token, token) for token in _normalizer(language)(text)]
    joined = " ".join(tokens).replace(".", " ")  # only numbers have kept theirs: 28.8
    return re.sub(r"\d", r" \g<0> ", joined).split()


def start_errors(
    utterances: Sequence[Utterance], segment_starts: Iterable[float], min_pause: float = 0.7
) -> list[float]:
    """How far, in seconds, the nearest segment starts from each utterance that follows a pause.

    Utterances whose pause before them (for the first, the time before it) is shorter than
    `min_pause` seconds are left out: nobody expects a segment to start there.
    """
    starts = list(segment_starts)
    errors = []
    silent_since = 0.0
    for spoken in utterances:
        if spoken.start - silent_since >= min_pause:
            errors.append(
                min((abs(start - spoken.start) for start in starts), default=float("inf"))
            )
        silent_since = spoken.end
    return errors


def made_up(
    utterances: Iterable[Utterance],
    found: Iterable[TimedWord],
    duration: float,
    language: str = "en",
    margin: float = 0.5,
) -> int:
    """How many words lie wholly in non-speech, more than `margin` seconds from any utterance.

    A word may last beyond the end of the recording: it is as if the last silence went on.
    """
    silent = [
        (start + margin if start else -1.0, end - margin if end < duration else float("inf"))
        for start, end in gaps(utterances, duration)
    ]
    ends = [end for _, end in silent]
    count = 0
    for word in found:
        number = bisect_left(ends, word.end)  # the first silence that lasts as long
        if number < len(silent) and silent[number][0] < word.start and word.end < ends[number]:
            count += len(words(word.text, language))
    return count


def missed(utterances: Iterable[Utterance], text: str, language: str = "en") -> list[Utterance]:
    """The utterances with none of their words in the alignment of the whole text."""
    said = [(spoken, words(spoken.text, language)) for spoken in utterances]
    expected = [word for _, spoken in said for word in spoken]
    if not expected:
        return []
    aligned = jiwer.process_words(" ".join(expected), " ".join(words(text, language)))
    right: set[int] = set()
    for chunk in aligned.alignments[0]:
        if chunk.type == "equal":
            right.update(range(chunk.ref_start_idx, chunk.ref_end_idx))
    lost, position = [], 0
    for spoken, own in said:
        if own and right.isdisjoint(range(position, position + len(own))):
            lost.append(spoken)
        position += len(own)
    return lost


def spread(start: float, end: float, text: str, language: str = "en") -> list[TimedWord]:
    """The words of a segment that has no word times: all of its time, shared out by length."""
    parts = [part for part in text if part.strip()] if language in UNSPACED else text.split()
    letters = sum(map(len, parts))
    timed, before = [], 0
    for part in parts:
        after = before + len(part)
        share = (end - start) / letters
        timed.append(TimedWord(start + share * before, start + share * after, part))
        before = after
    return timed


@cache
def _normalizer(language: str) -> Callable[[str], str]:
    normalize: Callable[[str], str]
    if language == "en":
        normalize = EnglishTextNormalizer()
    elif language in FOLDED:
        normalize = BasicTextNormalizer(remove_diacritics=True)
    else:
        normalize = BasicTextNormalizer(preserve_marks=True)  # Hindi's vowels are marks
    return normalize


@cache
def _digits(language: str) -> dict[str, str]:
    names = COUNTING.get(language, "").split()
    if language in FOLDED:
        names = [_normalizer(language)(name) for name in names]
    return {name: str(number) for number, name in enumerate(names)}
