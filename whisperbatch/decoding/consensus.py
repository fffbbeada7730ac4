"""Consensus: an improbable row in noise is decoded again, and the most typical text is used.

In noise, chance decides between similar words. The same speech at another place in Whisper's window
gets a text with other errors, and mostly with the same right words:

    text                                     words that differ from the other texts
    the purpose of this text is to give      1 + 2 + 2
    the purpose of this test is to give      1 + 1 + 1      <-- is used
    the purpose of his test is to give       2 + 1 + 2
    the purpose of this test is to live      2 + 1 + 2

The text with the fewest differences is the choice of minimum Bayes risk, with the word errors as
the risk (Stolcke, Konig and Weintraub 1997, "Explicit word error minimization in N-best list
rescoring").
"""

from collections.abc import Sequence
from typing import Final

from whisperbatch.chunking.split import shift
from whisperbatch.decoding.audit import audit
from whisperbatch.decoding.decoded_row import DecodedRow, normalize_words
from whisperbatch.decoding.prompts import Context
from whisperbatch.decoding.row_decoder import RowDecoder, RowRequest
from whisperbatch.options import Options
from whisperbatch.protocols import FeatureExtractor
from whisperbatch.rows import Row
from whisperbatch.types import WINDOW, Chunk, speech_seconds, to_samples

IMPROBABLE: Final = -0.4  # average log-probability of rows that are decoded again
MIN_SPEECH: Final = 3.0  # seconds: a few words have no typical text
MAX_LOSS: Final = 2.0  # seconds: a text in which the audit finds more faults does not take part
MAX_SILENCE: Final = to_samples(1.0)
SHARES: Final = (4, 2, 1)  # the silence before the speech is a fourth, half, and all of the room


class Consensus:
    """Decodes improbable rows in noise again, and chooses between their texts. Thread-safe.

    Args:
        row_decoder: decodes rows.
        extractor: computes the features of the shifted chunks.
        options: options of the run.
    """

    def __init__(
        self, row_decoder: RowDecoder, extractor: FeatureExtractor, options: Options
    ) -> None:
        self._row_decoder = row_decoder
        self._extractor = extractor
        self._options = options
        self._enabled = (
            options.log_prob_threshold is not None
            and options.temperatures[0] == 0
            and not options.condition_on_previous_text  # the next row may have the text already
            and options.features == "whisper"  # the range of other features has other units
            and options.vad  # otherwise no audit finds lost words
            and options.coverage_threshold is not None
        )

    def __call__(
        self, first: DecodedRow, parts: tuple[DecodedRow, ...], context: Context
    ) -> tuple[tuple[DecodedRow, ...], bool]:
        """Return the most typical text of a row, and whether the row was decoded again.

        Texts with clearly more faults than the present text do not take part. A row that fills the
        window, or begins the recording, has no room to move: its text stays.

        Args:
            first: the row as it was decoded first.
            parts: the row after the retries, which is the present text.
            context: the context of the row.
        """
        words = [word for part in parts for word in normalize_words(part.words)]
        if not words or not self._needs_consensus(first):
            return parts, False
        chunks = moved(first.chunk)
        if not chunks:
            return parts, False
        requests = [
            RowRequest(
                Row.of(chunk, self._extractor, first.row.recording),
                first.language,
                first.task,
                context,
            )
            for chunk in chunks
        ]
        present_cost = sum(audit(part, self._options).cost for part in parts)
        others = [
            decoded
            for decoded in self._row_decoder.redecode(requests)
            if decoded.words and audit(decoded, self._options).cost <= present_cost + MAX_LOSS
        ]
        texts = [words, *(normalize_words(other.words) for other in others)]
        chosen = most_typical(texts)
        return (parts if chosen == 0 else (others[chosen - 1],)), True

    def _needs_consensus(self, first: DecodedRow) -> bool:
        return (
            self._enabled
            and first.task == "transcribe"  # words of a translation do not follow the speech
            and first.hypothesis.avg_logprob < IMPROBABLE
            and speech_seconds(first.chunk.speech) >= MIN_SPEECH
            and first.row.is_noisy
        )


def moved(chunk: Chunk) -> list[Chunk]:
    """Return the chunk with its speech at three other places in Whisper's window.

    Returns:
        Three chunks with the same speech; none without room for three different silences.
    """
    room = min(MAX_SILENCE, chunk.start, (WINDOW - chunk.length) // 2)
    if room < max(SHARES):
        return []
    return [shift(chunk, room // share) for share in SHARES]


def most_typical(texts: Sequence[Sequence[str]]) -> int:
    """Return the index of the text with the fewest word differences from all texts.

    Of several such texts, the first is taken.
    """
    risks = [sum(word_distance(text, other) for other in texts) for text in texts]
    return risks.index(min(risks))


def word_distance(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the lowest number of replaced, removed and inserted words between two texts."""
    distances = list(range(len(second) + 1))
    for row, word in enumerate(first, start=1):
        diagonal, distances[0] = distances[0], row
        for column, other in enumerate(second, start=1):
            replaced = diagonal + (word != other)
            diagonal = distances[column]
            distances[column] = min(replaced, diagonal + 1, distances[column - 1] + 1)
    return distances[-1]
