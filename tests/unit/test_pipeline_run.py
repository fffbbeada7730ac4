"""`PipelineRun`: languages come before decoding, failures, and the states of recordings."""

import gc
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import whisperbatch as wb
from tests.unit.fakes import LOUD, LOUD_PEAK, EncodedRow, FakeEngine, french, noise, worker_threads
from tests.unit.synthetic_speech import RampExtractor, ramp
from whisperbatch import OptionError, Options, Transcriber
from whisperbatch.audio.reader import open_audio
from whisperbatch.chunking.merge import chunks
from whisperbatch.decoding.chunk_decoder import ChunkDecoder
from whisperbatch.options import SearchOptions
from whisperbatch.pipeline_run import PipelineRun
from whisperbatch.recording import End, RecordingState, Row
from whisperbatch.scheduling import Scheduler
from whisperbatch.sections import chunk_recording
from whisperbatch.segmentation import RowResult
from whisperbatch.types import to_samples
from whisperbatch.vad import NoVad

pytestmark = pytest.mark.usefixtures("no_threads_left")

SHORT = Options(vad=False, chunk_length=2.0, language_detection_segments=3)


def clips(count: int) -> tuple[tuple[float, float], ...]:
    """Ranges of exactly 2 s: each range is one chunk."""
    return tuple((2.0 * n, 2.0 * n + 2.0) for n in range(count))


