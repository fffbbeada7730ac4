from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.unit.fakes import FakeEncoded, FakeEngine, Shelf
from whisperbatch.errors import EngineError
from whisperbatch.jobs.journal import JournaledEngine
from whisperbatch.options import DecodeOptions
from whisperbatch.protocols import Alignment, Encoded, Engine, Sampling
from whisperbatch.types import Hypothesis

PROMPT = [50258, 50363]
OPTIONS = DecodeOptions()


@dataclass(frozen=True)
class Noted(FakeEncoded):
    """Encoder output in which the engine notes what it decoded."""

    notes: dict[int, tuple[int, ...]] = field(default_factory=dict)


class Pure(FakeEngine):
    """What it finds depends on the row alone; it places a text best by what it noted of it."""

    def __init__(self, name: str = "pure") -> None:
        super().__init__()
        self._name = name
        self.asked: dict[str, list[int]] = {"encode": [], "generate": [], "align": [], "detect": []}

    @property
    def fingerprint(self) -> str:  # type: ignore[override]  # as the protocol has it
        return self._name

    def encode(self, features: npt.NDArray[np.float32]) -> Noted:
        self.asked["encode"].append(len(features))
        return Noted(len(features), tuple(features.mean((1, 2)).tolist()))

    def split(self, encoded: Encoded) -> list[Encoded]:
        assert isinstance(encoded, Noted)
        return [Noted(1, (level,)) for level in encoded.levels]

    def join(self, rows: Sequence[Encoded]) -> Noted:
        return Noted(len(rows), tuple(row.levels[0] for row in rows if isinstance(row, Noted)))

    def detect_language(self, encoded: Encoded) -> list[dict[str, float]]:
        self.asked["detect"].append(encoded.rows)
        assert isinstance(encoded, Noted)
        return [{"fr": level % 1, "en": 1 - level % 1} for level in encoded.levels]

    def generate(
        self,
        encoded: Encoded,
        prompts: Sequence[Sequence[int]],
        options: DecodeOptions,
        sampling: Sequence[Sampling] | None = None,
    ) -> list[Hypothesis]:
        assert isinstance(encoded, Noted)
        self.asked["generate"].append(encoded.rows)
        found = []
        for number, (level, prompt) in enumerate(zip(encoded.levels, prompts, strict=True)):
            seed = sampling[number].seed if sampling else 0
            tokens = (round(level * 1000), options.beam_size, len(prompt), seed)
            encoded.notes[number] = tokens
            found.append(Hypothesis(tokens, -0.1 / 3, 1 / 7))
        return found

    def align(
        self,
        encoded: Encoded,
        prompts: Sequence[Sequence[int]],
        tokens: Sequence[Sequence[int]],
        frames: Sequence[int],
    ) -> list[Alignment]:
        assert isinstance(encoded, Noted)
        self.asked["align"].append(encoded.rows)
        assert len(tokens) == len(frames) == encoded.rows
        found = []
        for number, text in enumerate(tokens):
            exact = encoded.notes.get(number) == tuple(text)
            starts = np.arange(len(text)) / 3 + (0 if exact else 100)
            found.append(Alignment(starts, starts + 0.1, np.full(len(text), 1 / 3)))
        return found


def features(*levels: float) -> npt.NDArray[np.float32]:
    return np.array([np.full((80, 200), level) for level in levels], np.float32)


def decoded(
    engine: Engine,
    rows: npt.NDArray[np.float32],
    options: DecodeOptions = OPTIONS,
    sampling: Sequence[Sampling] | None = None,
    encoded: Encoded | None = None,
) -> list[tuple[Any, ...]]:
    """What the pipeline asks of an engine, as values that compare."""
    encoded = encoded or engine.encode(rows)
    prompts = [PROMPT] * len(rows)
    texts = engine.generate(encoded, prompts, options, sampling)
    times = engine.align(encoded, prompts, [text.tokens for text in texts], [200] * len(rows))
    return [
        (text, one.starts.tolist(), one.ends.tolist(), one.probabilities.tolist())
        for text, one in zip(texts, times, strict=True)
    ]


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def test_is_an_engine_and_gives_what_the_engine_gives(shelf: Shelf) -> None:
    rows = features(0.1, 0.2, 0.3)
    remembering = JournaledEngine(Pure(), shelf)
    assert isinstance(remembering, Engine)
    assert decoded(remembering, rows) == decoded(Pure(), rows)
    assert remembering.detect_language(remembering.encode(rows)) == Pure().detect_language(
        Pure().encode(rows)
    )


def test_what_is_known_is_not_asked_for_again(shelf: Shelf) -> None:
    rows = features(0.1, 0.2, 0.3)
    first = decoded(JournaledEngine(Pure(), shelf), rows)
    engine = Pure()
    assert decoded(JournaledEngine(engine, shelf), rows) == first
    assert engine.asked == {"encode": [], "generate": [], "align": [], "detect": []}


