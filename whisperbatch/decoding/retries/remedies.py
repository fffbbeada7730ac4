"""The remedies for rows that fail their audit: in which order, and which parts they decode.

All remedies except the last are deterministic:

    own_script        only letters of the language's scripts, if the text has other letters
    beam              beam search, if greedy search produced loops or improbable text
    split             the chunk in two parts; each part may be split again
    isolate           uncovered speech as a separate part, between the parts around the speech
    pieces            each phrase of uncovered or repeated speech as a separate part
    phrases           each phrase of the chunk as a separate part
    shift             the same speech at another place in Whisper's window, if too short to split
    no_repeat_ngram   no n-gram twice, if the text repeats itself
    sample            sampling at the next temperature, if Whisper's own thresholds fail
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from whisperbatch.chunking.split import cut_at_pauses, isolate, split_in_two
from whisperbatch.decoding.audit import Audit, DecodedRow, UncoveredSpeech
from whisperbatch.decoding.prompts import Context
from whisperbatch.types import Chunk, SpeechSpan

MAX_SPLITS: Final = 3  # times that a chunk is split in two: from 30 s down to about 4 s

Remedy = Literal[
    "own_script",
    "beam",
    "split",
    "isolate",
    "pieces",
    "phrases",
    "shift",
    "no_repeat_ngram",
    "sample",
]
ISOLATIONS: Final[tuple[Remedy, ...]] = ("isolate", "pieces", "phrases")  # each has more parts
Step = tuple[Remedy, float]
"""A remedy and its temperature."""


@dataclass(eq=False)
class AuditedRow:
    """A decoded row with its audit and the remedies that have not been tried yet.

    Attributes:
        decoded: the row with its text.
        audit: its faults.
        context: its context.
        remedies: the remedies that have not been tried yet.
        splits: how often its chunk was split.
        shifted: whether its speech was moved to another place in Whisper's window.
        had_no_text: whether most of its speech had no text before the retries.
    """

    decoded: DecodedRow
    audit: Audit
    context: Context
    remedies: Iterator[Step]
    splits: int = 0
    shifted: bool = False
    had_no_text: bool = False


def changes_of_the_chunk(row: AuditedRow) -> Iterator[Remedy]:
    """Yield the remedies that divide or move the speech of a chunk."""
    can_split = row.splits < MAX_SPLITS
    if can_split and split_in_two(row.decoded.chunk, _split_target(row)):
        yield "split"
    elif row.audit.uncovered and not row.shifted:
        yield "shift"
    if row.splits > MAX_SPLITS:
        return
    most = 1
    for remedy in ISOLATIONS[0 if can_split else 1 :]:
        number = len(parts_of(row, remedy))
        if number > most:
            most = number
            yield remedy


def parts_of(row: AuditedRow, remedy: Remedy) -> tuple[Chunk, ...]:
    """Return the parts that a remedy divides the chunk into; none if the remedy keeps the chunk."""
    match remedy:
        case "split":
            return split_in_two(row.decoded.chunk, _split_target(row)) or ()
        case "isolate":
            return _isolated(row)
        case "pieces":
            return cut_at_pauses(row.decoded.chunk, _faulty_stretches(row))
        case "phrases" if _faulty_stretches(row):
            chunk = row.decoded.chunk
            return cut_at_pauses(chunk, [SpeechSpan(chunk.start, chunk.end)])
        case _:
            return ()


def most_faulty_first(row: AuditedRow, parts: Sequence[Chunk]) -> list[int]:
    """Return the indices of the parts of a row: parts with most of its faulty speech first."""
    stretches = _faulty_stretches(row)

    def faulty(index: int) -> int:
        start, end = parts[index].start, parts[index].end
        return sum(stretch.within(start, end).length for stretch in stretches)

    return sorted(range(len(parts)), key=faulty, reverse=True)


def splits_after(row: AuditedRow, remedy: Remedy) -> int:
    """Return how often the chunk of a part was split. Phrases are not split again."""
    if remedy in ("pieces", "phrases"):
        return MAX_SPLITS + 1
    return row.splits + (remedy in ("split", "isolate"))


def _isolated(row: AuditedRow) -> tuple[Chunk, ...]:
    """Return the longest uncovered speech and the parts around it; none if no speech is uncovered.

    A split puts the speech at the start of a part. If the rest of this part is louder or clearer,
    the model may begin there again: a faint voice is decoded only when it is alone.
    """
    longest = _longest_uncovered(row)
    return isolate(row.decoded.chunk, longest.start, longest.end) if longest else ()


def _faulty_stretches(row: AuditedRow) -> list[SpeechSpan]:
    """Return the stretches of uncovered and of repeated speech.

    The model can skip several voices in a row. If an announcement is repeated, the model repeats
    its text too often or too rarely.
    """
    words = row.decoded.words
    loops = row.audit.repetitive or row.audit.too_fast
    repeats = row.decoded.repeats if loops else ()
    stretches = [SpeechSpan(gap.start, gap.end) for gap in row.audit.uncovered]
    return stretches + [SpeechSpan(words[r.start].start, words[r.end - 1].end) for r in repeats]


def _split_target(row: AuditedRow) -> int:
    """Return the recording sample near which to split a chunk.

    The target is the start of the longest uncovered speech, so that the lost words begin a row. If
    there is none, or if it takes more than half of the chunk, the target is the chunk's middle.
    """
    chunk = row.decoded.chunk
    longest = _longest_uncovered(row)
    if longest is None or longest.speech > (chunk.end - chunk.start) // 2:
        return (chunk.start + chunk.end) // 2
    return longest.start


def _longest_uncovered(row: AuditedRow) -> UncoveredSpeech | None:
    return max(row.audit.uncovered, key=lambda gap: gap.speech, default=None)
