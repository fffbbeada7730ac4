"""Repeated words, like "thank you thank you thank you": are they spoken, or a loop of the model?

    sound    [one]  [one]  [one]  [one]         the same sound, four times
    text      one    one   one one  one         the third sound has two words
    spoken    yes    yes   yes no   yes

A repetition is spoken if two witnesses agree. The alignment gives its words a time of their own, in
which they can be spoken, and in which the VAD finds speech. And the sound of this time occurs at
other repetitions, too. A loop over other speech has other sounds under each repetition; a loop over
noise has no sound that occurs again; and a loop over nothing has no time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from whisperbatch.decoding.words import count_letters
from whisperbatch.features.measures import (
    HOP,
    BandLevels,
    band_levels,
    correlations,
    has_pattern,
)
from whisperbatch.segmentation.timed_text import AlignedWord
from whisperbatch.text.languages import UNSPACED
from whisperbatch.types import Chunk, SpeechSpan, to_samples, to_seconds

MAX_PERIOD: Final = 40  # words: a loop may repeat a whole paragraph


@dataclass(frozen=True, slots=True)
class Repeat:
    """Words that repeat with a period of `period` words; the last repetition may be incomplete.

    Attributes:
        start: index of the first word.
        end: index after the last word.
        period: number of words that repeat.
    """

    start: int
    end: int
    period: int

    @property
    def times(self) -> float:
        """How often the words occur, counting the first time and the incomplete last time."""
        return (self.end - self.start) / self.period

    @property
    def repeated_words(self) -> int:
        """Number of words after the first time."""
        return self.end - self.start - self.period


def find_repeats(words: Sequence[str], min_times: int = 3) -> list[Repeat]:
    """Return the places where the same words occur at least `min_times` times in a row.

    The repeats are in order and do not overlap. Of two overlapping candidates, the
    longer is taken; of two with the same length, the candidate with the shorter period.
    """
    candidates: list[Repeat] = []
    for period in range(1, min(MAX_PERIOD, len(words) // min_times) + 1):
        start = 0
        for position in range(period, len(words) + 1):
            if position < len(words) and words[position] == words[position - period]:
                continue
            if position - start >= min_times * period:
                candidates.append(Repeat(start, position, period))
            start = position - period + 1
    candidates.sort(key=lambda repeat: (repeat.start - repeat.end, repeat.period))
    chosen: list[Repeat] = []
    for repeat in candidates:
        if all(repeat.end <= longer.start or repeat.start >= longer.end for longer in chosen):
            chosen.append(repeat)
    return sorted(chosen, key=lambda repeat: repeat.start)


# Correlation from which two sounds are the same words. Measured on the digits of five languages,
# each at its own speed (90 to 110 %) and level: equal digits have 0.77 (5 % quantile) to 0.92
# (median), and 0.73 to 0.89 with noise 10 dB below. Two different digits have 0.54 (median) to 0.64
# (75 % quantile): both are loud between pauses. Loops over voices and noise have 0.10 to 0.28.
SAME_SOUND: Final = 0.65
# The same for two sentences, as a mean over parts that are searched only where they are expected.
# Prompts that are repeated at 88 to 112 % of their speed have 0.60 to 0.92, and stretches of other
# speech of the same voice 0.13 to 0.46.
SAME_SENTENCE: Final = 0.5
# Mean correlation from which the number of sounds is certain, so that further words are too many.
# Words of one sentence that are said again with another melody have less.
EQUAL_SOUND: Final = 0.8
# Share of the times that have the same sound at least. Of different words, few sound alike.
MIN_HEARD: Final = 0.5
MIN_PATTERN: Final = 8  # feature frames, 0.08 s: the shortest word
MAX_PATTERN: Final = 60  # frames: longer sounds are compared part by part
LONG: Final = 90  # frames: longer repetitions are sentences, which may have other pauses
TOLERANCE: Final = 25  # frames, 0.25 s, by which the alignment errs
PATTERNS: Final = 6  # repetitions whose sounds are searched
OVERLAP: Final = 0.25  # share of a pattern by which two of its places may overlap
# Rates at which the words of a repetition can be spoken, in letters per second: ordinary speech has
# 15, and very fast speech 25 (audit.py). Characters are syllables in languages without spaces.
MAX_LETTERS: Final = 25.0
MAX_CHARACTERS: Final = 12.5
MIN_WORD: Final = to_samples(0.06)  # samples: "a", and digits that are written as one character
MIN_COVERED: Final = 0.5  # share of the time of a repetition that is speech

Range = tuple[int, int]
"""The first frame of a stretch of a chunk, and the frame after the last."""

Place = tuple[int, int, float]
"""Where a pattern occurs: its first frame, the frame after the last, and the correlation."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What speaks for the times of a repeat, which are counted from 0.

    Attributes:
        spoken: the times that are spoken; empty if nothing is known.
        excess: the times that share their sound with another time, which is enough for it.
    """

    spoken: frozenset[int] = frozenset()
    excess: frozenset[int] = frozenset()


def times_of(repeat: Repeat) -> list[Range]:
    """Return the index of the first word of each time of a repeat, and of the word after the last.

    The last time may be incomplete.
    """
    return list(pairwise((*range(repeat.start, repeat.end, repeat.period), repeat.end)))


def judge(
    words: Sequence[AlignedWord], chunk: Chunk, language: str, repeats: Sequence[Repeat]
) -> tuple[Verdict, ...]:
    """Return which times of each repeat are spoken.

    Args:
        words: all words of a row, which transcribe its speech in the language of the speech.
        chunk: the chunk of the row. The VAD has found its speech.
        language: of the words.
        repeats: places where the words repeat.
    """
    levels = band_levels(chunk.samples) if repeats else np.zeros((0, 1), np.float32)
    return tuple(_verdict(words, chunk, language, times_of(repeat), levels) for repeat in repeats)


def _verdict(
    words: Sequence[AlignedWord],
    chunk: Chunk,
    language: str,
    times: Sequence[Range],
    levels: BandLevels,
) -> Verdict:
    parts = [words[start:end] for start, end in times]
    plausible = {
        number for number, part in enumerate(parts) if has_room(part, chunk.speech, language)
    }
    ranges = [_frames(part, chunk) for part in parts]
    if not has_pattern(levels):  # a steady sound tells nothing about the words
        return Verdict(frozenset(plausible))
    before, after = words[: times[0][0]][-1:], words[times[-1][1] :][:1]
    begin = _frames(before, chunk)[1] if before else 0
    end = _frames(after, chunk)[0] if after else len(levels)
    heard, excess = _match(levels, ranges, begin, end)
    if len(heard) < MIN_HEARD * len(ranges):
        is_long = np.median([last - first for first, last in ranges]) >= LONG
        heard = _heard_again(levels, ranges) if is_long else set()
        return Verdict(frozenset(plausible & heard))
    # sounds that are counted are a better witness than the alignment, which errs in repetitions
    return Verdict(frozenset(heard if excess else heard & plausible), frozenset(excess))


def has_room(words: Sequence[AlignedWord], speech: Sequence[SpeechSpan], language: str) -> bool:
    """Return whether words can be spoken in their time, and the VAD finds speech there."""
    first, last = words[0].start, words[-1].end
    letters = sum(count_letters(word.text) for word in words)
    rate = MAX_CHARACTERS if language in UNSPACED else MAX_LETTERS
    if last - first < MIN_WORD * len(words) or letters > rate * to_seconds(last - first):
        return False
    covered = sum(_without_margins(span).within(first, last).length for span in speech)
    return covered >= MIN_COVERED * min(last - first, to_samples(letters / rate))


def _without_margins(span: SpeechSpan) -> SpeechSpan:
    return SpeechSpan(span.start + span.before, span.end - span.after)


def _frames(words: Sequence[AlignedWord], chunk: Chunk) -> Range:
    first, last = chunk.chunk_time(words[0].start), chunk.chunk_time(words[-1].end)
    return first // HOP, max(-(-last // HOP), first // HOP + MIN_PATTERN)


def _match(
    levels: BandLevels, ranges: Sequence[Range], begin: int, end: int
) -> tuple[set[int], set[int]]:
    """Return the times that have a sound of their own, and those that are certainly too many.

    The sounds of some of the times are searched. The sound whose places cover most of the audio is
    the sound of the words: part of a word has shorter places, and a time that is too long has
    fewer.

    Args:
        levels: of a chunk.
        ranges: of the times of the repeat.
        begin: first frame after the word before the repeat.
        end: first frame of the word after the repeat.
    """
    audio = levels[begin:end]
    longest = 1.3 * float(np.median([end - start for start, end in ranges]))
    candidates = [one for one in ranges if one[1] - one[0] <= max(longest, 2 * MIN_PATTERN)]
    candidates.sort(key=lambda one: one[0] - one[1])  # the longest first
    best: list[Place] = []
    pattern = levels[:0]
    covered = 0.0
    for first, last in candidates[:: max(len(candidates) // PATTERNS, 1)][:PATTERNS]:
        places = list(_places(levels[first:last], audio))
        total = sum(value * (last - first) for _, _, value in places)
        if len(places) > 1 and total > covered:
            best, covered, pattern = places, total, levels[first:last]
    owners = _owners(ranges, [(begin + first, begin + last) for first, last, _ in best])
    others = [value for _, _, value in best[1:]]  # the best place is that of the sound itself
    if not others or np.mean(others) < EQUAL_SOUND:
        return owners, set()
    rest = sorted(set(range(len(ranges))) - owners, key=lambda n: ranges[n][1] - ranges[n][0])
    return owners, set(rest[: max(len(ranges) - _most_places(pattern, audio), 0)])


def _most_places(pattern: BandLevels, audio: BandLevels) -> int:
    """Return how often one of the halves of a pattern occurs.

    A sound with the pause after it does not fit where the next pause is shorter.
    """
    half = len(pattern) // 2
    if half < MIN_PATTERN:
        return 0
    halves = (pattern[:half], pattern[half:])
    return max(len(list(_places(part, audio, EQUAL_SOUND))) for part in halves)


def _owners(ranges: Sequence[Range], places: Sequence[Range]) -> set[int]:
    """Return the times that have a place: each place goes to the nearest time that has none.

    The alignment can give two words to one sound and none to the next, so the nearest time may be
    elsewhere.
    """
    pairs = sorted(
        (-_shared(one, *place), number, index)
        for number, one in enumerate(ranges)
        for index, place in enumerate(places)
    )
    owners: set[int] = set()
    taken: set[int] = set()
    for _, number, index in pairs:
        if number not in owners and index not in taken:
            owners.add(number)
            taken.add(index)
    return owners


def _places(pattern: BandLevels, levels: BandLevels, least: float = SAME_SOUND) -> Iterator[Place]:
    """Yield the places of a pattern with at least this correlation, the best first."""
    values = correlations(pattern, levels)
    distance = round(len(pattern) * (1 - OVERLAP))
    while len(values) and (value := float(values.max())) >= least:
        start = int(values.argmax())
        yield start, start + len(pattern), value
        values[max(start - distance, 0) : start + distance] = 0.0


def _shared(one: Range, start: int, end: int) -> int:
    """Return the frames that two stretches share; negative: the distance between them."""
    return min(one[1], end) - max(one[0], start)


def _heard_again(levels: BandLevels, ranges: Sequence[Range]) -> set[int]:
    """Return the times whose sound occurs again in the time before or after."""
    found: set[int] = set()
    for number, (one, other) in enumerate(pairwise(ranges)):
        if _similarity(levels, one, other) >= SAME_SENTENCE:
            found |= {number, number + 1}
    return found


def _similarity(levels: BandLevels, one: Range, other: Range) -> float:
    """Return how similar two consecutive times are, as a mean over parts of the first.

    Both may be spoken at different rates, and with pauses at other places.
    """
    length = one[1] - one[0]
    edges = np.linspace(*one, -(-length // MAX_PATTERN) + 1).round().astype(int).tolist()
    stretch = (other[1] - other[0]) / length
    values = []
    for start, end in pairwise(edges):
        expected = round(other[0] + (start - one[0]) * stretch)
        earliest = max(expected - TOLERANCE, end)  # not the part itself
        found = correlations(
            levels[start:end], levels[earliest : expected + TOLERANCE + end - start]
        )
        values.append(float(found.max(initial=0.0)))
    return float(np.mean(values))
