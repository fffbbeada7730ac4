"""Rows in engine calls: the options of the engine, the prompt of a row, and retries."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.fakes import FakeEngine
from tests.unit.synthetic_speech import chunk, rows, shared_model
from whisperbatch import OptionError, Options
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


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"task": "translate"}, "task='translate'"),
        ({"multilingual": True, "code_switching_output": "english"}, "code_switching_output="),
    ],
)
def test_translation_by_a_model_that_only_transcribes_is_refused(given: Any, name: str) -> None:
    with pytest.raises(OptionError, match=f"{name}.*model fake was trained for transcription only"):
        options_for(FakeEngine(can_translate=False), Options(**given))
    allowed = Options(batch_size=4, readers=1, **given)
    assert options_for(FakeEngine(), allowed) == allowed


def test_an_english_only_model_gets_english() -> None:
    engine = FakeEngine(multilingual=False)
    options = options_for(engine, Options(language_detection_segments=3, readers=1))
    assert options == Options(language="en", batch_size=8, readers=1)
    for given in ({"language": "fr"}, {"task": "translate"}, {"languages": ("en", "fr")}):
        with pytest.raises(OptionError, match="model fake is English-only"):
            options_for(engine, Options(**given))


@pytest.mark.parametrize("multilingual", [False, True])
def test_tokens_that_every_text_needs_cannot_be_suppressed(multilingual: bool) -> None:
    engine = FakeEngine(multilingual=multilingual)
    vocabulary = WhisperTokenizer(engine.tokenizer, multilingual=multilingual)
    end, last = vocabulary.end_of_text, vocabulary.size - 1
    for tokens in (tuple(range(last + 1)), (-1, end)):
        with pytest.raises(OptionError, match=f"suppress_tokens contains {end}, the end of the"):
            options_for(engine, Options(suppress_tokens=tokens))
    with pytest.raises(OptionError, match=f"suppress_tokens contains {end - 9} of the {end}"):
        options_for(engine, Options(suppress_tokens=tuple(range(end - 9))))
    with pytest.raises(OptionError, match=f"suppress_tokens: model fake has no token {last + 1}"):
        options_for(engine, Options(suppress_tokens=(last + 1,)))
    allowed = Options(
        language="en", batch_size=4, readers=1, suppress_tokens=tuple(range(end - 10))
    )
    assert options_for(engine, allowed) == allowed


class SizingEngine(FakeEngine):
    """An engine that chooses the batch size with a function of the number of hypotheses."""

    def __init__(self, choose: Callable[[int], int], **keywords: Any) -> None:
        super().__init__(**keywords)
        self.default_batch_size = choose


@pytest.mark.parametrize(
    ("given", "hypotheses"),
    [
        ({}, 5),
        ({"beam_size": 1}, 1),
        ({"beam_size": 2, "temperature": (0.0, 0.4), "best_of": 7}, 2),
        ({"beam_size": 2, "temperature": (0.4, 0.8), "best_of": 7}, 7),
    ],
)
@pytest.mark.parametrize("multilingual", [False, True])
def test_the_engine_chooses_the_batch_size_for_the_hypotheses_of_the_first_decoding(
    given: Any, hypotheses: int, multilingual: bool
) -> None:
    engine = SizingEngine(lambda count: 100 + count, multilingual=multilingual)
    options = options_for(engine, Options(language="en", **given))
    assert options.batch_size == options.chosen_batch_size == 100 + hypotheses
    assert options_for(engine, options) == options


def test_a_batch_size_that_is_given_never_changes() -> None:
    engine = SizingEngine(lambda _: pytest.fail("the batch size is given"))
    assert options_for(engine, Options(batch_size=3)).chosen_batch_size == 3


def test_an_engine_that_chooses_no_batch_size_gets_eight() -> None:
    assert Options().batch_size is None
    assert options_for(FakeEngine(), Options()).chosen_batch_size == 8


def test_an_engine_cannot_choose_a_batch_size_out_of_range() -> None:
    with pytest.raises(OptionError, match="batch_size=0 is out of range"):
        options_for(SizingEngine(lambda _: 0), Options())


def test_stages_need_a_batch_size() -> None:
    with pytest.raises(ValueError, match="`options_for` chooses it"):
        _ = Options().chosen_batch_size
