"""One batch in the decoder, from the prompts to the last token.

    rows         0        2        3         rows of the batch that are not finished (row 1 is)
    slots        0        1        2         the index of each row's keys and values
    sequences    0 1 2    3 4      5 6 7     beams that are followed, in the order of the slots

When a row is finished, the row in the last slot moves to the free slot.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from whisperbatch.engines.cpu.embeddings import TokenEmbeddings
from whisperbatch.engines.cpu.encoder_output import EncoderOutput
from whisperbatch.engines.cpu.runners import DecoderRunner
from whisperbatch.engines.search.alignment import DecodingTrace
from whisperbatch.engines.search.beam_search import Candidates
from whisperbatch.engines.search.hypotheses import Floats, Integers, SearchResult
from whisperbatch.engines.search.sampling import TokenNoise
from whisperbatch.engines.search.suppression import blocked_by_ngrams

DRAWN_TOGETHER: Final = 32
"""Sampled hypotheses whose next token is drawn in one call: the noise of 32 takes 7 MB."""


class BatchDecoding:
    """The decoding of one batch. See `search.StepFunction`.

    Args:
        embeddings: of the tokens.
        runner: no other batch may use it at the same time.
        output: of the encoder; all rows have the same number of states.
        biases: of the logits, for every token but the first of a row; shape (vocabulary,).
        no_repeat_ngram_size: length of the n-grams that may not occur twice; 0 allows all.
        noise: draws tokens at random; None for a search.
    """

    def __init__(
        self,
        embeddings: TokenEmbeddings,
        runner: DecoderRunner,
        output: EncoderOutput,
        *,
        biases: Floats,
        no_repeat_ngram_size: int = 0,
        noise: TokenNoise | None = None,
    ) -> None:
        self._embeddings, self._runner, self._biases = embeddings, runner, biases[None]
        self._noise = noise
        self._no_repeat_ngram_size = no_repeat_ngram_size
        rows = output.rows
        self._groups = [output.groups(row) for row in range(rows)]
        self._texts: list[list[tuple[int, ...]]] = [[()] for _ in range(rows)]  # of each beam
        self._rows = list(range(rows))  # of the batch, in the order of the search
        self._slots = list(range(rows))  # of `_rows`
        self._sequences = [np.array([row]) for row in range(rows)]  # of `_rows`, for each beam
        self._length = 0  # tokens read, with the prompt
        # Queries of the alignment heads: of the prompts, (rows, heads, tokens, head_size), and of
        # each step with the sequences of its rows, (sequences, heads, 1, head_size)
        self._prompt_queries: Floats = np.empty(0, np.float32)
        self._step_queries: list[tuple[dict[int, Integers], Floats]] = []
        self._alignment_keys = runner.begin(output)  # of each row, (heads, positions, head_size)

    def read_prompts(self, prompts: Integers, start: int) -> Floats:
        """Read the prompts.

        Args:
            prompts: shape (rows, length).
            start: index of the start of transcript in the prompts.

        Returns:
            Hidden states of the tokens, shape (rows, length, d_model).
        """
        sequences = np.arange(len(prompts))
        hidden, queries = self._read(prompts, sequences, sequences)
        self._prompt_queries = queries[:, :, start:].copy()
        return hidden.copy()

    def __call__(
        self, tokens: Integers, sources: Integers, rows: Sequence[int], active: Sequence[int]
    ) -> Candidates:
        """See `search.StepFunction`."""
        row_sources = [
            self._sequences[row][own[:count]]
            for row, own, count in zip(rows, sources, active, strict=True)
        ]
        if len(rows) < len(self._rows):
            self._keep_rows(rows)
        order = np.argsort(self._slots)  # the row in each slot
        counts = np.array(active)[order]
        ends = np.cumsum(counts)
        self._sequences = [
            np.arange(ends[slot] - count, ends[slot])
            for slot, count in zip(self._slots, active, strict=True)
        ]
        hidden, queries = self._read(
            np.concatenate([tokens[row, : active[row]] for row in order])[:, None],
            np.concatenate([row_sources[row] for row in order]),
            np.repeat(np.arange(len(rows)), counts),
        )
        own_sequences = dict(zip(self._rows, self._sequences, strict=True))
        self._step_queries.append((own_sequences, queries.copy()))
        biases = self._biases
        if self._no_repeat_ngram_size:
            biases = self._biases_without_repeats(tokens, sources, rows, active)
        hidden = hidden[np.concatenate(self._sequences), 0]
        if self._noise:
            return self.drawn(hidden.reshape(*tokens.shape, -1), biases)
        followed = self.most_probable(hidden, biases)
        is_active = np.arange(tokens.shape[1]) < np.array(active)[:, None]
        shape = (*tokens.shape, followed.tokens.shape[-1])
        candidates = Candidates(np.zeros(shape, np.int64), np.full(shape, -np.inf, np.float32))
        candidates.tokens[is_active] = followed.tokens
        candidates.logprobs[is_active] = followed.logprobs
        return candidates

    def read_last_tokens(self, results: Sequence[SearchResult]) -> None:
        """Read the last token of each hypothesis that the limit of tokens cut off.

        A token is placed by the query that predicts it, and ends at the position that the next
        query gives, so an alignment needs the query of the last token too.
        """
        cut_off = [
            row for row, result in enumerate(results) if len(result.beams) < len(result.tokens)
        ]
        if cut_off:
            tokens = np.array([[results[row].tokens[-1]] for row in cut_off])
            sources = np.array([[(0, *results[row].beams)[-1]] for row in cut_off])
            rows = [self._rows.index(row) for row in cut_off]
            self(tokens, sources, rows, [1] * len(rows))

    def text_trace(
        self, row: int, tokens: Sequence[int], logprobs: Sequence[float]
    ) -> DecodingTrace:
        """Return the queries and keys of a text that was read as the end of the row's prompt."""
        queries, keys = self._prompt_queries[row], self._alignment_keys[row]
        groups = self._groups[row]
        return DecodingTrace(tuple(tokens), tuple(logprobs), queries, keys, groups)

    def trace(
        self, row: int, result: SearchResult, prefix: Sequence[int], logprobs: Sequence[float]
    ) -> DecodingTrace:
        """Return the queries and keys of a row's prefix and hypothesis.

        Args:
            row: number of the row in the batch.
            result: the hypothesis.
            prefix: the last tokens of the prompt that belong to the text.
            logprobs: natural-log probability of each token of the prefix.
        """
        beams = (*result.beams, 0)[: len(result.tokens)]
        queries = [
            step_queries[sequences[row][beam]]
            for (sequences, step_queries), beam in zip(self._step_queries, beams, strict=False)
        ]
        return DecodingTrace(
            (*prefix, *result.tokens),
            (*logprobs, *result.logprobs),
            np.concatenate((self._prompt_queries[row], *queries), axis=1),
            self._alignment_keys[row],
            self._groups[row],
        )

    def most_probable(self, hidden: Floats, biases: Floats) -> Candidates:
        """Return the most probable tokens after hidden states (..., d_model).

        Args:
            hidden: shape (..., d_model).
            biases: of the logits, shape (1 or number of hidden states, vocabulary).
        """
        count = hidden.size // hidden.shape[-1]
        logprobs, tokens, _ = self._project(hidden, biases, np.zeros(count, np.int64))
        shape = (*hidden.shape[:-1], -1)
        return Candidates(tokens.reshape(shape).astype(np.int64), logprobs.reshape(shape))

    def drawn(self, hidden: Floats, biases: Floats) -> Candidates:
        """Return one random token for each sampled hypothesis of the rows that are not finished.

        The noise is added to the biases, so that the most probable token is a sample. A second call
        gives the log-probability of the token, which is computed without noise and temperature.

        Args:
            hidden: shape (rows, hypotheses, d_model).
            biases: of the logits, shape (1 or rows * hypotheses, vocabulary).

        Returns:
            Candidates of shape (rows, hypotheses, 1).
        """
        if self._noise is None:
            raise ValueError("this batch is not sampled")
        rows, hypotheses, _ = hidden.shape
        flat = hidden.reshape(rows * hypotheses, -1)
        sequences = [(row, hypothesis) for row in self._rows for hypothesis in range(hypotheses)]
        biases = np.broadcast_to(biases, (len(flat), biases.shape[1]))
        tokens, logprobs = np.empty(len(flat), np.int64), np.empty(len(flat), np.float32)
        for start in range(0, len(flat), DRAWN_TOGETHER):
            part = slice(start, start + DRAWN_TOGETHER)
            noise = np.stack([self._noise(*sequence) for sequence in sequences[part]])
            noise += biases[part]
            _, top, _ = self._project(flat[part], noise, np.zeros(len(noise), np.int64))
            tokens[part] = top[:, 0]
            _, _, logprobs[part] = self._project(flat[part], biases[part], tokens[part])
        shape = (rows, hypotheses, 1)
        return Candidates(tokens.reshape(shape), logprobs.reshape(shape))

    def token_logprobs(self, hidden: Floats, tokens: Integers) -> Floats:
        """Return the log-probability of a token after each hidden state.

        Args:
            hidden: shape (n, d_model).
            tokens: shape (n,).
        """
        _, _, logprobs = self._project(hidden, np.zeros_like(self._biases), tokens)
        return logprobs

    def _keep_rows(self, rows: Sequence[int]) -> None:
        """Drop all rows but these; the rows in the last slots move to the free slots."""
        slots = [self._slots[row] for row in rows]
        kept = list(range(len(rows)))
        free = [slot for slot in kept if slot not in slots]
        for number, slot in enumerate(slots):
            if slot >= len(rows):
                slots[number] = free.pop()
                kept[slots[number]] = slot
        self._rows = [self._rows[row] for row in rows]
        self._slots = slots
        self._runner.keep(kept)

    def _biases_without_repeats(
        self, tokens: Integers, sources: Integers, rows: Sequence[int], active: Sequence[int]
    ) -> Floats:
        """Return biases that prevent repeated n-grams, for each beam that is followed.

        The biases have shape (sequences, vocabulary), in the order of the rows.

        As in CTranslate2, only decoded tokens count, not the prompt.
        """
        self._texts = [
            [
                (*self._texts[row][source], token)
                for token, source in zip(row_tokens[:count], row_sources[:count], strict=True)
            ]
            for row, row_tokens, row_sources, count in zip(
                rows, tokens.tolist(), sources.tolist(), active, strict=True
            )
        ]
        texts = [text for beams in self._texts for text in beams]
        biases = np.repeat(self._biases, len(texts), axis=0)
        for text_biases, text in zip(biases, texts, strict=True):
            text_biases[blocked_by_ngrams(text, self._no_repeat_ngram_size)] = -np.inf
        return biases

    def _project(
        self, hidden: Floats, biases: Floats, tokens: Integers
    ) -> tuple[Floats, Integers, Floats]:
        """See `DecoderRunner.project`; the hidden states may have shape (..., d_model)."""
        flat = np.ascontiguousarray(hidden.reshape(-1, hidden.shape[-1]))
        return self._runner.project(flat, biases, tokens)

    def _read(self, tokens: Integers, sources: Integers, slots: Integers) -> tuple[Floats, Floats]:
        """See `DecoderRunner.read`."""
        embedded = self._embeddings.with_positions(tokens, self._length)
        self._length += tokens.shape[1]
        return self._runner.read(embedded, sources, slots)
