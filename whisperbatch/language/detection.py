"""The language of a recording and of its rows: windows or rows vote, weighted by their speech.

If a recording has random access, windows spread over the recording vote before the recording is
read, and their decision is final. Otherwise the first chunks vote, and the
scores of later chunks can revise the decision:

    chunk      0 1 2 3 4 5 6 7 | 8 9 ... 15 | 16 17 ...       31 | 32 ...
    voters     chunks 0 to 3   | 0 to 7     | 0 to 15            | 0 to 31

A language that is given, or that language windows decided, is final. Otherwise the first `VOTERS`
chunks decide, and the decision is revised when a chunk comes before which 8, 16, 32 or 64 chunks
were scored. A decision depends on the index of the chunk only, not on how batches are filled.

Every row of a recording leaves the language stage with its language:

    rows       c0 c1 c2 c3 c4 c5 ...    a recording whose language is not given or final
    scored     c0 c1 c2 c3 c4 c5 ...    a pool of threads; the engine encodes and scores rows
    decided    c0 c1 c2 c3 c4 c5 ...    one thread decides, in order

Only rows whose scores are needed are encoded here. They keep their encoder output, and their text
is decoded from it. The first rows, which vote for the language, wait for each other.

Language windows are stretches with speech, spread over the recording:

    recording   |--------------------------------------------------|
    order         1st   5th   3rd   7th   2nd   6th   4th   8th

Candidates are tried in this order until enough windows have speech. The windows are therefore
spread over the recording, whichever candidates have no speech, and the search takes as long for
3 hours as for 10 minutes.
"""

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from whisperbatch.audio.random_access import RandomAccess
from whisperbatch.chunking.merge import chunks
from whisperbatch.options import Options
from whisperbatch.protocols import FeatureExtractor, Vad
from whisperbatch.recording import Decision, Item, RecordingState, Row
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

NEAR_TIE: Final = 0.8  # fraction of the most votes from which a language competes with the winner
MIN_WINDOWS: Final = 3  # windows for a final decision: fewer may all lie in a greeting


VOTERS: Final = 4  # first chunks of a recording, which make the first decision
FIRST_REVISION: Final = 8  # chunks scored before the first revision; doubles for each later one
LAST_REVISION: Final = 64  # chunks scored before the last revision; later chunks are not scored

NO_SPEECH: Final = LanguageDetection(None, 0.0, {}, reason="the recording has no speech")
"""The result for a recording without speech."""

UNREADABLE: Final = LanguageDetection(
    None, 0.0, {}, reason="detection needs the whole recording, but read_through is False"
)
"""The result for an open reader, if only reading the whole recording could detect the language."""

CANDIDATES_PER_WINDOW: Final = 4  # stretches tried, at most, for each requested window
MIN_SPEECH: Final = 1.0  # seconds of speech: less does not identify a language
MIN_SPEECH_FRACTION: Final = 0.1  # of a window
MIN_POWER: Final = 1e-7  # mean square of a window, -70 dBFS: fainter sound is not speech
FRAME_MULTIPLE: Final = 100  # feature frames: windows of similar length get the same shape
PADDING: Final = 300  # feature frames of silence after the longest window: Whisper's training

log = logging.getLogger(__name__)


def restrict_to(probabilities: Mapping[str, float], languages: Sequence[str]) -> dict[str, float]:
    """Return the probabilities of the candidate languages, scaled to sum to 1.

    Args:
        probabilities: probability of each language.
        languages: codes of the candidates; empty for all languages. Candidates that the model does
            not know have probability 0.
    """
    if not languages:
        return dict(probabilities)
    candidates = {code: probabilities.get(code, 0.0) for code in languages}
    total = sum(candidates.values())
    return {code: p / total if total else 1 / len(candidates) for code, p in candidates.items()}


def restricted(scores: LanguageScores, languages: Sequence[str]) -> LanguageScores:
    """Return the scores of the candidate languages (see `restrict_to`)."""
    return replace(scores, probabilities=restrict_to(scores.probabilities, languages))


def mean_scores(scores: Sequence[LanguageScores]) -> LanguageScores:
    """Return the mean of several scores, weighted by seconds of speech, with the total seconds."""
    seconds = sum(score.seconds for score in scores)
    means = {
        code: sum(score.seconds * score.probabilities[code] for score in scores) / seconds
        for code in scores[0].probabilities
    }
    return LanguageScores(means, seconds)


def decide(scores: Sequence[LanguageScores], options: Options) -> Decision:
    """Return the language of most of the speech.

    Each voter gives its seconds of speech to its most probable language, if the probability of that
    language reaches `language_detection_threshold`. Languages with at least `NEAR_TIE` of the most
    votes compete; the competitor with the highest mean probability wins. If no voter reaches the
    threshold, all languages compete.

    Args:
        scores: scores of each voter, at least one.
        options: the candidate languages and the threshold.
    """
    scores = [restricted(score, options.languages) for score in scores]
    means = mean_scores(scores).probabilities
    votes = dict.fromkeys(means, 0.0)
    for score in scores:
        best = max(score.probabilities, key=lambda code: score.probabilities[code])
        if score.probabilities[best] >= options.language_detection_threshold:
            votes[best] += score.seconds
    max_votes = max(votes.values())
    competitors = [code for code, seconds in votes.items() if seconds >= NEAR_TIE * max_votes]
    language = max(competitors, key=lambda code: means[code])
    return Decision(language, means[language], means)


