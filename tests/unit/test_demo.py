"""The demo: how wrong words are marked, and which files it refuses."""

import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typing_extensions import Self

import whisperbatch as wb
from benchmarks import speech
from examples import demo

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "console", Console(color_system=None))


@pytest.mark.parametrize(
    ("truth", "found", "shown"),
    [
        ("one two three", "one two three", "all right"),
        ("one two three", "one three", "one [-two-] three"),
        ("one two", "one and two", "one {+and+} two"),
        ("one two", "one too", "one [-two-] {+too+}"),
        ("one two three", "won too three", "[-one two-] {+won too+} three"),
        ("one two three", "", "[-one two three-]"),
        ("one", "zero one", "{+zero+} one"),
        ("a b c d e f g h i", "a b c d x f g h i", "a b c d [-e-] {+x+} f g h i"),
        ("a b c d e f g h i j k", "a b c d e x g h i j k", "... c d e [-f-] {+x+} g h i ..."),
        ("z b c d e f g h i y", "b c d e f g h i", "[-z-] b c d ... g h i [-y-]"),
        (
            "a b c d e f g h i j",
            "a j",
            "a [-b c d ... (2 more) ... g h i-] j",
        ),
    ],
)
def test_wrong_words_are_marked_with_their_surroundings(truth: str, found: str, shown: str) -> None:
    marks = demo.mark_words(truth.split(), found.split())
    assert demo.excerpt(marks).plain == shown


def test_words_have_the_place_of_the_truth() -> None:
    marks = demo.mark_words(["one", "two", "three", "four"], ["one", "too", "tree", "and", "four"])
    right = {mark.place for mark in marks if mark.kind == demo.RIGHT}
    missed = {mark.place for mark in marks if mark.kind == demo.MISSED}
    invented = [mark.word for mark in marks if mark.kind == demo.INVENTED]
    assert (right, missed, invented) == ({0, 3}, {1, 2}, ["too", "tree", "and"])
    assert all(0 <= mark.place < 3 for mark in marks if mark.kind == demo.INVENTED)


def test_a_missing_file_is_refused_before_a_model_is_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for function in ("run", "Popen"):
        monkeypatch.setattr(subprocess, function, lambda *_, **__: pytest.fail("a program started"))
    monkeypatch.setattr(wb, "load", lambda *_: pytest.fail("a model was loaded"))
    assert demo.main([__file__, "missing.mp3"]) == 1
    assert capsys.readouterr() == ("", "demo: missing.mp3: there is no such file\n")


def test_speech_that_cannot_be_fetched_skips_its_part(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Model:
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            """Nothing is open."""

    def fail(*_: object) -> None:
        raise speech.SpeechError("apt-get is not installed")

    monkeypatch.setattr(wb, "load", lambda _: Model())
    shown: list[object] = []
    monkeypatch.setattr(demo, "show_call", shown.append)
    for part in ("show_hour", "show_languages", "compare"):
        monkeypatch.setattr(demo, part, fail)
    monkeypatch.setattr(demo, "console", Console(color_system=None, width=100))
    assert demo.main([]) == 0
    assert len(shown) == 1
    assert capsys.readouterr().out.count("Skipped: apt-get is not installed\n") == 3


def test_make_runs_the_demo_of_this_folder() -> None:
    done = subprocess.run(
        [sys.executable, "examples/demo.py", "missing.mp3"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "demo: missing.mp3: there is no such file\n"
