"""Formats with one row for each segment: .txt, .tsv and .csv."""

import csv
import io

from whisperbatch.types import Transcript
from whisperbatch.writers.text_cleaning import is_visible, one_line
from whisperbatch.writers.timestamps import decimal, milliseconds


def txt(transcript: Transcript) -> str:
    """Return one line for each segment with visible text."""
    lines = (one_line(segment.text) for segment in transcript.segments)
    return "".join(f"{line}\n" for line in lines if is_visible(line))


def tsv(transcript: Transcript) -> str:
    """Return the columns of openai-whisper: start and end in milliseconds, and text."""
    rows = [
        f"{milliseconds(segment.start)}\t{milliseconds(segment.end)}\t{one_line(segment.text)}\n"
        for segment in transcript.segments
    ]
    return "".join(("start\tend\ttext\n", *rows))


def csv_table(transcript: Transcript) -> str:
    """Return id, start, end, language and text; times in seconds with three decimals."""
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(("id", "start", "end", "language", "text"))
    for segment in transcript.segments:
        start, end = milliseconds(segment.start), milliseconds(segment.end)
        text = one_line(segment.text)
        table.writerow((segment.id, decimal(start), decimal(end), segment.language, text))
    return file.getvalue()
