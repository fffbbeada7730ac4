"""faster-whisper's parameters become our options, or are refused by name."""

import inspect
from dataclasses import dataclass
from typing import Any

import pytest

from whisperbatch import OptionError, Options
from whisperbatch.compat.faster_whisper import BatchedInferencePipeline, VadOptions, WhisperModel
from whisperbatch.compat.faster_whisper._parameters import (
    Request,
    detection_of,
    effective,
    options_of,
)
from whisperbatch.compat.faster_whisper.vad import effective as effective_vad

LADDER = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def request(cls: type = WhisperModel, **given: Any) -> Request:
    """A request with the defaults of the class's own signature."""
    parameters = inspect.signature(cls.transcribe).parameters  # type: ignore[attr-defined]
    usual = {name: p.default for name, p in parameters.items() if name not in ("self", "audio")}
    return Request(**{**usual, **given})


def mapped(language: str | None = "en", *, cls: type = WhisperModel, **given: Any) -> Options:
    multilingual = given.get("multilingual", False)
    return options_of(request(cls, **given), language, multilingual=multilingual)


@dataclass
class Foreign:
    """VadOptions of another library."""

    threshold: float = 0.5
    neg_threshold: float | None = None
    min_speech_duration_ms: int = 0
    max_speech_duration_s: float = float("inf")
    min_silence_duration_ms: int = 2000
    speech_pad_ms: int = 400


