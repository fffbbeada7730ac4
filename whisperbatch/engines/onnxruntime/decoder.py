"""Whisper's decoder on ONNX Runtime: its graphs, and the memory of one batch.

    encoder output (positions, d_model)          -> cross_kv -> keys and values of each layer
    embedded tokens (rows * beams, length, ...)  -> decoder_layers -> hidden states
    hidden states (n, d_model)                   -> vocabulary_projection -> most probable tokens

A step reads the keys and values of every row once, and reading memory takes most of a step's time.
So keys and values of the encoder output have 8 bits, the beams of a row share them, and finished
rows and beams that are not followed leave the batch.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.cpu.encoder_output import EncoderOutput
from whisperbatch.engines.cpu.runners import PROJECTED
from whisperbatch.engines.frame_merging import log_sizes
from whisperbatch.engines.layout import Arrays, Layout, alignment_heads
from whisperbatch.engines.onnxruntime.attention import (
    BEAMS,
    CAUSAL_MASK,
    CROSS,
    LOG_SIZES,
    POSITIONS,
    READ,
    READ_MASK,
    TOKENS_OF_BEAMS,
    cross_kinds,
)
from whisperbatch.engines.onnxruntime.decoder_graphs import (
    BIASES,
    EMBEDDED,
    HIDDEN,
    STATES,
    TOKENS,
    DecoderGraphs,
)
from whisperbatch.engines.onnxruntime.sessions import Session
from whisperbatch.engines.onnxruntime.token_cache import TokenCache
from whisperbatch.engines.search.hypotheses import Floats, Integers
from whisperbatch.models.config import ModelConfig

PLACES: Final = 64
"""The number of encoder positions is a multiple of this; the added ones have no weight. With other
numbers of columns, onnxruntime's product of queries and keys takes more than twice as long."""


class DecoderSessions:
    """The loaded graphs of a decoder, which all workers share. Thread-safe.

    Args:
        arrays: the arrays "decoder/..." of model.bin, as stored.
        config: settings of the weights.
        levels: the largest level of a computed second factor of a product.
        threads: number of threads that compute a batch.

    Attributes:
        layout: of the decoder.
        cross_kv: see `DecoderGraphs`.
        decoder_layers: see `DecoderGraphs`.
        vocabulary_projection: see `DecoderGraphs`.

    Raises:
        RuntimeError: onnxruntime cannot load the graphs.
    """

    def __init__(self, arrays: Arrays, config: ModelConfig, *, levels: int, threads: int) -> None:
        self.layout = Layout.from_arrays(arrays, "decoder")
        heads = alignment_heads(self.layout, config)
        graphs = DecoderGraphs(arrays, heads, levels)
        self.cross_kv = Session("keys and values", graphs.cross_kv(), threads)
        self.decoder_layers = Session("the decoder", graphs.decoder_layers(), threads)
        projection = graphs.vocabulary_projection(PROJECTED)
        self.vocabulary_projection = Session("the vocabulary projection", projection, threads)


