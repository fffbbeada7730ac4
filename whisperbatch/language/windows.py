"""Language windows: stretches with speech, spread over the recording, that decide its language.

    recording   |--------------------------------------------------|
    order         1st   5th   3rd   7th   2nd   6th   4th   8th

Candidates are tried in this order until enough windows have speech. The windows are therefore
spread over the recording, whichever candidates have no speech, and the search takes as long for
3 hours as for 10 minutes.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from whisperbatch.audio.random_access import RandomAccess
from whisperbatch.chunking.merge import chunks
from whisperbatch.language.decisions import decide, restrict_to
from whisperbatch.options import Options
from whisperbatch.protocols import FeatureExtractor, Vad
from whisperbatch.recording import RecordingState, Row
from whisperbatch.scheduling import SharedModel
from whisperbatch.types import (
    WINDOW_FRAMES,
    Chunk,
    LanguageDetection,
    LanguageScores,
    LanguageWindow,
    Samples,
    speech_seconds,
    to_samples,
    to_seconds,
)

NO_SPEECH: Final = LanguageDetection(None, 0.0, {}, reason="the recording has no speech")
"""The result for a recording without speech."""

UNREADABLE: Final = LanguageDetection(
    None, 0.0, {}, reason="detection needs the whole recording, but read_through is False"
)
"""The result for an open reader, if only reading the whole recording could detect the language."""


def english_only(model: str) -> LanguageDetection:
    """Return the result of an English-only model, which cannot detect languages."""
    return LanguageDetection("en", 1.0, {"en": 1.0}, reason=f"model {model} is English-only")


def detection(
    windows: Sequence[Chunk], scores: Sequence[LanguageScores], options: Options
) -> LanguageDetection:
    """Return the language that the windows vote for, with the result of each window.

    Args:
        windows: at least one, in the order of the recording.
        scores: scores of each window.
        options: the candidate languages and the threshold.
    """
    decision = decide(scores, options)
    results = []
    for window, window_scores in zip(windows, scores, strict=True):
        probabilities = restrict_to(window_scores.probabilities, options.languages)
        best = max(probabilities, key=lambda code: probabilities[code])
        start, end = to_seconds(window.start), to_seconds(window.end)
        results.append(LanguageWindow(start, end, best, probabilities[best]))
    ranked = sorted(decision.probabilities.items(), key=lambda item: -item[1])
    return LanguageDetection(
        decision.language, decision.probability, dict(ranked), windows=tuple(results)
    )


CANDIDATES_PER_WINDOW: Final = 4  # stretches tried, at most, for each requested window
MIN_SPEECH: Final = 1.0  # seconds of speech: less does not identify a language
MIN_SPEECH_FRACTION: Final = 0.1  # of a window
MIN_POWER: Final = 1e-7  # mean square of a window, -70 dBFS: fainter sound is not speech
FRAME_MULTIPLE: Final = 100  # feature frames: windows of similar length get the same shape
PADDING: Final = 300  # feature frames of silence after the longest window: Whisper's training
# padded short audio with silence


def find_windows(
    recording: RandomAccess, vad: Vad, options: Options, stopped: Callable[[], bool]
) -> list[Chunk]:
    """Return up to `language_detection_segments` windows with speech, ordered by time.

    Args:
        recording: reads stretches of the recording.
        vad: finds the speech in each stretch.
        options: number and length of the windows, and the ranges of the recording.
        stopped: called before each stretch is read; True ends the search.
    """
    windows: list[Chunk] = []
    for start, length in candidates(recording.duration, options):
        if stopped() or len(windows) == options.language_detection_segments:
            break
        actual_start, samples = recording.read(start, length)
        if window := voiced_window(vad, samples, actual_start, options):
            windows.append(window)
    return sorted(windows, key=lambda window: window.start)


def candidates(duration: float, options: Options) -> list[tuple[float, float]]:
    """Return start and length in seconds of each candidate window, in the order of trial.

    The order is van der Corput's sequence: the first n candidates, for every n, are spread over the
    recording, or over its ranges (`clip_timestamps`).

    Args:
        duration: length of the recording in seconds.
        options: number and length of the windows, and the ranges.
    """
    ranges = [
        (start, min(duration if end is None else end, duration))
        for start, end in options.clip_timestamps or ((0.0, None),)
        if start < duration
    ]
    length = options.language_detection_length
    counts = [math.ceil((end - start) / length) for start, end in ranges]
    count = min(sum(counts), CANDIDATES_PER_WINDOW * options.language_detection_segments)
    windows = []
    for number in sorted(range(count), key=_radical_inverse):
        position = number * sum(counts) // count
        for (range_start, range_end), range_count in zip(ranges, counts, strict=True):
            if position < range_count:
                start = range_start + position * length
                windows.append((start, min(length, range_end - start)))
                break
            position -= range_count
    return windows


def voiced_window(vad: Vad, samples: Samples, start: float, options: Options) -> Chunk | None:
    """Return the window from the first to the last speech, or None if it has too little speech.

    Args:
        vad: finds the speech.
        samples: audio of the candidate, shape (n_samples,).
        start: start of the candidate in the recording, in seconds.
        options: as in `find_windows`.
    """
    if not len(samples):
        return None
    frames, offset = vad([samples]), to_samples(start)
    voiced = chunks(frames, window_options(options), vad.hop, index=-1, offset=offset)
    window = max(voiced, key=lambda chunk: speech_seconds(chunk.speech), default=None)
    if window is None:
        return None
    return window if has_enough_speech(window, len(samples)) else None


def window_options(options: Options) -> Options:
    """Return the options that cut language windows: their length, with room for the margins."""
    length = max(options.language_detection_length, 2 * options.speech_pad + 1)
    return replace(options, chunk_length=length, max_speech_duration=30.0)


def has_enough_speech(window: Chunk, length: int) -> bool:
    """Whether a window of `length` samples has enough speech, and sound above the noise floor."""
    min_seconds = max(MIN_SPEECH, MIN_SPEECH_FRACTION * to_seconds(length))
    return speech_seconds(window.speech) >= min_seconds and is_loud(window)


def is_loud(window: Chunk) -> bool:
    """Whether the power of the window's audio reaches `MIN_POWER`."""
    return float(np.mean(np.square(window.samples, dtype=np.float64))) >= MIN_POWER


