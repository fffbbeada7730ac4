"""What may be said next: openai/whisper's rules (decoding.py), and two for repetition.

Each rule changes logits (n, vocabulary), float32, knowing the texts (n, width) that have been said
so far: ids that end at the right, with `NOTHING` before them. A token that may not be said gets
-inf.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import torch

from whisperbatch.engines.search.alignment import POSITION
from whisperbatch.engines.special_tokens import SpecialTokens, biases
from whisperbatch.options import DecodeOptions

NOTHING: Final = -1

Tensor: TypeAlias = torch.Tensor
Rule: TypeAlias = Callable[[Tensor, Tensor], Tensor]  # of logits and texts, to logits


@dataclass(frozen=True, slots=True)
class RepetitionPenalty:
    """Tokens that are there already are less likely: logits below 0 times it, others over it."""

    penalty: float

    def __call__(self, logits: Tensor, texts: Tensor) -> Tensor:
        """See the module."""
        if not texts.shape[1]:
            return logits
        said = torch.where(texts == NOTHING, texts[:, -1:], texts)
        empty = (texts[:, -1:] == NOTHING).expand_as(said)
        said = said.clamp(min=0)
        found = logits.gather(1, said)
        less = torch.where(found < 0, found * self.penalty, found / self.penalty)
        return logits.scatter(1, said, torch.where(empty, found, less))


@dataclass(frozen=True, slots=True)
class NoRepeatedNgrams:
    """No `size` tokens in a row come twice."""

    size: int

    def __call__(self, logits: Tensor, texts: Tensor) -> Tensor:
        """See the module."""
        if texts.shape[1] < self.size:
            return logits
        windows = texts.unfold(1, self.size, 1)  # (n, windows, size)
        last = texts[:, texts.shape[1] - self.size + 1 :]
        same = (windows[..., :-1] == last[:, None]).all(-1) & (windows != NOTHING).all(-1)
        banned = torch.zeros_like(logits, dtype=torch.int32)
        banned.scatter_add_(1, windows[..., -1].clamp(min=0), same.int())
        return logits.masked_fill(banned > 0, -torch.inf)


@dataclass(frozen=True, slots=True, eq=False)
class Suppressed:
    """Tokens that are never said, or not at the start.

    Attributes:
        later: what is added to the logits, shape (vocabulary,).
        first: likewise, at the start of a text.
    """

    later: Tensor
    first: Tensor

    def __call__(self, logits: Tensor, texts: Tensor) -> Tensor:
        """See the module."""
        if not texts.shape[1]:
            return logits + self.first
        return logits + torch.where(texts[:, -1:] == NOTHING, self.first, self.later)


@dataclass(frozen=True, slots=True)
class TimestampRules:
    """Timestamps come in pairs, first of all, never go back, and when they are likelier than text.

    Attributes:
        begin: id of <|0.00|>; all from there on are timestamps.
        end_of_text: id; text is what is below it.
        latest: how far after `begin` the first one may be.
    """

    begin: int
    end_of_text: int
    latest: int

    def __call__(self, logits: Tensor, texts: Tensor) -> Tensor:
        """See the module."""
        padded = torch.nn.functional.pad(texts, (2, 0), value=NOTHING)
        last, before = padded[:, -1:], padded[:, -2:-1]
        timed = last >= self.begin
        paired = (before >= self.begin) | (before == NOTHING)
        token = torch.arange(logits.shape[1], device=logits.device)
        stamp = token >= self.begin
        latest = torch.where(padded >= self.begin, padded, NOTHING).amax(1, keepdim=True)
        reached = latest + (~(timed & ~paired)).long()  # a pair may end where it began
        never = timed & paired & stamp
        never |= timed & ~paired & (token < self.end_of_text)
        never |= (latest != NOTHING) & stamp & (token < reached)
        never |= (last == NOTHING) & (~stamp | (token > self.begin + self.latest))
        logits = logits.masked_fill(never, -torch.inf)
        text, times = logits[:, : self.begin], logits[:, self.begin :]
        rather = times.logsumexp(1, keepdim=True) > text.amax(1, keepdim=True)
        return logits.masked_fill(rather & ~stamp, -torch.inf)


def rules(
    options: DecodeOptions,
    config: Mapping[str, Any],
    special: SpecialTokens,
    shape: tuple[int, torch.device],
    *,
    timestamps: bool,
) -> list[Rule]:
    """Those that have an effect, in order.

    Args:
        options: of the decoding.
        config: config.json of the weights.
        special: ids of the special tokens.
        shape: size of the vocabulary, and where the logits are.
        timestamps: whether timestamps are said.
    """
    found: list[Rule] = []
    if options.repetition_penalty != 1:
        found.append(RepetitionPenalty(options.repetition_penalty))
    if options.no_repeat_ngram_size:
        found.append(NoRepeatedNgrams(options.no_repeat_ngram_size))
    size, device = shape
    made = biases(options, config, special, size, timestamps=timestamps)
    found.append(Suppressed(*(torch.from_numpy(one).to(device) for one in made)))
    if timestamps:
        latest = round(options.max_initial_timestamp / POSITION)
        found.append(TimestampRules(special.no_timestamps + 1, special.end_of_text, latest))
    return found
