"""Whisper's decoder on OpenVINO: the requests of its graphs, and the memory of one batch.

    encoder output (1, positions, d_model)       -> cross_kv -> keys and values of each layer
    embedded tokens (rows * beams, length, ...)  -> decoder_layers -> hidden states
    hidden states (n, d_model)                   -> vocabulary_projection -> most probable tokens

A step reads the keys and values of every row once, and reading memory takes most of a step's time.
Four measures keep the reads short: keys and values are stored in bfloat16 if the processor supports
bfloat16; the beams of a row share them; they are laid out in the order in which they are read; and
finished rows leave the batch. The keys and values of the tokens decoded so far are the state of the
infer request of `decoder_layers`.
"""

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.cpu.encoder_output import EncoderOutput
from whisperbatch.engines.cpu.runners import PROJECTED
from whisperbatch.engines.frame_merging import log_sizes
from whisperbatch.engines.layout import Arrays, Layout, alignment_heads
from whisperbatch.engines.openvino.compiler import GraphCompiler
from whisperbatch.engines.openvino.decoder_graphs import FIRST_KEY_VALUE_INPUT, DecoderGraphs
from whisperbatch.engines.search.hypotheses import Floats, Integers
from whisperbatch.machine import processor_features
from whisperbatch.models.config import ModelConfig
from whisperbatch.runtimes.openvino_package import Precision, import_openvino

MIN_PROJECTED: Final = 5
"""Hidden states in one call of the vocabulary projection; fewer are padded with zeros.

With 8-bit weights, OpenVINO computes fewer than 5 hidden states with another kernel, which rounds
differently: on a processor with AMX a log-probability changed by up to 0.026. For 5 to 45 hidden
states the results are equal to the last bit.
"""


MAX_VECTORS: Final = 80
"""Vectors in one product without AVX-512; OpenVINO rounds products with more vectors otherwise. The
limit is the same for the models base and tiny.en, and for one and two threads."""


@cache
def rounding_depends_on_vectors() -> bool:
    """Return whether the rounding of a product may depend on its number of vectors.

    OpenVINO has separate kernels for one vector and for more than `MAX_VECTORS`. On a Zen 3 (AVX2),
    a log-probability changed by up to 5e-7; on processors with AVX-512 the results are equal.
    """
    return "avx512f" not in processor_features()


def compile_decoder(
    compiler: GraphCompiler,
    arrays: Arrays,
    config: ModelConfig,
    *,
    precision: Precision,
    int8_weights: bool,
    merged: bool,
) -> "list[OpenVinoDecoder]":
    """Compile the graphs of a decoder, and return their requests for each worker.

    Args:
        compiler: compiles the graphs.
        arrays: the arrays "decoder/..." of model.bin, as stored.
        config: settings of the weights.
        precision: the precision to compute in.
        int8_weights: store the matrices in 8 bits.
        merged: the encoder merges similar positions.
    """
    layout = Layout.from_arrays(arrays, "decoder")
    heads = alignment_heads(layout, config)
    graphs = DecoderGraphs(arrays, heads, precision, int8_weights=int8_weights, merged=merged)
    # of the self-attention; OpenVINO's default is 8 bits
    cache = {"KV_CACHE_PRECISION": "f16" if precision == "bf16" else "f32"}
    compiled = (
        compiler("cross_kv", graphs.cross_kv, precision, **cache),
        # float32, because bfloat16 is too coarse for the sums over the layers and for the softmax;
        # the graph converts the large products to bfloat16
        compiler(f"decoder_layers{'_merged' * merged}", graphs.decoder_layers, "f32", **cache),
        compiler(
            "vocabulary_projection",
            lambda: graphs.vocabulary_projection(PROJECTED),
            precision,
            **cache,
        ),
    )
    return [
        OpenVinoDecoder(
            *(graph.create_infer_request() for graph in compiled),
            layout=layout,
            heads=heads,
            precision=precision,
        )
        for _ in range(compiler.workers)
    ]


