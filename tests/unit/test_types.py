"""The values of `whisperbatch.types`."""

import dataclasses

import pytest

from whisperbatch.types import (
    HOP,
    WINDOW,
    WINDOW_FRAMES,
    Segment,
    SpeechSpan,
    Transcript,
    Word,
    to_samples,
    to_seconds,
)


def segments(*texts: tuple[str, str]) -> tuple[Segment, ...]:
    return tuple(
        Segment(number, float(number), number + 1.0, text, language, -0.1, 0.0, 1.2)
        for number, (language, text) in enumerate(texts)
    )


@pytest.mark.parametrize(
    ("texts", "joined"),
    [
        ((), ""),
        ((("en", "Hello."),), "Hello."),
        ((("en", "Hello."), ("en", "How are you?")), "Hello. How are you?"),
        ((("ja", "こんにちは。"), ("ja", "元気です。")), "こんにちは。元気です。"),
        ((("zh", "你好。"), ("yue", "早晨。"), ("th", "สวัสดี")), "你好。早晨。สวัสดี"),
        ((("ko", "안녕."), ("ko", "잘 지내?")), "안녕. 잘 지내?"),
        ((("ja", "はい。"), ("en", "Yes.")), "はい。 Yes."),
    ],
)
def test_texts_are_joined_by_spaces_except_in_unspaced_languages(
    texts: tuple[tuple[str, str], ...], joined: str
) -> None:
    assert Transcript(segments(*texts), "en", 1.0, 9.0, "a.wav").text == joined


def test_a_transcript_without_segments_has_an_empty_text() -> None:
    assert Transcript((), None, 0.0, 60.0, "a.wav").text == ""


@pytest.mark.parametrize("samples", [0, 1, 159, 16_000, WINDOW, 3600 * 16_000 * 24 + 1])
def test_samples_are_equal_after_conversion_to_seconds_and_back(samples: int) -> None:
    assert to_samples(to_seconds(samples)) == samples


def test_seconds_are_rounded_to_the_nearest_sample() -> None:
    assert to_samples(0.1) == 1600
    assert to_samples(1 / 16_000 + 0.000_02) == 1
    assert to_samples(1.9 / 16_000) == 2


def test_a_window_is_30_s() -> None:
    assert to_seconds(WINDOW) == 30
    assert WINDOW_FRAMES * HOP == WINDOW


def test_values_are_compared_by_value_and_cannot_be_changed() -> None:
    assert SpeechSpan(1, 3) == SpeechSpan(1, 3)
    assert SpeechSpan(1, 3).length == 2
    word = Word(0.0, 1.0, " a", 0.5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        word.start = 2.0  # type: ignore[misc]
