import inspect
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any, get_type_hints

import pytest

import whisperbatch as wb
from whisperbatch import OptionError, Options
from whisperbatch.api import LoadKeywords
from whisperbatch.options import (
    AudioOptions,
    ChunkOptions,
    DecodeOptions,
    FeatureOptions,
    LanguageOptions,
    VadOptions,
)
from whisperbatch.options.keywords import DetectionKeywords, OptionKeywords, for_detection, resolve

GROUPS = (AudioOptions, VadOptions, ChunkOptions, FeatureOptions, LanguageOptions, DecodeOptions)

CALLS = [
    wb.transcribe,
    wb.stream,
    wb.transcribe_many,
    wb.Transcriber.transcribe,
    wb.Transcriber.stream,
    wb.Transcriber.transcribe_many,
]

WRONG: dict[str, tuple[Any, ...]] = {
    "track": (-1, "0", 1.0, True),
    "channel": ("middle", None, 0),
    "sampling_rate": (0, -8000, "8000", 16000.0, True),
    "clip_timestamps": (
        [(0, 1)],
        (0, 1),
        ((1, 0),),
        ((0, 2), (1, 3)),
        ((0, None), (5, 6)),
        ((-1, 2),),
        (("a", 2),),
        ((0, float("nan")),),
        ((0, 1, 2),),
    ),
    "vad": (1, "yes", None),
    "vad_onset": (-0.1, 1.1, "0.5", None, float("nan"), True),
    "vad_offset": (-0.1, 1.1, 0.6, float("inf")),
    "min_speech_duration": (-1, "1"),
    "min_silence_duration": (-1, float("inf")),
    "speech_pad": (-0.1, 6),
    "max_speech_duration": (0.5, 31, 1.1),
    "chunk_length": (0, 31, "30"),
    "max_silence": (-1, "1"),
    "features": ("fbank", None),
    "language": ("xx", "", 3, ("en",)),
    "languages": (["en"], "en", ("xx",), ("en", "English"), None),
    "language_detection_segments": (0, 1.5, 1001, True),
    "language_detection_length": (1.9, 31, "10"),
    "language_detection_threshold": (-0.1, 1.1, "0.5"),
    "multilingual": (1, "yes", None),
    "code_switching_output": ("hybrid text", None, "english"),
    "latin_names": (1, None, True),
    "task": ("summarize", None),
    "batch_size": (0, 1.5, True, "8"),
    "beam_size": (0, -1, 2.0),
    "patience": (0, -1),
    "length_penalty": (float("nan"), "1"),
    "repetition_penalty": (0, -1),
    "no_repeat_ngram_size": (-1, 1.5),
    "suppress_blank": (1, None),
    "suppress_tokens": ([-1], -1, ("a",), (-2,), (True,), None),
    "max_initial_timestamp": (-1, 31, "1", 0.5),
    "max_new_tokens": (0, 225, 1.0),
    "temperature": (-0.1, "0", None, (), (0.0, 0.0), (0.4, 0.2), [0.0], (0.0, "1"), True),
    "best_of": (0, 1.5, 3),
    "seed": (-1, 2**32, "0", 7),
    "compression_ratio_threshold": (-1, "2.4"),
    "log_prob_threshold": (0.5, "-1", True),
    "no_speech_threshold": (-0.1, 1.1, "0.6"),
    "coverage_threshold": (-1, "1"),
    "hallucination_filter": (1, None),
    "initial_prompt": ("", "  ", (), (-1,), (1.5,), [1], 3),
    "hotwords": ("", " ", 3, ("a",)),
    "prefix": ("", " ", 3),
    "condition_on_previous_text": (1, None, "yes"),
    "timestamps": ("words", None),
    "word_timestamps": ("yes", 1),
}


def test_every_option_has_wrong_values_to_try() -> None:
    assert set(WRONG) == {field.name for field in fields(Options)}


