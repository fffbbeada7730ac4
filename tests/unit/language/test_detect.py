"""`Transcriber.detect_language`, also on damaged files."""

import io
import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.unit.fakes import FakeEngine, noise
from tests.unit.media_files import UnseekableBytes, encode
from whisperbatch import (
    AudioError,
    ClosedError,
    OptionError,
    Options,
    Transcriber,
    chunk_audio,
    open_audio,
)
from whisperbatch.types import LanguageDetection


@pytest.fixture(scope="module")
def wav() -> bytes:
    return encode([noise(300)], "wav", "pcm_s16le", rate=16_000)


def check(detection: LanguageDetection, windows: int, duration: float) -> None:
    assert (detection.language, detection.reason) == ("fr", "")
    assert detection.probability == pytest.approx(0.9)
    assert list(detection.probabilities) == ["fr", "en"]
    assert detection.probabilities == pytest.approx({"fr": 0.9, "en": 0.1})
    assert len(detection.windows) == windows
    assert {(window.language, window.probability) for window in detection.windows} == {("fr", 0.9)}
    times = [time for window in detection.windows for time in (window.start, window.end)]
    assert times == sorted(times)
    assert times[0] >= 0
    assert times[-1] <= duration


def test_windows_are_spread_over_the_recording() -> None:
    engine = FakeEngine()
    detection = Transcriber(engine).detect_language(noise(300), vad=False)
    check(detection, 8, 300)
    assert detection.windows[-1].end > 250
    assert engine.detections == 8
    assert engine.batches == []  # nothing is decoded


