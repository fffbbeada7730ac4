"""The language of a row depends on its recording only; `best_sequence` is never surpassed."""

import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import pairwise, product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakes import EncodedRow, FakeEngine
from tests.unit.synthetic_speech import shared_model
from whisperbatch.language.code_switching import (
    CHANGE_PENALTY,
    FULL_SPEECH,
    MIN_PROBABILITY,
    best_sequence,
)
from whisperbatch.language.detection import decide_languages, with_language_scores
from whisperbatch.options import Options
from whisperbatch.prefetch import interleave, map_ordered
from whisperbatch.recording import End, Item, RecordingState, Row
from whisperbatch.scheduling import RunShare, Scheduler, SharedModel
from whisperbatch.types import Chunk, LanguageScores, SpeechSpan


def detect(row: EncodedRow) -> dict[str, float]:
    """The probability of French is the first feature of the row (in 1/16000)."""
    return {"fr": row.start, "en": 1 - row.start}


def recording(number: int, probabilities: Sequence[float]) -> list[Item]:
    """A recording with one row for each probability, and its end."""
    state = RecordingState(number)
    speech = (SpeechSpan(0, 16000),)
    items: list[Item] = []
    for index, probability in enumerate(probabilities):
        features = np.full((80, 2), 16000 * probability, np.float32)
        chunk = Chunk(number, index, speech, speech, np.zeros(1, np.float32))
        items.append(Row(chunk, features, 0.0, state))
    return [*items, End(state)]


def languages(items: Sequence[Item]) -> dict[int, list[str | None]]:
    """Return the languages of the rows of each recording; check the order of its items."""
    result: dict[int, list[str | None]] = {}
    ended: set[int] = set()
    for item in items:
        rows = result.setdefault(item.recording.number, [])
        assert item.recording.number not in ended
        if isinstance(item, Row):
            assert item.chunk.index == len(rows)
            rows.append(item.language)
        else:
            ended.add(item.recording.number)
    assert ended == result.keys()
    return result


def expected_languages(voices: Sequence[Sequence[float]]) -> dict[int, list[str | None]]:
    """The languages of recordings that are decided one by one, row by row."""
    model, options = shared_model(FakeEngine(detect=detect)), Options()
    result: dict[int, list[str | None]] = {}
    for number, rows in enumerate(voices):
        scored = (with_language_scores(model, item, options) for item in recording(number, rows))
        result |= languages(list(decide_languages(scored, options)))
    return result


probabilities = st.lists(st.sampled_from((0.125, 0.375, 0.625, 0.875)), min_size=1, max_size=20)


@given(st.lists(probabilities, min_size=1, max_size=4), st.randoms())
def test_other_recordings_do_not_change_a_language(
    voices: list[list[float]], random: Random
) -> None:
    """Rows of all recordings are scored in any order, and the stages run in turns."""
    model, options = shared_model(FakeEngine(detect=detect)), Options()
    streams = [recording(number, rows) for number, rows in enumerate(voices)]
    places = [(stream, place) for stream in streams for place in range(len(stream))]
    for stream, place in random.sample(places, len(places)):
        stream[place] = with_language_scores(model, stream[place], options)
    stages = [decide_languages(stream, options) for stream in streams]
    mixed: list[Item] = []
    while stages:
        stage = random.choice(stages)
        item = next(stage, None)
        if item is None:
            stages.remove(stage)
        else:
            mixed.append(item)
    assert languages(mixed) == expected_languages(voices)


@given(st.lists(probabilities, min_size=1, max_size=4), st.integers(1, 20))
def test_shared_calls_do_not_change_a_language(voices: list[list[float]], batch_size: int) -> None:
    """Each recording has its own threads, and rows of all recordings share calls."""
    engine, options = FakeEngine(detect=detect), Options(batch_size=batch_size)
    scheduler, run = Scheduler(engine), RunShare()
    score = partial(with_language_scores, SharedModel(scheduler, run, options), options=options)

    def decided(number: int) -> Iterator[Item]:
        items = recording(number, voices[number])
        with closing(map_ordered(score, items, workers=4, depth=4)) as scored:
            yield from decide_languages(scored, options)

    recordings = map(decided, range(len(voices)))
    with (
        scheduler.running(run),
        closing(interleave(recordings, at_once=len(voices), depth=1, ordered=False)) as results,
    ):
        assert languages(list(results)) == expected_languages(voices)
    assert max(engine.batch_sizes["encode"]) <= batch_size


CODES = ("en", "fr", "de")
THRESHOLD = 0.5


@st.composite
def language_scores(draw: st.DrawFn) -> LanguageScores:
    shares = draw(st.lists(st.floats(0, 1), min_size=4, max_size=4))
    total = sum(shares)
    codes = (*CODES, "nl")  # "nl" is not a candidate
    probabilities = {c: s / total if total else 0.25 for c, s in zip(codes, shares, strict=True)}
    return LanguageScores(probabilities, draw(st.floats(0, 8)))


def log_probability(
    scores: Sequence[LanguageScores], path: Sequence[str], before: str | None, after: str | None
) -> float:
    """The log-probability of a sequence of languages, minus the penalty of its changes."""
    result = 0.0
    for score, code in zip(scores, path, strict=True):
        total = sum(score.probabilities[c] for c in CODES)
        if not total or max(score.probabilities[c] for c in CODES) < THRESHOLD:
            continue
        probability = max(score.probabilities[code] / total, MIN_PROBABILITY)
        result += min(score.seconds / FULL_SPEECH, 1) * math.log(probability)
    languages = [code for code in (before, *path, after) if code]
    changes = sum(code != following for code, following in pairwise(languages))
    return result - CHANGE_PENALTY * changes


neighbours = st.sampled_from((None, *CODES))


@given(st.lists(language_scores(), min_size=1, max_size=5), neighbours, neighbours)
def test_no_sequence_is_more_probable(
    scores: list[LanguageScores], before: str | None, after: str | None
) -> None:
    sequence = best_sequence(scores, CODES, THRESHOLD, before, after)
    highest = max(
        log_probability(scores, path, before, after) for path in product(CODES, repeat=len(scores))
    )
    assert log_probability(scores, sequence, before, after) == pytest.approx(highest)
