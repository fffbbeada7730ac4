"""`SecondOpinion`: its VAD frames, and whole runs with results, failures and the journal."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import pytest

from tests.unit.fakes import Call, FakeEngine, LoudVad, MemoryStore
from tests.unit.synthetic_speech import shared_model
from whisperbatch import EngineError, Transcriber, Transcript
from whisperbatch.decoding.audit import DecodedRow
from whisperbatch.features import feature_extractor
from whisperbatch.jobs.journal import Journal
from whisperbatch.options import Options
from whisperbatch.protocols import Hypothesis
from whisperbatch.recording import Decision, RecordingState
from whisperbatch.second_opinion import SecondOpinion, second_opinions, stage
from whisperbatch.types import SAMPLING_RATE, Chunk, Samples, SpeechFrames

HOP = 512
BLOCK = 64
SENTENCE = " They said these words at noon."
FAINT = 0.01  # amplitude

Part = tuple[float, float, float]
"""Seconds, amplitude and speech probability."""


class FreshVad:
    """A Vad that finds everything probable with a fresh state."""

    hop = HOP

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        for block in blocks:
            yield SpeechFrames(block, np.full(-(-len(block) // HOP), 0.3, np.float32))


def blocks_of(parts: Sequence[Part]) -> list[SpeechFrames]:
    rng = np.random.default_rng(0)
    samples = [
        amplitude * rng.uniform(-1, 1, frames(seconds) * HOP) for seconds, amplitude, _ in parts
    ]
    probabilities = [np.full(frames(seconds), p, np.float32) for seconds, _, p in parts]
    all_samples = np.concatenate(samples).astype(np.float32)
    all_probabilities = np.concatenate(probabilities)
    return [
        SpeechFrames(
            all_samples[start * HOP : (start + BLOCK) * HOP],
            all_probabilities[start : start + BLOCK],
        )
        for start in range(0, len(all_probabilities), BLOCK)
    ]


def frames(seconds: float) -> int:
    return round(seconds * SAMPLING_RATE / HOP)


def opinion(
    engine: FakeEngine, state: RecordingState | None = None, *, stopped: bool = False
) -> SecondOpinion:
    extractor = feature_extractor("whisper", 80)
    state = state or RecordingState.beginning(0, Decision("en", 1.0))
    options = Options(batch_size=8)
    result = second_opinions(shared_model(engine, options), FreshVad(), extractor, options)(
        state, lambda: stopped
    )
    assert result is not None
    return result


def probabilities(blocks: Iterable[SpeechFrames]) -> np.ndarray:
    return np.concatenate([block.probabilities for block in blocks])


def samples(blocks: Iterable[SpeechFrames]) -> np.ndarray:
    return np.concatenate([block.samples for block in blocks])


LOST: list[Part] = [(3, 0.1, 0.9), (3, 0, 0.01), (6, FAINT, 0.01), (5, 0, 0.01), (3, 0.1, 0.9)]
"""Speech, silence, faint sound that the VAD rejects (from 6 s to 12 s), silence, speech."""


def test_accepted_text_becomes_speech_and_the_rest_stays() -> None:
    state = RecordingState.beginning(0, Decision("en", 1.0))
    before = blocks_of(LOST)
    after = list(opinion(FakeEngine(decode=lambda _: SENTENCE), state)(before))
    assert samples(after).tobytes() == samples(before).tobytes()
    raised = probabilities(after)
    old = probabilities(before)
    assert (raised >= old).all()
    assert (raised[frames(8) : frames(11.8)] >= 0.9).all()
    assert (raised[: frames(2.4)] == old[: frames(2.4)]).all()
    assert (raised[frames(15.6) :] == old[frames(15.6) :]).all()
    assert (raised[frames(13) : frames(15)] < 0.1).all()  # silence around it stays silence
    assert state.checked.total() / SAMPLING_RATE == pytest.approx(7, abs=0.1)
    assert 4 < state.recovered / SAMPLING_RATE <= 7


@pytest.mark.parametrize(
    "decode",
    [lambda _: " Thank you.", lambda _: Hypothesis((10, 11, 12), -0.8, 0.0), lambda _: ""],
    ids=["boilerplate", "improbable", "nothing"],
)
def test_without_accepted_text_the_blocks_are_the_same_objects(decode: object) -> None:
    state = RecordingState.beginning(0, Decision("en", 1.0))
    before = blocks_of(LOST)
    engine = FakeEngine(decode=decode)  # type: ignore[arg-type]
    after = list(opinion(engine, state)(before))
    assert all(old is new for old, new in zip(before, after, strict=True))
    assert state.checked.total() > 0
    assert state.recovered == 0


def test_the_halves_of_a_region_with_a_loop_are_checked() -> None:
    """The model loops on the first sentence, and skips the second."""
    parts: list[Part] = [(3, 0, 0.01), (5, FAINT, 0.01), (0.6, 0, 0.01), (5, FAINT, 0.01)]
    before = blocks_of([*parts, (5, 0, 0.01)])

    texts = (SENTENCE * 4, " Thank you.", SENTENCE)  # of the region, and of its halves
    state = RecordingState.beginning(0, Decision("en", 1.0))
    engine = FakeEngine(decode=lambda call: texts[call.number])
    raised = probabilities(opinion(engine, state)(before))
    assert (raised[frames(9) : frames(13)] >= 0.9).all()
    assert (raised[: frames(5)] < 0.1).all()
    assert state.checked.total() / SAMPLING_RATE == pytest.approx(10.6, abs=1.5)
    assert state.recovered / SAMPLING_RATE == pytest.approx(5, abs=1)


def test_the_threshold_is_lower_around_accepted_text() -> None:
    edge: list[Part] = [(2, 0, 0.01), (0.5, FAINT, 0.2), (6, FAINT, 0.01), (5, 0, 0.01)]
    for engine, rises in (
        (FakeEngine(decode=lambda _: SENTENCE), True),
        (FakeEngine(decode=lambda _: " Thank you."), False),
    ):
        after = probabilities(opinion(engine)(blocks_of(edge)))
        assert bool((after[frames(2.1) : frames(2.4)] >= 0.5).all()) is rises


def test_silence_and_speech_are_not_decoded() -> None:
    engine = FakeEngine()
    parts: list[Part] = [(20, 0.1, 0.9), (20, 0, 0.01), (20, 0.1, 0.9)]
    before = blocks_of(parts)
    assert list(opinion(engine)(before)) == before
    assert engine.calls == []


def test_a_bounded_number_of_frames_is_held() -> None:
    parts = [*LOST, (120, 0.1, 0.9), (100, 0, 0.01), *LOST * 3]
    read = 0

    def source() -> Iterator[SpeechFrames]:
        nonlocal read
        for block in blocks_of(parts):
            read += len(block.probabilities)
            yield block

    yielded = 0
    most = 0
    for block in opinion(FakeEngine())(source()):
        most = max(most, read - yielded)
        yielded += len(block.probabilities)
    assert yielded == read
    assert most <= frames(40)


def test_regions_of_one_look_ahead_share_a_call() -> None:
    sound: list[Part] = [(1, 0, 0.01), (3, FAINT, 0.01), (2, 0, 0.01)]
    engine = FakeEngine()
    list(opinion(engine)(blocks_of([(2, 0, 0.01), *sound * 4, (20, 0, 0.01)])))
    assert engine.batches == [4]


def test_work_without_text_is_limited_and_what_is_skipped_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    state = RecordingState.beginning(7, Decision("en", 1.0))
    sound: list[Part] = [(3, 0, 0.01), (10, FAINT, 0.01)]
    list(opinion(FakeEngine(decode=lambda _: " Thank you."), state)(blocks_of(sound * 40)))
    limit = stage.FREE_WORK + stage.WORK_SHARE * 520 * SAMPLING_RATE
    checks = len(caplog.records) - 1
    assert state.checked.total() + checks * stage.ENCODER_PADDING <= limit
    assert state.checked.total() >= 0.5 * limit
    assert "recording 7: " in caplog.messages[-1]
    assert "were not checked" in caplog.messages[-1]


def test_recovered_speech_does_not_count_as_work() -> None:
    state = RecordingState.beginning(0, Decision("en", 1.0))
    sound: list[Part] = [(3, 0, 0.01), (10, FAINT, 0.01)]
    list(opinion(FakeEngine(decode=lambda _: SENTENCE), state)(blocks_of(sound * 40)))
    assert state.checked.total() / SAMPLING_RATE == pytest.approx(40 * 11, rel=0.02)


def test_clips_share_the_limit_and_keep_their_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[float] = []
    decode = stage.RegionDecoder.__call__

    def record(
        decoder: stage.RegionDecoder, chunks: Sequence[Chunk], language: str | None
    ) -> list[DecodedRow]:
        times.extend(chunk.start / SAMPLING_RATE for chunk in chunks)
        return decode(decoder, chunks, language)

    monkeypatch.setattr(stage.RegionDecoder, "__call__", record)
    state = RecordingState.beginning(0, Decision("en", 1.0))
    stage_of_recording = opinion(FakeEngine(decode=lambda _: SENTENCE), state)
    for offset in (0, 100):
        raised = probabilities(stage_of_recording(blocks_of(LOST), offset * SAMPLING_RATE))
        assert (raised[frames(8) : frames(11.8)] >= 0.9).all()
    assert times == pytest.approx([5.5, 105.5], abs=0.1)


def test_a_row_is_decoded_in_its_own_language_until_the_language_is_final() -> None:
    languages = {}
    for name, state in {
        "given": RecordingState.beginning(0, Decision("en", 1.0)),
        "unknown": RecordingState(0),
        "revisable": RecordingState(0),
    }.items():
        if name == "revisable":
            state.language.decision = Decision("en", 0.9)
        engine = FakeEngine(detect=lambda _: {"fr": 0.6, "en": 0.4})
        list(opinion(engine, state)(blocks_of(LOST)))
        [call] = engine.calls
        languages[name] = engine.tokenizer.id_to_token(call.prompt[1])
        assert state.language.scores == {}
    assert languages == {"given": "<|en|>", "unknown": "<|fr|>", "revisable": "<|fr|>"}


def test_a_stopped_run_decodes_nothing() -> None:
    engine = FakeEngine()
    before = blocks_of(LOST)
    assert list(opinion(engine, stopped=True)(before)) == before
    assert engine.calls == []


def test_the_result_does_not_depend_on_the_batch_size() -> None:
    def decode(call: Call) -> str:
        return SENTENCE if call.row.level > 0 else " Thank you."

    sound: list[Part] = [(2, 0, 0.01), (3, FAINT, 0.01), (2, 0, 0.01), (4, 0.1, 0.01)]
    results = []
    for size in (1, 2, 16):
        engine = FakeEngine(decode=decode)
        state = RecordingState.beginning(0, Decision("en", 1.0))
        options = Options(batch_size=size)
        extractor = feature_extractor("whisper", 80)
        result = second_opinions(shared_model(engine, options), FreshVad(), extractor, options)(
            state, lambda: False
        )
        assert result is not None
        results.append(probabilities(result(blocks_of(sound * 4))))
        assert max(engine.batches) <= size
    assert all((first == second).all() for first, second in pairwise(results))


@pytest.mark.parametrize("options", [Options(vad=False), Options(second_opinion=False)])
def test_the_stage_is_switched_off(options: Options) -> None:
    extractor = feature_extractor("whisper", 80)
    engine = FakeEngine()
    assert (
        second_opinions(shared_model(engine, options), FreshVad(), extractor, options)(
            RecordingState(0), lambda: False
        )
        is None
    )


@pytest.fixture(autouse=True)
def loud_vad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "whisperbatch.pipeline_run.open_vad", lambda _: LoudVad({0.1: 0.9, 0.0: 0.05})
    )


def recording() -> Samples:
    """Loud noise to 4 s, faint noise from 7 to 13 s, loud noise from 18 to 22 s."""
    rng = np.random.default_rng(0)
    samples = np.zeros(24 * SAMPLING_RATE, np.float32)
    for start, end, amplitude in ((0, 4, 0.5), (7, 13, 0.02), (18, 22, 0.5)):
        count = (end - start) * SAMPLING_RATE
        noise = amplitude * rng.uniform(-1, 1, count)
        samples[start * SAMPLING_RATE : end * SAMPLING_RATE] = noise
    return samples


def test_the_transcript_reports_checked_and_recovered_seconds() -> None:
    with Transcriber(FakeEngine(decode=lambda _: SENTENCE)) as asr:
        checked = asr.transcribe(recording(), language="en")
        with asr.stream(recording(), language="en") as stream:
            assert stream.checked_duration is None
            list(stream)
            assert stream.checked_duration == checked.checked_duration
            assert stream.recovered_duration == checked.recovered_duration
        unchecked = asr.transcribe(recording(), language="en", second_opinion=False)
    assert checked.checked_duration == pytest.approx(7, abs=0.1)
    assert 4 < checked.recovered_duration <= 7
    assert unchecked.checked_duration == unchecked.recovered_duration == 0.0


def test_recovered_speech_is_in_the_chunks() -> None:
    engine = FakeEngine(decode=lambda _: SENTENCE)
    options = {"language": "en", "chunk_length": 8.0}
    with Transcriber(engine) as asr:
        assert asr.transcribe(recording(), **options).chunks == 3  # type: ignore[arg-type]
        lost = asr.transcribe(recording(), **options, second_opinion=False)  # type: ignore[arg-type]
    assert lost.chunks == 2


@pytest.mark.parametrize("on_error", ["raise", "yield"])
def test_a_failure_of_the_check_ends_only_its_recording(on_error: str) -> None:
    engine = FakeEngine(decode=lambda _: SENTENCE, failing={"decode": {0}})
    sources = [recording(), recording()]
    with Transcriber(engine) as asr:
        if on_error == "raise":
            with pytest.raises(EngineError, match="decode failed"):
                list(asr.transcribe_many(sources, language="en"))
            return
        failed, transcript = asr.transcribe_many(sources, language="en", on_error="yield")
    assert isinstance(failed, EngineError)
    assert isinstance(transcript, Transcript)
    assert transcript.text


def test_the_result_does_not_depend_on_readers_and_batches() -> None:
    results = []
    for ordered, batch_size in ((True, 16), (False, 1), (False, 3)):
        with Transcriber(FakeEngine(decode=lambda _: SENTENCE)) as asr:
            sources = [recording(), np.zeros(16000, np.float32), recording()]
            transcripts = asr.transcribe_many(sources, ordered=ordered, batch_size=batch_size)
            results.append(
                sorted((t.checked_duration, t.recovered_duration, t.text) for t in transcripts)
            )
    assert results[0] == results[1] == results[2]
    assert results[0][2][1] > 4


def test_a_journal_answers_the_checks_of_a_resumed_run() -> None:
    engine, store = FakeEngine(decode=lambda _: SENTENCE), MemoryStore()
    asr = Transcriber(engine)._with_results(Journal(engine, store))
    first = asr.transcribe(recording(), language="en")
    decoded = len(engine.calls)
    second = asr.transcribe(recording(), language="en")
    assert second == first
    assert second.recovered_duration > 4
    assert len(engine.calls) == decoded


@pytest.mark.parametrize("second_opinion", [True, False])
def test_the_language_of_speech_that_the_vad_rejects(second_opinion: bool) -> None:
    faint = recording()[5 * SAMPLING_RATE : 16 * SAMPLING_RATE]
    with Transcriber(FakeEngine(decode=lambda _: SENTENCE)) as asr:
        detection = asr.detect_language(faint, second_opinion=second_opinion)
    if second_opinion:
        assert (detection.language, detection.reason) == ("fr", "")
        assert 1.5 <= detection.windows[0].start < detection.windows[-1].end <= 8.5
    else:
        assert (detection.language, detection.reason) == (None, "the recording has no speech")


def test_an_english_only_model_checks_too() -> None:
    engine = FakeEngine(decode=lambda _: SENTENCE, multilingual=False)
    with Transcriber(engine) as asr:
        assert asr.transcribe(recording()).recovered_duration > 4
    assert engine.detections == 0
