"""Languages that change within a recording, by an engine that hears who speaks when."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.unit.fakes import FakeEngine
from tests.unit.world import RampExtractor, Stretches, chunk, ramp, rows
from whisperbatch.errors import EngineError
from whisperbatch.language.code_switching import (
    CodeSwitching,
    likeliest,
    pieces,
    with_language_scores,
)
from whisperbatch.options import Options
from whisperbatch.options.keywords import resolve
from whisperbatch.protocols import Encoded
from whisperbatch.rows import End, Item, Row
from whisperbatch.types import Chunk, LanguageScores, spoken

Spoken = Sequence[tuple[float, float, str]]

ENGLISH, FRENCH = {"en": 0.97, "fr": 0.03}, {"en": 0.03, "fr": 0.97}
MAYBE = {"en": 0.4, "fr": 0.6}


class Tongues(FakeEngine):
    """Hears how much of a row is in which language; half of what it hears is `aside`.

    Args:
        said: start, end and language, in seconds.
        aside: a language that nobody speaks.
    """

    def __init__(self, said: Spoken, aside: str | None = None) -> None:
        super().__init__()
        self._said, self._aside = said, aside
        self.listened: list[tuple[float, float]] = []

    def encode(self, features: npt.NDArray[np.float32]) -> Any:
        starts, lengths = features[:, 0, 0] / 16000, features[:, 0, 1] / 16000
        spans = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
        return Stretches(len(features), tuple(spans))

    def split(self, encoded: Encoded) -> list[Encoded]:
        assert isinstance(encoded, Stretches)
        return [Stretches(1, (span,)) for span in encoded.spans]

    def detect_language(self, encoded: Encoded) -> list[dict[str, float]]:
        assert isinstance(encoded, Stretches)
        self.listened += encoded.spans
        return [self._heard(start, end) for start, end in encoded.spans]

    def _heard(self, start: float, end: float) -> dict[str, float]:
        found = dict.fromkeys((code for _, _, code in self._said), 0.01)
        for first, last, code in self._said:
            found[code] += max(min(last, end) - max(first, start), 0.0)
        if self._aside:
            found[self._aside] = sum(found.values())
        return {code: share / sum(found.values()) for code, share in found.items()}


def refuse(recording: int, error: EngineError) -> None:
    raise error


def switched(engine: Tongues, items: Sequence[Item], **options: Any) -> list[Item]:
    resolved = resolve(None, multilingual=True, **options)
    return list(CodeSwitching(engine, RampExtractor(), resolved, refuse)(items))


def ended(engine: Tongues, *chunks: Chunk) -> list[Item]:
    """A recording's rows, listened to, and its end."""
    return [*with_language_scores(engine, rows(*chunks)), End(chunks[0].recording, "", 0.0)]


def told(items: Sequence[Item], recording: int = 0) -> list[tuple[float, float, str | None]]:
    return [
        (round(one.chunk.start / 16000, 2), round(one.chunk.end / 16000, 2), one.language)
        for one in items
        if isinstance(one, Row) and one.chunk.recording == recording
    ]


def phrases(start: float, count: int) -> list[tuple[float, float]]:
    """Of 4 s, with 0.5 s between them."""
    return [(start + 4.5 * number, start + 4.5 * number + 4) for number in range(count)]


def test_an_uncertain_place_goes_by_its_neighbours_and_a_sure_one_does_not() -> None:
    sure = LanguageScores(ENGLISH, 5.0)
    for island, expected in ((MAYBE, "en"), (FRENCH, "fr")):
        found = likeliest([sure, LanguageScores(island, 5.0), sure], ("en", "fr"), 0.5)
        assert found == ["en", expected, "en"]


def test_what_is_before_and_after_pulls() -> None:
    heard = [LanguageScores(MAYBE, 5.0)]
    assert likeliest(heard, ("en", "fr"), 0.5) == ["fr"]
    assert likeliest(heard, ("en", "fr"), 0.5, before="en") == ["en"]
    assert likeliest(heard, ("en", "fr"), 0.5, after="en") == ["en"]
    assert likeliest(heard, ("en", "fr"), 0.5, before="en", after="fr") == ["fr"]
    assert likeliest([LanguageScores(FRENCH, 5.0)], ("en", "fr"), 0.5, before="en") == ["fr"]


