"""Model files of a few hundred bytes, and packages that contain them."""

import hashlib
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from whisperbatch.errors import ModelError
from whisperbatch.models.packages import STAMP, PackagedModel, WeightsFile
from whisperbatch.models.registry import find_model


def encode_string(text: str) -> bytes:
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


def encode_variable(
    name: str, shape: tuple[int, ...], dtype: int, data: bytes, *, size: int | None = None
) -> bytes:
    """Header and data of an array; `size` states a wrong size of the data."""
    dims = struct.pack(f"<B{len(shape)}I", len(shape), *shape)
    return (
        encode_string(name)
        + dims
        + struct.pack("<BI", dtype, len(data) if size is None else size)
        + data
    )


ARRAYS = (
    encode_variable("decoder/scale", (), 0, b"abcd"),
    encode_variable("decoder/weight", (3, 5), 4, bytes(range(30))),
    encode_variable("encoder/weight", (2, 3), 1, bytes(6)),
)


def encode_model_bin(
    *,
    version: int = 6,
    spec: str = "WhisperSpec",
    arrays: Iterable[bytes] = ARRAYS,
    aliases: tuple[tuple[str, str], ...] = (("encoder/same", "encoder/weight"),),
) -> bytes:
    """The bytes of a model.bin with these arrays and aliases."""
    arrays = tuple(arrays)
    return (
        struct.pack("<I", version)
        + encode_string(spec)
        + struct.pack("<II", 3, len(arrays))
        + b"".join(arrays)
        + struct.pack("<I", len(aliases))
        + b"".join(encode_string(alias) + encode_string(name) for alias, name in aliases)
    )


FILES = {
    "model.bin": encode_model_bin(),
    "config.json": b'{"alignment_heads": [[1, 0]]}',
    "tokenizer.json": b'{"version": "1.0"}',
    "vocabulary.json": b'["a", "b"]',
}


BIG = encode_model_bin(arrays=[encode_variable("w", (3_000_000,), 1, bytes(3_000_000))])


CUT = 2_000_001  # bytes of the model.bin in the first package


def write_model(directory: Path, **changes: bytes | None) -> Path:
    """Write the files of a model; `model_bin=None` leaves model.bin out."""
    directory.mkdir(parents=True, exist_ok=True)
    contents = {
        key.replace("_json", ".json").replace("_txt", ".txt").replace("_bin", ".bin"): value
        for key, value in changes.items()
    }
    for name, data in {**FILES, **contents}.items():
        if data is not None:
            (directory / name).write_bytes(data)
    return directory


def error_message(name: Any, **options: Any) -> str:
    """The message with which `find_model` fails; always one line."""
    with pytest.raises(ModelError) as caught:
        find_model(name, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def make_packages(
    site: Path, first: str = "fake_base_1", second: str = "fake_base_2"
) -> PackagedModel:
    """Write two packages with a model.bin in two parts; importing a package is an error."""
    for package in (first, second):
        (site / package / "data").mkdir(parents=True)
        (site / package / "__init__.py").write_text("raise RuntimeError('imported')\n")
    write_model(site / second / "data", model_bin=None)
    (site / first / "data" / "part1").write_bytes(BIG[:CUT])
    (site / second / "data" / "part2").write_bytes(BIG[CUT:])
    parts: dict[str, tuple[WeightsFile, ...]] = {
        name: (WeightsFile(second, f"data/{name}"),) for name in FILES
    }
    parts["model.bin"] = (WeightsFile(first, "data/part1"), WeightsFile(second, "data/part2"))
    digests = {name: sha256(data) for name, data in {**FILES, "model.bin": BIG}.items()}
    return PackagedModel(parts, digests)


def assert_complete(directory: Path) -> None:
    """Check that the assembled model has exactly its files, with the right content."""
    assert sorted(path.name for path in directory.iterdir()) == sorted([*FILES, STAMP])
    assert (directory / "model.bin").read_bytes() == BIG
    for name in set(FILES) - {"model.bin"}:
        assert (directory / name).read_bytes() == FILES[name]
