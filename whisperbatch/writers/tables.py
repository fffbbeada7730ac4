"""Formats with one row for each segment: .txt, .tsv and .csv."""

import csv
import io
import unicodedata
from typing import Final

from whisperbatch.types import Transcript
from whisperbatch.writers.options import TableOptions
from whisperbatch.writers.text_cleaning import is_visible, one_line
from whisperbatch.writers.timestamps import decimal, milliseconds

FORMULA_STARTS: Final = frozenset("=+-@")
"""A spreadsheet evaluates a cell that begins with one of these characters, or with its full-width
form: https://owasp.org/www-community/attacks/CSV_Injection."""

APOSTROPHE: Final = "'"  # before a cell, this character makes the cell text in a spreadsheet


def txt(transcript: Transcript) -> str:
    """Return one line for each segment with visible text."""
    lines = (one_line(segment.text) for segment in transcript.segments)
    return "".join(f"{line}\n" for line in lines if is_visible(line))


def tsv(transcript: Transcript, options: TableOptions) -> str:
    """Return the columns of openai-whisper: start and end in milliseconds, and text."""
    rows = [("start", "end", "text")]
    for segment in transcript.segments:
        start, end = milliseconds(segment.start), milliseconds(segment.end)
        rows.append((str(start), str(end), _cell(segment.text, options)))
    return "".join("\t".join(row) + "\n" for row in rows)


def csv_table(transcript: Transcript, options: TableOptions) -> str:
    """Return id, start, end, language and text; times in seconds with three decimals."""
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(("id", "start", "end", "language", "text"))
    for segment in transcript.segments:
        start, end = milliseconds(segment.start), milliseconds(segment.end)
        language, text = _cell(segment.language, options), _cell(segment.text, options)
        table.writerow((segment.id, decimal(start), decimal(end), language, text))
    return file.getvalue()


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