def test_what_is_below_the_threshold_does_not_count() -> None:
    heard = [
        LanguageScores({"en": 0.2, "fr": 0.8}, 5.0),
        LanguageScores({"en": 0.9, "fr": 0.1}, 5.0),
    ]
    assert likeliest(heard, ("en", "fr"), 0.5) == ["en", "en"]
    assert likeliest(heard[:1], ("en", "fr"), 0.5) == ["fr"]
    assert likeliest(heard[:1], ("en", "fr"), 0.85, before="en") == ["en"]
    other = {"en": 0.001, "fr": 0.009, "xx": 0.99}  # it is in neither
    assert likeliest([LanguageScores(other, 5.0)], ("en", "fr"), 0.5, before="en") == ["en"]


def test_little_speech_counts_for_less() -> None:
    sure = LanguageScores(ENGLISH, 5.0)
    for seconds, expected in ((1.0, "en"), (5.0, "fr")):
        heard = [sure, LanguageScores(FRENCH, seconds), sure]
        assert likeliest(heard, ("en", "fr"), 0.5)[1] == expected


def test_nothing_heard_is_no_sequence() -> None:
    assert likeliest([], ("en",), 0.5) == []


def test_pieces_are_of_some_seconds_and_hold_all_speech() -> None:
    whole = chunk([(10, 11), (11.5, 14.8), (15, 16), (16.2, 28), (28, 29.5)])
    found = pieces(whole)
    starts = [(one.start / 16000, one.end / 16000) for one in found]
    assert starts == [(10, 14.8), (15, 16), (16.2, 28), (28, 29.5)]
    assert [span for one in found for span in one.speech] == list(whole.speech)
    for one in found:
        assert one.length == one.end - one.start


def test_a_chunk_is_cut_at_the_pause_where_the_language_changes() -> None:
    engine = Tongues([(0, 30, "en"), (30, 90, "fr")])
    first, middle, last = phrases(0, 4), phrases(20, 5), phrases(50, 4)
    middle = [(20, 24), (24.5, 28.5), (29.8, 33.8), (34.3, 38.3), (38.8, 42.8)]
    items = ended(engine, chunk(first, 0), chunk(middle, 1), chunk(last, 2))
    found = switched(engine, items)
    assert told(found) == [
        (0, 17.5, "en"),
        (20, 28.5, "en"),
        (29.8, 42.8, "fr"),
        (50, 67.5, "fr"),
    ]
    cut = [row for row in found if isinstance(row, Row)]
    assert [row.chunk.index for row in cut] == [0, 1, 2, 3]
    assert isinstance(found[-1], End)
    speech = [span for row in cut for span in row.chunk.speech]
    assert speech == [span for one in items if isinstance(one, Row) for span in one.chunk.speech]
    for row in cut:
        whole = ramp(70)[row.chunk.start : row.chunk.end]
        np.testing.assert_array_equal(row.chunk.samples, whole)
        np.testing.assert_array_equal(row.features, RampExtractor()(row.chunk.samples))
        assert row.language_scores is not None
        # so that a recording's language is that of most speech
        assert row.language_scores.seconds == spoken(row.chunk.speech)
    for row, given in ((cut[0], items[0]), (cut[3], items[2])):
        assert isinstance(given, Row)
        assert row.encoded is given.encoded is not None
    assert cut[1].encoded is cut[2].encoded is None


def test_a_chunk_between_two_languages_is_listened_to_and_may_stay_whole() -> None:
    engine = Tongues([(0, 19, "en"), (19, 90, "fr")])
    items = ended(engine, chunk(phrases(0, 4)), chunk(phrases(20, 4), 1))
    listened = len(engine.listened)
    found = switched(engine, items)
    assert told(found) == [(0, 17.5, "en"), (20, 37.5, "fr")]
    assert len(engine.listened) == listened + 8
    for row, given in zip(found[:2], items[:2], strict=True):
        assert isinstance(row, Row)
        assert isinstance(given, Row)
        assert row.encoded is given.encoded is not None


def test_where_the_language_stays_nothing_is_listened_to_again() -> None:
    engine = Tongues([(0, 200, "en"), (200, 300, "fr")])
    items = ended(engine, *(chunk(phrases(20 * n, 4), n) for n in range(5)))
    listened = len(engine.listened)
    found = switched(engine, items)
    assert [language for _, _, language in told(found)] == ["en"] * 5
    assert len(engine.listened) == listened


def test_after_a_cut_the_language_is_that_of_its_last_part() -> None:
    engine = Tongues([(0, 22.2, "en"), (22.2, 90, "fr")])
    items = ended(engine, *(chunk(phrases(30 * n, 6), n) for n in range(3)))
    listened = len(engine.listened)
    found = switched(engine, items)
    assert told(found)[:2] == [(0, 22, "en"), (22.5, 26.5, "fr")]
    assert len(engine.listened) == listened + 12  # of the rows on either side; the last is sure


