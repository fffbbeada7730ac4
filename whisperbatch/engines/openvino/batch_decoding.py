"""One batch on OpenVINO's decoder, from the prompts to the last token.

    rows         0        2        3         rows of the batch that are not finished (row 1 is)
    slots        0        1        2         the index of each row's keys and values
    sequences    0 1 2    3 4 5    6 7 8     beams of each row, in the order of the slots

When a row is finished, the row in the last slot moves to the free slot.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.frame_merging import log_sizes
from whisperbatch.engines.openvino.buffers import DecoderBuffers
from whisperbatch.engines.openvino.decoder_graphs import FIRST_KEY_VALUE_INPUT
from whisperbatch.engines.openvino.embeddings import TokenEmbeddings
from whisperbatch.engines.openvino.encoder_output import EncoderOutput
from whisperbatch.engines.search.alignment import DecodingTrace
from whisperbatch.engines.search.beam_search import Candidates
from whisperbatch.engines.search.hypotheses import Floats, Integers, SearchResult
from whisperbatch.engines.search.sampling import TokenNoise
from whisperbatch.engines.search.suppression import blocked_by_ngrams
from whisperbatch.machine import processor_features

DRAWN_TOGETHER: Final = 32
"""Sampled hypotheses whose next token is drawn in one call: the noise of 32 takes 7 MB."""

MIN_PROJECTED: Final = 5
"""Hidden states in one call of the vocabulary projection; fewer are padded with zeros.

