"""The drop-in's two classes, on an engine without weights."""

import copy
import gc
import io
import logging
import pickle
import threading
import wave
import weakref
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import GeneratorType
from typing import Any

import numpy as np
import pytest

from benchmarks.recordings import _wave_header
from tests.unit.fakes import FakeEngine, noise
from whisperbatch import AudioError, OptionError, Transcriber
from whisperbatch.compat.faster_whisper import (
    BatchedInferencePipeline,
    Segment,
    TranscriptionInfo,
    WhisperModel,
    _session,
    transcribe,
)
from whisperbatch.types import Samples

SENTENCES = [f" Sentence {number}." for number in range(4)]  # of 70 s of noise
LOUD: dict[str, Any] = {"vad_filter": False}  # noise is no speech


class Unseekable(io.BytesIO):
    def seekable(self) -> bool:
        return False


class Tensor:
    """Has samples, as PyTorch's have."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples.astype(np.float64)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._samples if dtype is None else self._samples.astype(dtype)


def load(monkeypatch: pytest.MonkeyPatch, engine: FakeEngine, **given: Any) -> WhisperModel:
    monkeypatch.setattr(transcribe, "load", lambda *_, **__: Transcriber(engine))
    return WhisperModel("fake", **given)


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def model(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> WhisperModel:
    return load(monkeypatch, engine)


@pytest.fixture(scope="module")
def wav(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compat") / "noise.wav"
    with wave.open(str(path), "wb") as file:
        _wave_header(file)
        file.writeframes((noise(70) * 10000).astype("<i2").tobytes())
    return path


def running() -> set[str]:
    return {t.name for t in threading.enumerate() if t.name.startswith("whisperbatch")}


def test_segments_are_theirs(model: WhisperModel, wav: Path) -> None:
    segments, info = model.transcribe(str(wav), **LOUD, word_timestamps=True)
    assert isinstance(segments, GeneratorType)
    found = list(segments)
    assert [segment.text for segment in found] == SENTENCES
    assert [segment.id for segment in found] == [1, 2, 3, 4]
    for segment in found:
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


def test_info_is_there_before_anything_is_decoded(
    model: WhisperModel, engine: FakeEngine, wav: Path
) -> None:
    segments, info = model.transcribe(wav, **LOUD)
    assert info.language == "fr"
    assert info.language_probability == pytest.approx(0.9)
    assert [code for code, _ in info.all_language_probs or ()] == ["fr", "en"]
    assert dict(info.all_language_probs or ()) == pytest.approx({"fr": 0.9, "en": 0.1})
    assert info.duration == info.duration_after_vad == 70
    assert info.vad_options is None
    assert info.transcription_options.beam_size == 5
    assert engine.batches == []
    assert running() == set()
    assert len(list(segments)) == 4


def test_a_language_that_is_given_is_not_listened_for(
    model: WhisperModel, engine: FakeEngine, wav: Path
) -> None:
    segments, info = model.transcribe(wav, "Spanish", **LOUD)
    assert (info.language, info.language_probability) == ("es", 1)
    assert info.all_language_probs is None
    assert len(list(segments)) == 4
    assert engine.detections == 0


def test_batches(model: WhisperModel, engine: FakeEngine, wav: Path) -> None:
    batched = BatchedInferencePipeline(model=model)
    assert batched.model is model
    segments, info = batched.transcribe(str(wav), batch_size=1, **LOUD, log_progress=False)
    assert [segment.text for segment in segments] == SENTENCES
    assert engine.batches == [1] * 4
    assert info.language == "fr"
    with pytest.raises(OptionError, match="model"):
        BatchedInferencePipeline("base")  # type: ignore[arg-type]


def test_sources(model: WhisperModel, wav: Path) -> None:
    samples = noise(70)
    for source in (
        wav,
        str(wav),
        io.BytesIO(wav.read_bytes()),
        samples,
        samples.astype(np.float64),
        Tensor(samples),
    ):
        segments, info = model.transcribe(source, **LOUD)  # type: ignore[arg-type]
        assert [segment.text[:9] for segment in segments] == [" Sentence"] * 4
        assert info.duration == 70
    with wav.open("rb") as file:
        segments, info = model.transcribe(file, **LOUD)
        assert len(list(segments)) == 4
    with pytest.raises(AudioError, match="no such file"):
        model.transcribe("missing.wav")
    with pytest.raises(AudioError, match="no kind of recording"):
        model.transcribe(5)  # type: ignore[arg-type]


def test_a_pipe_is_known_by_its_first_segment(
    model: WhisperModel, engine: FakeEngine, wav: Path
) -> None:
    segments, info = model.transcribe(Unseekable(wav.read_bytes()), **LOUD)
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


def test_speech_is_measured_once_when_it_is_asked_for(
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
    for other in (copy.deepcopy(info), pickle.loads(pickle.dumps(info)), replace(info)):  # noqa: S301
        assert isinstance(other, TranscriptionInfo)
        assert other == info
    assert len(calls) == 1


def test_a_file_that_is_gone_has_its_duration(
    model: WhisperModel, tmp_path: Path, wav: Path
) -> None:
    path = tmp_path / "gone.wav"
    path.write_bytes(wav.read_bytes())
    _, info = model.transcribe(path, "en")
    path.unlink()
    assert info.duration_after_vad == info.duration == 70


def test_clips(model: WhisperModel, wav: Path) -> None:
    segments, info = model.transcribe(wav, clip_timestamps="5,20,40,50", **LOUD)
    found = list(segments)
    assert [segment.start for segment in found] == [5, 40]
    assert info.duration_after_vad == 25
    batched = BatchedInferencePipeline(model)
    clips = [{"start": 5, "end": 20}, {"start": 40, "end": 50}]
    segments, _ = batched.transcribe(wav, clip_timestamps=clips, **LOUD)
    assert [segment.start for segment in segments] == [5, 40]


def test_english_only_models(
    monkeypatch: pytest.MonkeyPatch, wav: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = load(monkeypatch, FakeEngine(multilingual=False))
    assert model.supported_languages == ["en"]
    assert not model.is_multilingual
    assert not model.model.is_multilingual
    segments, info = model.transcribe(wav, language="fr", multilingual=True, **LOUD)
    assert (info.language, info.language_probability) == ("en", 1)
    assert [segment.text for segment in segments] == SENTENCES
    assert "multilingual=True" in caplog.text
    assert "language='fr'" in caplog.text
    assert model.transcribe(wav, **LOUD)[1].all_language_probs is None
    with pytest.raises(OptionError, match="translate"):
        model.transcribe(wav, task="translate")


def test_many_languages(model: WhisperModel, wav: Path) -> None:
    segments, info = model.transcribe(wav, multilingual=True, **LOUD)
    assert info.language == "fr"
    assert info.transcription_options.multilingual
    assert len(list(segments)) >= 4
    segments, info = model.transcribe(wav, "en", multilingual=True, **LOUD)
    assert (info.language, info.language_probability) == ("en", 1)
    assert len(list(segments)) >= 4


def test_languages_without_spaces(model: WhisperModel, wav: Path) -> None:
    segments, _ = model.transcribe(wav, "ja", **LOUD)
    assert [segment.text for segment in segments] == [text.strip() for text in SENTENCES]


def test_progress(model: WhisperModel, wav: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for source in (wav, Unseekable(wav.read_bytes())):
        segments, _ = model.transcribe(source, log_progress=True, **LOUD)
        assert len(list(segments)) == 4
        assert "seconds" in capsys.readouterr().err
    list(model.transcribe(wav, **LOUD)[0])
    assert capsys.readouterr().err == ""


def test_progress_ends_where_the_recording_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Seconds are no whole numbers, and a container may state too few of them."""
    times = (0.1, 0.3, 7.77, 39.999, 40.004, 41.0)
    segments = [Segment(1, 0, 0.0, end, " word", [], 0, 0, 0, None, 0) for end in times]
    assert list(_session._with_progress(segments, 40.0)) == segments
    assert "40.0/40.0" in capsys.readouterr().err


