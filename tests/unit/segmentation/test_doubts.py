"""Doubts about the language of rows become notices."""

from whisperbatch.recording import RecordingState
from whisperbatch.segmentation.stage import add_doubts
from whisperbatch.segmentation.timed_text import LanguageDoubt


def doubt(start: float, end: float, language: str = "fr", *, whole: bool = True) -> LanguageDoubt:
    return LanguageDoubt(
        round(start * 16000), round(end * 16000), language, "en", from_start=whole, to_end=whole
    )


def ranges(recording: RecordingState) -> list[tuple[float, float]]:
    return [(notice.start, notice.end) for notice in recording.notices.all()]


def test_the_notice_names_both_languages_and_the_options_that_help() -> None:
    recording = RecordingState(0)
    add_doubts(recording, [doubt(1.0, 20.0)])
    [notice] = recording.notices.all()
    assert (notice.kind, notice.start, notice.end) == ("language", 1.0, 20.0)
    for part in ("French", "English", "multilingual=True", "language='fr'"):
        assert part in notice.text


def test_rows_in_a_row_give_one_notice_however_long_the_pause_is() -> None:
    recording = RecordingState(0)
    for start in (0.0, 40.0, 80.0):
        add_doubts(recording, [doubt(start, start + 20)])
    assert ranges(recording) == [(0.0, 100.0)]


def test_a_row_without_doubt_divides_two_notices() -> None:
    recording = RecordingState(0)
    add_doubts(recording, [doubt(0, 20)])
    add_doubts(recording, [])
    add_doubts(recording, [doubt(60, 80)])
    assert ranges(recording) == [(0.0, 20.0), (60.0, 80.0)]


def test_a_part_of_a_row_is_not_continued() -> None:
    recording = RecordingState(0)
    add_doubts(recording, [doubt(0, 20, whole=False)])
    add_doubts(recording, [doubt(40, 60)])
    add_doubts(recording, [doubt(80, 90, "de")])
    assert ranges(recording) == [(0.0, 20.0), (40.0, 60.0), (80.0, 90.0)]
