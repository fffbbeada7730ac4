"""The memory and the infer requests with which one batch is decoded at a time."""

from typing import Any

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.layout import Layout
from whisperbatch.engines.openvino.graph import Precision


class DecoderBuffers:
    """An infer request of each graph, and memory for the keys and values of the encoder output.

    One batch after another uses the same buffers, so memory is allocated only for the largest.

    Args:
        cross_kv: infer request of the graph `cross_kv`.
        decoder_layers: infer request of the graph `decoder_layers`.
        vocabulary_projection: infer request of the graph `vocabulary_projection`.
        layout: of the decoder.
        precision: of the keys and values.
    """

    def __init__(
        self,
        cross_kv: Any,  # noqa: ANN401 - OpenVINO's
        decoder_layers: Any,  # noqa: ANN401 - OpenVINO's
        vocabulary_projection: Any,  # noqa: ANN401 - OpenVINO's
        *,
        layout: Layout,
        precision: Precision,
    ) -> None:
        from openvino import Shape, Tensor, Type  # noqa: PLC0415 - an extra

        self.cross_kv, self.decoder_layers = cross_kv, decoder_layers
        self.vocabulary_projection = vocabulary_projection
        self._layout = layout
        self._tensor, self._shape, self._types = Tensor, Shape, Type
        self._dtype = np.dtype(np.float32 if precision == "f32" else np.uint16)
        self._memory: npt.NDArray[Any] = np.empty(0, np.uint8)

    def key_values(self, rows: int, positions: int) -> list[npt.NDArray[Any]]:
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

    def shared_tensor(self, array: npt.NDArray[Any]) -> Any:  # noqa: ANN401 - OpenVINO's
        """Return a tensor that shares the memory of `array`; uint16 are the bits of bfloat16."""
        is_bfloat16 = array.dtype == np.uint16
        kind = self._types.bf16 if is_bfloat16 else self._types.f32
        return self._tensor(array, self._shape(array.shape), kind)

    def run(self, request: Any, *arrays: npt.NDArray[Any]) -> None:  # noqa: ANN401 - as above
        """Copy arrays to the first inputs of a request, and run the request."""
        for number, array in enumerate(arrays):
            request.set_input_tensor(number, self._tensor(array))
        request.infer(share_outputs=True)  # without a copy of the outputs
