"""Builds ONNX graphs node by node from arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.errors import MissingExtraError

Attribute: TypeAlias = int | float | str | Sequence[int] | Sequence[str]

OPSET: Final = 17  # of ONNX 1.12: known to every onnxruntime that whisperbatch supports
IR_VERSION: Final = 8  # likewise

MICROSOFT: Final = "com.microsoft"
"""The domain of onnxruntime's own operators."""


@dataclass(frozen=True, slots=True)
class Port:
    """An input or an output of a graph.

    Attributes:
        name: of the port.
        shape: the size of each axis; a text stands for any size.
        dtype: of the numbers.
    """

    name: str
    shape: Sequence[int | str]
    dtype: npt.DTypeLike = np.float32


class OnnxGraph:
    """Collects the nodes of a graph.

    Raises:
        MissingExtraError: the package onnx is not installed.
    """

    def __init__(self) -> None:
        try:
            import onnx  # noqa: PLC0415 - needed only to build a graph
        except ImportError as error:
            raise MissingExtraError(
                "the graphs for onnxruntime cannot be built, as onnx is not installed: "
                "pip install onnx"
            ) from error
        self._onnx: Any = onnx
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._names: dict[tuple[int, ...], str] = {}

    def constant(self, array: npt.ArrayLike) -> str:
        """Return the name of a constant. Floating-point numbers become float32."""
        values = np.asarray(array)
        if values.dtype.kind == "f":
            values = values.astype(np.float32)
        name = f"constant_{len(self._constants)}"
        values = np.ascontiguousarray(values).reshape(values.shape)
        self._constants.append(self._onnx.numpy_helper.from_array(values, name))
        return name

    def integers(self, *values: int) -> str:
        """Return the name of a constant: a list of 64-bit integers, such as axes or a shape."""
        if values not in self._names:
            self._names[values] = self.constant(np.array(values, np.int64))
        return self._names[values]

    def add(self, operator: str, *inputs: str, **attributes: Attribute) -> str:
        """Add a node and return the name of its first output.

        Args:
            operator: of ONNX, such as "MatMul".
            inputs: names of inputs; "" leaves an optional input out.
            attributes: of the operator; `domain` is the operator's domain.
        """
        return self.add_many(operator, 1, *inputs, **attributes)[0]

    def filled(self, vector: str, value: int, dtype: npt.DTypeLike) -> str:
        """Return a vector as long as another, filled with one number."""
        tensor = self._onnx.numpy_helper.from_array(np.array([value], dtype))
        return self.add("ConstantOfShape", self.add("Shape", vector), value=tensor)

    def size(self, array: str, axis: int) -> str:
        """Return the length of an axis, as a vector of one number."""
        shape = self.add("Shape", array)
        return self.add("Gather", shape, self.integers(axis))

    def add_many(
        self, operator: str, count: int, *inputs: str, **attributes: Attribute
    ) -> list[str]:
        """Add a node and return the names of its first `count` outputs. See `add`."""
        name = f"{operator}_{len(self._nodes)}"
        outputs = [name, *(f"{name}_{number}" for number in range(1, count))]
        node = self._onnx.helper.make_node(operator, list(inputs), outputs, name, **attributes)
        self._nodes.append(node)
        return outputs

    def finish(self, name: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> bytes:
        """Return the graph as the content of an .onnx file."""
        helper = self._onnx.helper
        operators = [
            helper.make_opsetid(domain, 1 if domain else OPSET)
            for domain in sorted({node.domain for node in self._nodes} | {""})
        ]
        graph = helper.make_graph(
            self._nodes,
            name,
            [self._port(port) for port in inputs],
            [self._port(port) for port in outputs],
            self._constants,
        )
        model = helper.make_model(
            graph,
            opset_imports=operators,
            ir_version=IR_VERSION,
            producer_name="whisperbatch",
        )
        content: bytes = model.SerializeToString()
        return content

    def _port(self, port: Port) -> Any:  # noqa: ANN401 - a type of the package onnx
        kind = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(port.dtype))
        return self._onnx.helper.make_tensor_value_info(port.name, kind, list(port.shape))
