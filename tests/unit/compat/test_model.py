"""The drop-in's WhisperModel: loading, attributes, threads and lifetime."""

import gc
import io
import logging
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.compat.drop_in import NO_VAD, load_fake, running_threads
from tests.unit.fakes import FakeEngine, noise
from whisperbatch import OptionError, Transcriber
from whisperbatch.compat.faster_whisper import WhisperModel, transcribe


def test_abandoned_segments_stop_the_pipeline(model: WhisperModel, wav: Path) -> None:
    segments, _ = model.transcribe(wav, **NO_VAD)
    next(segments)
    segments.close()
    assert running_threads() == set()
    with wav.open("rb") as file:
        segments, _ = model.transcribe(file, **NO_VAD)
        del segments
        gc.collect()
        assert not file.closed
    assert running_threads() == set()


def test_a_model_lives_as_long_as_its_segments(monkeypatch: pytest.MonkeyPatch, wav: Path) -> None:
    engine = FakeEngine()
    engine_reference = weakref.ref(engine)
    segments, _ = load_fake(monkeypatch, engine).transcribe(wav, **NO_VAD)
    monkeypatch.undo()
    del engine
    gc.collect()
    assert len(list(segments)) == 4
    del segments
    gc.collect()
    assert engine_reference() is None


def test_an_unloaded_model_is_closed(model: WhisperModel, engine: FakeEngine, wav: Path) -> None:
    model.model.unload_model()
    assert engine.closed
    with pytest.raises(RuntimeError, match="closed"):
        model.transcribe(wav, "en")


def test_several_threads_use_one_model(model: WhisperModel, wav: Path) -> None:
    counts: list[int] = []

    def work() -> None:
        counts.append(len(list(model.transcribe(wav, **NO_VAD)[0])))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [4] * 4


def test_model_attributes(model: WhisperModel) -> None:
    assert model.is_multilingual
    assert {"en", "yue"} < set(model.supported_languages)
    assert (model.model.n_mels, model.model.num_workers) == (80, 1)
    assert (model.frames_per_second, model.tokens_per_second, model.max_length) == (100, 50, 448)
    assert isinstance(model.logger, logging.Logger)
    extractor = model.feature_extractor
    assert (extractor.sampling_rate, extractor.nb_max_frames, extractor.n_samples) == (
        16000,
        3000,
        480000,
    )
    assert extractor(noise(2)).shape == (80, 201)


@pytest.fixture
def load_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    calls: list[Any] = []

    def load(model: str, **keywords: Any) -> Transcriber:
        calls.append((model, keywords))
        return Transcriber(FakeEngine())

    monkeypatch.setattr(transcribe, "load", load)
    return calls  # type: ignore[return-value]


def test_model_arguments_are_passed_to_load(load_calls: list[Any]) -> None:
    WhisperModel("base")
    assert load_calls.pop() == ("base", {"device": "auto"})
    WhisperModel("base", "cpu", compute_type="int8", cpu_threads=4, num_workers=2)
    assert load_calls.pop() == (
        "base",
        {
            "device": "cpu",
            "compute_type": "int8",
            "inter_threads": 2,
            "intra_threads": 4,
        },
    )
    WhisperModel("base", device="cuda", device_index=[0, 1], compute_type="float16")
    assert load_calls.pop()[1]["device_index"] == (0, 1)
    WhisperModel("base", device="cuda", cpu_threads=4, flash_attention=True)
    assert load_calls.pop()[1] == {"device": "cuda", "flash_attention": True}
    WhisperModel("base", files={}, flash_attention=False, max_queued_batches=0)
    assert load_calls.pop()[0] == "base"


@pytest.mark.parametrize("number", [0, 65, True, "2"])
def test_wrong_numbers_of_workers_are_refused(number: Any) -> None:
    with pytest.raises(OptionError, match="num_workers"):
        WhisperModel("base", num_workers=number)


def test_files_are_loaded_from_a_directory_that_lives_as_long_as_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directories: list[Path] = []

    def load(name: str, **_: Any) -> Transcriber:
        directories.append(Path(name))
        contents = {path.name: path.read_bytes() for path in directories[0].iterdir()}
        assert contents == {"model.bin": b"weights", "config.json": b"{}"}
        return Transcriber(FakeEngine())

    monkeypatch.setattr(transcribe, "load", load)
    files = {"model.bin": b"weights", "config.json": io.BytesIO(b"{}")}
    model = WhisperModel("some/name", files=files)
    gc.collect()
    assert directories[0].is_dir()
    assert set(files) == {"model.bin", "config.json"}
    del model
    gc.collect()
    assert not directories[0].exists()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"files": {"../model.bin": b""}}, "files"),
        ({"files": {"model.bin": "text"}}, "files: model.bin"),
        ({"files": ["model.bin"]}, "files"),
        ({"tensor_parallel": True}, "tensor_parallel"),
        ({"speed": 2}, "speed"),
    ],
)
def test_unsupported_model_arguments_are_refused_by_name(
    arguments: dict[str, Any], name: str, load_calls: list[Any]
) -> None:
    with pytest.raises(OptionError, match=name):
        WhisperModel("base", **arguments)
    assert load_calls == []