def test_only_what_is_new_is_encoded_and_decoded_in_one_batch(shelf: Shelf) -> None:
    decoded(JournaledEngine(Pure(), shelf), features(0.2))
    engine = Pure()
    rows = features(0.1, 0.2, 0.3)
    assert decoded(JournaledEngine(engine, shelf), rows) == decoded(Pure(), rows)
    assert engine.asked == {"encode": [2], "generate": [2], "align": [2], "detect": []}


def test_a_text_is_kept_with_its_times_or_not_at_all(shelf: Shelf) -> None:
    engine = JournaledEngine(Pure(), shelf)
    engine.generate(engine.encode(features(0.1)), [PROMPT], OPTIONS)
    assert not shelf.values  # killed here, the row would be decoded again


def test_a_text_whose_times_are_gone_is_decoded_again_to_be_placed(shelf: Shelf) -> None:
    rows = features(0.1, 0.2)
    first = decoded(JournaledEngine(Pure(), shelf), rows)
    for key, value in list(shelf.values.items()):
        if value.startswith(b"[[0"):  # times: three lists
            del shelf.values[key]
    assert len(shelf.values) == 2
    engine = Pure()
    assert decoded(JournaledEngine(engine, shelf), rows) == first
    assert engine.asked["generate"] == [2]


def test_times_that_another_thread_has_stored_meanwhile_change_nothing(shelf: Shelf) -> None:
    rows = features(0.1, 0.2)
    expected = decoded(Pure(), rows)
    engine = JournaledEngine(Pure(), shelf)
    encoded = engine.encode(rows)
    texts = engine.generate(encoded, [PROMPT] * 2, OPTIONS)
    decoded(JournaledEngine(Pure(), shelf), rows[:1])
    times = engine.align(encoded, [PROMPT] * 2, [text.tokens for text in texts], [200, 200])
    assert [one.starts.tolist() for one in times] == [one[1] for one in expected]


@pytest.mark.parametrize(
    "options", [replace(OPTIONS, beam_size=2), replace(OPTIONS, max_new_tokens=7)]
)
def test_other_options_are_another_question(shelf: Shelf, options: DecodeOptions) -> None:
    rows = features(0.1)
    decoded(JournaledEngine(Pure(), shelf), rows)
    engine = Pure()
    assert decoded(JournaledEngine(engine, shelf), rows, options) == decoded(Pure(), rows, options)
    assert engine.asked["generate"] == [1]


def test_so_are_another_seed_and_other_weights(shelf: Shelf) -> None:
    rows = features(0.1)
    decoded(JournaledEngine(Pure(), shelf), rows)
    for engine, sampling in (
        (Pure(), [Sampling(0.5, 1, seed=3)]),
        (Pure(), [Sampling(0.5, 1, seed=4)]),
        (Pure("others"), None),
    ):
        assert decoded(JournaledEngine(engine, shelf), rows, sampling=sampling) == decoded(
            Pure(), rows, sampling=sampling
        )
        assert engine.asked["generate"] == [1]


def test_the_size_of_batches_is_not(shelf: Shelf) -> None:
    rows = features(0.1)
    decoded(JournaledEngine(Pure(), shelf), rows)
    engine = Pure()
    decoded(JournaledEngine(engine, shelf), rows, replace(OPTIONS, batch_size=3))
    assert engine.asked["generate"] == []


def test_rows_that_were_listened_to_are_encoded_once(shelf: Shelf) -> None:
    rows = features(0.1, 0.2, 0.3)
    engine = Pure()
    remembering = JournaledEngine(engine, shelf)
    heard = remembering.encode(rows)
    remembering.detect_language(heard)
    first, second, third = remembering.split(heard)
    together = remembering.join([third, first, second])
    mixed = rows[[2, 0, 1]]
    assert decoded(remembering, mixed, encoded=together) == decoded(Pure(), mixed)
    assert engine.asked == {"encode": [3], "generate": [3], "align": [3], "detect": [3]}


def test_rows_listened_to_and_others_make_one_batch(shelf: Shelf) -> None:
    engine = Pure()
    remembering = JournaledEngine(engine, shelf)
    heard = remembering.encode(features(0.1))
    remembering.detect_language(heard)
    [first] = remembering.split(heard)
    together = remembering.join([first, remembering.encode(features(0.2))])
    both = features(0.1, 0.2)
    assert decoded(remembering, both, encoded=together) == decoded(Pure(), both)
    assert engine.asked["encode"] == [1, 1]


def test_encoder_output_of_another_engine_is_refused(shelf: Shelf) -> None:
    with pytest.raises(EngineError, match="another engine"):
        JournaledEngine(Pure(), shelf).detect_language(Pure().encode(features(0.1)))
