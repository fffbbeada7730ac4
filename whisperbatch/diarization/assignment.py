"""The speakers of segments and words, from the turns of a diarizer.

A word belongs to the speaker whose turns cover most of it:

    turns   A   [==============]                 [=====]
            B             [===========]
    words       [w0] [w1]  [w2] [w3]     [w4]
    best         A    A     A    B        B      w2: a tie in time; w4: the nearest turn

All times are whole samples, so that equal overlaps compare as equal.

Turns and words have errors of a tenth of a second or more, so single words often get the wrong
speaker. In AMI, CallHome and VoxConverse, segments divided at every change of speaker had 1,482
words with a better speaker, but 310 with a worse one
(https://github.com/kaixxx/noScribe/pull/341). A segment is therefore divided only at clear changes:

    words     So you went there  and  it was closed?   [pause]  Yes.
    speaker   A  A   A    A      B    A  A   A                  B
    parts     [A                                   ]            [B ]
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from whisperbatch.diarization.protocol import has_duration
from whisperbatch.text.languages import UNSPACED
from whisperbatch.text.sentences import begins_with_closing_mark
from whisperbatch.types import Segment, Turn, Word, to_samples

Said = TypeVar("Said", Segment, Word)

Integers: TypeAlias = npt.NDArray[np.int64]

MIN_WORD: Final = to_samples(0.02)  # one encoder position: words may have no duration
NEAR: Final = 0.5  # confidence of a word right beside a turn, as a share of the turn's confidence
HALF_DISTANCE: Final = to_samples(0.5)  # the confidence halves with each such distance to the turn
UNIT: Final = 1_000_000  # confidences are whole millionths, so that equal ones compare as equal
FAR: Final = 2**62  # more samples than any time

MIN_PAUSE: Final = to_samples(0.3)  # longer than the closure of a consonant, up to 0.2 s
MIN_UNITS: Final = 2  # a single word is often a word at the edge of a turn
MIN_DURATION: Final = to_samples(0.7)  # shorter parts are mostly errors: the measurement above

MIN_SHARE: Final = 1 / 3
"""Share of a word during which another person must speak to be one of its `other_speakers`. A word
lasts 0.3 s on average, and the edges of turns are right to about 0.1 s: a third of the word."""

MAX_WORD: Final = 1.0
"""Seconds of a word that decide who says the word. Whisper stretches words over pauses and over
what others say: the first word of a sentence begins too early, and other words end too late. So
the last second of the first word counts, and the first second of the others. Few words are longer.
In eight conversations with known text, the mean cpWER is 35.2 % with complete words, 35.1 % with
1.5 s, and 35.0 % with 1.0, 0.8 and 0.6 s."""

DOMINANT: Final = 0.5
"""Weight of the dominant speaker of a word beyond the share of the word in which they speak. Of ten
conversations with known text, 0.5 improves the cpWER of two, and of four with the true turns, and
worsens none (mean 49.2 to 49.1 %, and 49.4 to 49.1 %); 0.2 and 0.05 worsen some."""

BLOCK: Final = 500  # segments whose words are compared with all speakers at a time


@dataclass(frozen=True, slots=True)
class Evidence:
    """Who says each word, and how sure this is.

    Attributes:
        best: number of the speaker of each word; shape (n_words,).
        confidences: of each word and speaker, from 0 to 1; shape (n_words, n_speakers).
        shares: share of each word that the turns of each speaker cover; shape as `confidences`.
        durations: of each word, in samples, at least MIN_WORD; shape (n_words,).
    """

    best: list[int]
    confidences: list[list[float]]
    shares: list[list[float]]
    durations: list[int]


class SpeakerTracks:
    """The turns of each speaker, in order and without overlap.

    Args:
        turns: in any order. Turns without duration are ignored. Where turns of one speaker
            overlap, the earlier turn counts.
    """

    def __init__(self, turns: Sequence[Turn]) -> None:
        ordered = sorted(turns, key=lambda turn: (turn.start, turn.end))
        ordered = [turn for turn in ordered if has_duration(turn)]
        self.names: tuple[str, ...] = tuple(dict.fromkeys(turn.speaker for turn in ordered))
        by_name: dict[str, list[Turn]] = {name: [] for name in self.names}
        for turn in ordered:
            by_name[turn.speaker].append(turn)
        self._tracks = [_Track(by_name[name]) for name in self.names]
        self._all = _Track(ordered)

    def evidence(self, spans: Sequence[tuple[float, float]]) -> Evidence:
        """Return who says each word.

        A word belongs to the speaker whose turns cover most of it; if two cover as much, to the
        one with the higher confidence, then to the one whose turn begins first. If no turn covers
        the word, it belongs to the speaker of the nearest turn.

        The confidence is the covered share of the word, times the confidence of the turn. The part
        of the word that no turn covers counts half, and less with the distance to the turn.

        Args:
            spans: start and end of each word in seconds, in any order.
        """
        starts, ends = _word_times(spans)
        durations = ends - starts
        measured = [track.measure(starts, ends) for track in self._tracks]
        overlaps, ratings, distances, first_starts = (
            np.stack(columns, axis=1) for columns in zip(*measured, strict=True)
        )
        unclaimed = (durations - self._all.measure(starts, ends)[0]) / durations
        lengths = durations[:, np.newaxis]
        near = ratings / np.where(overlaps > 0, overlaps, 1) / UNIT
        near *= NEAR * 0.5 ** (distances / HALF_DISTANCE) * unclaimed[:, np.newaxis]
        covered = np.where(overlaps > 0, ratings / lengths / UNIT, 0.0)
        return Evidence(
            _first_by((overlaps, -distances, ratings, -first_starts)).tolist(),
            np.clip(near + covered, 0.0, 1.0).round(4).tolist(),
            (overlaps / lengths).tolist(),
            durations.tolist(),
        )


class _Track:
    """Turns in order; where they overlap, the later turn is cut or left out.

    Args:
        turns: in order of their starts.
    """

    def __init__(self, turns: Iterable[Turn]) -> None:
        rows: list[tuple[int, int, int]] = []
        for turn in turns:
            start, end = to_samples(turn.start), to_samples(turn.end)
            start = max(start, rows[-1][1]) if rows else start
            if start < end:
                rows.append((start, end, round(min(max(turn.confidence, 0.0), 1.0) * UNIT)))
        columns = np.array(rows, np.int64).reshape(-1, 3).T
        self._starts, self._ends, self._confidences = columns
        lengths = self._ends - self._starts
        self._covered_before = _sums_before(lengths)
        self._weight_before = _sums_before(lengths * self._confidences)

    def measure(
        self, starts: Integers, ends: Integers
    ) -> tuple[Integers, Integers, Integers, Integers]:
        """Return four numbers for each word, given the first and last sample of each word.

        Returns:
            The samples of the word that turns cover; these samples times the confidences of their
            turns, or the confidence of the nearest turn if there are none; the distance to the
            nearest turn; and the start of the first turn that covers the word, or of the nearest.
        """
        covered, weight = self._up_to(ends)
        covered_before, weight_before = self._up_to(starts)
        overlaps, weights = covered - covered_before, weight - weight_before
        last = len(self._starts) - 1
        following = np.searchsorted(self._ends, starts, side="right")
        before, after = np.maximum(following - 1, 0), np.minimum(following, last)
        to_before = np.where(following > 0, starts - self._ends[before], FAR)
        to_after = np.where(following <= last, self._starts[after] - ends, FAR)
        is_covered = overlaps > 0
        nearest = np.where(~is_covered & (to_before <= to_after), before, after)
        return (
            overlaps,
            np.where(is_covered, weights, self._confidences[nearest]),
            np.where(is_covered, 0, np.minimum(to_before, to_after)),
            self._starts[nearest],
        )

    def _up_to(self, times: Integers) -> tuple[Integers, Integers]:
        """Return the samples that turns cover before each time, and their weighted number."""
        turn = np.searchsorted(self._starts, times, side="right") - 1
        known: Integers = np.maximum(turn, 0)  # before the first turn, `inside` is 0
        inside: Integers = np.maximum(np.minimum(times, self._ends[known]) - self._starts[known], 0)
        return (
            self._covered_before[known] + inside,
            self._weight_before[known] + inside * self._confidences[known],
        )


def _word_times(spans: Sequence[tuple[float, float]]) -> tuple[Integers, Integers]:
    """Return the starts and ends in samples; words that are too short are widened on both sides."""
    times = np.array(
        [(to_samples(start), to_samples(max(start, end))) for start, end in spans], np.int64
    ).reshape(-1, 2)
    missing = np.maximum(MIN_WORD - (times[:, 1] - times[:, 0]), 0)
    starts = times[:, 0] - missing // 2
    return starts, np.maximum(times[:, 1], starts + MIN_WORD)


def _sums_before(values: Integers) -> Integers:
    """Return for each value the sum of the values before it."""
    return np.cumsum(values) - values


def _first_by(keys: Sequence[npt.NDArray[Any]]) -> Integers:
    """Return the column of each row with the highest first key; among equals, of the next key."""
    candidates = np.ones(keys[0].shape, np.bool_)
    for key in keys:
        masked = np.where(candidates, key, -FAR)
        candidates &= masked == masked.max(axis=1, keepdims=True)
    columns: Integers = candidates.argmax(axis=1)
    return columns


@dataclass(frozen=True, slots=True)
class WordRun:
    """Consecutive words with one speaker.

    Attributes:
        first: number of the first word.
        stop: number after the last word.
        start: start of the first word, in samples.
        end: end of the last word, in samples.
        times: samples during which each speaker speaks, by the number of the speaker, weighted by
            how probable it is that the words are theirs; the speaker of the first word comes first.
        spoken: samples that the words take.
        units: number of words; words that are written together count once.
    """

    first: int
    stop: int
    start: int
    end: int
    times: dict[int, float]
    spoken: int
    units: int = 1

    @property
    def speaker(self) -> int:
        """Who says most of the run; if two say as much, the first to speak."""
        return max(self.times, key=self.times.__getitem__)

    @property
    def is_long(self) -> bool:
        """Whether the run is long enough to be trusted."""
        return self.units >= MIN_UNITS and self.end - self.start >= MIN_DURATION

    def __add__(self, following: "WordRun") -> "WordRun":
        times = dict(self.times)
        for speaker, time in following.times.items():
            times[speaker] = times.get(speaker, 0) + time
        end = max(self.end, following.end)
        spoken, units = self.spoken + following.spoken, self.units + following.units
        return WordRun(self.first, following.stop, self.start, end, times, spoken, units)


def divide_words(units: Sequence[WordRun]) -> list[WordRun]:
    """Return the parts of a segment: neighbours have different speakers, and a clear change.

    A change is clear at a pause, or if both sides are long. At an unclear change, the shortest run
    is joined with its longer neighbour, until all changes are clear.

    Args:
        units: the words of the segment, in order; words that are written together are one unit.
    """
    runs = _join_runs(units)
    while unclear := _unclear(runs):
        beside = {number for change in unclear for number in (change - 1, change)}
        weak = min(
            (number for number in beside if not runs[number].is_long),
            key=lambda number: (runs[number].spoken, number),
        )
        changes = unclear & {weak, weak + 1}  # a change has the number of the run after it
        joined = max(changes, key=lambda change: (_other(runs, change, weak).spoken, -change))
        runs[joined - 1 : joined + 1] = [runs[joined - 1] + runs[joined]]
        runs = _join_runs(runs)
    return runs


def _unclear(runs: Sequence[WordRun]) -> set[int]:
    return {
        number
        for number, (before, after) in enumerate(pairwise(runs), 1)
        if after.start - before.end < MIN_PAUSE and not (before.is_long and after.is_long)
    }


def _other(runs: Sequence[WordRun], change: int, run: int) -> WordRun:
    """Return the neighbour of a run at a change."""
    return runs[change - 1] if change == run else runs[change]


def _join_runs(runs: Sequence[WordRun]) -> list[WordRun]:
    """Return runs in which neighbours have different speakers."""
    joined: list[WordRun] = []
    for run in runs:
        if joined and joined[-1].speaker == run.speaker:
            joined[-1] += run
        else:
            joined.append(run)
    return joined


def assign_speakers(
    segments: Iterable[Segment],
    turns: Sequence[Turn],
    *,
    exclusive: Sequence[Turn] = (),
    first_id: int = 0,
    provisional: bool = False,
    keep_words: bool = True,
) -> list[Segment]:
    """Return the segments with their speakers, divided where the speaker clearly changes.

    Every segment has one speaker, who says most of its time, and all its words have this speaker.
    A change of speaker is clear at a pause, or with at least two words and 0.7 s on both sides.
    Nothing is lost: the words of the result are the words of the segments, in their order, and the
    joined text stays the same. A segment is never divided inside of text that is written together.

    Without turns, the segments have no speakers. The time grows with n log n of words and turns.

    Args:
        segments: in order, with their words; a segment without words is not divided. They must not
            be results of this function, because parts are not joined again. A segment that has a
            speaker already, because only this speaker's channel was decoded, is not divided.
        turns: in any order; those of different speakers may overlap.
        exclusive: turns of the same speakers, one at a time. If given, they decide who says a word,
            and `turns` decide who else speaks.
        first_id: the `id` of the first segment of the result; the others follow.
        provisional: whether the turns may still change.
        keep_words: whether the segments of the result have their words.
    """
    tracks, deciding = SpeakerTracks(turns), SpeakerTracks(exclusive)
    given = list(segments)
    if tracks.names:
        blocks = (given[first : first + BLOCK] for first in range(0, len(given), BLOCK))
        given = [part for block in blocks for part in _block_parts(block, tracks, deciding)]
    return [
        replace(
            segment,
            id=number,
            provisional=provisional,
            words=segment.words if keep_words else None,
        )
        for number, segment in enumerate(given, first_id)
    ]


def _block_parts(
    segments: Sequence[Segment], tracks: SpeakerTracks, deciding: SpeakerTracks
) -> Iterator[Segment]:
    spans = [span for segment in segments for span in _deciding_spans(segment)]
    evidence = tracks.evidence(spans)
    if deciding.names:
        numbers = [tracks.names.index(name) for name in deciding.names]
        best = [numbers[number] for number in deciding.evidence(spans).best]
        evidence = replace(evidence, best=best)
    position = 0
    for segment in segments:
        count = len(segment.words or (segment,))
        if segment.speaker is None:
            yield from _parts(segment, evidence, position, tracks.names)
        else:
            yield _of_channel(segment, evidence, position, tracks.names)
        position += count


def _of_channel(
    segment: Segment, evidence: Evidence, position: int, names: Sequence[str]
) -> Segment:
    """Return a segment whose speaker is known; its evidence begins at `position`.

    How loud the speaker is beside others says nothing about the confidence: the channel was decoded
    alone. So the confidence of a word is the share that the speaker's turns cover.
    """
    speaker = segment.speaker or ""
    number = names.index(speaker) if speaker in names else -1
    shares = evidence.shares[position : position + len(segment.words or (segment,))]
    confidences = [round(share[number], 4) if number >= 0 else 0.0 for share in shares]
    if not segment.words:
        return _attribute(segment, speaker, confidences[0], shares[0], names)
    words = tuple(
        _attribute(word, speaker, confidence, share, names)
        for word, confidence, share in zip(segment.words, confidences, shares, strict=True)
    )
    return _part(replace(segment, words=words), words, is_first=True, is_last=True)


def _deciding_spans(segment: Segment) -> Iterator[tuple[float, float]]:
    """Yield the time that decides who says each word, or the segment if it has no words.

    Of a segment's only word, the complete time counts: nothing tells where the word is stretched.
    """
    first, *others = segment.words or (segment,)
    yield (max(first.start, first.end - MAX_WORD) if others else first.start), first.end
    for word in others:
        yield word.start, min(word.end, word.start + MAX_WORD)


def _parts(
    segment: Segment, evidence: Evidence, position: int, names: Sequence[str]
) -> Iterator[Segment]:
    """Yield the parts of a segment; its evidence begins at `position`."""
    words = segment.words
    if not words:
        speaker = evidence.best[position]
        confidence = evidence.confidences[position][speaker]
        yield _attribute(segment, names[speaker], confidence, evidence.shares[position], names)
        return
    runs = divide_words(list(_units(segment, words, evidence, position)))
    for run in runs:
        attributed = tuple(
            _attribute(
                word,
                names[run.speaker],
                evidence.confidences[number][run.speaker],
                evidence.shares[number],
                names,
            )
            for number, word in enumerate(words[run.first : run.stop], position + run.first)
        )
        yield _part(segment, attributed, is_first=run is runs[0], is_last=run is runs[-1])


def _part(segment: Segment, words: tuple[Word, ...], *, is_first: bool, is_last: bool) -> Segment:
    """Return the part of a segment with these words, which have their speaker."""
    confidences = [word.speaker_confidence or 0.0 for word in words]
    return replace(
        segment,
        start=segment.start if is_first else words[0].start,
        end=segment.end if is_last else words[-1].end,
        text=segment.text if is_first and is_last else _text(words),
        words=words,
        speaker=words[0].speaker,
        speaker_confidence=round(sum(confidences) / len(words), 4),
        other_speakers=tuple(dict.fromkeys(name for word in words for name in word.other_speakers)),
    )


def _units(
    segment: Segment, words: Sequence[Word], evidence: Evidence, position: int
) -> Iterator[WordRun]:
    """Yield the words of a segment; words that are written together are one unit.

    If the words do not spell the text, the whole segment is one unit.
    """
    unit: WordRun | None = None
    may_divide = _text(words) == segment.text.strip()
    for number, word in enumerate(words):
        start = to_samples(word.start)
        end = max(start, to_samples(word.end))
        times = _times(evidence, position + number)
        run = WordRun(number, number + 1, start, end, times, evidence.durations[position + number])
        if unit is None:
            unit = run
        elif may_divide and _may_begin(words, unit.first, number, segment.language):
            yield unit
            unit = run
        else:
            unit = replace(unit + run, units=1)
    if unit:
        yield unit


def _times(evidence: Evidence, word: int) -> dict[int, float]:
    """Return the weighted samples of each speaker in a word.

    Where several people speak, the words may be anybody's, but are more often the dominant one's.
    """
    best, duration = evidence.best[word], evidence.durations[word]
    times = {best: DOMINANT * duration}
    for speaker, share in enumerate(evidence.shares[word]):
        if share:
            times[speaker] = times.get(speaker, 0) + share * duration
    return times


def _may_begin(words: Sequence[Word], first: int, number: int, language: str) -> bool:
    """Return whether a segment may begin with a word; `first` is the first word of the unit before.

    In languages with spaces, there must be a space, so that the joined text does not change.
    """
    before, text = words[number - 1].word, words[number].word
    is_apart = language in UNSPACED or text[:1].isspace() or before[-1:].isspace()
    is_visible = bool(text.strip()) and any(word.word.strip() for word in words[first:number])
    return is_apart and is_visible and not begins_with_closing_mark(text)


def _attribute(
    said: Said, speaker: str, confidence: float, shares: Sequence[float], names: Sequence[str]
) -> Said:
    """Return a word or segment with its speaker, and who else speaks during a noticeable part."""
    others = tuple(
        name
        for name, share in zip(names, shares, strict=True)
        if share >= MIN_SHARE and name != speaker
    )
    return replace(said, speaker=speaker, speaker_confidence=confidence, other_speakers=others)


def _text(words: Iterable[Word]) -> str:
    return "".join(word.word for word in words).strip()
