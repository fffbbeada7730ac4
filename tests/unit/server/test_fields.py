"""Fields of a form: OpenAI's names, the options, and fields that are refused by name."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest

import whisperbatch as wb
from tests.unit.transcripts import segment, transcript
from whisperbatch.server.errors import ApiError
from whisperbatch.server.fields import TranscriptionRequest, about, parse_request
from whisperbatch.server.formats import body_of
from whisperbatch.server.speakers import NAMES, REFERENCES
from whisperbatch.writers import render

DEFAULTS = wb.Options(max_duration=100.0)


def parsed(
    form: Mapping[str, str | Sequence[str]],
    task: Literal["transcribe", "translate"] = "transcribe",
) -> TranscriptionRequest:
    lists = {name: [value] if isinstance(value, str) else value for name, value in form.items()}
    return parse_request({"model": ["base"], **lists}, task, DEFAULTS)


def refused(form: Mapping[str, str | Sequence[str]], task: Any = "transcribe") -> ApiError:
    with pytest.raises(ApiError) as caught:
        parsed(form, task)
    assert caught.value.status == 400
    return caught.value


def test_without_fields_the_servers_options_are_used() -> None:
    request = parsed({})
    assert request == TranscriptionRequest("base", DEFAULTS)


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ({"language": "de"}, {"language": "de"}),
        ({"language": ""}, {}),  # Kochava-Studios/witsy#340
        ({"language": "auto"}, {}),
        ({"language": "en-US"}, {"language": "en"}),
        ({"language": "en_US"}, {"language": "en"}),
        ({"language": "zh-CN"}, {"language": "zh"}),
        ({"language": "null"}, {}),
        ({"language": "fil"}, {"language": "tl"}),  # Home Assistant
        ({"languages": "auto"}, {}),
        ({"language": "pt-BR"}, {"language": "pt"}),  # THU-MAIC/OpenMAIC#1082
        ({"language": "Chinese (Cantonese, Traditional)"}, {"language": "yue"}),
        ({"languages": "en-US,pt_BR"}, {"languages": ("en", "pt")}),
        ({"languages[]": ["en", "de"]}, {"languages": ("en", "de")}),
        ({"languages": ["en", "de"]}, {"languages": ("en", "de")}),
        ({"languages": "en,de"}, {"languages": ("en", "de")}),
        ({"languages[]": "de"}, {"language": "de"}),
        ({"prompt": "Names: Ada."}, {"initial_prompt": "Names: Ada."}),
        ({"keywords[]": ["Ada", "Grace Hopper"]}, {"hotwords": "Ada, Grace Hopper"}),
        ({"temperature": "0.4"}, {"temperature": 0.4}),
        ({"temperature": "0,0.2"}, {"temperature": (0.0, 0.2)}),
        ({"temperature[]": ["0", "0.2"]}, {"temperature": (0.0, 0.2)}),
        ({"temperature": "[0, 0.2]"}, {"temperature": (0.0, 0.2)}),
        ({"temperature": ["0", "0.2"]}, {"temperature": (0.0, 0.2)}),
        ({"temperature[0]": "0", "temperature[1]": "0.2"}, {"temperature": (0.0, 0.2)}),
        ({"clip_timestamps[][]": ["0", "4"]}, {"clip_timestamps": ((0.0, 4.0),)}),
        (
            {
                "clip_timestamps[1][0]": "6",
                "clip_timestamps[0][0]": "0",
                "clip_timestamps[0][1]": "4",
            },
            {"clip_timestamps": ((0.0, 4.0), (6.0, None))},
        ),
        (
            {"clip_timestamps": "[[0, 4], [6, null]]"},
            {"clip_timestamps": ((0.0, 4.0), (6.0, None))},
        ),
        ({"suppress_tokens[]": ["-1", "50"]}, {"suppress_tokens": (-1, 50)}),
        ({"suppress_tokens": "[-1, 50]"}, {"suppress_tokens": (-1, 50)}),
        ({"languages": '["en", "de"]'}, {"languages": ("en", "de")}),
        ({"languages[1]": "de", "languages[0]": "en"}, {"languages": ("en", "de")}),
        ({"keywords": '["Ada", "Grace Hopper"]'}, {"hotwords": "Ada, Grace Hopper"}),
        ({"keywords": "[laughs]"}, {"hotwords": "[laughs]"}),
        ({"keywords[0]": "Ada", "keywords[1]": "Grace"}, {"hotwords": "Ada, Grace"}),
        ({"timestamp_granularities[]": ["word", "segment"]}, {}),  # with json: no effect
        ({"timestamp_granularities[]": "word", "response_format": "text"}, {}),
        ({"prompt": "x" * 30_001 + "y"}, {"initial_prompt": "x" * 29_999 + "y"}),
        ({"chunking_strategy": "auto"}, {}),
        (
            {
                "chunking_strategy[type]": "server_vad",
                "chunking_strategy[threshold]": "0.4",
                "chunking_strategy[prefix_padding_ms]": "300",
                "chunking_strategy[silence_duration_ms]": "500",
            },
            {
                "vad_onset": 0.4,
                "vad_offset": 0.25,
                "speech_pad": 0.3,
                "min_silence_duration": 0.5,
            },
        ),
        (
            {"chunking_strategy": '{"type": "server_vad", "silence_duration_ms": 500}'},
            {"min_silence_duration": 0.5},
        ),
        ({"beam_size": "1"}, {"beam_size": 1}),
        ({"vad": "false"}, {"vad": False}),
        ({"word_timestamps": "True"}, {"word_timestamps": True}),
        ({"suppress_tokens": "-1,50"}, {"suppress_tokens": (-1, 50)}),
        ({"log_prob_threshold": "none"}, {"log_prob_threshold": None}),
        ({"clip_timestamps": "1,2,5"}, {"clip_timestamps": ((1.0, 2.0), (5.0, None))}),
        ({"max_duration": "50"}, {"max_duration": 50.0}),
        ({"max_duration": "5000"}, {"max_duration": 100.0}),  # the server's limit
        ({"max_duration": "none"}, {"max_duration": 100.0}),
        ({"response_format": "srt"}, {"word_timestamps": True}),
        (
            {"response_format": "verbose_json", "timestamp_granularities[]": "word"},
            {"word_timestamps": True},
        ),
        ({"include[]": "logprobs"}, {"word_timestamps": True}),
    ],
    ids=str,
)
def test_fields_set_options(
    form: Mapping[str, str | Sequence[str]], options: Mapping[str, Any]
) -> None:
    assert parsed(form).options == wb.Options(**{"max_duration": 100.0, **options})


def test_fields_of_the_answer() -> None:
    assert parsed({"stream": "true", "response_format": "text"}).stream
    assert not parsed({"stream": "False"}).stream
    assert parsed({"include": "logprobs"}).logprobs
    words = {"response_format": "verbose_json", "timestamp_granularities[]": ["word"]}
    assert not parsed(words).segments
    for both in (
        {"timestamp_granularities": ["word", "segment"]},
        {"timestamp_granularities[]": ["word", "segment"]},
        {"timestamp_granularities[0]": "word", "timestamp_granularities[1]": "segment"},
        {"timestamp_granularities": "word,segment"},
        {"timestamp_granularities": '["word", "segment"]'},
        {"timestamp_granularities[]": '["word", "segment"]'},
    ):
        request = parsed({"response_format": "verbose_json", **both})
        assert request.segments
        assert request.options.word_timestamps
    for name, value in (("include[0]", "logprobs"), ("include", '["logprobs"]')):
        assert parsed({name: value}).logprobs


def test_fields_of_subtitles() -> None:
    form = {
        "response_format": "srt",
        "subtitle_rules": "bbc",
        "max_line_width": "auto",
        "max_line_count": "none",
        "max_reading_speed": "15.5",
        "highlight_words": "true",
    }
    assert parsed(form).layout == wb.SubtitleOptions(
        subtitle_rules="bbc", max_line_count=None, max_reading_speed=15.5, highlight_words=True
    )
    assert parsed({"response_format": "vtt"}).layout == wb.SubtitleOptions()


def test_subtitles_follow_the_fields() -> None:
    spoken = transcript(segment("Please hold the line while I transfer you to the house.", 0, 9))
    for form in ({}, {"max_line_width": "20"}, {"subtitle_rules": "plain"}):
        request = parsed({"response_format": "srt", **form})
        assert body_of(spoken, request) == render(spoken, "srt", request.layout)
    narrow = parsed({"response_format": "srt", "max_line_width": "20"})
    assert max(map(len, body_of(spoken, narrow).splitlines()[2:4])) <= 20


def test_known_speakers_as_a_list() -> None:
    voice = "data:audio/wav;base64,UklGRg=="
    for form in (
        {f"{NAMES}[0]": "Ann, B.", f"{REFERENCES}[0]": voice},
        {NAMES: '["Ann, B."]', REFERENCES: json.dumps([voice])},
        {f"{NAMES}[]": "Ann, B.", f"{REFERENCES}[]": voice},
    ):
        options = parsed({"response_format": "diarized_json", **form}).options
        assert list(options.known_speakers or ()) == ["Ann, B."]


def test_without_a_model_the_first_is_used() -> None:
    assert parse_request({}, "transcribe", DEFAULTS).model == ""
    assert parsed({"model": ""}).model == ""


def test_translations() -> None:
    assert parsed({"prompt": "Ada"}, "translate").options.task == "translate"
    for name, value in (("language", "de"), ("stream", "true"), ("include[]", "logprobs")):
        error = refused({name: value}, "translate")
        assert error.param == name.removesuffix("[]")


@pytest.mark.parametrize(
    ("form", "param", "words"),
    [
        ({"response_format": "docx"}, "response_format", "must be one of json, text"),
        ({"stream": "maybe"}, "stream", "must be one of true, false"),
        ({"stream": "true", "response_format": "srt"}, "stream", "has no effect"),
        ({"timestamp_granularities[]": "words"}, "timestamp_granularities", "word, segment"),
        ({"keywords[x]": "a"}, "keywords", "keywords[x] is not a field"),
        ({"temperature": "[[0]]"}, "temperature", "a list of texts or numbers"),
        ({"temperature": '[{"a": 1}]'}, "temperature", "a list of texts or numbers"),
        (
            {"clip_timestamps": "[[0, null], [5, 6]]"},
            "clip_timestamps",
            "only the last value may be null",
        ),
        ({"clip_timestamps": "[" * 100_000}, "clip_timestamps", "of the form X,X"),
        ({"suppress_tokens": "[" + "1" * 5000 + "]"}, "suppress_tokens", "of the form N,N"),
        (
            {"timestamp_granularities[]": "line", "response_format": "verbose_json"},
            "timestamp_granularities",
            "word, segment",
        ),
        ({"include[]": "logprobs", "response_format": "text"}, "include", "needs"),
        ({"include[]": "images"}, "include", "logprobs"),
        ({"language": ["en", "de"]}, "language", "more than once"),
        ({"language": "xx"}, "language", "is not a language"),
        ({"language": "jp"}, "language", "did you mean 'ja'"),
        ({"language": "mul"}, "language", "multilingual=true"),
        ({"language": "xyz"}, "language", "give a code such as 'en', or 'auto'"),
        ({"language": "en-US,de-DE"}, "language", "give languages=de,en"),
        ({"temperature": "0.4,0.2"}, "temperature", "temperature=0.4,0.2: the values must be in"),
        ({"prompt": "a " * 300, "prefix": "b " * 300, "beam_size": "0"}, "beam_size", "beam_size"),
        ({"temperature": "hot"}, "temperature", "'hot'"),
        ({"temperature": "3"}, "temperature", "out of range"),
        ({"beam_size": "two"}, "beam_size", "of the form N"),
        ({"vad": "off"}, "vad", "true or false"),
        ({"beem_size": "2"}, "beem_size", "did you mean beam_size"),
        ({"response_formt": "json"}, "response_formt", "did you mean response_format"),
        ({"timestamp_granularity[]": "word"}, "timestamp_granularity", "timestamp_granularities"),
        ({"modell": "base"}, "modell", "did you mean model"),
        ({"task": "translate"}, "task", "is not a field"),
        ({"sampling_rate": "8000"}, "sampling_rate", "is not a field"),
        ({"chunking_strategy": "manual"}, "chunking_strategy", "must be"),
        ({"chunking_strategy": "[1]"}, "chunking_strategy", "must be"),
        ({"chunking_strategy[threshold]": "0.5"}, "chunking_strategy", "the type"),
        (
            {"chunking_strategy[type]": "server_vad", "chunking_strategy[x]": "1"},
            "chunking_strategy",
            "no setting x",
        ),
        (
            {"chunking_strategy[type]": "server_vad", "chunking_strategy[threshold]": "high"},
            "chunking_strategy",
            "must be a number",
        ),
        ({"other[key]": "1"}, "other", "is not a field"),
        ({"subtitle_rules": "bbc"}, "subtitle_rules", "has no effect on json; ask for srt or vtt"),
        (
            {"subtitle_rules": "ofcom", "response_format": "srt"},
            "subtitle_rules",
            "is none of netflix, bbc",
        ),
        ({"max_line_width": "wide", "response_format": "vtt"}, "max_line_width", "of the form N"),
        ({"speaker_style": "dash", "response_format": "vtt"}, "speaker_style", "no effect on vtt"),
        (
            {"highlight_words": "true", "response_format": "vtt", "word_timestamps": "false"},
            "highlight_words",
            "no effect without word_timestamps",
        ),
    ],
    ids=str,
)
def test_wrong_fields_are_refused_by_name(
    form: Mapping[str, str | Sequence[str]], param: str, words: str
) -> None:
    error = refused(form)
    assert error.param == param
    assert words in error.message


def test_an_error_names_the_field_that_set_the_option() -> None:
    error = wb.OptionError("`hotwords` and `initial_prompt` have more than 219 tokens")
    answer = about(error, {"keywords[]": ["Ada"], "prompt": ["x"]})
    assert (answer.param, answer.message) == (
        "keywords",
        "keywords and prompt have more than 219 tokens",
    )
    assert about(error, {"keywords[0]": ["Ada"]}).param == "keywords"
    assert about(error, {"hotwords": ["Ada"]}).param == "hotwords"
    assert about(wb.OptionError("this is too much"), {}).param is None
