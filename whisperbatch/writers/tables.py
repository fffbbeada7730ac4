"""A row a segment: .txt, .tsv and .csv."""

import csv
import io

from whisperbatch.types import Transcript
from whisperbatch.writers.texts import is_visible, one_line
from whisperbatch.writers.times import decimal, milliseconds


def txt(transcript: Transcript) -> str:
    """A line a segment, where it has anything to see."""
    lines = (one_line(segment.text) for segment in transcript.segments)
    return "".join(f"{line}\n" for line in lines if is_visible(line))


def tsv(transcript: Transcript) -> str:
    """As openai-whisper writes it: start and end in milliseconds, and text."""
    rows = [
        f"{milliseconds(one.start)}\t{milliseconds(one.end)}\t{one_line(one.text)}\n"
        for one in transcript.segments
    ]
    return "".join(("start\tend\ttext\n", *rows))


def csv_table(transcript: Transcript) -> str:
    """Times in seconds, with three decimals."""
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(("id", "start", "end", "language", "text"))
    for one in transcript.segments:
        start, end = milliseconds(one.start), milliseconds(one.end)
        row = (one.id, decimal(start), decimal(end), one.language, one_line(one.text))
        table.writerow(row)
    return file.getvalue()
