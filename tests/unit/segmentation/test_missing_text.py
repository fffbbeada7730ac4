"""Why a section has no text: each case has its notice, and text elsewhere hides the small ones."""

import logging

import pytest

from whisperbatch.options import Options
from whisperbatch.recording import RecordingState
from whisperbatch.sections.joining import join_spans
from whisperbatch.segmentation.stage import explain_missing_text
from whisperbatch.types import SAMPLING_RATE, SILENT, Omission, SectionSound, Segment, Transcript
from whisperbatch.types.transcript import Notice

SECOND = SAMPLING_RATE
FIVE_MINUTES = 300 * SECOND


def state(*sounds: tuple[SectionSound, int]) -> RecordingState:
    recording = RecordingState(0)
    for sound, checked in sounds:
        recording.checked += checked
        recording.add_sound(sound)
    return recording


def section(number: int, seconds: int = 300, sound: int = 200, speech: int = 0) -> SectionSound:
    start = number * FIVE_MINUTES
    return SectionSound(number, start, start + seconds * SECOND, sound * SECOND, speech * SECOND)


def notices(recording: RecordingState, options: Options | None = None) -> list[Notice]:
    explain_missing_text(recording, options or Options())
    return list(recording.notices.all())


@pytest.mark.parametrize(
    ("sound", "checked", "options", "words"),
    [
        (section(0, sound=0), 0, Options(), "the audio is silent"),
        (section(0), 0, Options(), "detector found no speech in the sound; vad=False"),
        (section(0), 12 * SECOND, Options(), "nor did the model in the parts that it checked"),
        (section(0, speech=5), 0, Options(), "the model found none in the sound that may be"),
        (section(0), 0, Options(vad=False), "the model found none in the sound; another channel"),
    ],
    ids=["silence", "rejected", "checked", "no text in speech", "no vad"],
)
def test_a_recording_without_text_says_why(
    sound: SectionSound,
    checked: int,
    options: Options,
    words: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        [notice] = notices(state((sound, checked)), options)
    assert notice.kind == "no speech"
    assert (notice.start, notice.end) == (0.0, 300.0)
    assert words in notice.text
    assert words in caplog.text


def test_removed_text_is_the_reason() -> None:
    recording = state((section(0, speech=5), 0))
    recording.omissions.append(Omission(3.0, 4.0, "Thank you.", "boilerplate", 1.0))
    [notice] = notices(recording)
    assert "all text was removed" in notice.text


def test_speech_without_words_is_no_removed_text() -> None:
    recording = state((section(0, speech=5), 0))
    recording.omissions.append(Omission(3.0, 4.0, "", "missed", 1.0))
    [notice] = notices(recording)
    assert "the model found none" in notice.text


def test_sections_with_the_same_reason_have_one_notice() -> None:
    [notice] = notices(state(*((section(number), 24 * SECOND) for number in range(12))))
    assert (notice.start, notice.end) == (0.0, 3600.0)


def test_a_recording_of_no_length_has_no_notice() -> None:
    assert notices(state((section(0, seconds=0, sound=0), 0))) == []


def test_checks_of_earlier_sections_do_not_count() -> None:
    first, second = notices(state((section(0), SECOND), (section(1), 0)))
    assert "that it checked" in first.text
    assert "that it checked" not in second.text


def test_beside_text_only_long_sound_is_reported() -> None:
    recording = state((section(0), 0), (section(1), 0), (section(2, sound=0), 0))
    recording.sounds.append((section(3, seconds=40, sound=30), 0))
    recording.segments, recording.sections_with_text = 1, {0}
    [notice] = notices(recording)
    assert (notice.start, notice.end) == (300.0, 600.0)


def test_spans_have_the_notices_of_the_whole_recording() -> None:
    sounds = [section(0), section(1), section(2, sound=0), section(3, seconds=40, sound=30)]

    def transcript(numbers: range, texts: set[int]) -> Transcript:
        recording = state(*((sounds[number], 0) for number in numbers))
        recording.sections_with_text = texts & set(numbers)
        recording.segments = len(recording.sections_with_text)
        explain_missing_text(recording, Options())
        segments = (Segment(0, 0.0, 1.0, "Yes.", "en", -0.1, 0.0, 1.0, 0.0, None),)
        return Transcript(
            segments=segments * recording.segments,
            language="en",
            language_probability=1.0,
            duration=940.0,
            source="a",
            notices=recording.notices.all(),
        )

    for texts in (set[int](), {0}, {1}, {0, 1}):
        whole = transcript(range(4), texts)
        parts = [transcript(range(number, number + 1), texts) for number in range(4)]
        assert join_spans(parts).notices == whole.notices
        assert any(notice.text == SILENT for notice in whole.notices) == (not texts)