@pytest.mark.parametrize("seconds", [2, 9, 25])
def test_windows_cover_a_short_recording(seconds: int) -> None:
    detection = Transcriber(FakeEngine()).detect_language(noise(seconds), vad=False)
    check(detection, -(-seconds // 10), seconds)
    assert sum(window.end - window.start for window in detection.windows) == pytest.approx(seconds)


def test_number_and_length_of_the_windows_are_options(wav: bytes, tmp_path: Path) -> None:
    path = tmp_path / "noise.wav"
    path.write_bytes(wav)
    asr = Transcriber(FakeEngine())
    for source in (path, wav, io.BytesIO(wav)):
        check(asr.detect_language(source, vad=False), 8, 300)
    file = io.BytesIO(wav)
    few = asr.detect_language(
        file, vad=False, language_detection_segments=2, language_detection_length=4
    )
    check(few, 2, 300)
    assert max(window.end - window.start for window in few.windows) <= 4
    assert not file.closed


def test_a_recording_without_random_access_is_read_completely(
    wav: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "whisperbatch.pipeline_run")
    asr = Transcriber(FakeEngine())
    asr.detect_language(io.BytesIO(wav), vad=False)
    assert "needs the whole recording" not in caplog.text
    detection = asr.detect_language(UnseekableBytes(wav), vad=False)
    assert (
        "<UnseekableBytes>: it cannot be read out of order, so the language needs the whole"
        in caplog.text
    )
    check(detection, 8, 300)
    assert detection.windows[-1].end > 200


@pytest.mark.parametrize("kind", [io.BytesIO, UnseekableBytes])
def test_windows_lie_in_the_ranges(wav: bytes, kind: type[io.BytesIO]) -> None:
    detection = Transcriber(FakeEngine()).detect_language(
        kind(wav), vad=False, clip_timestamps=((20, 33), (100, 124))
    )
    check(detection, 5, 124)
    for window in detection.windows:
        start, end = window.start, window.end
        assert 20 <= start < end <= 33 or 100 <= start < end <= 124


def test_an_english_only_model_detects_english_and_gives_the_reason() -> None:
    engine = FakeEngine(multilingual=False)
    detection = Transcriber(engine).detect_language(noise(10), vad=False)
    assert (detection.language, detection.probability, detection.windows) == ("en", 1.0, ())
    assert detection.reason == "model fake is English-only"
    assert engine.detections == 0
    with pytest.raises(OptionError, match="languages: model fake is English-only"):
        Transcriber(engine).detect_language(noise(10), languages=("de",))


@pytest.mark.parametrize("vad", [False, True])
def test_silence_has_no_language(vad: bool) -> None:
    engine = FakeEngine()
    for source in (np.zeros(320_000, np.int16), np.zeros(100, np.float32)):
        detection = Transcriber(engine).detect_language(source, vad=vad)
        assert (detection.language, detection.probability, detection.windows) == (None, 0.0, ())
        assert detection.reason == "the recording has no speech"
    assert engine.detections == 0


def test_only_candidate_languages_are_detected() -> None:
    asr = Transcriber(FakeEngine())
    detection = asr.detect_language(noise(20), vad=False, languages=("german", "en"))
    assert (detection.language, detection.probability) == ("en", 1.0)
    assert detection.probabilities == {"en": 1.0, "de": 0.0}
    assert {window.language for window in detection.windows} == {"en"}


@pytest.mark.parametrize("kind", [io.BytesIO, UnseekableBytes])
def test_margins_may_be_longer_than_the_windows(kind: type[io.BytesIO]) -> None:
    wav = encode([noise(15)], "wav", "pcm_s16le", rate=16_000)
    detection = Transcriber(FakeEngine()).detect_language(kind(wav), speech_pad=5)
    assert detection.reason == "the recording has no speech"


def test_a_recording_with_less_speech_than_required_has_a_language() -> None:
    with Transcriber(FakeEngine()) as asr:
        detection = asr.detect_language(noise(0.7), vad=False)
    assert detection.language == "fr"


def test_the_whole_recording_is_read_if_the_windows_have_no_speech() -> None:
    samples = np.zeros(16_000 * 3000, np.float32)
    samples[16_000 * 45 : 16_000 * 60] = noise(15)
    with Transcriber(FakeEngine()) as asr:
        detection = asr.detect_language(samples, vad=False)
    assert detection.language == "fr"
    assert [round(window.start) for window in detection.windows] == [45, 51]


def test_an_english_only_model_accepts_detection_options() -> None:
    with Transcriber(FakeEngine(multilingual=False)) as asr:
        detection = asr.detect_language(
            noise(1), language_detection_length=20.0, languages=("fr", "en")
        )
        assert detection.language == "en"
        transcript = asr.transcribe(noise(1), vad=False, language_detection_threshold=0.4)
    assert transcript.language == "en"


def test_errors_are_the_errors_of_transcribe(tmp_path: Path) -> None:
    asr = Transcriber(FakeEngine())
    with pytest.raises(AudioError, match=r"nowhere\.wav: there is no such file"):
        asr.detect_language(tmp_path / "nowhere.wav")
    with pytest.raises(OptionError, match="beam_size has no effect on detect_language"):
        asr.detect_language(noise(1), beam_size=2)  # type: ignore[call-arg]
    asr.close()
    with pytest.raises(ClosedError):
        asr.detect_language(noise(1))


def test_an_open_reader_keeps_its_position_without_read_through(wav: bytes) -> None:
    asr = Transcriber(FakeEngine())
    with open_audio(wav) as reader:
        detection = asr.detect_language(reader, read_through=False, vad=False)
        assert detection == asr.detect_language(wav, vad=False)
        assert reader.position == 0
        assert not reader.closed
        assert asr.transcribe(reader, language="fr", vad=False).duration == 300
        assert reader.closed  # a transcription closes it
    with open_audio(UnseekableBytes(wav)) as reader:
        detection = asr.detect_language(reader, read_through=False, vad=False)
        assert (detection.language, detection.windows) == (None, ())
        assert "needs the whole recording" in detection.reason
        assert reader.position == 0
        assert asr.detect_language(reader, vad=False).language == "fr"
        assert reader.position == 300 * 16_000
        assert not reader.closed


def test_an_open_reader_keeps_the_options_it_was_opened_with(wav: bytes) -> None:
    asr = Transcriber(FakeEngine())
    with (
        open_audio(wav, Options(channel="left")) as reader,
        pytest.raises(OptionError, match="channel='right': <bytes> is open with channel='left'"),
    ):
        asr.detect_language(reader, channel="right")


def test_chunk_audio_needs_no_model(wav: bytes) -> None:
    chunks = list(chunk_audio(wav, vad=False, chunk_length=20.0))
    assert chunks[0].start == 0
    assert chunks[-1].end == 300 * 16_000
    assert all(chunk.length <= 20 * 16_000 for chunk in chunks)
    assert sum(chunk.speech_duration for chunk in chunks) == 300
    with pytest.raises(OptionError, match="chunk_length"):
        chunk_audio(wav, chunk_length=50.0)
    with open_audio(wav) as reader:
        assert len(list(chunk_audio(reader, vad=False, chunk_length=20.0))) == len(chunks)
        assert not reader.closed


RATE = 48_000
FORMATS = {
    "wav": ("wav", "pcm_s16le"),
    "flac": ("flac", "flac"),
    "mp3": ("mp3", "libmp3lame"),
    "m4a": ("ipod", "aac"),
    "aac": ("adts", "aac"),
    "ogg": ("ogg", "libopus"),
    "webm": ("webm", "libopus"),
    "ts": ("mpegts", "aac"),
    "mov": ("mov", "pcm_s16be"),
    "ac3": ("ac3", "ac3"),
}


@cache
def media(kind: str) -> bytes:
    return encode([noise(6)], *FORMATS[kind], rate=RATE)


def flipped(data: bytes, rng: np.random.Generator, first: int, last: int, count: int) -> bytes:
    """The data with `count` other bytes between two positions."""
    array = np.frombuffer(data, np.uint8).copy()
    last = min(last, len(data))
    array[rng.integers(first, last, count)] = rng.integers(0, 256, count, np.uint8)
    return array.tobytes()


def hole(data: bytes, rng: np.random.Generator) -> bytes:
    """The data without a stretch."""
    first, last = sorted(rng.integers(0, len(data), 2))
    return data[:first] + data[last:]


def shuffled(data: bytes, rng: np.random.Generator) -> bytes:
    """The data with its blocks in another order."""
    blocks = [data[start : start + 4096] for start in range(0, len(data), 4096)]
    return b"".join(blocks[number] for number in rng.permutation(len(blocks)))


Damage = Callable[[bytes, np.random.Generator], bytes]
DAMAGE: dict[str, Damage] = {
    "header": lambda data, rng: flipped(data, rng, 0, 400, 12),
    "start": lambda data, rng: flipped(data, rng, 8, 64, 3),
    "end": lambda data, rng: flipped(data, rng, len(data) * 9 // 10, len(data), 200),
    "everywhere": lambda data, rng: flipped(data, rng, 0, len(data), len(data) // 100),
    "cut": lambda data, rng: data[: int(rng.integers(1, len(data)))],
    "beginning lost": lambda data, rng: data[int(rng.integers(1, len(data))) :],
    "hole": hole,
    "zeros": lambda data, rng: data[:2000] + bytes(len(data) // 2) + data[2000:],
    "shuffled": shuffled,
    "twice": lambda data, rng: data + data[len(data) // 3 :],
}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_has_a_language_or_an_audio_error(
    kind: str, damage: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(list(f"{damage} {kind}".encode()))
    data = DAMAGE[damage](media(kind), rng)
    path = tmp_path / f"damaged.{kind}"
    path.write_bytes(data)
    with Transcriber(FakeEngine()) as asr:
        for source in (data, path):
            try:
                detection = asr.detect_language(source, vad=False)
            except AudioError as error:
                assert "\n" not in str(error)  # noqa: PT017 - the error is optional
            else:
                assert isinstance(detection, LanguageDetection)
    assert capfd.readouterr() == ("", "")
