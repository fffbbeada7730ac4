"""Code-switching: finds where the language changes, so that each row has one language.

Every row is scored with the encoder output that its text is decoded from. A row whose language is
uncertain, or differs from its neighbours, is scored again in windows of a few seconds and cut at
the pauses where the language changes:

    rows     [en .98       ][en .71 fr .2  ][fr .99       ]
    windows                 [en][en][fr][fr]
    rows     [en           ][en    ][fr    ][fr           ]

The languages of rows, and of a row's windows, are the most probable sequence under a penalty for
each change (Viterbi algorithm), so that a single uncertain row or window does not change the
language.
"""

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from whisperbatch.chunking.split import cut_out
from whisperbatch.language.detection import add_speech, mean_scores, restricted, score_chunks
from whisperbatch.options import Options
from whisperbatch.protocols import FeatureExtractor
from whisperbatch.recording import Item, Row
from whisperbatch.scheduling import SharedModel
from whisperbatch.types import Chunk, LanguageScores, SpeechSpan, to_samples, to_seconds

log = logging.getLogger(__name__)

CHANGE_PENALTY: Final = 1.5  # natural-log probability
FULL_SPEECH: Final = 4.0  # seconds of speech with full weight; less speech has proportional weight
MIN_PROBABILITY: Final = 1e-3  # floor of a language's probability: one row is not a proof
SURE_PROBABILITY: Final = 0.8  # rows whose language is less probable are scored in windows
WAITING_ROWS: Final = 2  # rows of a recording that wait for the rows after them
MAX_WINDOW: Final = to_samples(5.0)  # longer windows contain changes, shorter ones are unreliable


