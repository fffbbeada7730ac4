"""faster-whisper's parameters, signatures and fields: each is the drop-in's, or refused by name."""

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import faster_whisper as theirs
import faster_whisper.transcribe as their_transcribe
import faster_whisper.vad as their_vad
import pytest

from whisperbatch import OptionError, Options
from whisperbatch.compat import faster_whisper as ours
from whisperbatch.compat.faster_whisper import BatchedInferencePipeline, VadOptions, WhisperModel
from whisperbatch.compat.faster_whisper import transcribe as our_transcribe
from whisperbatch.compat.faster_whisper import vad as our_vad
from whisperbatch.compat.faster_whisper._arguments import (
    TranscribeArguments,
    effective_options,
    to_detection_options,
    to_options,
)
from whisperbatch.compat.faster_whisper.vad import effective_vad_options

TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def call(cls: type = WhisperModel, **arguments: Any) -> TranscribeArguments:
    """Return the arguments of a call, with the defaults of the class's signature."""
    parameters = inspect.signature(cls.transcribe).parameters  # type: ignore[attr-defined]
    defaults = {name: p.default for name, p in parameters.items() if name not in ("self", "audio")}
    return TranscribeArguments(**{**defaults, **arguments})


def mapped(language: str | None = "en", *, cls: type = WhisperModel, **arguments: Any) -> Options:
    multilingual = arguments.get("multilingual", False)
    return to_options(call(cls, **arguments), language, multilingual=multilingual)


@dataclass
class OtherVadOptions:
    """Another library's class with the fields of VadOptions."""

    threshold: float = 0.5
    neg_threshold: float | None = None
    min_speech_duration_ms: int = 0
    max_speech_duration_s: float = float("inf")
    min_silence_duration_ms: int = 2000
    speech_pad_ms: int = 400


CHANGED: dict[type, Any] = {
    WhisperModel: {"temperature": TEMPERATURES, "segments": "sentence"},
    BatchedInferencePipeline: {
        "temperature": TEMPERATURES,
        "segments": "chunk",
        "max_silence": 0.2,  # with two margins of 0.1 s: a pause of 0.4 s
        "batch_size": 8,
    },
}
"""The options that each class changes if a program leaves all parameters out."""


@pytest.mark.parametrize("cls", CHANGED)
def test_defaults_are_ours_except_temperatures_segments_and_batch_size(cls: type) -> None:
    changed = CHANGED[cls]
    assert mapped(cls=cls) == Options(language="en", **changed)
    assert mapped(None, cls=cls) == Options(**changed)
    assert to_detection_options(call(cls)) == Options()


@pytest.mark.parametrize(
    ("arguments", "expected"),
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
            {"vad_parameters": OtherVadOptions()},
            {"min_silence_duration": 2.0, "speech_pad": 0.4, "min_speech_duration": 0.0},
        ),
        ({"log_progress": True}, {}),
        ({"batch_size": 16}, {"batch_size": 16}),
        # parameters without the parameter that they need
        ({"beam_size": 1, "patience": 2, "length_penalty": 0.5}, {"beam_size": 1}),
        ({"temperature": 0.0, "best_of": 1}, {"temperature": (0.0,)}),
        ({"prompt_reset_on_temperature": 0.1}, {}),
        ({"prepend_punctuations": "("}, {}),
        ({"hallucination_silence_threshold": 2.0}, {}),
        ({"language_detection_segments": 4, "language_detection_threshold": 0.8}, {}),
    ],
)
def test_parameter(arguments: dict[str, Any], expected: dict[str, Any]) -> None:
    arguments = {"without_timestamps": False, **arguments}
    expected = {"language": "en", **CHANGED[WhisperModel], **expected}
    assert mapped(cls=WhisperModel, **arguments) == Options(**expected)
    expected = {"batch_size": 8, **expected}
    assert mapped(cls=BatchedInferencePipeline, **arguments) == Options(**expected)


def test_recordings_of_one_window_are_decoded_with_timestamps() -> None:
    def timestamps(**arguments: Any) -> str:
        options = to_options(call(**arguments), "en", multilingual=False, one_window=True)
        return options.timestamps

    assert timestamps() == "tokens"
    assert timestamps(word_timestamps=True, clip_timestamps="0") == "tokens"
    for arguments in (
        {"without_timestamps": True},
        {"prefix": "Hello"},
        {"chunk_length": 10},
        {"clip_timestamps": "0,5"},
        {"multilingual": True},
    ):
        assert timestamps(**arguments) == "alignment"
    assert mapped().timestamps == "alignment"


def test_without_timestamps_a_segment_is_a_chunk() -> None:
    for cls in (WhisperModel, BatchedInferencePipeline):
        assert mapped(cls=cls, without_timestamps=True).segments == "chunk"
        assert mapped(cls=cls, without_timestamps=False).segments == "sentence"
        changed = mapped(cls=cls, max_initial_timestamp=0.0, without_timestamps=True)
        assert changed.timestamps == "alignment"


