"""`detect_language` from source to answer, on an engine that hears French in everything."""

import io
import logging
from pathlib import Path

import numpy as np
import pytest

from tests.unit.fakes import FakeEngine, noise
from tests.unit.media_files import encode
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


class Unseekable(io.BytesIO):
    def seekable(self) -> bool:
        return False


@pytest.fixture(scope="module")
def wav() -> bytes:
    return encode([noise(300)], "wav", "pcm_s16le", rate=16_000)


def check(found: LanguageDetection, windows: int, duration: float) -> None:
    assert (found.language, found.reason) == ("fr", "")
    assert found.probability == pytest.approx(0.9)
    assert list(found.probabilities) == ["fr", "en"]
    assert found.probabilities == pytest.approx({"fr": 0.9, "en": 0.1})
    assert len(found.windows) == windows
    assert {(one.language, one.probability) for one in found.windows} == {("fr", 0.9)}
    times = [time for one in found.windows for time in (one.start, one.end)]
    assert times == sorted(times)
    assert times[0] >= 0
    assert times[-1] <= duration


def test_windows_all_over_the_recording_tell() -> None:
    engine = FakeEngine()
    found = Transcriber(engine).detect_language(noise(300), vad=False)
    check(found, 8, 300)
    assert found.windows[-1].end > 250
    assert engine.detections == 8
    assert engine.batches == []  # nothing is decoded


@pytest.mark.parametrize("seconds", [2, 9, 25])
def test_short_recordings_are_heard_whole(seconds: int) -> None:
    found = Transcriber(FakeEngine()).detect_language(noise(seconds), vad=False)
    check(found, -(-seconds // 10), seconds)
    assert sum(one.end - one.start for one in found.windows) == pytest.approx(seconds)


def test_a_file_is_read_only_where_it_is_listened_to(wav: bytes, tmp_path: Path) -> None:
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
    assert max(one.end - one.start for one in few.windows) <= 4
    assert not file.closed


def test_what_cannot_be_sought_is_read_through(
    wav: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "whisperbatch.pipeline")
    asr = Transcriber(FakeEngine())
    asr.detect_language(io.BytesIO(wav), vad=False)
    assert "needs the whole recording" not in caplog.text
    found = asr.detect_language(Unseekable(wav), vad=False)
    assert (
        "<Unseekable>: it cannot be read out of order, so the language needs the whole"
        in caplog.text
    )
    check(found, 8, 300)
    assert found.windows[-1].end > 200


@pytest.mark.parametrize("kind", [io.BytesIO, Unseekable])
def test_only_the_ranges_asked_for_are_listened_to(wav: bytes, kind: type[io.BytesIO]) -> None:
    found = Transcriber(FakeEngine()).detect_language(
        kind(wav), vad=False, clip_timestamps=((20, 33), (100, 124))
    )
    check(found, 5, 124)
    for one in found.windows:
        assert 20 <= one.start < one.end <= 33 or 100 <= one.start < one.end <= 124


def test_an_english_only_model_says_english_and_why() -> None:
    engine = FakeEngine(multilingual=False)
    found = Transcriber(engine).detect_language(noise(10), vad=False)
    assert (found.language, found.probability, found.windows) == ("en", 1.0, ())
    assert found.reason == "model fake is English-only"
    assert engine.detections == 0
    with pytest.raises(OptionError, match="languages: model fake is English-only"):
        Transcriber(engine).detect_language(noise(10), languages=("de",))


@pytest.mark.parametrize("vad", [False, True])
def test_of_silence_there_is_no_language(vad: bool) -> None:
    engine = FakeEngine()
    for source in (np.zeros(320_000, np.int16), np.zeros(100, np.float32)):
        found = Transcriber(engine).detect_language(source, vad=vad)
        assert (found.language, found.probability, found.windows) == (None, 0.0, ())
        assert found.reason == "nobody speaks"
    assert engine.detections == 0


def test_only_candidates_are_heard() -> None:
    asr = Transcriber(FakeEngine())
    found = asr.detect_language(noise(20), vad=False, languages=("german", "en"))
    assert (found.language, found.probability) == ("en", 1.0)
    assert found.probabilities == {"en": 1.0, "de": 0.0}
    assert {one.language for one in found.windows} == {"en"}


@pytest.mark.parametrize("kind", [io.BytesIO, Unseekable])
def test_wide_margins_do_no_harm(kind: type[io.BytesIO]) -> None:
    wav = encode([noise(15)], "wav", "pcm_s16le", rate=16_000)
    found = Transcriber(FakeEngine()).detect_language(kind(wav), speech_pad=5)
    assert found.reason == "nobody speaks"


def test_a_clip_too_short_to_tell_much_still_tells(tmp_path: Path) -> None:
    with Transcriber(FakeEngine()) as asr:
        found = asr.detect_language(noise(0.7), vad=False)
    assert found.language == "fr"


def test_speech_that_no_window_meets_is_found_by_reading_on() -> None:
    samples = np.zeros(16_000 * 3000, np.float32)
    samples[16_000 * 45 : 16_000 * 60] = noise(15)
    with Transcriber(FakeEngine()) as asr:
        found = asr.detect_language(samples, vad=False)
    assert found.language == "fr"
    assert [round(one.start) for one in found.windows] == [45, 51]


def test_an_english_only_model_needs_no_detection_options() -> None:
    with Transcriber(FakeEngine(multilingual=False)) as asr:
        found = asr.detect_language(
            noise(1), language_detection_length=20.0, languages=("fr", "en")
        )
        assert found.language == "en"
        transcript = asr.transcribe(noise(1), vad=False, language_detection_threshold=0.4)
    assert transcript.language == "en"


def test_errors_are_those_of_a_transcription(tmp_path: Path) -> None:
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
        found = asr.detect_language(reader, read_through=False, vad=False)
        assert found == asr.detect_language(wav, vad=False)
        assert reader.position == 0
        assert not reader.closed
        assert asr.transcribe(reader, language="fr", vad=False).duration == 300
        assert reader.closed  # a transcription closes it
    with open_audio(Unseekable(wav)) as reader:
        found = asr.detect_language(reader, read_through=False, vad=False)
        assert (found.language, found.windows) == (None, ())
        assert "reading the recording through" in found.reason
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


def test_the_chunks_of_a_recording_need_no_model(wav: bytes) -> None:
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
