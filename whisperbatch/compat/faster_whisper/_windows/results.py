"""The results of the methods of `WhisperModel.model`: they have CTranslate2's attributes."""

from dataclasses import dataclass, field
from typing import Final

from whisperbatch.protocols import Alignment, Encoded

FRAMES_PER_SECOND: Final = 100  # feature frames
POSITIONS_PER_SECOND: Final = 50  # encoder positions


@dataclass(frozen=True, slots=True, eq=False)
class EncoderOutput:
    """Encoder windows.

    Attributes:
        encoded: the engine's encoder output.
        frames: number of feature frames of each window.
    """

    encoded: Encoded
    frames: int


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """The text of one window.

    Attributes:
        sequences: the tokens as text; a list that holds one list.
        sequences_ids: the token ids, with the prompt's prefix; a list that holds one list.
        scores: the total natural-log probability, divided by the length to the power of the
            length penalty; empty without `return_scores`.
        no_speech_prob: probability of the no-speech token; 0 without `return_no_speech_prob`.
        logits: always empty.
    """

    sequences: list[list[str]]
    sequences_ids: list[list[int]]
    scores: list[float]
    no_speech_prob: float
    logits: list[object] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AlignmentResult:
    """The times of the tokens of one window.

    Attributes:
        alignments: pairs of a token's index and an encoder position, in order. The last pair has
            the index after the last token.
        text_token_probs: the probability of each token.
    """

    alignments: list[tuple[int, int]]
    text_token_probs: list[float]

    @classmethod
    def of(cls, alignment: Alignment) -> "AlignmentResult":
        """Return the engine's alignment in this form."""
        starts = [round(time * POSITIONS_PER_SECOND) for time in alignment.starts]
        if not starts:
            return cls([(0, 0)], [])
        starts.append(max(round(alignment.ends[-1] * POSITIONS_PER_SECOND), starts[-1]))
        pairs = [
            (token, position)
            for token, start in enumerate(starts[:-1])
            for position in range(start, max(starts[token + 1], start + 1))
        ]
        probabilities = [float(probability) for probability in alignment.probabilities]
        return cls([*pairs, (len(starts) - 1, starts[-1])], probabilities)
