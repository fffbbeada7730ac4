"""The methods of faster-whisper that decode single windows, on a tiny model of random weights."""

import shutil
import threading
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest

from tests.contract.tiny_model import tiny_model
from tests.unit.compat.drop_in import load_fake
from tests.unit.fakes import FakeEngine, noise
from whisperbatch import ClosedError, ModelError, OptionError, Transcriber, load
from whisperbatch.compat.faster_whisper import BatchedInferencePipeline, WhisperModel, transcribe
from whisperbatch.compat.faster_whisper.tokenizer import Tokenizer

WINDOW = np.zeros((80, 3000), np.float32)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("compat") / "tiny")


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The engine of each call of `load`; "auto" is an engine without weights."""
    engines: list[Any] = []

    def load_model(model: str, **keywords: Any) -> Transcriber:
        engines.append(keywords.pop("engine", "auto"))
        if engines[-1] == "auto":
            return Transcriber(FakeEngine())
        return load(model, engine=engines[-1], **keywords)

    monkeypatch.setattr(transcribe, "load", load_model)
    return engines


def tokenizer_of(model: WhisperModel) -> Any:
    return Tokenizer(model.hf_tokenizer, multilingual=True, task="transcribe", language="en")


def test_the_first_method_loads_the_weights_once(directory: Path, loads: list[Any]) -> None:
    model = WhisperModel(directory, device="cpu")
    list(model.transcribe(noise(5), "en", vad_filter=False)[0])
    attributes = (model.model.is_multilingual, model.model.n_mels, model.model.device_index)
    assert attributes == (True, 80, [0])
    assert model.model.compute_type
    assert not hasattr(model.model, "_private")
    with pytest.raises(AttributeError, match="no_such_name"):
        model.model.no_such_name  # noqa: B018
    assert loads == ["auto"]
    outputs: list[Any] = []
    threads = [
        threading.Thread(target=lambda: outputs.append(model.encode(WINDOW))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [output.shape for output in outputs] == [[1, 1500, 16]] * 4
    assert loads == ["auto", "ctranslate2"]
    assert {language for language, _ in model.model.detect_language(outputs[0])[0]} > {"<|en|>"}
    assert model.model.num_languages > 90


def test_ctranslate2_as_the_engine_loads_nothing_more(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []

    def load_ctranslate2(model: str, **keywords: Any) -> Transcriber:
        calls.append(keywords)
        return load(model, **{**keywords, "engine": "ctranslate2"})

    monkeypatch.setattr(transcribe, "load", load_ctranslate2)
    model = WhisperModel(directory, device="cpu")
    prompt = tokenizer_of(model).sot_sequence
    assert model.model.generate(model.encode(WINDOW), [prompt], max_length=10)
    assert len(calls) == 1


def test_settings_are_those_of_the_model(directory: Path, loads: list[Any]) -> None:
    model = WhisperModel(directory, device="cpu", compute_type="float32", num_workers=2)
    loaded = model.model._loaded()
    assert isinstance(loaded, ctranslate2.models.Whisper)
    assert (loaded.compute_type, loaded.num_workers, loaded.device) == ("float32", 2, "cpu")
    assert model.model.compute_type == "float32"


def test_an_unloaded_model_frees_both_copies(directory: Path, loads: list[Any]) -> None:
    model = WhisperModel(directory, device="cpu")
    loaded = model.model._loaded()
    model.model.unload_model()
    assert not loaded.model_is_loaded
    for closed in (model, WhisperModel(directory, device="cpu")):
        closed.model.unload_model()
        with pytest.raises(ClosedError):
            closed.encode(WINDOW)
    with pytest.raises(OptionError, match="to_cpu"):
        model.model.unload_model(to_cpu=True)


def test_a_relative_directory_may_be_opened_from_elsewhere(
    directory: Path, loads: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory.parent)
    model = WhisperModel(directory.name, device="cpu")
    monkeypatch.chdir(tmp_path)
    assert model.encode(WINDOW)


def test_missing_weights_are_named(directory: Path, loads: list[Any], tmp_path: Path) -> None:
    removed = Path(shutil.copytree(directory, tmp_path / "removed"))
    model = WhisperModel(removed, device="cpu")
    shutil.rmtree(removed)
    with pytest.raises(ModelError, match="removed"):
        model.encode(WINDOW)


def test_files_in_memory_are_opened_too(directory: Path, loads: list[Any]) -> None:
    files = {path.name: path.read_bytes() for path in directory.iterdir()}
    assert WhisperModel("tiny", device="cpu", files=files).encode(WINDOW)


class Subclass(WhisperModel):
    """A program's class: other methods of faster-whisper call its method."""

    encoded = 0

    def encode(self, features: Any) -> Any:
        self.encoded += 1
        return super().encode(features)


def test_segments_of_windows(directory: Path, loads: list[Any]) -> None:
    model = Subclass(directory, device="cpu", compute_type="float32")
    _, info = model.transcribe(noise(1), "en", word_timestamps=True)
    options = info.transcription_options
    options.temperatures, options.without_timestamps = [0.0], True
    features = model.feature_extractor(noise(70))
    options.max_new_tokens, options.log_prob_threshold = 4, None
    options.compression_ratio_threshold = options.no_speech_threshold = None
    tokenizer = tokenizer_of(model)
    segments = list(model.generate_segments(features, tokenizer, options, log_progress=False))
    assert model.encoded >= 3
    assert segments
    assert all(segment.words is not None for segment in segments)


def test_batches_of_windows(directory: Path, loads: list[Any]) -> None:
    model = WhisperModel(directory, device="cpu", compute_type="float32")
    _, info = model.transcribe(noise(1), "en", word_timestamps=True, max_new_tokens=4)
    chunks = [{"offset": 5.0, "duration": 20.0}, {"offset": 40.0, "duration": 30.0}]
    pipeline = BatchedInferencePipeline(model)
    results = pipeline.forward(
        np.stack([WINDOW] * 2), tokenizer_of(model), chunks, info.transcription_options
    )
    assert [segments[0]["seek"] for segments in results] == [500, 4000]
    assert pipeline.last_speech_timestamp > 0


def test_the_language_of_features_needs_no_second_model(
    monkeypatch: pytest.MonkeyPatch, loads: list[Any]
) -> None:
    model = load_fake(monkeypatch, FakeEngine())
    assert model.detect_language(features=model.feature_extractor(noise(5)))[0] == "fr"
    assert loads == []
