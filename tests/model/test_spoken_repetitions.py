"""Words that are spoken again and again: each is written once. Real speech, model base."""

import re
from typing import Final

import pytest

import whisperbatch as wb
from benchmarks import clips, recordings, speech
from benchmarks.recordings import Recording, random_from

CASES: Final = [
    # language, prompts, pattern of a word, times, pauses in seconds
    ("en", ("digits/0",), "zero|0", 12, (0.4, 0.6)),
    ("en", ("digits/1",), "one|1", 10, (0.2, 0.4)),
    ("fr", ("digits/4",), "quatre|4", 12, (0.3, 0.5)),
    ("it", ("digits/3",), "tre|3", 15, (0.3, 0.5)),
    ("en", ("letters/d",), "d", 12, (0.5, 0.7)),
    ("en", ("digits/1", "digits/2"), "one|1", 10, (0.2, 0.4)),
    ("en", ("activated",), "activated", 14, (0.3, 0.5)),
    ("en", ("auth-incorrect",), "incorrect", 4, (0.5, 0.7)),
]
"""Before, "zero", "quatre" and "tre" were removed completely, and half of "one two"."""

DEVIATION: Final = 0.2  # share of the times by which Whisper may be wrong: at most 3 of 15


def repeated(
    language: str, names: tuple[str, ...], times: int, pauses: tuple[float, float]
) -> Recording:
    """A recording in which prompts are said again and again, with other pauses each time."""
    directory, _ = speech.asterisk(language)
    sounds = [
        clip
        for name in names
        if (clip := clips.trim(clips.decode(directory / f"{name}.g722"), name, language))
    ]
    rng = random_from(times)
    paused = [(rng.uniform(*pauses), clip) for _ in range(times) for clip in sounds]
    return recordings.assemble("-".join(names), paused, seed=times)


@pytest.mark.parametrize("case", CASES)
def test_every_spoken_repetition_is_written(
    base: wb.Transcriber,
    case: tuple[str, tuple[str, ...], str, int, tuple[float, float]],
) -> None:
    language, names, pattern, times, pauses = case
    recording = repeated(language, names, times, pauses)
    transcript = base.transcribe(recording.samples, language=language, word_timestamps=True)
    found = re.findall(rf"\b({pattern})\b", transcript.text.casefold())
    assert abs(len(found) - times) <= DEVIATION * times, transcript.text
    words = [word for segment in transcript.segments for word in segment.words or ()]
    assert all(word.start <= word.end for word in words)
    starts = [word.start for word in words]
    assert starts == sorted(starts)


def test_a_repetition_without_the_filter_is_unchanged(base: wb.Transcriber) -> None:
    recording = repeated("en", ("digits/0",), 12, (0.4, 0.6))
    transcript = base.transcribe(recording.samples, language="en", hallucination_filter=False)
    assert not [item for item in transcript.omissions if item.reason == "loop"]
