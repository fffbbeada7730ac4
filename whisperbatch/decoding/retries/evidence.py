"""New text for speech that had no text must be probable.

If a row has no words for a stretch of speech, the stretch may be a noise, a distant crowd, or a
cough. If a retry decodes the stretch alone, the model writes a short phrase even on noise.
"""

from dataclasses import replace
from typing import Final

from whisperbatch.decoding.audit import doubt_beyond_thresholds
from whisperbatch.decoding.decoded_row import DecodedRow
from whisperbatch.decoding.retries.remedies import AuditedRow
from whisperbatch.options import Options

# Below the sum of Whisper's two thresholds: the no-speech probability minus the average
# log-probability is at most 1.1 with the defaults. On base, with difficult voices and crowds in
# five languages, 53 of 58 new texts up to this limit had a right word, and 5 of 62 texts above it.
MAX_DOUBT: Final = -0.5
MIN_UNCOVERED: Final = 0.5  # share of a part's speech; then nearly all of its text is new


def without_doubtful_text(part: DecodedRow, row: AuditedRow, options: Options) -> DecodedRow:
    """Return a decoded part, without its text if the text is new and doubtful.

    Args:
        part: the row after a remedy, or a part of the row.
        row: the row before the remedy.
        options: options of the run.
    """
    if not part.words or doubt_beyond_thresholds(part, options) <= MAX_DOUBT:
        return part
    speech = sum(span.length for span in part.chunk.speech)
    if _uncovered_within(row, part.chunk.start, part.chunk.end) < MIN_UNCOVERED * speech:
        return part
    return replace(part, hypothesis=replace(part.hypothesis, tokens=()), text="", timed_texts=())


def _uncovered_within(row: AuditedRow, start: int, end: int) -> int:
    """Return the number of samples of uncovered speech of the row between `start` and `end`.

    Speech of a gap that extends beyond the range counts in proportion.
    """
    total = 0
    for gap in row.audit.uncovered:
        inside = min(gap.end, end) - max(gap.start, start)
        if inside > 0:
            total += gap.speech * inside // (gap.end - gap.start)
    return total
