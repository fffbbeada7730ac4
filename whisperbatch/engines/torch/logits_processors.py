"""Logits processors: openai/whisper's rules (decoding.py), and two against repetition.

Each processor takes logits (n, vocabulary), float32, and the texts (n, width) so far, with their
prefixes, and returns changed logits. Texts are token ids aligned to the right, with `PADDING` in
front. A token that must not come next gets the logit -inf.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import torch

from whisperbatch.engines.search.alignment import SECONDS_PER_POSITION
from whisperbatch.engines.search.logits import blocked_by_ngrams, logit_biases
from whisperbatch.engines.special_tokens import SpecialTokens
from whisperbatch.models.config import ModelConfig
from whisperbatch.options import SearchOptions

PADDING: Final = -1  # no token id

Tensor: TypeAlias = torch.Tensor
LogitsProcessor: TypeAlias = Callable[[Tensor, Tensor], Tensor]  # (logits, texts) to logits


@dataclass(frozen=True, slots=True)
class RepetitionPenalty:
    """Makes the tokens of the text less likely.

    Their logits are multiplied by the penalty if they are below 0, else divided by the penalty.
    """

    penalty: float

    def __call__(self, logits: Tensor, texts: Tensor) -> Tensor:
        """See the module."""
        if not texts.shape[1]:
            return logits
        tokens = torch.where(texts == PADDING, texts[:, -1:], texts)
        is_empty = (texts[:, -1:] == PADDING).expand_as(tokens)
        tokens = tokens.clamp(min=0)
        values = logits.gather(1, tokens)
        penalized = torch.where(values < 0, values * self.penalty, values / self.penalty)
        return logits.scatter(1, tokens, torch.where(is_empty, values, penalized))


@dataclass(frozen=True, slots=True)
class NoRepeatedNgrams:
    """Suppresses tokens that would complete an n-gram of the text again; `size` is its n."""

    size: int

    def __call__(self, logits: Tensor, texts: Tensor) -> Tensor:
        """See the module."""
        if texts.shape[1] < self.size:
            return logits
        blocked = torch.zeros_like(logits, dtype=torch.bool)
        for row, padded in enumerate(texts.tolist()):
            text = [token for token in padded if token != PADDING]
            blocked[row, blocked_by_ngrams(text, self.size)] = True
        return logits.masked_fill(blocked, -torch.inf)


@dataclass(frozen=True, slots=True, eq=False)
class SuppressTokens:
    """Suppresses fixed sets of tokens.

    Attributes:
        biases: terms added to the logits of every token but the first, shape (vocabulary,).
        first_biases: terms added to the logits of the first token after the prefix.
        prefix_length: number of tokens of the prefix.
    """

    biases: Tensor
    first_biases: Tensor
    prefix_length: int

    def __call__(self, logits: Tensor, texts: Tensor) -> Tensor:
        """See the module."""
        lengths = (texts != PADDING).sum(1, keepdim=True)
        is_first = lengths == self.prefix_length
        return logits + torch.where(is_first, self.first_biases, self.biases)


@dataclass(frozen=True, slots=True)
class TimestampRules:
    """Whisper's rules for timestamp tokens.

    A text begins with a timestamp. Timestamps come in pairs and never decrease. If all timestamps
    together are more likely than the most likely text token, the next token is a timestamp.

    Attributes:
        begin: id of <|0.00|>, the first timestamp; all higher ids are timestamps, too.
        end_of_text: id of the end of text; lower ids are text tokens.
        max_initial: the largest allowed distance of the first timestamp from `begin`, in tokens.
    """

    begin: int
    end_of_text: int
    max_initial: int

    def __call__(self, logits: Tensor, texts: Tensor) -> Tensor:
        """See the module."""
        padded = torch.nn.functional.pad(texts, (2, 0), value=PADDING)
        last, second_last = padded[:, -1:], padded[:, -2:-1]
        ends_in_timestamp = last >= self.begin
        is_paired = (second_last >= self.begin) | (second_last == PADDING)
        token = torch.arange(logits.shape[1], device=logits.device)
        is_timestamp = token >= self.begin
        latest = torch.where(padded >= self.begin, padded, PADDING).amax(1, keepdim=True)
        # the second timestamp of a pair may equal the first
        earliest = latest + (~(ends_in_timestamp & ~is_paired)).long()
        forbidden = ends_in_timestamp & is_paired & is_timestamp
        forbidden |= ends_in_timestamp & ~is_paired & (token < self.end_of_text)
        forbidden |= (latest != PADDING) & is_timestamp & (token < earliest)
        is_too_late = token > self.begin + self.max_initial
        forbidden |= (last == PADDING) & (~is_timestamp | is_too_late)
        logits = logits.masked_fill(forbidden, -torch.inf)
        text_logits, timestamp_logits = logits[:, : self.begin], logits[:, self.begin :]
        prefers_timestamp = timestamp_logits.logsumexp(1, keepdim=True) > text_logits.amax(
            1, keepdim=True
        )
        return logits.masked_fill(prefers_timestamp & ~is_timestamp, -torch.inf)


def make_logits_processors(
    options: SearchOptions,
    config: ModelConfig,
    special: SpecialTokens,
    vocabulary_size: int,
    device: torch.device,
    *,
    timestamps: bool,
    prefix_length: int = 0,
) -> list[LogitsProcessor]:
    """Return the processors that the options need, in the order of their application.

    Args:
        options: options of the decoding.
        config: settings of the weights.
        special: ids of the special tokens.
        vocabulary_size: number of tokens.
        device: where the logits are.
        timestamps: whether the text contains timestamp tokens.
        prefix_length: number of tokens with which the text must begin.
    """
    processors: list[LogitsProcessor] = []
    if options.repetition_penalty != 1:
        processors.append(RepetitionPenalty(options.repetition_penalty))
    if options.no_repeat_ngram_size:
        processors.append(NoRepeatedNgrams(options.no_repeat_ngram_size))
    arrays = logit_biases(options, config, special, vocabulary_size, timestamps=timestamps)
    biases, first_biases = (torch.from_numpy(array).to(device) for array in arrays)
    processors.append(SuppressTokens(biases, first_biases, prefix_length))
    if timestamps:
        max_initial = round(options.max_initial_timestamp / SECONDS_PER_POSITION)
        processors.append(
            TimestampRules(special.no_timestamps + 1, special.end_of_text, max_initial)
        )
    return processors
