"""Where to listen for a recording's language: voiced windows, spread over all of it.

    recording   |--------------------------------------------------|
    tried         1st   5th   3rd   7th   2nd   6th   4th   8th

Whichever of them have no speech, those that have are spread over the recording; and it takes as
long for 3 hours as for 10 minutes.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from whisperbatch.audio.random_access import RandomAccess
from whisperbatch.chunking.merge import chunks
from whisperbatch.options import Options
from whisperbatch.protocols import Encoded, Engine, FeatureExtractor, Vad
from whisperbatch.rows import Row, padded
from whisperbatch.types import (
    WINDOW_FRAMES,
    Chunk,
    LanguageScores,
    Samples,
    spoken,
    to_samples,
    to_seconds,
)

TRIES: Final = 4  # places looked at for each window wanted
LEAST: Final = 1.0  # seconds of speech: with less nobody can tell
SHARE: Final = 0.1  # of a window that must be speech
FAINTEST: Final = 1e-7  # mean square of speech, -70 dBFS: fainter sound is no speech
AT_ONCE: Final = 8  # windows that are encoded together
ROUND: Final = 100  # frames: windows of about the same length have the same
MARGIN: Final = 300  # frames of silence after the longest window; Whisper knows short ones so


def find_windows(
    recording: RandomAccess, vad: Vad, options: Options, stopped: Callable[[], bool]
) -> list[Chunk]:
    """Up to `language_detection_segments` voiced windows, in the order of the recording.

    Args:
        recording: of the recording.
        vad: finds speech in them.
        options: how many, how long, and in which ranges.
        stopped: asked now and then; True ends the search.
    """
    found: list[Chunk] = []
    for start, length in places(recording.duration, options):
        if stopped() or len(found) == options.language_detection_segments:
            break
        begins, samples = recording.read(start, length)
        if chunk := voiced(vad, samples, begins, options):
            found.append(chunk)
    return sorted(found, key=lambda chunk: chunk.start)


def places(duration: float, options: Options) -> list[tuple[float, float]]:
    """Start and length of each place to look at, in seconds, the most telling first.

    Any number of them from the first on is spread over the recording, or over the ranges of it
    that are asked for: they come in the order of van der Corput's sequence.
    """
    ranges = [
        (start, min(duration if end is None else end, duration))
        for start, end in options.clip_timestamps or ((0.0, None),)
        if start < duration
    ]
    length = options.language_detection_length
    counts = [math.ceil((end - start) / length) for start, end in ranges]
    count = min(sum(counts), TRIES * options.language_detection_segments)
    found = []
    for number in sorted(range(count), key=_radical_inverse):
        place = number * sum(counts) // count
        for (first, end), own in zip(ranges, counts, strict=True):
            if place < own:
                start = first + place * length
                found.append((start, min(length, end - start)))
                break
            place -= own
    return found


def voiced(vad: Vad, samples: Samples, start: float, options: Options) -> Chunk | None:
    """The window from its first speech to its last, if it has enough to tell a language by."""
    if not len(samples):
        return None
    frames, offset = vad([samples]), to_samples(start)
    found = list(chunks(frames, short(options), vad.hop, index=-1, offset=offset))
    chunk = max(found, key=lambda one: spoken(one.speech), default=None)
    if chunk is None:
        return None
    return chunk if is_telling(chunk, len(samples)) else None


def short(options: Options) -> Options:
    """The options by which windows are cut: as long as asked for, with room for the margins."""
    length = max(options.language_detection_length, 2 * options.speech_pad + 1)
    return replace(options, chunk_length=length, max_speech_duration=30.0)


def is_telling(chunk: Chunk, length: int) -> bool:
    """Whether there is enough speech in a window of `length` samples, and sound at all."""
    enough = max(LEAST, SHARE * to_seconds(length))
    return spoken(chunk.speech) >= enough and is_loud(chunk)


def is_loud(chunk: Chunk) -> bool:
    """Whether there is sound at all."""
    return float(np.mean(np.square(chunk.samples, dtype=np.float64))) >= FAINTEST


def thinned(found: Iterable[Chunk], options: Options) -> list[Chunk]:
    """The windows of a recording that can only be read through, spread over all of it.

    Every second one is let go of whenever there are twice as many as it takes.
    """
    wanted = options.language_detection_segments
    kept: list[Chunk] = []
    best: Chunk | None = None  # of those that tell little, if there are no others
    every, telling = 1, 0
    for chunk in found:
        if is_loud(chunk) and (best is None or spoken(chunk.speech) > spoken(best.speech)):
            best = chunk
        if not is_telling(chunk, chunk.length):
            continue
        if telling % every == 0:
            kept.append(chunk)
        telling += 1
        if len(kept) == 2 * wanted:
            kept, every = kept[::2], 2 * every
    if not kept:
        return [best] if best else []
    count = min(wanted, len(kept))
    return [kept[number * len(kept) // count] for number in range(count)]


def score_chunks(
    engine: Engine, extractor: FeatureExtractor, chunks: Sequence[Chunk]
) -> list[LanguageScores]:
    """What languages the chunks sound like, in order.

    The encoder sees no more than the longest of them, so short ones take little time.
    """
    if not chunks:
        return []
    rows = [Row.of(chunk, extractor) for chunk in chunks]
    longest = max(row.features.shape[1] for row in rows)
    frames = min(-(-longest // ROUND) * ROUND + MARGIN, WINDOW_FRAMES)
    found: list[LanguageScores] = []
    for start in range(0, len(rows), AT_ONCE):
        batch = rows[start : start + AT_ONCE]
        encoded = engine.encode(padded(batch, frames))
        found += score_languages(engine, batch, encoded)
    return found


def score_languages(engine: Engine, rows: Sequence[Row], encoded: Encoded) -> list[LanguageScores]:
    """What languages rows sound like that are encoded, in order."""
    return [
        LanguageScores(probabilities, spoken(row.chunk.speech))
        for row, probabilities in zip(rows, engine.detect_language(encoded), strict=True)
    ]


def _radical_inverse(number: int) -> float:
    """The binary digits of a number, mirrored at the point: 1, 2, 3 are 0.5, 0.25, 0.75."""
    digits = f"{number:b}"[::-1]
    return int(digits, 2) / float(2 ** len(digits))
