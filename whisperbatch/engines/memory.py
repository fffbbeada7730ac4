"""The memory of an engine: the batch size that a GPU holds, and freed memory that is returned.

The default batch size is 8 on a CPU; on a GPU it is as many rows as the memory of the device holds:

    |------------------------- total memory of the device -------------------------|
    | weights | row: encoder, keys and values | hypothesis | hypothesis | row: ... |  1/4  |

The total memory counts, not the memory that is free now, so that every run has the same batch size.
The terms are upper bounds: every text has the maximum length, and the encoder and the decoder keep
their memory at the same time. So there is room for what only one of them needs: a second copy of
the encoder output, and in the alignment the scores of all tokens (23 MB for each row of large-v3)
and the attention of one layer (14 MB), while the encoder needs 128 MB for a row. faster-whisper's
README reports 6.1 GB for CTranslate2 with large-v2 in float16, 8 rows and 5 beams; the terms give
9.0 GB. The memory of other models has not been measured here. If memory runs out nevertheless, the
scheduler divides the call.

On Linux with glibc, freed memory goes back to the operating system: that of mapped files and of
loading, of a batch and of closing in every process (`return_freed_memory`), and large arrays at
once only in processes of whisperbatch, since this changes settings of malloc
(`return_large_arrays_at_once`).
"""

import functools
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from whisperbatch.models.architecture import MIN_POSITIONS, Architecture
from whisperbatch.options import DEFAULT_BATCH_SIZE, SearchOptions
from whisperbatch.runtimes.malloc import glibc, return_free_memory
from whisperbatch.runtimes.openvino_cache import return_mapped_memory

log = logging.getLogger(__name__)

M_MMAP_THRESHOLD: Final = -3  # parameter of mallopt, from malloc.h
MMAP_THRESHOLD: Final = 512 << 10  # bytes; the features of a row take 960 KB


def return_freed_memory() -> None:
    """Return the memory that is free now, and that of OpenVINO's mapped files.

    Settings of malloc do not change. With the model base in int8, glibc otherwise keeps 190 MB of
    freed memory.
    """
    return_mapped_memory()
    return_free_memory()


def return_large_arrays_at_once() -> None:
    """From now on, return arrays of 512 KB and more as soon as they are freed, in this process.

    Without this call, glibc raises this size while a program runs, and keeps freed arrays: the peak
    memory is 5 % higher. The setting concerns all code of the process. A library must not change
    settings of the process. So only the program `whisperbatch transcribe` calls this function.
    Other programs can set the variable `MALLOC_MMAP_THRESHOLD_=524288` before they start.
    """
    if library := glibc():
        library.mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD)


MEMORY_SHARE: Final = 0.75
"""Share of the total memory for the engine. The rest is for CUDA and its libraries, for other
programs, and for gaps between allocations."""

MAX_BATCH_SIZE: Final = 64
"""64 rows of 30 s are half an hour of speech. Larger calls would bring little, because 64 rows
already share each reading of the weights. They would delay segments, and need more audio ahead."""

