import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whisperbatch as wb
from benchmarks import accuracy, corpora, manifest, recordings, systems
from benchmarks.manifest import Entry
from benchmarks.measures import measure
from benchmarks.recordings import Recording, Utterance
from benchmarks.scoring import TimedWord
from benchmarks.systems import Heard


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    """Ten seconds with two utterances, six seconds of it silence."""
    said = (Utterance(1.0, 3.0, "Please hold.", "en"), Utterance(6.0, 8.0, "Good morning.", "en"))
    recording = Recording("ten seconds", np.zeros(160_000, np.int16), said)
    (found,) = manifest.read_manifest(manifest.write_manifest([recording], tmp_path / "corpus"))
    return found


HALF = Heard(
    "please fold you",
    starts=(1.25, 4.4),
    words=(
        TimedWord(1.25, 2, "please"),
        TimedWord(2, 2.9, " fold"),
        TimedWord(4.4, 4.6, " you"),
    ),
    counts={"dropped": 3},
)


def heard_right(path: Path, language: str) -> Heard:
    assert path.is_file()
    assert language == "en"
    words = (TimedWord(1, 3, "please hold"), TimedWord(6, 8, "good morning"))
    return Heard("please hold good morning", (1.0, 6.0), words)


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Systems that need no weights; what they were opened with."""
    asked: dict[str, Any] = {}

    @contextmanager
    def opened(
        names: list[str], model: str, options: wb.Options
    ) -> Iterator[Mapping[str, systems.System]]:
        asked.update(names=names, model=model, options=options)
        all_systems = {"whisperbatch-1": heard_right, "faster-whisper-5": lambda *_: HALF}
        yield {name: all_systems[name] for name in names}

    monkeypatch.setattr(systems, "open_systems", opened)
    return asked


def test_a_transcript_is_measured_against_all_that_is_known(entry: Entry) -> None:
    figures = measure(entry, HALF, 10.0, took=2.0).figures()
    assert figures["wer"] == 75  # fold for hold, you for good or morning, and one missing
    assert (figures["substitutions"], figures["deletions"], figures["insertions"]) == (2, 1, 0)
    assert figures["made_up_per_minute"] == pytest.approx(10)  # one in six seconds
    assert figures["missed_seconds"] == 2
    assert figures["start_error_median"] == pytest.approx((0.25 + 1.6) / 2)
    assert figures["starts_within_half_a_second"] == 50
    assert figures["speed"] == 5


def test_without_utterances_only_words_and_speed_are_known(entry: Entry) -> None:
    known = Entry(entry.name, entry.audio, entry.text, entry.language)
    figures = measure(known, HALF, 10.0, took=2.0).figures()
    assert figures["wer"] == 75
    unknown = {name for name, value in figures.items() if value is None}
    assert unknown == {
        *("made_up_words", "made_up_per_minute", "missed_seconds"),
        *("start_error_median", "starts_within_half_a_second"),
    }
    assert " - " in accuracy.line("x", "y", figures)


def test_a_system_without_segments_has_no_median(entry: Entry) -> None:
    figures = measure(entry, Heard(""), 10.0, took=1.0).figures()
    assert figures["wer"] == 100
    assert figures["missed_seconds"] == 4
    assert figures["start_error_median"] is None
    assert figures["starts_within_half_a_second"] == 0


def test_measures_add_up(entry: Entry) -> None:
    nothing = Entry("silence", entry.audio, "", "en", ())
    total = measure(entry, HALF, 10, 2) + measure(nothing, Heard("", counts={"dropped": 1}), 20, 1)
    figures = total.figures()
    assert figures["wer"] == 75
    assert figures["made_up_per_minute"] == pytest.approx(60 / 26)
    assert figures["speed"] == 10


def test_what_was_written_reads_back_identically(tmp_path: Path) -> None:
    built = [corpora.build("pauses:en:40:1"), corpora.build("telephone:fr:20:2")]
    entries = manifest.read_manifest(manifest.write_manifest(built, tmp_path / "new" / "corpus"))
    for recording, entry in zip(built, entries, strict=True):
        assert entry.name == recording.name
        assert entry.text == recording.text
        assert entry.language == recording.utterances[0].language
        assert entry.utterances == recording.utterances
        assert np.array_equal(recordings.decode(entry.audio), recording.samples)
        assert manifest.duration(entry.audio) == recording.duration


def test_length_is_known_of_any_format(tmp_path: Path) -> None:
    recording = Recording("x", np.zeros(32_000, np.int16), ())
    flac = recordings.write(recording, tmp_path / "a.flac")
    assert manifest.duration(flac) == 2
    (tmp_path / "b.wav").write_bytes(b"no wav")
    with pytest.raises(corpora.CorpusError, match=r"b\.wav: no audio that can be read"):
        manifest.duration(tmp_path / "b.wav")


def test_corpora_are_written_by_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--write", str(tmp_path), "--recordings", "prompts:en:20:0", "quiet:en:20:1"]
    assert corpora.main(asked) == 0
    path = Path(capsys.readouterr().out.strip())
    assert [entry.name for entry in manifest.read_manifest(path)] == asked[3:]
    assert corpora.main(["--write", str(tmp_path), "--recordings", "pauses:en:1:0"]) == 2
    assert capsys.readouterr().err == "corpora: pauses:en:1:0: too short for a single utterance\n"


GOOD = {"audio": "a.wav", "text": "hello", "language": "en"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "no JSON"),
        ("[]", "a recording is an object"),
        ({"text": "x", "language": "en"}, '"audio" must be text, and is missing'),
        ({**GOOD, "audio": "b.wav"}, "there is no file "),
        ({"audio": "a.wav", "language": "en"}, '"text" must be text, and is missing'),
        ({**GOOD, "text": 5}, '"text" must be text'),
        ({**GOOD, "language": "englisch"}, "did you mean 'english'"),
        ({**GOOD, "name": None}, '"name" must be text'),
        ({**GOOD, "utterances": {}}, "utterances are a list"),
        ({**GOOD, "utterances": [5]}, "utterances are a list"),
        ({**GOOD, "utterances": [{"start": 1, "text": "x"}]}, '"end" of an utterance'),
        ({**GOOD, "utterances": [{"start": 1, "end": "2", "text": "x"}]}, "not '2'"),
        ({**GOOD, "utterances": [{"start": 2, "end": 1, "text": "x"}]}, "from 2 to 1 seconds"),
        (
            {**GOOD, "utterances": [{"start": s, "end": 9, "text": "x"} for s in (2, 1)]},
            "utterance 2 starts before the one before it",
        ),
    ],
)
def test_a_bad_line_is_named_by_file_and_number(
    line: object, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.wav").touch()
    path = tmp_path / "corpus.jsonl"
    bad = line if isinstance(line, str) else json.dumps(line)
    path.write_text(f"{json.dumps(GOOD)}\n\n{bad}\n")
    assert accuracy.main(["--manifest", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"accuracy: {path}:3: ")
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_a_manifest_must_be_there_and_hold_something(tmp_path: Path) -> None:
    with pytest.raises(corpora.CorpusError, match="cannot be read"):
        manifest.read_manifest(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(corpora.CorpusError, match="no recordings"):
        manifest.read_manifest(tmp_path / "empty.jsonl")


def test_the_command_prints_and_writes_every_figure(
    entry: Entry, fakes: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, picture = tmp_path / "out.json", tmp_path / "out.png"
    line = (entry.audio.parent / manifest.FILE).read_text()
    (entry.audio.parent / manifest.FILE).write_text(line * 2)
    asked = [
        *("--manifest", str(entry.audio.parent / manifest.FILE), "--model", "tiny.en"),
        *("--systems", "whisperbatch-1", "faster-whisper-5", "whisperbatch-1"),
        *("--option", "max_silence=1.0", "vad=true", "--option", "timestamps=tokens"),
        *("--json", str(path), "--plot", str(picture)),
    ]
    assert accuracy.main(asked) == 0
    assert fakes["names"] == ["whisperbatch-1", "faster-whisper-5"]
    assert fakes["model"] == "tiny.en"
    assert fakes["options"].max_silence == 1.0
    assert fakes["options"].timestamps == "tokens"
    assert fakes["options"].word_timestamps
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["recording", *["ten"] * 4, "total", "total"]
    assert len({len(line.rpartition(" ")[0].rstrip()) for line in lines}) == 1  # but for the speed
    found = json.loads(path.read_text())
    assert found["options"] == {"max_silence": 1.0, "timestamps": "tokens", "vad": True}
    half = found["recordings"][0]["systems"]["faster-whisper-5"]
    assert half["wer"] == 75
    assert half["dropped"] == 3
    assert half["text"] == HALF.text
    assert found["total"]["whisperbatch-1"]["wer"] == 0
    assert found["total"]["whisperbatch-1"]["words"] == 8
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_built_recordings_are_measured_too(
    fakes: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--recordings", "quiet:en:20:0", "--systems", "whisperbatch-1"]
    assert accuracy.main(asked) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("quiet:en:20:0 ")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["--systems", "whisper-5"], "whisper-5: the systems are whisperbatch-5, "),
        (["--recordings", "pause:en:60:0"], "the kinds are"),
        (["--option", "max_silence"], "write name=value"),
        (["--json", "none/such/out.json"], "there is no directory"),
    ],
)
def test_a_bad_argument_is_refused(
    asked: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        accuracy.main(asked)
    assert refused.value.code == 2
    assert message in capsys.readouterr().err


def test_a_picture_needs_matplotlib(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(accuracy, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        accuracy.main(["--plot", "out.png"])
    assert "--plot needs matplotlib: install the extra `eval`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("max_paus=1", "max_silence"),
        ("max_silence=long", "max_silence"),
        ("beam_size=5", "beam_size is not for --option"),
    ],
)
def test_a_bad_option_is_refused(
    option: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert accuracy.main(["--recordings", "prompts:en:20:0", "--option", option]) == 2
    assert message in capsys.readouterr().err
