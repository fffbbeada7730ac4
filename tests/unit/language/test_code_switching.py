"""Code-switching: rows are cut where the language changes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.fakes import EncodedRow, FakeEngine
from tests.unit.synthetic_speech import RampExtractor, chunk, ramp, rows, shared_model
from whisperbatch.errors import EngineError
from whisperbatch.language.code_switching import CodeSwitching, best_sequence, row_windows
from whisperbatch.language.detection import with_language_scores
from whisperbatch.options import Options
from whisperbatch.options.keywords import resolve
from whisperbatch.recording import End, Item, RecordingState, Row
from whisperbatch.types import Chunk, LanguageScores, speech_seconds

ENGLISH, FRENCH = {"en": 0.97, "fr": 0.03}, {"en": 0.03, "fr": 0.97}
UNSURE = {"en": 0.4, "fr": 0.6}


def language_engine(
    spoken: Sequence[tuple[float, float, str]], extra: str | None = None, **keywords: Any
) -> FakeEngine:
    """Return an engine that detects the languages spoken in a row, in proportion to their time.

    Args:
        spoken: start and end in seconds, and language.
        extra: a language that gets half of the probability in all rows.
        **keywords: of FakeEngine.
    """

    def detect(row: EncodedRow) -> dict[str, float]:
        shares = dict.fromkeys((code for _, _, code in spoken), 0.01)
        for start, end, code in spoken:
            shares[code] += max(min(end, row.end) - max(start, row.start), 0.0)
        if extra:
            shares[extra] = sum(shares.values())
        return {code: share / sum(shares.values()) for code, share in shares.items()}

    return FakeEngine(detect=detect, **keywords)


MULTILINGUAL = Options(multilingual=True)


def switching(engine: FakeEngine, **options: Any) -> CodeSwitching:
    return CodeSwitching(
        shared_model(engine), RampExtractor(), resolve(None, multilingual=True, **options)
    )


def fresh(items: Sequence[Item]) -> list[Item]:
    """The items of a recording with a new state of the recording."""
    recording = RecordingState(items[0].recording.number)
    return [replace(item, recording=recording) for item in items]


def switched(engine: FakeEngine, items: Sequence[Item], **options: Any) -> list[Item]:
    """The items of a recording after code-switching, with a new state of the recording."""
    return list(switching(engine, **options)(fresh(items)))


def scored_items(engine: FakeEngine, *chunks: Chunk) -> list[Item]:
    """A recording's rows with their language scores, and its end."""
    items, model = rows(*chunks), shared_model(engine)
    end = End(items[0].recording)
    return [*(with_language_scores(model, item, MULTILINGUAL) for item in items), end]


def languages_of(
    items: Sequence[Item], recording: int = 0
) -> list[tuple[float, float, str | None]]:
    """Start, end and language of the recording's rows."""
    return [
        (round(row.chunk.start / 16000, 2), round(row.chunk.end / 16000, 2), row.language)
        for row in items
        if isinstance(row, Row) and row.chunk.recording == recording
    ]


def phrases(start: float, count: int) -> list[tuple[float, float]]:
    """Speech spans of 4 s, with pauses of 0.5 s."""
    return [(start + 4.5 * number, start + 4.5 * number + 4) for number in range(count)]


def test_an_uncertain_row_takes_the_language_of_its_neighbours() -> None:
    sure = LanguageScores(ENGLISH, 5.0)
    for middle, expected in ((UNSURE, "en"), (FRENCH, "fr")):
        sequence = best_sequence([sure, LanguageScores(middle, 5.0), sure], ("en", "fr"), 0.5)
        assert sequence == ["en", expected, "en"]


def test_languages_before_and_after_influence_uncertain_rows() -> None:
    scores = [LanguageScores(UNSURE, 5.0)]
    assert best_sequence(scores, ("en", "fr"), 0.5) == ["fr"]
    assert best_sequence(scores, ("en", "fr"), 0.5, before="en") == ["en"]
    assert best_sequence(scores, ("en", "fr"), 0.5, after="en") == ["en"]
    assert best_sequence(scores, ("en", "fr"), 0.5, before="en", after="fr") == ["fr"]
    assert best_sequence([LanguageScores(FRENCH, 5.0)], ("en", "fr"), 0.5, before="en") == ["fr"]


def test_scores_below_the_threshold_are_ignored() -> None:
    scores = [
        LanguageScores({"en": 0.2, "fr": 0.8}, 5.0),
        LanguageScores({"en": 0.9, "fr": 0.1}, 5.0),
    ]
    assert best_sequence(scores, ("en", "fr"), 0.5) == ["en", "en"]
    assert best_sequence(scores[:1], ("en", "fr"), 0.5) == ["fr"]
    assert best_sequence(scores[:1], ("en", "fr"), 0.85, before="en") == ["en"]
    neither = {"en": 0.001, "fr": 0.009, "xx": 0.99}
    assert best_sequence([LanguageScores(neither, 5.0)], ("en", "fr"), 0.5, before="en") == ["en"]