def enough_to_decide(scores: Sequence[LanguageScores], options: Options) -> bool:
    """Whether the scores suffice for a final decision.

    There must be `MIN_WINDOWS` windows (or `language_detection_segments`, if smaller), and at least
    one of them must reach the threshold and vote.
    """
    min_windows = min(MIN_WINDOWS, options.language_detection_segments)
    votes = (
        max(restrict_to(score.probabilities, options.languages).values())
        >= options.language_detection_threshold
        for score in scores
    )
    return len(scores) >= min_windows and any(votes)


def needs_scores(item: Item, options: Options) -> bool:
    """Return whether an item is a row whose language scores the language stage needs."""
    if not isinstance(item, Row):
        return False
    if options.multilingual:
        return True
    return not item.recording.language.final and item.chunk.index < LAST_REVISION


def decide_from_windows(
    recording: RecordingState, scores: Sequence[LanguageScores], options: Options
) -> None:
    """Make the final decision for a recording, if the scores of its language windows suffice."""
    if enough_to_decide(scores, options):
        _first_decision(recording, scores, options)
        recording.language.final = True


def decision_for(recording: RecordingState, index: int, options: Options) -> Decision:
    """Return the decision for a chunk, and make the decision if the chunk is the first to need it.

    The chunks of a recording come in order.

    Args:
        recording: state of the chunk's recording, with the scores of all chunks before this chunk
            that need scores. For the first chunk, the state has the scores of all voters.
        index: index of the chunk.
        options: the candidate languages and the threshold.
    """
    language = recording.language
    decision = language.decision
    if decision is None:
        scores = [language.scores[n] for n in range(VOTERS) if n in language.scores]
        decision = _first_decision(recording, scores, options)
    voters = 0 if language.final else _revision_voters(index)
    if voters > language.voters:
        decision = _revision(recording, decision, voters, options)
    return decision


def add_speech(
    recording: RecordingState, language: str, scores: LanguageScores, options: Options
) -> Decision:
    """Add the speech of a row that has its own language; return the new decision.

    The language of the recording is the language of most of its speech so far.
    """
    switching = recording.switching
    seconds, weighted = switching.seconds, switching.weighted_seconds
    probability = restrict_to(scores.probabilities, options.languages).get(language, 0.0)
    seconds[language] = seconds.get(language, 0.0) + scores.seconds
    weighted[language] = weighted.get(language, 0.0) + probability * scores.seconds
    best = max(seconds, key=lambda code: seconds[code])
    decision = recording.language.decision = Decision(best, weighted[best] / seconds[best])
    return decision


def _first_decision(
    recording: RecordingState, scores: Sequence[LanguageScores], options: Options
) -> Decision:
    decision = recording.language.decision = decide(scores, options)
    log.info("recording %d: %s (%.2f)", recording.number, decision.language, decision.probability)
    return decision


def _revision(
    recording: RecordingState, previous: Decision, voters: int, options: Options
) -> Decision:
    """Decide again, from the first `voters` chunks."""
    language = recording.language
    decision = decide([language.scores[n] for n in range(voters)], options)
    if decision.language != previous.language:
        log.warning(
            "recording %d: language %s from chunk %d on; %s before",
            recording.number,
            decision.language,
            voters,
            previous.language,
        )
    language.decision, language.voters = decision, voters
    return decision


def _revision_voters(index: int) -> int:
    """Return the number of first chunks that decide for chunk `index`; 0 for the first decision."""
    voters = 0
    boundary = FIRST_REVISION
    while boundary <= min(index, LAST_REVISION):
        voters = boundary
        boundary *= 2
    return voters


def with_language_scores(model: SharedModel, item: Item, options: Options) -> Item:
    """Return a row with its language scores and encoder output, if the stage needs them."""
    if not isinstance(item, Row) or not needs_scores(item, options):
        return item
    [scored] = score_rows(model, [item])
    return scored


def score_rows(model: SharedModel, rows: Sequence[Row]) -> list[Row]:
    """Return rows with their language scores, in order. Their texts are decoded later."""
    for row in rows:
        row.encoding.keep = True
    scores = score_languages(model, rows)
    return [replace(row, language_scores=score) for row, score in zip(rows, scores, strict=True)]


def decide_languages(items: Iterable[Item], options: Options) -> Iterator[Item]:
    """Yield the items of a recording in order, each row with its language.

    Args:
        items: rows and the end of a recording; rows that need scores have them.
        options: the candidate languages and the threshold.
    """
    voters: list[Row] = []
    for item in items:
        if isinstance(item, Row):
            if item.language_scores:
                item.recording.language.scores[item.chunk.index] = item.language_scores
            if needs_scores(item, options) and item.chunk.index < VOTERS:
                voters.append(item)
                if len(voters) < VOTERS:
                    continue
        for row in voters:
            yield _decide(row, options)
        if item not in voters:
            yield _decide(item, options) if isinstance(item, Row) else item
        voters = []


def _decide(row: Row, options: Options) -> Row:
    decision = decision_for(row.recording, row.chunk.index, options)
    return replace(row, language=decision.language, decision=decision)


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
