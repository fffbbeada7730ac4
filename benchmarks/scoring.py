"""How good a transcript is: word error rate, and how far segments start from the true starts.

Texts are compared as Whisper's authors do, with their normalisers, and as plainly as that allows:

- What can be written as a word or a digit is a digit on both sides, and digits stand alone: "1234",
  "1-2-3-4" and "one two three four" are the same four words. The English normaliser does the rest
  of the numbers; other languages have zero to ten, as prompts say them ("press one").
- Accents count, but for the languages whose texts in `benchmarks.speech` have lost theirs.
- Languages written without spaces are compared character by character.

Nothing else is forgiven: no list of names, no spelling that a model happens to choose.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import jiwer
from whisper_normalizer.basic import BasicTextNormalizer
from whisper_normalizer.english import EnglishTextNormalizer

from benchmarks.recordings import Utterance
from whisperbatch.languages import UNSPACED

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


def word_error_rate(truth: str, text: str, language: str = "en") -> Score:
    """Compare `text` with what was really said."""
    expected, found = words(truth, language), words(text, language)
    if not expected:  # nothing to align with
        return Score(insertions=len(found))
    result = jiwer.process_words(" ".join(expected), " ".join(found))
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
