"""Whisper's decoder on OpenVINO, from CTranslate2's weights.

    encoder output (1, positions, d_model)       -> cross_kv -> keys and values of each layer
    embedded tokens (rows * beams, length, ...)  -> decoder_layers -> hidden states
    hidden states (n, d_model)                   -> vocabulary_projection -> most probable tokens

A step reads the keys and values of every row once, and reading memory takes most of a step's time.
Four measures keep the reads short: keys and values are stored in bfloat16 if the processor supports
bfloat16; the beams of a row share them; they are laid out in the order in which they are read; and
finished rows leave the batch. The keys and values of the tokens decoded so far are the state of the
infer request of `decoder_layers`.

While it decodes, the decoder keeps the queries of the alignment heads, so that a text is aligned
afterwards without being read again.
"""

from collections.abc import Mapping, Sequence
from queue import LifoQueue
from typing import Any, Final

import numpy as np

from whisperbatch.engines.layout import Arrays, Layout, alignment_heads
from whisperbatch.engines.openvino.batch_decoding import BatchDecoding
from whisperbatch.engines.openvino.buffers import DecoderBuffers
from whisperbatch.engines.openvino.compiler import GraphCompiler
from whisperbatch.engines.openvino.decoder_graphs import DecoderGraphs
from whisperbatch.engines.openvino.embeddings import TokenEmbeddings
from whisperbatch.engines.openvino.graph import Precision
from whisperbatch.engines.search.alignment import DecodingTrace
from whisperbatch.engines.search.beam_search import Floats, search
from whisperbatch.engines.special_tokens import SpecialTokens, logit_biases
from whisperbatch.options import MAX_NEW_TOKENS, DecodeOptions
from whisperbatch.types import Hypothesis

MAX_BEAMS: Final = 5
"""The number of tokens that `vocabulary_projection` returns is fixed at twice this number."""


class OpenVinoDecoder:
    """Whisper's decoder. Thread-safe; releases the GIL while it works.

    Args:
        compiler: compiles the graphs.
        arrays: the arrays "decoder/..." of model.bin, as stored.
        config: config.json of the weights.
        tokens: ids of the special tokens.
        precision: the precision to compute in.
        int8_weights: store the matrices in 8 bits.

    Attributes:
        layout: sizes of the decoder.
        vocabulary_size: number of tokens.
    """

    def __init__(
        self,
        compiler: GraphCompiler,
        arrays: Arrays,
        config: Mapping[str, Any],
        tokens: SpecialTokens,
        *,
        precision: Precision,
        int8_weights: bool,
    ) -> None:
        self._embeddings = TokenEmbeddings(arrays)
        self.vocabulary_size = self._embeddings.vocabulary_size
        self._config, self._tokens = config, tokens
        self.layout = Layout.from_arrays(arrays, "decoder")
        self._heads = alignment_heads(self.layout, config)
        graphs = DecoderGraphs(arrays, self._heads, precision, int8_weights=int8_weights)
        # of the self-attention; OpenVINO's default is 8 bits
        cache = {"KV_CACHE_PRECISION": "f16" if precision == "bf16" else "f32"}
        compiled = (
            compiler("cross_kv", graphs.cross_kv, precision, **cache),
            # float32, because bfloat16 is too coarse for the sums over the layers and for the
            # softmax; the graph converts the large products to bfloat16
            compiler("decoder_layers", graphs.decoder_layers, "f32", **cache),
            compiler(
                "vocabulary_projection",
                lambda: graphs.vocabulary_projection(2 * MAX_BEAMS),
                precision,
                **cache,
            ),
        )
        self._free_buffers: LifoQueue[DecoderBuffers] = LifoQueue()
        for _ in range(compiler.workers):
            requests = (graph.create_infer_request() for graph in compiled)
            buffers = DecoderBuffers(*requests, layout=self.layout, precision=precision)
            self._free_buffers.put(buffers)

    def supports(self, prompts: Sequence[Sequence[int]], options: DecodeOptions) -> bool:
        """Return whether this decoder can decode with these prompts and options.

        CTranslate2 decodes the rest: searches whose logits depend on the text so far (repetition
        penalty, timestamps), and beams that are wider than anyone uses except for a retry.
        """
        return (
            options.beam_size <= MAX_BEAMS
            and options.repetition_penalty == 1
            and all(self._tokens.no_timestamps in prompt for prompt in prompts)
        )

    def generate(
        self, output: Floats, prompts: Sequence[Sequence[int]], options: DecodeOptions
    ) -> tuple[list[Hypothesis], list[DecodingTrace]]:
        """Decode a batch.

        Args:
            output: of the encoder, shape (rows, positions, d_model).
            prompts: all of one length.
            options: that `supports` accepts.

        Returns:
            The hypothesis of each row, and its trace.
        """
        max_tokens = min(
            options.max_new_tokens or MAX_NEW_TOKENS,
            self._embeddings.max_length - len(prompts[0]),
        )
        biases, first_biases = logit_biases(
            options, self._config, self._tokens, self.vocabulary_size
        )
        buffers = self._free_buffers.get()
        try:
            decoding = BatchDecoding(
                self._embeddings,
                buffers,
                output,
                heads=self._heads,
                biases=biases,
                no_repeat_ngram_size=options.no_repeat_ngram_size,
            )
            start = list(prompts[0]).index(self._tokens.start_of_transcript)
            hidden = decoding.read_prompts(np.array(prompts), start)
            results = search(
                decoding,
                decoding.most_probable(hidden[:, -1], first_biases[None]),
                beam_size=options.beam_size,
                patience=options.patience if options.beam_size > 1 else 1.0,
                length_penalty=options.length_penalty,
                max_tokens=max_tokens,
                end_of_text=self._tokens.end_of_text,
            )
            decoding.read_last_tokens(results)
            no_speech_logprobs = decoding.token_logprobs(hidden[:, start], self._tokens.no_speech)
            traces = [decoding.trace(row, result) for row, result in enumerate(results)]
        finally:
            self._free_buffers.put(buffers)
            self._embeddings.release()
        hypotheses = [
            Hypothesis(
                result.tokens,
                result.logprob / (len(result.tokens) + 1),
                float(np.exp(no_speech_logprob)),
            )
            for result, no_speech_logprob in zip(results, no_speech_logprobs, strict=True)
        ]
        return hypotheses, traces

    def languages(self, output: Floats, tokens: Sequence[int]) -> Floats:
        """Return the probability of each language.

        Args:
            output: of the encoder, shape (rows, positions, d_model).
            tokens: the tokens of the languages.

        Returns:
            Shape (rows, languages); each row sums to 1.
        """
        biases = np.zeros(self.vocabulary_size, np.float32)
        buffers = self._free_buffers.get()
        try:
            decoding = BatchDecoding(
                self._embeddings, buffers, output, heads=self._heads, biases=biases
            )
            prompts = np.full((len(output), 1), self._tokens.start_of_transcript)
            hidden = decoding.read_prompts(prompts, 0)[:, 0]
        finally:
            self._free_buffers.put(buffers)
        embeddings = self._embeddings(np.array(tokens)).T
        # a product for each row: NumPy rounds a product of five and more rows otherwise
        logits = np.concatenate([row[None] @ embeddings for row in hidden])
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities: Floats = powers / powers.sum(axis=1, keepdims=True)
        return probabilities