def test_a_recording_of_one_row_is_cut_too() -> None:
    engine = Tongues([(0, 13.2, "en"), (13.2, 90, "fr")])
    found = switched(engine, ended(engine, chunk(phrases(0, 6))))
    assert told(found) == [(0, 13, "en"), (13.5, 26.5, "fr")]
    one = switched(engine, ended(engine, chunk([(0, 2)])))
    assert told(one) == [(0, 2, "en")]


def test_a_language_may_come_and_go_within_a_chunk() -> None:
    engine = Tongues([(0, 8.7, "en"), (8.7, 17.7, "fr"), (17.7, 90, "en")])
    found = switched(engine, ended(engine, chunk(phrases(0, 6))))
    assert told(found) == [(0, 8.5, "en"), (9, 17.5, "fr"), (18, 26.5, "en")]


def test_recordings_do_not_disturb_each_other() -> None:
    engine = Tongues([(0, 33.2, "en"), (33.2, 100, "fr"), (100, 124.2, "de"), (124.2, 200, "es")])
    one = ended(engine, *(chunk(phrases(20 * n, 4), n) for n in range(4)))
    other = ended(engine, *(chunk(phrases(100 + 20 * n, 4), n, 1) for n in range(3)))
    empty = End(2, "", 0.0)
    mixed = [one[0], other[0], one[1], other[1], empty, other[2], other[3], *one[2:]]
    found = switched(engine, mixed)
    for number, alone in ((0, one), (1, other)):
        expected = told(switched(engine, alone), number)
        assert told(found, number) == expected
        assert len(expected) == len(alone)  # one more row, and no End
        own = [x.chunk.index for x in found if isinstance(x, Row) and x.chunk.recording == number]
        assert own == list(range(len(own)))
    assert [item.recording for item in found if isinstance(item, End)] == [2, 1, 0]
    for number, item in enumerate(found):
        if isinstance(item, End):
            assert not told(found[number:], item.recording)


def test_a_row_that_cannot_be_listened_to_is_left_out_and_told_of() -> None:
    class Deaf(Tongues):
        def detect_language(self, encoded: Encoded) -> list[dict[str, float]]:
            raise EngineError("out of order")

    spoken = [(0.0, 13.2, "en"), (13.2, 90.0, "fr")]
    items = ended(Tongues(spoken), *(chunk(phrases(30 * n, 6), n) for n in range(3)))
    told_of: list[tuple[int, str]] = []
    deaf = CodeSwitching(
        Deaf(spoken),
        RampExtractor(),
        Options(multilingual=True),
        lambda recording, error: told_of.append((recording, str(error))),
    )
    found = list(deaf(items))
    assert set(told_of) == {(0, "out of order")}
    assert found[-1] == items[-1]
    assert len(found) < len(items)


def test_a_row_goes_on_when_the_two_after_it_are_known() -> None:
    engine = Tongues([(0, 200, "en")])
    items = iter(
        with_language_scores(engine, rows(*(chunk(phrases(20 * n, 2), n) for n in range(5))))
    )
    options = Options(multilingual=True)
    found = CodeSwitching(engine, RampExtractor(), options, refuse)(items)
    first = next(found)
    assert isinstance(first, Row)
    assert first.chunk.index == 0
    following = next(items)
    assert following.chunk.index == 3


def test_only_candidates_are_spoken() -> None:
    engine = Tongues([(0, 13.2, "en"), (13.2, 90, "fr")], aside="de")
    items = ended(engine, chunk(phrases(0, 6)), chunk(phrases(40, 4), 1))
    assert {language for _, _, language in told(switched(engine, items))} == {"de"}
    found = switched(engine, items, languages=("en", "fr"))
    assert told(found) == [(0, 13, "en"), (13.5, 26.5, "fr"), (40, 57.5, "fr")]
    only = switched(engine, items, languages=("fr",))
    assert told(only) == [(0, 26.5, "fr"), (40, 57.5, "fr")]


def test_rows_keep_what_was_heard_in_them() -> None:
    engine = Tongues([(0, 200, "en"), (200, 300, "fr")])
    (row,) = with_language_scores(engine, rows(chunk([(0, 3), (5, 6)])))
    assert row.language_scores is not None
    assert row.language_scores.seconds == 4
    assert (
        max(row.language_scores.probabilities, key=row.language_scores.probabilities.__getitem__)
        == "en"
    )
    assert row.encoded is not None
    assert row.encoded.rows == 1
