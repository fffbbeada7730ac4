"""Decoding token by token, for the functions `search` and `sample` of `engines.search`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import torch

from whisperbatch.engines.search.beam_search import Candidates
from whisperbatch.engines.search.hypotheses import Integers
from whisperbatch.engines.torch.kv_cache import KVCache
from whisperbatch.engines.torch.logits_processors import LogitsProcessor
from whisperbatch.protocols import Sampling

Tensor: TypeAlias = torch.Tensor
LogitsProjection: TypeAlias = Callable[[Tensor], Tensor]  # (n, d_model) to (n, vocabulary)


class CandidateSelector(Protocol):
    """Selects the candidates for the next token."""

    def __call__(self, logits: Tensor, rows: Sequence[int], step: int) -> Candidates:
        """Return candidates of shape (rows, sequences, k).

        Args:
            logits: shape (rows, sequences, vocabulary), float32.
            rows: numbers of the rows in the batch.
            step: number of tokens that each text has so far.
        """
        ...


@dataclass(frozen=True, slots=True)
class TopTokens:
    """Selects the `count` most likely tokens.

    The log-probabilities come from `log_softmax`: `logsumexp` splits the sum of a single row
    between threads, which rounds it differently than the same row in a batch.
    """

    count: int

    def __call__(self, logits: Tensor, rows: Sequence[int], step: int) -> Candidates:  # noqa: ARG002 - from the protocol
        """See `CandidateSelector`."""
        values, tokens = logits.log_softmax(-1).topk(self.count, dim=-1)
        return Candidates(tokens.cpu().numpy(), values.cpu().numpy())


class SampledTokens:
    """Selects random tokens, with the probabilities that they have at a temperature.

    To draw a token, take a uniform random number between 0 and 1, and the token at which the
    cumulative probability reaches that number. The random numbers come from Philox, a counter-based
    generator (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011). Its key is the
    row's seed and the number of the sampled hypothesis; its n-th number draws the n-th token.
    Therefore a sampled hypothesis does not depend on earlier draws or on other rows.

    Args:
        sampling: for each row of the batch; `best_of` is equal for all rows.
        max_tokens: maximum number of tokens of a sampled hypothesis.
        device: where the logits are.
    """

    def __init__(self, sampling: Sequence[Sampling], max_tokens: int, device: torch.device) -> None:
        self._temperatures = torch.tensor([row.temperature for row in sampling], device=device)
        uniform = np.stack(
            [
                [_uniform_numbers(row.seed, n, max_tokens) for n in range(row.best_of)]
                for row in sampling
            ]
        )
        # (rows, sampled hypotheses, tokens), float64
        self._uniform = torch.from_numpy(uniform).to(device)

    def __call__(self, logits: Tensor, rows: Sequence[int], step: int) -> Candidates:
        """See `CandidateSelector`.

        Directly after the prompt a row has one sequence, which gets `best_of` candidates. Later
        each sampled hypothesis is one sequence, with one candidate.
        """
        numbers = list(rows)
        scaled = logits / self._temperatures[numbers][:, None, None]
        cumulative = scaled.softmax(-1).double().cumsum(-1)
        uniform = self._uniform[numbers, :, step].view(len(numbers), logits.shape[1], -1)
        tokens = torch.searchsorted(cumulative, uniform * cumulative[..., -1:], right=True)
        tokens = tokens.clamp(max=logits.shape[-1] - 1)
        values = logits.log_softmax(-1).gather(-1, tokens)
        return Candidates(tokens.cpu().numpy(), values.cpu().numpy())


def _uniform_numbers(seed: int, hypothesis: int, count: int) -> np.ndarray:
    key = np.array([seed, hypothesis], np.uint64)
    return np.random.Generator(np.random.Philox(key=key)).random(count)


class DecodingSteps:
    """The decoding of one batch, from its prompts to its last token. A `beam_search.StepFunction`.

    Args:
        kv_cache: empty cache of the batch.
        logits: the decoder's projection of hidden states to logits.
        processors: applied to the logits in this order.
        select: selects candidates from the processed logits.
    """

    def __init__(
        self,
        kv_cache: KVCache,
        logits: LogitsProjection,
        processors: Sequence[LogitsProcessor],
        select: CandidateSelector,
    ) -> None:
        self._kv_cache, self._logits = kv_cache, logits
        self._processors, self._select = processors, select
        self._rows: list[int] = []  # numbers, in the batch, of the rows that are not done
        # the prefix and the tokens after it, shape (rows, sequences, tokens)
        self._texts: Integers = np.zeros((0, 1, 0), np.int64)
        self._prefix_length = 0
        self._length = 0  # tokens in the cache, with the prompt

    def prefill(
        self, prompts: Integers, start: int, prefix_length: int
    ) -> tuple[Candidates, Tensor]:
        """Run the decoder on the prompts.

        Args:
            prompts: shape (rows, length).
            start: index of the start of transcript in the prompts.
            prefix_length: number of tokens at the end of the prompts that belong to the texts.

        Returns:
            Candidates after each row's prompt, shape (rows, k), and the unprocessed logits after
            the token at `start`, shape (rows, vocabulary).
        """
        rows, length = prompts.shape
        self._rows = list(range(rows))
        self._prefix_length = prefix_length
        self._texts = prompts[:, None, length - prefix_length :]
        positions = np.broadcast_to(np.arange(length), (rows, 1, length))
        hidden = self._kv_cache.forward(prompts[:, None], positions)
        self._length = length
        candidates = self._candidates(hidden[:, :, -1])
        logits_at_start = self._logits(hidden[:, 0, start])
        return Candidates(candidates.tokens[:, 0], candidates.logprobs[:, 0]), logits_at_start

    def __call__(
        self,
        tokens: Integers,
        sources: Integers,
        rows: Sequence[int],
        active: Sequence[int],  # noqa: ARG002 - all, because the search does not prune
    ) -> Candidates:
        """See `beam_search.StepFunction`."""
        self._rows = [self._rows[row] for row in rows]
        texts = np.take_along_axis(self._texts[list(rows)], sources[..., None], axis=1)
        self._texts = np.concatenate((texts, tokens[..., None]), axis=2)
        self._kv_cache.select(rows, sources)
        positions = np.full((*tokens.shape, 1), self._length)
        hidden = self._kv_cache.forward(tokens[..., None], positions)
        self._length += 1
        return self._candidates(hidden[:, :, 0])

    def _candidates(self, hidden: Tensor) -> Candidates:
        """Return candidates for hidden states (rows, sequences, d_model)."""
        logits = self._logits(hidden.flatten(0, 1))
        texts = torch.from_numpy(self._texts).to(logits.device).flatten(0, 1)
        for processor in self._processors:
            logits = processor(logits, texts)
        shape = hidden.shape[:2]
        step = self._texts.shape[2] - self._prefix_length
        return self._select(logits.unflatten(0, shape), self._rows, step)