class CodeSwitching:
    """Gives each row its language, and cuts rows where the language changes.

    The languages of a section do not depend on other sections.

    Rows come with `Row.language_scores` and leave with `Row.language`. Rows that are not cut keep
    their encoder output. A row waits for the next two rows. The language of a recording is the
    language of most of its speech so far.

    Args:
        model: scores the windows.
        extractor: computes the features of windows and of cut rows.
        options: options of the run.
    """

    def __init__(self, model: SharedModel, extractor: FeatureExtractor, options: Options) -> None:
        self._model = model
        self._extractor = extractor
        self._options = options

    def __call__(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items of a recording in order, with cut rows in place of their row."""
        waiting: list[Row] = []
        for item in items:
            section = item.chunk.section if isinstance(item, Row) else None
            if waiting and section != waiting[-1].chunk.section:
                yield from self._finish(waiting)
                waiting = []
            if isinstance(item, Row):
                waiting.append(item)
                yield from self._advance(waiting)
            else:
                number, windows = item.recording.number, item.recording.switching.windows
                log.debug("recording %d: %d language window(s)", number, windows)
                yield item

    def _advance(self, rows: list[Row]) -> list[Row]:
        """Label the row before the last; return the parts of the first row if it has waited."""
        if len(rows) > 1:
            self._label(rows, next_row=rows[-1])
        return self._release(rows.pop(0)) if len(rows) > WAITING_ROWS else []

    def _finish(self, rows: Sequence[Row]) -> list[Row]:
        """Return the last rows of a section, whole or cut; the next section begins anew."""
        self._label(rows, next_row=None)
        parts = [part for row in rows for part in self._release(row)]
        rows[0].recording.switching.begin_section()
        return parts

    def _label(self, waiting: Sequence[Row], next_row: Row | None) -> None:
        """Label the first unlabelled row, using the label before it and the row after it."""
        state = waiting[0].recording.switching
        rows = [row for row in (waiting[len(state.labels)], next_row) if row]
        scores = [self._scores(row) for row in rows]
        probabilities = [score.probabilities for score in scores]
        if state.last_label:
            probabilities.append({state.last_label: 1.0})
        threshold = self._options.language_detection_threshold
        labels = best_sequence(scores, most_probable(probabilities), threshold, state.last_label)
        state.labels.append(labels[0])
        state.last_label = labels[0]

    def _release(self, row: Row) -> list[Row]:
        """Return the first waiting row of a recording, whole or cut."""
        recording, state = row.recording, row.recording.switching
        label = state.labels.pop(0)
        next_label = state.labels[0] if state.labels else None
        labels = {state.previous_label or label, label, next_label or label}
        state.previous_label = label
        probabilities = self._scores(row).probabilities
        if len(labels) == 1 and probabilities.get(label, 0.0) >= SURE_PROBABILITY:
            parts = [(row, label)]
        else:
            parts = self._cut(row, label, next_label)
        released = []
        for number, (part, language) in enumerate(parts, 1):
            state.last_language = language
            completes = part.chunk.completes and number == len(parts)
            chunk = replace(part.chunk, index=state.count, completes=completes)
            state.count += 1
            decision = add_speech(recording, language, _language_scores(part), self._options)
            released.append(replace(part, chunk=chunk, language=language, decision=decision))
        return released

    def _cut(self, row: Row, label: str, next_label: str | None) -> list[tuple[Row, str]]:
        """Score a row in windows and cut it where the language changes.

        Returns:
            The parts of the row with their languages; the row itself if there is no change.
        """
        windows = row_windows(row.chunk)
        if len(windows) < 2:  # noqa: PLR2004
            return [(row, label)]
        state = row.recording.switching
        state.windows += len(windows)
        neighbours = [{code: 1.0} for code in (label, state.last_language, next_label) if code]
        scores = [
            restricted(score, self._options.languages)
            for score in score_chunks(self._model, self._extractor, windows)
        ]
        labels = best_sequence(
            scores,
            most_probable([*neighbours, self._scores(row).probabilities]),
            self._options.language_detection_threshold,
            state.last_language,
            next_label,
        )
        groups = [
            (language, [(window, score) for window, score, _ in group])
            for language, group in groupby(
                zip(windows, scores, labels, strict=True), key=lambda labelled: labelled[2]
            )
        ]
        if len(groups) == 1:
            return [(row, labels[0])]
        return [(self._part(row, language, group), language) for language, group in groups]

    def _part(self, row: Row, language: str, group: Sequence[tuple[Chunk, LanguageScores]]) -> Row:
        """Return the part of a row that spans consecutive windows of one language."""
        chunk = cut_out(row.chunk, group[0][0].start, group[-1][0].end)
        log.info(
            "recording %d: %.2f s to %.2f s: %s",
            chunk.recording,
            to_seconds(chunk.start),
            to_seconds(chunk.end),
            language,
        )
        part = Row.of(chunk, self._extractor, row.recording)
        return replace(part, language_scores=mean_scores([score for _, score in group]))

    def _scores(self, row: Row) -> LanguageScores:
        return restricted(_language_scores(row), self._options.languages)


def _language_scores(row: Row) -> LanguageScores:
    if row.language_scores is None:
        raise ValueError("CodeSwitching needs rows with language_scores")
    return row.language_scores


def row_windows(chunk: Chunk) -> list[Chunk]:
    """Cut a chunk at its pauses into windows of up to `MAX_WINDOW`, for language scores.

    A longer speech span is a separate window.
    """
    groups: list[list[SpeechSpan]] = []
    for span in chunk.speech:
        if groups and span.end - groups[-1][0].start <= MAX_WINDOW:
            groups[-1].append(span)
        else:
            groups.append([span])
    return [cut_out(chunk, group[0].start, group[-1].end) for group in groups]


def best_sequence(
    scores: Sequence[LanguageScores],
    codes: Sequence[str],
    threshold: float,
    before: str | None = None,
    after: str | None = None,
) -> list[str]:
    """Return the most probable sequence of languages (Viterbi algorithm).

    The score of a sequence is the sum of the log-probabilities of its languages, minus
    `CHANGE_PENALTY` for each change.

    Args:
        scores: scores of consecutive rows or windows.
        codes: the possible languages.
        threshold: scores are ignored if no possible language is as probable as the threshold.
        before: language before the first row, if there is one.
        after: language after the last row, if there is one.
    """
    if not scores:
        return []
    paths: dict[str, tuple[float, tuple[str, ...]]]
    paths = {code: (-CHANGE_PENALTY * (before not in (None, code)), (code,)) for code in codes}
    for number, score in enumerate(scores):
        if number:
            paths = {code: _extend(paths, code) for code in codes}
        log_probs = _log_probs(score, codes, threshold)
        paths = {code: (total + log_probs[code], path) for code, (total, path) in paths.items()}
    complete = [
        (total - CHANGE_PENALTY * (after not in (None, code)), path)
        for code, (total, path) in paths.items()
    ]
    return list(max(complete, key=lambda scored_path: scored_path[0])[1])


def _extend(
    paths: Mapping[str, tuple[float, tuple[str, ...]]], code: str
) -> tuple[float, tuple[str, ...]]:
    """Return the best path that continues with language `code`."""
    total, path = max(
        ((total - CHANGE_PENALTY * (path[-1] != code), path) for total, path in paths.values()),
        key=lambda scored_path: scored_path[0],
    )
    return total, (*path, code)


def _log_probs(scores: LanguageScores, codes: Sequence[str], threshold: float) -> dict[str, float]:
    """Return the log-probability of each language, weighted by the seconds of speech."""
    probabilities = {code: scores.probabilities.get(code, 0.0) for code in codes}
    total = sum(probabilities.values())
    if not total or max(probabilities.values()) < threshold:
        return dict.fromkeys(codes, 0.0)
    weight = min(scores.seconds / FULL_SPEECH, 1.0)
    return {
        code: weight * math.log(max(p / total, MIN_PROBABILITY))
        for code, p in probabilities.items()
    }


def most_probable(rows: Iterable[Mapping[str, float]]) -> list[str]:
    """Return the two most probable languages of each row, without duplicates."""
    codes: dict[str, None] = {}
    for probabilities in rows:
        codes |= dict.fromkeys(sorted(probabilities, key=lambda code: -probabilities[code])[:2])
    return list(codes)
