"""The functions beside the drop-in's classes: audio, weights, times, languages, anomalies."""

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import faster_whisper as theirs
import numpy as np
import pytest
from faster_whisper.feature_extractor import FeatureExtractor

from tests.unit.fakes import FakeEngine, noise
from tests.unit.media_files import encode, tone
from whisperbatch import AudioError, ModelError, OptionError, Transcriber
from whisperbatch.compat import faster_whisper as ours
from whisperbatch.compat.faster_whisper import (
    Segment,
    WhisperModel,
    Word,
    _detection,
    transcribe,
    utils,
)
from whisperbatch.compat.faster_whisper._anomalies import without_anomalies
from whisperbatch.compat.faster_whisper._parameters import detection_options
from whisperbatch.compat.faster_whisper.vad import get_speech_timestamps


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> WhisperModel:
    monkeypatch.setattr(transcribe, "load", lambda *_, **__: Transcriber(FakeEngine()))
    return WhisperModel("fake")


@pytest.fixture(scope="module")
def stereo() -> bytes:
    channels = [tone(400, 2, 44_100), tone(900, 2, 44_100)]
    return encode(channels, "wav", "pcm_s16le", rate=44_100, layout="stereo")


@pytest.mark.parametrize("rate", [8_000, 16_000, 24_000])
def test_decode_audio_is_theirs_but_for_the_loudness_of_a_mix(stereo: bytes, rate: int) -> None:
    expected = theirs.decode_audio(io.BytesIO(stereo), sampling_rate=rate, split_stereo=True)
    found = ours.decode_audio(io.BytesIO(stereo), sampling_rate=rate, split_stereo=True)
    assert isinstance(found, tuple)
    for own, other in zip(found, expected, strict=True):
        assert own.dtype == np.float32
        assert own.shape == (2 * rate,)
        np.testing.assert_allclose(own[100:-100], other[100 : len(own) - 100], atol=2e-4)
    mixed = ours.decode_audio(io.BytesIO(stereo), rate)
    assert isinstance(mixed, np.ndarray)
    np.testing.assert_allclose(mixed, (found[0] + found[1]) / 2, atol=1e-6)


def test_decode_audio_of_one_channel(tmp_path: Path) -> None:
    path = tmp_path / "tone.wav"
    path.write_bytes(encode([tone(400, 1)], "wav", "pcm_s16le", rate=16_000))
    left, right = ours.decode_audio(path, split_stereo=True)
    whole = ours.decode_audio(str(path))
    assert isinstance(whole, np.ndarray)
    for channel in (left, right):
        np.testing.assert_array_equal(channel, whole)
    np.testing.assert_allclose(whole, theirs.decode_audio(str(path)), atol=1e-4)


@pytest.mark.parametrize("given", [{}, {"split_stereo": True}, {"sampling_rate": 8000}])
def test_decode_audio_says_what_it_cannot_read(given: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(AudioError, match=r"missing\.wav"):
        ours.decode_audio(str(tmp_path / "missing.wav"), **given)
    with pytest.raises(AudioError, match="not media"):
        ours.decode_audio(io.BytesIO(b"nothing of the kind" * 100), **given)


@pytest.mark.parametrize("seconds", [0, 0.0004, 1, 59.9996, 61.5, 3599.9999, 3600, 360_000.25])
@pytest.mark.parametrize("hours", [False, True])
@pytest.mark.parametrize("marker", [".", ","])
def test_format_timestamp(seconds: float, hours: bool, marker: str) -> None:
    found = ours.format_timestamp(seconds, hours, marker)
    assert found == theirs.format_timestamp(seconds, hours, marker)


def test_format_timestamp_refuses_what_is_no_time() -> None:
    with pytest.raises(OptionError, match="negative"):
        ours.format_timestamp(-1)


def test_available_models() -> None:
    assert set(ours.available_models()) == set(theirs.available_models())


def test_download_model_takes_what_is_installed() -> None:
    path = Path(ours.download_model("tiny.en"))
    assert (path / "model.bin").is_file()
    with pytest.raises(OptionError, match="'tiny-en'"):
        ours.download_model("tiny-en")
    with pytest.raises(ModelError, match="small"):
        ours.download_model("small", local_files_only=True)


def test_the_hub_is_asked_as_it_was_told_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = []

    def snapshot_download(repository: str, **keywords: Any) -> str:
        calls.append({"repository": repository, **keywords})
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    assert ours.download_model("tiny.en", str(tmp_path), revision="v1") == str(tmp_path)
    assert calls[0]["repository"] == "Systran/faster-whisper-tiny.en"
    assert (calls[0]["local_dir"], calls[0]["revision"]) == (str(tmp_path), "v1")
    told: dict[str, Any] = {
        "download_root": "weights",
        "local_files_only": True,
        "revision": None,
        "use_auth_token": "secret",
    }
    assert utils.find("small", **told) == str(tmp_path)
    assert (calls[1]["cache_dir"], calls[1]["token"]) == ("weights", "secret")
    assert calls[1]["local_files_only"]
    assert utils.find(tmp_path, **told) == str(tmp_path)
    nothing = dict.fromkeys(told)
    assert utils.find("small", **nothing) == "small"  # type: ignore[arg-type]
    assert len(calls) == 2


def test_features_are_theirs() -> None:
    samples = noise(35)
    found = ours.transcribe.FeatureExtractor(80)(samples)  # type: ignore[attr-defined]
    expected = FeatureExtractor()(samples)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found[:, :-1], expected[:, :-1], atol=1e-5)


