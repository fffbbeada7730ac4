import inspect
from dataclasses import fields
from typing import Annotated, Any, get_args, get_origin

import pytest
import typer

from whisperbatch import api
from whisperbatch.cli import flags
from whisperbatch.cli.app import DETECTION, LOADING, OPTIONS, SWITCHES
from whisperbatch.options import DecodeOptions, Options
from whisperbatch.writers import SubtitleOptions


def about(parameter: inspect.Parameter) -> Any:
    """What typer is told of a flag."""
    assert get_origin(parameter.annotation) is Annotated
    return get_args(parameter.annotation)[1]


def test_every_option_but_that_of_arrays_is_a_flag() -> None:
    assert {field.name for field in fields(Options)} - {"sampling_rate"} == OPTIONS
    assert [one.name for one in flags.of_options(OPTIONS)] == [
        field.name
        for group, _ in flags.PANELS
        for field in fields(group)
        if field.name != "sampling_rate"
    ]
    assert DETECTION < OPTIONS


@pytest.mark.parametrize(
    "flag",
    [
        *flags.of_options(),
        *flags.of_class(SubtitleOptions, "Subtitles"),
        *flags.of_function(api.load, LOADING, "Model"),
    ],
    ids=lambda flag: flag.name,
)
def test_a_flag_is_named_described_and_not_given_by_default(flag: inspect.Parameter) -> None:
    told = about(flag)
    assert flag.default is None
    spelled = str(told.default)  # typer keeps the first name there
    assert spelled.split("/", maxsplit=1)[0] == f"--{flag.name.replace('_', '-')}"
    assert told.help.lstrip('"1234567890 ')[0].isalpha()
    assert not told.help[0].islower()
    assert told.help.endswith(".")
    assert told.rich_help_panel


def test_the_help_says_the_default() -> None:
    [beam] = flags.of_options({"beam_size"})
    assert about(beam).help == "1 is greedy search. Default: 5."
    [language] = flags.of_options({"language"})
    assert "Default" not in about(language).help


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("suppress_tokens", "-1,50257", (-1, 50257)),
        ("suppress_tokens", "", ()),
        ("languages", "en, fr", ("en", "fr")),
        ("temperature", "0", 0.0),
        ("temperature", "0,0.2,0.4", (0.0, 0.2, 0.4)),
        ("clip_timestamps", "0,10.5,20,30", ((0.0, 10.5), (20.0, 30.0))),
        ("clip_timestamps", "5", ((5.0, None),)),
        ("max_new_tokens", "7", 7),
        ("compression_ratio_threshold", "2.1", 2.1),
        ("compression_ratio_threshold", "None", flags.NONE),
    ],
)
def test_text_becomes_a_value(name: str, text: str, expected: object) -> None:
    [flag] = flags.of_options({name})
    assert about(flag).parser(text) == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("suppress_tokens", "a,b"),
        ("temperature", "hot"),
        ("max_new_tokens", "1.5"),
        ("clip_timestamps", "1:30"),
    ],
)
def test_or_is_refused(name: str, text: str) -> None:
    [flag] = flags.of_options({name})
    with pytest.raises(typer.BadParameter, match="is not of the form"):
        about(flag).parser(text)


def test_none_stands_for_none_and_what_is_not_given_is_left_out() -> None:
    keywords = {"coverage_threshold": flags.NONE, "beam_size": 1, "prefix": None}
    keywords |= {"language": "None", "hotwords": "none"}  # words may be anything
    assert flags.given(keywords) == {
        "coverage_threshold": None,
        "beam_size": 1,
        "hotwords": "none",
    }


def test_those_of_a_dataclass_are_taken_out() -> None:
    keywords = {"max_line_width": 30, "beam_size": 1}
    assert flags.taken_out(keywords, SubtitleOptions) == SubtitleOptions(max_line_width=30)
    assert keywords == {"beam_size": 1}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("--beam_size 5 a_b.mp3", "--beam-size 5 a_b.mp3"),
        ("--beam_size=5", "--beam-size=5"),
        ("--initial_prompt=a_b=c", "--initial-prompt=a_b=c"),
        ("--word_timestamps True a.mp3", "--word-timestamps a.mp3"),
        ("--word_timestamps False a.mp3", "--no-word-timestamps a.mp3"),
        ("--word-timestamps=False", "--no-word-timestamps"),
        ("--word_timestamps false a.mp3", "--no-word-timestamps a.mp3"),
        ("--highlight_words True", "--highlight-words"),
        ("--verbose False a.mp3", "a.mp3"),
        ("--resume=False", "--no-resume"),
        ("--word_timestamps a.mp3 True", "--word-timestamps a.mp3 True"),
        ("--initial_prompt True", "--initial-prompt True"),
        ("--output_format srt --threads 4", "--format srt --intra-threads 4"),
        ("--logprob_threshold=-2", "--log-prob-threshold=-2"),
        ("a.mp3 -- --beam_size True", "a.mp3 -- --beam_size True"),
        ("-", "-"),
    ],
)
def test_spellings_of_other_programs_are_taken(given: str, expected: str) -> None:
    assert flags.spelled_out(given.split(), SWITCHES) == expected.split()


def test_docstrings_are_read_as_people_read_them() -> None:
    said = flags.documented(DecodeOptions)
    assert said["beam_size"] == "1 is greedy search."
    assert said.keys() == {field.name for field in fields(DecodeOptions)}
    assert flags.documented(object()) == {}
