"""The language of a row depends on its recording only, not on other recordings or on batches."""

from collections.abc import Sequence
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakes import EncodedRow, FakeEngine, refuse
from whisperbatch.language.stage import decide_languages, scoring_batches, with_language_scores
from whisperbatch.options import Options
from whisperbatch.recording import RecordingState
from whisperbatch.rows import FLUSH, End, Item, Row
from whisperbatch.types import Chunk, SpeechSpan


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
    return [*items, End(state, "", 0.0)]


def languages(items: Sequence[Item], batch_size: int) -> dict[int, list[str | None]]:
    """Return the languages of the rows of each recording; check the order of its items."""
    engine, options = FakeEngine(detect=detect), Options(batch_size=batch_size)
    first = max(batch_size // 4, 1)
    scored = (
        with_language_scores(engine, batch, options)
        for batch in scoring_batches(items, options, first)
    )
    result: dict[int, list[str | None]] = {}
    ended: set[int] = set()
    for item in decide_languages(scored, options, refuse):
        if isinstance(item, Row):
            rows = result.setdefault(item.recording.number, [])
            assert item.chunk.index == len(rows)
            assert item.recording.number not in ended
            rows.append(item.language)
        elif isinstance(item, End):
            ended.add(item.recording.number)
    return result


probabilities = st.lists(st.sampled_from((0.125, 0.375, 0.625, 0.875)), min_size=1, max_size=20)


@given(st.lists(probabilities, min_size=1, max_size=4), st.integers(1, 20), st.randoms())
def test_batches_and_other_recordings_do_not_change_a_language(
    voices: list[list[float]], batch_size: int, random: Random
) -> None:
    queues = [recording(number, rows) for number, rows in enumerate(voices)]
    mixed: list[Item] = []
    while queues:
        queue = random.choice(queues)
        mixed.append(queue.pop(0))
        if random.random() < 0.1:
            mixed.append(FLUSH)
        if not queue:
            queues = [items for items in queues if items]
    expected = {
        number: languages(recording(number, rows), 64)[number] for number, rows in enumerate(voices)
    }
    assert languages(mixed, batch_size) == expected
