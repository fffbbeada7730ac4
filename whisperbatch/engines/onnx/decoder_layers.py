"""The decoder's graphs on ONNX Runtime, and the keys and values of one batch.

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

from whisperbatch.engines.arrays import Arrays, Layout, alignment_heads
from whisperbatch.engines.onnx.decoder_graphs import (
    BEAMS,
    BIASES,
    CAUSAL_MASK,
    CROSS,
    EMBEDDED,
    HIDDEN,
    LOG_SIZES,
    POSITIONS,
    READ,
    READ_MASK,
    STATES,
    TOKENS,
    TOKENS_OF_BEAMS,
    DecoderGraphs,
    cross_kinds,
)
from whisperbatch.engines.onnx.encoder import EncoderOutput, log_sizes
from whisperbatch.engines.onnx.graph import Session
from whisperbatch.engines.search import Floats, Integers
from whisperbatch.models.config import ModelConfig

MAX_BEAMS: Final = 5

PROJECTED: Final = 2 * MAX_BEAMS
"""Number of tokens that the vocabulary projection returns for each hidden state."""

PLACES: Final = 64
"""The number of encoder positions is a multiple of this; the added ones have no weight. With other
numbers of columns, onnxruntime's product of queries and keys takes more than twice as long."""

COLUMNS: Final = 32
"""The arrays have a multiple of this number of columns, one for each token, so they grow seldom."""


