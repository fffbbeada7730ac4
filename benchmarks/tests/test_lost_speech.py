"""The benchmark of lost speech: uncovered speech, bootstrap, kept results, report and command."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import whisperbatch as wb
from benchmarks import systems
from benchmarks.lost_speech import __main__ as command
from benchmarks.lost_speech import results as results_module
from benchmarks.lost_speech.bootstrap import DRAWS, compare
from benchmarks.lost_speech.report import Report, compared, rates
from benchmarks.lost_speech.results import Result, Results
from benchmarks.measures import Accuracy
from benchmarks.recordings import Utterance
from benchmarks.scoring import Score, TimedWord, uncovered
from benchmarks.systems import SystemTranscript

SPOKEN = (Utterance(1, 3, "please hold", "en"), Utterance(6, 8, "good morning", "en"))


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ([], 4.0),
        ([TimedWord(1, 3, "please hold"), TimedWord(6, 8, "good morning")], 0.0),
        ([TimedWord(0, 20, "everything")], 0.0),
        ([TimedWord(1, 1.5, "please")], 3.0),  # covered until 2.0
        ([TimedWord(0.2, 0.4, "and")], 4.0),  # ends 0.6 s before the speech
        ([TimedWord(2, 2.2, "hold"), TimedWord(1.9, 2.1, "hold")], 0.4 + 0.3 + 2.0),
        ([TimedWord(7, 7.1, " ..."), TimedWord(20, 21, "late")], 4.0),  # no word; too late
    ],
)
def test_speech_is_uncovered_if_no_word_is_near(words: list[TimedWord], seconds: float) -> None:
    assert uncovered(SPOKEN, words) == pytest.approx(seconds)


def test_overlapping_speakers_count_once() -> None:
    both = (Utterance(0, 4, "one", "en"), Utterance(2, 6, "two", "en"))
    assert uncovered(both, []) == 6
    assert uncovered(both, [TimedWord(2.5, 3.5, "one")]) == 4


def test_a_constant_difference_is_certain() -> None:
    difference = compare([3, 6, 9, 3, 3], [2, 4, 6, 2, 2], [10, 20, 30, 10, 10])
    assert difference
    assert difference.estimate == pytest.approx(0.1)
    assert (difference.low, difference.high) == pytest.approx((0.1, 0.1))
    assert difference.verdict == "worse"


def test_chance_is_not_a_difference() -> None:
    errors, others = [3, 9, 1, 4, 4, 8, 2, 6], [4, 7, 2, 4, 3, 9, 2, 5]
    difference = compare(errors, others, [50] * 8)
    assert difference
    assert difference.low < difference.estimate < difference.high
    assert difference.verdict == "same"
    assert compare(errors, others, [50] * 8) == difference  # the draws are always the same
    mirrored = compare(others, errors, [50] * 8)
    assert mirrored
    assert mirrored.low == pytest.approx(-difference.high)


def test_the_interval_is_that_of_the_mean() -> None:
    """For equal sizes, it is about 1.96 standard errors wide on each side."""
    errors = [float(number % 5) for number in range(100)]
    difference = compare(errors, [0.0] * 100, [1.0] * 100)
    assert difference
    assert DRAWS >= 1000
    assert difference.estimate == pytest.approx(2)
    standard_error = 2**0.5 / 10
    assert difference.high - difference.low == pytest.approx(2 * 1.96 * standard_error, rel=0.1)


def test_few_recordings_decide_nothing() -> None:
    difference = compare([5] * 4, [0] * 4, [10] * 4)
    assert difference
    assert difference.verdict == "unknown"
    better = compare([0] * 5 + [7], [5] * 5 + [9], [10] * 5 + [0])  # a size of 0 does not count
    assert better
    assert (better.verdict, better.recordings) == ("better", 5)
    assert compare([1], [2], [0]) is None


def accuracy(errors: int, *, words: int = 10, missed: float = 0.0, made_up: int = 0) -> Accuracy:
    speech = 5.0 if words else 0.0
    return Accuracy(
        Score(words, substitutions=errors),
        Score(),
        seconds=65.0,
        took=6.5,
        silence=60.0,
        speech=speech,
        made_up=made_up,
        missed=missed,
        uncovered=missed / 2,
    )


def test_recordings_without_speech_have_only_invented_words() -> None:
    silent = accuracy(4, words=0, made_up=4)
    assert rates([silent]) == {"wer": None, "missed": None, "lost": None, "invented": 4.0}
    assert rates([silent, accuracy(1, missed=2)]) == {
        "wer": 10.0,
        "missed": 20.0,
        "lost": 40.0,
        "invented": 2.0,
    }
    assert list(compared([silent] * 5, [silent] * 5)) == ["invented"]


@pytest.fixture
def report() -> Report:
    report = Report({"half": "test"}, ["faster-whisper-5", "whisperbatch-1"], "faster-whisper-5")
    for number in range(5):
        for corpus, words in (("hoarse", 10), ("animals", 0)):
            name = f"{corpus}:en:60:{number}"
            report.add(corpus, "faster-whisper-5", name, Result(accuracy(1, words=words), "a"))
            ours = accuracy(3 + number % 2, words=words, made_up=0 if words else 2)
            report.add(corpus, "whisperbatch-1", name, Result(ours, "b", {"chunks": 3}))
    return report


def test_the_table_marks_significant_differences(report: Report) -> None:
    reference, ours = report.lines("hoarse", ["hoarse"])
    assert reference.split() == [
        *("hoarse", "faster-whisper-5", "10.00", "0.00", "0.00", "0.00", "10.0")
    ]
    assert ours.split() == ["hoarse", "whisperbatch-1", "34.00!", "0.00", "0.00", "0.00", "10.0"]
    assert next(report.lines("animals", ["animals"])).split()[2:5] == ["-", "-", "-"]
    assert list(report.lines("all", ["hoarse", "animals"]))[1].split()[5] == "1.00!"


def test_the_json_value_has_corpora_groups_and_recordings(report: Report) -> None:
    value = json.loads(json.dumps(report.value({"all": ["hoarse", "animals"]})))
    assert value["half"] == "test"
    assert set(value["corpora"]) == {"hoarse", "animals", "all"}
    ours = value["corpora"]["hoarse"]["whisperbatch-1"]
    assert ours["against_reference"]["wer"]["estimate"] == pytest.approx(24)
    assert ours["against_reference"]["wer"]["verdict"] == "worse"
    assert value["corpora"]["all"]["faster-whisper-5"]["against_reference"] == {}
    assert len(value["recordings"]) == 10
    recording = value["recordings"]["animals:en:60:3"]
    assert recording["corpus"] == "animals"
    assert recording["whisperbatch-1"]["text"] == "b"
    assert recording["whisperbatch-1"]["chunks"] == 3


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory that stands for a model."""
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "model.bin").write_bytes(b"weights")
    monkeypatch.setattr(results_module, "find_model", Path)
    return directory


