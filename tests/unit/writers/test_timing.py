"""When cues are shown: long enough to be read, in order, without flicker, near their speech."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.transcripts import segment, segment_with_words, transcript
from whisperbatch.types import Segment
from whisperbatch.writers import SubtitleOptions, render
from whisperbatch.writers.cues import cues
from whisperbatch.writers.rules import rules_for
from whisperbatch.writers.timing import Speech, shown_times

RULES = rules_for("netflix", "en")
GAP = 84  # ms: two frames at 24 frames per second, rounded up


def spoken(*times: tuple[int, int], width: int = 5) -> list[Speech]:
    return [Speech(start, end, width, 1, "", RULES) for start, end in times]


def shown(*times: tuple[int, int], width: int = 5, last: int = 0) -> list[tuple[int, int]]:
    return shown_times(spoken(*times, width=width), 1, last)


def test_a_cue_lingers_half_a_second() -> None:
    assert shown((1000, 3000)) == [(1000, 3500)]


def test_a_cue_does_not_linger_after_the_recording() -> None:
    assert shown((1000, 3000), last=3200) == [(1000, 3200)]
    assert shown((1000, 3000), last=2000) == [(1000, 3000)], "speech is always shown"


def test_a_short_cue_lasts_five_sixths_of_a_second() -> None:
    assert shown((1000, 1100)) == [(1000, 1834)]


def test_a_long_text_lasts_as_long_as_it_is_read() -> None:
    assert shown((1000, 2000), width=60) == [(1000, 4000)]  # 60 columns at 20 per second


@pytest.mark.parametrize(
    ("following", "end"),
    [
        (2000, 2000 - GAP),  # no pause: two frames
        (2100, 2100 - GAP),
        (2900, 2900 - GAP),  # the cue would linger to 2.5 s: less than half a second would be left
        (3000, 2500),  # half a second is a pause
        (9000, 2500),
    ],
)
def test_gaps_are_two_frames_or_half_a_second(following: int, end: int) -> None:
    assert shown((1000, 2000), (following, following + 1000))[0] == (1000, end)


def test_a_cue_that_is_too_short_starts_three_frames_early_and_the_next_one_late() -> None:
    first, second = shown((1000, 1500), (1500, 4000))
    assert first == (875, 1500 - GAP + 125)
    assert second == (1500 + 125, 4500)
    assert shown((0, 500), (500, 4000))[0][0] == 0


def test_the_next_cue_is_not_late_if_its_text_needs_the_time() -> None:
    fast = [*spoken((1000, 1500)), *spoken((1500, 2500), width=60), *spoken((2500, 9000))]
    first, second, _ = shown_times(fast, 1, 0)
    assert second[0] == 1500
    assert first == (875, 1500 - GAP)


def test_no_cue_is_shown_longer_than_seven_seconds() -> None:
    assert shown((1000, 7900)) == [(1000, 8000)]
    assert shown((1000, 20_000)) == [(1000, 8000)]
    first, second = shown((1000, 7900), (8200, 9000))
    assert first[1] - first[0] <= 7000
    assert second[0] - first[1] >= 500, "the gap cannot be closed, so it becomes a pause"


def test_the_frame_rate_decides_the_gap() -> None:
    slow = replace(RULES, gap=2 / 10)
    found = shown_times([Speech(0, 2000, 5, 1, "", slow), Speech(2000, 3000, 5, 1, "", slow)], 1, 0)
    assert found[0] == (0, 1800)


def test_plain_rules_change_no_time() -> None:
    options = SubtitleOptions(subtitle_rules="plain")
    found = cues(transcript(segment("a", 1, 1.1), segment("b", 1.2, 30)), options)
    assert [(cue.start, cue.end) for cue in found] == [(1000, 1100), (1200, 30_000)]


def test_speakers_at_the_same_time_keep_their_times_and_linger_only_into_free_time() -> None:
    first = replace(segment("Well, I am here.", 0, 6), speaker="A")
    second = replace(segment("Yes, you are.", 2, 4), speaker="B")
    third = replace(segment("So am I.", 6.2, 8), speaker="A")
    found = cues(transcript(first, second, third), SubtitleOptions())
    assert [(cue.start, cue.end) for cue in found] == [(0, 6116), (2000, 4500), (6200, 8500)]


def said(text: str, start: float, end: float, speaker: str | None = None) -> Segment:
    return replace(segment(text, start, end), speaker=speaker)


def test_a_segment_that_is_too_short_to_be_read_is_joined_to_the_next_one() -> None:
    found = cues(transcript(said("Yes.", 1, 1.2), said("I know.", 1.4, 3)), SubtitleOptions())
    assert [line.text for line in found[0].lines] == ["Yes. I know."]
    assert (found[0].start, found[0].end) == (1000, 3500)


@pytest.mark.parametrize(
    "second",
    [
        said("I know.", 1.4, 3, "B"),
        replace(said("I know.", 1.4, 3), language="de"),
        said("I know.", 2.5, 3),  # after a pause
        said("I know that he would never come to the house of his father again.", 1.4, 4),
    ],
)
def test_segments_that_do_not_belong_together_stay_apart(second: Segment) -> None:
    assert len(cues(transcript(said("Yes.", 1, 1.2), second), SubtitleOptions())) == 2


def test_words_of_joined_segments_keep_their_times() -> None:
    first, second = segment_with_words("One", 0, 0.2), segment_with_words("two three", 0.2, 1)
    written = render(
        transcript(first, second),
        "srt",
        SubtitleOptions(highlight_words=True, subtitle_rules="youtube"),
    )
    assert "<u>One</u> two three" in written
    assert "00:00:00,200 --> 00:00:01,200\nOne <u>two</u> three" in written


def test_a_long_segment_becomes_cues_of_at_most_seven_seconds() -> None:
    spoken = segment_with_words("Well, one two three four five six seven", 0, 2)  # 16 s
    found = cues(transcript(spoken), SubtitleOptions())
    assert len(found) > 2
    assert all(cue.end - cue.start <= 7000 for cue in found)
    untimed = cues(transcript(spoken), SubtitleOptions(max_cue_duration=None))
    assert len(untimed) == 1


@given(
    st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 9000), st.integers(1, 84)), max_size=9),
    st.sampled_from((1, 10)),
    st.integers(0, 60_000),
)
def test_cues_stay_in_order_and_near_their_speech(
    parts: list[tuple[int, int, int]], step: int, last: int
) -> None:
    speech, position = [], 0
    for pause, duration, width in parts:
        start = (position + pause) // step * step
        end = start + (duration // step + 1) * step
        speech.append(Speech(start, end, width, 1, "", RULES))
        position = end
    found = shown_times(speech, step, last)
    for cue, (start, end) in zip(speech, found, strict=True):
        assert start < end
        assert start % step == end % step == 0
        assert abs(start - cue.start) <= 125 + step
        assert end - start <= 7000
    for (_, end), (start, _) in pairwise(found):
        assert end <= start
