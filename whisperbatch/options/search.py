"""The options of the search for a chunk's tokens: the only options that engines read."""

from dataclasses import dataclass
from typing import Final

from whisperbatch.options import checks
from whisperbatch.options.values import convert_fields

MAX_NEW_TOKENS: Final = 224
"""Tokens that Whisper decodes for a chunk at most: half of its text context."""

MAX_BEAMS: Final = 32
"""Beams at most. With 100 beams, 4 s of speech took 28 s, and the text was not better."""


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How the decoder searches for the tokens of a chunk.

    Every engine honours all of these options, or raises an OptionError that names the option.

    Attributes:
        beam_size: number of beams, from 1 to 32; 1 is greedy search. Sampling (`temperature`
            above 0) does not use it.
        patience: beam search ends when `beam_size` times `patience` hypotheses are finished; from
            0.01 to 10. Refused with `beam_size=1`.
        length_penalty: the score of a hypothesis is divided by its length raised to this power;
            from -10 to 10. Refused with `beam_size=1`.
        repetition_penalty: a value above 1 makes tokens that the text of the chunk already contains
            less probable; a value below 1 makes them more probable. From 0.8 to 10; 1 has no
            effect.
        no_repeat_ngram_size: a sequence of this many tokens never occurs more than once in the
            text of a chunk; from 0 to 224. 0 allows all repetitions.
        suppress_blank: forbid a blank or the end of the text as the first token of a chunk.
        suppress_tokens: token ids that are never decoded; -1 stands for the model's own list of
            symbols.
        max_initial_timestamp: maximum of the first timestamp of a chunk, in seconds, from 0 to 30.
            Only for `timestamps="tokens"`, otherwise refused.
        max_new_tokens: maximum number of tokens decoded for a chunk, from 1 to 224. None sets
            Whisper's own limit, 224.
    """

    beam_size: int = 5
    patience: float = 1.0
    length_penalty: float = 1.0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    suppress_blank: bool = True
    suppress_tokens: tuple[int, ...] = (-1,)
    max_initial_timestamp: float = 1.0
    max_new_tokens: int | None = None

    def __post_init__(self) -> None:
        convert_fields(self, SearchOptions)
        checks.integer("beam_size", self.beam_size, minimum=1, maximum=MAX_BEAMS)
        checks.number("patience", self.patience, minimum=0.01, maximum=10)
        checks.number("length_penalty", self.length_penalty, minimum=-10, maximum=10)
        checks.beam(self.beam_size, self.patience, self.length_penalty)
        checks.number("repetition_penalty", self.repetition_penalty, minimum=0.8, maximum=10)
        checks.integer(
            "no_repeat_ngram_size", self.no_repeat_ngram_size, minimum=0, maximum=MAX_NEW_TOKENS
        )
        checks.boolean("suppress_blank", self.suppress_blank)
        checks.tokens("suppress_tokens", self.suppress_tokens, minimum=-1)
        if self.max_new_tokens is not None:
            checks.integer("max_new_tokens", self.max_new_tokens, minimum=1, maximum=MAX_NEW_TOKENS)
        checks.number("max_initial_timestamp", self.max_initial_timestamp, minimum=0, maximum=30)
