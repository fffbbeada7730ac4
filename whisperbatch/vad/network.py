"""Silero's network with its convolutions as products of matrices, which take half of the time.

onnxruntime computes the convolutions of each VAD frame separately, as products with matrices of one
to five columns. Here the windows of all VAD frames are the rows of one matrix:

    input (frames, channels, length)
      -> windows (frames * windows, kernel * channels)
      -> product with the weights (kernel * channels, filters)
      -> output (frames, filters, windows)
"""

import math
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from whisperbatch.onnx_sessions import open_session

PLAIN_AXES: Final = 3  # of the weights of a convolution over one axis
PROBED: Final = 2  # VAD frames in the call that shows the lengths of arrays


def network_with_products(path: Path) -> bytes:
    """Return the network of an .onnx file, with products, as the content of an .onnx file.

    Only rounding changes the probabilities. A convolution stays as it is if it does not compute
    each VAD frame separately, is not one-dimensional, or has several groups, a dilation or
    automatic padding. A network with nested graphs stays as it is.

    Args:
        path: of the .onnx file.

    Raises:
        Exception: the file is no network. The errors of onnx and onnxruntime have no common public
            base class.
    """
    import onnx  # noqa: PLC0415 - takes 0.1 s; needed only to load the network

    model = onnx.load(path)
    graph = model.graph
    if any(each.HasField("g") for node in graph.node for each in node.attribute):
        unchanged: bytes = model.SerializeToString()
        return unchanged
    lengths = _input_lengths(onnx, model)
    network = _Network(onnx, {array.name: array for array in graph.initializer})
    for node in graph.node:
        attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        length = lengths.get(node.input[0]) if node.op_type == "Conv" else None
        if length and network.is_plain(node, attributes):
            network.add_product(node, attributes, length)
        else:
            network.nodes.append(node)
    del graph.node[:], graph.initializer[:]
    graph.node.extend(network.nodes)
    graph.initializer.extend(network.used_arrays())
    content: bytes = model.SerializeToString()
    return content


def _input_lengths(onnx: Any, model: Any) -> dict[str, int]:  # noqa: ANN401 - onnx has no types
    """Return the length of each input of a convolution that has a row for each VAD frame.

    The network runs once, with these inputs as its outputs: not all files state the lengths.
    """
    probe = type(model)()
    probe.CopyFrom(model)
    names = [node.input[0] for node in model.graph.node if node.op_type == "Conv"]
    kind = onnx.TensorProto.FLOAT
    del probe.graph.output[:]
    probe.graph.output.extend(onnx.helper.make_tensor_value_info(n, kind, None) for n in names)
    inputs = {
        port.name: np.zeros(
            [size.dim_value or PROBED for size in port.type.tensor_type.shape.dim], np.float32
        )
        for port in model.graph.input
    }
    arrays = open_session(probe.SerializeToString(), threads=1).run(None, inputs)
    return {
        name: array.shape[-1]
        for name, array in zip(names, arrays, strict=True)
        if len(array) == PROBED
    }


class _Network:
    """Collects the nodes of the new network.

    Args:
        onnx: the package.
        arrays: the constants of the network, by name.

    Attributes:
        nodes: of the new network.
    """

    def __init__(self, onnx: Any, arrays: dict[str, Any]) -> None:  # noqa: ANN401 - has no types
        self._onnx, self._arrays = onnx, arrays
        self.nodes: list[Any] = []

    def is_plain(self, convolution: Any, attributes: dict[str, Any]) -> bool:  # noqa: ANN401 - as above
        """Return whether a convolution has one axis, constant weights, and no special attribute."""
        weights = self._arrays.get(convolution.input[1])
        return (
            weights is not None
            and len(weights.dims) == PLAIN_AXES
            and attributes.get("group", 1) == 1
            and attributes.get("dilations", [1]) == [1]
            and attributes.get("auto_pad", b"NOTSET") == b"NOTSET"
        )

    def add_product(
        self,
        convolution: Any,  # noqa: ANN401 - a type of onnx
        attributes: dict[str, Any],
        length: int,
    ) -> None:
        """Add a convolution, with one group and without dilation, as a product.

        Args:
            convolution: the node.
            attributes: of the node.
            length: of its input.
        """
        before, after = attributes.get("pads", (0, 0))
        [stride] = attributes.get("strides", [1])
        array, weights_name, *biases = convolution.input
        weights = self._onnx.numpy_helper.to_array(self._arrays[weights_name])
        filters, channels, kernel = weights.shape
        windows = (length + before + after - kernel) // stride + 1
        used = (windows - 1) * stride + kernel  # samples; the rest does not fill a window
        block = math.gcd(stride, kernel)  # samples: each window begins and ends with a block

        padding = self._integers([0, 0, before, 0, 0, after])
        array = self._node("Pad", array, padding)
        ends = [self._integers([number]) for number in (0, used, 2)]
        array = self._node("Slice", array, *ends)
        array = self._node("Transpose", array, perm=[0, 2, 1])
        array = self._reshaped(array, -1, used // block, block * channels)
        first_blocks = np.arange(0, windows * stride, stride) // block
        blocks = first_blocks[:, None] + np.arange(kernel // block)
        array = self._node("Gather", array, self._integers(blocks), axis=1)
        array = self._reshaped(array, -1, kernel * channels)
        matrix = weights.transpose(2, 1, 0).reshape(-1, filters)
        array = self._node("MatMul", array, self._constant(matrix))
        if biases:
            array = self._node("Add", array, *biases)
        array = self._reshaped(array, -1, windows, filters)
        self._node("Transpose", array, output=convolution.output[0], perm=[0, 2, 1])

    def used_arrays(self) -> list[Any]:
        """Return the constants that are inputs of nodes."""
        used = {name for node in self.nodes for name in node.input}
        return [array for name, array in self._arrays.items() if name in used]

    def _integers(self, values: npt.ArrayLike) -> str:
        return self._constant(np.array(values, np.int64))  # NumPy's integers may have 32 bits

    def _constant(self, values: npt.ArrayLike) -> str:
        name = f"product_constant_{len(self._arrays)}"
        array = np.ascontiguousarray(values)
        self._arrays[name] = self._onnx.numpy_helper.from_array(array, name)
        return name

    def _reshaped(self, array: str, *shape: int) -> str:
        return self._node("Reshape", array, self._integers(shape))

    def _node(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:  # noqa: ANN401 - as in onnx
        """Add a node and return the name of its output."""
        output = output or f"product_{operator}_{len(self.nodes)}"
        node = self._onnx.helper.make_node(operator, inputs, [output], output, **attributes)
        self.nodes.append(node)
        return output