def test_segments_may_be_abandoned(model: WhisperModel, wav: Path) -> None:
    segments, _ = model.transcribe(wav, **LOUD)
    next(segments)
    segments.close()
    assert running() == set()
    with wav.open("rb") as file:
        segments, _ = model.transcribe(file, **LOUD)
        del segments
        gc.collect()
        assert not file.closed
    assert running() == set()


def test_a_model_lives_as_long_as_its_segments(monkeypatch: pytest.MonkeyPatch, wav: Path) -> None:
    engine = FakeEngine()
    alive = weakref.ref(engine)
    segments, _ = load(monkeypatch, engine).transcribe(wav, **LOUD)
    monkeypatch.undo()
    del engine
    gc.collect()
    assert len(list(segments)) == 4
    del segments
    gc.collect()
    assert alive() is None


def test_a_model_may_be_unloaded(model: WhisperModel, engine: FakeEngine, wav: Path) -> None:
    model.model.unload_model()
    assert engine.closed
    with pytest.raises(RuntimeError, match="closed"):
        model.transcribe(wav, "en")


def test_threads_may_share_a_model(model: WhisperModel, wav: Path) -> None:
    found: list[int] = []

    def work() -> None:
        found.append(len(list(model.transcribe(wav, **LOUD)[0])))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [4] * 4


def test_attributes(model: WhisperModel) -> None:
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
def loaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    calls: list[Any] = []

    def load(model: str, **keywords: Any) -> Transcriber:
        calls.append((model, keywords))
        return Transcriber(FakeEngine())

    monkeypatch.setattr(transcribe, "load", load)
    return calls  # type: ignore[return-value]


def test_loading(loaded: list[Any]) -> None:
    usual = {"device": "auto", "device_index": 0, "compute_type": "auto"}
    threads = {"inter_threads": 1, "intra_threads": 0}
    WhisperModel("base")
    assert loaded.pop() == ("base", {**usual, **threads})
    WhisperModel("base", "cpu", compute_type="int8", cpu_threads=4, num_workers=2)
    assert loaded.pop() == (
        "base",
        {
            "device": "cpu",
            "device_index": 0,
            "compute_type": "int8",
            "inter_threads": 2,
            "intra_threads": 4,
        },
    )
    WhisperModel("base", device="cuda", device_index=[0, 1], compute_type="float16")
    assert loaded.pop()[1]["device_index"] == (0, 1)
    WhisperModel("base", files={}, flash_attention=False, max_queued_batches=0)
    assert loaded.pop()[0] == "base"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"files": {"model.bin": b""}}, "files"),
        ({"flash_attention": True}, "flash_attention"),
        ({"speed": 2}, "speed"),
    ],
)
def test_loading_refuses_by_name(given: dict[str, Any], name: str, loaded: list[Any]) -> None:
    with pytest.raises(OptionError, match=name):
        WhisperModel("base", **given)
    assert loaded == []