class DecoderSessions:
    """The loaded graphs of a decoder, which all workers share. Thread-safe.

    Args:
        arrays: the arrays "decoder/..." of model.bin, as stored.
        config: settings of the weights.
        levels: the largest level of a computed second factor of a product.
        threads: number of threads that compute a batch.

    Attributes:
        layout: sizes of the decoder.
        cross_kv: see `DecoderGraphs`.
        decoder_layers: see `DecoderGraphs`.

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
        self._vocabulary_projection = Session("the vocabulary projection", projection, threads)

    def project(
        self, hidden: Floats, biases: Floats, tokens: Integers
    ) -> tuple[Floats, Integers, Floats]:
        """Return the natural-log probabilities of the token after hidden states.

        Args:
            hidden: shape (n, d_model).
            biases: of the logits, shape (1 or n, vocabulary).
            tokens: a token for each hidden state, shape (n,).

        Returns:
            The log-probabilities of the most probable tokens (n, `PROJECTED`), these tokens
            (n, `PROJECTED`), and the log-probabilities of the given tokens (n,).
        """
        inputs: dict[str, npt.NDArray[Any]] = {
            HIDDEN: hidden,
            BIASES: biases,
            TOKENS: tokens[:, None].astype(np.int64),
        }
        logprobs, top, token_logprobs = self._vocabulary_projection(inputs)
        return logprobs, top, token_logprobs[:, 0]


class DecoderLayers:
    """The decoder's layers for one batch. One thread at a time uses an object.

    The rows of the batch are in slots. Each has one or more sequences (beams), in the order of the
    slots. The keys and values of the encoder output and of the tokens that each sequence has read
    are kept from call to call.

    At the start, row n is in slot n, and no token has been read.

    Args:
        sessions: the loaded graphs.
        output: of the encoder; all rows have the same number of states.

    Attributes:
        alignment_keys: for each row, the keys of the alignment heads, shape (heads, states,
            head_size).
    """

    def __init__(self, sessions: DecoderSessions, output: EncoderOutput) -> None:
        self._sessions, layout = sessions, sessions.layout
        rows, positions = output.rows, len(output.states[0])
        self._slots = rows  # that have a row
        self._tokens = TokenCache(layout, rows)
        places = -(-positions // PLACES) * PLACES
        # of each slot: the log of the groups' sizes (slots, 1, 1, groups); `CROSS` of each layer
        self._log_sizes: Floats = np.full((rows, 1, 1, places), -np.inf, np.float32)
        for row in range(rows):
            sizes = 0.0 if output.sizes is None else log_sizes(output.sizes[row])
            self._log_sizes[row, ..., :positions] = sizes
        self._key_values: list[npt.NDArray[Any]] = [
            np.zeros(
                [rows, *(places if n == POSITIONS else int(n) for n in shape)], np.dtype(dtype)
            )
            for shape, dtype in cross_kinds(layout) * layout.layers
        ]
        self.alignment_keys = []
        for row, states in enumerate(output.states):
            keys, *arrays = sessions.cross_kv({STATES: states})
            self.alignment_keys.append(keys)
            for kept, array in zip(self._key_values, arrays, strict=True):
                kept[row][tuple(slice(size) for size in array.shape)] = array

    def keep(self, slots: Sequence[int]) -> None:
        """Keep some rows: slot n gets the row of slot `slots[n]`.

        The sequences that the rows have read stay in their places; the next `read` tells which of
        them go on.
        """
        for slot, source in enumerate(slots):
            if source != slot:
                for array in (*self._key_values, self._log_sizes):
                    array[slot] = array[source]
        self._slots = len(slots)

    def read(self, embedded: Floats, sources: Integers, slots: Integers) -> tuple[Floats, Floats]:
        """Read tokens.

        Args:
            embedded: the embeddings of the tokens, with positions, shape (sequences, length,
                d_model).
            sources: the sequence of the call before that each sequence extends, shape
                (sequences,).
            slots: the slot of each sequence, in ascending order, shape (sequences,).

        Returns:
            Hidden states, shape (sequences, length, d_model), and the queries of the alignment
            heads, shape (sequences, heads, length, head_size).
        """
        length, layers = embedded.shape[1], range(self._sessions.layout.layers)
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
        names = [f"{kind}_{layer}" for layer in layers for kind in CROSS]
        kept = (array[: self._slots] for array in self._key_values)
        inputs |= dict(zip(names, kept, strict=True))
        names = [f"{kind}_{layer}" for layer in layers for kind in READ]
        inputs |= dict(zip(names, self._tokens.arrays(), strict=True))
        hidden, queries, *new = self._sessions.decoder_layers(inputs)
        self._tokens.append(new[::2], new[1::2])
        return hidden[places], queries[places]


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


class TokenCache:
    """The keys and values of the tokens that the sequences of a batch have read.

        place 0    a b c d    after a step with sources 2, 0, 0:    a b c d    sequence 1
        place 1    a b e f                                          a b c d    sequence 2, 2 copies
        place 2    a b g h                                          a b g h    sequence 0

    The first of the sequences that go on from the same source stays in its place. The others go to
    free places. The beams of a row often have most of their tokens in common. Each token that was
    read has a number, which its copies share. So only tokens whose numbers differ are copied.

    Args:
        layout: of the decoder.
        sequences: their number; they have read nothing.
    """

    def __init__(self, layout: Layout, sequences: int) -> None:
        self._layout = layout
        self._keys, self._values = self._allocated(sequences, COLUMNS)
        self._places = np.arange(sequences)  # of each sequence
        self._numbers: Integers = np.empty((sequences, 0), np.int64)  # of tokens, at each place
        self._next_number = 0

    @property
    def length(self) -> int:
        """Number of tokens that each sequence has read."""
        return int(self._numbers.shape[1])

    def select(self, sources: Integers) -> Integers:
        """Let each sequence go on from a source.

        Args:
            sources: sequences before the call, shape (sequences after the call,).

        Returns:
            The place of each sequence: the numbers from 0, in another order.
        """
        origins = self._places[sources]
        self._places = self._free_places(origins)
        origins = origins[np.argsort(self._places)]  # of each place
        numbers = self._numbers[origins]
        if len(sources) > self._keys.shape[1]:
            self._grow(len(sources), self.length)
        present = np.full_like(numbers, -1)
        known = min(len(sources), len(self._numbers))
        present[:known] = self._numbers[:known]
        places, columns = np.nonzero(present != numbers)
        if len(places):
            origins = origins[places]
            self._keys[:, places, :, :, columns] = self._keys[:, origins, :, :, columns]
            self._values[:, places, :, columns] = self._values[:, origins, :, columns]
        self._numbers = numbers
        return self._places

    def _free_places(self, sources: Integers) -> Integers:
        """Return a place for each sequence: that of its source, or the most similar that is free.

        Args:
            sources: places that the sequences go on from.
        """
        count = len(sources)
        stayed, first = np.unique(sources, return_index=True)
        first = first[stayed < count]
        result = np.full(count, -1)
        result[first] = sources[first]
        free = np.setdiff1d(np.arange(count), result)
        known = len(self._numbers)
        for sequence in np.nonzero(result < 0)[0]:
            used = self._numbers[np.minimum(free, known - 1)]
            similar = (used == self._numbers[sources[sequence]]).sum(axis=1) * (free < known)
            choice = int(similar.argmax())
            result[sequence] = free[choice]
            free = np.delete(free, choice)
        return result

    def append(self, keys: list[Floats], values: list[Floats]) -> None:
        """Add the tokens of a step.

        Args:
            keys: of each layer, shape (places, heads, head_size, length).
            values: of each layer, shape (places, heads, length, head_size).
        """
        sequences, _, length, _ = values[0].shape
        start, end = self.length, self.length + length
        if end > self._keys.shape[-1]:
            self._grow(self._keys.shape[1], end)
        for layer in range(self._layout.layers):
            self._keys[layer, :sequences, ..., start:end] = keys[layer]
            self._values[layer, :sequences, :, start:end] = values[layer]
        numbers = np.arange(self._next_number, self._next_number + sequences * length)
        self._next_number += sequences * length
        self._numbers = np.concatenate((self._numbers, numbers.reshape(sequences, length)), axis=1)

    def arrays(self) -> list[Floats]:
        """Return keys and values of each layer.

        Their shapes are (places, heads, head_size, columns), and (places, heads, columns,
        head_size).
        """
        sequences = len(self._numbers)
        layers = zip(self._keys, self._values, strict=True)
        return [array[:sequences] for layer in layers for array in layer]

    def mask(self) -> Floats:
        """Return the summands of the scores: 0 for each token, minus infinity for free columns."""
        mask = np.full(self._keys.shape[-1], -np.inf, np.float32)
        mask[: self.length] = 0
        return mask

    def _grow(self, places: int, length: int) -> None:
        old_keys, old_values = self._keys, self._values
        self._keys, self._values = self._allocated(places, length)
        count, columns = old_keys.shape[1], old_keys.shape[-1]
        self._keys[:, :count, ..., :columns] = old_keys
        self._values[:, :count, :, :columns] = old_values

    def _allocated(self, places: int, length: int) -> tuple[Floats, Floats]:
        """Return zeros for the keys and values of all layers."""
        layout = self._layout
        first = (layout.layers, places, layout.heads)
        columns = -(-length // COLUMNS) * COLUMNS
        return (
            np.zeros((*first, layout.head_size, columns), np.float32),
            np.zeros((*first, columns, layout.head_size), np.float32),
        )