class OpenVinoDecoder:
    """Computes the decoder, and keeps the keys and values. See `cpu.runners.DecoderRunner`.

    One batch after another uses the same memory, so memory is allocated only for the largest.

    Args:
        cross_kv: infer request of the graph `cross_kv`.
        decoder_layers: infer request of the graph `decoder_layers`.
        vocabulary_projection: infer request of the graph `vocabulary_projection`.
        layout: of the decoder.
        heads: the alignment heads, as (layer, head).
        precision: of the keys and values.
    """

    beams_vary = False

    def __init__(
        self,
        cross_kv: Any,  # noqa: ANN401 - OpenVINO's
        decoder_layers: Any,  # noqa: ANN401 - OpenVINO's
        vocabulary_projection: Any,  # noqa: ANN401 - OpenVINO's
        *,
        layout: Layout,
        heads: Sequence[tuple[int, int]],
        precision: Precision,
    ) -> None:
        openvino = import_openvino()
        self._cross_kv, self._decoder_layers = cross_kv, decoder_layers
        self._vocabulary_projection = vocabulary_projection
        self._layout, self._heads = layout, heads
        self._tensor, self._shape, self._types = openvino.Tensor, openvino.Shape, openvino.Type
        self._dtype = np.dtype(np.float32 if precision == "f32" else np.uint16)
        self._memory: npt.NDArray[Any] = np.empty(0, np.uint8)
        # of each slot: for each layer keys and values; the log of the groups' sizes, if positions
        # are merged, (slots, 1, 1, groups)
        self._key_values: list[npt.NDArray[Any]] = []
        self._log_sizes: list[Floats] = []
        self._slots = 0  # that have a row
        self._length = 0  # tokens that each sequence has read
        self._repeated = False  # whether the only sequence is computed twice

    def rows_together(self, prompt_length: int, beams: int) -> int:
        """See `cpu.runners.DecoderRunner`.

        A step has a vector for each beam, and a prompt has one for each token. A prompt longer than
        `MAX_VECTORS` is always above the limit.
        """
        if not rounding_depends_on_vectors():
            return sys.maxsize
        vectors = beams if prompt_length > MAX_VECTORS else max(beams, prompt_length)
        return max(1, MAX_VECTORS // vectors)

    def begin(self, output: EncoderOutput) -> list[Floats]:
        """See `cpu.runners.DecoderRunner`."""
        self._decoder_layers.reset_state()
        rows = self._slots = output.rows
        self._length, self._repeated = 0, False
        # at least two slots: see `read`
        self._key_values = self._allocated(max(rows, 2), len(output.states[0]))
        self._log_sizes = []
        if output.sizes is not None:
            sizes = output.sizes if rows > 1 else output.sizes * 2
            self._log_sizes = [log_sizes(np.stack(sizes))[:, None, None]]
        alignment_keys = []
        for row, states in enumerate(output.states):
            for number, array in enumerate(self._key_values):
                self._cross_kv.set_output_tensor(number, self._shared_tensor(array[row : row + 1]))
            self._run(self._cross_kv, states[None])
            alignment_keys.append(
                np.stack([self._key_values[2 * layer][row, head] for layer, head in self._heads])
            )
        self._attach(rows)
        return alignment_keys

    def keep(self, slots: Sequence[int]) -> None:
        """See `cpu.runners.DecoderRunner`."""
        for slot, source in enumerate(slots):
            if source != slot:
                for array in (*self._key_values, *self._log_sizes):
                    array[slot] = array[source]
        self._slots = len(slots)
        self._attach(self._slots + self._repeated)

    def read(
        self,
        embedded: Floats,
        sources: Integers,
        slots: Integers,  # noqa: ARG002 - each slot has the same number of sequences
    ) -> tuple[Floats, Floats]:
        """See `cpu.runners.DecoderRunner`.

        A single vector is computed twice if it would be rounded otherwise: a copy of its row is in
        the second slot.
        """
        sequences, length, _ = embedded.shape
        mask = np.zeros((length, self._length + length), np.float32)
        mask[:, self._length :] = np.triu(np.full((length, length), -np.inf, np.float32), 1)
        self._length += length
        repeated = sequences == length == 1 and rounding_depends_on_vectors()
        if repeated != self._repeated:
            self._repeated = repeated
            for array in (*self._key_values, *self._log_sizes):
                array[1] = array[0]
            self._attach(self._slots + repeated)
        if repeated:
            embedded, sources = np.repeat(embedded, 2, axis=0), np.repeat(sources, 2)
        self._run(self._decoder_layers, embedded, sources.astype(np.int32), mask[None, None])
        hidden, queries = (
            self._decoder_layers.get_output_tensor(number).data for number in range(2)
        )
        heads, head_size = queries.shape[1], queries.shape[3]
        by_beam = queries[: self._slots].reshape(self._slots, heads, -1, length, head_size)
        by_sequence = by_beam.transpose(0, 2, 1, 3, 4).reshape(-1, heads, length, head_size)
        return hidden[:sequences], by_sequence

    def project(
        self, hidden: Floats, biases: Floats, tokens: Integers
    ) -> tuple[Floats, Integers, Floats]:
        """See `cpu.runners.DecoderRunner`."""
        biases = biases if len(biases) == 1 else _padded(biases)
        request = self._vocabulary_projection
        self._run(request, _padded(hidden), biases, _padded(tokens[:, None]))
        logits, top, log_sums, token_logits = (
            request.get_output_tensor(number).data[: len(hidden)] for number in range(4)
        )
        return logits - log_sums, top, (token_logits - log_sums)[:, 0]

    def _allocated(self, rows: int, positions: int) -> list[npt.NDArray[Any]]:
        """Return arrays for the keys and values of a batch, in the memory of the batch before.

        Returns:
            For each layer, keys (rows, heads, positions, head_size) and transposed values
            (rows, heads, head_size, positions): float32, or the bits of bfloat16 (uint16).
        """
        layout = self._layout
        keys_shape = (rows, layout.heads, positions, layout.head_size)
        values_shape = (rows, layout.heads, layout.head_size, positions)
        shapes = [keys_shape, values_shape] * layout.layers
        sizes = [int(np.prod(shape)) * self._dtype.itemsize for shape in shapes]
        if sum(sizes) > len(self._memory):
            self._memory = np.empty(sum(sizes), np.uint8)
        ends = np.cumsum(sizes)
        return [
            self._memory[end - size : end].view(self._dtype).reshape(shape)
            for shape, size, end in zip(shapes, sizes, ends, strict=True)
        ]

    def _attach(self, slots: int) -> None:
        """Let the layers read the keys and values of the first slots."""
        for number, array in enumerate((*self._key_values, *self._log_sizes)):
            self._decoder_layers.set_input_tensor(
                FIRST_KEY_VALUE_INPUT + number, self._shared_tensor(array[:slots])
            )

    def _shared_tensor(self, array: npt.NDArray[Any]) -> Any:  # noqa: ANN401 - OpenVINO's
        """Return a tensor that shares the memory of `array`; uint16 are the bits of bfloat16."""
        is_bfloat16 = array.dtype == np.uint16
        kind = self._types.bf16 if is_bfloat16 else self._types.f32
        return self._tensor(array, self._shape(array.shape), kind)

    def _run(self, request: Any, *arrays: npt.NDArray[Any]) -> None:  # noqa: ANN401 - as above
        """Copy arrays to the first inputs of a request, and run the request."""
        for number, array in enumerate(arrays):
            request.set_input_tensor(number, self._tensor(array))
        request.infer(share_outputs=True)  # without a copy of the outputs


def _padded(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array with at least `MIN_PROJECTED` rows, the added ones zeros."""
    if len(array) >= MIN_PROJECTED:
        return array
    padded = np.zeros((MIN_PROJECTED, *array.shape[1:]), array.dtype)  # faster than np.pad
    padded[: len(array)] = array
    return padded
