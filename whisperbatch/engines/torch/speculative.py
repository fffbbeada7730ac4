"""Speculative decoding: a smaller draft model guesses tokens, and the model checks all of them.

For greedy search (Leviathan et al., Fast inference from transformers via speculative decoding,
2023).

    text           ... the quick          one call of the model
    guesses                    brown fox leaps
    model                      brown fox jumps      two correct guesses: three tokens in one call

The model's token after each guess is the token that it would have chosen without the draft model,
so the text is equal to that of greedy search. Each row advances by the number of its correct
guesses.
"""

import logging
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import torch

from whisperbatch.engines.search.beam_search import Candidates
from whisperbatch.engines.search.hypotheses import Integers
from whisperbatch.engines.torch.kv_cache import KVCache
from whisperbatch.engines.torch.logits_processors import PADDING, LogitsProcessor
from whisperbatch.engines.torch.steps import LogitsProjection, TopTokens

Tensor: TypeAlias = torch.Tensor

GUESSES: Final = 5  # tokens that the draft model guesses for one call of the model

log = logging.getLogger(__name__)


class CachedModel:
    """One of the two models, with its cache for a batch.

    Args:
        kv_cache: empty cache of the batch.
        logits: the decoder's projection of hidden states to logits.
        processors: applied to the logits in this order.
    """

    def __init__(
        self, kv_cache: KVCache, logits: LogitsProjection, processors: Sequence[LogitsProcessor]
    ) -> None:
        self.kv_cache, self.logits, self._processors = kv_cache, logits, processors

    def forward(self, tokens: Integers, lengths: Integers) -> Tensor:
        """Return hidden states (rows, length, d_model) of tokens (rows, length).

        Args:
            tokens: the last tokens of each sequence.
            lengths: number of tokens of each sequence, with its prompt, shape (rows,). Positions
                beyond the capacity of the cache are moved to its last position: they only hold
                guesses that are not used, since no text is that long.
        """
        length = tokens.shape[1]
        positions = lengths[:, None] - length + np.arange(length)
        positions = positions.clip(max=self.kv_cache.capacity - 1)
        return self.kv_cache.forward(tokens[:, None], positions[:, None])[:, 0]

    def processed_logits(self, hidden: Tensor, texts: Sequence[Sequence[int]]) -> Tensor:
        """Return logits (rows, vocabulary) of the token after each text.

        Args:
            hidden: hidden states of the last tokens, shape (rows, d_model).
            texts: the tokens of each row, with its prefix.
        """
        logits = self.logits(hidden)
        width = max(map(len, texts))
        padded = [[PADDING] * (width - len(text)) + [*text] for text in texts]
        padded_texts = torch.tensor(padded, device=logits.device).reshape(len(texts), width).long()
        for processor in self._processors:
            logits = processor(logits, padded_texts)
        return logits


class SpeculativeDecoding:
    """The decoding of one batch, from its prompts to its last token.

    A `beam_search.StepFunction`; the method `lookahead` is a `beam_search.Lookahead`.

    Args:
        model: decides the tokens.
        draft_model: guesses tokens.
    """

    def __init__(self, model: CachedModel, draft_model: CachedModel) -> None:
        self._model, self._draft_model, self._select = model, draft_model, TopTokens(2)
        self._prompts: Integers = np.zeros((0, 0), np.int64)  # without prefixes
        self._texts: list[list[int]] = []  # of the rows that are not done, with their prefixes
        self._guesses: Integers = np.zeros((0, 0), np.int64)  # (rows, guesses)
        self._candidates: list[Candidates] = []  # after each number of guesses, (rows, 1, k)
        self._accepted: list[int] = []  # number of accepted guesses of each row
        self._row_calls = self._token_count = 0

    def prefill(
        self, prompts: Integers, start: int, prefix_length: int
    ) -> tuple[Candidates, Tensor]:
        """Run both decoders on the prompts. See `DecodingSteps.prefill`."""
        rows, length = prompts.shape
        self._prompts, prefixes = np.split(prompts, [length - prefix_length], axis=1)
        self._texts, self._accepted = prefixes.tolist(), [0] * rows
        self._guesses = np.zeros((rows, 0), np.int64)
        lengths = np.full(rows, length)
        self._draft_model.forward(prompts, lengths)
        hidden = self._model.forward(prompts, lengths)
        logits = self._model.processed_logits(hidden[:, -1], self._texts)
        return self._select(logits, (), 0), self._model.logits(hidden[:, start])

    def __call__(
        self,
        tokens: Integers,
        sources: Integers,
        rows: Sequence[int],
        active: Sequence[int],  # noqa: ARG002 - all, because the search does not prune
    ) -> Candidates:
        """See `beam_search.StepFunction`."""
        numbers = list(rows)
        self._prompts = self._prompts[numbers]
        self._texts = [
            [*self._texts[row], int(token)] for row, token in zip(rows, tokens[:, 0], strict=True)
        ]
        for cached_model in (self._model, self._draft_model):
            cached_model.kv_cache.select(numbers, sources)
        self._guesses = self._guess()
        lengths = self._lengths() + GUESSES
        hidden = self._model.forward(np.concatenate((tokens, self._guesses), axis=1), lengths)
        self._candidates = []
        for count in range(GUESSES + 1):
            logits = self._model.processed_logits(hidden[:, count], self._texts_with_guesses(count))
            self._candidates.append(self._select(logits[:, None], (), 0))
        self._accepted = [0] * len(numbers)
        self._row_calls += len(numbers)
        self._token_count += len(numbers)
        return self._candidates[0]

    def lookahead(self, row: int, token: int) -> Candidates | None:
        """See `beam_search.Lookahead`."""
        accepted = self._accepted[row]
        if accepted == self._guesses.shape[1] or token != self._guesses[row, accepted]:
            return None
        self._accepted[row] += 1
        self._token_count += 1
        self._texts[row].append(token)
        candidates = self._candidates[accepted + 1]
        return Candidates(candidates.tokens[row : row + 1], candidates.logprobs[row : row + 1])

    def log_statistics(self) -> None:
        """Log the mean number of tokens that one call of the model gave for a row."""
        if self._row_calls:
            log.debug("draft model: %.2f tokens a call", self._token_count / self._row_calls)

    def _guess(self) -> Integers:
        """Return the draft model's greedy continuation of each text, shape (rows, GUESSES).

        The draft model's first call gets the last two tokens: if all of its last guesses were
        accepted, it has not processed the last of them yet.
        """
        last_two = [[*prompt[-1:], *text][-2:] for prompt, text in self._prompts_and_texts()]
        last_tokens, lengths = np.array(last_two), self._lengths()
        guesses = np.zeros((len(last_two), GUESSES), np.int64)
        for count in range(GUESSES):
            hidden = self._draft_model.forward(last_tokens, lengths + count)
            self._guesses = guesses
            texts = self._texts_with_guesses(count)
            logits = self._draft_model.processed_logits(hidden[:, -1], texts)
            guesses[:, count] = logits.argmax(-1).cpu().numpy()
            last_tokens = guesses[:, count : count + 1]
        return guesses

    def _prompts_and_texts(self) -> list[tuple[list[int], list[int]]]:
        return list(zip(self._prompts.tolist(), self._texts, strict=True))

    def _lengths(self) -> Integers:
        return np.array([len(prompt) + len(text) for prompt, text in self._prompts_and_texts()])

    def _texts_with_guesses(self, count: int) -> list[list[int]]:
        guesses = self._guesses[:, :count].tolist()
        return [[*text, *row] for text, row in zip(self._texts, guesses, strict=True)]
