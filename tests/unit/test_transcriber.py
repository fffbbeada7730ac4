"""`Transcriber` with single recordings: segments, languages, ranges, and checks of arguments."""

import copy
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whisperbatch as wb
from tests.unit.fakes import FakeEngine, noise, write_noise
from tests.unit.slow_engine import SlowEngine
from whisperbatch import Options, Transcriber
from whisperbatch.decoding.prompts import WhisperTokenizer

pytestmark = pytest.mark.usefixtures("no_threads_left")


def test_segments_are_in_order_and_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = SlowEngine(monkeypatch, ahead=4, total=15)
    clips = tuple((float(start), start + 28.0) for start in range(0, 420, 28))
    with Transcriber(engine) as asr:
        transcript = asr.transcribe(
            noise(420), vad=False, language="en", batch_size=4, clip_timestamps=clips
        )
    segments = transcript.segments
    assert sorted(segment.text for segment in segments) == sorted(
        f"Sentence {n}." for n in range(len(segments))
    )
    assert [segment.id for segment in segments] == list(range(len(segments)))
    assert sum(engine.batches) == len(segments) == 15
    assert max(engine.batches) == 4
    assert len(engine.batches) <= 7  # the engine is slower than the reading
    assert transcript.duration == 420
    assert transcript.source == "<array>"
    assert (transcript.language, transcript.language_probability) == ("en", 1.0)
    starts = [segment.start for segment in segments]
    assert starts == sorted(starts)
    assert starts[0] == 0
    assert starts[-1] > 365


def test_features_in_float16_reach_an_engine_that_asks_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = Options(vad=False, beam_size=1, segments="chunk")
    transcripts, types = [], []
    for dtype in (np.float32, np.float16):
        monkeypatch.setattr(FakeEngine, "feature_type", dtype, raising=False)
        engine = FakeEngine(decode=lambda call: f" Peak {call.row.peak:.1f}.")
        with Transcriber(engine) as asr:  # the language is detected, from windows and rows
            transcripts.append(asr.transcribe(noise(70), options=options))
        types.append(engine.features.dtype)
    assert types == [np.float32, np.float16]
    assert transcripts[0].segments == transcripts[1].segments


@pytest.mark.parametrize(("given", "expected"), [({}, 3), ({"batch_size": 5}, 5)])
def test_the_engine_chooses_the_batch_size_unless_it_is_given(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], expected: int
) -> None:
    choose = {1: 3, 5: 99}  # by the number of beams
    monkeypatch.setattr(FakeEngine, "default_batch_size", choose.get, raising=False)
    engine = FakeEngine(delay={"decode": 0.1})
    clips = tuple((float(start), start + 2.0) for start in range(0, 60, 2))
    options = Options(vad=False, language="en", beam_size=1, clip_timestamps=clips)
    with Transcriber(engine) as asr:
        assert len(asr.transcribe(noise(60), options=options, **given).segments) == 30
        assert len(list(asr.transcribe_many([noise(12)] * 5, options=options, **given))) == 5
    assert max(engine.batches) == expected


def test_silence_gives_an_empty_transcript(asr: Transcriber, engine: FakeEngine) -> None:
    transcript = asr.transcribe(np.zeros(16000 * 100, np.float32))
    silent = wb.Transcript((), None, 0.0, 100.0, "<array>", notices=transcript.notices)
    assert transcript == silent
    [notice] = transcript.notices
    assert (notice.kind, notice.start, notice.end) == ("no speech", 0.0, 100.0)
    assert transcript.text == ""
    assert engine.batches == []


def test_the_language_is_detected_once_for_a_recording(
    asr: Transcriber, engine: FakeEngine
) -> None:
    transcript = asr.transcribe(noise(600), vad=False)
    assert engine.detections == 8  # language windows
    assert transcript.language == "fr"
    assert transcript.language_probability == pytest.approx(0.9)
    assert {segment.language for segment in transcript.segments} == {"fr"}
    french = engine.tokenizer.token_to_id("<|fr|>")
    assert all(prompt[1] == french for prompt in engine.prompts)


@pytest.mark.parametrize(("seconds", "detections"), [(100, 5), (600, 8)])
def test_no_batch_is_decoded_before_the_language_is_decided(seconds: int, detections: int) -> None:
    """The first chunks decide for 100 s, and language windows for 600 s."""
    engine = FakeEngine(workers=4, delay={"detect_language": 0.3})
    with Transcriber(engine) as asr:
        transcript = asr.transcribe(noise(seconds), vad=False, batch_size=2)
    assert {segment.language for segment in transcript.segments} == {"fr"}
    assert engine.detections == detections


def test_a_failed_language_detection_is_raised() -> None:
    engine = FakeEngine(workers=4, failing={"detect_language": {0}})
    with Transcriber(engine) as asr, pytest.raises(wb.EngineError, match="detect_language failed"):
        asr.transcribe(noise(600), vad=False, batch_size=2)


