"""Every option and argument accepts a value, or refuses it with one short line and its name."""

import weakref
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import whisperbatch as wb
from tests.unit.fakes import FakeEngine, noise
from tests.unit.hostile_values import HOSTILE, Call, keyword
from tests.unit.transcripts import transcript
from whisperbatch import AudioError, OptionError, Options, SubtitleOptions, TableOptions
from whisperbatch.engines.settings import SETTINGS, AutoSettings, settings_of
from whisperbatch.errors import WhisperBatchError
from whisperbatch.models import find_model
from whisperbatch.options import DETECTION_OPTIONS
from whisperbatch.transcriber import Transcriber
from whisperbatch.writers import render

MAX_MESSAGE = 300  # characters


def options() -> Iterator[tuple[str, Call]]:
    """Each option; some together with the options that they need."""
    needs: dict[str, dict[str, Any]] = {
        "best_of": {"temperature": 0.5},
        "seed": {"temperature": 0.5},
        "max_initial_timestamp": {"timestamps": "tokens"},
        "code_switching_output": {"multilingual": True},
        "latin_names": {"multilingual": True},
    }
    for name in (field.name for field in fields(Options)):
        yield name, keyword(Options, name)
        yield name, keyword(wb.chunk_audio, name, noise(0.1))
        if name in needs:
            yield name, keyword(Options, name, **needs[name])


def load_settings(**keywords: object) -> object:
    return settings_of(keywords)


def settings() -> Iterator[tuple[str, Call]]:
    """The keywords of `load`, in all engines and in the classes of their settings."""
    for engine, settings_class in {**SETTINGS, "auto": AutoSettings}.items():
        for field in fields(settings_class):
            yield field.name, keyword(settings_class, field.name)
            for choice in (engine, "auto"):
                yield field.name, keyword(load_settings, field.name, engine=choice)
    for engine in ("ctranslate2", "torch"):
        yield "kept_frames", keyword(load_settings, "kept_frames", engine=engine)
    for name in ("engine", "device"):
        yield name, keyword(load_settings, name)


def arguments() -> Iterator[tuple[str, Call]]:
    """The arguments of the functions that are no options."""
    asr, audio = Transcriber(FakeEngine()), noise(0.1)

    def many(**given: Any) -> None:
        asr.transcribe_many([], **given).close()

    yield "on_error", keyword(many, "on_error")
    yield "ordered", keyword(many, "ordered")
    yield "progress", keyword(many, "progress")
    yield "ordered", keyword(asr.stream_many, "ordered", [])
    yield "read_through", keyword(asr.detect_language, "read_through", audio)
    yield "options", keyword(asr.transcribe, "options", audio)
    yield "options", keyword(wb.chunk_audio, "options", audio)
    for name in DETECTION_OPTIONS:
        yield name, keyword(asr.detect_language, name, audio)
    for file_options in (SubtitleOptions, TableOptions):
        for field in fields(file_options):
            yield field.name, keyword(file_options, field.name)
    yield "format", keyword(render, "format", transcript())
    yield "options", keyword(render, "options", transcript(), format="srt")
    yield "path", lambda path: wb.write(transcript(), path)
    yield "sampling_rate", lambda rate: asr.transcribe(wb.Audio(audio, rate), vad=False)


def check(name: str, call: Call, value: Any, expected: type[WhisperBatchError]) -> None:
    try:
        call(value)
    except expected as error:
        message = str(error)
        assert name in message
        assert message.isprintable() or expected is AudioError  # the name of a file may be anything
        assert len(message) < MAX_MESSAGE, message
        assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "call"),
    [
        pytest.param(name, call, id=f"{group.__name__}-{number}-{name}")
        for group in (options, settings, arguments)
        for number, (name, call) in enumerate(group())
    ],
)
def test_each_value_is_accepted_or_refused_in_one_line(name: str, call: Call) -> None:
    for value in HOSTILE:
        check(name, call, value, OptionError)


@pytest.mark.parametrize("call", [wb.chunk_audio, wb.open_audio])
def test_sources_are_accepted_or_refused_in_one_line(call: Call) -> None:
    for value in HOSTILE:
        if not issubclass(type(value), weakref.ProxyTypes):  # `isinstance` itself fails
            check("", call, value, AudioError)


def test_names_of_models_are_accepted_or_refused_in_one_line() -> None:
    for value in HOSTILE:
        check("model", find_model, value, wb.ModelError)


def test_memoryviews_with_gaps_or_after_their_release_are_no_recordings() -> None:
    with pytest.raises(AudioError, match="<bytes>: is not media"):
        wb.open_audio(memoryview(b"0123456789")[::2])  # type: ignore[arg-type]
    released = memoryview(b"0123456789")
    released.release()
    with pytest.raises(AudioError, match=r"<bytes>: cannot be read: .*released"):
        wb.open_audio(released)  # type: ignore[arg-type]


def test_numbers_of_numpy_become_numbers_of_python() -> None:
    made = Options(
        beam_size=np.int64(3),  # type: ignore[arg-type]
        vad_onset=np.float32(0.5),  # type: ignore[arg-type]
        word_timestamps=np.bool_(1),  # type: ignore[arg-type]
        clip_timestamps=((np.float32(0.0), np.int8(2)),),  # type: ignore[arg-type]
        suppress_tokens=tuple(np.arange(3)),
    )
    assert made == Options(
        beam_size=3, word_timestamps=True, clip_timestamps=((0.0, 2),), suppress_tokens=(0, 1, 2)
    )
    for name in ("beam_size", "vad_onset", "word_timestamps"):
        assert type(getattr(made, name)) in (int, float, bool)
    assert {type(token) for token in made.suppress_tokens} == {int}
    assert settings_of({"inter_threads": np.int32(2)}).inter_threads == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["initial_prompt", "hotwords", "prefix"])
def test_a_lone_surrogate_is_no_text(name: str) -> None:
    with pytest.raises(OptionError, match=f"{name}='a.ud800': character 1 is a lone surrogate"):
        Options(**{name: "a\ud800"})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["compile", "flash_attention"])
def test_a_number_is_not_a_switch(name: str) -> None:
    engine = "torch" if name == "compile" else "ctranslate2"
    with pytest.raises(OptionError, match=f"{name} must be True or False, not 0"):
        settings_of({"engine": engine, name: 0})


def test_threads_have_a_limit() -> None:
    with pytest.raises(OptionError, match=r"inter_threads=10{29} is out of range: from 0 to 64"):
        wb.load("tiny.en", inter_threads=10**29)
