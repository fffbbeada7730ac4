"""The contract of engines, on real weights and speech."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks import recordings
from tests.unit.fakes import MemoryStore
from whisperbatch import ClosedError, EngineError
from whisperbatch.decoding.tokenizer import WhisperTokenizer
from whisperbatch.engines.ctranslate2.engine import CTranslate2Engine
from whisperbatch.features import feature_extractor
from whisperbatch.jobs.journal import JournaledEngine
from whisperbatch.models.registry import find_model
from whisperbatch.options import DecodeOptions
from whisperbatch.protocols import Encoded, Engine
from whisperbatch.recording import RecordingState
from whisperbatch.rows import Row, padded
from whisperbatch.types import Chunk, SpeechSpan


def load(model: str, encoder: str, decoder: str) -> Engine:
    return CTranslate2Engine(
        find_model(model), name=model, device="cpu", encoder=encoder, decoder=decoder
    )


ENGINES: dict[str, Callable[[], Engine]] = {
    "ctranslate2 tiny.en": lambda: load("tiny.en", "ctranslate2", "ctranslate2"),
    "ctranslate2 base": lambda: load("base", "ctranslate2", "ctranslate2"),
    "openvino and ctranslate2 base": lambda: load("base", "openvino", "ctranslate2"),
    "ctranslate2 and openvino base": lambda: load("base", "ctranslate2", "openvino"),
    "openvino base": lambda: load("base", "openvino", "openvino"),
    "openvino tiny.en": lambda: load("tiny.en", "openvino", "openvino"),
    "journaled base": lambda: JournaledEngine(load("base", "openvino", "openvino"), MemoryStore()),
}


def load_torch(model: str, compute_type: str) -> Engine:
    from whisperbatch.engines.torch.engine import TorchEngine  # noqa: PLC0415 - not always there

    return TorchEngine(find_model(model), name=model, device="cpu", compute_type=compute_type)


TORCH: dict[str, Callable[[], Engine]] = {
    "torch tiny.en": lambda: load_torch("tiny.en", "float32"),
    "torch base": lambda: load_torch("base", "bfloat16"),
    "journaled torch base": lambda: JournaledEngine(load_torch("base", "bfloat16"), MemoryStore()),
}
ENGINES |= TORCH
MARKS = (
    (pytest.mark.torch, tuple(TORCH)),
    (pytest.mark.slow, ("journaled torch base", "ctranslate2 and openvino base")),
)

GREEDY = DecodeOptions(beam_size=1)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[mark for mark, names in MARKS if name in names])
        for name in ENGINES
    ],
)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    loaded = ENGINES[request.param]()
    yield loaded
    loaded.close()
    loaded.close()


class Batch:
    """Three utterances of different length, with their features and prompts for an engine."""

    def __init__(self, engine: Engine) -> None:
        recording = recordings.prompts("en", duration=60)
        extract = feature_extractor("whisper", engine.n_mels)
        self.rows: list[Row] = []
        for number, utterance in enumerate(recording.utterances[3:6]):
            first, last = (round(t * 16000) for t in (utterance.start, utterance.end))
            samples = (recording.samples[first:last] / np.float32(32768)).astype(np.float32)
            spans = (SpeechSpan(0, len(samples)),)
            features = extract(samples)
            chunk = Chunk(0, number, spans, spans, samples)
            pad_value = extract.pad_value(features)
            self.rows.append(Row(chunk, features, pad_value, RecordingState(0)))
        self.tokenizer = WhisperTokenizer(engine.tokenizer, multilingual=engine.is_multilingual)
        self.features: npt.NDArray[Any] = padded(self.rows, 3000)
        self.frames = [row.features.shape[1] for row in self.rows]
        self.starts = [self.tokenizer.prompt("en", "transcribe") for _ in self.rows]
        self.prompts = [[*start, self.tokenizer.no_timestamps] for start in self.starts]

    def encode(self, engine: Engine, rows: Sequence[int] = (0, 1, 2)) -> Encoded:
        return engine.encode(self.features[list(rows)])


@pytest.fixture(scope="module")
def batch(engine: Engine) -> Batch:
    return Batch(engine)


def test_an_engine_has_the_attributes_of_the_protocol(engine: Engine) -> None:
    assert isinstance(engine, Engine)
    assert engine.workers >= 1
    assert engine.n_mels in (80, 128)


def test_each_row_has_a_hypothesis_in_order(engine: Engine, batch: Batch) -> None:
    hypotheses = engine.generate(batch.encode(engine), batch.prompts, GREEDY)
    texts = [batch.tokenizer.text(hypothesis.tokens) for hypothesis in hypotheses]
    assert len(set(texts)) == 3
    for number, hypothesis in enumerate(hypotheses):
        [alone] = engine.generate(batch.encode(engine, [number]), batch.prompts[:1], GREEDY)
        assert batch.tokenizer.text(alone.tokens) == texts[number]
        assert -1 < hypothesis.avg_logprob < 0
        assert 0 <= hypothesis.no_speech_prob < 0.5
        assert all(token < batch.tokenizer.end_of_text for token in hypothesis.tokens)


def test_rows_can_be_split_and_joined_to_another_batch(engine: Engine, batch: Batch) -> None:
    encoded = batch.encode(engine)
    hypotheses = engine.generate(encoded, batch.prompts, GREEDY)
    rows = engine.split(encoded)
    assert [row.rows for row in rows] == [1, 1, 1]
    joined = engine.join([rows[2], rows[0]])
    assert joined.rows == 2
    expected = [hypotheses[2], hypotheses[0]]
    assert engine.generate(joined, batch.prompts[:2], GREEDY) == expected


def test_a_prefix_is_not_part_of_the_hypothesis(engine: Engine, batch: Batch) -> None:
    encoded = batch.encode(engine)
    hypotheses = engine.generate(encoded, batch.prompts, GREEDY)
    prefixes = [hypothesis.tokens[:2] for hypothesis in hypotheses]
    prompts = [[*p, *prefix] for p, prefix in zip(batch.prompts, prefixes, strict=True)]
    for hypothesis, rest in zip(hypotheses, engine.generate(encoded, prompts, GREEDY), strict=True):
        assert rest.tokens == hypothesis.tokens[2:]


def test_prompts_and_features_are_not_modified(engine: Engine, batch: Batch) -> None:
    prompts = [list(prompt) for prompt in batch.prompts]
    features = batch.features.copy()
    engine.generate(batch.encode(engine), batch.prompts, GREEDY)
    assert batch.prompts == prompts
    assert np.array_equal(batch.features, features)


def test_concurrent_calls_give_the_result_of_a_single_call(engine: Engine, batch: Batch) -> None:
    def run(_: int) -> list[tuple[int, ...]]:
        hypotheses = engine.generate(batch.encode(engine), batch.prompts, GREEDY)
        return [hypothesis.tokens for hypothesis in hypotheses]

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(run, range(4)))
    assert results == [run(0)] * 4


def test_tokens_are_aligned_in_order_within_their_row(engine: Engine, batch: Batch) -> None:
    encoded = batch.encode(engine)
    hypotheses = engine.generate(encoded, batch.prompts, GREEDY)
    tokens = [list(hypothesis.tokens) for hypothesis in hypotheses]
    tokens[1] = []
    alignments = engine.align(encoded, batch.starts, tokens, batch.frames)
    assert len(alignments) == 3
    for row, alignment, frames in zip(tokens, alignments, batch.frames, strict=True):
        assert len(alignment.starts) == len(alignment.ends) == len(row)
        assert len(alignment.probabilities) == len(row)
        assert (np.diff(alignment.starts) >= 0).all()
        assert (alignment.starts <= alignment.ends).all()
        assert ((alignment.probabilities >= 0) & (alignment.probabilities <= 1)).all()
        if row:
            assert alignment.starts[0] >= 0
            assert alignment.ends[-1] <= frames / 100 + 0.05
            assert alignment.ends[-1] >= 0.7 * frames / 100


def test_the_language_is_detected_or_the_model_is_english_only(
    engine: Engine, batch: Batch
) -> None:
    encoded = batch.encode(engine)
    if not engine.is_multilingual:
        with pytest.raises(EngineError, match="English-only"):
            engine.detect_language(encoded)
        return
    for row in engine.detect_language(encoded):
        assert max(row, key=lambda code: row[code]) == "en"
        assert sum(row.values()) == pytest.approx(1, abs=1e-3)


def test_the_rows_of_a_batch_may_differ_in_language(engine: Engine, batch: Batch) -> None:
    if not engine.is_multilingual:
        pytest.skip("an English-only model has one language")
    encoded = batch.encode(engine)
    starts = [batch.tokenizer.prompt(code, "transcribe") for code in ("en", "de", "en")]
    prompts = [[*start, batch.tokenizer.no_timestamps] for start in starts]
    mixed = engine.generate(encoded, prompts, GREEDY)
    english = engine.generate(encoded, batch.prompts, GREEDY)
    assert mixed[0].tokens == english[0].tokens
    assert mixed[2].tokens == english[2].tokens
    assert mixed[1].tokens != english[1].tokens
    tokens = [list(hypothesis.tokens) for hypothesis in mixed]
    alignments = engine.align(encoded, starts, tokens, batch.frames)
    assert [len(alignment.starts) for alignment in alignments] == [len(row) for row in tokens]


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_max_new_tokens_limits_the_tokens(engine: Engine, batch: Batch, limit: int) -> None:
    options = DecodeOptions(beam_size=1, max_new_tokens=limit)
    hypotheses = engine.generate(batch.encode(engine), batch.prompts, options)
    assert [len(hypothesis.tokens) for hypothesis in hypotheses] == [limit] * 3


def test_encoder_output_of_another_engine_and_closed_engines_are_refused(
    engine: Engine, batch: Batch
) -> None:
    class ForeignEncoded:
        rows = 3

    with pytest.raises(EngineError, match="another engine"):
        engine.generate(ForeignEncoded(), batch.prompts, GREEDY)
    closed = ENGINES["ctranslate2 tiny.en"]()
    closed_batch = Batch(closed)
    encoded = closed_batch.encode(closed)
    closed.close()
    for call in (
        lambda: closed_batch.encode(closed),
        lambda: closed.generate(encoded, closed_batch.prompts, GREEDY),
        lambda: closed.align(encoded, closed_batch.starts, [[1], [1], [1]], closed_batch.frames),
    ):
        with pytest.raises(ClosedError, match=r"tiny\.en is closed"):
            call()
