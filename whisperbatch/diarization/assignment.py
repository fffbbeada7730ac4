"""The speakers of segments and words, from the turns of a diarizer."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from whisperbatch.diarization.smoothing import Run, divide
from whisperbatch.diarization.tracks import Evidence, SpeakerTracks
from whisperbatch.text.languages import UNSPACED
from whisperbatch.text.sentences import begins_with_closing_mark
from whisperbatch.types import Segment, Turn, Word, to_samples

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


def with_speakers(
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
    """Yield the parts of several segments."""
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
    words = tuple(
        replace(
            word,
            speaker=speaker,
            speaker_confidence=round(share[number], 4) if number >= 0 else 0.0,
            other_speakers=_others(share, number, names),
        )
        for word, share in zip(segment.words or (), shares, strict=False)
    )
    if not words:
        confidence = round(shares[0][number], 4) if number >= 0 else 0.0
        others = _others(shares[0], number, names)
        return replace(segment, speaker_confidence=confidence, other_speakers=others)
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
        yield replace(
            segment,
            speaker=names[speaker],
            speaker_confidence=evidence.confidences[position][speaker],
            other_speakers=_others(evidence.shares[position], speaker, names),
        )
        return
    runs = divide(list(_units(segment, words, evidence, position)))
    for run in runs:
        attributed = tuple(
            replace(
                word,
                speaker=names[run.speaker],
                speaker_confidence=evidence.confidences[number][run.speaker],
                other_speakers=_others(evidence.shares[number], run.speaker, names),
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
) -> Iterator[Run]:
    """Yield the words of a segment; words that are written together are one unit.

    If the words do not spell the text, the whole segment is one unit.
    """
    unit: Run | None = None
    may_divide = _text(words) == segment.text.strip()
    for number, word in enumerate(words):
        start = to_samples(word.start)
        end = max(start, to_samples(word.end))
        times = _times(evidence, position + number)
        run = Run(number, number + 1, start, end, times, evidence.durations[position + number])
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


def _others(shares: Sequence[float], speaker: int, names: Sequence[str]) -> tuple[str, ...]:
    """Return who else speaks during a noticeable part of a word."""
    return tuple(
        names[number]
        for number, share in enumerate(shares)
        if share >= MIN_SHARE and number != speaker
    )


def _text(words: Iterable[Word]) -> str:
    return "".join(word.word for word in words).strip()
