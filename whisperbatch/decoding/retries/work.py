"""The work of decoding, and its limit for each chunk.

The work of a request is an upper bound that is known before the request is decoded: the number of
its hypotheses (beams, or sampled hypotheses) times the maximum number of tokens, and the encoder.

The limit depends only on the chunk, so the text does not depend on the other rows of the batch. It
holds for every combination of options, so that a wrong option cannot stop a program for hours. With
ten beams, five sampled hypotheses and six temperatures, the most difficult material needed 60 % of
the limit (docs/explanation/accuracy.md).
"""

import logging
from typing import Final

from whisperbatch.decoding.audit import DecodedRow, max_tokens_for
from whisperbatch.options import MAX_NEW_TOKENS
from whisperbatch.types import Chunk, to_seconds

log = logging.getLogger(__name__)

REQUEST_WORK: Final = 200  # tokens that take as long as a request's features and encoder
# The limit for all retries of a chunk, in tokens of all hypotheses:
WORK_PER_CHUNK: Final = 2000
WORK_PER_SECOND: Final = 7000
MAX_FREE_HYPOTHESES: Final = 10  # with more hypotheses, the first decoding has the limit of retries


class RetryBudget:
    """The work that is left for the retries of a chunk.

    Args:
        chunk: as it was before any retry.

    Attributes:
        spent: whether a retry was refused; all later retries are refused, too.
    """

    def __init__(self, chunk: Chunk) -> None:
        self._remaining = WORK_PER_CHUNK + WORK_PER_SECOND * to_seconds(chunk.length)
        self.spent = False

    def take(self, work: int) -> bool:
        """Return whether there is enough work left for a retry, and subtract its work."""
        self.spent = self.spent or work > self._remaining
        if not self.spent:
            self._remaining -= work
        return not self.spent


def request_work(chunk: Chunk, hypotheses: int, max_new_tokens: int | None) -> int:
    """Return the work of a request whose tokens have the limit of their speech.

    Args:
        chunk: its speech limits the number of tokens.
        hypotheses: number of beams or of sampled hypotheses.
        max_new_tokens: the option.
    """
    return REQUEST_WORK + hypotheses * min(max_tokens_for(chunk), max_new_tokens or MAX_NEW_TOKENS)


def first_limit(chunk: Chunk, hypotheses: int) -> int:
    """Return the maximum number of tokens of a row's first decoding, without `max_new_tokens`.

    All rows have Whisper's limit, so that they share an engine call. With very many hypotheses, the
    speech of a row limits its tokens as in a retry.
    """
    return max_tokens_for(chunk) if hypotheses > MAX_FREE_HYPOTHESES else MAX_NEW_TOKENS


def report_limit(decoded: DecodedRow) -> None:
    """Log that the retries of a chunk were stopped: as a warning once for each recording."""
    recording = decoded.row.recording
    with recording.changed:
        is_first = not recording.limited_chunks
        recording.limited_chunks += 1
    log.log(
        logging.WARNING if is_first else logging.INFO,
        "recording %d, %.2f s to %.2f s: no more retries, because they reached the limit of work "
        "for a chunk; the best text so far is used. Options that make every text fail, or ask for "
        "very many beams or samples, cause this",
        decoded.chunk.recording,
        to_seconds(decoded.chunk.start),
        to_seconds(decoded.chunk.end),
    )