@pytest.fixture
def no_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first chunks decide for all recordings, and features are positions (see `ramp`)."""
    monkeypatch.setattr("whisperbatch.pipeline_run.find_windows", lambda *_: [])
    monkeypatch.setattr("whisperbatch.pipeline_run.feature_extractor", lambda *_: RampExtractor())


@pytest.fixture
def decoded_rows(monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    """The rows that are decoded, as they come to the decoder."""
    rows: list[Row] = []
    decode = ChunkDecoder.__call__

    def record(decoder: ChunkDecoder, row: Row) -> RowResult:
        rows.append(row)
        return decode(decoder, row)

    monkeypatch.setattr(ChunkDecoder, "__call__", record)
    return rows


def english_then_french(seconds: float) -> Callable[[EncodedRow], dict[str, float]]:
    def detect(row: EncodedRow) -> dict[str, float]:
        return {"en": 0.9, "fr": 0.1} if row.start < seconds else {"en": 0.1, "fr": 0.9}

    return detect


def live_states(before: Sequence[RecordingState] = ()) -> list[RecordingState]:
    """The states that are alive, except those that were alive before: they are of other tests."""
    gc.collect()
    known = {id(state) for state in before}
    states = [item for item in gc.get_objects() if type(item) is RecordingState]
    return [state for state in states if id(state) not in known]


@pytest.mark.usefixtures("no_windows")
@pytest.mark.parametrize("options", [{}, {"multilingual": True, "language_detection_segments": 8}])
def test_rows_have_their_language_before_they_are_decoded(
    decoded_rows: list[Row], options: dict[str, Any]
) -> None:
    engine = FakeEngine(workers=3, delay={"detect_language": 0.1})
    with Transcriber(engine) as asr:
        sources = [ramp(seconds) for seconds in (40, 1, 3, 9, 2, 30)]
        transcripts = list(asr.transcribe_many(sources, options=SHORT, batch_size=4, **options))
    assert [transcript.language for transcript in transcripts] == ["fr"] * 6
    assert {row.language for row in decoded_rows} == {"fr"}
    assert len(decoded_rows) == sum(transcript.chunks for transcript in transcripts) > 40
    assert all(row.language_scores is not None for row in decoded_rows)
    assert sum(engine.batch_sizes["encode"]) == len(decoded_rows)  # nothing is encoded twice


def test_a_given_language_needs_no_scores(decoded_rows: list[Row]) -> None:
    engine = FakeEngine(workers=2)
    with Transcriber(engine) as asr:
        asr.transcribe(noise(20), options=SHORT, language="de", language_detection_segments=8)
    assert {row.language for row in decoded_rows} == {"de"}
    assert all(row.language_scores is None for row in decoded_rows)
    assert engine.detections == 0


def test_a_final_language_needs_no_more_scores(decoded_rows: list[Row]) -> None:
    engine = FakeEngine(workers=2)
    with Transcriber(engine) as asr:
        asr.transcribe(noise(100), options=SHORT)
    assert {row.language for row in decoded_rows} == {"fr"}
    assert all(row.language_scores is None for row in decoded_rows)
    assert engine.detections == 3  # language windows


@pytest.mark.usefixtures("no_windows")
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("batch_size", [1, 4, 16])
def test_a_revision_is_published_with_the_segments_that_it_applies_to(
    workers: int, batch_size: int
) -> None:
    engine = FakeEngine(workers=workers, detect=english_then_french(8.0))
    published: list[tuple[str | None, float]] = []
    with (
        Transcriber(engine) as asr,
        asr.stream(
            ramp(100), options=SHORT, batch_size=batch_size, clip_timestamps=clips(50)
        ) as stream,
    ):
        assert stream.language is None
        for segment in stream:
            assert stream.language == segment.language
            published.append((stream.language, round(stream.language_probability, 6)))
            if len(published) in {1, 7, 15, 16}:
                time.sleep(0.1)  # the stages work ahead
        assert stream.chunks == len(published) == 50
    voters = [max(n for n in (4, 8, 16, 32) if n <= max(index, 4)) for index in range(50)]
    # the first 8 chunks are a tie, in which the first language wins
    assert [language for language, _ in published] == ["en"] * 16 + ["fr"] * 34
    shares = [(4 * 0.9 + (n - 4) * 0.1) / n for n in voters]
    expected = [share if n < 16 else 1 - share for n, share in zip(voters, shares, strict=True)]
    assert [probability for _, probability in published] == pytest.approx(expected, abs=1e-5)


@pytest.mark.usefixtures("no_windows")
@pytest.mark.parametrize("workers", [1, 3])
def test_with_code_switching_the_language_is_that_of_the_speech_so_far(workers: int) -> None:
    engine = FakeEngine(workers=workers, detect=english_then_french(20.0))
    published: list[str | None] = []
    with (
        Transcriber(engine) as asr,
        asr.stream(
            ramp(100),
            options=SHORT,
            multilingual=True,
            language_detection_segments=8,
            clip_timestamps=clips(50),
        ) as stream,
    ):
        assert stream.language is None
        for segment in stream:
            assert segment.language == ("en" if segment.start < 20 else "fr")
            published.append(stream.language)
            if len(published) in {1, 10, 19}:
                time.sleep(0.1)
    assert published == ["en"] * 20 + ["fr"] * 30  # ten chunks of each: the first stays


@pytest.mark.usefixtures("no_windows")
def test_the_results_do_not_depend_on_batches_or_workers() -> None:
    """Texts are numbered in the order of decoding, so only the languages are compared."""
    results = set()
    for workers, batch_size in ((1, 8), (3, 1), (2, 3), (3, 64)):
        engine = FakeEngine(workers=workers, detect=english_then_french(20.0))
        with Transcriber(engine) as asr:
            sources = [ramp(seconds) for seconds in (64, 1, 37)]
            transcripts = list(asr.transcribe_many(sources, options=SHORT, batch_size=batch_size))
        results.add(
            tuple(
                (t.language, t.language_probability, tuple(s.language for s in t.segments))
                for t in transcripts
            )
        )
    assert len(results) == 1


@pytest.mark.parametrize("multilingual", [False, True])
def test_a_failure_to_score_ends_only_the_recordings_that_fail_alone(*, multilingual: bool) -> None:
    def detect(row: EncodedRow) -> dict[str, float]:
        if row.peak > LOUD_PEAK:
            raise wb.EngineError("fake: detect_language failed")
        return french(row)

    engine = FakeEngine(detect=detect, delay={"detect_language": 0.05})
    sources = [noise(6, seed) for seed in range(4)]
    sources[1] *= LOUD
    options = Options(vad=False, batch_size=3, multilingual=multilingual, clip_timestamps=clips(3))
    with Transcriber(engine) as asr:
        results = list(asr.transcribe_many(sources, on_error="yield", options=options))
        assert max(engine.batch_sizes["encode"]) > 1
        failed = [n for n, result in enumerate(results) if isinstance(result, wb.EngineError)]
        assert failed == [1]
        with pytest.raises(wb.EngineError, match="detect_language failed"):
            list(asr.transcribe_many(sources, options=options))


@pytest.mark.usefixtures("no_windows")
@pytest.mark.parametrize("step", ["encode", "detect_language", "decode"])
@pytest.mark.parametrize("call", [0, 1, 2, 5])
@pytest.mark.parametrize("count", [1, 1000])
def test_after_a_failure_no_row_waits_for_previous_text(step: str, call: int, count: int) -> None:
    failing = range(call, call + count)
    engine = FakeEngine(workers=3, failing={step: failing}, delay={"decode": 0.002})
    sources = [ramp(seconds) for seconds in (40, 9, 30)]
    options = {"batch_size": 2, "condition_on_previous_text": True}
    with Transcriber(engine) as asr, ThreadPoolExecutor(1) as pool:
        run = partial(asr.transcribe_many, sources, on_error="yield", options=SHORT, **options)
        results = pool.submit(lambda: list(run())).result(30)
    assert len(results) == 3
    errors = sum(isinstance(result, wb.EngineError) for result in results)
    assert errors <= 1 if count == 1 else errors >= 1


@pytest.mark.usefixtures("no_windows")
@pytest.mark.parametrize("options", [{}, {"multilingual": True, "language_detection_segments": 8}])
def test_an_abandoned_stream_stops_the_language_stage(options: dict[str, Any]) -> None:
    engine = FakeEngine(workers=2, delay={"detect_language": 0.02})
    with Transcriber(engine) as asr:
        for _ in range(3):
            stream = asr.stream(ramp(200), options=SHORT, batch_size=2, **options)
            next(stream)
            stream.close()
            assert worker_threads() == set()
    assert engine.detections < 100


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("options", [{}, {"multilingual": True}, {"language": "en"}])
def test_the_state_of_a_recording_is_freed_after_its_end(
    options: dict[str, Any], *, ordered: bool
) -> None:
    resolved = Options(vad=False, chunk_length=2.0, batch_size=4, **options)

    def opener(samples: npt.NDArray[np.float32]) -> Callable[[], Any]:
        return lambda: open_audio(samples, resolved)

    openers = [opener(noise(4, seed)) for seed in range(60)]
    before = live_states()
    scheduler = Scheduler(FakeEngine())
    run = PipelineRun(scheduler, openers, resolved, ahead=True, ordered=ordered)
    ended = 0
    for item in run:
        ended += isinstance(item, End)
        if ended == 40 and isinstance(item, End):
            assert len(live_states(before)) < 40
    del item
    assert ended == 60
    assert live_states(before) == []
    run.stop()


def test_an_option_that_the_engine_cannot_honour_is_refused_before_a_recording_is_read() -> None:
    class GreedyEngine(FakeEngine):
        def check(self, options: SearchOptions) -> None:
            if options.beam_size > 1:
                raise OptionError(f"beam_size={options.beam_size} needs another engine")

    with Transcriber(GreedyEngine()) as asr:
        with pytest.raises(OptionError, match="beam_size=5 needs another engine"):
            asr.transcribe_many(iter(()))
        assert asr.transcribe(ramp(3), vad=False, beam_size=1).segments
        assert asr.detect_language(ramp(3), vad=False).language == "fr"  # no search


def test_many_clips_are_checked_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of all clips for each clip took quadratic time: minutes for 40,000 clips."""
    checked: list[object] = []
    monkeypatch.setattr("whisperbatch.options.checks.clips", checked.append)
    ranges = tuple((0.1 * n, 0.1 * n + 0.05) for n in range(100))
    assert len(list(wb.chunk_audio(noise(10), vad=False, clip_timestamps=ranges))) == 100
    assert len(list(filter(None, checked))) <= 3


@pytest.mark.parametrize("minimum", [0.0, 0.02, 0.1, 0.128])
def test_skipped_clips_have_no_speech_for_any_vad(minimum: float) -> None:
    """A VAD that takes all frames for speech finds the same speech in the clips that it gets."""
    vad, options = NoVad(), Options(min_speech_duration=minimum, speech_pad=0.0)
    lengths = [round(0.004 * n, 3) for n in range(3, 45)]
    ranges = tuple((0.5 * n, 0.5 * n + length) for n, length in enumerate(lengths))
    audio = noise(len(lengths) / 2)
    options = replace(options, clip_timestamps=ranges)
    found = [chunk.start for chunk in chunk_recording([audio], options, vad)]
    expected = [
        chunk.start
        for start, end in ranges
        for chunk in chunks(
            vad([audio[to_samples(start) : to_samples(end)]]),
            options,
            vad.hop,
            offset=to_samples(start),
        )
    ]
    assert found == expected
    assert 0 < len(found) <= len(ranges)
