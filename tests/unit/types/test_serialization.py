"""Every field of a transcript survives its way through JSON, and the joining of spans."""

import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

import numpy as np
import pytest

from tests.unit.transcripts import COMPLETE
from whisperbatch.errors import OptionError
from whisperbatch.sections.joining import join_spans
from whisperbatch.types import Transcript


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


def test_parts_may_be_dataclasses_already() -> None:
    assert Transcript.from_dict({**COMPLETE.to_dict(), "segments": COMPLETE.segments}) == COMPLETE


def test_another_value_than_a_dict_is_refused() -> None:
    with pytest.raises(OptionError, match="Transcript must be a dict, not list"):
        Transcript.from_dict([])  # type: ignore[arg-type]
