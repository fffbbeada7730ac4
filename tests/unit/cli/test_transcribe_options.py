from collections.abc import Mapping
from pathlib import Path

import pytest

import whisperbatch as wb
from whisperbatch import OptionError, SubtitleOptions
from whisperbatch.cli.transcribe import (
    TranscribeArguments,
    _check_standard_input,
    _formats,
    _options,
    transcribe_all,
)
from whisperbatch.options import Options
from whisperbatch.writers import FORMATS


def arguments(
    layout: SubtitleOptions | None = None,
    *,
    inputs: tuple[str, ...] = ("talk.mp3",),
    formats: str = "",
    resume: bool | None = None,
    load: Mapping[str, object] | None = None,
    **options: object,
) -> TranscribeArguments:
    return TranscribeArguments(
        inputs=list(inputs),
        model="base",
        formats=formats,
        resume=resume,
        layout=layout or SubtitleOptions(),
        load_keywords=dict(load or {}),
        options=options,
    )


@pytest.mark.parametrize("name", ["srt", "vtt", "ttml", "lrc"])
def test_subtitles_have_word_timestamps(name: str) -> None:
    assert _options(arguments(), ("txt", name)).word_timestamps
    assert not _options(arguments(word_timestamps=False), (name,)).word_timestamps


def test_other_files_have_no_word_timestamps() -> None:
    assert not _options(arguments(), ("txt", "json", "csv", "tsv")).word_timestamps


def test_a_layout_by_words_needs_word_timestamps() -> None:
    highlighted = SubtitleOptions(highlight_words=True)
    assert _options(arguments(highlighted), ("srt",)).word_timestamps
    with pytest.raises(OptionError, match="highlight_words has no effect without word_timestamps"):
        _options(arguments(highlighted, word_timestamps=False), ("srt",))


def test_rttm_needs_speakers() -> None:
    assert _formats(arguments(formats="all")) == tuple(n for n in FORMATS if n != "rttm")
    assert _formats(arguments(formats="all", diarize=True)) == FORMATS
    assert _formats(arguments(formats="srt,rttm", diarize=True)) == ("srt", "rttm")
    with pytest.raises(OptionError, match="--format rttm needs speakers; add --diarize"):
        _formats(arguments(formats="srt,rttm"))


def test_only_one_recording_comes_from_standard_input() -> None:
    ann, both = Options(diarize=True, known_speakers={"Ann": "-"}), {"Ann": "-", "Ben": "-"}
    _check_standard_input(["talk.mp3"], ann)
    _check_standard_input(["-"], Options(diarize=True, known_speakers={"Ann": "ann.wav"}))
    for sources, options in (
        (["talk.mp3", "-"], ann),
        (["talk.mp3"], Options(diarize=True, known_speakers=both)),
    ):
        with pytest.raises(OptionError, match='only one recording can be "-"'):
            _check_standard_input(sources, options)


def test_no_model_is_loaded_for_missing_recordings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.mp3").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(wb, "load", lambda *_, **__: pytest.fail("the model was loaded"))
    assert transcribe_all(arguments(inputs=("nowhere.mp3", "empty.mp3"))) == 1
    errors = capsys.readouterr().err
    assert "nowhere.mp3: there is no such file" in errors
    assert "empty.mp3: is empty" in errors