class OnnxDecoder:
    """Computes the decoder, and keeps the keys and values. See `cpu.runners.DecoderRunner`.

    Args:
        sessions: the loaded graphs.
    """

    def __init__(self, sessions: DecoderSessions) -> None:
        self._sessions, layers = sessions, range(sessions.layout.layers)
        self._cross_names = [f"{kind}_{layer}" for layer in layers for kind in CROSS]
        self._read_names = [f"{kind}_{layer}" for layer in layers for kind in READ]
        self._tokens = TokenCache(sessions.layout)
        # of each slot: `CROSS` of each layer; the log of the groups' sizes (slots, 1, 1, groups)
        self._key_values: list[npt.NDArray[Any]] = []
        self._log_sizes: Floats = np.empty(0, np.float32)
        self._slots = 0  # that have a row

    def begin(self, output: EncoderOutput) -> list[Floats]:
        """See `cpu.runners.DecoderRunner`."""
        rows, positions = output.rows, len(output.states[0])
        self._slots = rows
        self._tokens.start(rows)
        places = -(-positions // PLACES) * PLACES
        self._log_sizes = np.full((rows, 1, 1, places), -np.inf, np.float32)
        for row in range(rows):
            sizes = 0.0 if output.sizes is None else log_sizes(output.sizes[row])
            self._log_sizes[row, ..., :positions] = sizes
        layout = self._sessions.layout
        self._key_values = [
            np.zeros(
                [rows, *(places if n == POSITIONS else int(n) for n in shape)], np.dtype(dtype)
            )
            for shape, dtype in cross_kinds(layout) * layout.layers
        ]
        alignment_keys = []
        for row, states in enumerate(output.states):
            keys, *arrays = self._sessions.cross_kv({STATES: states})
            alignment_keys.append(keys)
            for kept, array in zip(self._key_values, arrays, strict=True):
                kept[row][tuple(slice(size) for size in array.shape)] = array
        return alignment_keys

    def keep(self, slots: Sequence[int]) -> None:
        """See `cpu.runners.DecoderRunner`."""
        for slot, source in enumerate(slots):
            if source != slot:
                for array in (*self._key_values, self._log_sizes):
                    array[slot] = array[source]
        self._slots = len(slots)

    def read(self, embedded: Floats, sources: Integers, slots: Integers) -> tuple[Floats, Floats]:
        """See `cpu.runners.DecoderRunner`."""
        length = embedded.shape[1]
        places = self._tokens.select(sources)
        in_place = np.empty_like(embedded)
        in_place[places] = embedded
        beams, tokens_of_beams = tokens_by_beam(slots, places, length)
        inputs: dict[str, npt.NDArray[Any]] = {
            EMBEDDED: in_place,
            BEAMS: beams,
            TOKENS_OF_BEAMS: tokens_of_beams,
            READ_MASK: self._tokens.mask()[None, None, None],
            CAUSAL_MASK: np.triu(np.full((1, 1, length, length), -np.inf, np.float32), 1),
            LOG_SIZES: self._log_sizes[: self._slots],
        }
        kept = (array[: self._slots] for array in self._key_values)
        inputs |= dict(zip(self._cross_names, kept, strict=True))
        inputs |= dict(zip(self._read_names, self._tokens.arrays(), strict=True))
        hidden, queries, *new = self._sessions.decoder_layers(inputs)
        self._tokens.append(new[::2], new[1::2])
        return hidden[places], queries[places]

    def project(
        self, hidden: Floats, biases: Floats, tokens: Integers
    ) -> tuple[Floats, Integers, Floats]:
        """See `cpu.runners.DecoderRunner`."""
        inputs: dict[str, npt.NDArray[Any]] = {
            HIDDEN: hidden,
            BIASES: biases,
            TOKENS: tokens[:, None].astype(np.int64),
        }
        logprobs, top, token_logprobs = self._sessions.vocabulary_projection(inputs)
        return logprobs, top, token_logprobs[:, 0]


def tokens_by_beam(slots: Integers, places: Integers, length: int) -> tuple[Integers, Integers]:
    """Return how the tokens of sequences are arranged by rows and beams, and back.

    All rows get the same number of beams. Where a row has fewer, its first sequence is repeated.

    Args:
        slots: of each sequence, in ascending order.
        places: of each sequence in the cache of tokens.
        length: number of tokens of each sequence.

    Returns:
        For each row, beam and token, the number of a token of a sequence; and for each token of a
        sequence, the number of a token of a beam. Sequences are in the order of their places.
    """
    first = np.searchsorted(slots, slots)  # sequence of the same row
    beam = np.arange(len(slots)) - first
    width = beam.max() + 1
    sequences = np.repeat(places[np.unique(first)], width)
    sequences[slots * width + beam] = places
    beams = np.empty_like(places)
    beams[places] = slots * width + beam
    tokens = np.arange(length)
    by_beam, by_sequence = (
        (index[:, None] * length + tokens).ravel() for index in (sequences, beams)
    )
    return by_beam, by_sequence
