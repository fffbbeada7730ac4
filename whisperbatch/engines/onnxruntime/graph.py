"""Builds the ONNX nodes that Whisper's encoder and decoder share.

Graphs are built node by node from the arrays of CTranslate2's model.bin, without an export or a
conversion of the model. Hidden states have shape (n, d_model): the positions of one row, or the
tokens of all sequences.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.layout import LAYER_NORM_EPSILON, Arrays, Layout
from whisperbatch.engines.onnxruntime.products import EightBitProducts, Rounded
from whisperbatch.engines.quantization import stored_scales
from whisperbatch.runtimes.onnx_graph import MICROSOFT, OnnxGraph


class NodeBuilder:
    """Builds the nodes of a graph.

    Args:
        arrays: the model's arrays, by CTranslate2's names.
        part: "encoder" or "decoder".
        levels: the largest level of a computed second factor of a product.

    Attributes:
        graph: to which the nodes are added.
        products: adds products in 8 bits to the graph.
        layout: sizes of the part.
    """

    def __init__(self, arrays: Arrays, part: str, levels: int) -> None:
        self.graph = OnnxGraph()
        self.products = EightBitProducts(self.graph, levels)
        self.layout = Layout.from_arrays(arrays, part)
        self._arrays = arrays

    def stored(self, name: str) -> npt.NDArray[Any]:
        """Return an array of the model in the type in which it is stored, if this is a float."""
        array, scales = self._arrays[name], stored_scales(self._arrays, name)
        return array if scales is None else array * scales

    def array(self, name: str) -> npt.NDArray[np.float32]:
        """Return an array of the model in float32."""
        return self.stored(name).astype(np.float32)

    def weights(self, name: str) -> str:
        """Return an array of the model as a constant in float32."""
        return self.graph.constant(self.array(name))

    def linear(self, hidden: str, name: str) -> str:
        """Apply a linear layer: (n, in) to (n, out)."""
        return self.linear_parts(self.products.rounded(hidden), name, 1)[0]

    def linear_parts(self, hidden: Rounded, name: str, count: int) -> list[str]:
        """Apply a linear layer to rounded vectors; return its output in equal parts.

        A product for each part takes less time than a product that is split afterwards.
        """
        weights, biases = self.array(f"{name}/weight"), self.array(f"{name}/bias")
        return [
            self.graph.add("Add", self.products.linear(hidden, rows), self.graph.constant(bias))
            for rows, bias in zip(np.split(weights, count), np.split(biases, count), strict=True)
        ]

    def layer_norm(self, hidden: str, name: str) -> str:
        """Apply layer normalisation."""
        return self.graph.add(
            "LayerNormalization",
            hidden,
            self.weights(f"{name}/gamma"),
            self.weights(f"{name}/beta"),
            axis=-1,
            epsilon=LAYER_NORM_EPSILON,
        )

    def feed_forward(self, hidden: str, name: str) -> str:
        """Apply the feed-forward half of a layer, with its residual connection."""
        inner = self.layer_norm(hidden, f"{name}/ffn/layer_norm")
        inner = self.gelu(self.linear(inner, f"{name}/ffn/linear_0"))
        return self.graph.add("Add", hidden, self.linear(inner, f"{name}/ffn/linear_1"))

    def gelu(self, hidden: str) -> str:
        """Apply the exact GELU, with the error function."""
        return self.graph.add("Gelu", hidden, domain=MICROSOFT)
