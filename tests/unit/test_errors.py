"""The messages of errors: one line that every terminal shows."""

import pickle

import pytest

import whisperbatch as wb
from whisperbatch import errors

ERRORS = [getattr(errors, name) for name in errors.__all__]


@pytest.mark.parametrize("error", ERRORS)
def test_a_message_is_one_printable_line(error: type[wb.WhisperBatchError]) -> None:
    assert str(error("one\r\ntwo\u2028three")) == "one two three"
    assert str(error("\x1b[31m \0 \t \udcff \u202e")) == r"\x1b[31m \x00 \t \udcff \u202e"
    other_scripts = (
        "être, 日本\u3000語, \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645, \N{FAMILY}\u200d"
    )
    assert str(error(other_scripts)) == other_scripts


def test_a_recording_with_any_name_has_a_printable_message() -> None:
    error = wb.AudioError("is empty", source="\x1b[31m\udcff.wav")
    assert str(error) == r"\x1b[31m\udcff.wav: is empty"
    assert error.source == "\x1b[31m\udcff.wav"


@pytest.mark.parametrize("error", ERRORS)
def test_errors_pass_between_processes(error: type[wb.WhisperBatchError]) -> None:
    original = error("one\ntwo")
    original.source = "talk.wav"
    copy = pickle.loads(pickle.dumps(original))  # noqa: S301 - of this process
    assert (type(copy), str(copy), copy.source) == (error, "one two", "talk.wav")