@pytest.mark.parametrize(
    ("arguments", "max_silence"),
    [
        ({}, 0.2),
        ({"vad_parameters": {"threshold": 0.4}}, 0.2),
        ({"vad_parameters": {"speech_pad_ms": 200}}, 0.0),  # the margins are all that remains
        ({"vad_filter": False}, None),
        ({"clip_timestamps": "1,2"}, None),
        ({"without_timestamps": False}, None),
    ],
)
def test_batches_shorten_pauses(arguments: dict[str, Any], max_silence: float | None) -> None:
    assert mapped(cls=BatchedInferencePipeline, **arguments).max_silence == max_silence
    assert mapped(**{"without_timestamps": True, **arguments}).max_silence is None


def test_a_prompt_may_be_an_iterator() -> None:
    arguments = call(initial_prompt=iter([1, 2]))
    for _ in range(2):
        assert to_options(arguments, "en", multilingual=False).initial_prompt == (1, 2)


@pytest.mark.parametrize(
    ("name", "code"), [("en-US", "en"), ("Portuguese", "pt"), ("iw", "he"), ("auto", None)]
)
def test_names_of_languages_become_codes(name: str, code: str | None) -> None:
    assert call(language=name).language == code


def test_language_detection_uses_the_given_number_of_windows() -> None:
    arguments: dict[str, Any] = {
        "language_detection_segments": 1,
        "language_detection_threshold": 0.7,
    }
    expected = Options(language_detection_length=30.0, **arguments)
    assert to_detection_options(call(**arguments)) == expected
    options = mapped(None, **arguments)
    assert options.language_detection_segments == 1
    assert options.language_detection_length == 30.0
    assert to_detection_options(call(language_detection_threshold=None)) == Options()


def test_detection_uses_the_transcribed_parts() -> None:
    options = to_detection_options(
        call(vad_parameters={"threshold": 0.3, "max_speech_duration_s": 9}, clip_timestamps="5")
    )
    assert options == Options(vad_onset=0.3, vad_offset=0.15, clip_timestamps=((5.0, None),))
    assert not to_detection_options(call(vad_filter=False)).vad


def test_many_languages() -> None:
    options = mapped(None, multilingual=True, language_detection_threshold=0.7)
    assert options.multilingual
    assert options.language_detection_threshold == 0.7
    assert mapped("en", multilingual=True, language_detection_segments=4).language is None


def test_previous_text_is_used_up_to_our_temperature_limit() -> None:
    condition: dict[str, Any] = {"condition_on_previous_text": True}
    assert mapped(**condition, temperature=0.0, prompt_reset_on_temperature=0.3)
    assert mapped(
        **condition, prompt_reset_on_temperature=0.3
    )  # text of higher temperatures is not used
    assert mapped(**condition, temperature=0.2, prompt_reset_on_temperature=0.45)
    with pytest.raises(OptionError, match=r"prompt_reset_on_temperature=0\.3"):
        mapped(**condition, temperature=[0.4, 0.8], prompt_reset_on_temperature=0.3)


