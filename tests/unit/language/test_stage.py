"""The language stage: which rows wait, which rows are scored, and the language of each row."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.unit.fakes import EncodedRow, FakeEngine
from tests.unit.synthetic_speech import shared_model
from whisperbatch.decoding.engine_options import options_for
from whisperbatch.errors import EngineError
from whisperbatch.language.detection import (
    LAST_REVISION,
    VOTERS,
    decide_languages,
    with_language_scores,
)
from whisperbatch.options import Options
from whisperbatch.prefetch import interleave, map_ordered
from whisperbatch.recording import Decision, End, Item, LanguageState, RecordingState, Row
from whisperbatch.scheduling import RunShare, Scheduler, SharedModel
from whisperbatch.types import Chunk, SpeechSpan, to_samples

FINAL = LanguageState(Decision("it", 0.7), final=True)


def items(
    recording: int, count: int, language: LanguageState | None = None, offset: float = 0.0
) -> list[Item]:
    """The rows of a recording, 10 s apart and each with 2 s of speech, and its end.

    The features of a row are its start (plus `offset` seconds) and its length, as those of
    `RampExtractor`.
    """
    state = RecordingState(recording, language=language or LanguageState())
    result: list[Item] = []
    for index in range(count):
        start, end = to_samples(10.0 * index), to_samples(10.0 * index + 2)
        speech = (SpeechSpan(start, end),)
        chunk = Chunk(recording, index, speech, speech, np.zeros(1, np.float32))
        features = np.zeros((80, 2), np.float32)
        features[0] = start + to_samples(offset), end - start
        result.append(Row(chunk, features, 0.0, state))
    return [*result, End(state)]


def names(items: Sequence[Item]) -> str:
    """A letter for each recording, and the index of the row, or "." for its end."""
    return " ".join(
        "abcdefghij"[item.recording.number]
        + (str(item.chunk.index) if isinstance(item, Row) else ".")
        for item in items
    )


def released(stage: Callable[[Iterable[Item]], Iterator[Item]], items: Sequence[Item]) -> list[str]:
    """For each item, the names of the items that leave a stage before the next item is read."""
    groups: list[list[Item]] = []

    def counted() -> Iterator[Item]:
        for item in items:
            groups.append([])
            yield item

    for item in stage(counted()):
        groups[-1].append(item)
    return [names(group) for group in groups]


def scored(items: Sequence[Item], options: Options) -> list[Item]:
    """The items, with language scores of the rows that need scores."""
    model = shared_model(FakeEngine())
    return [with_language_scores(model, item, options) for item in items]


@pytest.mark.parametrize(
    ("count", "groups"),
    [
        (0, ["a."]),
        (1, ["", "a0 a."]),
        (3, ["", "", "", "a0 a1 a2 a."]),
        (4, ["", "", "", "a0 a1 a2 a3", "a."]),
        (6, ["", "", "", "a0 a1 a2 a3", "a4", "a5", "a."]),
    ],
)
def test_the_first_rows_of_a_recording_wait_for_each_other(count: int, groups: list[str]) -> None:
    options = Options()
    stage = partial(decide_languages, options=options)
    assert released(stage, scored(items(0, count), options)) == groups


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 8, 9, 40, 70])
@pytest.mark.parametrize("final", [False, True])
def test_no_row_waits_for_a_row_that_it_does_not_need(count: int, *, final: bool) -> None:
    """Only the voters wait: for the last voter, or for the end of the recording."""
    options = Options()
    stream = scored(items(0, count, FINAL if final else None), options)
    waiting = 0 if final else min(VOTERS - 1, count)
    expected = [""] * waiting + [
        names(stream[: waiting + 1]),
        *(names([item]) for item in stream[waiting + 1 :]),
    ]
    assert released(partial(decide_languages, options=options), stream) == expected


def test_rows_with_a_final_language_pass_without_waiting() -> None:
    stage = partial(decide_languages, options=Options())
    result = released(stage, items(0, 9, FINAL))
    assert result == [*(f"a{number}" for number in range(9)), "a."]


def stages(engine: FakeEngine, streams: Sequence[Sequence[Item]], **keywords: Any) -> list[Item]:
    """The items of recordings after the language stage, in which rows share calls of the engine.

    Each recording has its own threads, as in `pipeline.Pipeline`.
    """
    options = options_for(engine, Options(**keywords))
    scheduler, run = Scheduler(engine), RunShare()
    score = partial(with_language_scores, SharedModel(scheduler, run, options), options=options)
    size = options.chosen_batch_size

    def decided(stream: Sequence[Item]) -> Iterator[Item]:
        with closing(map_ordered(score, stream, workers=size, depth=size)) as rows:
            yield from decide_languages(rows, options)

    recordings = map(decided, streams)
    with (
        scheduler.running(run),
        closing(interleave(recordings, at_once=len(streams), depth=1, ordered=False)) as results,
    ):
        return list(results)


def changing(row: EncodedRow) -> dict[str, float]:
    """Four rows of English, and then French."""
    return {"en": 0.9, "fr": 0.1} if row.start < 40 else {"en": 0.1, "fr": 0.9}


@pytest.mark.parametrize("batch_size", [1, 3, 4, 5, 16, 64])
def test_the_language_of_a_row_does_not_depend_on_the_batches(batch_size: int) -> None:
    engine = FakeEngine(detect=changing)
    result = stages(engine, [items(0, 70)], batch_size=batch_size)
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
    encoded = [row.encoding.output is not None for row in labelled]
    assert encoded == [True] * LAST_REVISION + [False] * (70 - LAST_REVISION)


@pytest.mark.parametrize("batch_size", [1, 4, 16])
def test_recordings_that_share_calls_are_decided_alone(batch_size: int) -> None:
    streams = [items(0, 6), items(1, 2), items(2, 0), items(3, 6, offset=50)]
    engine = FakeEngine(detect=changing, delay={"encode": 0.005})
    result = stages(engine, streams, batch_size=batch_size)
    for number, stream in enumerate(streams):
        own = [item for item in result if item.recording.number == number]
        assert names(own) == names(stream)
        language = "fr" if number == 3 else "en"
        assert {item.language for item in own if isinstance(item, Row)} <= {language}
    assert sum(engine.batch_sizes["encode"]) == 14
    assert max(engine.batch_sizes["encode"]) <= batch_size
    if batch_size > 1:
        assert len(engine.batch_sizes["encode"]) < 14


def test_recordings_whose_stages_run_in_turns_are_decided_alone() -> None:
    options = Options()
    a, b = (
        decide_languages(scored(stream, options), options) for stream in (items(0, 6), items(1, 2))
    )
    result = [next(b), next(a), next(a), next(b), next(b), *a, *b]
    assert names(result) == "b0 a0 a1 b1 b. a2 a3 a4 a5 a."
    assert {item.language for item in result if isinstance(item, Row)} == {"fr"}


def test_a_final_language_needs_no_engine() -> None:
    engine = FakeEngine(failing={"encode": range(99), "detect_language": range(99)})
    for stream in (items(0, 9, FINAL), items(0, 9, replace(FINAL))):
        result = [item for item in stages(engine, [stream]) if isinstance(item, Row)]
        assert [row.language for row in result] == ["it"] * 9
        assert [row.decision for row in result] == [FINAL.decision] * 9
        assert all(row.encoding.output is None for row in result)


def test_only_rows_that_need_scores_are_encoded() -> None:
    engine = FakeEngine()
    stream = [items(0, 1)[0], *items(1, 2, FINAL)[:2], *items(2, 0)]
    model = shared_model(engine)
    result = [with_language_scores(model, item, Options()) for item in stream]
    assert engine.batch_sizes == {"encode": [1], "detect_language": [1], "decode": [], "align": []}
    row = result[0]
    assert isinstance(row, Row)
    assert row.language_scores is not None
    assert row.language_scores.seconds == 2
    assert row.encoding.output is not None
    assert row.encoding.output.rows == 1
    assert result[1:] == stream[1:]


def test_with_code_switching_all_rows_are_scored() -> None:
    result = scored(items(0, 70), Options(multilingual=True))
    rows = [item for item in result if isinstance(item, Row)]
    assert len(rows) == 70
    assert all(row.language_scores and row.encoding.output for row in rows)


@pytest.mark.parametrize(("failing", "complete"), [(0, 0), (3, 0), (5, 5), (8, 8)])
def test_an_error_of_the_engine_comes_after_the_rows_before_it(failing: int, complete: int) -> None:
    """The voters wait for each other, so none of them comes before the error of a voter."""
    engine = FakeEngine(failing={"detect_language": {failing}})
    received: list[Item] = []
    model = shared_model(engine)
    with pytest.raises(EngineError, match="detect_language failed"):
        received.extend(
            decide_languages(
                (with_language_scores(model, item, Options()) for item in items(0, 12)), Options()
            )
        )
    assert names(received) == names(items(0, 12)[:complete])


def test_an_error_of_the_engine_reaches_the_recording_of_its_rows_only() -> None:
    """Each recording has its own thread, and the engine computes the rows of each thread again."""
    options = Options(batch_size=8)

    def failing(row: EncodedRow) -> dict[str, float]:
        if row.start >= 1000:
            raise EngineError("broken row")
        return {"en": 1.0}

    engine = FakeEngine(detect=failing, delay={"encode": 0.01})
    scheduler, run = Scheduler(engine), RunShare()
    score = partial(with_language_scores, SharedModel(scheduler, run, options), options=options)

    def decided(stream: Sequence[Item]) -> Iterator[str]:
        try:
            with closing(map_ordered(score, stream, workers=8, depth=8)) as rows:
                for item in decide_languages(rows, options):
                    yield names([item])
        except EngineError as error:
            yield f"{names(stream[-1:])} {error}"

    streams = [items(0, 20), items(1, 20, offset=1000), items(2, 20, offset=900)]
    with scheduler.running(run):
        result = list(interleave(map(decided, streams), at_once=3, depth=1, ordered=False))
    assert [name for name in result if name[0] == "a"] == names(items(0, 20)).split()
    assert [name for name in result if name[0] == "b"] == ["b. broken row"]
    assert [name for name in result if name[0] == "c"] == [
        *names(items(2, 10)[:10]).split(),
        "c. broken row",
    ]