FEED_FORWARD: Final = 4  # size of the feed-forward layer, relative to d_model
ATTENTION: Final = 4  # matrices (d_model, d_model) of an attention: queries, keys, values, output
FLOAT32: Final = 4  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """The memory that a model needs on a GPU, in bytes.

    Attributes:
        weights: of encoder and decoder.
        row: encoding of one row, and what its decoding needs for all hypotheses together.
        hypothesis: what the decoding of a row needs for each hypothesis (beam, or sampled text).
    """

    weights: int
    row: int
    hypothesis: int

    @classmethod
    def of(
        cls, model: Architecture, *, weight_bytes: int, value_bytes: int, score_arrays: int = 1
    ) -> "MemoryUse":
        """Return the memory that a model needs.

        `d` is `model.d_model`. Biases, normalizations, convolutions and positions are left out: 1 %
        of the weights of large-v3, and 7 % of those of tiny.

            weights      encoder layer: attention 4 d * d, feed-forward 2 * 4 d * d
                         decoder layer: the same, and cross-attention 4 d * d
                         token embeddings: vocabulary size * d
            row          keys and values of cross-attention: decoder layers * 2 * 1500 * d. The
                         hypotheses of a row share them, in both engines (CTranslate2,
                         src/layers/transformer.cc, TransformerDecoder::replicate_state)
                         attention of one encoder layer: score arrays * heads * 1500 * 1500
                         other values of one encoder layer, for each of 1500 positions: feed-forward
                         4 d; queries, keys and values 3 d; input, normalized input and output 3 d
                         encoder output: 1500 * d
            hypothesis   keys and values of self-attention: decoder layers * 2 * 448 * d
                         log-probabilities, in float32: vocabulary size

        1500 and 448 are the positions of Whisper's encoder and decoder (`MIN_POSITIONS`).

        Args:
            model: sizes of the model.
            weight_bytes: bytes of a weight.
            value_bytes: bytes of a computed number: of keys, values and hidden states.
            score_arrays: arrays that the engine holds for the scores of an attention.
        """
        d = model.d_model
        layers, positions = model.layers, MIN_POSITIONS
        matrices = ATTENTION + 2 * FEED_FORWARD
        weights = layers["encoder"] * matrices + layers["decoder"] * (matrices + ATTENTION)
        scores = score_arrays * model.heads["encoder"] * positions["encoder"]
        encoder = positions["encoder"] * (scores + (FEED_FORWARD + 3 + 3) * d)
        cross_attention = layers["decoder"] * 2 * positions["encoder"] * d
        self_attention = layers["decoder"] * 2 * positions["decoder"] * d
        return cls(
            weights=weight_bytes * (weights * d * d + model.vocabulary_size * d),
            row=value_bytes * (encoder + positions["encoder"] * d + cross_attention),
            hypothesis=value_bytes * self_attention + FLOAT32 * model.vocabulary_size,
        )

    def __add__(self, other: "MemoryUse") -> "MemoryUse":
        """Return the memory that two models need together: a model and its draft model."""
        return MemoryUse(
            weights=self.weights + other.weights,
            row=self.row + other.row,
            hypothesis=self.hypothesis + other.hypothesis,
        )


GPU_BATCHES: Final = 2
"""Batches that a GPU computes at a time: a GPU with one batch waits while the CPU copies features
and results, aligns texts and starts kernels. Estimated from CTranslate2's source, not measured."""

BEAMS: Final = SearchOptions().beam_size


def choose_batches(devices: Sequence[int | None], use: MemoryUse) -> int:
    """Return how many batches each GPU computes at a time.

    Args:
        devices: total memory of each device, in bytes; None if it is unknown.
        use: the memory that the model needs.

    Returns:
        `GPU_BATCHES`; 1 if the memory is too small for so many batches of `DEFAULT_BATCH_SIZE` rows
        with the default number of beams: one batch then reads the weights for more rows.
    """
    rows = choose_batch_size(devices, use, hypotheses=BEAMS, batches=GPU_BATCHES)
    return GPU_BATCHES if rows >= DEFAULT_BATCH_SIZE else 1


def choose_batch_size(
    devices: Iterable[int | None], use: MemoryUse, *, hypotheses: int, batches: int = 1
) -> int:
    """Return the default batch size on GPUs: a power of two from 1 to `MAX_BATCH_SIZE`.

    Args:
        devices: total memory of each device, in bytes; None if it is unknown. The smallest device
            decides.
        use: the memory that the model needs.
        hypotheses: number of hypotheses of a row: beams, or sampled hypotheses.
        batches: number of batches that a device computes at a time.

    Returns:
        The largest power of two that fits; 1 if not even one row fits; `DEFAULT_BATCH_SIZE` if the
        memory of a device is unknown.
    """
    smallest = min((memory or 0 for memory in devices), default=0)
    if not smallest:
        _log_unknown_memory()
        return DEFAULT_BATCH_SIZE
    memory_of_row = batches * (use.row + hypotheses * use.hypothesis)
    rows = int((MEMORY_SHARE * smallest - use.weights) / memory_of_row)
    return min(1 << max(rows, 1).bit_length() - 1, MAX_BATCH_SIZE)


@functools.cache
def _log_unknown_memory() -> None:
    message = "the memory of the GPU is unknown; a batch has %d rows if `batch_size` is not given"
    log.warning(message, DEFAULT_BATCH_SIZE)
