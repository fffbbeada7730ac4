"""A transcript that a program builds is written, or refused by the name of its field."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.transcripts import segment, segment_with_words, transcript
from whisperbatch.errors import WriteError
from whisperbatch.types import Diarization, Omission, Turn
from whisperbatch.writers import FORMATS, render

COMPLETE = replace(
    transcript(segment("No.", 0, 1), segment_with_words("Well, I know.", 1)),
    omissions=(Omission(4.0, 5.0, "Thanks!", "boilerplate", 1.0),),
    diarization=Diarization((Turn(0.0, 1.0, "SPEAKER_00", 1.0),)),
)


def changed(name: str, value: Any) -> Any:
    """Return COMPLETE with one field changed, given as in the messages of WriteError."""
    parts = name.replace("[", ".").replace("]", "").split(".")

    def change(owner: Any, rest: list[str]) -> Any:
        if not rest:
            return value
        if isinstance(owner, tuple):
            number = int(rest[0])
            return (*owner[:number], change(owner[number], rest[1:]), *owner[number + 1 :])
        return replace(owner, **{rest[0]: change(getattr(owner, rest[0]), rest[1:])})

    return change(COMPLETE, parts)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300, 10**400, -1e10])
@pytest.mark.parametrize(
    "name",
    ["segments[1].start", "segments[0].end", "segments[1].words[2].start", "omissions[0].end"],
)
def test_times_that_are_not_finite_are_refused_by_name(
    name: str,
    value: float,
    format: str,  # noqa: A002 - as in `render`
) -> None:
    with pytest.raises(WriteError) as caught:
        render(changed(name, value), format)
    assert str(caught.value).startswith(f"{name} ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("segments", None, "segments must be a tuple, not NoneType"),
        ("segments", "text", "segments must be a tuple, not str"),
        ("segments[1]", {"start": 0}, "segments[1] must be a Segment, not dict"),
        ("segments[0].text", None, "segments[0].text must be a str, not NoneType"),
        ("segments[0].text", b"No.", "segments[0].text must be a str, not bytes"),
        ("segments[0].start", "0", "segments[0].start must be a number, not str"),
        ("segments[0].start", True, "segments[0].start must be a number, not bool"),
        ("segments[0].id", 0.5, "segments[0].id must be a whole number, not float"),
        ("segments[0].id", 10**400, "segments[0].id is out of range: at most 9.22337e+18"),
        ("segments[0].language", None, "segments[0].language must be a str, not NoneType"),
        ("segments[1].words", 3, "segments[1].words must be a tuple, not int"),
        ("segments[1].words[0].word", 3, "segments[1].words[0].word must be a str, not int"),
        ("segments[0].avg_logprob", None, "segments[0].avg_logprob must be a number, not NoneType"),
        (
            "duration",
            math.nan,
            "duration must be a finite number of seconds, at most 1e+09, not nan",
        ),
        ("language", 3, "language must be a str, not int"),
        ("omissions[0].reason", None, "omissions[0].reason must be a str, not NoneType"),
        ("chunks", "2", "chunks must be a whole number, not str"),
    ],
)
def test_values_of_another_type_are_refused_by_name(
    name: str,
    value: Any,
    message: str,
    format: str,  # noqa: A002 - as in `render`
) -> None:
    with pytest.raises(WriteError) as caught:
        render(changed(name, value), format)
    assert str(caught.value) == message


@pytest.mark.parametrize("format", FORMATS)
def test_lists_and_unusual_times_are_written(format: str) -> None:  # noqa: A002 - as in `render`
    assert render(changed("segments", list(COMPLETE.segments)), format) == render(COMPLETE, format)
    for name, value in (
        ("segments[0].start", -3.5),
        ("segments[0].end", -2),
        ("segments[1].words[0].start", 100.0),
        ("segments[1].words[2].end", -1),
        ("segments[1].end", 1e9),
        ("diarization.turns[0].end", -1),
        ("segments[0].language", "\ud800\0&<"),
    ):
        assert render(changed(name, value), format).encode()


def test_scores_that_are_not_finite_are_null_in_json() -> None:
    text = render(changed("segments[0].avg_logprob", -math.inf), "json")
    content = json.loads(text, parse_constant=pytest.fail)
    assert content["segments"][0]["avg_logprob"] is None
