"""The contract of engines, on real weights and speech."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks import recordings
from tests.contract.engines import ENGINES, MARKS, TORCH
from whisperbatch import ClosedError, EngineError
from whisperbatch.decoding.prompts import WhisperTokenizer
from whisperbatch.features import feature_extractor
from whisperbatch.options import SearchOptions
from whisperbatch.protocols import (
    AlignRequest,
    Decoded,
    DecodeRequest,
    Encoded,
    Engine,
    EngineTraits,
    Sampling,
)
from whisperbatch.recording import RecordingState, Row
from whisperbatch.types import Chunk, SpeechSpan

GREEDY = SearchOptions(beam_size=1)
WINDOW = 600  # feature frames: the rows have fewer


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
    """Three utterances of different length, with their features and prompts for an engine.

    Attributes:
        encoded: the encoder output, which no call changes.
        decoded: what a greedy search finds in `encoded`.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
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
        self.features: npt.NDArray[Any] = np.stack(
            [np.asarray(row.prepare(np.float32, WINDOW).features) for row in self.rows]
        )
        self.frames = [row.features.shape[1] for row in self.rows]
        self.requests = [self.request(frames) for frames in self.frames]

    def request(
        self,
        frames: int,
        *,
        language: str = "en",
        prefix: tuple[int, ...] = (),
        sampling: Sampling | None = None,
    ) -> DecodeRequest:
        start = tuple(self.tokenizer.prompt(language, "transcribe"))
        prompt = (*start, self.tokenizer.no_timestamps, *prefix)
        return DecodeRequest(prompt, start, prefix, frames, sampling)

    @cached_property
    def encoded(self) -> Encoded:
        return self.encode()

    @cached_property
    def decoded(self) -> list[Decoded]:
        return self.decode(GREEDY)

    def encode(self, rows: Sequence[int] = (0, 1, 2)) -> Encoded:
        return self._engine.encode(self.features[list(rows)])

    def decode(self, options: SearchOptions) -> list[Decoded]:
        return self._engine.decode(self.encoded, self.requests, options)


def tokens_of(decoded: Sequence[Decoded]) -> list[tuple[int, ...]]:
    return [row.hypothesis.tokens for row in decoded]


def as_values(decoded: Sequence[Decoded]) -> list[str]:
    """Every digit of the results, for comparisons."""
    return [repr((row.hypothesis, [column.tolist() for column in columns(row)])) for row in decoded]


def columns(row: Decoded) -> list[npt.NDArray[np.float64]]:
    return [row.alignment.starts, row.alignment.ends, row.alignment.probabilities]


@pytest.fixture(scope="module")
def batch(engine: Engine) -> Batch:
    return Batch(engine)


def test_an_engine_has_the_attributes_of_the_protocol(engine: Engine) -> None:
    assert isinstance(engine, Engine)
    assert engine.workers >= 1
    assert engine.n_mels in (80, 128)


def test_an_engine_says_what_it_is(engine: Engine) -> None:
    assert EngineTraits.of(engine).device in ("cpu", "cuda")
    if type(engine).__module__.startswith("whisperbatch."):  # not the engine of these tests
        line = repr(engine)
        assert line.startswith(f"{type(engine).__name__}({engine.name!r}, ")
        assert len(line) <= 120
        assert EngineTraits.of(engine).device in line


@pytest.mark.parametrize("options", [GREEDY, replace(GREEDY, beam_size=3)])
def test_a_batch_that_pauses_for_another_has_the_same_results(
    engine: Engine, batch: Batch, options: SearchOptions
) -> None:
    if (decode := EngineTraits.of(engine).decode_with_pauses) is None:
        pytest.skip("the engine has no pauses")
    expected, other = batch.decode(options), batch.encode([1])
    alone = engine.decode(other, batch.requests[1:2], GREEDY)
    between: list[list[Decoded]] = []

    def pause() -> None:
        if len(between) < 3:
            between.append(engine.decode(other, batch.requests[1:2], GREEDY))

    decoded = decode(batch.encoded, batch.requests, options, pause)
    assert as_values(decoded) == as_values(expected)
    assert [as_values(each) for each in between] == [as_values(alone)] * 3


def test_an_error_in_a_pause_ends_the_call_alone(engine: Engine, batch: Batch) -> None:
    if (decode := EngineTraits.of(engine).decode_with_pauses) is None:
        pytest.skip("the engine has no pauses")

    def pause() -> None:
        raise ClosedError("nobody needs the result")

    for _ in range(engine.workers + 1):  # no worker is lost
        with pytest.raises(ClosedError, match="nobody needs the result"):
            decode(batch.encoded, batch.requests, GREEDY, pause)
    assert as_values(batch.decode(GREEDY)) == as_values(batch.decoded)