@pytest.mark.parametrize("cls", [WhisperModel, BatchedInferencePipeline])
def test_defaults_are_our_own_but_for_the_ladder(cls: type) -> None:
    assert mapped(cls=cls) == Options(language="en", temperature=LADDER)
    assert mapped(None, cls=cls) == Options(temperature=LADDER)
    assert detection_of(request(cls)) == Options()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"task": "translate"}, {"task": "translate"}),
        ({"beam_size": 3, "patience": 2, "length_penalty": 0.5},) * 2,
        ({"repetition_penalty": 1.2, "no_repeat_ngram_size": 3},) * 2,
        ({"temperature": 0.0}, {"temperature": (0.0,)}),
        ({"temperature": 0}, {"temperature": (0,)}),
        ({"temperature": [0.0, 0.5], "best_of": 2}, {"temperature": (0.0, 0.5), "best_of": 2}),
        ({"temperature": (0.2,)}, {"temperature": (0.2,)}),
        ({"compression_ratio_threshold": None, "log_prob_threshold": None},) * 2,
        ({"compression_ratio_threshold": 1.5, "log_prob_threshold": -0.5},) * 2,
        ({"no_speech_threshold": 0.3},) * 2,
        ({"condition_on_previous_text": True}, {"condition_on_previous_text": True}),
        ({"condition_on_previous_text": False}, {"condition_on_previous_text": False}),
        ({"initial_prompt": "Names: Ada"}, {"initial_prompt": "Names: Ada"}),
        ({"initial_prompt": [1, 2]}, {"initial_prompt": (1, 2)}),
        ({"initial_prompt": "", "prefix": " ", "hotwords": ""}, {}),
        ({"prefix": "Hello", "hotwords": "Ada Lovelace"},) * 2,
        ({"suppress_blank": False}, {"suppress_blank": False}),
        ({"suppress_tokens": None}, {"suppress_tokens": ()}),
        ({"suppress_tokens": []}, {"suppress_tokens": ()}),
        ({"suppress_tokens": [-1, 7]}, {"suppress_tokens": (-1, 7)}),
        ({"word_timestamps": True}, {"word_timestamps": True}),
        ({"without_timestamps": True}, {}),
        ({"without_timestamps": False}, {}),
        (
            {"max_initial_timestamp": 0.0, "without_timestamps": False},
            {"timestamps": "tokens", "max_initial_timestamp": 0.0},
        ),
        ({"max_new_tokens": 100}, {"max_new_tokens": 100}),
        ({"chunk_length": 15}, {"chunk_length": 15}),
        ({"chunk_length": 0}, {}),
        ({"clip_timestamps": "0"}, {}),
        ({"clip_timestamps": ""}, {}),
        ({"clip_timestamps": []}, {}),
        ({"clip_timestamps": "5"}, {"clip_timestamps": ((5.0, None),)}),
        ({"clip_timestamps": "5,10,20"}, {"clip_timestamps": ((5.0, 10.0), (20.0, None))}),
        ({"clip_timestamps": [5, 10, 20.5, 30]}, {"clip_timestamps": ((5, 10), (20.5, 30))}),
        ({"clip_timestamps": [{"start": 1, "end": 2}]}, {"clip_timestamps": ((1, 2),)}),
        ({"vad_filter": True}, {}),
        ({"vad_filter": False}, {"vad": False}),
        ({"vad_filter": False, "vad_parameters": {"threshold": 0.3}}, {"vad": False}),
        ({"vad_parameters": {"threshold": 0.3}}, {"vad_onset": 0.3, "vad_offset": 0.15}),
        ({"vad_parameters": {"threshold": 0.005}}, {"vad_onset": 0.005, "vad_offset": 0.005}),
        ({"vad_parameters": {"neg_threshold": 0.2}}, {"vad_offset": 0.2}),
        ({"vad_parameters": {"min_speech_duration_ms": 250}}, {"min_speech_duration": 0.25}),
        ({"vad_parameters": {"min_silence_duration_ms": 2000}}, {"min_silence_duration": 2.0}),
        ({"vad_parameters": {"speech_pad_ms": 400}}, {"speech_pad": 0.4}),
        ({"vad_parameters": {"max_speech_duration_s": 12}}, {"max_speech_duration": 12}),
        ({"vad_parameters": {"max_speech_duration_s": float("inf")}}, {}),
        ({"vad_parameters": VadOptions()}, {}),
        (
            {"vad_parameters": VadOptions(min_silence_duration_ms=500)},
            {"min_silence_duration": 0.5},
        ),
        (
            {"vad_parameters": Foreign()},
            {"min_silence_duration": 2.0, "speech_pad": 0.4, "min_speech_duration": 0.0},
        ),
        ({"log_progress": True}, {}),
        ({"batch_size": 16}, {"batch_size": 16}),
        # what theirs say has no effect alone
        ({"beam_size": 1, "patience": 2, "length_penalty": 0.5}, {"beam_size": 1}),
        ({"temperature": 0.0, "best_of": 1}, {"temperature": (0.0,)}),
        ({"prompt_reset_on_temperature": 0.1}, {}),
        ({"prepend_punctuations": "("}, {}),
        ({"max_initial_timestamp": 0.0, "without_timestamps": True}, {}),
        ({"hallucination_silence_threshold": 2.0}, {}),
        ({"language_detection_segments": 4, "language_detection_threshold": 0.8}, {}),
    ],
)
def test_parameter(given: dict[str, Any], expected: dict[str, Any]) -> None:
    usual = {"language": "en", "temperature": LADDER}
    for cls in (WhisperModel, BatchedInferencePipeline):
        assert mapped(cls=cls, **given) == Options(**{**usual, **expected})


def test_a_prompt_may_be_an_iterator() -> None:
    given = request(initial_prompt=iter([1, 2]))
    for _ in range(2):
        assert options_of(given, "en", multilingual=False).initial_prompt == (1, 2)


def test_language_is_listened_for_in_as_many_windows_as_are_asked_for() -> None:
    told: dict[str, Any] = {
        "language_detection_segments": 1,
        "language_detection_threshold": 0.7,
    }
    expected = Options(language_detection_length=30.0, **told)
    assert detection_of(request(**told)) == expected
    heard = mapped(None, **told)
    assert heard.language_detection_segments == 1
    assert heard.language_detection_length == 30.0
    assert detection_of(request(language_detection_threshold=None)) == Options()


def test_detection_hears_what_is_transcribed() -> None:
    found = detection_of(
        request(vad_parameters={"threshold": 0.3, "max_speech_duration_s": 9}, clip_timestamps="5")
    )
    assert found == Options(vad_onset=0.3, vad_offset=0.15, clip_timestamps=((5.0, None),))
    assert not detection_of(request(vad_filter=False)).vad