def test_detect_language(model: WhisperModel) -> None:
    language, probability, every = model.detect_language(noise(70), vad_filter=False)
    assert language == "fr"
    assert probability == pytest.approx(0.9)
    assert [code for code, _ in every] == ["fr", "en"]
    assert dict(every) == pytest.approx({"fr": 0.9, "en": 0.1})
    assert model.detect_language(np.zeros(16000, np.float32)) == ("en", 0.0, [])
    with pytest.raises(OptionError, match="audio or features"):
        model.detect_language()
    with pytest.raises(OptionError, match="language_detection_threshold"):
        model.detect_language(noise(5), language_detection_threshold=2)


def test_detect_language_of_features(model: WhisperModel) -> None:
    features = model.feature_extractor(noise(70))
    found = model.detect_language(features=features, language_detection_segments=2)
    assert found[0] == "fr"
    assert model._asr.engine.detections == 2  # type: ignore[attr-defined]
    assert model.detect_language(features=features)[1] == pytest.approx(0.9)
    assert model._asr.engine.detections == 5  # type: ignore[attr-defined]
    with pytest.raises(OptionError, match="80 mel bands"):
        model.detect_language(features=features[:40])
    english = Transcriber(FakeEngine(multilingual=False))
    options = detection_options(vad_filter=False, vad_parameters=None, segments=1, threshold=0.5)
    assert _detection.in_features(english, features, options) == ("en", 1.0, [("en", 1.0)])


def test_detect_language_multi_segment(
    model: WhisperModel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    heard = {"language_code": "fr", "language_confidence": pytest.approx(0.9)}
    nobody = {"language_code": None, "language_confidence": 1.0}
    detect = model.detect_language_multi_segment
    assert detect(np.zeros(16000, np.float32)) == nobody
    params: dict[str, Any] = {"vad_filter": False, "language_detection_segments": 2}
    assert detect(noise(70), params) == heard
    assert model._asr.engine.detections == 2  # type: ignore[attr-defined]
    assert detect(noise(70), {**params, "multilingual": True, "language_threshold": 0.2}) == heard
    assert "multilingual" in caplog.text
    with pytest.raises(OptionError, match="'segments' is none of"):
        detect(noise(5), {"segments": 2})
    monkeypatch.setattr(_detection, "seconds_of_speech", lambda *_: (1.0, 70.0))
    spare = {"speech_percentage_threshold": 0.02, "vad_min_silence_duration": 2500}
    assert detect(noise(70), spare) == nobody
    with pytest.raises(OptionError, match="read twice"):
        detect(io.BufferedReader(io.BytesIO(b"")), spare)


def test_speech_timestamps() -> None:
    assert get_speech_timestamps(np.zeros(16000 * 3, np.float32)) == []
    assert get_speech_timestamps(noise(3), threshold=0.0, min_silence_duration_ms=100) == [
        {"start": 0, "end": 48000}
    ]
    with pytest.raises(OptionError, match="sampling_rate"):
        get_speech_timestamps(noise(1), sampling_rate=8000)


def said(*placed: tuple[float, float, float]) -> list[Segment]:
    """Segments of one word each: start, end, probability."""
    return [
        Segment(n, 0, start, end, " word", [], 0, 0, 0, [Word(start, end, " word", p)], 0)
        for n, (start, end, p) in enumerate(placed, start=1)
    ]


@pytest.mark.parametrize(
    ("segments", "kept"),
    [
        (said((0, 1, 0.9), (9, 10, 0.05), (20, 21, 0.9)), [0, 20]),  # between silences
        (said((0, 1, 0.9), (2, 3, 0.05), (20, 21, 0.9)), [0, 2, 20]),  # after speech
        (said((0, 1, 0.9), (9, 10, 0.05), (11, 12, 0.9)), [0, 9, 11]),  # before speech
        (said((0, 1, 0.9), (9, 10, 0.05), (11, 12, 0.05)), [0]),  # before another
        (said((0, 1, 0.05), (9, 10, 0.9)), [9]),  # at the start
        (said((0, 1, 0.9), (9, 9.05, 0.9)), [0]),  # too short to be said
        (said((0, 1, 0.9), (9, 14, 0.9)), [0]),  # too long
        ([], []),
    ],
)
def test_anomalies(segments: list[Segment], kept: list[float]) -> None:
    found = list(without_anomalies(segments, 2.0))
    assert [segment.start for segment in found] == kept
    assert [segment.id for segment in found] == list(range(1, len(kept) + 1))


def test_anomalies_are_left_out_of_a_transcript(
    model: WhisperModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"vad_filter": False, "hallucination_silence_threshold": 2.0}

    def none(segments: Iterable[Segment], silence: float) -> Iterable[Segment]:
        assert silence == 2.0
        return [segment for segment in segments if not segment.words]

    monkeypatch.setattr("whisperbatch.compat.faster_whisper._session.without_anomalies", none)
    assert len(list(model.transcribe(noise(40), **given)[0])) == 2
    assert list(model.transcribe(noise(40), word_timestamps=True, **given)[0]) == []
