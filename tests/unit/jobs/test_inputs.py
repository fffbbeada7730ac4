import os
import re
import socket
from pathlib import Path

import pytest

from whisperbatch.errors import OptionError
from whisperbatch.jobs.inputs import WorkItem, find_inputs, plan_outputs


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
    return [file.source for file in find_inputs(inputs)]


def outputs(
    *inputs: str, into: str | None = None, formats: tuple[str, ...] = ("srt",)
) -> list[str]:
    items = plan_outputs(tuple(find_inputs(inputs)), formats, Path(into) if into else None)
    return [str(output) for item in items for output in item.outputs]


@pytest.mark.usefixtures("talks")
class TestFindInputs:
    def test_a_directory_yields_its_recordings_sorted_without_hidden_files(self) -> None:
        assert sources("talks") == ["talks/a.WAV", "talks/b.mp3", "talks/monday/a.wav"]

    def test_a_named_file_may_have_any_suffix(self) -> None:
        assert sources("talks/monday/notes.pdf") == ["talks/monday/notes.pdf"]

    def test_a_pattern_is_expanded_unless_a_file_has_this_name(self, talks: Path) -> None:
        assert sources("talks/*.mp3") == ["talks/b.mp3"]
        assert sources("talks/**/*.wav") == ["talks/monday/a.wav"]
        (talks / "talks" / "[x].mp3").write_bytes(b"x")
        assert sources("talks/[x].mp3") == ["talks/[x].mp3"]

    def test_each_recording_is_yielded_once(self) -> None:
        assert sources("talks/b.mp3", "talks", "talks/b.mp3")[:2] == ["talks/b.mp3", "talks/a.WAV"]
        assert len(sources("talks/b.mp3", "talks", "talks/b.mp3")) == 3

    def test_a_missing_file_is_yielded_so_that_the_reader_reports_it(self) -> None:
        assert sources("nowhere.mp3", "nothing/*.mp3") == ["nowhere.mp3", "nothing/*.mp3"]

    def test_different_spellings_of_a_path_are_one_recording(self, talks: Path) -> None:
        assert sources("talks/b.mp3", "./talks/b.mp3", str(talks / "talks" / "b.mp3")) == [
            "talks/b.mp3"
        ]

    def test_outputs_next_to_their_recordings_are_ignored(self, talks: Path) -> None:
        (talks / "talks" / "b.txt").write_text("text")
        (talks / "talks" / "alone.txt").write_text("text")
        names = ["talks/alone.txt", "talks/b.mp3", "talks/b.txt"]
        assert [file.source for file in find_inputs(names, {".txt"})] == names[:2]

    def test_linked_folders_are_searched_once(self, talks: Path) -> None:
        elsewhere = talks / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "e.wav").write_bytes(b"x")
        (talks / "talks" / "link").symlink_to(elsewhere)
        (talks / "talks" / "loop").symlink_to(talks / "talks")
        assert "talks/link/e.wav" in sources("talks")
        assert len(sources("talks")) == 4

    def test_pipes_sockets_and_devices_in_a_directory_are_skipped_with_a_warning(
        self, talks: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(talks / "talks" / "monday")  # the path of a socket must be short
        os.mkfifo("pipe.mp3")
        Path("device.mp3").symlink_to(os.devnull)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("socket.mp3")
        Path("folder.mp3").mkdir()
        assert sources(".") == sources("*") == ["a.wav"]
        warned = {record.getMessage().partition(":")[0] for record in caplog.records}
        warned = {name for name in warned if name.endswith(".mp3")}  # without the counts
        assert warned == {"pipe.mp3", "socket.mp3", "device.mp3"}
        assert sources("pipe.mp3") == ["pipe.mp3"]  # named explicitly

    def test_broken_and_circular_links_are_yielded_so_that_the_reader_reports_them(
        self, talks: Path
    ) -> None:
        (talks / "talks" / "c.mp3").symlink_to("nowhere.mp3")
        (talks / "talks" / "d.mp3").symlink_to("d.mp3")
        assert sources("talks")[2:4] == ["talks/c.mp3", "talks/d.mp3"]
        assert sources("talks/[cd].mp3") == ["talks/c.mp3", "talks/d.mp3"]

    def test_a_shortened_output_next_to_its_recording_is_ignored(self, talks: Path) -> None:
        recording = talks / "talks" / ("z" * 251 + ".mp3")
        recording.write_bytes(b"x")
        [output] = outputs(str(recording), formats=("json",))
        Path(output).write_text("{}")
        names = [str(recording), output]
        assert [file.source for file in find_inputs(names, {".json"})] == [str(recording)]

    @pytest.mark.parametrize("name", ["x" * 300, "http://[bad/x.mp3", "a\0b"])
    def test_invalid_names_are_yielded_so_that_the_reader_reports_them(self, name: str) -> None:
        assert sources(name) == [name]
        assert len(outputs(name)) == 1

    def test_an_empty_name_is_refused(self) -> None:
        with pytest.raises(OptionError, match="is empty"):
            sources("")

    def test_standard_input_and_urls_have_no_path(self) -> None:
        files = tuple(find_inputs(["-", "https://example.org/talks/a%20b.mp3?x=1"]))
        assert [file.directory for file in files] == [None, None]
        assert [item.path for item in plan_outputs(files, (), None)] == [None, None]


@pytest.mark.usefixtures("talks")
class TestPlanOutputs:
    def test_outputs_go_next_to_their_recording(self) -> None:
        assert outputs("talks/b.mp3", formats=("srt", "txt")) == ["talks/b.srt", "talks/b.txt"]

    def test_an_output_directory_gets_the_same_subfolders(self) -> None:
        assert outputs("talks", into="out") == ["out/a.srt", "out/b.srt", "out/monday/a.srt"]
        assert outputs("talks/monday/a.wav", into="out") == ["out/a.srt"]

    def test_recordings_that_differ_only_in_their_suffix_keep_the_suffix(self, talks: Path) -> None:
        (talks / "talks" / "b.wav").write_bytes(b"x")
        assert outputs("talks", into="out") == [
            "out/a.srt",
            "out/b.mp3.srt",
            "out/b.wav.srt",
            "out/monday/a.srt",
        ]

    def test_two_recordings_for_one_output_get_hashes_whatever_the_case_of_letters(self) -> None:
        first, second = outputs("talks/a.WAV", "talks/monday/a.wav", into="out")
        assert first != second
        assert all(re.fullmatch(r"out/a\.(WAV|wav)~[0-9a-f]{16}\.srt", o) for o in (first, second))
        assert outputs("talks/a.WAV", "talks/monday/a.wav") == ["talks/a.srt", "talks/monday/a.srt"]

    def test_outputs_of_urls_and_standard_input_get_a_name(self) -> None:
        assert outputs("-") == ["stdin.srt"]
        assert outputs("https://example.org/talks/a%20b.mp3?x=1", into="out") == ["out/a b.srt"]
        assert outputs("https://example.org/") == ["example.srt"]
        assert outputs("https://example.org/..%2Fa.mp3", into="out") == ["out/.._a.srt"]

    def test_names_that_are_too_long_are_shortened(self) -> None:
        for name in ("z" * 251 + ".mp3", f"https://example.org/{'%C3%A9' * 200}.mp3"):
            srt, json = (Path(path) for path in outputs(name, into="out", formats=("srt", "json")))
            assert srt.parent == json.parent == Path("out")
            assert json.suffix == ".json"
            for path in (srt, json):
                assert len(os.fsencode(path.name)) <= 255
                assert not Path(path.name).exists()  # raises if the name is too long

    def test_long_names_that_differ_only_in_their_suffix_get_different_outputs(self) -> None:
        paths = outputs("z" * 251 + ".mp3", "z" * 251 + ".wav", formats=("srt", "json"))
        assert len(set(paths)) == 4

    def test_a_work_item_has_the_path_of_its_recording(self) -> None:
        assert WorkItem("talks/b.mp3", ()).path == Path("talks/b.mp3")
