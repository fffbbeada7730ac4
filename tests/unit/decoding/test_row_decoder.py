"""Rows in the engine calls of retries, and the prompt of a row."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.unit.fakes import FakeEngine
from tests.unit.synthetic_speech import chunk, rows, shared_model
from whisperbatch import Options
from whisperbatch.decoding.engine_options import options_for
from whisperbatch.decoding.prompts import Context, WhisperTokenizer
from whisperbatch.decoding.row_decoder import RowDecoder, RowRequest
from whisperbatch.options import SearchOptions
from whisperbatch.protocols import Decoded, DecodeRequest, Encoded


def row_decoder(engine: FakeEngine, options: Options) -> RowDecoder:
    options = options_for(engine, options)
    model = shared_model(engine, options)
    return RowDecoder(model, options, WhisperTokenizer(engine.tokenizer, multilingual=True))


@pytest.mark.parametrize(
    ("options", "temperature", "beam_size", "expected"),
    [
        (Options(beam_size=1, best_of=4, temperature=(0.0, 0.4)), 0.4, 1, [2, 2, 2, 2, 2, 2]),
        (Options(beam_size=5, best_of=5, temperature=(0.0, 0.4)), 0.4, 5, [8, 4]),
        (Options(beam_size=5, best_of=20, temperature=(0.0, 0.4)), 0.4, 5, [2, 2, 2, 2, 2, 2]),
        (Options(beam_size=1, best_of=4, temperature=(0.4, 0.8)), 0.8, 1, [8, 4]),
        (Options(beam_size=1, best_of=4, temperature=0.4), 0.0, 1, [8, 4]),
        (Options(beam_size=1), 0.0, 5, [1] * 12),
    ],
)
def test_a_call_has_no_more_hypotheses_and_rows_than_the_first_decoding(
    options: Options, temperature: float, beam_size: int, expected: list[int]
) -> None:
    engine = FakeEngine()
    search = replace(options.search, beam_size=beam_size)
    requests = [
        RowRequest(row, "en", search=search, temperature=temperature)
        for row in rows(*[chunk([(0.0, 3.0)])] * 12)
    ]
    decoder = row_decoder(engine, replace(options, batch_size=8))
    assert len(decoder(requests)) == 12
    assert engine.batch_sizes["decode"] == expected


def test_a_prefix_in_a_text_with_timestamps_follows_the_first_timestamp() -> None:
    engine = FakeEngine()
    decoder = row_decoder(engine, Options(timestamps="tokens"))
    tokenizer = WhisperTokenizer(engine.tokenizer, multilingual=True)
    prefix = tuple(tokenizer.encode("Good morning"))
    [row] = rows(chunk([(0.0, 3.0)]))
    [decoded] = decoder([RowRequest(row, "en", context=Context(prefix=prefix))])
    first_timestamp = tokenizer.no_timestamps + 1
    assert engine.calls[0].prompt[-len(prefix) - 1 :] == (first_timestamp, *prefix)
    assert decoded.hypothesis.tokens[: len(prefix) + 1] == (first_timestamp, *prefix)
    assert decoded.text.startswith(" Good morning")


@pytest.mark.parametrize(
    ("threshold", "stop_loops"), [(2.4, True), (1.0, True), (2.5, False), (None, False)]
)
def test_loops_may_be_cut_off_if_they_fail_the_audit(
    threshold: float | None, stop_loops: bool
) -> None:
    requests: list[DecodeRequest] = []

    class Recorder(FakeEngine):
        def decode(
            self, encoded: Encoded, requests_: Sequence[DecodeRequest], options: SearchOptions
        ) -> list[Decoded]:
            requests.extend(requests_)
            return super().decode(encoded, requests_, options)

    options = Options(compression_ratio_threshold=threshold)
    [row] = rows(chunk([(2.0, 5.0)]))
    row_decoder(Recorder(), options)([RowRequest(row, "en")])
    assert [request.stop_loops for request in requests] == [stop_loops]
