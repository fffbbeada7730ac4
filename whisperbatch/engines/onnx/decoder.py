"""Whisper's decoder on a CPU: the search over a batch, from the prompts to the times of its texts.

    encoder output (1, positions, d_model)       -> keys and values of each layer
    embedded tokens (rows * beams, length, ...)  -> layers -> hidden states
    hidden states (n, d_model)                   -> vocabulary projection -> most probable tokens

The decoder keeps the queries of the alignment heads of every token. The alignment uses these
queries and does not run the decoder a second time.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import BoundedSemaphore
from typing import Final

import numpy as np

from whisperbatch.engines.alignment import DecodingTrace
from whisperbatch.engines.arrays import Arrays, stored_scales
from whisperbatch.engines.model_info import SpecialTokens
from whisperbatch.engines.onnx.decoder_layers import DecoderLayers, DecoderSessions
from whisperbatch.engines.onnx.encoder import EncoderOutput
from whisperbatch.engines.search import (
    Candidates,
    Floats,
    Integers,
    SearchResult,
    StepFunction,
    TokenNoise,
    blocked_by_ngrams,
    logit_biases,
    sample,
    search,
)
from whisperbatch.models.config import ModelConfig
from whisperbatch.models.model_bin import release_pages
from whisperbatch.options import MAX_NEW_TOKENS, SearchOptions
from whisperbatch.protocols import Alignment, AlignRequest, Decoded, DecodeRequest
from whisperbatch.runtimes.matrix_products import product

DRAWN_TOGETHER: Final = 32
"""Sampled hypotheses whose next token is drawn in one call: the noise of 32 takes 7 MB."""

NOTHING_DECODED: Final = SearchResult((), (), (), 0.0)
"""The result for a text that was read as the end of the prompt."""


class TokenEmbeddings:
    """The embeddings of all tokens and the encodings of their positions, mapped from model.bin.

    Args:
        arrays: the arrays "decoder/..." of model.bin, as stored.

    Attributes:
        vocabulary_size: number of tokens.
        max_length: number of tokens that the decoder can read, with the prompt.
    """

    def __init__(self, arrays: Arrays) -> None:
        self._embeddings = arrays["decoder/embeddings/weight"]
        self._scales = stored_scales(arrays, "decoder/embeddings/weight")
        self._positions = arrays["decoder/position_encodings/encodings"].astype(np.float32)
        self.vocabulary_size = len(self._embeddings)
        self.max_length = len(self._positions)

    def __call__(self, tokens: Integers) -> Floats:
        """Return the embeddings of tokens (...), shape (..., d_model)."""
        embedded: Floats = self._embeddings[tokens].astype(np.float32)
        if self._scales is not None:
            # in int16, all tokens share one scale
            embedded *= self._scales[tokens] if len(self._scales) > 1 else self._scales[0]
        return embedded

    def with_positions(self, tokens: Integers, first: int) -> Floats:
        """Return the embeddings of tokens plus their position encodings.

        Args:
            tokens: shape (sequences, length).
            first: the position of the first token of each sequence.

        Returns:
            Shape (sequences, length, d_model).
        """
        embedded = self(tokens)
        embedded += self._positions[first : first + tokens.shape[1]]
        return embedded

    def release(self) -> None:
        """Release the memory of the embeddings that were read from model.bin."""
        release_pages(self._embeddings)


class BatchDecoding:
    """The decoding of one batch, from the prompts to the last token. See `StepFunction`.

        rows         0        2        3         rows of the batch that are not finished (row 1 is)
        slots        0        1        2         the index of each row's keys and values
        sequences    0 1 2    3 4      5 6 7     beams that are followed, in the order of the slots

    When a row is finished, the row in the last slot moves to the free slot.

    Args:
        embeddings: of the tokens.
        sessions: the loaded graphs.
        output: of the encoder; all rows have the same number of states.
        biases: of the logits, for every token but the first of a row; shape (vocabulary,).
        no_repeat_ngram_size: length of the n-grams that may not occur twice; 0 allows all.
        noise: draws tokens at random; None for a search.
    """

    def __init__(
        self,
        embeddings: TokenEmbeddings,
        sessions: DecoderSessions,
        output: EncoderOutput,
        *,
        biases: Floats,
        no_repeat_ngram_size: int = 0,
        noise: TokenNoise | None = None,
    ) -> None:
        self._embeddings, self._sessions, self._biases = embeddings, sessions, biases[None]
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
        self._layers = DecoderLayers(sessions, output)

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
        return hidden

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
        self._step_queries.append((own_sequences, queries))
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
            self._layers.alignment_keys[row],
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
        self._layers.keep(kept)

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
        """See `DecoderSessions.project`; the hidden states may have shape (..., d_model)."""
        flat = np.ascontiguousarray(hidden.reshape(-1, hidden.shape[-1]))
        return self._sessions.project(flat, biases, tokens)

    def _read(self, tokens: Integers, sources: Integers, slots: Integers) -> tuple[Floats, Floats]:
        """See `DecoderLayers.read`."""
        embedded = self._embeddings.with_positions(tokens, self._length)
        self._length += tokens.shape[1]
        return self._layers.read(embedded, sources, slots)


class Decoder:
    """Whisper's decoder. Thread-safe; releases the GIL while it works.

    Args:
        sessions: the loaded graphs.
        workers: number of batches that are decoded at a time.
        arrays: the arrays "decoder/..." of model.bin, as stored.
        config: settings of the weights.
        special: ids of the special tokens.

    Attributes:
        layout: sizes of the decoder.
        vocabulary_size: number of tokens.
    """

    def __init__(
        self,
        sessions: DecoderSessions,
        workers: int,
        arrays: Arrays,
        config: ModelConfig,
        special: SpecialTokens,
    ) -> None:
        self._embeddings = TokenEmbeddings(arrays)
        self.vocabulary_size = self._embeddings.vocabulary_size
        self._config, self._special = config, special
        self.layout = sessions.layout
        self._sessions, self._free_workers = sessions, BoundedSemaphore(workers)

    def decode(
        self,
        output: EncoderOutput,
        requests: Sequence[DecodeRequest],
        options: SearchOptions,
        pause: Callable[[], None] | None,
    ) -> list[Decoded]:
        """Decode a batch by greedy search, beam search or sampling.

        Args:
            output: of the encoder.
            requests: all prompts have one length and contain the no-timestamps token.
            options: at most `MAX_BEAMS` beams, and no repetition penalty.
            pause: see `protocols.EngineTraits`; None for no pauses.
        """
        decoded: dict[int, Decoded] = {}
        for rows in output.rows_by_length():
            own = [requests[row] for row in rows]
            together = self._decode(output.select(rows), own, options, pause)
            decoded.update(zip(rows, together, strict=True))
        return [decoded[row] for row in range(output.rows)]

    def _decode(
        self,
        output: EncoderOutput,
        requests: Sequence[DecodeRequest],
        options: SearchOptions,
        pause: Callable[[], None] | None,
    ) -> list[Decoded]:
        """See `decode`. All rows have the same number of states."""
        prompts = np.array([request.prompt for request in requests])
        free_positions = self._embeddings.max_length - prompts.shape[1]
        start = requests[0].prompt.index(self._special.start_of_transcript)
        biases, first_biases = logit_biases(
            options, self._config, self._special, self.vocabulary_size
        )
        sampling = [request.sampling for request in requests if request.sampling]
        noise = TokenNoise(sampling, self.vocabulary_size) if sampling else None
        with self._batch(output, biases, options.no_repeat_ngram_size, noise) as decoding:
            hidden = decoding.read_prompts(prompts, start)
            results = self._generate(
                decoding,
                self._with_pauses(decoding, pause) if pause else decoding,
                hidden[:, -1],
                first_biases[None],
                options,
                max_tokens=min(options.max_new_tokens or MAX_NEW_TOKENS, free_positions),
                best_of=noise.best_of if noise else None,
                stop_loops=[request.stop_loops for request in requests],
            )
            decoding.read_last_tokens(results)
            no_speech = np.full(len(requests), self._special.no_speech)
            no_speech_logprobs = decoding.token_logprobs(hidden[:, start], no_speech)
            prefixes = [
                text_logprobs(decoding, hidden[row], request.prompt, len(request.prefix))
                for row, request in enumerate(requests)
            ]
            traces = [
                decoding.trace(row, result, request.prefix, prefix_logprobs)
                for row, (result, request, prefix_logprobs) in enumerate(
                    zip(results, requests, prefixes, strict=True)
                )
            ]
        hypotheses = [
            result.to_hypothesis(float(np.exp(no_speech_logprob)))
            for result, no_speech_logprob in zip(results, no_speech_logprobs, strict=True)
        ]
        return [
            Decoded(hypothesis, trace.alignment(request.frames, self._special.end_of_text))
            for hypothesis, trace, request in zip(hypotheses, traces, requests, strict=True)
        ]

    def _generate(
        self,
        decoding: BatchDecoding,
        step: StepFunction,
        hidden: Floats,
        biases: Floats,
        options: SearchOptions,
        *,
        max_tokens: int,
        best_of: int | None,
        stop_loops: Sequence[bool],
    ) -> list[SearchResult]:
        """Return the hypothesis of each row.

        Args:
            decoding: the batch that has read the prompts.
            step: a step of `decoding`.
            hidden: hidden states of the prompts' last tokens, shape (rows, d_model).
            biases: of the logits of the first token, shape (1, vocabulary).
            options: the search.
            max_tokens: maximum number of tokens after the prompt.
            best_of: number of sampled hypotheses of a row; None for a search.
            stop_loops: see `search`.
        """
        end_of_text = self._special.end_of_text
        if best_of is not None:
            drawn = decoding.drawn(np.repeat(hidden[:, None], best_of, axis=1), biases)
            first = Candidates(drawn.tokens[..., 0], drawn.logprobs[..., 0])
            return sample(step, first, max_tokens=max_tokens, end_of_text=end_of_text)
        return search(
            step,
            decoding.most_probable(hidden, biases),
            options,
            max_tokens=max_tokens,
            end_of_text=end_of_text,
            stop_loops=stop_loops,
            prunes=options.patience == 1,
        )

    def _with_pauses(self, decoding: BatchDecoding, pause: Callable[[], None]) -> StepFunction:
        """Return the step of a batch after a pause, in which another batch may be decoded."""

        def step(
            tokens: Integers, sources: Integers, rows: Sequence[int], active: Sequence[int]
        ) -> Candidates:
            self._free_workers.release()
            try:
                pause()
            finally:
                self._free_workers.acquire()
            return decoding(tokens, sources, rows, active)

        return step

    def align(self, output: EncoderOutput, text: AlignRequest) -> Alignment:
        """Return the times of a given text.

        Args:
            output: of the encoder, one row.
            text: the text of this row.
        """
        prompt = (*text.start, self._special.no_timestamps, *text.tokens)
        with self._batch(output, np.zeros(self.vocabulary_size, np.float32)) as decoding:
            hidden = decoding.read_prompts(np.array([prompt]), 0)
            logprobs = text_logprobs(decoding, hidden[0], prompt, len(text.tokens))
            trace = decoding.trace(0, NOTHING_DECODED, text.tokens, logprobs)
        return trace.alignment(text.frames, self._special.end_of_text)

    def languages(self, output: EncoderOutput, tokens: Sequence[int]) -> Floats:
        """Return the probability of each language.

        Args:
            output: of the encoder.
            tokens: the tokens of the languages.

        Returns:
            Shape (rows, languages); each row sums to 1.
        """
        hidden = np.empty((output.rows, self.layout.d_model), np.float32)
        biases = np.zeros(self.vocabulary_size, np.float32)
        for rows in output.rows_by_length():
            with self._batch(output.select(rows), biases) as decoding:
                prompts = np.full((len(rows), 1), self._special.start_of_transcript)
                hidden[rows] = decoding.read_prompts(prompts, 0)[:, 0]
        embeddings = self._embeddings(np.array(tokens)).T
        # a product for each row: NumPy rounds a product of five and more rows otherwise
        logits = np.concatenate([product(row[None], embeddings) for row in hidden])
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities: Floats = powers / powers.sum(axis=1, keepdims=True)
        return probabilities

    @contextmanager
    def _batch(
        self,
        output: EncoderOutput,
        biases: Floats,
        no_repeat_ngram_size: int = 0,
        noise: TokenNoise | None = None,
    ) -> Iterator[BatchDecoding]:
        """Return a batch until the `with` block ends; wait until a worker is free."""
        with self._free_workers:
            try:
                yield BatchDecoding(
                    self._embeddings,
                    self._sessions,
                    output,
                    biases=biases,
                    no_repeat_ngram_size=no_repeat_ngram_size,
                    noise=noise,
                )
            finally:
                self._embeddings.release()


def text_logprobs(
    decoding: BatchDecoding, hidden: Floats, prompt: Sequence[int], length: int
) -> list[float]:
    """Return the log-probability of each of the last tokens of a prompt.

    Args:
        decoding: the batch that has read the prompt.
        hidden: hidden states of the prompt's tokens, shape (prompt, d_model).
        prompt: the prompt of one row.
        length: number of last tokens.
    """
    if not length:
        return []
    first = len(prompt) - length
    tokens = np.array(prompt[first:])
    # the hidden state of the token before predicts a token
    logprobs: list[float] = decoding.token_logprobs(hidden[first - 1 : -1], tokens).tolist()
    return logprobs