def test_each_row_has_a_hypothesis_in_order(engine: Engine, batch: Batch) -> None:
    texts = [batch.tokenizer.text(tokens) for tokens in tokens_of(batch.decoded)]
    assert len(set(texts)) == 3
    for number, row in enumerate(batch.decoded):
        request = batch.requests[number]
        [alone] = engine.decode(batch.encode([number]), [request], GREEDY)
        assert batch.tokenizer.text(alone.hypothesis.tokens) == texts[number]
        assert -1 < row.hypothesis.avg_logprob < 0
        assert 0 <= row.hypothesis.no_speech_prob < 0.5
        assert all(token < batch.tokenizer.end_of_text for token in row.hypothesis.tokens)


def test_rows_can_be_split_and_joined_to_another_batch(engine: Engine, batch: Batch) -> None:
    rows = engine.split(batch.encoded)
    assert [row.rows for row in rows] == [1, 1, 1]
    joined = engine.join([rows[2], rows[0]])
    assert joined.rows == 2
    requests = [batch.requests[2], batch.requests[0]]
    expected = as_values([batch.decoded[2], batch.decoded[0]])
    assert as_values(engine.decode(joined, requests, GREEDY)) == expected


def test_a_prefix_is_aligned_but_not_part_of_the_hypothesis(engine: Engine, batch: Batch) -> None:
    requests = [
        batch.request(frames, prefix=row.hypothesis.tokens[:2])
        for row, frames in zip(batch.decoded, batch.frames, strict=True)
    ]
    found = engine.decode(batch.encoded, requests, GREEDY)
    for row, rest in zip(batch.decoded, found, strict=True):
        assert rest.hypothesis.tokens == row.hypothesis.tokens[2:]
        for column, expected in zip(columns(rest)[:2], columns(row)[:2], strict=True):
            np.testing.assert_allclose(column, expected, atol=0.05)


def test_requests_and_features_are_not_modified(engine: Engine, batch: Batch) -> None:
    requests = list(batch.requests)
    features = batch.features.copy()
    engine.decode(batch.encode(), batch.requests, GREEDY)
    assert batch.requests == requests
    assert np.array_equal(batch.features, features)


def test_concurrent_calls_give_the_result_of_a_single_call(engine: Engine, batch: Batch) -> None:
    def run(_: int) -> list[str]:
        return as_values(engine.decode(batch.encode(), batch.requests, GREEDY))

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(run, range(4)))
    assert results == [as_values(batch.decoded)] * 4


def test_calls_with_one_encoder_output_do_not_depend_on_each_other(batch: Batch) -> None:
    """Neither the order of the calls nor other threads with the same encoder output matter."""
    searches = [SearchOptions(beam_size=beams, max_new_tokens=n) for beams, n in ((1, 8), (3, 8))]
    searches.append(SearchOptions(beam_size=1, max_new_tokens=2))

    def run(options: SearchOptions) -> list[str]:
        return as_values(batch.decode(options))

    expected = [run(options) for options in searches]
    assert [run(options) for options in reversed(searches)] == expected[::-1]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(run, searches)) == expected


def check_times(row: Sequence[npt.NDArray[np.float64]], count: int, frames: int) -> None:
    starts, ends, probabilities = row
    assert len(starts) == len(ends) == len(probabilities) == count
    assert (np.diff(starts) >= 0).all()
    assert (starts <= ends).all()
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
    if count:
        assert starts[0] >= 0
        assert ends[-1] <= frames / 100 + 0.05
        assert ends[-1] >= 0.7 * frames / 100


def test_decoded_tokens_have_times_in_order_within_their_row(batch: Batch) -> None:
    for row, frames in zip(batch.decoded, batch.frames, strict=True):
        check_times(columns(row), len(row.hypothesis.tokens), frames)


def test_a_given_text_has_the_times_of_the_decoded_text(engine: Engine, batch: Batch) -> None:
    tokens = tokens_of(batch.decoded)
    tokens[1] = ()
    texts = [
        AlignRequest(request.start, text, request.frames)
        for request, text in zip(batch.requests, tokens, strict=True)
    ]
    alignments = engine.align(batch.encoded, texts)
    for row, text, alignment in zip(batch.decoded, texts, alignments, strict=True):
        given = [alignment.starts, alignment.ends, alignment.probabilities]
        check_times(given, len(text.tokens), text.frames)
        if text.tokens:
            for column, expected in zip(given[:2], columns(row)[:2], strict=True):
                np.testing.assert_allclose(column, expected, atol=0.05)