def test_results_are_kept_until_something_changes(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kept(**options: object) -> Results:
        return Results(tmp_path / "kept", str(model), options)

    result = Result(accuracy(2, made_up=1), "text", {"chunks": 2})
    for system in ("whisperbatch-5", "faster-whisper-5"):
        assert kept().load("hoarse:en:60:1", system) is None
        kept().save("hoarse:en:60:1", system, result)
        assert kept().load("hoarse:en:60:1", system) == result
        assert kept().load("hoarse:en:60:3", system) is None
    assert kept().load("hoarse:en:60:1", "whisperbatch-1") is None
    # options and code concern only whisperbatch
    assert kept(vad_onset=0.2).load("hoarse:en:60:1", "whisperbatch-5") is None
    assert kept(vad_onset=0.2).load("hoarse:en:60:1", "faster-whisper-5") == result
    with monkeypatch.context() as patch:
        patch.setattr(results_module, "_library_digest", lambda: "changed")
        assert kept().load("hoarse:en:60:1", "whisperbatch-5") is None
        assert kept().load("hoarse:en:60:1", "faster-whisper-5") == result
    with monkeypatch.context() as patch:
        patch.setattr(results_module, "_benchmark_digest", lambda: "changed")
        assert kept().load("hoarse:en:60:1", "faster-whisper-5") is None
    (model / "model.bin").write_bytes(b"other weights")
    assert kept().load("hoarse:en:60:1", "faster-whisper-5") is None


def test_digests_depend_on_contents_and_names(tmp_path: Path) -> None:
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("a")
    two.write_text("b")
    first = results_module.digest([one, two])
    assert results_module.digest([two, one]) == first
    two.write_text("c")
    assert results_module.digest([one, two]) != first
    for name in (*results_module.RELATED, *results_module.UNRELATED):
        folder = Path(results_module.__file__).parent
        assert (folder / name).is_file() or (folder.parent / name).is_file()


def test_recordings_take_turns_in_five_languages() -> None:
    assert command.recording_names("hoarse", "test", 0.5) == ["hoarse:en:30:1"]
    names = command.recording_names("hoarse", "development", 5)
    assert names == [f"hoarse:{code}:60:0" for code in ("en", "es", "fr", "it", "ru")]
    names = command.recording_names("hoarse", "test", 12)
    assert len(names) == 6
    english = command.recording_names("hoarse", "test", 5, ["en"])
    assert english == [f"hoarse:en:60:{seed}" for seed in (1, 3, 5, 7, 9)]
    assert names[5] == "hoarse:en:120:3"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Replace the systems with fakes; return the runs that happen: system and language."""
    happened: list[tuple[str, str]] = []

    def system(name: str) -> systems.System:
        def run(path: Path, language: str) -> SystemTranscript:
            assert path.is_file()
            happened.append((name, language))
            return SystemTranscript("hello", words=(TimedWord(0, 60, "hello"),))

        return run

    @contextmanager
    def open_systems(
        names: Iterator[str], model: str, options: wb.Options
    ) -> Iterator[Mapping[str, systems.System]]:
        yield {name: system(name) for name in names}

    monkeypatch.setattr(systems, "open_systems", open_systems)
    return happened


def test_a_second_run_continues(
    runs: list[tuple[str, str]], tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.json"
    common = ["--model", str(model), "--results", str(tmp_path / "kept"), "--minutes", "0.5"]
    assert command.main([*common, "--corpora", "hoarse", "--systems", "whisperbatch-1"]) == 0
    assert runs == [("faster-whisper-5", "en"), ("whisperbatch-1", "en")]
    runs.clear()
    arguments = [*common, "--systems", "whisperbatch-1", "whisperbatch-5", "--json", str(path)]
    assert command.main([*arguments, "--corpora", "hoarse", "hold_music"]) == 0
    assert [name for name, _ in runs] == [
        *("whisperbatch-5", "faster-whisper-5", "whisperbatch-1", "whisperbatch-5")
    ]
    value: dict[str, Any] = json.loads(path.read_text())
    assert set(value["corpora"]) == {"hoarse", "hold_music", "all"}
    assert value["reference"] == "faster-whisper-5"
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[3:]] == [
        *("corpus", *["hoarse"] * 3, *["hold_music"] * 3, *["all"] * 3)
    ]


def test_the_language_of_the_name_is_used_without_speech(
    runs: list[tuple[str, str]], tmp_path: Path, model: Path
) -> None:
    arguments = ["--model", str(model), "--results", str(tmp_path / "kept"), "--minutes", "5"]
    arguments += ["--corpora", "hold_music", "--systems", "faster-whisper-5"]
    assert command.main(arguments) == 0
    assert [language for _, language in runs] == ["en", "es", "fr", "it", "ru"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--corpora", "hoarser"], "invalid choice: 'hoarser'"),
        (["--systems", "whisper-5"], "whisper-5: the systems are "),
        (["--minutes", "0.1"], "write minutes from 0.5 to 1440"),
        (["--minutes", "many"], "write minutes from 0.5 to 1440"),
        (["--languages", "de"], "invalid choice: 'de'"),
        (["--half", "both"], "invalid choice: 'both'"),
        (["--json", "none/such/out.json"], "there is no directory"),
    ],
)
def test_invalid_arguments_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as error:
        command.main(arguments)
    assert error.value.code == 2
    assert message in capsys.readouterr().err


def test_errors_are_one_line(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--model", str(model), "--results", str(tmp_path), "--corpora", "hoarse"]
    assert command.main([*arguments, "--option", "max_paus=1"]) == 2
    assert capsys.readouterr().err.startswith("lost_speech: max_paus")
