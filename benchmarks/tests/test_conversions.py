"""Weights for other programs: every array of the real weights has its new name and its values."""

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks import conversions, ggml
from benchmarks.conversions import ConversionError, Dimensions
from whisperbatch.features.whisper import mel_filters
from whisperbatch.models.model_bin import read_arrays
from whisperbatch.models.registry import find_model

TYPES: dict[int, np.dtype[Any]] = {
    ggml.FLOAT32: np.dtype("<f4"),
    ggml.FLOAT16: np.dtype("<f2"),
    ggml.Q8_0: ggml.BLOCKS,
}


@pytest.fixture(scope="module")
def directory(tiny_model: str) -> Path:
    return find_model(tiny_model)


@pytest.fixture(scope="module")
def arrays(directory: Path) -> dict[str, npt.NDArray[Any]]:
    return conversions.read_openai(directory)


def test_sizes(arrays: dict[str, npt.NDArray[Any]], base_model: str) -> None:
    assert conversions.dimensions(arrays) == Dimensions(80, 1500, 384, 6, 4, 51864, 448, 384, 6, 4)
    base = conversions.read_openai(find_model(base_model))
    assert conversions.dimensions(base) == Dimensions(80, 1500, 512, 8, 6, 51865, 448, 512, 8, 6)


def test_each_weight_is_converted_once(
    directory: Path, arrays: dict[str, npt.NDArray[Any]]
) -> None:
    stored = read_arrays(directory / "model.bin", "")
    del stored["decoder/projection/weight"]  # another name of the embeddings
    weights = sum(array.size for array in stored.values() if array.dtype.kind == "f")
    keys = (4 + 4 + 4) * 384  # the zeros stored for the biases of keys, which Whisper does not have
    assert sum(array.size for array in arrays.values()) == weights - keys
    assert not any(name.endswith("key.bias") for name in arrays)


def test_queries_keys_and_values_are_separated(
    directory: Path, arrays: dict[str, npt.NDArray[Any]]
) -> None:
    stored = read_arrays(directory / "model.bin", "decoder/layer_2/")
    self_weights, cross_weights = (
        stored[f"decoder/layer_2/{name}"]
        for name in ("self_attention/linear_0/weight", "attention/linear_1/weight")
    )
    converted = {
        (kind, part): arrays[f"decoder.blocks.2.{kind}.{part}.weight"]
        for kind in ("attn", "cross_attn")
        for part in ("query", "key", "value", "out")
    }
    assert np.array_equal(converted["attn", "query"], self_weights[:384])
    assert np.array_equal(converted["attn", "key"], self_weights[384:768])
    assert np.array_equal(converted["attn", "value"], self_weights[768:])
    assert np.array_equal(converted["cross_attn", "key"], cross_weights[:384])
    assert np.array_equal(converted["cross_attn", "value"], cross_weights[384:])
    assert {array.shape for array in converted.values()} == {(384, 384)}


def test_names_of_transformers(arrays: dict[str, npt.NDArray[Any]]) -> None:
    state = conversions.for_transformers(arrays)
    assert len(state) == len(arrays) + 1
    decoder, layer = "decoder.blocks.1", "model.decoder.layers.1"
    for name, transformers_name in {
        "encoder.conv1.bias": "model.encoder.conv1.bias",
        "encoder.positional_embedding": "model.encoder.embed_positions.weight",
        "encoder.ln_post.weight": "model.encoder.layer_norm.weight",
        "encoder.blocks.3.attn.out.bias": "model.encoder.layers.3.self_attn.out_proj.bias",
        "encoder.blocks.0.mlp.0.weight": "model.encoder.layers.0.fc1.weight",
        "decoder.blocks.0.mlp.2.weight": "model.decoder.layers.0.fc2.weight",
        f"{decoder}.mlp_ln.bias": f"{layer}.final_layer_norm.bias",
        f"{decoder}.cross_attn.key.weight": f"{layer}.encoder_attn.k_proj.weight",
        f"{decoder}.cross_attn_ln.bias": f"{layer}.encoder_attn_layer_norm.bias",
        "decoder.ln.weight": "model.decoder.layer_norm.weight",
        "decoder.token_embedding.weight": "proj_out.weight",
    }.items():
        assert state[transformers_name] is arrays[name]


