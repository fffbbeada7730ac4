"""Silero's voice activity detection network, run block by block; its state is kept in between.

The input of the network (https://github.com/snakers4/silero-vad, MIT) is VAD frames of 512 samples,
each with the 64 samples before it. The network keeps an LSTM state of 128 cells. Its sequence form
takes many VAD frames in one call. Here each call gets a block of `levels.BLOCK` samples, counted
from the start of the recording. Therefore rounding does not depend on the sizes of the input
blocks.

The convolutions of the network are replaced by products of matrices, which take half of the time:
onnxruntime computes the convolutions of each VAD frame separately, as products with matrices of one
to five columns. Here the windows of all VAD frames are the rows of one matrix:

    input (frames, channels, length)
      -> windows (frames * windows, kernel * channels)
      -> product with the weights (kernel * channels, filters)
      -> output (frames, filters, windows)
"""

import logging
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from whisperbatch.dependencies import interface_note
from whisperbatch.errors import EngineError, ModelError
from whisperbatch.runtimes.onnx_graph import OnnxGraph
from whisperbatch.runtimes.onnx_sessions import open_session
from whisperbatch.types import Samples, SpeechFrames
from whisperbatch.vad.levels import FRAME, reblock
from whisperbatch.vad.weights import find_weights

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

log = logging.getLogger(__name__)

PLAIN_AXES: Final = 3  # of the weights of a convolution over one axis
PROBED: Final = 2  # VAD frames in the call that shows the lengths of arrays


def network_with_products(path: Path) -> bytes:
    """Return the network of an .onnx file, with products, as the content of an .onnx file.

    Only rounding changes the probabilities. A convolution stays as it is if it does not compute
    each VAD frame separately, is not one-dimensional, or has several groups, a dilation or
    automatic padding. A network with nested graphs stays as it is.

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
    network = _Network({array.name: array for array in graph.initializer})
    for node in graph.node:
        attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        length = lengths.get(node.input[0]) if node.op_type == "Conv" else None
        if length and network.is_plain(node, attributes):
            network.add_product(node, attributes, length)
        else:
            network.keep(node)
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


class _Network(OnnxGraph):
    """Collects the nodes of the new network.

    Args:
        arrays: the constants of the network, by name.
    """

    def __init__(self, arrays: dict[str, Any]) -> None:
        super().__init__()
        self._arrays = arrays

    @property
    def nodes(self) -> list[Any]:
        """The nodes of the new network."""
        return self._nodes

    def keep(self, node: Any) -> None:  # noqa: ANN401 - a type of onnx
        """Add a node of the network."""
        self._nodes.append(node)

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
        """Add a convolution, with one group and without dilation, as a product."""
        before, after = attributes.get("pads", (0, 0))
        [stride] = attributes.get("strides", [1])
        array, weights_name, *biases = convolution.input
        weights = self._onnx.numpy_helper.to_array(self._arrays[weights_name])
        filters, channels, kernel = weights.shape
        windows = (length + before + after - kernel) // stride + 1
        used = (windows - 1) * stride + kernel  # samples; the rest does not fill a window
        block = math.gcd(stride, kernel)  # samples: each window begins and ends with a block

        array = self.add("Pad", array, self.integers(0, 0, before, 0, 0, after))
        array = self.add("Slice", array, self.integers(0), self.integers(used), self.integers(2))
        array = self.add("Transpose", array, perm=[0, 2, 1])
        shape = self.integers(-1, used // block, block * channels)
        array = self.add("Reshape", array, shape)
        first_blocks = np.arange(windows)[:, None] * (stride // block)
        blocks = (first_blocks + np.arange(kernel // block)).astype(np.int64)
        array = self.add("Gather", array, self.constant(blocks), axis=1)
        array = self.add("Reshape", array, self.integers(-1, kernel * channels))
        matrix = weights.transpose(2, 1, 0).reshape(-1, filters)
        array = self.add("MatMul", array, self.constant(matrix))
        if biases:
            array = self.add("Add", array, *biases)
        array = self.add("Reshape", array, self.integers(-1, windows, filters))
        self.add("Transpose", array, perm=[0, 2, 1])
        self._nodes[-1].output[0] = convolution.output[0]

    def used_arrays(self) -> list[Any]:
        """Return the constants that are inputs of nodes."""
        used = {name for node in self._nodes for name in node.input}
        arrays = [array for name, array in self._arrays.items() if name in used]
        return arrays + self._constants


CONTEXT: Final = 64  # samples before a VAD frame that are part of the network's input
CELLS: Final = 128  # of the network's LSTM


class SileroVad:
    """A Vad that runs Silero's network. Thread-safe.

    Raises:
        ModelError: no installed package contains the weights, or the file does not load.
    """

    hop = FRAME

    def __init__(self) -> None:
        path = find_weights()
        try:
            # VAD frames depend on each other: more threads are slower
            self._session = open_session(network_with_products(path), threads=1)
        except Exception as error:  # see both functions
            reason = " ".join(str(error).split())  # some messages have several lines
            raise ModelError(
                f"{path}: does not load as a Silero network ({reason})"
                f"{interface_note(error) or '; reinstall its package'}"
            ) from error
        log.debug("voice activity detection: %s", path)

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        """See `protocols.Vad`."""
        stream = self.stream()
        for samples in reblock(blocks):
            padding = -len(samples) % FRAME
            padded = np.pad(samples, (0, padding)) if padding else samples
            yield SpeechFrames(samples, stream.push(padded))

    def stream(self) -> "SileroStream":
        """Return the state of the network at the start of a recording."""
        return SileroStream(self._session)


class SileroStream:
    """The network, run over one recording; its state is kept between the calls.

    Args:
        session: the network, loaded by onnxruntime.
    """

    def __init__(self, session: "InferenceSession") -> None:
        self._session = session
        self._context = np.zeros(CONTEXT, np.float32)
        self._hidden = self._cell = np.zeros((1, 1, CELLS), np.float32)

    def push(self, samples: Samples) -> npt.NDArray[np.float32]:
        """Return the speech probability of each of the next VAD frames.

        Args:
            samples: complete VAD frames, shape (n_frames * FRAME,).

        Raises:
            EngineError: the network failed.
        """
        frames = samples.reshape(-1, FRAME)
        rows = np.empty((len(frames), CONTEXT + FRAME), np.float32)
        rows[:, CONTEXT:] = frames
        rows[:1, :CONTEXT] = self._context
        rows[1:, :CONTEXT] = frames[:-1, -CONTEXT:]
        inputs = {"input": rows, "h": self._hidden, "c": self._cell}
        try:
            found, self._hidden, self._cell = self._session.run(None, inputs)
        except Exception as error:  # see SileroVad
            raise EngineError(
                f"voice activity detection failed: {error}{interface_note(error)}"
            ) from error
        self._context = samples[-CONTEXT:].copy()
        probabilities: npt.NDArray[np.float32] = np.ravel(found)
        return probabilities
