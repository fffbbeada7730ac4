"""Whisper's encoder on OpenVINO, from the same weights: the extra `openvino`.

Its graph is built from the arrays of CTranslate2's model.bin, node by node; nothing is exported or
converted beforehand. In bfloat16, where the processor has it, it is both faster and nearer to
float32 than CTranslate2's encoder in int8.

    features (1, n_mels, frames) -> conv, conv / 2 -> + positions -> layers -> norm
             -> (1, frames / 2, d_model)

Rows go through one by one: a row fills the cores, and what becomes of it does not then depend on
the rows beside it.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from queue import LifoQueue
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from whisperbatch.errors import EngineError, MissingExtraError, ModelError
from whisperbatch.weights import read_arrays

log = logging.getLogger(__name__)

EPSILON: Final = 1e-5  # of layer normalisation, PyTorch's
Precision = Literal["bf16", "f32"]
Arrays = Mapping[str, npt.NDArray[Any]]


class OpenVinoEncoder:
    """An encoder for CTranslate2's decoder. Thread-safe; releases the GIL while it works.

    Args:
        directory: of CTranslate2 weights.
        exact: float32, even where bfloat16 is to be had.
        workers: how many rows are encoded at a time.
        threads: for each of them.

    Attributes:
        precision: that it computes in.

    Raises:
        MissingExtraError: OpenVINO is not installed.
        ModelError: the weights are not to be used.
    """

    def __init__(self, directory: Path, *, exact: bool, workers: int, threads: int) -> None:
        try:
            import openvino  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise MissingExtraError(
                "encoder='openvino' needs OpenVINO: pip install 'whisperbatch[openvino]'"
            ) from error
        core = openvino.Core()
        capabilities = core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        self.precision: Precision = "bf16" if "BF16" in capabilities and not exact else "f32"
        try:
            model = _graph(read_arrays(directory / "model.bin", "encoder/"))
            self._compiled = core.compile_model(
                model,
                "CPU",
                {
                    "INFERENCE_PRECISION_HINT": self.precision,
                    "INFERENCE_NUM_THREADS": workers * threads,
                    "NUM_STREAMS": workers,
                },
            )
        except (RuntimeError, LookupError, ValueError) as error:
            raise ModelError(f"{directory}: OpenVINO cannot use the encoder: {error}") from error
        # each holds the memory of one row on its way: threads come and go, these stay
        self._requests: LifoQueue[Any] = LifoQueue()
        for _ in range(workers):
            self._requests.put(self._compiled.create_infer_request())
        log.info("encoder on OpenVINO (%s)", self.precision)

    def __call__(self, features: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Encoder output of each row.

        Args:
            features: shape (batch, n_mels, frames), frames an even number of at most 3000.

        Returns:
            Shape (batch, frames / 2, d_model).
        """
        request = self._requests.get()
        try:
            rows = [np.array(request.infer({0: row[None]})[0]) for row in features]
        except RuntimeError as error:
            raise EngineError(f"OpenVINO: {error}") from error
        finally:
            self._requests.put(request)
        return np.concatenate(rows)


def _graph(arrays: Arrays) -> Any:  # noqa: ANN401 - OpenVINO is not imported here
    from openvino import Model  # noqa: PLC0415 - an extra
    from openvino import opset13 as ops  # noqa: PLC0415 - likewise

    graph = _Graph(ops, arrays)
    n_mels = arrays["encoder/conv1/weight"].shape[1]
    features = ops.parameter([1, n_mels, -1], np.float32, name="features")
    hidden = graph.convolution(features, "encoder/conv1", stride=1)
    hidden = graph.convolution(hidden, "encoder/conv2", stride=2)
    hidden = graph.positioned(ops.transpose(hidden, graph.constant(0, 2, 1)))
    layer = 0
    while f"encoder/layer_{layer}/ffn/linear_0/weight" in arrays:
        hidden = graph.layer(hidden, f"encoder/layer_{layer}")
        layer += 1
    hidden = graph.normalised(hidden, "encoder/layer_norm")
    return Model([ops.result(hidden)], [features], "encoder")