def test_quantized_weights_are_refused(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: Path, prefix: str) -> dict[str, npt.NDArray[Any]]:
        return {"decoder/layer_0/ffn/linear_0/weight": np.zeros((4, 4), np.int8)}

    monkeypatch.setattr(conversions, "read_arrays", read)
    with pytest.raises(ConversionError, match="quantized"):
        conversions.read_openai(directory)


def test_tokens_are_converted_to_bytes(directory: Path, base_model: str) -> None:
    tokens = conversions.read_vocabulary(directory)
    assert len(tokens) == 50256
    assert tokens[:2] == [b"!", b'"']
    assert {bytes([byte]) for byte in range(256)} == set(tokens[:256])
    assert b" the" in tokens
    assert "場".encode() in conversions.read_vocabulary(find_model(base_model))


class Reader:
    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def numbers(self, form: str) -> tuple[int, ...]:
        return struct.unpack(f"<{form}", self._file.read(struct.calcsize(f"<{form}")))

    def take(self, count: int) -> bytes:
        return self._file.read(count)

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        tensors = {}
        while header := self._file.read(12):
            rank, length, type_ = struct.unpack("<3i", header)
            shape = self.numbers(f"{rank}i")[::-1]
            name = self.take(length).decode()
            dtype = TYPES[type_]
            if type_ == ggml.Q8_0:
                shape = (*shape[:-1], shape[-1] // ggml.BLOCK)
            data = self.take(int(np.prod(shape)) * dtype.itemsize)
            tensors[name] = np.frombuffer(data, dtype).reshape(shape)
        return tensors


@pytest.mark.parametrize("kind", ["float16", "q8_0"])
def test_whisper_cpp_file(
    directory: Path, arrays: dict[str, npt.NDArray[Any]], kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    with path.open("wb") as out:
        ggml.write(directory, kind, out)
    reader = Reader(path.read_bytes())
    assert reader.take(4) == b"lmgg"
    assert reader.numbers("11i") == (51864, 1500, 384, 6, 4, 448, 384, 6, 4, 80, ggml.KINDS[kind])
    assert reader.numbers("2i") == (80, 201)
    assert reader.take(80 * 201 * 4) == mel_filters(80).tobytes()
    (count,) = reader.numbers("i")
    tokens = [reader.take(reader.numbers("I")[0]) for _ in range(count)]
    assert tokens == conversions.read_vocabulary(directory)
    tensors = reader.tensors()
    assert tensors.keys() == arrays.keys()
    assert tensors["encoder.conv1.bias"].shape == (384, 1)
    assert tensors["encoder.conv1.weight"].dtype == np.float16
    for name, tensor in tensors.items():
        stored = arrays[name].astype(np.float32)
        if tensor.dtype == ggml.BLOCKS:
            assert name.endswith(".weight")
            scale = tensor["scale"].astype(np.float32)[..., None]
            error = np.abs(tensor["values"] * scale - stored.reshape(*tensor.shape, ggml.BLOCK))
            # Half a step, and 127 times the float16 rounding error of the scale (maybe subnormal).
            assert (error <= (0.5 + 127 * 2**-11) * scale + 127 * 2**-25).all()
        else:
            assert np.array_equal(tensor.ravel(), stored.ravel())
    quantized = sum(tensor.dtype == ggml.BLOCKS for tensor in tensors.values())
    assert quantized == (0 if kind == "float16" else 4 * 6 + 4 * 10 + 1)


def test_a_block_of_zeros_is_quantized() -> None:
    blocks = ggml.quantize(np.zeros((2, 64), np.float16))
    assert blocks.shape == (4,)
    assert not blocks["scale"].any()
    assert not blocks["values"].any()


def test_a_file_is_written_once_and_completely(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ggml, "CACHE", tmp_path / "cache")

    def fail(directory: Path, kind: str, out: io.BytesIO) -> None:
        out.write(b"partial")
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(ggml, "write", fail)
        with pytest.raises(OSError, match="disk full"):
            ggml.convert(directory, "q8_0")
    assert list((tmp_path / "cache").iterdir()) == []
    path = ggml.convert(directory, "q8_0")
    monkeypatch.setattr(ggml, "write", fail)
    assert ggml.convert(directory, "q8_0") == path
    assert list((tmp_path / "cache").iterdir()) == [path]
