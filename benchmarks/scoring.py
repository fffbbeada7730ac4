"""Measures of a transcript: word errors, made-up words, missed speech and segment starts.

Texts are compared after the normalizers of Whisper's authors, with few further rules:

- A number word and its digit are equal, and each digit is a word: "1234", "1-2-3-4" and "one two
  three four" are the same four words. The English normalizer converts all numbers. For other
  languages, zero to ten are converted here, as they occur in prompts ("press one").
- Accents count, except in the languages whose texts in `benchmarks.speech` have lost accents.
- Languages written without spaces are compared character by character.

All other differences are errors, also in names and in spellings that a model prefers.

If the truth has the times of the utterances, three more measures are possible:

- A word is made up if all of it is more than 0.5 s from every utterance, where there is no speech.
- An utterance is missed if none of its words is matched when all words of the transcript are
  aligned with the whole truth.
- Speech is uncovered if it is more than 0.5 s from every recognized word, right or wrong.
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

WITHOUT_ACCENTS = ("es", "fr", "it", "ru")  # Asterisk's texts lack some or all accents

NUMBER_WORDS = {  # zero to ten
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
    """Word errors of a text; the sum of two scores is the score of both texts.

    Attributes:
        words: number of words in the truth; characters in a language without spaces.
        substitutions: number of wrong words.
        deletions: number of missing words.
        insertions: number of words that are not in the truth.
    """

    words: int = 0
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0

    @property
    def errors(self) -> int:
        """The number of errors of all three kinds."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float:
        """The word error rate: errors per word of the truth, 0 at best."""
        return self.errors / self.words if self.words else float(self.errors > 0)

    def __add__(self, other: "Score") -> "Score":
        return Score(
            self.words + other.words,
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
        )


class TimedWord(NamedTuple):
    """A recognized word with its time in seconds."""

    start: float
    end: float
    text: str


def word_error_rate(truth: str, text: str, language: str = "en") -> Score:
    """Return the word errors of `text` against `truth`, the text that is spoken."""
    expected, recognized = words(truth, language), words(text, language)
    if not expected:  # jiwer cannot align with an empty text
        return Score(insertions=len(recognized))
    result = jiwer.process_words(" ".join(expected), " ".join(recognized))
    return Score(len(expected), result.substitutions, result.deletions, result.insertions)


def character_error_rate(truth: str, text: str, language: str = "en") -> Score:
    """Return the character errors; a space between two words counts as a character."""
    space = "" if language in UNSPACED else " "
    expected, recognized = (space.join(words(line, language)) for line in (truth, text))
    if not expected:
        return Score(insertions=len(recognized))
    result = jiwer.process_characters(expected, recognized)
    return Score(len(expected), result.substitutions, result.deletions, result.insertions)


def words(text: str, language: str = "en") -> list[str]:
    """Return the normalized words of a text; characters in a language without spaces."""
    spaced = language not in UNSPACED
    digits = _digits(language)
    if spaced:
        tokens = [digits.get(token, token) for token in _normalizer(language)(text).split()]
    else:
        tokens = [digits.get(token, token) for token in _normalizer(language)(text)]
    joined = " ".join(tokens).replace(".", " ")  # a point is only left in numbers: 28.8
    return re.sub(r"\d", r" \g<0> ", joined).split()


def start_errors(
    utterances: Sequence[Utterance], segment_starts: Iterable[float], min_pause: float = 0.7
) -> list[float]:
    """Return the distance from utterance starts to the nearest segment start, in seconds.

    Only utterances after a pause of at least `min_pause` seconds are used, because a segment need
    not start after a shorter pause. The pause of the first utterance is the time before its start.
    """
    starts = list(segment_starts)
    errors = []
    silent_since = 0.0
    for utterance in utterances:
        if utterance.start - silent_since >= min_pause:
            errors.append(
                min((abs(start - utterance.start) for start in starts), default=float("inf"))
            )
        silent_since = utterance.end
    return errors


def made_up(
    utterances: Iterable[Utterance],
    recognized: Iterable[TimedWord],
    duration: float,
    language: str = "en",
    margin: float = 0.5,
) -> int:
    """Count the words that are completely more than `margin` seconds from any utterance.

    A word may end after the recording, as if the last silence continued.
    """
    silent = [
        (start + margin if start else -1.0, end - margin if end < duration else float("inf"))
        for start, end in gaps(utterances, duration)
    ]
    ends = [end for _, end in silent]
    count = 0
    for word in recognized:
        number = bisect_left(ends, word.end)  # the first silence that does not end before the word
        if number < len(silent) and silent[number][0] < word.start and word.end < ends[number]:
            count += len(words(word.text, language))
    return count


def missed(utterances: Iterable[Utterance], text: str, language: str = "en") -> list[Utterance]:
    """Return the utterances without a matched word in the alignment of the whole text."""
    truth = [(utterance, words(utterance.text, language)) for utterance in utterances]
    expected = [word for _, utterance_words in truth for word in utterance_words]
    if not expected:
        return []
    aligned = jiwer.process_words(" ".join(expected), " ".join(words(text, language)))
    matched: set[int] = set()
    for chunk in aligned.alignments[0]:
        if chunk.type == "equal":
            matched.update(range(chunk.ref_start_idx, chunk.ref_end_idx))
    missed_utterances, position = [], 0
    for utterance, utterance_words in truth:
        end = position + len(utterance_words)
        if utterance_words and matched.isdisjoint(range(position, end)):
            missed_utterances.append(utterance)
        position = end
    return missed_utterances


def uncovered(
    utterances: Iterable[Utterance],
    recognized: Iterable[TimedWord],
    language: str = "en",
    margin: float = 0.5,
) -> float:
    """Return the seconds of utterances that are more than `margin` seconds from every word."""
    spoken = _merged((utterance.start, utterance.end) for utterance in utterances)
    covered = _merged(
        (word.start - margin, word.end + margin)
        for word in recognized
        if words(word.text, language)
    )
    ends = [end for _, end in covered]
    seconds = 0.0
    for start, end in spoken:
        seconds += end - start
        for other_start, other_end in covered[bisect_left(ends, start) :]:
            if other_start >= end:
                break
            seconds -= min(end, other_end) - max(start, other_start)
    return seconds


def spread(start: float, end: float, text: str, language: str = "en") -> list[TimedWord]:
    """Return the words of a segment, with its time divided among them by their length."""
    parts = [part for part in text if part.strip()] if language in UNSPACED else text.split()
    letters = sum(map(len, parts))
    timed, before = [], 0
    for part in parts:
        after = before + len(part)
        share = (end - start) / letters
        timed.append(TimedWord(start + share * before, start + share * after, part))
        before = after
    return timed


def _merged(ranges: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return ranges in order, with overlapping ranges joined."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


@cache
def _normalizer(language: str) -> Callable[[str], str]:
    normalize: Callable[[str], str]
    if language == "en":
        normalize = EnglishTextNormalizer()
    elif language in WITHOUT_ACCENTS:
        normalize = BasicTextNormalizer(remove_diacritics=True)
    else:
        normalize = BasicTextNormalizer(preserve_marks=True)  # Hindi's vowels are marks
    return normalize


@cache
def _digits(language: str) -> dict[str, str]:
    names = NUMBER_WORDS.get(language, "").split()
    if language in WITHOUT_ACCENTS:
        names = [_normalizer(language)(name) for name in names]
    return {name: str(number) for number, name in enumerate(names)}
