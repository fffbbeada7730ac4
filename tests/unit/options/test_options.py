"""The options: their checks, hints for unknown names, and known speakers."""

import inspect
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, fields, replace
from typing import Any, get_type_hints

import pytest

import whisperbatch as wb
from whisperbatch import OptionError, Options
from whisperbatch.engines.settings import LoadKeywords
from whisperbatch.jobs import names
from whisperbatch.jobs.names import digest
from whisperbatch.options import (
    DetectionKeywords,
    OptionKeywords,
    SearchOptions,
    documented_sections,
    for_detection,
    resolve,
)
from whisperbatch.text.messages import shown

CALLS = [
    wb.transcribe,
    wb.stream,
    wb.transcribe_many,
    wb.Transcriber.transcribe,
    wb.Transcriber.stream,
    wb.Transcriber.transcribe_many,
]

WRONG_VALUES: dict[str, tuple[Any, ...]] = {
    "track": (-1, "0", 1.0, True, 1000),
    "channel": ("middle", None, 0),
    "sampling_rate": (0, 999, 768_001, -8000, "8000", 16000.0, True),
    "max_duration": (0, -1.0, "60", True, float("nan"), float("inf")),
    "clip_timestamps": (
        "a",
        "1:30",
        (0, (1, 2)),
        (1, 0),
        ((1, 0),),
        ((0, 2), (1, 3)),
        ((0, None), (5, 6)),
        ((-1, 2),),
        (("a", 2),),
        ((0, float("nan")),),
        ((0, 1, 2),),
        ((0, 0.009),),
        ((0, 1), (2, 2.00005)),
    ),
    "vad": (1, "yes", None),
    "vad_onset": (-0.1, 1.1, "0.5", None, float("nan"), True),
    "vad_offset": (-0.1, 1.1, 0.6, float("inf")),
    "min_speech_duration": (-1, "1", 31),
    "min_silence_duration": (-1, float("inf"), 31),
    "speech_pad": (-0.1, 6),
    "max_speech_duration": (0.5, 31, 1.1),
    "second_opinion": (1, "yes", None),
    "second_opinion_threshold": (0.1, -11, "-0.4"),
    "chunk_length": (0, 31, "30"),
    "max_silence": (-1, "1", 31),
    "features": ("fbank", None),
    "language": ("xx", "", 3, ("en",)),
    "languages": ("en", ("xx",), ("en", "English"), None),
    "language_detection_segments": (0, 1.5, 1001, True),
    "language_detection_length": (1.9, 31, "10"),
    "language_detection_threshold": (-0.1, 1.1, "0.5"),
    "multilingual": (1, "yes", None),
    "code_switching_output": ("hybrid text", None, "english"),
    "latin_names": (1, None, True),
    "task": ("summarize", None),
    "batch_size": (0, 1.5, True, "8", 1025, 10**30),
    "readers": (0, -1, 2.0, True, "4", 65),
    "reader_processes": (1, None, "yes"),
    "beam_size": (0, -1, 2.0, 33),
    "patience": (0, -1, 11),
    "length_penalty": (float("nan"), "1"),
    "repetition_penalty": (0, -1, 0.01, 0.79, 11),
    "no_repeat_ngram_size": (-1, 1.5),
    "suppress_blank": (1, None),
    "suppress_tokens": (-1, "a", "-2", ("a",), (-2,), (True,), None),
    "max_initial_timestamp": (-1, 31, "1", 0.5),
    "max_new_tokens": (0, 225, 1.0),
    "temperature": (
        -0.1,
        2.1,
        tuple(n / 10 for n in range(21)),
        "0",
        None,
        (),
        (0.0, 0.0),
        (0.4, 0.2),
        (0.0, "1"),
        True,
    ),
    "best_of": (0, 1.5, 3),
    "seed": (-1, 2**32, "0", 7),
    "compression_ratio_threshold": (-1, "2.4", 1001),
    "log_prob_threshold": (0.5, "-1", True, -1001),
    "no_speech_threshold": (-0.1, 1.1, "0.6"),
    "coverage_threshold": (-1, "1", 31),
    "hallucination_filter": (1, None),
    "initial_prompt": ("", "  ", (), (-1,), (1.5,), 3),
    "hotwords": ("", " ", 3, ("a",), "x" * 30_001),
    "prefix": ("", " ", 3),
    "condition_on_previous_text": (1, None, "yes"),
    "timestamps": ("words", None),
    "segments": ("sentences", None, True),
    "word_timestamps": ("yes", 1),
    "diarize": ("yes", 1, None),
    "num_speakers": (0, 101, "2", 2.0, True),
    "min_speakers": (0, 101, "2", 2.0, True),
    "max_speakers": (0, 101, "2", 2.0, True),
    "speaker": ("voices", None, 1, "channel"),
    "known_speakers": ("ann.wav", 3, ["Ann"], {"": "a.wav"}, {"Ann": 3}, {"Ann": "ann.wav"}),
    "diarizer": ("", "other", None, 1, Options, "./folder", "x" * 5000, len),
}