@pytest.mark.parametrize(
    ("name", "value"),
    [pytest.param(n, v, id=f"{n}={v!r}") for n, values in WRONG.items() for v in values],
)
def test_wrong_values_are_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(OptionError, match=name) as caught:
        resolve(None, **{name: value})  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_groups_share_no_option_and_make_up_all() -> None:
    names = [field.name for group in GROUPS for field in fields(group)]
    assert len(names) == len(set(names))
    assert set(names) == {field.name for field in fields(Options)}
    for group in GROUPS:
        group()  # each is valid by itself


def test_options_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Options().beam_size = 1  # type: ignore[misc]


def test_keywords_and_options_have_the_same_names_and_types() -> None:
    hints = get_type_hints(Options)
    assert get_type_hints(OptionKeywords) == {f.name: hints[f.name] for f in fields(Options)}


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__qualname__)
def test_signatures_show_every_option_with_its_default(call: Callable[..., object]) -> None:
    shown = inspect.signature(call).parameters
    for field in fields(Options):
        assert shown[field.name].kind is inspect.Parameter.KEYWORD_ONLY
        assert shown[field.name].default == field.default
        assert shown[field.name].annotation == field.type


@pytest.mark.parametrize("call", CALLS[:3], ids=lambda call: call.__qualname__)
def test_one_call_functions_show_what_load_takes(call: Callable[..., object]) -> None:
    shown = inspect.signature(call).parameters
    loading = dict(inspect.signature(wb.load).parameters)
    assert loading.pop("model").default == shown["model"].default
    assert set(loading) == set(LoadKeywords.__annotations__)
    for name, parameter in loading.items():
        assert shown[name].default == parameter.default
        assert shown[name].annotation == parameter.annotation


def test_keywords_replace_what_options_say() -> None:
    given = Options(beam_size=2, language="fr")
    resolved = resolve(given, beam_size=3)
    assert resolved == replace(given, beam_size=3)
    assert given.beam_size == 2


def test_unknown_keywords_name_the_nearest() -> None:
    with pytest.raises(OptionError, match="did you mean beam_size"):
        resolve(None, beamsize=3)  # type: ignore[call-arg]
    with pytest.raises(OptionError, match="zzz is not an option; there are"):
        resolve(None, zzz=3)  # type: ignore[call-arg]
    with pytest.raises(OptionError, match="options must be an Options"):
        resolve({"beam_size": 3})  # type: ignore[arg-type]


@pytest.mark.parametrize("language", ["de", "DE", " german ", "German"])
def test_languages_by_code_or_name(language: str) -> None:
    assert Options(language=language).language == "de"


def made(**keywords: Any) -> Options:
    return Options(**keywords)


def test_a_chunk_length_leaves_no_trace_when_it_is_replaced() -> None:
    assert replace(Options(chunk_length=10), chunk_length=30) == Options()


@pytest.mark.parametrize("name", ["chunk_length", "max_speech_duration"])
def test_margins_leave_room_for_speech(name: str) -> None:
    assert getattr(made(**{name: 2.0}, speech_pad=0.5), name) == 2.0
    with pytest.raises(OptionError, match=f"{name}=1.9 leaves less than 1 s"):
        made(**{name: 1.9}, speech_pad=0.5)


@pytest.mark.parametrize("name", ["patience", "length_penalty"])
def test_what_greedy_search_ignores_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match=f"{name}=2.0 has no effect on greedy search"):
        made(**{name: 2.0}, beam_size=1)
    assert getattr(made(**{name: 2.0}, beam_size=2), name) == 2.0


@pytest.mark.parametrize(("name", "value"), [("best_of", 3), ("seed", 7)])
def test_what_searching_ignores_is_refused(name: str, value: int) -> None:
    with pytest.raises(OptionError, match=f"{name} has no effect without a temperature above 0"):
        made(**{name: value})
    assert getattr(made(**{name: value}, temperature=0.2), name) == value
    assert getattr(made(**{name: value}, temperature=(0.0, 0.2)), name) == value


def test_the_first_timestamp_is_a_token() -> None:
    with pytest.raises(OptionError, match="max_initial_timestamp has no effect on aligned text"):
        Options(max_initial_timestamp=0.5)
    assert Options(max_initial_timestamp=0.5, timestamps="tokens").max_initial_timestamp == 0.5


