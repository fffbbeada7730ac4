"""Fabricated PyTorch checkpoints, and random weights with the shapes of the two networks."""

import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = dict[str, npt.NDArray[Any]]

TYPES = {"f4": "FloatStorage", "i8": "LongStorage"}


def text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def integer(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def integers(values: tuple[int, ...]) -> bytes:
    return b"(" + b"".join(map(integer, values)) + b"t"


def name(module: str, symbol: str) -> bytes:
    return f"c{module}\n{symbol}\n".encode()


def tensor(
    key: str,
    length: int,
    *,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    offset: int = 0,
    storage: str = "FloatStorage",
) -> bytes:
    """The operations that torch.save writes for a tensor."""
    reference = text("storage") + name("torch", storage) + text(key) + text("cpu") + integer(length)
    hooks = name("collections", "OrderedDict") + b")R"
    arguments = b"(" + reference + b"tQ" + integer(offset) + integers(size) + integers(stride)
    return name("torch._utils", "_rebuild_tensor_v2") + b"(" + arguments + b"\x89" + hooks + b"tR"


def dictionary(entries: Mapping[str, bytes]) -> bytes:
    return b"}(" + b"".join(text(key) + value for key, value in entries.items()) + b"u"


def write(path: Path, body: bytes, storages: Mapping[str, bytes]) -> Path:
    """Write a zip file whose pickle is `body`."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + body + b".")
        for key, data in storages.items():
            archive.writestr(f"archive/data/{key}", data)
    return path


def save(path: Path, arrays: Mapping[str, npt.NDArray[Any]], *, lightning: bool = False) -> Path:
    """Write a checkpoint with a storage for each array."""
    entries, storages = {}, {}
    for key, (label, array) in enumerate(arrays.items()):
        stride = tuple(step // array.itemsize for step in np.ascontiguousarray(array).strides)
        entries[label] = tensor(
            str(key),
            array.size,
            size=array.shape,
            stride=stride if array.ndim else (),
            storage=TYPES[array.dtype.str[1:]],
        )
        storages[str(key)] = array.tobytes()
    body = dictionary(entries)
    return write(path, dictionary({"state_dict": body}) if lightning else body, storages)


def _norm(label: str, size: int, *, affine: bool = True) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{label}.running_mean", (size,)
    yield f"{label}.running_var", (size,)
    if affine:
        yield f"{label}.weight", (size,)
        yield f"{label}.bias", (size,)


def _embedding_shapes() -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "head.conv1.weight", (32, 1, 3, 3)
    yield from _norm("head.bn1", 32)
    yield "head.conv2.weight", (32, 32, 3, 3)
    yield from _norm("head.bn2", 32)
    for block in ("layer1.0", "layer1.1", "layer2.0", "layer2.1"):
        for number in (1, 2):
            yield f"head.{block}.conv{number}.weight", (32, 32, 3, 3)
            yield from _norm(f"head.{block}.bn{number}", 32)
        if block.endswith("0"):
            yield f"head.{block}.shortcut.0.weight", (32, 32, 1, 1)
            yield from _norm(f"head.{block}.shortcut.1", 32)
    yield "xvector.tdnn.linear.weight", (128, 320, 5)
    yield from _norm("xvector.tdnn.nonlinear.batchnorm", 128)
    channels = 128
    for number, layers in enumerate((12, 24, 16), 1):
        for layer in range(1, layers + 1):
            label = f"xvector.block{number}.tdnnd{layer}"
            yield from _norm(f"{label}.nonlinear1.batchnorm", channels)
            yield f"{label}.linear1.weight", (128, channels, 1)
            yield from _norm(f"{label}.nonlinear2.batchnorm", 128)
            yield f"{label}.cam_layer.linear_local.weight", (32, 128, 3)
            yield f"{label}.cam_layer.linear1.weight", (64, 128, 1)
            yield f"{label}.cam_layer.linear1.bias", (64,)
            yield f"{label}.cam_layer.linear2.weight", (32, 64, 1)
            yield f"{label}.cam_layer.linear2.bias", (32,)
            channels += 32
        yield from _norm(f"xvector.transit{number}.nonlinear.batchnorm", channels)
        yield f"xvector.transit{number}.linear.weight", (channels // 2, channels, 1)
        channels //= 2
    yield from _norm("xvector.out_nonlinear.batchnorm", channels)
    yield "xvector.dense.linear.weight", (192, 2 * channels, 1)
    yield from _norm("xvector.dense.nonlinear.batchnorm", 192, affine=False)


def random_embedding(seed: int = 0) -> Arrays:
    """Random weights of CAM++. A tenth of the factors is negative, and some are zero."""
    random = np.random.default_rng(seed)
    arrays: Arrays = {}
    for label, shape in _embedding_shapes():
        if label.endswith("running_var"):
            array = random.uniform(0.5, 2, shape)
        elif "weight" in label and len(shape) > 1:
            array = random.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape)
        elif label.endswith("weight"):
            array = random.uniform(0.5, 1.5, shape) * random.choice(
                [-1, 0, 1, 1, 1, 1, 1, 1], shape
            )
        else:
            array = random.normal(0, 0.2, shape)
        arrays[label] = array.astype(np.float32)
    return arrays


def random_segmentation(seed: int = 0) -> Arrays:
    """Random weights of the segmentation network."""
    random = np.random.default_rng(seed)
    edges = np.linspace(30, 7800, 41)
    shapes = {"sincnet.conv1d.1.weight": (60, 80, 5), "sincnet.conv1d.1.bias": (60,)}
    shapes |= {"sincnet.conv1d.2.weight": (60, 60, 5), "sincnet.conv1d.2.bias": (60,)}
    for label, size in (("wav_norm1d", 1), ("norm1d.0", 80), ("norm1d.1", 60), ("norm1d.2", 60)):
        shapes |= {f"sincnet.{label}.weight": (size,), f"sincnet.{label}.bias": (size,)}
    for layer in range(4):
        for suffix in (f"l{layer}", f"l{layer}_reverse"):
            shapes[f"lstm.weight_ih_{suffix}"] = (512, 256 if layer else 60)
            shapes[f"lstm.weight_hh_{suffix}"] = (512, 128)
            shapes[f"lstm.bias_ih_{suffix}"] = shapes[f"lstm.bias_hh_{suffix}"] = (512,)
    for label, shape in (
        ("linear.0", (128, 256)),
        ("linear.1", (128, 128)),
        ("classifier", (7, 128)),
    ):
        shapes |= {f"{label}.weight": shape, f"{label}.bias": shape[:1]}
    arrays: Arrays = {
        label: (random.normal(0, 0.1, shape) + ("norm1d" in label)).astype(np.float32)
        for label, shape in shapes.items()
    }
    bank = "sincnet.conv1d.0.filterbank"
    arrays[f"{bank}.low_hz_"] = edges[:-1, None].astype(np.float32)
    arrays[f"{bank}.band_hz_"] = np.diff(edges)[:, None].astype(np.float32)
    arrays[f"{bank}.window_"] = np.hamming(251)[:125].astype(np.float32)
    return arrays
