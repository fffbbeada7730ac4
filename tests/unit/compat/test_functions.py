"""Functions of the drop-in: audio, weights, times, languages, VAD, anomalies."""

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import faster_whisper as theirs
import numpy as np
import pytest
from faster_whisper.feature_extractor import FeatureExtractor

from benchmarks.faster_whisper_files import let_faster_whisper_open_files
from tests.unit.fakes import FakeEngine, noise
from tests.unit.media_files import encode, tone
from whisperbatch import AudioError, ModelError, OptionError, Transcriber
from whisperbatch.compat import faster_whisper as ours
from whisperbatch.compat.faster_whisper import Segment, WhisperModel, Word, _detection, utils
from whisperbatch.compat.faster_whisper._arguments import detection_options
from whisperbatch.compat.faster_whisper._session import (
    Clip,
    from_window_start,
    with_clip_times,
    without_anomalies,
)
from whisperbatch.compat.faster_whisper.vad import get_speech_timestamps

let_faster_whisper_open_files()


@pytest.fixture(scope="module")
def stereo() -> bytes:
    channels = [tone(400, 2, 44_100), tone(900, 2, 44_100)]
    return encode(channels, "wav", "pcm_s16le", rate=44_100, layout="stereo")


@pytest.mark.parametrize("rate", [8_000, 16_000, 24_000])
def test_decode_audio_equals_theirs_except_the_level_of_a_mix(stereo: bytes, rate: int) -> None:
    expected = theirs.decode_audio(io.BytesIO(stereo), sampling_rate=rate, split_stereo=True)
    channels = ours.decode_audio(io.BytesIO(stereo), sampling_rate=rate, split_stereo=True)
    assert isinstance(channels, tuple)
    for channel, their_channel in zip(channels, expected, strict=True):
        assert channel.dtype == np.float32
        assert channel.shape == (2 * rate,)
        their_part = their_channel[100 : len(channel) - 100]
        np.testing.assert_allclose(channel[100:-100], their_part, atol=2e-4)
    mixed = ours.decode_audio(io.BytesIO(stereo), rate)
    assert isinstance(mixed, np.ndarray)
    np.testing.assert_allclose(mixed, (channels[0] + channels[1]) / 2, atol=1e-6)


def test_decode_audio_of_one_channel(tmp_path: Path) -> None:
    path = tmp_path / "tone.wav"
    path.write_bytes(encode([tone(400, 1)], "wav", "pcm_s16le", rate=16_000))
    left, right = ours.decode_audio(path, split_stereo=True)
    mono = ours.decode_audio(str(path))
    assert isinstance(mono, np.ndarray)
    for channel in (left, right):
        np.testing.assert_array_equal(channel, mono)
    np.testing.assert_allclose(mono, theirs.decode_audio(str(path)), atol=1e-4)


