"""The language stage: which rows wait, which rows are scored, and the language of each row."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.fakes import EncodedRow, FakeEngine, refuse
from whisperbatch.batching import batches
from whisperbatch.errors import EngineError
from whisperbatch.language.decisions import LAST_REVISION, VOTERS
from whisperbatch.language.stage import (
    decide_languages,
    scoring_batches,
    voter_groups,
    with_language_scores,
)
from whisperbatch.options import Options
from whisperbatch.recording import Decision, LanguageState, RecordingState
from whisperbatch.rows import FLUSH, End, Flush, Item, Row
from whisperbatch.types import Chunk, SpeechSpan, to_samples

FINAL = LanguageState(Decision("it", 0.7), final=True)


def items(recording: int, count: int, language: LanguageState | None = None) -> list[Item]:
    """The rows of a recording, 10 s apart and each with 2 s of speech, and its end.

    The features of a row are its start and length, as those of `RampExtractor`.
    """
    state = RecordingState(recording, language=language or LanguageState())
    result: list[Item] = []
    for index in range(count):
        start, end = to_samples(10.0 * index), to_samples(10.0 * index + 2)
        speech = (SpeechSpan(start, end),)
        chunk = Chunk(recording, index, speech, speech, np.zeros(1, np.float32))
        features = np.zeros((80, 2), np.float32)
        features[0] = start, end - start
        result.append(Row(chunk, features, 0.0, state))
    return [*result, End(state, "", 0.0)]


def names(items: Sequence[Item]) -> str:
    """A letter for each recording, and the index of the row, "." for its end, "!" for a flush."""
    return " ".join(
        "!"
        if isinstance(item, Flush)
        else "abcdefghij"[item.recording.number]
        + (str(item.chunk.index) if isinstance(item, Row) else ".")
        for item in items
    )


def grouped_names(groups: Iterator[list[Item]]) -> list[str]:
    return [names(group) for group in groups]


def row_count(batch: Sequence[Item]) -> int:
    return sum(isinstance(item, Row) for item in batch)


@pytest.mark.parametrize(
    ("count", "groups"),
    [
        (0, ["a."]),
        (1, ["a0", "a."]),
        (3, ["a0 a1 a2", "a."]),
        (4, ["a0 a1 a2 a3", "a."]),
        (6, ["a0 a1 a2 a3", "a4", "a5", "a."]),
    ],
)
def test_the_first_rows_of_a_recording_wait_for_each_other(count: int, groups: list[str]) -> None:
    assert grouped_names(voter_groups(items(0, count), Options())) == groups


def test_the_voters_of_each_recording_are_together() -> None:
    a, b, c = items(0, 2), items(1, 5), items(2, 5, FINAL)
    mixed = [a[0], c[0], b[0], FLUSH, b[1], c[1], *a[1:], b[2], *c[2:], *b[3:]]
    assert grouped_names(voter_groups(mixed, Options())) == [
        *("c0", "!", "c1", "a0 a1", "a.", "c2", "c3", "c4", "c."),
        *("b0 b1 b2 b3", "b4", "b."),
    ]


def test_with_code_switching_no_row_waits() -> None:
    groups = list(voter_groups(items(0, 6), Options(multilingual=True)))
    assert [len(group) for group in groups] == [1] * 7


def test_rows_with_a_final_language_pass_without_waiting() -> None:
    result = scoring_batches(items(0, 9, FINAL), Options(batch_size=8), 8)
    assert [len(batch) for batch in result] == [1] * 10


def test_a_flush_completes_a_batch() -> None:
    stream = items(0, 6)
    stream.insert(5, FLUSH)
    result = scoring_batches(stream, Options(batch_size=32), 8)
    assert grouped_names(result) == ["a0 a1 a2 a3 a4 !", "a5 a."]


def test_recordings_without_speech_do_not_wait_for_rows() -> None:
    silent = [item for number in range(1, 10) for item in items(number, 0)]
    result = scoring_batches([*items(0, 1), *silent], Options(batch_size=32), 4)
    assert grouped_names(result) == ["a0 a. b. c. d. e. f. g.", "h.", "i.", "j."]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 8, 16, 32])
@pytest.mark.parametrize("counts", [(40,), (1,) * 40, (3,) * 15, (5, 1, 0, 2, 30, 4), (0, 0, 7)])
@pytest.mark.parametrize("some_final", [False, True])
@pytest.mark.parametrize("multilingual", [False, True])
def test_no_batch_to_decode_waits_for_a_row_that_it_does_not_need(
    size: int, counts: tuple[int, ...], *, multilingual: bool, some_final: bool
) -> None:
    """A batch to decode is complete after the same item as without the language stage.

    The voters of its recordings are needed, too: they decide the language of its rows.
    """
    options = Options(batch_size=size, multilingual=multilingual)
    first = max(size // 4, 1)
    stream = [
        item
        for n, count in enumerate(counts)
        for item in items(n, count, FINAL if some_final and n % 3 == 1 else None)
    ]
    read = 0

    def counted() -> Iterator[Item]:
        nonlocal read
        for item in stream:
            read += 1
            yield item

    def read_counts(rows: Iterator[Item]) -> list[int]:
        nonlocal read
        read = 0
        return [read for _ in batches(rows, size, first)]

    voters = (item for group in voter_groups(counted(), options) for item in group)
    without = read_counts(voters)
    scored = (item for batch in scoring_batches(counted(), options, first) for item in batch)
    assert read_counts(scored) == without


def test_a_batch_has_at_most_three_rows_more() -> None:
    stream = [item for n in range(9) for item in items(n, 3)]
    result = list(scoring_batches(stream, Options(batch_size=4), 4))
    assert max(map(row_count, result)) <= 4 + VOTERS - 1
    assert [item for batch in result for item in batch] == stream


def decided(engine: FakeEngine, stream: Sequence[Item], **keywords: Any) -> list[Item]:
    """The items after the language stage, which scores in batches of `batch_size`."""
    options = Options(**keywords)
    scored = (
        with_language_scores(engine, batch, options)
        for batch in scoring_batches(stream, options, options.batch_size)
    )
    return list(decide_languages(scored, options, refuse))


def changing(row: EncodedRow) -> dict[str, float]:
    """Four rows of English, and then French."""
    return {"en": 0.9, "fr": 0.1} if row.start < 40 else {"en": 0.1, "fr": 0.9}


@pytest.mark.parametrize("batch_size", [1, 3, 4, 5, 16, 64])
def test_the_language_of_a_row_does_not_depend_on_the_batches(batch_size: int) -> None:
    engine = FakeEngine(detect=changing)
    result = decided(engine, items(0, 70), batch_size=batch_size)
    assert names(result) == names(items(0, 70))
    labelled = [item for item in result if isinstance(item, Row)]
    # chunks 0 to 7 are a tie, in which the first of the languages wins
    assert [row.language for row in labelled] == ["en"] * 16 + ["fr"] * 54
    voters = {0: 4, 8: 8, 16: 16, 32: 32, 64: 64}
    for index, count in voters.items():
        decision = labelled[index].decision
        assert decision is not None
        assert decision.probabilities["fr"] == pytest.approx((0.4 + 0.9 * (count - 4)) / count)
        assert labelled[index].language == decision.language
    assert engine.detections == LAST_REVISION
    assert max(engine.batch_sizes["encode"]) <= batch_size
    encoded = [row.encoded is not None for row in labelled]
    assert encoded == [True] * LAST_REVISION + [False] * (70 - LAST_REVISION)


def test_interleaved_recordings_are_decided_alone() -> None:
    a, b = items(0, 6), items(1, 2)
    engine = FakeEngine(detect=changing)
    result = decided(engine, [b[0], a[0], a[1], b[1], b[2], *a[2:]], batch_size=4)
    assert names(result) == "b0 b1 b. a0 a1 a2 a3 a4 a5 a."
    assert {item.language for item in result if isinstance(item, Row)} == {"en"}


def test_a_final_language_needs_no_engine() -> None:
    engine = FakeEngine(failing={"encode": range(99), "detect_language": range(99)})
    for stream in (items(0, 9, FINAL), items(0, 9, replace(FINAL))):
        result = [item for item in decided(engine, stream) if isinstance(item, Row)]
        assert [row.language for row in result] == ["it"] * 9
        assert [row.decision for row in result] == [FINAL.decision] * 9
        assert all(row.encoded is None for row in result)


def test_only_rows_that_need_scores_are_encoded() -> None:
    engine = FakeEngine()
    stream = [items(0, 1)[0], *items(1, 2, FINAL)[:2], *items(2, 0)]
    scored = with_language_scores(engine, stream, Options())
    assert engine.batch_sizes == {
        "encode": [1],
        "detect_language": [1],
        "decode": [],
        "align": [],
    }
    row = scored[0]
    assert isinstance(row, Row)
    assert row.language_scores is not None
    assert row.language_scores.seconds == 2
    assert row.encoded is not None
    assert row.encoded.rows == 1
    assert scored[1:] == stream[1:]


def test_rows_of_failed_recordings_are_dropped() -> None:
    a, b = items(0, 4), items(1, 4)
    a[0].recording.fail(EngineError("out of memory"))  # type: ignore[union-attr]
    scored = with_language_scores(FakeEngine(), b, Options())
    assert names(list(decide_languages([a, scored], Options(), refuse))) == "a. b0 b1 b2 b3 b."
