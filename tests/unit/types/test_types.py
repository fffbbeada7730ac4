"""The values of `whisperbatch.types`, notices, and their way through JSON."""

import dataclasses
import json
import logging
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from itertools import permutations
from typing import Any, TypeVar

import numpy as np
import pytest
from typing_extensions import TypeAliasType

from tests.unit.transcripts import COMPLETE
from whisperbatch.errors import OptionError
from whisperbatch.sections.joining import join_spans
from whisperbatch.types import (
    HOP,
    WINDOW,
    WINDOW_FRAMES,
    Notice,
    Notices,
    Segment,
    SpeechSpan,
    Transcript,
    Word,
    check_fields,
    from_values,
    merged,
    to_samples,
    to_seconds,
)
from whisperbatch.writers.verbose_json import verbose_json


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


def _transcript(*notices: Notice) -> Transcript:
    return Transcript((), "en", 1.0, 60.0, "talk.wav", notices=notices)


def test_notices_are_merged_in_any_order() -> None:
    notices = [
        Notice("channels", 0.0, 2.0, "inverted"),
        Notice("channels", 2.5, 4.0, "inverted"),
        Notice("channels", 2.0, 4.0, "left"),
        Notice("time", 3.0, 3.5, "inverted"),
        Notice("channels", 5.1, 6.0, "inverted"),
    ]
    expected = (
        Notice("channels", 0.0, 4.0, "inverted"),
        Notice("channels", 2.0, 4.0, "left"),
        Notice("time", 3.0, 3.5, "inverted"),
        Notice("channels", 5.1, 6.0, "inverted"),
    )
    assert {merged(order) for order in permutations(notices)} == {expected}


def test_the_log_has_one_warning_for_each_kind_and_text(caplog: pytest.LogCaptureFixture) -> None:
    notices = Notices("talk.wav")
    with caplog.at_level(logging.WARNING):
        for second in range(0, 100, 10):
            notices.add("damaged", second, second + 1, "silence replaces damaged audio")
        notices.add("time", 1.0, 2.0, "silence replaces damaged audio")
    assert [record.getMessage() for record in caplog.records] == [
        "talk.wav: silence replaces damaged audio (from 0.00 to 1.00 s)",
        "talk.wav: silence replaces damaged audio (from 1.00 to 2.00 s)",
    ]
    assert len(notices.all()) == 11


def test_the_missing_duration_is_that_of_incomplete_recordings() -> None:
    transcript = _transcript(
        Notice("damaged", 1.0, 2.0, "silence"), Notice("incomplete", 24.0, 60.0, "cut off")
    )
    assert transcript.missing_duration == 36.0
    value = json.loads(verbose_json(transcript))
    assert value["missing_duration"] == 36.0
    assert value["notices"][1] == {
        "kind": "incomplete",
        "start": 24.0,
        "end": 60.0,
        "text": "cut off",
    }


def test_joined_spans_have_each_notice_once() -> None:
    track = Notice("track", 0.0, 0.0, "track 1 has the speech")
    spans = [
        _transcript(track, Notice("channels", 0.0, 300.0, "inverted")),
        _transcript(track, Notice("channels", 290.0, 600.0, "inverted")),
    ]
    assert join_spans(spans).notices == (track, Notice("channels", 0.0, 600.0, "inverted"))


def through_json(values: Any) -> Any:
    return json.loads(json.dumps(values))


def default(field: Field[Any]) -> object:
    return field.default_factory() if field.default_factory is not MISSING else field.default


@pytest.mark.parametrize("field", fields(Transcript), ids=lambda field: field.name)
def test_every_field_survives(field: Field[Any]) -> None:
    value = getattr(COMPLETE, field.name)
    assert value != default(field)
    assert getattr(Transcript.from_dict(COMPLETE.to_dict()), field.name) == value
    assert getattr(Transcript.from_dict(through_json(COMPLETE.to_dict())), field.name) == value
    assert getattr(join_spans([COMPLETE]), field.name) == value
    together = getattr(
        join_spans([COMPLETE, Transcript((), None, 0.0, 0.0, "talk.mp3")]), field.name
    )
    assert together == value


def test_the_spans_of_a_recording_are_added() -> None:
    twice = join_spans([COMPLETE, COMPLETE])
    assert [segment.id for segment in twice.segments] == [0, 1, 2, 3]
    assert (twice.chunks, twice.redecoded, twice.checked_duration) == (6, 2, 1.0)
    assert twice.diarization
    assert COMPLETE.diarization
    assert twice.diarization.turns == 2 * COMPLETE.diarization.turns
    assert twice.diarization.exclusive == 2 * COMPLETE.diarization.exclusive
    assert twice.diarization.embeddings.keys() == {"Ann"}


def test_the_voices_of_speakers_survive() -> None:
    read = Transcript.from_dict(through_json(COMPLETE.to_dict())).diarization
    assert read
    assert read.embeddings["Ann"].dtype == np.float32
    np.testing.assert_array_equal(read.embeddings["Ann"], np.array([0.6, 0.8], np.float32))


def test_fields_with_a_default_may_be_missing() -> None:
    values: dict[str, object] = {
        "segments": [],
        "language": None,
        "language_probability": 0.0,
        "duration": 1,
    }
    transcript = Transcript.from_dict({**values, "source": "a.wav"})
    assert transcript == Transcript((), None, 0.0, 1.0, "a.wav")
    with pytest.raises(OptionError, match="source"):
        Transcript.from_dict(values)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text": "Yes."}, "Transcript has no 'text'"),
        ({"segments": None}, "segments must be a tuple, not NoneType"),
        ({"segments": ["Yes."]}, r"segments\[0\] must be a Segment, not str"),
        ({"segments": [{"id": 0}]}, r"segments\[0\] lacks 'start'"),
        ({"chunks": 1.5}, "chunks must be a whole number, not float"),
        ({"checked_duration": float("inf")}, "checked_duration must be a finite number"),
        ({"diarization": {"turns": [], "embeddings": 1}}, "diarization.embeddings must be a dict"),
        (
            {"diarization": {"turns": [], "embeddings": {"Ann": "x"}}},
            "diarization.embeddings must be an array of numbers",
        ),
        ({"diarization": []}, "diarization must be a Diarization, not list"),
    ],
)
def test_values_that_are_no_transcript_are_refused(
    changes: Mapping[str, object], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        Transcript.from_dict({**COMPLETE.to_dict(), **changes})


def test_another_value_than_a_dict_is_refused() -> None:
    with pytest.raises(OptionError, match="Transcript must be a dict, not list"):
        Transcript.from_dict([])  # type: ignore[arg-type]


T = TypeVar("T", bound=np.generic)


def test_an_array_may_be_declared_with_an_alias_of_python_3_12() -> None:
    """NumPy 2.5 declares `NDArray` so; every field of a transcript was then refused."""
    alias = TypeAliasType("alias", np.ndarray[Any, np.dtype[T]], type_params=(T,))

    @dataclasses.dataclass
    class Voice:
        vectors: Mapping[str, alias[np.float32]]

    [vector] = from_values(Voice, {"vectors": {"Ann": [0.5, 1]}}).vectors.values()
    assert vector.dtype == np.float32
    check_fields(Voice, Voice({"Ann": vector}))
    with pytest.raises(OptionError, match="vectors must be an array of numbers"):
        from_values(Voice, {"vectors": {"Ann": "x"}})
