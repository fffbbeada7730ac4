"""Consensus: an improbable row in noise is decoded again, and the most typical text is used.

In noise, chance decides between similar words. The same speech at another place in Whisper's window
gets a text with other errors, and mostly with the same right words:

    text                                     words that differ from the other texts
    the purpose of this text is to give      1 + 2 + 2
    the purpose of this test is to give      1 + 1 + 1      <-- is used
    the purpose of his test is to give       2 + 1 + 2
    the purpose of this test is to live      2 + 1 + 2

The last of the three other texts is decoded only if it can change the choice.

The text with the fewest differences is the choice of minimum Bayes risk, with the word errors as
the risk (Stolcke, Konig and Weintraub 1997, "Explicit word error minimization in N-best list
rescoring").
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final

from whisperbatch.chunking.split import shift
from whisperbatch.decoding.audit import DecodedRow, normalize_words
from whisperbatch.decoding.prompts import Context
from whisperbatch.decoding.row_decoder import RowDecoder, RowRequest
from whisperbatch.options import Options
from whisperbatch.protocols import FeatureExtractor
from whisperbatch.recording import Row
from whisperbatch.types import HOP, WINDOW, Chunk, speech_seconds, to_samples, to_seconds

log = logging.getLogger(__name__)

IMPROBABLE: Final = -0.4  # average log-probability of rows that are decoded again
MIN_SPEECH: Final = 3.0  # seconds: a few words have no typical text
MAX_SILENCE: Final = to_samples(1.0)
SHARES: Final = (4, 2, 1)  # the silence before the speech is a fourth, half, and all of the room
MIN_ROOM: Final = max(SHARES) * 2 * HOP  # samples: each place is another encoder position (20 ms)


class Consensus:
    """Decodes improbable rows in noise again, and chooses between their texts. Thread-safe.

    Args:
        decode: decodes rows.
        extractor: computes the features of the shifted chunks.
        options: options of the run.
    """

    def __init__(self, decode: RowDecoder, extractor: FeatureExtractor, options: Options) -> None:
        self._decode_rows = decode
        self._extractor = extractor
        self._options = options
        self._enabled = (
            options.log_prob_threshold is not None
            and options.temperatures[0] == 0
            and options.timestamps == "alignment"  # timestamp tokens can lie in the added silence
            and not options.condition_on_previous_text  # the next row may have the text already
            and options.features == "whisper"  # the range of other features has other units
            and options.vad  # otherwise no audit finds lost words
            and options.coverage_threshold is not None
        )

    def __call__(
        self, row: Row, parts: tuple[DecodedRow, ...], context: Context
    ) -> tuple[tuple[DecodedRow, ...], bool]:
        """Return the most typical text of a row, and whether the row was decoded again.

        Another text takes part only if its audit finds no more faults than in the present text,
        and no fault but uncovered speech. A row that fills the window, or begins the recording, has
        no room to move: its text stays.

        Args:
            row: the row, before any retry.
            parts: the present text: the row, or its parts after the retries.
            context: the context of the row.
        """
        chunks = moved(row.chunk) if self._needs_consensus(row, parts) else []
        if not chunks:
            return parts, False
        present_cost = sum(part.audit.cost for part in parts)
        texts = [[word for part in parts for word in normalize_words(part.words)]]
        others: list[DecodedRow] = []
        decodings = 0
        for together in (chunks[:-1], chunks[-1:]):
            if decodings and first_stays_typical(texts):
                break
            decodings += len(together)
            for other in self._decode(row, together, parts[0], context):
                if other.words and self._cost(other) <= present_cost:
                    others.append(other)
                    texts.append(normalize_words(other.words))
        chosen = most_typical(texts)
        log.info(
            "recording %d, %.2f s to %.2f s: improbable text in noise, decoded %d more times; %s",
            row.chunk.recording,
            to_seconds(row.chunk.start),
            to_seconds(row.chunk.end),
            decodings,
            "new text kept" if chosen else "old text kept",
        )
        return ((others[chosen - 1],) if chosen else parts), True

    def _needs_consensus(self, row: Row, parts: Sequence[DecodedRow]) -> bool:
        return (
            self._enabled
            and any(part.words for part in parts)
            and parts[0].task == "transcribe"  # words of a translation do not follow the speech
            and min(part.hypothesis.avg_logprob for part in parts) < IMPROBABLE
            and speech_seconds(row.chunk.speech) >= MIN_SPEECH
            and row.is_noisy
        )

    def _decode(
        self, row: Row, chunks: Sequence[Chunk], like: DecodedRow, context: Context
    ) -> list[DecodedRow]:
        rows = [Row.of(chunk, self._extractor, row.recording) for chunk in chunks]
        return self._decode_rows(
            [RowRequest(moved_row, like.language, like.task, context) for moved_row in rows]
        )

    def _cost(self, other: DecodedRow) -> float:
        """Return the seconds of uncovered speech of a text; infinity if it has other faults."""
        faults = other.audit
        return faults.cost if replace(faults, uncovered=()).passed else math.inf


def moved(chunk: Chunk) -> list[Chunk]:
    """Return the chunk with its speech at three other places in Whisper's window.

    Returns:
        Three chunks with the same speech; none with less room than `MIN_ROOM`.
    """
    room = min(MAX_SILENCE, chunk.start, (WINDOW - chunk.length) // 2)
    if room < MIN_ROOM:
        return []
    return [shift(chunk, room // share) for share in SHARES]


def most_typical(texts: Sequence[Sequence[str]]) -> int:
    """Return the index of the text with the fewest word differences from the other texts.

    Of several such texts, the first is taken.
    """
    sums = [sum(differences) for differences in _differences(texts)]
    return sums.index(min(sums))


def first_stays_typical(texts: Sequence[Sequence[str]]) -> bool:
    """Return whether the first text is the most typical one, for every possible further text.

    The number of differences obeys the triangle inequality. So a further text cannot be nearer to
    another text than to the first text by more than the difference of these two. Nor can it be the
    most typical text: its differences from two texts are at least the difference of these two.

    Args:
        texts: at most three.
    """
    first, *others = _differences(texts)
    return all(
        sum(first) + difference <= sum(other)
        for difference, other in zip(first[1:], others, strict=True)
    )


def _differences(texts: Sequence[Sequence[str]]) -> list[list[int]]:
    differences = [[0] * len(texts) for _ in texts]
    for (first, text), (second, other) in combinations(enumerate(texts), 2):
        distance = word_distance(text, other)
        differences[first][second] = differences[second][first] = distance
    return differences


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
