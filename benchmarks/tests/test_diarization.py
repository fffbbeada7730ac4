"""Measures of diarization, and the program that compares diarizers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whisperbatch as wb
from benchmarks.diarization import __main__ as program
from benchmarks.diarization import conversations, measures, systems, words, workers
from benchmarks.diarization.conversations import Conversation, Spoken, Turn
from benchmarks.diarization.measures import Diarization, Errors

REFERENCE = (Turn(0, 10, "a"), Turn(10, 20, "b"))
TALK = Conversation("talk", np.zeros(20 * 16_000, np.float32), REFERENCE, ())


@pytest.mark.parametrize(
    ("found", "expected", "tolerant"),
    [
        (REFERENCE, Errors(20, 0, 0, 0), 0),
        ((Turn(0, 10, "x"), Turn(10, 20, "y")), Errors(20, 0, 0, 0), 0),
        ((), Errors(20, 20, 0, 0), 1),
        ((Turn(0, 20, "x"),), Errors(20, 0, 0, 10), 0.5),
        ((Turn(0, 10.2, "x"), Turn(10.2, 20, "y")), Errors(20, 0, 0, 0.2), 0),
        ((Turn(0, 8, "x"), Turn(10, 20, "y")), Errors(20, 2, 0, 0), 1.75 / 19),
        ((*REFERENCE, Turn(5, 9, "z")), Errors(20, 0, 4, 0), 4 / 19),
        ((*REFERENCE, Turn(5, 9, "a")), Errors(20, 0, 0, 0), 0),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_known_errors(found: tuple[Turn, ...], expected: Errors, tolerant: float) -> None:
    pytest.importorskip("pyannote.metrics")
    measured = measures.measure(REFERENCE, found, seconds=20)
    for name in Errors.__slots__:
        assert getattr(measured.exact, name) == pytest.approx(getattr(expected, name))
    assert measured.tolerant.rate == pytest.approx(tolerant)
    assert measured.speakers == ((2, len({turn.speaker for turn in found})),)


@pytest.mark.filterwarnings("ignore")
def test_overlaps_count_twice() -> None:
    pytest.importorskip("pyannote.metrics")
    overlapping = (Turn(0, 10, "a"), Turn(5, 10, "b"))
    assert measures.errors(overlapping, (Turn(0, 10, "a"),), 10) == Errors(15, 5, 0, 0)


@pytest.mark.filterwarnings("ignore")
def test_words_of_a_wrong_speaker_are_two_errors() -> None:
    pytest.importorskip("meeteval")
    reference = [Spoken(0, 1, "a", "Good morning."), Spoken(1, 2, "b", "Hello, how are you?")]
    renamed = [Spoken(0, 1, "y", "good morning"), Spoken(1, 2, "x", "hello how are you")]
    assert measures.word_error_rate(reference, renamed) == 0
    moved = [Spoken(0, 1, "y", "good morning hello"), Spoken(1, 2, "x", "how are you")]
    assert measures.word_error_rate(reference, moved) == pytest.approx(2 / 6)


def test_texts_are_compared_without_case_and_punctuation() -> None:
    assert measures.normalized(" Don't -- stop, Zoë!") == "don't stop zoë"


def test_measurements_add_up() -> None:
    first = Diarization(Errors(10, 1, 2, 3), Errors(8), ((2, 2),), 20, 2)
    total = first + Diarization(Errors(10), Errors(9), ((3, 2),), 30, 3)
    assert total.exact == Errors(20, 1, 2, 3)
    assert total.exact.rate == pytest.approx(0.3)
    assert (total.right_counts, total.seconds, total.took) == (1, 50, 5)
    assert Errors().rate == 0


def worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str) -> None:
    """Replace the worker by a Python program that finds `sys.argv[1:]` as the real one does."""
    script = tmp_path / "worker.py"
    script.write_text(f"import json, sys, pathlib\n{body}\n", encoding="utf-8")
    monkeypatch.setattr(systems, "WORKER", script)
    monkeypatch.setattr(systems, "cache", lambda: tmp_path / "cache")


def test_a_result_is_computed_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = {
        "turns": [[2.0, 3.0, "x"], [0.0, 1.0, "y"]],
        "took": 0.5,
        "exclusive": [],
        "version": "1",
    }
    body = f"pathlib.Path(sys.argv[3]).write_text({json.dumps(result)!r})"
    worker(monkeypatch, tmp_path, body)
    first = systems.run("whisperbatch", TALK)
    assert first.turns == (Turn(0, 1, "y"), Turn(2, 3, "x"))
    assert first.took == 0.5
    monkeypatch.setattr(systems, "_compute", lambda *_: pytest.fail("computed twice"))
    assert systems.run("whisperbatch", TALK) == first
    with pytest.raises(pytest.fail.Exception):
        systems.run("whisperbatch", TALK, speakers=2)


def test_the_reference_has_the_true_turns() -> None:
    assert systems.run("reference", TALK).turns == TALK.turns


def test_a_failed_or_missing_system_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    worker(monkeypatch, tmp_path, "sys.exit('no such model')")
    with pytest.raises(systems.DiarizerError, match="whisperbatch failed: no such model"):
        systems.run("whisperbatch", TALK)
    with pytest.raises(systems.DiarizerError, match="--models pyannote=DIRECTORY"):
        systems.run("pyannote", TALK)
    monkeypatch.setenv("WHISPERBATCH_DIARIZERS", str(tmp_path))
    with pytest.raises(systems.DiarizerError, match="make diarizers"):
        systems.run("senko", TALK)


def test_workers_write_turns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def listen(_: str, options: workers.Options) -> workers.Found:
        return workers.Found([(0.0, 1.0, str(options["speakers"]))], 0.25, [(0.0, 1.0)])

    monkeypatch.setitem(workers.WORKERS, "whisperbatch", ("numpy", listen))
    workers.main("whisperbatch", "", str(tmp_path / "result.json"), '{"speakers": 2}')
    content = json.loads((tmp_path / "result.json").read_text())
    assert content["turns"] == [[0.0, 1.0, "2"]]
    assert (content["took"], content["speech"]) == (0.25, [[0.0, 1.0]])


def test_the_table_and_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = Diarization(Errors(20, 1, 1, 2), Errors(18, 0, 0, 0.9), ((2, 2),), 20, 2)
    told: list[Any] = []
    asked: list[bool] = []

    def run(system: str, talk: Conversation, speakers: int | None, models: object) -> Any:
        told.append(speakers)
        if system == "senko":
            raise systems.DiarizerError("senko is not installed")
        return systems.Result(REFERENCE, 2.0, "1")

    def build(*_: object, with_text: bool) -> Conversation:
        asked.append(with_text)
        return TALK

    monkeypatch.setattr(conversations, "build", build)
    monkeypatch.setattr(systems, "run", run)
    monkeypatch.setattr(measures, "measure", lambda *_: measured)
    monkeypatch.setattr(words, "measure", lambda *_: (3, 20, 0.5))
    path = tmp_path / "rows.json"
    command = [
        "--classes",
        "two",
        "--systems",
        "whisperbatch",
        "senko",
        "--seeds",
        "2",
        "--tell-speakers",
        "--with-text",
        "--json",
        str(path),
    ]
    program.main(command)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:7] == ["two", "whisperbatch", "20.0", "5.0", "5.0", "5.0", "10.0"]
    assert lines[1].split()[7:10] == ["15.0", "50.0", "2"]
    assert lines[1].endswith(" 10.0x")
    assert "senko is not installed" in lines[2]
    (row,) = json.loads(path.read_text())
    assert (row["right"], row["seconds"], len(row["each"])) == (2, 40, 2)
    assert told == [2, 2, 2]
    assert asked == [True, True, True]


@pytest.mark.parametrize(
    ("turns", "wrong"),
    [
        (REFERENCE, 0),
        ((Turn(0, 10, "y"), Turn(10, 20, "x")), 0),  # other names
        ((Turn(0, 20, "x"),), 5),
        ((Turn(0, 12, "x"), Turn(12, 20, "y")), 1),
        ((Turn(0, 8, "x"), Turn(8, 10, "z"), Turn(10, 20, "y")), 1),
        ((), 5),
    ],
)
def test_words_with_a_wrong_speaker(turns: tuple[Turn, ...], wrong: int) -> None:
    segments = [segment(float(start)) for start in range(0, 20, 2)]
    found = words.spoken_by(segments, turns)
    right = words.right_speakers(found, REFERENCE)
    assert right == [frozenset("a")] * 5 + [frozenset("b")] * 5
    assert words.wrong_speakers(right, found) == wrong


def segment(*starts: float) -> wb.Segment:
    """Return a segment of words of one second."""
    said = tuple(wb.Word(start, start + 1, " word", 1.0) for start in starts)
    text = "word " * len(said)
    return wb.Segment(0, starts[0], starts[-1] + 1, text.strip(), "en", -0.1, 0, 1, words=said)


def test_words_have_the_speakers_of_a_transcript() -> None:
    turns = (Turn(0, 3, "a"), Turn(2, 9, "b"), Turn(4, 10, "a"))
    for exclusive, names in ((), "aab"), ((Turn(0, 1.9, "a"), Turn(1.9, 9, "b")), "abb"):
        alone = words.spoken_by([segment(0), segment(2), segment(4)], turns, exclusive)
        assert [word.speaker for word in alone] == list(names)
    around = (Turn(0, 3, "a"), Turn(3, 4, "b"), Turn(4, 5, "a"))
    together = words.spoken_by([segment(0, 1, 2, 3, 4)], around)
    assert {word.speaker for word in together} == {"a"}  # one word does not divide the segment


def test_in_overlapping_speech_both_speakers_are_right() -> None:
    said = [Spoken(start, start + 1.0, "", "word") for start in (2.0, 8.0, 9.4, 12.0)]
    right = words.right_speakers(said, [Turn(0, 10, "a"), Turn(7.6, 9.0, "b"), Turn(9.8, 15, "b")])
    assert right == [frozenset("a"), frozenset("ab"), frozenset("ab"), frozenset("b")]
    for names, wrong in (("xxyy", 0), ("xyyy", 0), ("xyxx", 1), ("yyxx", 0), ("zzzz", 1)):
        found = [word._replace(speaker=name) for word, name in zip(said, names, strict=True)]
        assert words.wrong_speakers(right, found) == wrong


def test_no_words_are_not_wrong() -> None:
    assert words.wrong_speakers(words.right_speakers([], REFERENCE), []) == 0