def test_an_english_only_model_accepts_english_only() -> None:
    with Transcriber(FakeEngine(multilingual=False)) as asr:
        transcript = asr.transcribe(noise(5), vad=False)
        assert (transcript.language, transcript.language_probability) == ("en", 1.0)
        for wrong in ({"language": "fr"}, {"task": "translate"}):
            with pytest.raises(wb.OptionError, match="English-only"):
                asr.transcribe(noise(5), **wrong)  # type: ignore[arg-type]


def test_languages_and_tokens_that_the_model_lacks_are_refused(asr: Transcriber) -> None:
    with pytest.raises(wb.OptionError, match="'yue': model fake does not know this language"):
        asr.transcribe(noise(5), language="cantonese")
    last = WhisperTokenizer(asr.engine.tokenizer, multilingual=True).size - 1
    with pytest.raises(wb.OptionError, match=f"no token {last + 1}; the last token is {last}"):
        asr.transcribe(noise(5), suppress_tokens=(-1, last + 1))
    assert asr.transcribe(noise(5), vad=False, suppress_tokens=(last,)).segments


def test_a_translation_is_in_english(asr: Transcriber, engine: FakeEngine) -> None:
    transcript = asr.transcribe(noise(5), vad=False, task="translate")
    assert transcript.language == "fr"
    assert transcript.segments[0].language == "en"
    assert engine.tokenizer.token_to_id("<|translate|>") in engine.prompts[0]


def test_a_file_opened_by_the_caller_stays_open(asr: Transcriber, tmp_path: Path) -> None:
    with write_noise(tmp_path / "a.wav").open("rb") as file:
        asr.transcribe(file, vad=False)
        assert not file.closed


def test_threads_can_share_a_transcriber() -> None:
    with Transcriber(FakeEngine(workers=2)) as asr, ThreadPoolExecutor(8) as pool:
        lengths = [31.0, 62.0, 93.0, 5.0] * 4
        transcripts = list(
            pool.map(lambda seconds: asr.transcribe(noise(seconds), vad=False), lengths)
        )
    assert [round(transcript.duration) for transcript in transcripts] == [31, 62, 93, 5] * 4
    for transcript in transcripts:
        ids = [segment.id for segment in transcript.segments]
        assert ids == list(range(len(transcript.segments)))
        assert len(transcript.segments) >= transcript.duration // 30


def test_arguments_are_not_modified(asr: Transcriber) -> None:
    samples = noise(40)
    copy = samples.copy()
    samples.setflags(write=False)
    options = Options(vad=False, clip_timestamps=((1.0, 2.0), (5.0, None)))
    transcript = asr.transcribe(samples, options=options, batch_size=2)
    assert np.array_equal(samples, copy)
    assert options == Options(vad=False, clip_timestamps=((1.0, 2.0), (5.0, None)))
    assert transcript.segments[0].start == 1.0
    assert transcript.segments[0].end <= 2.0
    assert transcript.segments[1].start == 5.0


def test_ranges_after_the_end_are_empty(asr: Transcriber) -> None:
    transcript = asr.transcribe(noise(3), vad=False, clip_timestamps=((10.0, 20.0),))
    assert transcript.segments == ()
    assert transcript.duration == 3


def test_reading_stops_after_the_last_range(asr: Transcriber) -> None:
    transcript = asr.transcribe(noise(100), vad=False, clip_timestamps=((0.0, 10.0),))
    assert transcript.duration < 12


def test_a_result_that_will_be_unpacked_is_refused_before_the_work(
    asr: Transcriber, engine: FakeEngine
) -> None:
    message = r"a Transcript cannot be unpacked; write result = .*faster_whisper$"
    with pytest.raises(TypeError, match=message):
        _segments, _info = asr.transcribe(noise(3), vad=False, language="en")
    with pytest.raises(TypeError, match=message):
        _first, *_rest = wb.transcribe("nowhere.wav", "no such model")
    assert bool(engine.batches) == (sys.version_info < (3, 11))


def test_a_transcriber_says_what_it_is() -> None:
    english: Any = Transcriber(FakeEngine(multilingual=False))
    assert (english.model, english.device, english.is_multilingual) == ("fake", "cpu", False)
    engine: Any = FakeEngine()
    engine.device = "cuda"
    with Transcriber(engine) as asr:
        assert (asr.device, asr.is_multilingual) == ("cuda", True)
        assert [segment.text for segment in asr(noise(4), vad=False)] == ["Sentence 0."]
    for name, remedy in (
        ("to", "give device to load"),
        ("align", "word_timestamps"),
        ("x", "'x'$"),
    ):
        with pytest.raises(AttributeError, match=f"Transcriber has no attribute .*{remedy}"):
            getattr(english, name)
    english.close()


@pytest.mark.parametrize("copying", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_transcriber_is_loaded_in_each_process(copying: Callable[[Transcriber], object]) -> None:
    with (
        Transcriber(FakeEngine()) as asr,
        pytest.raises(
            TypeError, match=r"cannot be pickled or copied.*load the model in each process"
        ),
    ):
        copying(asr)
