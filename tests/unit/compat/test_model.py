"""The drop-in's WhisperModel: loading, attributes, threads, `transcribe`, single windows."""

import copy
import gc
import io
import logging
import pickle
import shutil
import threading
import weakref
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import GeneratorType
from typing import Any

import ctranslate2
import numpy as np
import pytest

from tests.contract.tiny_model import tiny_model
from tests.unit.compat.drop_in import NO_VAD, load_fake, running_threads
from tests.unit.fakes import FakeEngine, noise
from tests.unit.media_files import UnseekableBytes
from whisperbatch import AudioError, ClosedError, ModelError, OptionError, Transcriber, load
from whisperbatch.compat.faster_whisper import (
    BatchedInferencePipeline,
    Segment,
    TranscriptionInfo,
    WhisperModel,
    _session,
    transcribe,
)
from whisperbatch.compat.faster_whisper.tokenizer import Tokenizer
from whisperbatch.types import Samples


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
        {"device": "cpu", "compute_type": "int8", "inter_threads": 2, "intra_threads": 4},
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


SENTENCES = [f" Sentence {number}." for number in range(4)]
"""The texts of the fixture `wav`, in any order: the fake engine numbers its rows, and the order in
which rows come to the engine is not fixed."""


class Tensor:
    """A tensor of samples with `__array__`, as PyTorch's tensors have."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples.astype(np.float64)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._samples if dtype is None else self._samples.astype(dtype)


def test_segments_have_their_fields(model: WhisperModel, wav: Path) -> None:
    segments, info = model.transcribe(str(wav), **NO_VAD, word_timestamps=True)
    assert isinstance(segments, GeneratorType)
    decoded = list(segments)
    assert sorted(segment.text for segment in decoded) == SENTENCES
    assert [segment.id for segment in decoded] == [1, 2, 3, 4]
    for segment in decoded:
        assert segment.seek == round(100 * segment.start)
        assert isinstance(segment.tokens, list)
        assert model.hf_tokenizer.decode(segment.tokens) == segment.text
        assert segment.words is not None
        assert "".join(word.word for word in segment.words) == segment.text
        assert segment.words[0].start == segment.start < segment.end
        assert (segment.avg_logprob, segment.temperature) == (-0.1, 0.0)
        assert asdict(segment)["words"][0].keys() == {"start", "end", "word", "probability"}
        with pytest.warns(DeprecationWarning, match="asdict"):
            assert segment._asdict() == asdict(segment)
        with pytest.warns(DeprecationWarning, match="asdict"):
            assert segment.words[0]._asdict() == asdict(segment.words[0])
    assert info.language == "fr"


def test_info_is_available_before_decoding(
    model: WhisperModel, engine: FakeEngine, wav: Path
) -> None:
    segments, info = model.transcribe(wav, **NO_VAD)
    assert info.language == "fr"
    assert info.language_probability == pytest.approx(0.9)
    assert [code for code, _ in info.all_language_probs or ()] == ["fr", "en"]
    assert dict(info.all_language_probs or ()) == pytest.approx({"fr": 0.9, "en": 0.1})
    assert info.duration == info.duration_after_vad == 70
    assert info.vad_options is None
    assert info.transcription_options.beam_size == 5
    assert engine.batches == []
    assert running_threads() == set()
    assert len(list(segments)) == 4


def test_a_given_language_is_not_detected(
    model: WhisperModel, engine: FakeEngine, wav: Path
) -> None:
    segments, info = model.transcribe(wav, "Spanish", **NO_VAD)
    assert (info.language, info.language_probability) == ("es", 1)
    assert info.all_language_probs is None
    assert len(list(segments)) == 4
    assert engine.detections == 0


def test_batched_pipeline(model: WhisperModel, engine: FakeEngine, wav: Path) -> None:
    batched = BatchedInferencePipeline(model=model)
    assert batched.model is model
    segments, info = batched.transcribe(str(wav), batch_size=1, **NO_VAD, log_progress=False)
    assert sorted(segment.text for segment in segments) == SENTENCES
    assert engine.batches == [1] * 4
    assert info.language == "fr"
    with pytest.raises(OptionError, match="model"):
        BatchedInferencePipeline("base")  # type: ignore[arg-type]


def test_types_of_sources(model: WhisperModel, wav: Path) -> None:
    samples = noise(70)
    for source in (
        wav,
        str(wav),
        io.BytesIO(wav.read_bytes()),
        samples,
        samples.astype(np.float64),
        Tensor(samples),
    ):
        segments, info = model.transcribe(source, **NO_VAD)  # type: ignore[arg-type]
        assert [segment.text[:9] for segment in segments] == [" Sentence"] * 4
        assert info.duration == 70
    with wav.open("rb") as file:
        segments, info = model.transcribe(file, **NO_VAD)
        assert len(list(segments)) == 4
    with pytest.raises(AudioError, match="no such file"):
        model.transcribe("missing.wav")
    with pytest.raises(AudioError, match="int is not a recording"):
        model.transcribe(5)  # type: ignore[arg-type]


def test_the_language_of_a_pipe_comes_with_its_first_segment(
    model: WhisperModel, engine: FakeEngine, wav: Path
) -> None:
    segments, info = model.transcribe(UnseekableBytes(wav.read_bytes()), **NO_VAD)
    assert info.language == "fr"
    assert dict(info.all_language_probs or ()) == pytest.approx({"fr": 0.9, "en": 0.1})
    assert len(engine.batches) > 0
    assert [segment.id for segment in segments] == [1, 2, 3, 4]
    assert info.duration == info.duration_after_vad == 70


def test_silence_has_no_segments(model: WhisperModel) -> None:
    segments, info = model.transcribe(np.zeros(16000 * 5, np.float32))
    assert list(segments) == []
    assert (info.language, info.language_probability) == ("en", 0)
    assert info.all_language_probs is None
    assert (info.duration, info.duration_after_vad) == (5, 0)


def test_speech_is_measured_once_at_first_access(
    model: WhisperModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def seconds_of_speech(source: Any, options: Any) -> tuple[float, float]:
        calls.append(source)
        return 1.5, 5.0

    monkeypatch.setattr(_session, "seconds_of_speech", seconds_of_speech)
    _, info = model.transcribe(noise(5), "en")
    assert calls == []
    assert info.duration_after_vad == info.duration_after_vad == 1.5
    assert "duration=5.0, duration_after_vad=1.5" in repr(info)
    assert asdict(info)["duration_after_vad"] == 1.5
    for copied in (copy.deepcopy(info), pickle.loads(pickle.dumps(info)), replace(info)):  # noqa: S301
        assert isinstance(copied, TranscriptionInfo)
        assert copied == info
    assert len(calls) == 1


def test_duration_after_vad_of_a_removed_file_is_its_duration(
    model: WhisperModel, tmp_path: Path, wav: Path
) -> None:
    path = tmp_path / "removed.wav"
    path.write_bytes(wav.read_bytes())
    _, info = model.transcribe(path, "en")
    path.unlink()
    assert info.duration_after_vad == info.duration == 70


def test_clip_timestamps(model: WhisperModel, wav: Path) -> None:
    segments, info = model.transcribe(wav, clip_timestamps="5,20,40,50", **NO_VAD)
    decoded = list(segments)
    assert [segment.start for segment in decoded] == [5, 40]
    assert info.duration_after_vad == 25
    batched = BatchedInferencePipeline(model)
    clips = [{"start": 5, "end": 20}, {"start": 40, "end": 50}]
    segments, _ = batched.transcribe(wav, clip_timestamps=clips, **NO_VAD)
    assert [segment.start for segment in segments] == [5, 40]


def test_english_only_models(
    monkeypatch: pytest.MonkeyPatch, wav: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = load_fake(monkeypatch, FakeEngine(multilingual=False))
    assert model.supported_languages == ["en"]
    assert not model.is_multilingual
    assert not model.model.is_multilingual
    segments, info = model.transcribe(wav, language="fr", multilingual=True, **NO_VAD)
    assert (info.language, info.language_probability) == ("en", 1)
    assert sorted(segment.text for segment in segments) == SENTENCES
    assert "multilingual=True" in caplog.text
    assert "language='fr'" in caplog.text
    assert model.transcribe(wav, **NO_VAD)[1].all_language_probs is None
    with pytest.raises(OptionError, match="translate"):
        model.transcribe(wav, task="translate")


def test_multilingual_recordings(model: WhisperModel, wav: Path) -> None:
    segments, info = model.transcribe(wav, multilingual=True, **NO_VAD)
    assert info.language == "fr"
    assert info.transcription_options.multilingual
    assert len(list(segments)) >= 4
    segments, info = model.transcribe(wav, "en", multilingual=True, **NO_VAD)
    assert (info.language, info.language_probability) == ("en", 1)
    assert len(list(segments)) >= 4


def test_languages_without_spaces(model: WhisperModel, wav: Path) -> None:
    segments, _ = model.transcribe(wav, "ja", **NO_VAD)
    assert sorted(segment.text for segment in segments) == [text.strip() for text in SENTENCES]


def test_progress_bar(model: WhisperModel, wav: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for source in (wav, UnseekableBytes(wav.read_bytes())):
        segments, _ = model.transcribe(source, log_progress=True, **NO_VAD)
        assert len(list(segments)) == 4
        assert "seconds" in capsys.readouterr().err
    list(model.transcribe(wav, **NO_VAD)[0])
    assert capsys.readouterr().err == ""


def test_the_progress_bar_ends_with_the_recording(capsys: pytest.CaptureFixture[str]) -> None:
    """Times are fractions of seconds, and a container may state too short a duration."""
    times = (0.1, 0.3, 7.77, 39.999, 40.004, 41.0)
    segments = [Segment(1, 0, 0.0, end, " word", [], 0, 0, 0, None, 0) for end in times]
    assert list(_session.with_progress(segments, 40.0)) == segments
    assert "40.0/40.0" in capsys.readouterr().err


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
