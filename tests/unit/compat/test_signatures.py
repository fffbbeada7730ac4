"""The drop-in has faster-whisper's signatures, fields and module structure."""

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import faster_whisper as theirs
import faster_whisper.transcribe as their_transcribe
import faster_whisper.vad as their_vad
import pytest

from whisperbatch.compat import faster_whisper as ours
from whisperbatch.compat.faster_whisper import transcribe as our_transcribe
from whisperbatch.compat.faster_whisper import vad as our_vad


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
