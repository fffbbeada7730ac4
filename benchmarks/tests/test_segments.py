import numpy as np

from benchmarks.recordings import Recording, Utterance
from benchmarks.segments import compare, slowed
from whisperbatch.types import Segment

RECORDING = Recording(
    "two prompts",
    np.arange(64_000, dtype=np.int16),
    (
        Utterance(0.0, 2.0, "Please hold. Dr. Who is 3.5 minutes late.", "en"),
        Utterance(2.5, 4.0, "Thank you!", "en"),
    ),
)


def segments(*texts: str) -> list[Segment]:
    return [Segment(n, n, n + 0.5, text, "en", -0.2, 0.0, 1.0) for n, text in enumerate(texts)]


def test_ends_of_segments_are_compared_with_the_truth_and_not_with_their_own_marks() -> None:
    found = segments("Please hold", "Doctor who is three.", "point five minutes late", "Thank you")
    result = compare(RECORDING, found, "en")
    assert (result.segments, result.correct) == (4, 3)
    assert result.durations == (0.5,) * 4


def test_missing_sentences_are_counted() -> None:
    found = segments("Please hold. Thank you")
    result = compare(RECORDING, found, "en")
    assert (result.segments, result.correct, result.found) == (1, 1, 1)
    assert result.sentences > result.found


def test_slowed_speech_is_longer() -> None:
    slow = slowed(RECORDING, 0.8)
    assert slow.duration == 5.0
    assert slow.utterances[1].start == 2.5 / 0.8
    assert slow.samples[0] == 0
    assert slow.samples[-1] == RECORDING.samples[-1]
