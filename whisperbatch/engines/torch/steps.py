"""A token at a time, as `search` and `sample` ask for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import torch

from whisperbatch.engines.search.beam_search import Candidates, Integers
from whisperbatch.engines.torch.kv_cache import Sequences
from whisperbatch.engines.torch.logits_processors import Rule
from whisperbatch.protocols import Sampling

Tensor: TypeAlias = torch.Tensor
Logits: TypeAlias = Callable[[Tensor], Tensor]  # of hidden states (n, d_model): (n, vocabulary)


class Pick(Protocol):
    """Picks candidates."""

    def __call__(self, logits: Tensor, rows: Sequence[int], step: int) -> Candidates:
        """What may follow.

        Args:
            logits: shape (rows, sequences, vocabulary), float32.
            rows: their numbers in the batch.
            step: how many tokens the texts have.

        Returns:
            Candidates of shape (rows, sequences, k).
        """
        ...


@dataclass(frozen=True, slots=True)
class Likeliest:
    """The `count` likeliest tokens.

    `logsumexp` would share the sum of a single row among threads, and round it otherwise.
    """

    count: int

    def __call__(self, logits: Tensor, rows: Sequence[int], step: int) -> Candidates:  # noqa: ARG002 - Pick's
        """See `Pick`."""
        values, tokens = logits.log_softmax(-1).topk(self.count, dim=-1)
        return Candidates(tokens.cpu().numpy(), values.cpu().numpy())


class Drawn:
    """Tokens drawn with the probability that they have at a temperature.

    A draw is one number between 0 and 1, and the token at which the probabilities add up to it. The
    numbers come from Philox, a generator that counts (Salmon et al., Parallel random numbers: as
    easy as 1, 2, 3, 2011), keyed by the row's seed and the number of the sample; its n-th number is
    for the n-th token. So nothing depends on what was drawn before, or for whom.

    Args:
        sampling: of each row of the batch; `best_of` is the same for all.
        most: tokens of a sample.
        device: where the logits are.
    """

    def __init__(self, sampling: Sequence[Sampling], most: int, device: torch.device) -> None:
        self._temperatures = torch.tensor([one.temperature for one in sampling], device=device)
        drawn = np.stack(
            [[_uniform(one.seed, n, most) for n in range(one.best_of)] for one in sampling]
        )
        self._drawn = torch.from_numpy(drawn).to(device)  # (rows, samples, tokens), float64

    def __call__(self, logits: Tensor, rows: Sequence[int], step: int) -> Candidates:
        """See `Pick`. After the prompt, from one sequence a row, come all samples of the row."""
        numbers = list(rows)
        warm = logits / self._temperatures[numbers][:, None, None]
        sums = warm.softmax(-1).double().cumsum(-1)
        wanted = self._drawn[numbers, :, step].view(len(numbers), logits.shape[1], -1)
        tokens = torch.searchsorted(sums, wanted * sums[..., -1:], right=True)
        tokens = tokens.clamp(max=logits.shape[-1] - 1)
        values = logits.log_softmax(-1).gather(-1, tokens)
        return Candidates(tokens.cpu().numpy(), values.cpu().numpy())


def _uniform(seed: int, sample: int, count: int) -> np.ndarray:
    key = np.array([seed, sample], np.uint64)
    return np.random.Generator(np.random.Philox(key=key)).random(count)


class Reading:
    """One batch, from its prompts to its last token. See `search.Steps`.

    Args:
        sequences: of the batch, nothing read yet.
        logits: of the decoder.
        rules: what may be said.
        pick: what is looked at of it.
    """

    def __init__(
        self, sequences: Sequences, logits: Logits, rules: Sequence[Rule], pick: Pick
    ) -> None:
        self._sequences, self._logits, self._rules, self._pick = sequences, logits, rules, pick
        self._rows: list[int] = []  # of the batch
        self._texts: Integers = np.zeros((0, 1, 0), np.int64)  # (rows, sequences, tokens)
        self._read = 0

    def first(self, prompts: Integers, start: int) -> tuple[Candidates, Tensor]:
        """Read the prompts.

        Args:
            prompts: shape (rows, length).
            start: a place in them.

        Returns:
            Candidates after each row's prompt, shape (rows, k), and the logits after the token at
            `start`, before any rule; shape (rows, vocabulary).
        """
        rows, length = prompts.shape
        self._rows = list(range(rows))
        self._texts = np.zeros((rows, 1, 0), np.int64)
        positions = np.broadcast_to(np.arange(length), (rows, 1, length))
        hidden = self._sequences.read(prompts[:, None], positions)
        self._read = length
        found = self._candidates(hidden[:, :, -1])
        asked = self._logits(hidden[:, 0, start])
        return Candidates(found.tokens[:, 0], found.logprobs[:, 0]), asked

    def __call__(self, tokens: Integers, sources: Integers, rows: Sequence[int]) -> Candidates:
        """See `search.Steps`."""
        self._rows = [self._rows[row] for row in rows]
        texts = np.take_along_axis(self._texts[list(rows)], sources[..., None], axis=1)
        self._texts = np.concatenate((texts, tokens[..., None]), axis=2)
        self._sequences.select(rows, sources)
        hidden = self._sequences.read(tokens[..., None], np.full((*tokens.shape, 1), self._read))
        self._read += 1
        return self._candidates(hidden[:, :, 0])

    def _candidates(self, hidden: Tensor) -> Candidates:
        """Of hidden states (rows, sequences, d_model)."""
        logits = self._logits(hidden.flatten(0, 1))
        texts = torch.from_numpy(self._texts).to(logits.device).flatten(0, 1)
        for rule in self._rules:
            logits = rule(logits, texts)
        shape = hidden.shape[:2]
        return self._pick(logits.unflatten(0, shape), self._rows, self._texts.shape[2])
