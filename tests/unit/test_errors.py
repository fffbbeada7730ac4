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


def test_options_are_written_as_the_place_writes_them() -> None:
    error = wb.OptionError("`vad_onset=0.5` and `clips[0]` have no effect with `vad=False`, `so`")
    assert str(error) == "vad_onset=0.5 and clips[0] have no effect with vad=False, so"
    assert error.options == ("vad_onset", "clips", "vad", "so")
    spelled = error.spelled(lambda name, value: f"<{name}|{value}>")
    assert (
        spelled == "<vad_onset|0.5> and <clips|None>[0] have no effect with <vad|False>, <so|None>"
    )
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - of this process
    assert copy.spelled(lambda name, _: name.upper()).startswith("VAD_ONSET and CLIPS[0]")


def test_an_error_of_a_recording_keeps_its_options() -> None:
    error = errors.of_recording(wb.OptionError("`vad=False` has no effect"), "a.wav")
    assert str(error) == "a.wav: vad=False has no effect"
    assert error.spelled(lambda name, _: f"--no-{name}") == "a.wav: --no-vad has no effect"


def test_other_text_in_backticks_stays() -> None:
    for text in ("`pip install x`", "a`b", "``", "`2` and `-x`"):
        assert str(wb.ModelError(text)) == text


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
