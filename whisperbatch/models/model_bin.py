"""CTranslate2's model.bin: its header, walked from end to end without reading the data.

    u32 version | string spec name | u32 revision | u32 count
    count times:  string name | u8 rank | u32 dims[rank] | u8 dtype | u32 bytes | data
    u32 count of aliases | (string alias, string name) each

A string is a u16 length, with the final NUL, and its bytes. All little-endian. Walking the 214
variables of base takes 1 ms. It has to be done before CTranslate2 opens the file: that allocates
what a variable's shape needs, and reads into it as many bytes as the file says.
"""

import hashlib
import math
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from whisperbatch.errors import ModelError

VERSIONS: Final = range(4, 7)  # binary versions of this form; CTranslate2 4 writes 6, reads all
ITEM_BYTES: Final = {0: 4, 1: 1, 2: 2, 3: 4, 4: 2, 5: 2}  # f32, i8, i16, i32, f16, bf16
IDENTIFYING: Final = (
    *("config.json", "model.bin", "tokenizer.json", "vocabulary.*"),
    *("generation_config.json", "model*.safetensors"),
)
SAMPLES: Final = 256  # stretches of a large file that tell it from another
SAMPLE: Final = 16 << 10  # bytes of each
LFS_POINTER: Final = b"version https://git-lfs"


@dataclass(frozen=True, slots=True)
class Variable:
    """One array of the file.

    Attributes:
        name: as CTranslate2 names it.
        shape: as stored.
        dtype: 0 f32, 1 i8, 2 i16, 3 i32, 4 f16, 5 bf16.
        offset: of its data in the file, in bytes.
        size: of its data, in bytes.
    """

    name: str
    shape: tuple[int, ...]
    dtype: int
    offset: int
    size: int


def check_weights(path: Path) -> None:
    """Walk a model.bin to its end.

    Raises:
        ModelError: it is no Whisper model.bin, is cut short, or has something after its end.
    """
    try:
        with path.open("rb") as file:
            for _ in variables(file, path):
                pass
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error


def variables(file: BinaryIO, path: Path) -> Iterator[Variable]:
    """The arrays of an open model.bin, in order; the file is checked along the way.

    Raises:
        ModelError: as `check_weights`.
    """
    size = path.stat().st_size
    if file.read(len(LFS_POINTER)) == LFS_POINTER:
        raise ModelError(f"{path}: is a Git LFS pointer, not the weights; run `git lfs pull`")
    file.seek(0)
    reader = _Reader(file, path, size)
    version = reader.number("<I")
    if version not in VERSIONS:
        raise ModelError(
            f"{path}: is no CTranslate2 model of binary version {VERSIONS[0]} to {VERSIONS[-1]}"
        )
    spec = reader.string()
    if spec != "WhisperSpec":
        raise ModelError(f"{path}: holds a {spec[:40]!r} model, not Whisper's")
    reader.number("<I")  # revision
    for _ in range(reader.number("<I")):
        yield reader.variable()
    for _ in range(reader.number("<I")):
        reader.string()
        reader.string()
    if file.tell() != size:
        raise ModelError(
            f"{path}: has {size - file.tell()} bytes after its end; it is damaged, fetch it again"
        )


DTYPES: Final = {0: "<f4", 1: "i1", 2: "<i2", 3: "<i4", 4: "<f2"}


def read_arrays(path: Path, prefix: str) -> dict[str, npt.NDArray[Any]]:
    """The arrays whose names begin with `prefix`, as they are stored: mapped, not read.

    Raises:
        ModelError: as `check_weights`; or one is bfloat16, which numpy has not.
    """
    found: dict[str, npt.NDArray[Any]] = {}
    with path.open("rb") as file:
        for one in [one for one in variables(file, path) if one.name.startswith(prefix)]:
            if one.dtype not in DTYPES:
                raise ModelError(f"{path}: {one.name} is bfloat16, which is not read here")
            dtype = np.dtype(DTYPES[one.dtype])
            if one.size:
                found[one.name] = np.memmap(path, dtype, "r", one.offset, one.shape)
    return found


def let_go(array: npt.NDArray[Any]) -> None:
    """Keep nothing in memory of an array that `read_arrays` has mapped, until it is read again.

    What is read of the vocabulary is a few tokens at a time, and grows for hours.
    """
    if isinstance(array.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
        array.base.madvise(mmap.MADV_DONTNEED)


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shape of every array, by its name.

    Raises:
        ModelError: as `check_weights`.
    """
    with path.open("rb") as file:
        return {one.name: one.shape for one in variables(file, path)}


def fingerprint(directory: Path) -> str:
    """Tells one model from another: a hash of its small files, and of samples of its weights.

    The 145 MB of base take 20 ms. It does not find damage.

    Raises:
        ModelError: a file cannot be read.
    """
    found = hashlib.blake2b(digest_size=16)
    try:
        for path in sorted(path for name in IDENTIFYING for path in directory.glob(name)):
            with path.open("rb") as file:
                size = path.stat().st_size
                found.update(f"{path.name} {size} ".encode())
                for start in range(0, size, max(size // SAMPLES, SAMPLE)):
                    file.seek(start)
                    found.update(file.read(SAMPLE))
    except OSError as error:
        raise ModelError(f"{directory}: cannot be read: {error.strerror}") from error
    return found.hexdigest()


class _Reader:
    def __init__(self, file: BinaryIO, path: Path, size: int) -> None:
        self._file, self._path, self._size = file, path, size

    def number(self, form: str) -> int:
        data = self._file.read(struct.calcsize(form))
        if len(data) < struct.calcsize(form):
            raise self._short()
        return int(struct.unpack(form, data)[0])

    def string(self) -> str:
        length = self.number("<H")
        data = self._file.read(length)
        if len(data) < length:
            raise self._short()
        return data.rstrip(b"\0").decode(errors="replace")

    def variable(self) -> Variable:
        name = self.string()
        shape = tuple(self.number("<I") for _ in range(self.number("<B")))
        dtype, size = self.number("<B"), self.number("<I")
        if size != math.prod(shape) * ITEM_BYTES.get(dtype, -1):
            raise ModelError(
                f"{self._path}: variable {name[:60]!r} is damaged; fetch the file again"
            )
        offset = self._file.tell()
        if offset + size > self._size:
            raise self._short()
        self._file.seek(size, 1)
        return Variable(name, shape, dtype, offset, size)

    def _short(self) -> ModelError:
        return ModelError(f"{self._path}: is cut short at {self._size} bytes; fetch it again")
