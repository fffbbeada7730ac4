"""The format of CTranslate2's model.bin, which is read (headers first) and written.

    u32 version | string spec name | u32 revision | u32 count
    count times:  string name | u8 rank | u32 dims[rank] | u8 dtype | u32 bytes | data
    u32 count of aliases | (string alias, string name) each

A string is a u16 length, which includes the final NUL, and its bytes. All numbers are
little-endian. An alias is another name of an array; CTranslate2's converter stores equal arrays
once. Reading the headers of the 214 variables of base takes 1 ms.

The file must be checked before CTranslate2 opens it: CTranslate2 allocates the memory for a
variable's shape, and then reads as many bytes into it as the file states. architecture.py checks
the names and shapes.
"""

import hashlib
import math
import mmap
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from whisperbatch.errors import ModelError
from whisperbatch.models.files import open_regular

VERSIONS: Final = range(4, 7)  # binary versions of this format; CTranslate2 4 writes 6
ITEM_BYTES: Final = {0: 4, 1: 1, 2: 2, 3: 4, 4: 2, 5: 2}  # f32, i8, i16, i32, f16, bf16
NUMPY_TYPES: Final = {0: "<f4", 1: "i1", 2: "<i2", 3: "<i4", 4: "<f2"}  # numpy has no bf16
BFLOAT16: Final = 5
FLOAT_TYPES: Final = (0, 4, BFLOAT16)
MAX_VARIABLES: Final = 65_536  # arrays, or aliases; large-v3 in int8 has fewer than 2,000
FINGERPRINTED: Final = (
    *("config.json", "model.bin", "tokenizer.json", "vocabulary.*"),
    *("generation_config.json", "model*.safetensors"),
)
FINGERPRINT_BLOCKS: Final = 256  # of a large file, spread evenly
FINGERPRINT_BLOCK: Final = 16 << 10  # bytes
LFS_POINTER: Final = b"version https://git-lfs"


REVISION: Final = 3  # of CTranslate2's WhisperSpec, since CTranslate2 2
TYPE_NUMBERS: Final = {np.dtype(name): number for number, name in NUMPY_TYPES.items()}
TIED_PROJECTION: Final = {"decoder/projection/weight": "decoder/embeddings/weight"}
"""Whisper computes the logits with the token embeddings: alias, and name of the array."""


@dataclass(frozen=True, slots=True)
class Variable:
    """Header of an array in the file.

    Attributes:
        name: CTranslate2's name of the array.
        shape: shape of the stored array.
        dtype: 0 f32, 1 i8, 2 i16, 3 i32, 4 f16, 5 bf16.
        offset: position of the data in the file, in bytes.
        size: size of the data, in bytes.
        value: the value of an array without dimensions; None for other arrays and for bfloat16.
    """

    name: str
    shape: tuple[int, ...]
    dtype: int
    offset: int = 0
    size: int = 0
    value: float | None = None

    @property
    def is_float(self) -> bool:
        """Whether the array is stored in floating point."""
        return self.dtype in FLOAT_TYPES


def read_headers(path: Path) -> dict[str, Variable]:
    """Return the headers of a model.bin by the names of the arrays, aliases included.

    Raises:
        ModelError: the file is not a Whisper model.bin, is cut short, is too long, or contradicts
            itself.
    """
    headers: dict[str, Variable] = {}
    with open_regular(path) as file:
        try:
            for header in variables(file, path):
                if header.name in headers:
                    raise ModelError(
                        f"{path}: is damaged (two variables {header.name[:60]!r}); "
                        "download it again"
                    )
                headers[header.name] = header
        except OSError as error:
            raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from error
    return headers


def variables(file: BinaryIO, path: Path) -> Iterator[Variable]:
    """Yield the headers of all arrays of an open model.bin, then its aliases; check the file.

    An alias of an array that the file lacks is ignored, as in CTranslate2.

    Args:
        file: the file, at its start.
        path: the path of the file.

    Raises:
        ModelError: see `read_headers`.
    """
    size = path.stat().st_size
    if file.read(len(LFS_POINTER)) == LFS_POINTER:
        raise ModelError(f"{path}: is a Git LFS pointer instead of the weights; run `git lfs pull`")
    file.seek(0)
    reader = _Reader(file, path, size)
    version = reader.number("<I")
    if version not in VERSIONS:
        raise ModelError(
            f"{path}: is not a CTranslate2 model of binary version {VERSIONS[0]} to "
            f"{VERSIONS[-1]}; download or convert the model again"
        )
    spec = reader.string()
    if spec != "WhisperSpec":
        raise ModelError(f"{path}: contains a {spec[:40]!r} model; give a Whisper model")
    reader.number("<I")  # revision
    arrays: dict[str, Variable] = {}
    for _ in range(reader.count()):
        array = reader.variable()
        arrays[array.name] = array
        yield array
    for _ in range(reader.count()):
        alias, name = reader.string(), reader.string()
        if name in arrays:
            arrays[alias] = replace(arrays[name], name=alias)
            yield arrays[alias]
    if file.tell() != size:
        raise ModelError(
            f"{path}: is damaged ({size - file.tell()} bytes after the end); download it again"
        )


