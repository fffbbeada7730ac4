"""Live sessions with real weights and real speech: turns, final texts, settled text, other work."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

import whisperbatch as wb
from benchmarks import recordings, scoring
from benchmarks.recordings import Recording
from whisperbatch.chunking.spans import SpanFinder
from whisperbatch.live import Failed, LiveEvent, Settled, TurnEnded
from whisperbatch.live import Final as FinalText
from whisperbatch.live.detector import GROUP, CausalDetector
from whisperbatch.options import Options
from whisperbatch.types import Samples, SpeechFrames, to_seconds
from whisperbatch.vad import open_vad
from whisperbatch.vad.levels import FRAME

TOLERANCE: Final = 0.17  # seconds: 150 ms, and the step of a VAD frame
PAUSES: Final = (0.9, 2.0)


def in_floats(recording: Recording) -> Samples:
    return (recording.samples / 32768).astype(np.float32)


def turns_of(frames: Sequence[SpeechFrames]) -> list[tuple[float, float]]:
    """The stretches of speech between pauses of half a second."""
    finder = SpanFinder(replace(Options(), min_silence_duration=0.5), FRAME)
    spans = [span for block in frames for span in finder.push(block)]
    spans += finder.finish(sum(len(block.samples) for block in frames))
    return [(to_seconds(span.start), to_seconds(span.end)) for span in spans]


def heard(samples: Samples, block: int) -> list[SpeechFrames]:
    detector = CausalDetector()
    found: list[SpeechFrames] = []
    for start in range(0, len(samples), block):
        given = samples[start : start + block]
        found += detector.push(given)
        behind = start + len(given) - sum(len(frames.samples) for frames in found)
        assert behind < GROUP, "the detector is at most 96 ms behind the audio"
    return found + detector.flush()


@pytest.mark.parametrize("seed", [4, 5])
@pytest.mark.parametrize("language", ["en", "es", "fr", "it", "ru"])
def test_turns_are_those_of_the_detector_of_recordings(language: str, seed: int) -> None:
    samples = in_floats(recordings.prompts(language, 60, seed, PAUSES))
    expected = turns_of([*open_vad(Options())([samples])])
    found = turns_of(heard(samples, 1600))
    assert len(found) == len(expected) > 2
    worst = np.abs(np.subtract(found, expected)).max()
    assert worst <= TOLERANCE, f"turns differ by {worst:.3f} s"


@pytest.mark.parametrize("block", [160, 1000, 50_000])
def test_probabilities_do_not_depend_on_the_sizes_of_blocks(block: int) -> None:
    samples = in_floats(recordings.prompts("en", 12, 6))
    one = np.concatenate([frames.probabilities for frames in heard(samples, 1600)])
    other = np.concatenate([frames.probabilities for frames in heard(samples, block)])
    assert np.array_equal(one, other)


def test_faint_speech_is_heard() -> None:
    samples = in_floats(recordings.prompts("en", 30, 7, PAUSES))
    faint = samples / np.float32(40)
    assert len(turns_of(heard(faint, 1600))) == len(turns_of(heard(samples, 1600)))


def events_of(
    asr: wb.Transcriber, samples: Any, block: int = 6400, **keywords: Any
) -> list[LiveEvent]:
    session = asr.live(**keywords)
    for start in range(0, len(samples), block):
        session.feed(samples[start : start + block])
        session._wait_for_text()
    session.close()
    return list(session)


def settled_text(events: list[LiveEvent]) -> str:
    turns: dict[int, str] = {}
    for event in events:
        if isinstance(event, Settled):
            turns[event.turn] = turns.get(event.turn, "") + event.text
    return " ".join(turns.values())


def final_text(events: list[LiveEvent]) -> str:
    return " ".join(event.text for event in events if isinstance(event, FinalText))


@pytest.fixture(scope="module")
def recording() -> Recording:
    return recordings.read_speech(30, seed=2)


@pytest.fixture(scope="module")
def events(base: wb.Transcriber, recording: Recording) -> list[LiveEvent]:
    return events_of(base, recording.samples, language="en", word_timestamps=True)


def test_final_texts_are_as_good_as_the_transcript(
    base: wb.Transcriber, recording: Recording, events: list[LiveEvent]
) -> None:
    given = [("en", recording, events)]
    for language in ("es", "fr", "ru"):
        prompts = recordings.prompts(language, 30, 2)
        given.append((language, prompts, events_of(base, prompts.samples, language=language)))
    live, whole = scoring.Score(), scoring.Score()
    for language, spoken, said in given:
        live += scoring.word_error_rate(spoken.text, final_text(said), language)
        transcript = base.transcribe(spoken.samples, language=language).text
        whole += scoring.word_error_rate(spoken.text, transcript, language)
        assert not any(isinstance(event, Failed) for event in said)
    assert live.rate <= whole.rate + 0.02, (live, whole)


def test_settled_text_is_close_to_the_final_text(events: list[LiveEvent]) -> None:
    assert scoring.word_error_rate(final_text(events), settled_text(events)).rate <= 0.06


def test_text_is_settled_while_people_speak(events: list[LiveEvent]) -> None:
    ended = {event.turn: event.end for event in events if isinstance(event, TurnEnded)}
    before: set[int] = set()
    early = 0
    for event in events:
        if isinstance(event, TurnEnded):
            before.add(event.turn)
        elif isinstance(event, Settled):
            early += len(event.words) * (event.turn not in before)
            assert event.end <= ended[event.turn] + 0.1
    assert early >= 0.5 * len(settled_text(events).split())


def test_segments_have_words_and_rising_times(events: list[LiveEvent]) -> None:
    segments = [s for event in events if isinstance(event, FinalText) for s in event.segments]
    assert [segment.id for segment in segments] == list(range(len(segments)))
    starts = [segment.start for segment in segments]
    assert starts == sorted(starts)
    assert all(segment.words for segment in segments)


def test_the_final_text_does_not_depend_on_the_sizes_of_blocks(
    base: wb.Transcriber, recording: Recording, events: list[LiveEvent]
) -> None:
    other = events_of(base, recording.samples, 16_000, language="en", word_timestamps=True)
    assert final_text(other) == final_text(events)


def test_a_transcript_beside_a_session_is_the_same(
    base: wb.Transcriber, recording: Recording
) -> None:
    alone = base.transcribe(recording.samples, language="en")
    with base.live(language="en") as session:
        session.feed(recording.samples[: 16_000 * 10])
        beside = base.transcribe(recording.samples, language="en")
    assert beside.segments == alone.segments


def test_the_language_of_the_speech_is_found(base: wb.Transcriber) -> None:
    samples = recordings.prompts("es", 10, 3).samples
    events = events_of(base, samples)
    assert {event.language for event in events if isinstance(event, FinalText)} == {"es"}


def test_silence_and_noise_have_no_text(base: wb.Transcriber) -> None:
    noise = np.random.default_rng(0).normal(0, 0.003, 20 * 16_000).astype(np.float32)
    assert final_text(events_of(base, noise)) == ""
    silence = np.zeros(5 * 16_000, np.float32)
    assert final_text(events_of(base, silence, turns="manual")) == ""
