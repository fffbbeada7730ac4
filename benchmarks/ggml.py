"""Write CTranslate2's weights as a file for whisper.cpp.

    u32 "ggml" | i32 sizes[10] | i32 type of the matrices
    i32 n_mels | i32 201 | f32 mel filters[n_mels][201]
    i32 count | count times:  u32 length | the token's bytes
    to the end of the file:  i32 rank | i32 length of name | i32 type
                             i32 dims[rank], last dimension first | name | data

All numbers are little-endian. Source: whisper.cpp, models/README.md and the code that reads the
file. Matrices are float16 or Q8_0, whisper.cpp's type with blocks of a float16 scale and 32 8-bit
integers. Convolutions are float16; biases, norms and positions are float32.
"""

import hashlib
import secrets
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from benchmarks import conversions
from benchmarks.conversions import dimensions, read_openai, read_vocabulary
from whisperbatch.features.whisper import mel_filters

CACHE: Final = Path(__file__).parents[1] / ".cache" / "ggml"
MAGIC: Final = 0x67676D6C  # "ggml"
FLOAT32, FLOAT16, Q8_0 = 0, 1, 8  # type codes of a tensor
KINDS: Final = {
    "float16": 1,
    "q8_0": 2007,
}  # type codes of a file; 2007: quantization version 2, 7 for Q8_0
BLOCK: Final = 32  # values with a common scale
BLOCKS: Final = np.dtype([("scale", "<f2"), ("values", "i1", BLOCK)])
SIZES: Final = (
    *("n_vocab", "n_audio_ctx", "n_audio_state", "n_audio_head", "n_audio_layer"),
    *("n_text_ctx", "n_text_state", "n_text_head", "n_text_layer", "n_mels"),
)


def convert(directory: Path, kind: str) -> Path:
    """Return a weights file for whisper.cpp; write the file if it is not in the cache yet.

    The file's name is a hash of the weights and of this program. The file is complete as soon as it
    exists, because it is written under another name and then renamed.

    Args:
        directory: directory of CTranslate2 weights in floating point.
        kind: "float16" or "q8_0".

    Raises:
        ConversionError: the weights are quantized.
    """
    digest = hashlib.sha256()
    for path in (directory / "model.bin", Path(conversions.__file__), Path(__file__)):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    target = CACHE / f"{digest.hexdigest()[:16]}-{kind}.bin"
    if not target.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        scratch = CACHE / f".{target.name}.{secrets.token_hex(4)}.part"
        try:
            with scratch.open("xb") as out:
                write(directory, kind, out)
            scratch.replace(target)
        finally:
            scratch.unlink(missing_ok=True)
    return target


def write(directory: Path, kind: str, out: BinaryIO) -> None:
    """Write the weights of a directory to an open file; see `convert`."""
    arrays = read_openai(directory)
    sizes = dimensions(arrays)
    out.write(struct.pack("<I10i", MAGIC, *(getattr(sizes, name) for name in SIZES)))
    filters = mel_filters(sizes.n_mels).astype("<f4")
    out.write(struct.pack("<3i", KINDS[kind], *filters.shape) + filters.tobytes())
    tokens = read_vocabulary(directory)
    out.write(struct.pack("<i", len(tokens)))
    out.writelines(struct.pack("<I", len(token)) + token for token in tokens)
    for name, array in arrays.items():
        out.writelines(tensor(name, array, kind))


def tensor(name: str, array: npt.NDArray[Any], kind: str) -> Iterator[bytes]:
    """Yield the bytes of an array in the file: its header and its data."""
    if name.startswith("encoder.conv") and array.ndim == 1:
        array = array[:, None]  # one value for each channel, added to all frames
    is_matrix = array.ndim > 1 and name.endswith(".weight")
    if not is_matrix:
        type_, data = FLOAT32, array.astype("<f4")
    elif kind == "float16" or array.ndim > 2:
        type_, data = FLOAT16, array.astype("<f2")
    else:
        type_, data = Q8_0, quantize(array)
    encoded = name.encode()
    yield struct.pack("<3i", array.ndim, len(encoded), type_)
    yield struct.pack(f"<{array.ndim}i", *reversed(array.shape)) + encoded
    yield data.tobytes()


def quantize(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Quantize to Q8_0: blocks of 32 values of a row, the largest of which becomes 127 or -127."""
    values = array.astype(np.float32).reshape(-1, BLOCK)
    scale = np.abs(values).max(axis=1, keepdims=True) / 127
    blocks = np.empty(len(values), BLOCKS)
    blocks["scale"] = scale[:, 0]
    blocks["values"] = np.rint(values / np.where(scale > 0, scale, 1))
    return blocks