def test_little_speech_has_less_weight() -> None:
    sure = LanguageScores(ENGLISH, 5.0)
    for seconds, expected in ((1.0, "en"), (5.0, "fr")):
        scores = [sure, LanguageScores(FRENCH, seconds), sure]
        assert best_sequence(scores, ("en", "fr"), 0.5)[1] == expected


def test_no_scores_give_an_empty_sequence() -> None:
    assert best_sequence([], ("en",), 0.5) == []


def test_row_windows_are_short_and_contain_all_speech() -> None:
    uncut = chunk([(10, 11), (11.5, 14.8), (15, 16), (16.2, 28), (28, 29.5)])
    windows = row_windows(uncut)
    times = [(window.start / 16000, window.end / 16000) for window in windows]
    assert times == [(10, 14.8), (15, 16), (16.2, 28), (28, 29.5)]
    assert [span for window in windows for span in window.speech] == list(uncut.speech)
    for window in windows:
        assert window.length == window.end - window.start


def test_a_chunk_is_cut_at_the_pause_where_the_language_changes() -> None:
    engine = language_engine([(0, 30, "en"), (30, 90, "fr")])
    first, last = phrases(0, 4), phrases(50, 4)
    middle = [(20, 24), (24.5, 28.5), (29.8, 33.8), (34.3, 38.3), (38.8, 42.8)]
    items = scored_items(engine, chunk(first, 0), chunk(middle, 1), chunk(last, 2))
    labelled = switched(engine, items)
    assert languages_of(labelled) == [
        (0, 17.5, "en"),
        (20, 28.5, "en"),
        (29.8, 42.8, "fr"),
        (50, 67.5, "fr"),
    ]
    cut = [row for row in labelled if isinstance(row, Row)]
    assert [row.chunk.index for row in cut] == [0, 1, 2, 3]
    assert isinstance(labelled[-1], End)
    speech = [span for row in cut for span in row.chunk.speech]
    assert speech == [span for row in items if isinstance(row, Row) for span in row.chunk.speech]
    for row in cut:
        samples = ramp(70)[row.chunk.start : row.chunk.end]
        np.testing.assert_array_equal(row.chunk.samples, samples)
        np.testing.assert_array_equal(row.features, RampExtractor()(row.chunk.samples))
        assert row.language_scores is not None
        # the seconds decide the language of the recording
        assert row.language_scores.seconds == speech_seconds(row.chunk.speech)
    for row, given in ((cut[0], items[0]), (cut[3], items[2])):
        assert isinstance(given, Row)
        assert row.encoding.output is given.encoding.output is not None
    assert cut[1].encoding.output is cut[2].encoding.output is None


def test_a_chunk_next_to_another_language_is_scored_again_and_may_stay_uncut() -> None:
    engine = language_engine([(0, 19, "en"), (19, 90, "fr")])
    items = scored_items(engine, chunk(phrases(0, 4)), chunk(phrases(20, 4), 1))
    scored = len(engine.scored)
    labelled = switched(engine, items)
    assert languages_of(labelled) == [(0, 17.5, "en"), (20, 37.5, "fr")]
    assert len(engine.scored) == scored + 8
    for row, given in zip(labelled[:2], items[:2], strict=True):
        assert isinstance(row, Row)
        assert isinstance(given, Row)
        assert row.encoding.output is given.encoding.output is not None


def test_rows_of_a_constant_language_are_not_scored_again() -> None:
    engine = language_engine([(0, 200, "en"), (200, 300, "fr")])
    items = scored_items(engine, *(chunk(phrases(20 * n, 4), n) for n in range(5)))
    scored = len(engine.scored)
    labelled = switched(engine, items)
    assert [language for _, _, language in languages_of(labelled)] == ["en"] * 5
    assert len(engine.scored) == scored


def test_after_a_cut_the_language_before_is_that_of_the_last_part() -> None:
    engine = language_engine([(0, 22.2, "en"), (22.2, 90, "fr")])
    items = scored_items(engine, *(chunk(phrases(30 * n, 6), n) for n in range(3)))
    scored = len(engine.scored)
    labelled = switched(engine, items)
    assert languages_of(labelled)[:2] == [(0, 22, "en"), (22.5, 26.5, "fr")]
    assert len(engine.scored) == scored + 12  # windows of the first two rows; the last is sure


def test_a_recording_of_one_row_is_cut() -> None:
    engine = language_engine([(0, 13.2, "en"), (13.2, 90, "fr")])
    labelled = switched(engine, scored_items(engine, chunk(phrases(0, 6))))
    assert languages_of(labelled) == [(0, 13, "en"), (13.5, 26.5, "fr")]
    short = switched(engine, scored_items(engine, chunk([(0, 2)])))
    assert languages_of(short) == [(0, 2, "en")]