def test_every_option_has_wrong_values() -> None:
    assert set(WRONG_VALUES) == {field.name for field in fields(Options)}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param(name, value, id=f"{name}={shown(value)}")
        for name, values in WRONG_VALUES.items()
        for value in values
    ],
)
def test_wrong_values_are_refused_with_the_name_of_the_option(name: str, value: object) -> None:
    with pytest.raises(OptionError, match=name) as caught:
        resolve(None, **{name: value})  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_each_option_is_described_in_one_section() -> None:
    names = [name for texts in documented_sections().values() for name in texts]
    assert sorted(names) == sorted(field.name for field in fields(Options))


def test_keys_of_finished_outputs_do_not_change() -> None:
    """A renamed option, another order or another type would make every output again."""
    assert digest(Options()) == "63813dd1bb3300bb4ce7382604f107c5"
    options = Options(
        language="German",
        beam_size=2,
        max_silence=1.5,
        clip_timestamps=((0, 1.5), (3, None)),
        temperature=(0.0, 0.4),
        timestamps="tokens",
        diarize=True,
        speaker="channel",
        vad_onset=0.6,
        initial_prompt="Ann",
    )
    assert digest("model", options, ["x"]) == "12a43ffd3b3446f5924b677de6973d3b"
    assert digest(
        "model", replace(options, batch_size=3, readers=2, reader_processes=True), ["x"]
    ) == digest("model", options, ["x"])


def test_a_new_option_changes_no_key_until_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """`min_speech_duration` plays the part of an option that an older version lacks."""
    older = [field for field in fields(Options) if field.name != "min_speech_duration"]
    with monkeypatch.context() as patch:
        patch.setattr(names, "fields", lambda _: older)
        before = digest(Options())
    assert digest(Options()) != before
    monkeypatch.setattr(names, "NEW_OPTIONS", {"min_speech_duration"})
    assert digest(Options()) == before
    assert digest(Options(min_speech_duration=0.3)) != before


def test_the_search_has_the_options_that_engines_read() -> None:
    options = Options(beam_size=2, suppress_tokens=(5,), temperature=0.5)
    assert options.search == SearchOptions(beam_size=2, suppress_tokens=(5,))
    assert asdict(SearchOptions()).items() <= asdict(Options()).items()
    hints = get_type_hints(Options)
    assert get_type_hints(SearchOptions).items() <= hints.items()


def test_options_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Options().beam_size = 1  # type: ignore[misc]


def test_keywords_have_the_names_and_types_of_the_options() -> None:
    hints = get_type_hints(Options)
    assert get_type_hints(OptionKeywords) == {
        field.name: hints[field.name] for field in fields(Options)
    }


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__qualname__)
def test_signatures_contain_every_option_with_its_default(call: Callable[..., object]) -> None:
    parameters = inspect.signature(call).parameters
    for field in fields(Options):
        assert parameters[field.name].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters[field.name].default == field.default
        assert parameters[field.name].annotation == field.type