With 8-bit weights, OpenVINO computes fewer than 5 hidden states with another kernel, which rounds
differently: on a processor with AMX a log-probability changed by up to 0.026. For 5 to 45 hidden
states the results are equal to the last bit.
"""


@cache
def rounds_single_vectors_otherwise() -> bool:
    """Return whether a product with one vector may be rounded otherwise than one with several.

    OpenVINO has a separate kernel for one vector. On a Zen 3 (AVX2), a log-probability changed by
    up to 5e-7; on processors with AVX-512 the results are equal.
    """
    return "avx512f" not in processor_features()


class BatchDecoding:
    """The decoding of one batch. See `search.StepFunction`.

    Args:
        embeddings: of the tokens.
        buffers: no other batch may use them at the same time.
        output: of the encoder; all rows have the same number of states.
        heads: the alignment heads, as (layer, head).
        biases: of the logits, for every token but the first of a row; shape (vocabulary,).
        no_repeat_ngram_size: length of the n-grams that may not occur twice; 0 allows all.
        noise: draws tokens at random; None for a search.
    """

    def __init__(
        self,
        embeddings: TokenEmbeddings,
        buffers: DecoderBuffers,
        output: EncoderOutput,
        *,
        heads: Sequence[tuple[int, int]],
        biases: Floats,
        no_repeat_ngram_size: int = 0,
        noise: TokenNoise | None = None,
    ) -> None:
        self._embeddings, self._buffers, self._biases = embeddings, buffers, biases[None]
        self._noise = noise
        self._no_repeat_ngram_size = no_repeat_ngram_size
        rows = output.rows
        # of each slot, and at least two: see `_run_layers`
        self._key_values = buffers.key_values(max(rows, 2), len(output.states[0]))
        self._log_sizes: list[Floats] = []  # (slots, 1, 1, groups), if positions are merged
        if output.sizes is not None:
            sizes = output.sizes if rows > 1 else output.sizes * 2
            self._log_sizes = [log_sizes(np.stack(sizes))[:, None, None]]
        self._groups = [output.groups(row) for row in range(rows)]
        self._texts: list[list[tuple[int, ...]]] = [[()] for _ in range(rows)]  # of each beam
        self._rows = list(range(rows))  # of the batch, in the order of the search
        self._slots = list(range(rows))  # of `_rows`, in `_key_values`
        self._repeated = False  # whether the only sequence is computed twice
        self._length = 0  # tokens read, with the prompt
        # Queries of the alignment heads: of the prompts, (rows, heads, tokens, head_size), and of
        # each step with its rows, (rows, heads, beams, head_size)
        self._prompt_queries: Floats = np.empty(0, np.float32)
        self._step_queries: list[tuple[list[int], Floats]] = []
        self._alignment_keys: dict[int, npt.NDArray[Any]] = {}  # (heads, positions, head_size)
        for row, states in enumerate(output.states):
            self._compute_key_values(row, states[None], heads)
        self._attach_slots()

    def read_prompts(self, prompts: Integers, start: int) -> Floats:
        """Read the prompts.

        Args:
            prompts: shape (rows, length).
            start: index of the start of transcript in the prompts.

        Returns:
            Hidden states of the tokens, shape (rows, length, d_model).
        """
        self._buffers.decoder_layers.reset_state()
        length = prompts.shape[1]
        causal_mask = np.triu(np.full((length, length), -np.inf, np.float32), 1)
        hidden, queries = self._run_layers(prompts, np.arange(len(prompts)), causal_mask)
        self._prompt_queries = queries[:, :, start:].copy()
        return hidden.copy()

    def __call__(self, tokens: Integers, sources: Integers, rows: Sequence[int]) -> Candidates:
        """See `search.StepFunction`."""
        beams = tokens.shape[1]
        previous_beams = self._step_queries[-1][1].shape[2] if self._step_queries else 1
        slots = np.array([self._slots[row] for row in rows])
        source_sequences = slots[:, None] * previous_beams + sources
        if len(rows) < len(self._rows):
            self._keep_rows(rows)
        order = np.argsort(self._slots)  # the row in each slot
        mask = np.zeros((1, self._length + 1), np.float32)
        hidden, queries = self._run_layers(
            tokens[order].reshape(-1, 1), source_sequences[order].ravel(), mask
        )
        self._step_queries.append((list(self._rows), queries[self._slots]))
        biases = self._biases
        if self._no_repeat_ngram_size:
            biases = self._biases_without_repeats(tokens, sources, rows)
        hidden = hidden.reshape(len(rows), beams, -1)[self._slots]
        return self.drawn(hidden, biases) if self._noise else self.most_probable(hidden, biases)

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
            self(tokens, sources, [self._rows.index(row) for row in cut_off])

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
            step_queries[rows.index(row), :, beam, None]
            for (rows, step_queries), beam in zip(self._step_queries, beams, strict=False)
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
        logits, tokens, log_sums, _ = self._project(hidden, biases, np.zeros(count, np.int64))
        shape = (*hidden.shape[:-1], -1)
        logprobs = logits - log_sums
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
            _, top, _, _ = self._project(flat[part], noise, np.zeros(len(noise), np.int64))
            tokens[part] = top[:, 0]
            logprobs[part] = self._logprobs(flat[part], biases[part], tokens[part])
        shape = (rows, hypotheses, 1)
        return Candidates(tokens.reshape(shape), logprobs.reshape(shape))

    def token_logprobs(self, hidden: Floats, tokens: Integers) -> Floats:
        """Return the log-probability of a token after each hidden state.

        Args:
            hidden: shape (n, d_model).
            tokens: shape (n,).
        """
        return self._logprobs(hidden, np.zeros_like(self._biases), tokens)

    def _logprobs(self, hidden: Floats, biases: Floats, tokens: Integers) -> Floats:
        _, _, log_sums, logits = self._project(hidden, biases, tokens)
        logprobs: Floats = (logits - log_sums)[:, 0]
        return logprobs

    def _compute_key_values(
        self, row: int, states: Floats, heads: Sequence[tuple[int, int]]
    ) -> None:
        """Compute the keys and values of a row of encoder output (1, positions, d_model)."""
        request = self._buffers.cross_kv
        for number, array in enumerate(self._key_values):
            request.set_output_tensor(number, self._buffers.shared_tensor(array[row : row + 1]))
        self._buffers.run(request, states)
        self._alignment_keys[row] = np.stack(
            [self._key_values[2 * layer][row, head] for layer, head in heads]
        )

    def _attach_slots(self) -> None:
        slots = len(self._rows) + self._repeated
        for number, array in enumerate((*self._key_values, *self._log_sizes)):
            self._buffers.decoder_layers.set_input_tensor(
                FIRST_KEY_VALUE_INPUT + number, self._buffers.shared_tensor(array[:slots])
            )

    def _keep_rows(self, rows: Sequence[int]) -> None:
        """Drop all rows but these; their keys and values move to the first slots."""
        slots = [self._slots[row] for row in rows]
        free = [slot for slot in range(len(rows)) if slot not in slots]
        for number, slot in enumerate(slots):
            if slot >= len(rows):
                slots[number] = free.pop()
                for array in (*self._key_values, *self._log_sizes):
                    array[slots[number]] = array[slot]
        self._rows = [self._rows[row] for row in rows]
        self._slots = slots
        self._attach_slots()

    def _biases_without_repeats(
        self, tokens: Integers, sources: Integers, rows: Sequence[int]
    ) -> Floats:
        """Return biases, shape (rows * beams, vocabulary), that prevent repeated n-grams.

        As in CTranslate2, only decoded tokens count, not the prompt.
        """
        self._texts = [
            [
                (*self._texts[row][source], token)
                for token, source in zip(row_tokens, row_sources, strict=True)
            ]
            for row, row_tokens, row_sources in zip(
                rows, tokens.tolist(), sources.tolist(), strict=True
            )
        ]
        texts = [text for beams in self._texts for text in beams]
        biases = np.repeat(self._biases, len(texts), axis=0)
        for text_biases, text in zip(biases, texts, strict=True):
            text_biases[blocked_by_ngrams(text, self._no_repeat_ngram_size)] = -np.inf
        return biases

    def _project(
        self, hidden: Floats, biases: Floats, tokens: Integers
    ) -> tuple[Floats, Integers, Floats, Floats]:
        """Return the outputs of the graph `vocabulary_projection`.

        The returned arrays last until the next call.
        """
        request = self._buffers.vocabulary_projection
        flat = np.ascontiguousarray(hidden.reshape(-1, hidden.shape[-1]))
        count = len(flat)
        flat, tokens = _padded(flat), _padded(tokens[:, None])
        biases = biases if len(biases) == 1 else _padded(biases)
        self._buffers.run(request, flat, biases, tokens)
        logits, top, log_sums, token_logits = (
            request.get_output_tensor(number).data[:count] for number in range(4)
        )
        return logits, top, log_sums, token_logits

    def _run_layers(
        self, tokens: Integers, source_sequences: Integers, mask: Floats
    ) -> tuple[Floats, Floats]:
        """Return hidden states and queries, in the order of the slots.

        A single vector is computed twice if it would be rounded otherwise: a copy of its row is in
        the second slot.

        The returned arrays last until the next call.
        """
        request = self._buffers.decoder_layers
        embedded = self._embeddings.with_positions(tokens, self._length)
        self._length += tokens.shape[1]
        repeated = tokens.size == 1 and rounds_single_vectors_otherwise()
        if repeated != self._repeated:
            self._repeated = repeated
            for array in (*self._key_values, *self._log_sizes):
                array[1] = array[0]
            self._attach_slots()
        if repeated:
            embedded = np.repeat(embedded, 2, axis=0)
            source_sequences = np.repeat(source_sequences, 2)
        self._buffers.run(request, embedded, source_sequences.astype(np.int32), mask[None, None])
        hidden, queries = (request.get_output_tensor(number).data for number in range(2))
        return hidden[: len(tokens)], queries[: len(self._rows)]


def _padded(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array with at least `MIN_PROJECTED` rows, the added ones zeros."""
    if len(array) >= MIN_PROJECTED:
        return array
    padded = np.zeros((MIN_PROJECTED, *array.shape[1:]), array.dtype)  # faster than np.pad
    padded[: len(array)] = array
    return padded