def spread_windows(chunks: Iterable[Chunk], options: Options) -> list[Chunk]:
    """Choose windows spread over a recording that has no random access, in order.

    At most twice the requested number of windows is in memory: when that number is reached, every
    second window is dropped. If no window has enough speech, the window with the most speech is
    returned.

    Args:
        chunks: all chunks of the recording, cut with `window_options`.
        options: `language_detection_segments` is the number of windows.
    """
    max_windows = options.language_detection_segments
    windows: list[Chunk] = []
    fallback: Chunk | None = None  # most speech of all chunks, whether or not it is enough
    step, count = 1, 0
    for chunk in chunks:
        if is_loud(chunk) and (
            fallback is None or speech_seconds(chunk.speech) > speech_seconds(fallback.speech)
        ):
            fallback = chunk
        if not has_enough_speech(chunk, chunk.length):
            continue
        if count % step == 0:
            windows.append(chunk)
        count += 1
        if len(windows) == 2 * max_windows:
            windows, step = windows[::2], 2 * step
    if not windows:
        return [fallback] if fallback else []
    n_windows = min(max_windows, len(windows))
    return [windows[number * len(windows) // n_windows] for number in range(n_windows)]


def score_chunks(
    model: SharedModel, extractor: FeatureExtractor, chunks: Sequence[Chunk]
) -> list[LanguageScores]:
    """Return the language scores of each chunk, in order.

    The encoder window is only as long as the longest chunk and `PADDING`, so short chunks take
    little time.
    """
    if not chunks:
        return []
    recording = RecordingState(chunks[0].recording)  # windows do not belong to a run
    rows = [Row.of(chunk, extractor, recording) for chunk in chunks]
    max_frames = max(row.features.shape[1] for row in rows)
    frames = min(-(-max_frames // FRAME_MULTIPLE) * FRAME_MULTIPLE + PADDING, WINDOW_FRAMES)
    return score_languages(model, rows, frames)


def score_languages(
    model: SharedModel, rows: Sequence[Row], window: int | None = None
) -> list[LanguageScores]:
    """Return the language scores of rows, in order.

    Args:
        model: scores the rows.
        rows: rows of any encoder windows.
        window: feature frames in the encoder window of all rows; None for their own windows.
    """
    return [
        LanguageScores(probabilities, speech_seconds(row.chunk.speech))
        for row, probabilities in zip(rows, model.detect_languages(rows, window), strict=True)
    ]


def _radical_inverse(number: int) -> float:
    """Mirror the binary digits of a number at the binary point: 1, 2, 3 -> 0.5, 0.25, 0.75."""
    digits = f"{number:b}"[::-1]
    return int(digits, 2) / float(2 ** len(digits))
