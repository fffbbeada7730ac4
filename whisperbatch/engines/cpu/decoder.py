"""Whisper's decoder on a CPU.

    encoder output (1, positions, d_model)       -> keys and values of each layer
    embedded tokens (rows * beams, length, ...)  -> layers -> hidden states
    hidden states (n, d_model)                   -> vocabulary projection -> most probable tokens

The decoder keeps the queries of the alignment heads of every token. The alignment uses these
queries and does not run the decoder a second time.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import LifoQueue

import numpy as np

from whisperbatch.engines.cpu.batch_decoding import BatchDecoding
from whisperbatch.engines.cpu.embeddings import TokenEmbeddings
from whisperbatch.engines.cpu.encoder_output import EncoderOutput
from whisperbatch.engines.cpu.runners import DecoderRunner
from whisperbatch.engines.layout import Arrays, Layout
from whisperbatch.engines.search.beam_search import Candidates, sample, search
from whisperbatch.engines.search.hypotheses import Floats, SearchResult
from whisperbatch.engines.search.sampling import TokenNoise
from whisperbatch.engines.search.suppression import logit_biases
from whisperbatch.engines.special_tokens import SpecialTokens
from whisperbatch.models.config import ModelConfig
from whisperbatch.options import MAX_NEW_TOKENS, SearchOptions
from whisperbatch.protocols import Alignment, AlignRequest, Decoded, DecodeRequest, Hypothesis
from whisperbatch.runtimes.matrix_products import product


class Decoder:
    """Whisper's decoder. Thread-safe; releases the GIL while it works.

    Args:
        runners: one for each worker.
        arrays: the arrays "decoder/..." of model.bin, as stored.
        config: settings of the weights.
        special: ids of the special tokens.

    Attributes:
        layout: sizes of the decoder.
        vocabulary_size: number of tokens.
    """

    def __init__(
        self,
        runners: Sequence[DecoderRunner],
        arrays: Arrays,
        config: ModelConfig,
        special: SpecialTokens,
    ) -> None:
        self._embeddings = TokenEmbeddings(arrays)
        self.vocabulary_size = self._embeddings.vocabulary_size
        self._config, self._special = config, special
        self.layout = Layout.from_arrays(arrays, "decoder")
        self._free_runners: LifoQueue[DecoderRunner] = LifoQueue()
        for runner in runners:
            self._free_runners.put(runner)

    def decode(
        self, output: EncoderOutput, requests: Sequence[DecodeRequest], options: SearchOptions
    ) -> list[Decoded]:
        """Decode a batch by greedy search, beam search or sampling.

        Args:
            output: of the encoder.
            requests: all prompts have one length and contain the no-timestamps token.
            options: at most `MAX_BEAMS` beams, and no repetition penalty.
        """
        decoded: dict[int, Decoded] = {}
        for rows in output.rows_by_length():
            together = self._decode(output.select(rows), [requests[row] for row in rows], options)
            decoded.update(zip(rows, together, strict=True))
        return [decoded[row] for row in range(output.rows)]

    def _decode(
        self, output: EncoderOutput, requests: Sequence[DecodeRequest], options: SearchOptions
    ) -> list[Decoded]:
        """See `decode`. All rows have the same number of states."""
        prompts = np.array([request.prompt for request in requests])
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
                hidden[:, -1],
                first_biases[None],
                options,
                max_tokens=self._max_tokens(options, prompts.shape[1]),
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
            Hypothesis(
                result.tokens,
                result.logprob / (len(result.tokens) + 1),
                float(np.exp(no_speech_logprob)),
            )
            for result, no_speech_logprob in zip(results, no_speech_logprobs, strict=True)
        ]
        return [
            Decoded(hypothesis, trace.alignment(request.frames, self._special.end_of_text))
            for hypothesis, trace, request in zip(hypotheses, traces, requests, strict=True)
        ]

    def _generate(
        self,
        decoding: BatchDecoding,
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
            return sample(decoding, first, max_tokens=max_tokens, end_of_text=end_of_text)
        return search(
            decoding,
            decoding.most_probable(hidden, biases),
            beam_size=options.beam_size,
            patience=options.patience if options.beam_size > 1 else 1.0,
            length_penalty=options.length_penalty,
            max_tokens=max_tokens,
            end_of_text=end_of_text,
            stop_loops=stop_loops,
            prunes=options.patience == 1,
        )

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
            trace = decoding.text_trace(0, text.tokens, logprobs)
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
        """Give a batch a free runner until the `with` block ends; wait until there is one."""
        runner = self._free_runners.get()
        try:
            yield BatchDecoding(
                self._embeddings,
                runner,
                output,
                biases=biases,
                no_repeat_ngram_size=no_repeat_ngram_size,
                noise=noise,
            )
        finally:
            self._free_runners.put(runner)
            self._embeddings.release()

    def _max_tokens(self, options: SearchOptions, prompt_length: int) -> int:
        """Return the maximum number of tokens after a prompt."""
        free_positions = self._embeddings.max_length - prompt_length
        return min(options.max_new_tokens or MAX_NEW_TOKENS, free_positions)


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
