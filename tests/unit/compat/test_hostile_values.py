"""Every parameter of the drop-in accepts a value, or refuses it in one line with its name."""

import inspect
from collections.abc import Callable, Iterator

import pytest

from tests.unit.fakes import noise
from tests.unit.hostile_values import HOSTILE, Call, keyword
from whisperbatch import ModelError, OptionError
from whisperbatch.compat.faster_whisper import (
    BatchedInferencePipeline,
    VadOptions,
    WhisperModel,
    download_model,
    format_timestamp,
)
from whisperbatch.compat.faster_whisper._detection import DEFAULT_PARAMS
from whisperbatch.compat.faster_whisper.vad import get_speech_timestamps

AUDIO = noise(0.1)

HUB_ARGUMENTS = {"model_size_or_path", "output_dir", "cache_dir", "download_root", "revision"} | {
    "local_files_only",
    "use_auth_token",
}

ModelCall = Callable[[WhisperModel], Call]
"""For a model, the function that passes a value for a parameter."""


def parameters(function: Callable[..., object]) -> list[str]:
    names = list(inspect.signature(function).parameters)
    return [name for name in names if name not in ("self", "audio", "model_kwargs")]


def of_model(method: str, name: str, **others: object) -> ModelCall:
    return lambda model: keyword(getattr(model, method), name, **others)


def batched(model: WhisperModel) -> Call:
    return keyword(BatchedInferencePipeline(model).transcribe, "batch_size", AUDIO)


def multi_segment(name: str) -> ModelCall:
    return lambda model: lambda value: model.detect_language_multi_segment(AUDIO, {name: value})


def vad_options(name: str) -> ModelCall:
    return lambda _: lambda value: get_speech_timestamps(AUDIO, VadOptions(**{name: value}))


def function(
    called: Callable[..., object], name: str, *args: object, **others: object
) -> ModelCall:
    return lambda _: keyword(called, name, *args, **others)


def calls() -> Iterator[tuple[str, ModelCall]]:
    """The name of each parameter, with the calls that pass a value for it."""
    for name in parameters(WhisperModel.transcribe):
        yield name, of_model("transcribe", name, audio=AUDIO)
    yield "batch_size", batched
    for name in parameters(WhisperModel.detect_language):
        yield name, of_model("detect_language", name, audio=None if name == "features" else AUDIO)
    for name in DEFAULT_PARAMS:
        inner = name.removeprefix("vad_").removeprefix("language_")
        yield inner, multi_segment(name)
    yield "params", of_model("detect_language_multi_segment", "params", audio=AUDIO)
    for name in (*parameters(WhisperModel), "flash_attention", "max_queued_batches", "other"):
        others = {} if name == "model_size_or_path" else {"model_size_or_path": "tiny.en"}
        yield name, function(WhisperModel, name, **others)
    for name in inspect.signature(VadOptions).parameters:
        yield name, vad_options(name)
    for name in ("sampling_rate", "vad_options"):
        yield (
            name.replace("vad_options", "vad_parameters"),
            function(get_speech_timestamps, name, AUDIO),
        )
    yield "seconds", function(format_timestamp, "seconds")
    for name in parameters(download_model):
        if name != "size_or_id":
            yield name, function(download_model, name, "no-such/model")


@pytest.mark.parametrize(
    ("name", "call"),
    [
        pytest.param(name, call, id=f"{number}-{name}")
        for number, (name, call) in enumerate(calls())
    ],
)
def test_each_value_is_accepted_or_refused_in_one_line(
    name: str, call: ModelCall, model: WhisperModel
) -> None:
    for value in HOSTILE:
        try:
            call(model)(value)
        except ModelError:  # a directory, a revision or a token that may exist
            assert name in HUB_ARGUMENTS
        except OptionError as error:
            message = str(error)
            assert name in message or "size_or_id" in message
            assert message.isprintable()
            assert len(message) < 400, message