class _Graph:
    """The nodes of Whisper's encoder."""

    def __init__(self, ops: Any, arrays: Arrays) -> None:  # noqa: ANN401 - a module
        self._ops, self._arrays = ops, arrays
        self._heads = int(arrays["encoder/num_heads"])
        self._size = len(arrays["encoder/conv1/bias"])

    def constant(self, *values: int) -> Any:  # noqa: ANN401 - a node, as all that follow
        return self._ops.constant(np.array(values, np.int64))

    def weights(self, name: str) -> Any:  # noqa: ANN401
        """An array, kept as small as it is stored."""
        stored = self._ops.constant(np.ascontiguousarray(self._arrays[name]))
        plain = self._ops.convert(stored, "f32")
        if (scale := self._arrays.get(f"{name}_scale")) is None:
            return plain
        ones = (1,) * (self._arrays[name].ndim - scale.ndim)
        scales = scale.astype(np.float32).reshape(*scale.shape, *ones)  # one a row, or one for all
        return self._ops.divide(plain, self._ops.constant(scales))

    def convolution(self, hidden: Any, name: str, *, stride: int) -> Any:  # noqa: ANN401
        """(1, channels, frames) to (1, d_model, frames / stride)."""
        found = self._ops.convolution(
            hidden, self.weights(f"{name}/weight"), [stride], [1], [1], [1]
        )
        bias = self._ops.reshape(
            self.weights(f"{name}/bias"), self.constant(1, -1, 1), special_zero=False
        )
        return self._ops.gelu(self._ops.add(found, bias), "erf")

    def positioned(self, hidden: Any) -> Any:  # noqa: ANN401
        count = self._ops.gather(
            self._ops.shape_of(hidden), self.constant(1), self._ops.constant(np.int64(0))
        )
        positions = self._ops.slice(
            self.weights("encoder/position_encodings/encodings"),
            self.constant(0),
            count,
            self.constant(1),
            self.constant(0),
        )
        return self._ops.add(hidden, positions)

    def layer(self, hidden: Any, name: str) -> Any:  # noqa: ANN401
        within = self.normalised(hidden, f"{name}/self_attention/layer_norm")
        hidden = self._ops.add(hidden, self._attention(within, f"{name}/self_attention"))
        within = self.normalised(hidden, f"{name}/ffn/layer_norm")
        within = self._ops.gelu(self._linear(within, f"{name}/ffn/linear_0"), "erf")
        return self._ops.add(hidden, self._linear(within, f"{name}/ffn/linear_1"))

    def normalised(self, hidden: Any, name: str) -> Any:  # noqa: ANN401
        found = self._ops.mvn(
            hidden,
            self.constant(-1),
            normalize_variance=True,
            eps=EPSILON,
            eps_mode="inside_sqrt",
        )
        scaled = self._ops.multiply(found, self.weights(f"{name}/gamma"))
        return self._ops.add(scaled, self.weights(f"{name}/beta"))

    def _linear(self, hidden: Any, name: str) -> Any:  # noqa: ANN401
        product = self._ops.matmul(
            hidden, self.weights(f"{name}/weight"), transpose_a=False, transpose_b=True
        )
        return self._ops.add(product, self.weights(f"{name}/bias"))

    def _attention(self, hidden: Any, name: str) -> Any:  # noqa: ANN401
        """Queries, keys and values are stacked in one matrix."""
        ops = self._ops
        split = self.constant(0, 0, 3, self._heads, self._size // self._heads)
        stacked = ops.reshape(self._linear(hidden, f"{name}/linear_0"), split, special_zero=True)
        stacked = ops.transpose(stacked, self.constant(2, 0, 3, 1, 4))
        zero = ops.constant(np.int64(0))
        queries, keys, values = (
            ops.gather(stacked, ops.constant(np.int64(number)), zero) for number in range(3)
        )
        found = ops.scaled_dot_product_attention(queries, keys, values)
        found = ops.transpose(found, self.constant(0, 2, 1, 3))
        found = ops.reshape(found, self.constant(0, 0, self._size), special_zero=True)
        return self._linear(found, f"{name}/linear_1")
