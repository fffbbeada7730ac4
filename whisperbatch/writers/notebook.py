"""Results as HTML, for the cell of a notebook: `transcript` in the last line of a cell.

The colours come from the theme of the notebook. A browser lays out each text from left to right or
from right to left by its own letters (`dir="auto"`).
"""

from collections.abc import Iterable
from html import escape
from typing import Final

from whisperbatch.text.languages import LANGUAGES
from whisperbatch.text.messages import counted
from whisperbatch.types import LanguageDetection, Omission, Segment, Transcript
from whisperbatch.writers.formatting import (
    clock,
    has_speakers,
    milliseconds,
    one_line,
    speaker_name,
)

SHOWN_LANGUAGES: Final = 5

_BOX: Final = "max-height: 24em; overflow-y: auto"
_CELL: Final = "text-align: start; vertical-align: top"
_TEXT: Final = "text-align: start; width: 100%"
_FAINT: Final = "opacity: 0.6"


def transcript_html(transcript: Transcript) -> str:
    """Return a line about the recording, and a table of segments and omissions that scrolls."""
    with_speakers = has_speakers(transcript)
    rows = [(s.start, _segment_row(s, with_speakers=with_speakers)) for s in transcript.segments]
    rows += [(o.start, _omission_row(o, columns=1 + with_speakers)) for o in transcript.omissions]
    rows.sort(key=lambda row: row[0])
    notices = "".join(f"<div>{_escaped(notice.text)}</div>" for notice in transcript.notices)
    empty = "" if transcript.segments else f'<div style="{_FAINT}">no speech found</div>'
    table = f"<table><tbody>{''.join(row for _, row in rows)}</tbody></table>" if rows else ""
    return (
        f"<div><b>{_escaped(transcript.source)}</b> · {', '.join(_facts(transcript))}</div>"
        f'{notices}{empty}<div style="{_BOX}">{table}</div>'
    )


def languages_html(detection: LanguageDetection) -> str:
    """Return a table of the most probable languages."""
    ranked = list(detection.probabilities.items())[:SHOWN_LANGUAGES]
    rows = (_row(_name(code), f"{probability:.1%}") for code, probability in ranked)
    reason = f"<div>{_escaped(detection.reason)}</div>" if detection.reason else ""
    title = _name(detection.language) if detection.language else "no language"
    return (
        f"<div><b>{title}</b> · {detection.probability:.1%}</div>{reason}"
        f"<table><tbody>{''.join(rows)}</tbody></table>"
    )


def _facts(transcript: Transcript) -> Iterable[str]:
    yield _time(transcript.duration)
    yield _name(transcript.language) if transcript.language else "no language"
    yield counted(transcript.segments, "segment")
    if transcript.diarization:
        yield counted(transcript.speakers, "speaker")
    if transcript.omissions:
        yield counted(transcript.omissions, "omission")
    if not transcript.is_complete:
        yield "<b>incomplete</b>"


def _segment_row(segment: Segment, *, with_speakers: bool) -> str:
    cells = [_time(segment.start), *([_escaped(speaker_name(segment))] if with_speakers else [])]
    return _row(*cells, text=_escaped(segment.text))


def _omission_row(omission: Omission, *, columns: int) -> str:
    what = f"<s>{_escaped(omission.text)}</s>" if omission.text else "speech without text"
    cells = [_time(omission.start), *[""] * (columns - 1)]
    return _row(*cells, text=f"{what} ({_escaped(omission.reason)})", style=_FAINT)


def _row(*cells: str, text: str | None = None, style: str = "") -> str:
    """Return a row of cells in HTML; the text in the last cell breaks its lines."""
    row = "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells)
    if text is not None:
        row += f'<td dir="auto" style="{_TEXT}">{text}</td>'
    return f'<tr style="{style}">{row}</tr>' if style else f"<tr>{row}</tr>"


def _time(seconds: float) -> str:
    return clock(milliseconds(seconds)).partition(".")[0]


def _name(code: str) -> str:
    return _escaped(f"{LANGUAGES.get(code, code).title()} ({code})")


def _escaped(text: str) -> str:
    return escape(one_line(text))
