"""The option `known_speakers`: its values, and its errors."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whisperbatch import OptionError, Options
from whisperbatch.options import parse_text
from whisperbatch.options.values import MAX_KNOWN, KnownSpeakers, parse_pairs
from whisperbatch.types import Audio


def known(value: Any) -> Any:
    return Options(diarize=True, known_speakers=value).known_speakers


def test_a_mapping_is_copied_and_compared_by_its_values() -> None:
    given: dict[str, Any] = {"Ann": "ann.wav", "Bob": Path("bob.wav")}
    option = known(given)
    given["Cy"] = "cy.wav"
    assert dict(option) == {"Ann": "ann.wav", "Bob": Path("bob.wav")}
    same = known({"Bob": Path("bob.wav"), "Ann": "ann.wav"})
    assert option == same
    assert hash(option) == hash(same)
    assert option != known({"Ann": "ann.wav"})
    assert option != known({"Ann": "ann.wav", "Bob": "other.wav"})
    assert pickle.loads(pickle.dumps(option)) == option  # noqa: S301 - our own value


def test_samples_are_the_same_only_if_they_are_one_array() -> None:
    samples = np.zeros(16_000, np.float32)
    assert known({"Ann": samples}) == known({"Ann": samples})
    assert known({"Ann": samples}) != known({"Ann": samples.copy()})
    assert (
        repr(known({"Ann": samples, "Bob": Audio(samples)})) == "{'Ann': <array>, 'Bob': <array>}"
    )


def test_no_names_are_no_option() -> None:
    assert known({}) is None
    assert Options(known_speakers={}) == Options()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("ann.wav", "must be a mapping of names to recordings"),
        (["Ann"], "must be a mapping"),
        ((1, 2), "must be a mapping"),
        ({"": "ann.wav"}, "the name '' is empty"),
        ({"\u200b ": "ann.wav"}, "is empty"),
        ({1: "ann.wav"}, "a name must be text, not 1"),
        ({"Ann\nBob": "ann.wav"}, "has a line break or another control character"),
        ({"Ann\u2028Bob": "ann.wav"}, "has a line break"),
        ({"Ann\u202e": "ann.wav"}, "control character"),
        ({"\ud800": "ann.wav"}, "lone surrogate"),
        ({" Ann": "ann.wav"}, "has a space at an end"),
        ({"A" * 101: "ann.wav"}, "has 101 characters; give at most 100"),
        ({"SPEAKER_00": "ann.wav"}, "a name that whisperbatch gives to other speakers"),
        ({"Speaker 7": "ann.wav"}, "a name that whisperbatch gives to other speakers"),
        ({"Ann": "a.wav", "ann": "b.wav"}, "'ann' and 'Ann' are the same name"),
        ({"Ann Lee": "a.wav", "Ann_Lee": "b.wav"}, "are the same name"),
        ((("Ann", "a.wav"), ("Ann", "b.wav")), "are the same name"),
        ({"Ann": None}, r"known_speakers\['Ann'\]=None is not a recording"),
        ({"Ann": 3}, "is not a recording; give a path"),
        ({str(n): "a.wav" for n in range(MAX_KNOWN + 1)}, "has 101 names"),
    ],
)
def test_wrong_values_are_refused(value: object, message: str) -> None:
    with pytest.raises(OptionError, match=message) as caught:
        known(value)
    assert str(caught.value).startswith("known_speakers")


@pytest.mark.parametrize(
    "name", ["Ann", "Ann Lee", "Zoë", "山田", "Dr. O'Neil-Smith", "नीता\u200d"]
)
def test_usual_names_are_accepted(name: str) -> None:
    assert list(known({name: b"RIFF"})) == [name]


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("Ann=ann.wav", (("Ann", "ann.wav"),)),
        ("Ann=ann.wav,Bob=b/bob.mp3", (("Ann", "ann.wav"), ("Bob", "b/bob.mp3"))),
        ("Ann Lee = a.wav, Bob=b.wav", (("Ann Lee", "a.wav"), ("Bob", "b.wav"))),
        ("Ann=a,b.wav,Bob=b.wav", (("Ann", "a,b.wav"), ("Bob", "b.wav"))),
        ("Ann=http://host/a.wav?x=1", (("Ann", "http://host/a.wav?x=1"),)),
    ],
)
def test_text_of_the_command_line(text: str, pairs: tuple[tuple[str, str], ...]) -> None:
    assert parse_pairs(text) == pairs
    assert parse_text(KnownSpeakers | None, text) == pairs
    assert dict(known(pairs)) == dict(pairs)


@pytest.mark.parametrize("text", ["", "Ann", "Ann=", "ann.wav,Bob=b.wav", "Ann=a.wav,Bob="])
def test_text_without_a_name_or_a_file_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="name without a file"):
        parse_pairs(text)
