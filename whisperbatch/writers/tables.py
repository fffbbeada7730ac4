"""Formats with one row for each segment: .txt, .tsv and .csv."""

import csv
import io
import unicodedata
from typing import Final

from whisperbatch.types import Segment, Transcript
from whisperbatch.writers.options import TableOptions
from whisperbatch.writers.speakers import has_speakers, speaker_name
from whisperbatch.writers.text_cleaning import is_visible, one_line
from whisperbatch.writers.timestamps import decimal, milliseconds

FORMULA_STARTS: Final = frozenset("=+-@")
"""A spreadsheet evaluates a cell that begins with one of these characters, or with its full-width
form: https://owasp.org/www-community/attacks/CSV_Injection."""

APOSTROPHE: Final = "'"  # before a cell, this character makes the cell text in a spreadsheet


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
