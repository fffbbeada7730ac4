"""New text for speech that had no text must be probable.

If a row has no words for a stretch of speech, the stretch may be a noise, a distant crowd, or a
cough. If a retry decodes the stretch alone, the model writes a short phrase even on noise.
"""

from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import chain, islice
from typing import Final

from whisperbatch.decoding.audit import DecodedRow, normalize_words
from whisperbatch.decoding.retries.remedies import AuditedRow

# Below the sum of Whisper's two thresholds: the no-speech probability minus the average
# log-probability is at most 1.1 with the defaults. On base, with difficult voices and crowds in
# five languages, 53 of 58 new texts up to this limit had a right word, and 5 of 62 texts above it.
MAX_DOUBT: Final = -0.5
MIN_UNCOVERED: Final = 0.5  # share of a part's speech; then nearly all of its text is new


def had_no_text(parts: Sequence[DecodedRow], row: AuditedRow) -> list[bool]:
    """Return, for each part, whether its speech had no text before the retries.

    The times of the words do not say this reliably: the alignment can stretch the first word of a
    sentence over noise before the sentence. So the words are compared, too. If the row has
    uncovered speech, a part whose words are all inserted between words of the row had no text.

    Args:
        parts: the row after a remedy: one part, or several parts in order.
        row: the row before the remedy.
    """
    return [
        row.had_no_text or (inserted and bool(row.audit.uncovered)) or _is_uncovered(part, row)
        for part, inserted in zip(parts, _inserted(parts, row.decoded), strict=True)
    ]


def _inserted(parts: Sequence[DecodedRow], decoded: DecodedRow) -> list[bool]:
    """Return, for each part, whether all its words are inserted between words of the row."""
    words = [_spoken_words(part) for part in parts]
    before = _spoken_words(decoded)
    matcher = SequenceMatcher(None, before, list(chain(*words)), autojunk=False)
    inserted = iter(
        opcode == "insert"
        for opcode, _, _, start, end in matcher.get_opcodes()
        for _ in range(start, end)
    )
    return [bool(flags) and all(flags) for flags in (list(islice(inserted, len(w))) for w in words)]


def without_doubtful_text(part: DecodedRow) -> DecodedRow:
    """Return a decoded part whose speech had no text before, without its text if it is doubtful."""
    doubtful = part.has_low_probability or part.doubt_beyond_thresholds > MAX_DOUBT
    if not part.words or not doubtful:
        return part
    return replace(part, hypothesis=replace(part.hypothesis, tokens=()), text="", timed_texts=())


def least_cost(part: DecodedRow) -> float:
    """Return the lowest cost that a decoded part can have: with its text, or without doubtful text.

    Whether the text of a part is new is known only when all parts of the row are decoded.
    """
    without = without_doubtful_text(part)
    cost = part.audit.cost
    return cost if without is part else min(cost, without.audit.cost)


def _spoken_words(decoded: DecodedRow) -> list[str]:
    """Return the normalised words, without words that have only punctuation ("...")."""
    return [word for word in normalize_words(decoded.words) if word]


def _is_uncovered(part: DecodedRow, row: AuditedRow) -> bool:
    speech = sum(span.length for span in part.chunk.speech)
    return _uncovered_within(row, part.chunk.start, part.chunk.end) >= MIN_UNCOVERED * speech


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
