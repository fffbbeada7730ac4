"""Formats with a line for each segment (.txt, .tsv, .csv) or for each turn (.rttm)."""

import csv
import io
import re
import unicodedata
from typing import Final

from whisperbatch.errors import OptionError
from whisperbatch.types import Diarization, Segment, Transcript
from whisperbatch.writers.formatting import (
    decimal,
    has_speakers,
    is_visible,
    milliseconds,
    one_line,
    speaker_name,
)
from whisperbatch.writers.options import TableOptions

FORMULA_STARTS: Final = frozenset("=+-@")
"""A spreadsheet evaluates a cell that begins with one of these characters, or with its full-width
form: https://owasp.org/www-community/attacks/CSV_Injection."""

APOSTROPHE: Final = "'"  # before a cell, this character makes the cell text in a spreadsheet

_SPACES: Final = re.compile(r"\s+")
_ADDRESS: Final = re.compile(r"[a-zA-Z][\w+.-]*://")
_UNNAMED: Final = "recording"


def txt(transcript: Transcript) -> str:
    """Return one line for each segment with visible text.

    With speakers, a line with the name stands before the text of each speaker, and an empty line
    between two speakers.
    """
    lines: list[str] = []
    speaker = ""
    for segment in transcript.segments:
        line = one_line(segment.text)
        if not is_visible(line):
            continue
        if (name := speaker_name(segment)) != speaker:
            lines += [*([""] if lines else []), *([f"{name}:"] if name else [])]
            speaker = name
        lines.append(line)
    return "".join(f"{line}\n" for line in lines)


def tsv(transcript: Transcript, options: TableOptions) -> str:
    """Return the columns of openai-whisper: start and end in milliseconds, and text.

    With speakers, the last column is `speaker`.
    """
    speakers = has_speakers(transcript)
    rows: list[tuple[str, ...]] = [("start", "end", "text", *(("speaker",) if speakers else ()))]
    for segment in transcript.segments:
        start, end = milliseconds(segment.start), milliseconds(segment.end)
        text = _cell(segment.text, options)
        rows.append((str(start), str(end), text, *_speaker_cells(segment, options, speakers)))
    return "".join("\t".join(row) + "\n" for row in rows)


def csv_table(transcript: Transcript, options: TableOptions) -> str:
    """Return id, start, end, language and text; times in seconds with three decimals.

    With speakers, the last column is `speaker`.
    """
    speakers = has_speakers(transcript)
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    header = ("id", "start", "end", "language", "text")
    table.writerow((*header, *(("speaker",) if speakers else ())))
    for segment in transcript.segments:
        start, end = milliseconds(segment.start), milliseconds(segment.end)
        language, text = _cell(segment.language, options), _cell(segment.text, options)
        row = (segment.id, decimal(start), decimal(end), language, text)
        table.writerow((*row, *_speaker_cells(segment, options, speakers)))
    return file.getvalue()


def rttm(result: Transcript | Diarization) -> str:
    """Return the turns in NIST's Rich Transcription Time Marked format, one line for each.

    The identifier of the recording is its file name without directory and suffix. Names and the
    identifier have no spaces in this format: each becomes "_".

    Raises:
        OptionError: the transcript has no diarization.
    """
    diarization = result.diarization if isinstance(result, Transcript) else result
    if diarization is None:
        raise OptionError("format 'rttm' needs speakers; transcribe with `diarize=True`")
    recording = _identifier(diarization.source or result.source)
    lines = []
    for turn in diarization.turns:
        start = milliseconds(turn.start)
        duration = max(milliseconds(turn.end) - start, 1)
        times = f"{decimal(start)} {decimal(duration)}"
        name = _without_spaces(turn.speaker) or "<NA>"
        lines.append(f"SPEAKER {recording} 1 {times} <NA> <NA> {name} <NA> <NA>\n")
    return "".join(lines)


def _speaker_cells(segment: Segment, options: TableOptions, speakers: bool) -> tuple[str, ...]:
    """Return the cell of the speaker; none if the table has no such column."""
    return (_cell(segment.speaker or "", options),) if speakers else ()


def _cell(text: str, options: TableOptions) -> str:
    """Return the text of a cell on one line; with `spreadsheet_safe`, never a formula."""
    line = one_line(text)
    return APOSTROPHE + line if options.spreadsheet_safe and _may_be_formula(line) else line


def _may_be_formula(line: str) -> bool:
    """Return whether a spreadsheet may evaluate a cell.

    Apostrophes before the first character are ignored, so that texts with and without an
    apostrophe stay different: the first apostrophe of such a cell was always added. Spaces and
    format characters are ignored, because programs may remove them.
    """
    for character in line:
        if unicodedata.category(character) != "Cf" and character not in (" ", APOSTROPHE):
            return unicodedata.normalize("NFKC", character) in FORMULA_STARTS
    return False


def _identifier(source: str) -> str:
    """Return the name of a recording without directory, suffix and query."""
    path = re.split(r"[?#]", source)[0] if _ADDRESS.match(source) else source
    name = re.split(r"[/\\]", path.rstrip("/\\"))[-1]
    if name.startswith("<") and name.endswith(">"):  # "<stdin>": no file
        name = name[1:-1]
    stem, dot, _ = name.rpartition(".")
    return _without_spaces(stem if dot and stem else name) or _UNNAMED


def _without_spaces(name: str) -> str:
    """Return a name as one field of a line; empty if no character is visible."""
    line = one_line(name)
    return _SPACES.sub("_", line) if is_visible(line) else ""
