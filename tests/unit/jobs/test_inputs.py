from pathlib import Path

import pytest

from whisperbatch.errors import OptionError
from whisperbatch.jobs.inputs import WorkItem, find, plan


@pytest.fixture
def talks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    names = ("talks/b.mp3", "talks/a.WAV", "talks/monday/a.wav", "talks/monday/notes.pdf")
    hidden = ("talks/.c.wav", "talks/.old/d.wav", "talks/monday/a.txt")
    for name in names + hidden:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return tmp_path


def sources(*inputs: str) -> list[str]:
    return [found.source for found in find(inputs)]


def outputs(
    *inputs: str, into: str | None = None, formats: tuple[str, ...] = ("srt",)
) -> list[str]:
    tasks = plan(tuple(find(inputs)), formats, Path(into) if into else None)
    return [str(output) for task in tasks for output in task.outputs]


@pytest.mark.usefixtures("talks")
class TestFind:
    def test_a_directory_gives_its_recordings_sorted_without_what_is_hidden(self) -> None:
        assert sources("talks") == ["talks/a.WAV", "talks/b.mp3", "talks/monday/a.wav"]

    def test_a_file_is_taken_whatever_its_name(self) -> None:
        assert sources("talks/monday/notes.pdf") == ["talks/monday/notes.pdf"]

    def test_a_pattern_is_one_only_where_no_file_has_its_name(self, talks: Path) -> None:
        assert sources("talks/*.mp3") == ["talks/b.mp3"]
        assert sources("talks/**/*.wav") == ["talks/monday/a.wav"]
        (talks / "talks" / "[x].mp3").write_bytes(b"x")
        assert sources("talks/[x].mp3") == ["talks/[x].mp3"]

    def test_nothing_is_taken_twice(self) -> None:
        assert sources("talks/b.mp3", "talks", "talks/b.mp3")[:2] == ["talks/b.mp3", "talks/a.WAV"]
        assert len(sources("talks/b.mp3", "talks", "talks/b.mp3")) == 3

    def test_what_is_not_there_is_for_the_reader_to_say(self) -> None:
        assert sources("nowhere.mp3", "nothing/*.mp3") == ["nowhere.mp3", "nothing/*.mp3"]

    def test_one_file_spelled_twice_is_one(self, talks: Path) -> None:
        assert sources("talks/b.mp3", "./talks/b.mp3", str(talks / "talks" / "b.mp3")) == [
            "talks/b.mp3"
        ]

    def test_outputs_beside_their_recordings_are_no_recordings(self, talks: Path) -> None:
        (talks / "talks" / "b.txt").write_text("text")
        (talks / "talks" / "alone.txt").write_text("text")
        names = ["talks/alone.txt", "talks/b.mp3", "talks/b.txt"]
        assert [one.source for one in find(names, {".txt"})] == names[:2]

    def test_folders_that_links_lead_to_are_searched_once(self, talks: Path) -> None:
        elsewhere = talks / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "e.wav").write_bytes(b"x")
        (talks / "talks" / "link").symlink_to(elsewhere)
        (talks / "talks" / "loop").symlink_to(talks / "talks")
        assert "talks/link/e.wav" in sources("talks")
        assert len(sources("talks")) == 4

    @pytest.mark.parametrize("name", ["x" * 300, "http://[bad/x.mp3", "a\0b"])
    def test_odd_names_are_for_the_reader(self, name: str) -> None:
        assert sources(name) == [name]
        assert len(outputs(name)) == 1

    def test_an_empty_name_is_refused(self) -> None:
        with pytest.raises(OptionError, match="is empty"):
            sources("")

    def test_standard_input_and_addresses_have_no_path(self) -> None:
        found = tuple(find(["-", "https://example.org/talks/a%20b.mp3?x=1"]))
        assert [one.own for one in found] == [None, None]
        assert [task.path for task in plan(found, (), None)] == [None, None]


@pytest.mark.usefixtures("talks")
class TestPlan:
    def test_outputs_lie_beside_their_recording(self) -> None:
        assert outputs("talks/b.mp3", formats=("srt", "txt")) == ["talks/b.srt", "talks/b.txt"]

    def test_or_in_folders_as_they_were_found(self) -> None:
        assert outputs("talks", into="out") == ["out/a.srt", "out/b.srt", "out/monday/a.srt"]
        assert outputs("talks/monday/a.wav", into="out") == ["out/a.srt"]

    def test_recordings_that_differ_in_their_suffix_keep_it(self, talks: Path) -> None:
        (talks / "talks" / "b.wav").write_bytes(b"x")
        assert outputs("talks", into="out") == [
            "out/a.srt",
            "out/b.mp3.srt",
            "out/b.wav.srt",
            "out/monday/a.srt",
        ]

    def test_two_of_one_name_are_refused_and_cases_are_one(self, talks: Path) -> None:
        with pytest.raises(OptionError, match=r"talks/a\.WAV and talks/monday/a\.wav would both"):
            outputs("talks/a.WAV", "talks/monday/a.wav", into="out")
        assert outputs("talks/a.WAV", "talks/monday/a.wav")  # each beside its own

    def test_what_has_no_path_is_named_after_what_it_is(self) -> None:
        assert outputs("-") == ["stdin.srt"]
        assert outputs("https://example.org/talks/a%20b.mp3?x=1", into="out") == ["out/a b.srt"]
        assert outputs("https://example.org/") == ["example.srt"]

    def test_a_task_knows_its_path(self) -> None:
        assert WorkItem("talks/b.mp3", ()).path == Path("talks/b.mp3")
