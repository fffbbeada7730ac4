"""Builds ONNX graphs from the arrays of a checkpoint."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.errors import ModelError
from whisperbatch.runtimes.onnx_graph import OnnxGraph

Array: TypeAlias = npt.NDArray[Any]
Arrays: TypeAlias = Mapping[str, Array]


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


class GraphBuilder(OnnxGraph):
    """Collects the nodes of a graph that computes with the arrays of a checkpoint.

    Args:
        arrays: of the checkpoint, by name.

    Attributes:
        weights: the arrays.
    """

    def __init__(self, arrays: Arrays) -> None:
        super().__init__()
        self.weights: Final = Weights(arrays)