@pytest.mark.parametrize(
    ("arguments", "name"),
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
def test_invalid_parameters_are_refused_by_name(arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        mapped(**arguments)


def test_effective_options() -> None:
    arguments = call(
        beam_size=2,
        initial_prompt=[5],
        clip_timestamps="1,2,3",
        vad_parameters={"threshold": 0.4, "speech_pad_ms": 30},
        chunk_length=20,
        word_timestamps=True,
        hallucination_silence_threshold=2.0,
    )
    options = to_options(arguments, "en", multilingual=False)
    effective = effective_options(options, arguments)
    assert (effective.beam_size, effective.temperatures) == (2, list(TEMPERATURES))
    assert effective.condition_on_previous_text is False
    assert effective.initial_prompt == (5,)
    assert effective.suppress_tokens == (-1,)
    assert effective.clip_timestamps == [1.0, 2.0, 3.0]
    assert not effective.without_timestamps
    assert effective.hallucination_silence_threshold == 2.0
    assert effective_vad_options(options) == VadOptions(
        threshold=0.4,
        neg_threshold=0.25,
        min_speech_duration_ms=100,
        max_speech_duration_s=20,
        min_silence_duration_ms=160,
        speech_pad_ms=30,
    )
    assert effective_vad_options(mapped(vad_filter=False)) is None


def parameters_of(function: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    parameters = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, p.default) for p in parameters]


@pytest.mark.parametrize(
    "name",
    [
        "WhisperModel.__init__",
        "WhisperModel.transcribe",
        "WhisperModel.detect_language",
        "WhisperModel.encode",
        "WhisperModel.generate_segments",
        "WhisperModel.generate_with_fallback",
        "WhisperModel.get_prompt",
        "WhisperModel.find_alignment",
        "WhisperModel.add_word_timestamps",
        "BatchedInferencePipeline.forward",
        "BatchedInferencePipeline.generate_segment_batched",
        "BatchedInferencePipeline.__init__",
        "BatchedInferencePipeline.transcribe",
        "decode_audio",
        "format_timestamp",
        "available_models",
        "download_model",
    ],
)
def test_signature(name: str) -> None:
    function: Any = ours
    expected: Any = theirs
    for part in name.split("."):
        function, expected = getattr(function, part), getattr(expected, part)
    assert parameters_of(function) == parameters_of(expected)


def test_signature_of_the_vad() -> None:
    assert parameters_of(our_vad.get_speech_timestamps) == parameters_of(
        their_vad.get_speech_timestamps
    )


def test_implicit_defaults_print_like_theirs() -> None:
    for name in ("condition_on_previous_text", "vad_filter", "language_detection_segments"):
        parameters = [
            inspect.signature(model.transcribe).parameters[name]
            for model in (ours.WhisperModel, theirs.WhisperModel)
        ]
        assert repr(parameters[0].default) == repr(parameters[1].default)


@pytest.mark.parametrize("name", ["Word", "Segment", "TranscriptionOptions", "TranscriptionInfo"])
def test_fields(name: str) -> None:
    our_class, expected = getattr(our_transcribe, name), getattr(their_transcribe, name)
    assert [f.name for f in fields(our_class)] == [f.name for f in fields(expected)]
    assert {f.default for f in fields(our_class)} == {MISSING}
    assert parameters_of(our_class) == parameters_of(expected)


def test_fields_of_the_vad_options() -> None:
    our_fields, expected = fields(our_vad.VadOptions), fields(their_vad.VadOptions)
    assert [(f.name, f.default) for f in our_fields] == [(f.name, f.default) for f in expected]
    assert repr(our_vad.VadOptions()) == repr(their_vad.VadOptions())


def test_all_their_exports_are_exported() -> None:
    assert set(theirs.__all__) <= set(ours.__all__)
    assert set(ours.__all__) >= {"Segment", "Word", "TranscriptionInfo", "VadOptions"}
    assert ours.__version__ == theirs.__version__


MODULES = ("audio", "feature_extractor", "tokenizer", "transcribe", "utils", "vad")

PRIVATE = {"_LANGUAGE_CODES", "_MODELS", "_TASKS"}
"""Private names that programs import."""


@pytest.mark.parametrize("module", MODULES)
def test_modules_have_the_names_that_programs_import(module: str) -> None:
    expected = import_module(f"faster_whisper.{module}")
    imported = import_module(f"whisperbatch.compat.faster_whisper.{module}")
    names = {
        name
        for name, value in vars(expected).items()
        if (not name.startswith("_") or name in PRIVATE)
        and not isinstance(value, ModuleType)
        and getattr(value, "__module__", expected.__name__).startswith("faster_whisper")
    }
    assert names
    missing = [name for name in names if not hasattr(imported, name)]
    assert missing == []
    assert getattr(ours, module) is imported
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = imported.no_such_name


def test_transcription_is_not_delegated() -> None:
    """Classes, functions and methods that transcribe recordings are our own."""
    assert our_vad.get_speech_timestamps is not their_vad.get_speech_timestamps
    for name in ("WhisperModel", "BatchedInferencePipeline"):
        our_class, their_class = getattr(our_transcribe, name), getattr(their_transcribe, name)
        assert not issubclass(our_class, their_class)
        assert our_class.transcribe is not their_class.transcribe
    assert ours.WhisperModel.detect_language is not theirs.WhisperModel.detect_language


def test_measured_fields_are_only_on_instances() -> None:
    assert not hasattr(ours.TranscriptionInfo, "duration_after_vad")
    assert not hasattr(theirs.transcribe.TranscriptionInfo, "duration_after_vad")


def test_all_parameters_are_documented() -> None:
    page = (Path(__file__).parents[3] / "docs/how-to/move-from-faster-whisper.md").read_text()
    cells = "|".join(re.findall(r"^\| (.*?) \|", page, re.MULTILINE))
    documented = set(re.findall(r"`(\w+)`", cells))
    for function in (
        theirs.WhisperModel.__init__,
        theirs.WhisperModel.transcribe,
        theirs.BatchedInferencePipeline.transcribe,
    ):
        assert set(inspect.signature(function).parameters) - documented <= {"self", "model_kwargs"}


def test_the_package_does_not_import_the_drop_in() -> None:
    code = (
        "import sys, whisperbatch, whisperbatch.api\n"
        "assert not any(name.startswith('whisperbatch.compat') for name in sys.modules)\n"
        "import whisperbatch.compat.faster_whisper\n"
        "assert not {'ctranslate2', 'faster_whisper', 'torch', 'tqdm'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
