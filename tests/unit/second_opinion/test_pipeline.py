"""The second opinion in a whole run: results, failures, and the journal."""

from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from tests.unit.fakes import FakeEngine, MemoryStore
from whisperbatch import EngineError, Transcriber, Transcript
from whisperbatch.jobs.journal import Journal
from whisperbatch.types import SAMPLING_RATE, Samples, SpeechFrames

SENTENCE = " They said these words at noon."
HOP = 512


class LoudVad:
    """A Vad that takes only loud audio for speech; with a fresh state, faint sound is likely."""

    hop = HOP

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        for block in blocks:
            count = -(-len(block) // HOP)
            padded = np.zeros(count * HOP, np.float32)
            padded[: len(block)] = block
            peaks = np.abs(padded.reshape(count, HOP)).max(axis=1)
            probabilities = np.where(peaks > 0.1, 0.9, np.where(peaks > 0, 0.05, 0.0))
            yield SpeechFrames(block, probabilities.astype(np.float32))


@pytest.fixture(autouse=True)
def loud_vad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whisperbatch.pipeline.open_vad", lambda _: LoudVad())


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
