"""Decoding token by token, for the functions `search` and `sample` of `engines.search`.

Logits processors apply openai/whisper's rules (decoding.py), and two against repetition. Each takes
logits (n, vocabulary), float32, and the texts (n, width) so far, with their prefixes, and returns
changed logits. Texts are token ids aligned to the right, with `PADDING` in front. A token that must
not come next gets the logit -inf.

Speculative decoding is for greedy search (Leviathan et al., Fast inference from transformers via
speculative decoding, 2023): a smaller draft model guesses tokens, and the model checks all of them.

    text           ... the quick          one call of the model
    guesses                    brown fox leaps
    model                      brown fox jumps      two correct guesses: three tokens in one call

The model's token after each guess is the token that it would have chosen without the draft model,
so the text is equal to that of greedy search. Each row advances by the number of its correct
guesses.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import numpy as np
import torch

from whisperbatch.engines.alignment import SECONDS_PER_POSITION
from whisperbatch.engines.model_info import SpecialTokens
from whisperbatch.engines.search import (
    Candidates,
    Integers,
    blocked_by_ngrams,
    logit_biases,
    random_generator,
)
from whisperbatch.engines.torch.network import KVCache, LogitsProjection
from whisperbatch.models.config import ModelConfig
from whisperbatch.options import SearchOptions
from whisperbatch.protocols import Sampling

log = logging.getLogger(__name__)

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
    cumulative probability reaches that number. The n-th number of a hypothesis's own generator (see
    `TokenNoise`) draws the n-th token. Therefore a sampled hypothesis does not depend on earlier
    draws or on other rows.

    Args:
        sampling: for each row of the batch; `best_of` is equal for all rows.
        max_tokens: maximum number of tokens of a sampled hypothesis.
        device: where the logits are.
    """

    def __init__(self, sampling: Sequence[Sampling], max_tokens: int, device: torch.device) -> None:
        self._temperatures = torch.tensor([row.temperature for row in sampling], device=device)
        uniform = np.stack(
            [
                [random_generator(row.seed, n).random(max_tokens) for n in range(row.best_of)]
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


class DecodingSteps:
    """The decoding of one batch, from its prompts to its last token. A `search.StepFunction`.

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
        """See `search.StepFunction`."""
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


GUESSES: Final = 5  # tokens that the draft model guesses for one call of the model


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

    A `search.StepFunction`; the method `lookahead` is a `search.Lookahead`.

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
        """See `search.StepFunction`."""
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
        """See `search.Lookahead`."""
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