def test_temperatures_are_a_ladder() -> None:
    assert Options().temperatures == (0.0,)
    assert Options(temperature=0.4).temperatures == (0.4,)
    assert Options(temperature=(0.0, 0.2, 1)).temperatures == (0.0, 0.2, 1)


def test_coverage_needs_detection() -> None:
    with pytest.raises(OptionError, match="coverage_threshold has no effect with vad=False"):
        Options(vad=False, coverage_threshold=2.0)
    with pytest.raises(OptionError, match="no effect with task='translate'"):
        Options(task="translate", coverage_threshold=2.0)
    assert Options(vad=False, coverage_threshold=None).coverage_threshold is None
    assert Options(coverage_threshold=2.0).coverage_threshold == 2.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("languages", ("en", "fr")),
        ("language_detection_segments", 4),
        ("language_detection_length", 5.0),
        ("language_detection_threshold", 0.4),
    ],
)
def test_nothing_is_detected_where_the_language_is_given(name: str, value: object) -> None:
    with pytest.raises(OptionError, match=f"{name} has no effect where the language is given"):
        made(language="en", **{name: value})
    assert getattr(made(**{name: value}), name) == value


def test_languages_are_codes_in_the_order_given() -> None:
    assert made(languages=("French", "en")).languages == ("fr", "en")


def test_many_languages_leave_no_room_for_one() -> None:
    with pytest.raises(OptionError, match="multilingual=True with language='en'"):
        made(multilingual=True, language="en")
    with pytest.raises(OptionError, match="give code_switching_output='english'"):
        made(multilingual=True, task="translate")
    with pytest.raises(OptionError, match="condition_on_previous_text does not go with"):
        made(multilingual=True, condition_on_previous_text=True)
    for name in ("language_detection_segments", "language_detection_length"):
        with pytest.raises(OptionError, match=f"{name} has no effect with multilingual=True"):
            made(multilingual=True, **{name: 5})


@pytest.mark.parametrize(
    ("name", "value"), [("code_switching_output", "english"), ("latin_names", True)]
)
def test_what_needs_many_languages_is_refused_without(name: str, value: object) -> None:
    with pytest.raises(OptionError, match=f"{name} has no effect without multilingual=True"):
        made(**{name: value})
    assert getattr(made(multilingual=True, **{name: value}), name) == value


def test_english_has_no_names_in_other_letters() -> None:
    with pytest.raises(
        OptionError, match="latin_names has no effect with code_switching_output='english'"
    ):
        made(multilingual=True, code_switching_output="english", latin_names=True)


def test_a_detection_takes_what_has_an_effect_on_it() -> None:
    assert for_detection(languages=("en",), vad=False).languages == ("en",)
    for name in ("beam_size", "language", "multilingual"):
        with pytest.raises(OptionError, match=f"{name} has no effect on detect_language"):
            for_detection(**{name: 1})  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="did you mean languages"):
        for_detection(langages=("en",))  # type: ignore[call-arg]
    hints = get_type_hints(Options)
    assert get_type_hints(DetectionKeywords).items() <= hints.items()


def test_a_beam_must_hold_a_hypothesis() -> None:
    with pytest.raises(OptionError, match=r"patience=0\.4 with beam_size=2"):
        Options(patience=0.4, beam_size=2)
    assert Options(patience=0.5, beam_size=2).patience == 0.5


@pytest.mark.parametrize(
    "name", [field.name for field in fields(Options) if type(field.default) in (int, float)]
)
@pytest.mark.parametrize("value", [10**400, 1e308, -(10**400)])
def test_numbers_beyond_all_bounds(name: str, value: float) -> None:
    if name in ("batch_size", "track") and value == 10**400:
        assert getattr(made(**{name: value}), name) == value
    else:
        with pytest.raises(OptionError, match=name):
            made(**{name: value})


@pytest.mark.parametrize("name", ["vad_onset", "vad_offset", "min_silence_duration", "speech_pad"])
def test_what_has_no_effect_without_detection_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match=f"{name} has no effect with vad=False"):
        resolve(None, vad=False, **{name: 0.4})  # type: ignore[arg-type]
    resolve(None, vad=False, min_speech_duration=0.3, max_speech_duration=20.0)