def test_many_languages() -> None:
    found = mapped(None, multilingual=True, language_detection_threshold=0.7)
    assert found.multilingual
    assert found.language_detection_threshold == 0.7
    assert mapped("en", multilingual=True, language_detection_segments=4).language is None


def test_previous_text_is_gone_on_from_up_to_the_temperature_that_is_ours() -> None:
    on: dict[str, Any] = {"condition_on_previous_text": True}
    assert mapped(**on, temperature=0.0, prompt_reset_on_temperature=0.3)
    assert mapped(**on, prompt_reset_on_temperature=0.3)  # text of later rungs is no context
    assert mapped(**on, temperature=0.2, prompt_reset_on_temperature=0.45)
    with pytest.raises(OptionError, match=r"prompt_reset_on_temperature=0\.3"):
        mapped(**on, temperature=[0.4, 0.8], prompt_reset_on_temperature=0.3)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"task": "sing"}, "task"),
        ({"beam_size": 0}, "beam_size"),
        ({"temperature": []}, "temperature"),
        ({"temperature": [0.4, 0.2]}, "temperature"),
        ({"temperature": "0"}, "temperature"),
        ({"condition_on_previous_text": 1}, "condition_on_previous_text"),
        ({"word_timestamps": True, "prepend_punctuations": "("}, "prepend_punctuations"),
        ({"word_timestamps": True, "append_punctuations": ")"}, "append_punctuations"),
        ({"prompt_reset_on_temperature": "low"}, "prompt_reset_on_temperature"),
        ({"hallucination_silence_threshold": -1}, "hallucination_silence_threshold"),
        ({"chunk_length": 40}, "chunk_length"),
        ({"max_new_tokens": 400}, "max_new_tokens"),
        ({"clip_timestamps": "a,b"}, "clip_timestamps"),
        ({"clip_timestamps": 5}, "clip_timestamps"),
        ({"clip_timestamps": [{"begin": 5}]}, "clip_timestamps"),
        ({"clip_timestamps": "9,5"}, "clip_timestamps"),
        ({"vad_parameters": {"onset": 0.5}}, "vad_parameters: 'onset'"),
        ({"vad_parameters": {"threshold": "high"}}, "vad_parameters: threshold"),
        ({"vad_parameters": {"threshold": 2}}, "threshold of vad_parameters"),
        (
            {"vad_parameters": {"threshold": 0.3, "neg_threshold": 0.5}},
            "neg_threshold of vad_parameters",
        ),
        ({"vad_parameters": {"speech_pad_ms": 9000}}, "speech_pad_ms of vad_parameters"),
        ({"vad_parameters": 5}, "vad_parameters"),
        ({"vad_filter": False, "vad_parameters": {"onset": 0.5}}, "vad_parameters: 'onset'"),
        ({"initial_prompt": [-1]}, "initial_prompt"),
        ({"suppress_tokens": [-2]}, "suppress_tokens"),
        ({"batch_size": 0}, "batch_size"),
        ({"multilingual": True, "condition_on_previous_text": True}, "condition_on_previous_text"),
        ({"multilingual": True, "task": "translate"}, "task"),
    ],
)
def test_refused_by_name(given: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        mapped(**given)


def test_effective_options() -> None:
    given = request(
        beam_size=2,
        initial_prompt=[5],
        clip_timestamps="1,2,3",
        vad_parameters={"threshold": 0.4, "speech_pad_ms": 30},
        chunk_length=20,
        word_timestamps=True,
        hallucination_silence_threshold=2.0,
    )
    options = options_of(given, "en", multilingual=False)
    found = effective(options, given)
    assert (found.beam_size, found.temperatures) == (2, list(LADDER))
    assert found.condition_on_previous_text is False
    assert found.initial_prompt == (5,)
    assert found.suppress_tokens == (-1,)
    assert found.clip_timestamps == [1.0, 2.0, 3.0]
    assert found.without_timestamps
    assert found.hallucination_silence_threshold == 2.0
    assert effective_vad(options) == VadOptions(
        threshold=0.4,
        neg_threshold=0.25,
        min_speech_duration_ms=100,
        max_speech_duration_s=20,
        min_silence_duration_ms=160,
        speech_pad_ms=30,
    )
    assert effective_vad(mapped(vad_filter=False)) is None