@pytest.mark.parametrize("arguments", [{}, {"split_stereo": True}, {"sampling_rate": 8000}])
def test_decode_audio_names_unreadable_files(arguments: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(AudioError, match=r"missing\.wav"):
        ours.decode_audio(str(tmp_path / "missing.wav"), **arguments)
    with pytest.raises(AudioError, match="not media"):
        ours.decode_audio(io.BytesIO(b"not a recording" * 100), **arguments)


@pytest.mark.parametrize("seconds", [0, 0.0004, 1, 59.9996, 61.5, 3599.9999, 3600, 360_000.25])
@pytest.mark.parametrize("hours", [False, True])
@pytest.mark.parametrize("marker", [".", ","])
def test_format_timestamp(seconds: float, hours: bool, marker: str) -> None:
    text = ours.format_timestamp(seconds, hours, marker)
    assert text == theirs.format_timestamp(seconds, hours, marker)


def test_format_timestamp_refuses_negative_times() -> None:
    with pytest.raises(OptionError, match="negative"):
        ours.format_timestamp(-1)


def test_available_models() -> None:
    assert set(ours.available_models()) == set(theirs.available_models())


def test_download_model_uses_installed_weights() -> None:
    path = Path(ours.download_model("tiny.en"))
    assert (path / "model.bin").is_file()
    with pytest.raises(OptionError, match="'tiny-en'"):
        ours.download_model("tiny-en")
    with pytest.raises(ModelError, match="small"):
        ours.download_model("small", local_files_only=True)


def test_arguments_are_passed_to_the_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls = []

    def snapshot_download(repository: str, **keywords: Any) -> str:
        calls.append({"repository": repository, **keywords})
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    assert ours.download_model("tiny.en", str(tmp_path), revision="v1") == str(tmp_path)
    assert calls[0]["repository"] == "Systran/faster-whisper-tiny.en"
    assert (calls[0]["local_dir"], calls[0]["revision"]) == (str(tmp_path), "v1")
    arguments: dict[str, Any] = {
        "download_root": "weights",
        "local_files_only": True,
        "revision": None,
        "use_auth_token": "secret",
    }
    assert utils.model_to_load("small", **arguments) == str(tmp_path)
    assert (calls[1]["cache_dir"], calls[1]["token"]) == ("weights", "secret")
    assert calls[1]["local_files_only"]
    assert utils.model_to_load(tmp_path, **arguments) == str(tmp_path)
    no_arguments = dict.fromkeys(arguments)
    assert utils.model_to_load("small", **no_arguments) == "small"  # type: ignore[arg-type]
    assert len(calls) == 2


def test_features_equal_theirs() -> None:
    samples = noise(35)
    features = ours.transcribe.FeatureExtractor(80)(samples)
    expected = FeatureExtractor()(samples)
    assert features.shape == expected.shape
    np.testing.assert_allclose(features[:, :-1], expected[:, :-1], atol=1e-5)


def test_detect_language(model: WhisperModel) -> None:
    language, probability, ranked = model.detect_language(noise(70), vad_filter=False)
    assert language == "fr"
    assert probability == pytest.approx(0.9)
    assert [code for code, _ in ranked] == ["fr", "en"]
    assert dict(ranked) == pytest.approx({"fr": 0.9, "en": 0.1})
    assert model.detect_language(np.zeros(16000, np.float32)) == ("en", 0.0, [])
    with pytest.raises(OptionError, match="audio or features"):
        model.detect_language()
    with pytest.raises(OptionError, match="language_detection_threshold"):
        model.detect_language(noise(5), language_detection_threshold=2)


def test_detect_language_of_features(model: WhisperModel) -> None:
    features = model.feature_extractor(noise(70))
    detected = model.detect_language(features=features, language_detection_segments=2)
    assert detected[0] == "fr"
    assert model._asr.engine.detections == 2  # type: ignore[attr-defined]
    assert model.detect_language(features=features)[1] == pytest.approx(0.9)
    assert model._asr.engine.detections == 5  # type: ignore[attr-defined]
    with pytest.raises(OptionError, match="80 mel bands"):
        model.detect_language(features=features[:40])
    english = Transcriber(FakeEngine(multilingual=False))
    options = detection_options(vad_filter=False, vad_parameters=None, segments=1, threshold=0.5)
    assert _detection.detect_in_features(english, features, options) == ("en", 1.0, [("en", 1.0)])


def test_detect_language_multi_segment(
    model: WhisperModel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    french = {"language_code": "fr", "language_confidence": pytest.approx(0.9)}
    no_speech = {"language_code": None, "language_confidence": 1.0}
    detect = model.detect_language_multi_segment
    assert detect(np.zeros(16000, np.float32)) == no_speech
    params: dict[str, Any] = {"vad_filter": False, "language_detection_segments": 2}
    assert detect(noise(70), params) == french
    assert model._asr.engine.detections == 2  # type: ignore[attr-defined]
    assert detect(noise(70), {**params, "multilingual": True, "language_threshold": 0.2}) == french
    assert "multilingual" in caplog.text
    with pytest.raises(OptionError, match="'segments' is none of"):
        detect(noise(5), {"segments": 2})
    monkeypatch.setattr(_detection, "seconds_of_speech", lambda *_: (1.0, 70.0))
    min_speech = {"speech_percentage_threshold": 0.02, "vad_min_silence_duration": 2500}
    assert detect(noise(70), min_speech) == no_speech
    with pytest.raises(OptionError, match="read twice"):
        detect(io.BufferedReader(io.BytesIO(b"")), min_speech)


def test_speech_timestamps() -> None:
    assert get_speech_timestamps(np.zeros(16000 * 3, np.float32)) == []
    assert get_speech_timestamps(noise(3), threshold=0.0, min_silence_duration_ms=100) == [
        {"start": 0, "end": 48000}
    ]
    with pytest.raises(OptionError, match="sampling_rate"):
        get_speech_timestamps(noise(1), sampling_rate=8000)


def segments_of(*words: tuple[float, float, float]) -> list[Segment]:
    """Return segments of one word each, given as (start, end, probability)."""
    return [
        Segment(n, 0, start, end, " word", [], 0, 0, 0, [Word(start, end, " word", p)], 0)
        for n, (start, end, p) in enumerate(words, start=1)
    ]


@pytest.mark.parametrize(
    ("segments", "starts"),
    [
        (segments_of((0, 1, 0.9), (9, 10, 0.05), (20, 21, 0.9)), [0, 20]),  # between silences
        (segments_of((0, 1, 0.9), (2, 3, 0.05), (20, 21, 0.9)), [0, 2, 20]),  # after speech
        (segments_of((0, 1, 0.9), (9, 10, 0.05), (11, 12, 0.9)), [0, 9, 11]),  # before speech
        (segments_of((0, 1, 0.9), (9, 10, 0.05), (11, 12, 0.05)), [0]),  # before another anomaly
        (segments_of((0, 1, 0.05), (9, 10, 0.9)), [9]),  # at the start
        (segments_of((0, 1, 0.9), (9, 9.05, 0.9)), [0]),  # too short for a spoken word
        (segments_of((0, 1, 0.9), (9, 14, 0.9)), [0]),  # too long for a spoken word
        ([], []),
    ],
)
def test_anomalous_segments_in_silence_are_dropped(
    segments: list[Segment], starts: list[float]
) -> None:
    remaining = list(without_anomalies(segments, 2.0))
    assert [segment.start for segment in remaining] == starts
    assert [segment.id for segment in remaining] == list(range(1, len(starts) + 1))


def test_anomalies_are_dropped_only_with_word_timestamps(
    model: WhisperModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments: dict[str, Any] = {"vad_filter": False, "hallucination_silence_threshold": 2.0}

    def drop_all(segments: Iterable[Segment], silence: float) -> Iterable[Segment]:
        assert silence == 2.0
        return [segment for segment in segments if not segment.words]

    monkeypatch.setattr("whisperbatch.compat.faster_whisper._session.without_anomalies", drop_all)
    assert len(list(model.transcribe(noise(40), **arguments)[0])) == 2
    assert list(model.transcribe(noise(40), word_timestamps=True, **arguments)[0]) == []


def segments(*times: tuple[float, float]) -> list[Segment]:
    return [Segment(1, 0, start, end, " a", [], 0, 0, 0, None, 0) for start, end in times]


@pytest.mark.parametrize(
    ("words", "clips", "expected"),
    [
        ([(0.3, 10.2), (11.4, 21)], [(0, 11), (11, 22)], [(0, 11), (11, 22)]),
        ([(0.3, 20), (31, 44)], [(0, 45)], [(0, 20), (31, 45)]),  # two chunks of one clip
        ([(5.3, 20)], [(0, 4), (5, None)], [(5, 20)]),  # no speech in the first clip
        ([(50, 51)], [(0, 4)], [(50, 51)]),
        ([], [(0, 4)], []),
    ],
)
def test_segments_have_the_times_of_their_clips(
    words: list[tuple[float, float]], clips: list[Clip], expected: list[tuple[float, float]]
) -> None:
    timed = with_clip_times(segments(*words), clips)
    assert [(segment.start, segment.end) for segment in timed] == expected


def test_text_with_a_prefix_starts_with_its_window() -> None:
    words = [(0.4, 2.0), (2.5, 3.0)]
    assert [s.start for s in from_window_start(segments(*words), 0.0, 1.0)] == [0.0, 2.5]
    assert [s.start for s in from_window_start(segments(*words), 0.0, 0.3)] == [0.4, 2.5]
    assert list(from_window_start([], 0.0, 1.0)) == []