def read_arrays(path: Path, prefix: str) -> dict[str, npt.NDArray[Any]]:
    """Map the arrays whose names begin with `prefix` into memory. No data are read here.

    Raises:
        ModelError: see `read_headers`; or an array is bfloat16, which numpy does not support.
    """
    arrays: dict[str, npt.NDArray[Any]] = {}
    for header in read_headers(path).values():
        if not header.name.startswith(prefix):
            continue
        if header.dtype not in NUMPY_TYPES:
            raise ModelError(
                f"{path}: {header.name} is bfloat16, which is not supported here; convert the "
                "model with another quantization, for example float16"
            )
        if header.size:
            dtype = np.dtype(NUMPY_TYPES[header.dtype])
            arrays[header.name] = np.memmap(path, dtype, "r", header.offset, header.shape)
    return arrays


def read_variable(path: Path, header: Variable) -> npt.NDArray[Any]:
    """Return an array of a model.bin. bfloat16, which NumPy lacks, becomes float32.

    Raises:
        ModelError: the file cannot be read.
    """
    if not header.size:
        return np.zeros(header.shape, NUMPY_TYPES.get(header.dtype, "<f4"))
    dtype = "<u2" if header.dtype == BFLOAT16 else NUMPY_TYPES[header.dtype]
    try:
        array = np.memmap(path, dtype, "r", header.offset, header.shape)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from error
    if header.dtype != BFLOAT16:
        return array
    float32: npt.NDArray[Any] = (array.astype("<u4") << 16).view("<f4")
    return float32


def release_pages(array: npt.NDArray[Any]) -> None:
    """Free the memory of a mapped array; the next access reads the file again.

    The decoder reads a few rows of the vocabulary at a time. Without this call, the memory that
    they occupy grows for hours.
    """
    if isinstance(array.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
        with suppress(OSError):  # the process has locked its memory
            array.base.madvise(mmap.MADV_DONTNEED)


def fingerprint(directory: Path) -> str:
    """Return a hash that identifies a model: of its small files and of blocks of its weights.

    The 145 MB of base take 20 ms. The hash does not detect damage.

    Raises:
        ModelError: a file cannot be read.
    """
    digest = hashlib.blake2b(digest_size=16)
    try:
        for path in sorted(path for name in FINGERPRINTED for path in directory.glob(name)):
            if not path.is_file():
                continue  # a folder or a named pipe, which no engine reads
            with path.open("rb") as file:
                size = path.stat().st_size
                digest.update(f"{path.name} {size} ".encode())
                step = max(size // FINGERPRINT_BLOCKS, FINGERPRINT_BLOCK)
                for start in range(0, size, step):
                    file.seek(start)
                    digest.update(file.read(FINGERPRINT_BLOCK))
    except OSError as error:
        raise ModelError(f"{directory}: cannot be read: {error.strerror}") from error
    return digest.hexdigest()


class _Reader:
    """Reads numbers, strings and headers from an open model.bin of `size` bytes."""

    def __init__(self, file: BinaryIO, path: Path, size: int) -> None:
        self._file, self._path, self._size = file, path, size

    def number(self, code: str) -> int:
        """Read a number; `code` is its format in `struct`."""
        data = self._file.read(struct.calcsize(code))
        if len(data) < struct.calcsize(code):
            raise self._cut_short()
        return int(struct.unpack(code, data)[0])

    def count(self) -> int:
        """Read the number of arrays or aliases."""
        count = self.number("<I")
        if count > MAX_VARIABLES:
            raise ModelError(f"{self._path}: is damaged ({count} variables); download it again")
        return count

    def string(self) -> str:
        length = self.number("<H")
        data = self._file.read(length)
        if len(data) < length:
            raise self._cut_short()
        if not data.endswith(b"\0"):
            raise ModelError(f"{self._path}: is damaged (a name does not end); download it again")
        return data[:-1].decode(errors="replace")

    def variable(self) -> Variable:
        """Read the header of an array, and skip its data."""
        name = self.string()
        shape = tuple(self.number("<I") for _ in range(self.number("<B")))
        dtype, size = self.number("<B"), self.number("<I")
        if dtype not in ITEM_BYTES or size != math.prod(shape) * ITEM_BYTES[dtype]:
            raise ModelError(
                f"{self._path}: variable {name[:60]!r} is damaged; download the file again"
            )
        offset = self._file.tell()
        if offset + size > self._size:
            raise self._cut_short()
        value = None
        if not shape and dtype in NUMPY_TYPES:
            value = float(np.frombuffer(self._file.read(size), NUMPY_TYPES[dtype])[0])
        self._file.seek(offset + size)
        return Variable(name, shape, dtype, offset, size, value)

    def _cut_short(self) -> ModelError:
        return ModelError(f"{self._path}: is cut short at {self._size} bytes; download it again")


def write_model_bin(
    file: BinaryIO,
    arrays: Mapping[str, npt.NDArray[Any]],
    aliases: Mapping[str, str] = TIED_PROJECTION,
) -> None:
    """Write a complete model.bin.

    Args:
        file: the file, open for writing.
        arrays: by CTranslate2's names, in one of the types of `NUMPY_TYPES`.
        aliases: further names of arrays: alias, and name of the array.

    Raises:
        KeyError: the format has no number for the type of an array.
    """
    file.write(struct.pack("<I", VERSIONS[-1]) + _string("WhisperSpec"))
    file.write(struct.pack("<II", REVISION, len(arrays)))
    for name, array in arrays.items():
        number = TYPE_NUMBERS[array.dtype]
        file.write(_string(name) + struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape))
        file.write(struct.pack("<BI", number, array.nbytes))
        file.write(array.astype(NUMPY_TYPES[number]).tobytes())
    file.write(struct.pack("<I", len(aliases)))
    for alias, name in aliases.items():
        file.write(_string(alias) + _string(name))


def _string(text: str) -> bytes:
    data = text.encode() + b"\0"
    return struct.pack("<H", len(data)) + data