@pytest.mark.parametrize("call", CALLS[:3], ids=lambda call: call.__qualname__)
def test_one_call_functions_have_the_parameters_of_load(call: Callable[..., object]) -> None:
    parameters = inspect.signature(call).parameters
    loading = dict(inspect.signature(wb.load).parameters)
    assert loading.pop("progress").annotation == parameters["progress"].annotation
    assert loading.pop("model").default == parameters["model"].default
    assert set(loading) == set(LoadKeywords.__annotations__)
    for name, parameter in loading.items():
        assert parameters[name].default == parameter.default
        assert parameters[name].annotation == parameter.annotation


def test_keywords_replace_fields_of_options() -> None:
    options = Options(beam_size=2, language="fr")
    assert resolve(options, beam_size=3) == replace(options, beam_size=3)
    assert options.beam_size == 2


def test_options_must_be_options() -> None:
    with pytest.raises(OptionError, match="options must be an Options"):
        resolve({"beam_size": 3})  # type: ignore[arg-type]


@pytest.mark.parametrize("language", ["de", "DE", " german ", "German"])
def test_language_by_code_or_name(language: str) -> None:
    assert Options(language=language).language == "de"


def make_options(**keywords: Any) -> Options:
    """Options from keywords that mypy does not check."""
    return Options(**keywords)


def test_chunk_length_does_not_change_other_options() -> None:
    assert replace(Options(chunk_length=10), chunk_length=30) == Options()


@pytest.mark.parametrize("name", ["chunk_length", "max_speech_duration"])
def test_margins_must_leave_room_for_speech(name: str) -> None:
    assert getattr(make_options(**{name: 2.0}, speech_pad=0.5), name) == 2.0
    with pytest.raises(OptionError, match=f"{name}=1.9 leaves less than 1 s"):
        make_options(**{name: 1.9}, speech_pad=0.5)


def test_temperature_is_a_number_or_a_tuple() -> None:
    assert Options().temperatures == (0.0,)
    assert Options(temperature=0.4).temperatures == (0.4,)
    assert Options(temperature=(0.0, 0.2, 1)).temperatures == (0.0, 0.2, 1)


WITHOUT_EFFECT: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    # an option with options that leave it no effect, options with which it has one, the message
    ({"patience": 2.0}, {"beam_size": 1}, "patience=2.0 has no effect on greedy search"),
    ({"length_penalty": 2.0}, {"beam_size": 1}, "length_penalty=2.0 has no effect on greedy"),
    ({"best_of": 3}, {}, "best_of has no effect without a temperature above 0"),
    ({"seed": 7}, {}, "seed has no effect without a temperature above 0"),
    ({"max_initial_timestamp": 0.5}, {}, "max_initial_timestamp has no effect with timestamps="),
    (
        {"coverage_threshold": 2.0},
        {"vad": False},
        "coverage_threshold has no effect with vad=False",
    ),
    ({"coverage_threshold": 2.0}, {"task": "translate"}, "no effect with task='translate'"),
    *(
        ({name: value}, {"language": "en"}, f"{name} has no effect if the language is given")
        for name, value in {
            "languages": ("en", "fr"),
            "language_detection_segments": 4,
            "language_detection_length": 5.0,
            "language_detection_threshold": 0.4,
        }.items()
    ),
    *(
        ({name: 5}, {"multilingual": True}, f"{name} has no effect with multilingual=True")
        for name in ("language_detection_segments", "language_detection_length")
    ),
    (
        {"language": "en"},
        {"multilingual": True},
        "multilingual=True cannot be combined with language=",
    ),
    ({"task": "translate"}, {"multilingual": True}, "give code_switching_output='english'"),
    (
        {"condition_on_previous_text": True},
        {"multilingual": True},
        "condition_on_previous_text cannot be combined with",
    ),
    ({"code_switching_output": "english"}, {}, "code_switching_output has no effect without multi"),
    ({"latin_names": True}, {}, "latin_names has no effect without multilingual=True"),
    (
        {"latin_names": True},
        {"multilingual": True, "code_switching_output": "english"},
        "latin_names has no effect with code_switching_output='english'",
    ),
    *(
        ({name: 0.4}, {"vad": False}, f"{name} has no effect with vad=False")
        for name in ("vad_onset", "vad_offset", "min_silence_duration", "speech_pad")
    ),
    ({"second_opinion": False}, {"vad": False}, "second_opinion has no effect with vad=False"),
    (
        {"second_opinion_threshold": -0.5},
        {"second_opinion": False},
        "second_opinion_threshold has no effect with second_opinion=False",
    ),
]

