"""Builds ONNX graphs node by node from arrays, with the package `onnx`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.errors import MissingExtraError, ModelError

Array: TypeAlias = npt.NDArray[Any]
Arrays: TypeAlias = Mapping[str, Array]
Attribute: TypeAlias = int | float | str | Sequence[int] | Sequence[str]

OPSET: Final = 17  # of ONNX 1.12: known to every onnxruntime that whisperbatch supports
IR_VERSION: Final = 8  # likewise


class Weights:
    """The arrays of a checkpoint, whose shapes are checked when they are read.

    Args:
        arrays: by name.
    """

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def __call__(self, name: str, *shape: int) -> npt.NDArray[np.float64]:
        """Return an array in double precision.

        Raises:
            ModelError: the array is missing, has another shape, or contains NaN or infinity.
        """
        array = self._arrays.get(name)
        if array is None:
            raise ModelError(f"the checkpoint has no {name}: it belongs to another network")
        if array.shape != shape:
            raise ModelError(f"{name} of the checkpoint has shape {array.shape} instead of {shape}")
        values = np.asarray(array, np.float64)
        if not np.isfinite(values).all():
            raise ModelError(f"{name} of the checkpoint contains NaN or infinity")
        return values

    def affine(
        self, name: str, size: int, *, epsilon: float = 1e-5
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return a batch normalisation as factor and summand, each of shape (size,).

        In inference a batch normalisation is `factor * x + summand` for each channel.

        Args:
            name: of the layer.
            size: number of channels.
            epsilon: added to the variance; PyTorch's default.

        Raises:
            ModelError: see `__call__`; or a variance is negative.
        """
        mean = self(f"{name}.running_mean", size)
        variance = self(f"{name}.running_var", size)
        if (variance < 0).any():
            raise ModelError(f"{name}.running_var of the checkpoint is negative")
        factor = 1 / np.sqrt(variance + epsilon)
        if f"{name}.weight" in self:
            factor *= self(f"{name}.weight", size)
        summand = -mean * factor
        if f"{name}.bias" in self:
            summand += self(f"{name}.bias", size)
        return factor, summand

    def scale(
        self, name: str, size: int
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the mean and the standard deviation of each channel after a batch normalisation.

        They are those of the training, each of shape (size,).

        Args:
            name: of the layer.
            size: number of channels.

        Raises:
            ModelError: see `__call__`.
        """
        mean = self(f"{name}.bias", size) if f"{name}.bias" in self else np.zeros(size)
        has_factor = f"{name}.weight" in self
        deviation = np.abs(self(f"{name}.weight", size)) if has_factor else np.ones(size)
        return mean, deviation


class GraphBuilder:
    """Collects the nodes of a graph that computes with the arrays of a checkpoint.

    Args:
        arrays: of the checkpoint, by name.

    Attributes:
        weights: the arrays.

    Raises:
        MissingExtraError: the package onnx is not installed.
    """

    def __init__(self, arrays: Arrays) -> None:
        try:
            import onnx  # noqa: PLC0415 - an extra, needed once to convert the weights
        except ImportError as error:
            raise MissingExtraError(
                "the networks of the diarizer cannot be converted, as onnx is not installed: "
                "pip install 'whisperbatch[diarization]'"
            ) from error
        self.weights: Final = Weights(arrays)
        self._onnx: Any = onnx
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

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
        return self.constant(np.array(values, np.int64))

    def add(self, operator: str, *inputs: str, **attributes: Attribute) -> str:
        """Add a node and return the name of its first output.

        Args:
            operator: of ONNX, such as "MatMul".
            inputs: names of inputs; "" leaves an optional input out.
            attributes: of the operator.
        """
        name = f"{operator}_{len(self._nodes)}"
        node = self._onnx.helper.make_node(operator, list(inputs), [name], name, **attributes)
        self._nodes.append(node)
        return name

    def finish(
        self,
        name: str,
        source: tuple[str, Sequence[int | str]],
        result: tuple[str, Sequence[int | str]],
    ) -> bytes:
        """Return the graph as the content of an .onnx file.

        Args:
            name: of the graph.
            source: name and shape of the input; a text stands for any size.
            result: name and shape of the output.
        """
        helper, float32 = self._onnx.helper, self._onnx.TensorProto.FLOAT
        output = helper.make_node("Identity", [result[0]], ["output"], "output")
        graph = helper.make_graph(
            [*self._nodes, output],
            name,
            [helper.make_tensor_value_info(source[0], float32, list(source[1]))],
            [helper.make_tensor_value_info("output", float32, list(result[1]))],
            self._constants,
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="whisperbatch",
        )
        content: bytes = model.SerializeToString()
        return content
