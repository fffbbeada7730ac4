from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.fakes import write_noise
from tests.unit.jobs.planned_jobs import header, write_plan
from whisperbatch.errors import OptionError
from whisperbatch.jobs.names import digest
from whisperbatch.jobs.plans.format import Plan, PlanFiles, from_lines, to_lines
from whisperbatch.jobs.plans.settings import options_of, stored_options
from whisperbatch.options import Options, resolve


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    for number in range(3):
        write_noise(tmp_path / f"{number}.wav", 2.0 + number)
    (tmp_path / "bad.mp3").write_bytes(b"no media")
    return write_plan(tmp_path / "a.plan", [tmp_path], task_duration=5.0)


def test_a_plan_is_read_as_it_was_written(plan: Plan, tmp_path: Path) -> None:
    files = PlanFiles.at(str(tmp_path / "a.plan"))
    assert files.read() == plan
    assert files.read(recordings=False).tasks == plan.tasks
    assert len(plan.tasks) == 2
    assert [Path(failed.uri).name for failed in plan.failures] == ["bad.mp3"]


def test_ids_stay_the_same_until_something_changes(plan: Plan, tmp_path: Path) -> None:
    again = write_plan(tmp_path / "b.plan", [tmp_path], task_duration=5.0)
    assert {task.id for task in again.tasks} == {task.id for task in plan.tasks}
    write_noise(tmp_path / "0.wav", 2.5)
    changed = write_plan(tmp_path / "b.plan", [tmp_path], task_duration=5.0)
    same = {r.id for r in changed.recordings} & {r.id for r in plan.recordings}
    assert len(same) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[1:], "is not a plan"),
        (lambda lines: lines[:-1], "lines are missing"),
        (lambda lines: [], "is empty"),
        (lambda lines: ["no json\n", *lines[1:]], "line 1: is not JSON"),
        (lambda lines: ["[]\n", *lines[1:]], "line 1: is not a JSON object"),
        (
            lambda lines: [lines[0].replace('"version": 1', '"version": 9'), *lines[1:]],
            "another version",
        ),
        (
            lambda lines: [lines[0], '{"type": "recording"}\n', *lines[2:]],
            "line 2: Recording lacks 'id'",
        ),
    ],
)
def test_a_damaged_plan_is_refused(plan: Plan, change: object, message: str) -> None:
    lines = change(list(to_lines(plan)))  # type: ignore[operator]  # a function
    with pytest.raises(OptionError, match=rf"^x\.plan: .*{message}"):
        from_lines(lines, "x.plan")


def test_another_file_is_not_replaced(tmp_path: Path) -> None:
    write_noise(tmp_path / "a.wav")
    (tmp_path / "notes.txt").write_text("important")
    with pytest.raises(OptionError, match="another file is not replaced"):
        write_plan(tmp_path / "notes.txt", [tmp_path])
    assert (tmp_path / "notes.txt").read_text() == "important"


@pytest.mark.parametrize("name", ["", "folder", "folder/"])
def test_a_plan_needs_a_file_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(OptionError, match="is not the name of a plan"):
        PlanFiles.at(name)


def test_a_missing_plan_names_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="there is no such plan; make it with: whisperbatch plan"):
        PlanFiles.at(str(tmp_path / "a.plan")).read()


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": (0.0, 0.4), "suppress_tokens": (-1, 50257)},
        {"clip_timestamps": ((0.0, 1.5), (3.0, None)), "languages": ("en", "fr")},
        {"initial_prompt": (50363, 11), "hotwords": "GitHub"},
        {"diarize": True, "known_speakers": {"Ann": "/talks/ann.wav", "Bo": "s3://talks/bo.wav"}},
        {"vad": False, "language": "de"},
    ],
    ids=str,
)
def test_options_are_the_same_after_they_were_stored(options: dict[str, object]) -> None:
    given: Options = resolve(None, **options)  # type: ignore[arg-type]  # of any option
    stored = replace(header(), options=stored_options(given))
    assert options_of(stored) == given
    assert digest(options_of(stored)) == digest(given)  # work checks this


def test_paths_of_known_speakers_become_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    speakers: dict[str, Any] = {
        "Ann": "ann.wav",
        "Bo": Path("voices/bo.wav"),
        "Cy": "memory://a/../cy.wav",
    }
    stored = stored_options(Options(diarize=True, known_speakers=speakers, initial_prompt="a/b"))
    assert stored["known_speakers"] == {
        "Ann": str(tmp_path / "ann.wav"),
        "Bo": str(tmp_path / "voices/bo.wav"),
        "Cy": "memory://a/../cy.wav",
    }
    assert stored["initial_prompt"] == "a/b"


def test_options_that_a_file_cannot_hold_are_refused() -> None:
    with pytest.raises(OptionError, match="known_speakers: a plan cannot store this value"):
        stored_options(Options(diarize=True, known_speakers={"Ann": b"RIFF"}))
    with pytest.raises(OptionError, match="batch_size has no effect on a plan; give it to work"):
        stored_options(Options(batch_size=4))
