"""The drop-in's `transcribe`, on an engine without weights."""

import copy
import io
import pickle
from dataclasses import asdict, replace
from pathlib import Path
from types import GeneratorType
from typing import Any

import numpy as np
import pytest

from tests.unit.compat.drop_in import NO_VAD, load_fake, running_threads
from tests.unit.fakes import FakeEngine, noise
from whisperbatch import AudioError, OptionError
from whisperbatch.compat.faster_whisper import (
    BatchedInferencePipeline,
    Segment,
    TranscriptionInfo,
    WhisperModel,
    _session,
)
from whisperbatch.types import Samples

SENTENCES = [f" Sentence {number}." for number in range(4)]
"""The texts of the fixture `wav`, in any order: the fake engine numbers its rows, and the order in
which rows come to the engine is not fixed."""


class Pipe(io.BytesIO):
    def seekable(self) -> bool:
        return False


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
    segments, info = model.transcribe(Pipe(wav.read_bytes()), **NO_VAD)
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
    for source in (wav, Pipe(wav.read_bytes())):
        segments, _ = model.transcribe(source, log_progress=True, **NO_VAD)
        assert len(list(segments)) == 4
        assert "seconds" in capsys.readouterr().err
    list(model.transcribe(wav, **NO_VAD)[0])
    assert capsys.readouterr().err == ""


def test_the_progress_bar_ends_with_the_recording(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Times are fractions of seconds, and a container may state too short a duration."""
    times = (0.1, 0.3, 7.77, 39.999, 40.004, 41.0)
    segments = [Segment(1, 0, 0.0, end, " word", [], 0, 0, 0, None, 0) for end in times]
    assert list(_session.with_progress(segments, 40.0)) == segments
    assert "40.0/40.0" in capsys.readouterr().err
