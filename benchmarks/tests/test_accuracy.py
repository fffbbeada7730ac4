"""The accuracy benchmark: measures, manifests and the command."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whisperbatch as wb
from benchmarks import accuracy, clips, corpora, manifest, recordings, systems
from benchmarks.manifest import Entry
from benchmarks.measures import measure
from benchmarks.recordings import Recording, Utterance
from benchmarks.scoring import TimedWord
from benchmarks.systems import SystemTranscript


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    """Ten seconds with two utterances; six seconds are silence."""
    utterances = (
        Utterance(1.0, 3.0, "Please hold.", "en"),
        Utterance(6.0, 8.0, "Good morning.", "en"),
    )
    recording = Recording("ten seconds", np.zeros(160_000, np.int16), utterances)
    (entry,) = manifest.read_manifest(manifest.write_manifest([recording], tmp_path / "corpus"))
    return entry


PARTLY_WRONG = SystemTranscript(
    "please fold you",
    starts=(1.25, 4.4),
    words=(
        TimedWord(1.25, 2, "please"),
        TimedWord(2, 2.9, " fold"),
        TimedWord(4.4, 4.6, " you"),
    ),
    counts={"dropped": 3},
)


def transcribe_correctly(path: Path, language: str) -> SystemTranscript:
    assert path.is_file()
    assert language == "en"
    words = (TimedWord(1, 3, "please hold"), TimedWord(6, 8, "good morning"))
    return SystemTranscript("please hold good morning", (1.0, 6.0), words)


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replace `open_systems` with systems without weights; return its recorded arguments."""
    opened: dict[str, Any] = {}

    @contextmanager
    def open_systems(
        names: list[str], model: str, options: wb.Options
    ) -> Iterator[Mapping[str, systems.System]]:
        opened.update(names=names, model=model, options=options)
        all_systems = {
            "whisperbatch-1": transcribe_correctly,
            "faster-whisper-5": lambda *_: PARTLY_WRONG,
        }
        yield {name: all_systems[name] for name in names}

    monkeypatch.setattr(systems, "open_systems", open_systems)
    return opened


def test_a_transcript_is_measured_against_its_truth(entry: Entry) -> None:
    figures = measure(entry, PARTLY_WRONG, 10.0, took=2.0).figures()
    assert figures["wer"] == 75  # "fold" for "hold", "you" for "good" or "morning", a missing word
    assert (figures["substitutions"], figures["deletions"], figures["insertions"]) == (2, 1, 0)
    assert figures["made_up_per_minute"] == pytest.approx(10)  # one word in six seconds of silence
    assert figures["missed_seconds"] == 2
    assert figures["start_error_median"] == pytest.approx((0.25 + 1.6) / 2)
    assert figures["starts_within_half_a_second"] == 50
    assert figures["speed"] == 5


def test_without_utterances_only_word_errors_and_speed_are_measured(entry: Entry) -> None:
    text_only = Entry(entry.name, entry.audio, entry.text, entry.language)
    figures = measure(text_only, PARTLY_WRONG, 10.0, took=2.0).figures()
    assert figures["wer"] == 75
    unknown = {name for name, value in figures.items() if value is None}
    assert unknown == {
        *("made_up_words", "made_up_per_minute", "missed_seconds", "uncovered_seconds"),
        *("start_error_median", "starts_within_half_a_second"),
    }
    assert " - " in accuracy.line("x", "y", figures)


def test_a_system_without_segments_has_no_median(entry: Entry) -> None:
    figures = measure(entry, SystemTranscript(""), 10.0, took=1.0).figures()
    assert figures["wer"] == 100
    assert figures["missed_seconds"] == 4
    assert figures["start_error_median"] is None
    assert figures["starts_within_half_a_second"] == 0


def test_measures_add_up(entry: Entry) -> None:
    silence = Entry("silence", entry.audio, "", "en", ())
    total = measure(entry, PARTLY_WRONG, 10, 2) + measure(
        silence, SystemTranscript("", counts={"dropped": 1}), 20, 1
    )
    figures = total.figures()
    assert figures["wer"] == 75
    assert figures["made_up_per_minute"] == pytest.approx(60 / 26)
    assert figures["speed"] == 10


def test_written_manifests_read_back_identically(tmp_path: Path) -> None:
    built = [corpora.build("pauses:en:40:1"), corpora.build("telephone:fr:20:2")]
    entries = manifest.read_manifest(manifest.write_manifest(built, tmp_path / "new" / "corpus"))
    for recording, entry in zip(built, entries, strict=True):
        assert entry.name == recording.name
        assert entry.text == recording.text
        assert entry.language == recording.utterances[0].language
        assert entry.utterances == recording.utterances
        assert np.array_equal(clips.decode(entry.audio), recording.samples)
        assert manifest.duration(entry.audio) == recording.duration


def test_duration_is_measured_in_any_format(tmp_path: Path) -> None:
    recording = Recording("x", np.zeros(32_000, np.int16), ())
    flac = recordings.write(recording, tmp_path / "a.flac")
    assert manifest.duration(flac) == 2
    (tmp_path / "b.wav").write_bytes(b"no wav")
    with pytest.raises(corpora.CorpusError, match=r"b\.wav: has no readable audio"):
        manifest.duration(tmp_path / "b.wav")