def test_a_chunk_may_change_its_language_twice() -> None:
    engine = language_engine([(0, 8.7, "en"), (8.7, 17.7, "fr"), (17.7, 90, "en")])
    labelled = switched(engine, scored_items(engine, chunk(phrases(0, 6))))
    assert languages_of(labelled) == [(0, 8.5, "en"), (9, 17.5, "fr"), (18, 26.5, "en")]


def test_recordings_whose_stages_run_in_turns_are_independent() -> None:
    """All recordings of a run share the object."""
    engine = language_engine(
        [(0, 33.2, "en"), (33.2, 100, "fr"), (100, 124.2, "de"), (124.2, 200, "es")]
    )
    first = scored_items(engine, *(chunk(phrases(20 * n, 4), n) for n in range(4)))
    second = scored_items(engine, *(chunk(phrases(100 + 20 * n, 4), n, 1) for n in range(3)))
    empty: list[Item] = [End(RecordingState(2))]
    shared = switching(engine)
    stages = [shared(fresh(items)) for items in (first, second, empty)]
    labelled: list[Item] = []
    while stages:
        for stage in [*stages]:
            item = next(stage, None)
            if item is None:
                stages.remove(stage)
            else:
                labelled.append(item)
    for number, alone in ((0, first), (1, second)):
        expected = languages_of(switched(engine, alone), number)
        assert languages_of(labelled, number) == expected
        assert len(expected) == len(alone)  # one more row, and no End
        recording_rows = [
            row for row in labelled if isinstance(row, Row) and row.chunk.recording == number
        ]
        assert [row.chunk.index for row in recording_rows] == list(range(len(recording_rows)))
    assert [item.recording.number for item in labelled if isinstance(item, End)] == [2, 1, 0]
    for number, item in enumerate(labelled):
        if isinstance(item, End):
            assert not languages_of(labelled[number:], item.recording.number)


@pytest.mark.parametrize(("spoken", "complete"), [(13.2, 0), (103.2, 2)])
def test_an_error_of_the_engine_comes_after_the_rows_before_it(
    spoken: float, complete: int
) -> None:
    """The row before a change, too, is scored in windows."""
    languages = [(0.0, spoken, "en"), (spoken, 200.0, "fr")]
    chunks = [chunk(phrases(30 * n, 6), n) for n in range(6)]
    items = scored_items(language_engine(languages), *chunks)
    failing = language_engine(languages, failing={"detect_language": range(100)})
    labelled: list[Item] = []
    with pytest.raises(EngineError, match="fake: detect_language failed"):
        labelled.extend(switching(failing)(items))
    assert languages_of(labelled) == [(30.0 * n, 30.0 * n + 26.5, "en") for n in range(complete)]
    assert len(labelled) == complete


def test_an_error_of_the_source_is_raised() -> None:
    engine = language_engine([(0, 200, "en")])
    items = scored_items(engine, *(chunk(phrases(30 * n, 6), n) for n in range(4)))

    def source() -> Iterator[Item]:
        yield from items[:-1]
        raise EngineError("no more")

    labelled: list[Item] = []
    with pytest.raises(EngineError, match="no more"):
        labelled.extend(switching(engine)(source()))
    assert [language for _, _, language in languages_of(labelled)] == ["en"] * 2


def test_a_row_is_yielded_after_the_next_two_rows() -> None:
    engine = language_engine([(0, 200, "en")])
    items = iter(scored_items(engine, *(chunk(phrases(20 * n, 2), n) for n in range(5))))
    labelled = switching(engine)(items)
    first = next(labelled)
    assert isinstance(first, Row)
    assert first.chunk.index == 0
    following = next(items)
    assert isinstance(following, Row)
    assert following.chunk.index == 3


def test_only_candidate_languages_are_used() -> None:
    engine = language_engine([(0, 13.2, "en"), (13.2, 90, "fr")], extra="de")
    items = scored_items(engine, chunk(phrases(0, 6)), chunk(phrases(40, 4), 1))
    assert {language for _, _, language in languages_of(switched(engine, items))} == {"de"}
    labelled = switched(engine, items, languages=("en", "fr"))
    assert languages_of(labelled) == [(0, 13, "en"), (13.5, 26.5, "fr"), (40, 57.5, "fr")]
    only = switched(engine, items, languages=("fr",))
    assert languages_of(only) == [(0, 26.5, "fr"), (40, 57.5, "fr")]


def test_each_row_has_the_language_of_most_speech_so_far() -> None:
    engine = language_engine([(0, 27, "en"), (27, 200, "fr")])
    items = scored_items(engine, *(chunk(phrases(30 * n, 6), n) for n in range(3)))
    labelled = [row for row in switched(engine, items) if isinstance(row, Row)]
    assert [row.language for row in labelled] == ["en", "fr", "fr"]
    decisions = [row.decision for row in labelled if row.decision]
    assert [decision.language for decision in decisions] == ["en", "en", "fr"]
    assert decisions[0] == decisions[1]
    assert labelled[0].recording.language.decision == decisions[2]
