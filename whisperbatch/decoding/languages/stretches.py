"""Stretches of a row in one language, found in windows of a few seconds.

A row of 30 s that straddles a change of language often gets a single language with a probability
above 0.9. Its windows do not: base is right for 99.6 % of the speech in windows of 10 s.

    speech      [===] [====]  [===] [==] [====]
    windows     [  ru .98 ]   [it .97  ] [it .99]
    stretches   [   ru    ]   [       it        ]
"""

from dataclasses import dataclass
from itertools import groupby
from typing import Final

from whisperbatch.chunking.split import cut_out
from whisperbatch.decoding.audit import DecodedRow
from whisperbatch.language.code_switching import best_sequence, most_probable, row_windows
from whisperbatch.language.voting import mean_scores, restricted
from whisperbatch.language.windows import score_chunks
from whisperbatch.protocols import FeatureExtractor
from whisperbatch.scheduling import SharedModel
from whisperbatch.types import Chunk, LanguageScores, speech_seconds

DOUBTFUL: Final = -0.3  # average log-probability: text in a wrong language is nearly always below


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of a chunk in one language.

    Attributes:
        chunk: the part of the chunk.
        language: its language.
        probability: mean probability of the language in the windows of the stretch.
    """

    chunk: Chunk
    language: str
    probability: float

    @property
    def speech(self) -> float:
        """Seconds of speech."""
        return speech_seconds(self.chunk.speech)


def find_stretches(
    model: SharedModel,
    extractor: FeatureExtractor,
    decoded: DecodedRow,
    threshold: float,
    languages: tuple[str, ...] = (),
) -> list[Stretch]:
    """Return the stretches of a row by language, in order.

    Args:
        model: scores the windows of the row.
        extractor: computes their features.
        decoded: the row with its language, which is one of the possible languages.
        threshold: windows without a language of this probability do not count.
        languages: the possible languages; empty for all languages.
    """
    windows = row_windows(decoded.chunk)
    scores = [restricted(score, languages) for score in score_chunks(model, extractor, windows)]
    codes = most_probable([{decoded.language: 1.0}, *(score.probabilities for score in scores)])
    labels = best_sequence(scores, codes, threshold)
    groups = groupby(zip(windows, scores, labels, strict=True), key=lambda labelled: labelled[2])
    return [_stretch(decoded.chunk, code, list(group)) for code, group in groups]


def _stretch(chunk: Chunk, code: str, group: list[tuple[Chunk, LanguageScores, str]]) -> Stretch:
    part = cut_out(chunk, group[0][0].start, group[-1][0].end)
    means = mean_scores([score for _, score, _ in group]).probabilities
    return Stretch(part, code, means.get(code, 0.0))


def sounds_doubtful(decoded: DecodedRow) -> bool:
    """Whether a row has text that is less probable than most text in the spoken language."""
    return bool(decoded.text) and decoded.hypothesis.avg_logprob < DOUBTFUL