NEEDED: dict[str, dict[str, Any]] = {
    "best_of": {"temperature": 0.2},
    "seed": {"temperature": (0.0, 0.2)},
    "max_initial_timestamp": {"timestamps": "tokens"},
    "code_switching_output": {"multilingual": True},
    "latin_names": {"multilingual": True},
}
"""For options without effect by default, the option that they need."""


@pytest.mark.parametrize(("option", "others", "message"), WITHOUT_EFFECT)
def test_an_option_without_effect_is_refused(
    option: dict[str, Any], others: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        resolve(None, **{**option, **others})
    ((name, value),) = option.items()
    assert getattr(make_options(**option, **NEEDED.get(name, {})), name) == value


def test_options_may_be_given_without_the_stage_that_they_do_not_need() -> None:
    resolve(None, vad=False, min_speech_duration=0.3, max_speech_duration=20.0)
    assert Options(vad=False, coverage_threshold=None).coverage_threshold is None


def test_languages_become_codes_in_the_same_order() -> None:
    assert Options(languages=("French", "en")).languages == ("fr", "en")


def test_language_detection_refuses_options_without_effect() -> None:
    assert for_detection(languages=("en",), vad=False).languages == ("en",)
    for name in ("beam_size", "language", "multilingual"):
        with pytest.raises(OptionError, match=f"{name} has no effect on detect_language"):
            for_detection(**{name: 1})  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="did you mean languages"):
        for_detection(langages=("en",))  # type: ignore[call-arg]
    hints = get_type_hints(Options)
    assert get_type_hints(DetectionKeywords).items() <= hints.items()


@pytest.mark.parametrize(
    ("given", "ranges"),
    [
        ("0,10", ((0.0, 10.0),)),
        ("0,10,20", ((0.0, 10.0), (20.0, None))),
        ([0, 10.5], ((0, 10.5),)),
        ((5,), ((5, None),)),
        ([(0, 1), [2, None]], ((0, 1), (2, None))),
        ("", ()),
    ],
)
def test_time_ranges_as_in_openai_whisper(given: Any, ranges: object) -> None:
    assert Options(clip_timestamps=given).clip_timestamps == ranges


def test_lists_and_texts_become_tuples() -> None:
    options = make_options(languages=["en", "fr"], temperature=[0, 0.2], suppress_tokens="-1,50")
    assert (options.languages, options.temperature) == (("en", "fr"), (0, 0.2))
    assert options.suppress_tokens == (-1, 50)
    assert make_options(suppress_tokens="").suppress_tokens == ()
    assert hash(options) == hash(make_options(**{**vars(options), "languages": ("en", "fr")}))


def test_beam_search_must_finish_at_least_one_hypothesis() -> None:
    with pytest.raises(OptionError, match=r"patience=0\.4 with beam_size=2"):
        Options(patience=0.4, beam_size=2)
    assert Options(patience=0.5, beam_size=2).patience == 0.5


@pytest.mark.parametrize(
    "name", [field.name for field in fields(Options) if type(field.default) in (int, float)]
)
@pytest.mark.parametrize("value", [10**400, 1e308, -(10**400)])
def test_huge_numbers(name: str, value: float) -> None:
    with pytest.raises(OptionError, match=name):
        make_options(**{name: value})


OPTIONS = {field.name for field in fields(Options)}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("beamsize", "beamsize is not an option; did you mean beam_size?"),
        ("zzz", "zzz is not an option; help(whisperbatch.Options) lists all options"),
    ],
)
def test_unknown_keywords_are_refused_with_a_hint(name: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        resolve(None, **{name: 3})  # type: ignore[arg-type]
    assert str(caught.value) == message
