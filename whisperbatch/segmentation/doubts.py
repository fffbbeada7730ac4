"""Doubts about the language of rows become notices of their recording."""

from collections.abc import Sequence

from whisperbatch.recording import RecordingState
from whisperbatch.segmentation.timed_text import LanguageDoubt
from whisperbatch.text.languages import LANGUAGES
from whisperbatch.types import to_seconds


def add_doubts(recording: RecordingState, doubts: Sequence[LanguageDoubt]) -> None:
    """Add the doubts of the next row of a recording to its notices.

    A doubt that continues the doubt of the row before begins at the end of that row, so that the
    two notices become one, however long the pause is. In another section, nothing is continued.
    """
    before, recording.doubt_until = recording.doubt_until, None
    for doubt in doubts:
        continues = doubt.from_start and before is not None and before[1] == doubt.language
        start = before[0] if continues and before else doubt.start
        recording.notices.add(
            "language", to_seconds(start), to_seconds(doubt.end), _description(doubt)
        )
        if doubt.to_end:
            recording.doubt_until = (doubt.end, doubt.language)


def _description(doubt: LanguageDoubt) -> str:
    """Return the text of a notice."""
    name, decided = (LANGUAGES.get(code, code).title() for code in (doubt.language, doubt.decided))
    return (
        f"the speech sounds like {name}, not {decided}, so the text is doubtful; multilingual=True "
        f"detects the language of each part, language={doubt.language!r} sets it for all parts"
    )