@pytest.mark.parametrize(
    "options",
    [
        SearchOptions(beam_size=7),
        SearchOptions(beam_size=1, repetition_penalty=1.3),
        SearchOptions(beam_size=2, no_repeat_ngram_size=2, patience=2.0, length_penalty=0.5),
    ],
)
def test_every_search_gives_a_text_with_times(
    engine: Engine, batch: Batch, options: SearchOptions
) -> None:
    engine.check(options)
    for row, frames in zip(batch.decode(options), batch.frames, strict=True):
        check_times(columns(row), len(row.hypothesis.tokens), frames)


def test_sampled_rows_and_timestamp_tokens_have_times(engine: Engine, batch: Batch) -> None:
    sampling = Sampling(temperature=0.4, best_of=2, seed=1)
    sampled = [batch.request(frames, sampling=sampling) for frames in batch.frames]
    first, again = (engine.decode(batch.encoded, sampled, GREEDY) for _ in range(2))
    assert as_values(first) == as_values(again)
    for row in first:
        assert len(row.alignment.starts) == len(row.hypothesis.tokens) > 0
    timed = [
        DecodeRequest(request.start, request.start, (), request.frames)
        for request in batch.requests
    ]
    for row in engine.decode(batch.encoded, timed, GREEDY):
        text_tokens = batch.tokenizer.text_tokens(row.hypothesis.tokens)
        assert len(row.alignment.starts) == len(text_tokens) < len(row.hypothesis.tokens)


def test_the_language_is_detected_or_the_model_is_english_only(
    engine: Engine, batch: Batch
) -> None:
    if not engine.is_multilingual:
        with pytest.raises(EngineError, match="English-only"):
            engine.detect_language(batch.encoded)
        return
    for row in engine.detect_language(batch.encoded):
        assert max(row, key=lambda code: row[code]) == "en"
        assert sum(row.values()) == pytest.approx(1, abs=1e-3)


def test_the_rows_of_a_batch_may_differ_in_language(engine: Engine, batch: Batch) -> None:
    if not engine.is_multilingual:
        pytest.skip("an English-only model has one language")
    requests = [
        batch.request(frames, language=code)
        for frames, code in zip(batch.frames, ("en", "de", "en"), strict=True)
    ]
    mixed = engine.decode(batch.encoded, requests, GREEDY)
    english = batch.decoded
    assert as_values([mixed[0], mixed[2]]) == as_values([english[0], english[2]])
    assert mixed[1].hypothesis.tokens != english[1].hypothesis.tokens
    texts = [
        AlignRequest(request.start, tokens, request.frames)
        for request, tokens in zip(requests, tokens_of(mixed), strict=True)
    ]
    alignments = engine.align(batch.encoded, texts)
    assert [len(row.starts) for row in alignments] == [len(text.tokens) for text in texts]


@pytest.mark.parametrize("limit", [1, pytest.param(2, marks=pytest.mark.slow), 5])
def test_max_new_tokens_limits_the_tokens(batch: Batch, limit: int) -> None:
    options = SearchOptions(beam_size=1, max_new_tokens=limit)
    assert [len(tokens) for tokens in tokens_of(batch.decode(options))] == [limit] * 3


def test_encoder_output_of_another_engine_is_refused(engine: Engine, batch: Batch) -> None:
    class ForeignEncoded:
        rows = 3

    with pytest.raises(EngineError, match="another engine"):
        engine.decode(ForeignEncoded(), batch.requests, GREEDY)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.torch] if name in TORCH else [])
        for name in (
            *("ctranslate2 tiny.en", "openvino tiny.en", "onnxruntime tiny.en"),
            "torch tiny.en",
        )
    ],
)
def test_a_closed_engine_refuses_every_call(name: str) -> None:
    closed = ENGINES[name]()
    batch = Batch(closed)
    encoded = batch.encoded
    closed.close()
    text = AlignRequest(batch.requests[0].start, (1,), 100)
    for call in (
        batch.encode,
        lambda: closed.decode(encoded, batch.requests, GREEDY),
        lambda: closed.decode(encoded, batch.requests, SearchOptions(repetition_penalty=1.1)),
        lambda: closed.align(encoded, [text] * 3),
    ):
        with pytest.raises(ClosedError, match=r"tiny\.en is closed"):
            call()
