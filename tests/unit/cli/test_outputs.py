"""Where results go: a file, a folder, next to the recordings, or standard output."""

import io
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import pytest

import whisperbatch
from tests.unit.fakes import FakeEngine, write_noise
from whisperbatch import OptionError, Transcriber
from whisperbatch.cli import _set_encoding, transcribe
from whisperbatch.cli.recordings import find_recordings, missing_message
from whisperbatch.cli.transcribe import (
    DetectionArguments,
    TranscribeArguments,
    detect_languages,
    transcribe_all,
)
from whisperbatch.errors import AudioError, MissingExtraError
from whisperbatch.jobs import LEDGER_NAME, Failed, WorkItem
from whisperbatch.writers import FORMATS, SubtitleOptions


class Commands:
    """Runs `transcribe` in a folder with recordings, with a fake model."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.loaded = 0
        (folder / "talks" / "monday").mkdir(parents=True)
        for name in ("talk.wav", "other.wav", "talks/a.wav", "talks/monday/b.wav"):
            write_noise(folder / name)

    def load(self, *_: Any, **__: Any) -> Transcriber:
        self.loaded += 1
        return Transcriber(FakeEngine())

    def arguments(self, *inputs: str, diarize: bool = False, **given: Any) -> TranscribeArguments:
        options = {"vad": False, **({"diarize": True} if diarize else {})}
        return TranscribeArguments(
            inputs=list(inputs), load_keywords={}, options=options, quiet=True, **given
        )

    def run(self, *inputs: str, **given: Any) -> int:
        return transcribe_all(self.arguments(*inputs, **given))

    def written(self) -> set[str]:
        """The files that are no recordings, and folders that have none."""
        return {
            str(path.relative_to(self.folder))
            for path in self.folder.rglob("*")
            if (path.suffix != ".wav" and path.is_file()) or not any(path.parent.iterdir())
        }


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    made = Commands(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(whisperbatch, "load", made.load)
    monkeypatch.setattr(transcribe, "find_model", lambda *_, **__: tmp_path)
    monkeypatch.setattr(transcribe, "fingerprint", lambda *_: "fake")
    return made


TEXT = "Sentence 0.\n"


@pytest.mark.parametrize(
    ("output", "formats", "files"),
    [
        ("talk.srt", "", {"talk.srt"}),
        ("./talk.srt", "srt", {"talk.srt"}),
        ("new/deep/notes.TXT", "", {"new/deep/notes.TXT"}),
        ("a.b.json", "", {"a.b.json"}),
        ("texts", "", {"texts/talk.txt"}),
        ("texts/", "srt,vtt", {"texts/talk.srt", "texts/talk.vtt"}),
        ("v1.2", "", {"v1.2/talk.txt"}),
        ("talk.srt/", "", {"talk.srt/talk.txt"}),
        ("srt/", "srt", {"srt/talk.srt"}),
        ("", "txt,json", {"talk.txt", "talk.json"}),
        ("", "", set()),
        ("-", "", set()),
        ("-", "srt", set()),
    ],
)
def test_the_files_of_an_output(
    commands: Commands,
    output: str,
    formats: str,
    files: set[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert commands.run("talk.wav", output_path=output, formats=formats) == 0
    assert commands.written() == files
    for name in files:
        content = (commands.folder / name).read_text()
        assert content == TEXT or "Sentence 0." in content
    printed = capsys.readouterr().out
    if files:
        assert printed == "", "text is printed only if no file is written"
    elif formats:
        assert printed.startswith("1\n00:00:0")
        assert printed.endswith("Sentence 0.\n")
    else:
        assert printed == TEXT


def test_a_folder_that_exists_is_a_folder(commands: Commands) -> None:
    (commands.folder / "old.srt").mkdir()
    assert commands.run("talk.wav", output_path="old.srt", formats="vtt") == 0
    assert commands.written() == {"old.srt/talk.vtt"}


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "rttm"])
def test_what_is_printed_is_the_file(
    commands: Commands, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.run("talk.wav", output_path=f"x.{name}") == 0
    assert commands.run("talk.wav", output_path="-", formats=name) == 0
    assert capsys.readouterr().out == (commands.folder / f"x.{name}").read_text()


def test_the_layout_applies_to_a_named_file(commands: Commands) -> None:
    layout = SubtitleOptions(max_line_width=4)
    assert commands.run("talk.wav", output_path="x.srt", layout=layout) == 0
    assert commands.run("talk.wav", output_path="Y.SRT", layout=layout) == 0
    for name in ("x.srt", "Y.SRT"):
        assert "Sentence\n0." in (commands.folder / name).read_text()
    with pytest.raises(OptionError, match="max_line_width"):
        commands.run("talk.wav", output_path="x.txt", layout=layout)
    with pytest.raises(OptionError, match="max_line_width"):
        commands.run("talk.wav", layout=layout)


@pytest.mark.parametrize(
    ("inputs", "given", "message"),
    [
        ("talk.wav", {"output_path": "x.srt", "formats": "vtt"}, "--format vtt contradicts"),
        ("talk.wav", {"output_path": "x.srt", "formats": "srt,vtt"}, "--format srt,vtt contra"),
        ("talk.wav other.wav", {"output_path": "x.srt"}, "x.srt is one file"),
        ("talks", {"output_path": "x.srt"}, "x.srt is one file"),
        ("talk.wav", {"output_path": "x.rttm"}, "rttm needs speakers"),
        ("talk.wav", {"output_path": "x.docx"}, "docx is none of txt"),
        ("talk.wav", {"output_path": "talk.wav"}, "wav is none of txt"),
        ("talk.wav", {"output_path": "VTT"}, "--format vtt gives the format"),
        ("talk.wav", {"output_path": "all"}, "--format all gives the format"),
        ("talk.wav", {"output_path": "s3://bucket/x"}, "written to this machine"),
        ("talk.wav", {"output_path": "-", "formats": "srt,vtt"}, "prints one format"),
        ("talk.wav other.wav", {"output_path": "-", "formats": "srt"}, "srt of one recording"),
        ("talks", {"output_path": "-", "formats": "txt"}, "txt of one recording"),
        ("talk.wav", {"output_path": "-", "plot": "png"}, "--plot draws a picture"),
        (
            "talk.wav",
            {"output_path": "-", "formats": "srt", "json_lines": True},
            "--json-lines and --format srt",
        ),
        ("talk.wav", {"resume": True}, "--resume has no effect"),
        ("talk.wav", {"resume": True, "output_path": "-"}, "--resume has no effect"),
    ],
)
def test_what_does_not_fit_together_is_refused_before_a_model_loads(
    commands: Commands, inputs: str, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError) as error:
        commands.run(*inputs.split(), **given)
    assert message in str(error.value)
    assert commands.loaded == 0
    assert commands.written() == set()


def test_several_files_are_printed_and_a_folder_is_written(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    """The job of a folder can be resumed; its first line says where the files go."""
    assert commands.run("other.wav", "talk.wav") == 0
    headings = [line for line in capsys.readouterr().out.splitlines() if "==>" in line]
    assert headings == ["==> other.wav <==", "==> talk.wav <=="]
    assert commands.written() == set()
    assert commands.run("talks", output_path="-") == 0
    assert capsys.readouterr().out.count("==> talks/") == 2
    assert commands.written() == set()
    assert transcribe_all(replace(commands.arguments("talks"), quiet=False)) == 0
    first, *_ = capsys.readouterr().err.splitlines()
    assert first == "the texts go next to the recordings, as txt files; -o names another folder"
    texts = {"talks/a.txt", "talks/monday/b.txt"}
    assert commands.written() == {*texts, f"talks/{LEDGER_NAME}"}


def test_json_lines_of_a_folder_write_no_files(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.run("talks", json_lines=True) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [r["source"] for r in records if r["type"] == "transcript"] == [
        "talks/a.wav",
        "talks/monday/b.wav",
    ]
    assert not [name for name in commands.written() if name.endswith(".txt")]


def test_a_named_file_is_resumed_and_protected(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    path = commands.folder / "out" / "x.srt"
    for loaded in (1, 1):
        assert commands.run("talk.wav", output_path="out/x.srt", resume=True) == 0
        assert commands.loaded == loaded
    path.write_text("by hand")
    assert commands.run("talk.wav", output_path="out/x.srt", resume=True) == 0
    assert commands.loaded == 1
    other = {"layout": SubtitleOptions(max_line_width=4)}
    assert commands.run("talk.wav", output_path="out/x.srt", resume=True, **other) == 1
    assert "x.srt: was modified after it was written" in capsys.readouterr().err
    assert path.read_text() == "by hand"
    assert commands.run("talk.wav", output_path="out/x.srt", resume=False) == 0
    assert "Sentence 0." in path.read_text()


def test_a_file_that_exists_is_kept_by_resume_only(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    path = commands.folder / "x.srt"
    path.write_text("of somebody")
    assert commands.run("talk.wav", output_path="x.srt", resume=True) == 1
    assert "x.srt: exists already; --no-resume replaces it" in capsys.readouterr().err
    assert path.read_text() == "of somebody"
    path.unlink()
    (commands.folder / LEDGER_NAME).unlink()
    path.write_text("of somebody")
    assert commands.run("talk.wav", output_path="x.srt") == 0, "as without --output"
    assert "Sentence 0." in path.read_text()


def test_a_picture_gets_the_name_of_the_file(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Path] = []
    monkeypatch.setattr(transcribe, "check_plot", lambda _: None)
    monkeypatch.setattr(transcribe, "read_overview", lambda *_: None)
    monkeypatch.setattr(transcribe, "write_timeline", lambda *given: drawn.append(given[2]))
    assert commands.run("talk.wav", output_path="out/x.srt", plot="png") == 0
    assert commands.written() == {"out/x.srt"}
    assert drawn == [Path("out/x.timeline.png")]


def test_missing_recordings_are_named_together_and_the_others_are_transcribed(
    commands: Commands, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def find_model(*_: Any, **__: Any) -> Path:
        order.append("model")
        return commands.folder

    monkeypatch.setattr(transcribe, "find_model", find_model)
    monkeypatch.setattr("whisperbatch.cli.screen.print_note", order.append)
    assert commands.run("no.wav", "talk.wav", "x/no.mp3") == 1
    missing = "failed: no.wav and x/no.mp3: there are no such files; check the paths"
    assert order == [missing, "model"]
    captured = capsys.readouterr()
    assert captured.out == f"{TEXT}", "one recording is left, and has no heading"
    assert "1 transcribed, 2 failed" in captured.err


def test_only_missing_recordings_need_no_model(
    commands: Commands, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcribe, "find_model", lambda *_, **__: pytest.fail("too late"))
    assert commands.run("no.wav", "talks/*.mp3", output_path="texts", json_lines=True) == 1
    captured = capsys.readouterr()
    records = [json.loads(line) for line in captured.out.splitlines()]
    assert [(r["type"], r["source"], r["error"].partition(": ")[2]) for r in records] == [
        ("error", "no.wav", "there is no such file; check the path"),
        ("error", "talks/*.mp3", "no file matches this pattern"),
    ]
    assert "0 transcribed, 2 failed" in captured.err
    assert commands.loaded == 0
    assert commands.written() == set()


def test_detect_language_names_missing_recordings_before_the_model_loads(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    def detect(*inputs: str) -> int:
        arguments = DetectionArguments(
            inputs=list(inputs), load_keywords={}, options={"vad": False}
        )
        return detect_languages(arguments)

    assert detect("no.wav", "no2.wav") == 1
    message = "failed: no.wav and no2.wav: there are no such files; check the paths\n"
    assert capsys.readouterr() == ("", message)
    assert commands.loaded == 0
    assert detect("no.wav", "talk.wav", "other.wav") == 1
    out, err = capsys.readouterr()
    assert [line.partition(" ")[0] for line in out.splitlines()] == ["talk.wav:", "other.wav:"]
    assert err == "failed: no.wav: there is no such file; check the path\n"


def test_the_message_names_a_few_missing_recordings() -> None:
    def missing(count: int) -> list[Failed]:
        names = [f"{number}.mp3" for number in range(count)]
        problem = "there is no such file; check the path"
        return [Failed(WorkItem(name, ()), AudioError(problem, source=name)) for name in names]

    assert missing_message(missing(1)) == "0.mp3: there is no such file; check the path"
    assert missing_message(missing(3)).startswith("0.mp3, 1.mp3 and 2.mp3: there are no such")
    assert missing_message(missing(5)).startswith("0.mp3, 1.mp3, 2.mp3, 3.mp3 and 4.mp3: ")
    assert missing_message(missing(90)).startswith("0.mp3, 1.mp3, 2.mp3, 3.mp3, 4.mp3 and 85 more")


@pytest.mark.parametrize(
    ("name", "is_value"),
    [("0.4", True), ("-3", True), ("Yes", True), ("0.4.wav", False), ("yesterday", False)],
)
def test_a_value_in_place_of_a_recording_is_explained(
    commands: Commands, capsys: pytest.CaptureFixture[str], name: str, *, is_value: bool
) -> None:
    assert commands.run("talk.wav", name) == 1
    error = capsys.readouterr().err
    assert f"{name}: there is no such file; " in error
    assert ("separate several values by commas" in error) == is_value


@pytest.mark.parametrize(
    ("inputs", "given", "ending"),
    [
        (("talk.wav",), {"output_path": "a/new.srt"}, " -> a/new.srt"),
        (("talk.wav",), {"formats": "txt,json"}, " -> talk.txt, talk.json"),
        (("talk.wav", "other.wav"), {"output_path": "texts"}, ""),
    ],
)
def test_the_last_line_names_the_files_of_the_only_recording(
    commands: Commands,
    capsys: pytest.CaptureFixture[str],
    inputs: tuple[str, ...],
    given: dict[str, Any],
    ending: str,
) -> None:
    arguments = replace(commands.arguments(*inputs, **given), quiet=False)
    assert transcribe_all(arguments) == 0
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"{len(inputs)} transcribed: ")
    assert last.endswith(ending or "times real time")


def test_a_diarizer_without_weights_is_refused_before_a_model_is_found(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: object) -> None:
        raise MissingExtraError("no weights")

    monkeypatch.setattr("whisperbatch.diarization.stage.open_diarizer", missing)
    monkeypatch.setattr(transcribe, "find_model", lambda *_, **__: pytest.fail("was downloaded"))
    with pytest.raises(MissingExtraError, match="no weights"):
        commands.run("talk.wav", diarize=True)
    assert commands.loaded == 0


@pytest.mark.parametrize(
    ("others", "ending"), [(0, ""), (1, ", but 1 other file"), (3, ", but 3 other files")]
)
def test_a_folder_without_recordings_says_what_it_has(
    tmp_path: Path, others: int, ending: str
) -> None:
    for number in range(others):
        (tmp_path / f"{number}.pdf").touch()
    with pytest.raises(OptionError) as error:
        find_recordings([str(tmp_path)])
    assert str(error.value) == f"no recordings in {tmp_path}{ending}"


def test_the_home_directory_may_stand_in_quotes(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir("/")
    assert commands.run("~/talk.wav", output_path="~/x.txt") == 0
    assert commands.run("~/talks", output_path="~/texts", resume=False) == 0
    assert commands.run("~/ta*.wav", formats="json") == 0
    assert {"x.txt", "texts/a.txt", "texts/monday/b.txt", "talk.json"} <= commands.written()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "~x.wav").write_bytes((tmp_path / "talk.wav").read_bytes())
    assert find_recordings(["~x.wav"])[0][0].source == "~x.wav"


@pytest.mark.parametrize(
    ("address", "has_hint"),
    [
        ("https://www.youtube.com/watch?v=abc", True),
        ("https://youtu.be/abc", True),
        ("http://m.youtube.com/watch?v=abc", True),
        ("https://player.vimeo.com/video/1", True),
        ("https://x.com/a/status/1", True),
        ("https://example.org/youtube.com/a.mp3", False),
        ("https://notyoutube.com/a.mp3", False),
        ("https://netflix.com.example.org/a.mp3", False),
    ],
)
@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), av.InvalidDataError(1, "")])
def test_a_page_of_a_video_site_has_a_hint(
    monkeypatch: pytest.MonkeyPatch, address: str, has_hint: bool, error: Exception
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr("whisperbatch.audio.track.open_ignoring_metadata", fail)
    with pytest.raises(AudioError) as raised:
        whisperbatch.open_audio(address).close()
    assert ("yt-dlp -o - URL | whisperbatch -" in str(raised.value)) is has_hint


@pytest.mark.parametrize(
    ("encoding", "variable", "expected"),
    [
        ("cp1252", "", "utf-8"),
        ("ascii", "", "utf-8"),
        ("utf-8", "", "utf-8"),
        ("latin-1", "latin-1", "latin-1"),
    ],
)
def test_text_in_a_pipe_or_file_is_utf_8(
    encoding: str, variable: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", variable)
    data = io.BytesIO()
    stream = io.TextIOWrapper(data, encoding=encoding, newline=os.linesep)
    _set_encoding(stream)
    stream.write("Größe Привет 日本 \udce9\n")
    stream.flush()
    text = "Größe Привет 日本 \\udce9\n" if expected == "utf-8" else ascii("Привет 日本")[1:-1]
    assert text in data.getvalue().decode(expected)


def test_a_terminal_keeps_its_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    stream = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    _set_encoding(stream)
    assert (stream.encoding, stream.errors) == ("cp1252", "backslashreplace")