def test_corpora_are_written_by_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--write", str(tmp_path), "--recordings", "prompts:en:20:0", "quiet:en:20:1"]
    assert corpora.main(arguments) == 0
    path = Path(capsys.readouterr().out.strip())
    assert [entry.name for entry in manifest.read_manifest(path)] == arguments[3:]
    assert corpora.main(["--write", str(tmp_path), "--recordings", "pauses:en:1:0"]) == 2
    assert capsys.readouterr().err == "corpora: pauses:en:1:0: too short for a single utterance\n"


VALID = {"audio": "a.wav", "text": "hello", "language": "en"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("[]", "a recording must be an object"),
        ({"text": "x", "language": "en"}, '"audio" must be text, and is missing'),
        ({**VALID, "audio": "b.wav"}, "no such file: "),
        ({"audio": "a.wav", "language": "en"}, '"text" must be text, and is missing'),
        ({**VALID, "text": 5}, '"text" must be text'),
        ({**VALID, "language": "englisch"}, "did you mean 'en'"),
        ({**VALID, "name": None}, '"name" must be text'),
        ({**VALID, "utterances": {}}, "utterances must be a list"),
        ({**VALID, "utterances": [5]}, "utterances must be a list"),
        ({**VALID, "utterances": [{"start": 1, "text": "x"}]}, '"end" of an utterance'),
        ({**VALID, "utterances": [{"start": 1, "end": "2", "text": "x"}]}, "not '2'"),
        ({**VALID, "utterances": [{"start": 2, "end": 1, "text": "x"}]}, "from 2 to 1 seconds"),
        (
            {**VALID, "utterances": [{"start": s, "end": 9, "text": "x"} for s in (2, 1)]},
            "utterance 2 starts before utterance 1",
        ),
    ],
)
def test_errors_in_a_line_name_file_and_line_number(
    line: object, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.wav").touch()
    path = tmp_path / "corpus.jsonl"
    invalid = line if isinstance(line, str) else json.dumps(line)
    path.write_text(f"{json.dumps(VALID)}\n\n{invalid}\n")
    assert accuracy.main(["--manifest", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"accuracy: {path}:3: ")
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_a_missing_or_empty_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(corpora.CorpusError, match="cannot be read"):
        manifest.read_manifest(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(corpora.CorpusError, match="no recordings"):
        manifest.read_manifest(tmp_path / "empty.jsonl")


def test_the_command_prints_and_writes_all_figures(
    entry: Entry, fakes: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, picture = tmp_path / "out.json", tmp_path / "out.png"
    line = (entry.audio.parent / manifest.FILE).read_text()
    (entry.audio.parent / manifest.FILE).write_text(line * 2)
    arguments = [
        *("--manifest", str(entry.audio.parent / manifest.FILE), "--model", "tiny.en"),
        *("--systems", "whisperbatch-1", "faster-whisper-5", "whisperbatch-1"),
        *("--option", "max_silence=1.0", "vad=true", "--option", "timestamps=tokens"),
        *("--json", str(path), "--plot", str(picture)),
    ]
    assert accuracy.main(arguments) == 0
    assert fakes["names"] == ["whisperbatch-1", "faster-whisper-5"]
    assert fakes["model"] == "tiny.en"
    assert fakes["options"].max_silence == 1.0
    assert fakes["options"].timestamps == "tokens"
    assert fakes["options"].word_timestamps
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["recording", *["ten"] * 4, "total", "total"]
    assert len({len(line.rpartition(" ")[0].rstrip()) for line in lines}) == 1  # except the speed
    results = json.loads(path.read_text())
    assert results["options"] == {"max_silence": 1.0, "timestamps": "tokens", "vad": True}
    partly_wrong = results["recordings"][0]["systems"]["faster-whisper-5"]
    assert partly_wrong["wer"] == 75
    assert partly_wrong["dropped"] == 3
    assert partly_wrong["text"] == PARTLY_WRONG.text
    assert results["total"]["whisperbatch-1"]["wer"] == 0
    assert results["total"]["whisperbatch-1"]["words"] == 8
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_built_recordings_are_measured_too(
    fakes: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--recordings", "quiet:en:20:0", "--systems", "whisperbatch-1"]
    assert accuracy.main(arguments) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("quiet:en:20:0 ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--systems", "whisper-5"], "whisper-5: the systems are whisperbatch-5, "),
        (["--recordings", "pause:en:60:0"], "the kinds are"),
        (["--option", "max_silence"], "write name=value"),
        (["--json", "none/such/out.json"], "there is no directory"),
    ],
)
def test_invalid_arguments_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as error:
        accuracy.main(arguments)
    assert error.value.code == 2
    assert message in capsys.readouterr().err


def test_a_plot_needs_matplotlib(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(accuracy, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        accuracy.main(["--plot", "out.png"])
    assert "--plot needs matplotlib: install the extra `eval`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("max_paus=1", "max_paus"),
        ("max_silence=long", "max_silence"),
        ("beam_size=5", "beam_size is not for --option"),
    ],
)
def test_invalid_options_are_refused(
    option: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert accuracy.main(["--recordings", "prompts:en:20:0", "--option", option]) == 2
    assert message in capsys.readouterr().err
