"""Reads the arrays of a PyTorch checkpoint (.pt, .bin), without PyTorch and without running code.

A checkpoint is a zip file of uncompressed members, as torch.save writes it since PyTorch 1.6:

    archive/data.pkl   a pickle: names, shapes, and for each tensor the number of a storage
    archive/data/0     storage 0: numbers without header; several tensors may share a storage
    archive/byteorder  "little"; missing in old files, which are little-endian

A pickle is a program, so a downloaded file could run anything. Here only the operations that
torch.save needs for tensors and plain containers are accepted, and every name in the pickle
becomes an inert object of this file.
"""

import io
import pickle
import pickletools
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from whisperbatch.diarization.networks.graph import Array
from whisperbatch.errors import ModelError

MAX_PICKLE: Final = 16 << 20  # bytes; the pickle of CAM++ (937 arrays) has 0.15 MB
MAX_DIMENSIONS: Final = 8

DTYPES: Final[Mapping[str, str]] = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
}

OPERATIONS: Final = frozenset(
    {
        *("PROTO", "STOP", "MARK", "GLOBAL", "REDUCE", "BUILD", "NEWOBJ", "BINPERSID"),
        *("EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
        *("SETITEM", "SETITEMS", "APPEND", "APPENDS", "BINPUT", "LONG_BINPUT"),
        *("BINGET", "LONG_BINGET", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1"),
        *("BININT2", "LONG1", "BINFLOAT", "BINUNICODE"),
    }
)
"""The operations of protocol 2 for tensors and containers. Other protocols have further ones."""

PLACEHOLDERS: Final = frozenset(
    {
        ("torch.torch_version", "TorchVersion"),
        ("pyannote.audio.core.task", "Specifications"),
        ("pyannote.audio.core.task", "Problem"),
        ("pyannote.audio.core.task", "Resolution"),
    }
)
"""Classes that describe pyannote's training; their content is not needed."""


class _Placeholder:
    """Stands for an object of a class that is not needed; it accepts and forgets any content."""

    def __new__(cls, *_: object) -> Self:
        return super().__new__(cls)

    def __init__(self, *_: object) -> None: ...

    def __setstate__(self, state: object) -> None: ...


class _Storage(NamedTuple):
    """A reference to a member of the zip file."""

    dtype: str
    key: str
    length: int


class _Tensor(NamedTuple):
    """What the pickle says of a tensor, unchecked."""

    storage: Any
    offset: Any
    size: Any
    stride: Any


def read_torch_file(path: Path) -> dict[str, Array]:
    """Return the tensors of a checkpoint by name, as read-only arrays.

    The tensors are those of the entry "state_dict", if there is one, otherwise those of the
    checkpoint itself.

    Raises:
        ModelError: the file is missing, damaged, or contains anything but tensors.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return _Reader(archive, path).read()
    except ModelError:
        raise
    except Exception as error:  # zipfile and pickle raise nearly any exception on damaged files
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ModelError(f"{path}: is not an intact PyTorch checkpoint ({reason[:200]})") from error


class _Reader:
    def __init__(self, archive: zipfile.ZipFile, path: Path) -> None:
        self._archive, self._path = archive, path
        self._storages: dict[_Storage, npt.NDArray[Any]] = {}
        pickles = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        if len(pickles) != 1 or pickles[0].count("/") != 1:
            raise self._error("has no single data.pkl")
        self._root = pickles[0].removesuffix("data.pkl")

    def read(self) -> dict[str, Array]:
        byteorder = f"{self._root}byteorder"
        if byteorder in self._archive.namelist() and self._member("byteorder", 16) != b"little":
            raise self._error("is not little-endian")
        content = self._unpickle(self._member("data.pkl", MAX_PICKLE))
        if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
            content = content["state_dict"]
        if not isinstance(content, dict):
            raise self._error("is not a dictionary of tensors")
        arrays: dict[str, Array] = {}
        for name, tensor in content.items():
            if not isinstance(name, str) or not isinstance(tensor, _Tensor):
                raise self._error(f"its entry {str(name)[:80]!r} is not a tensor")
            arrays[name] = self._array(name, tensor)
        return arrays

    def _error(self, problem: str) -> ModelError:
        return ModelError(f"{self._path}: is not a usable PyTorch checkpoint: {problem}")

    def _member(self, name: str, limit: int) -> bytes:
        """Return a member of the zip file. It is not compressed, so its size is no surprise."""
        info = self._archive.getinfo(self._root + name)
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise self._error(f"{name} is compressed")
        if info.file_size > limit:
            raise self._error(f"{name} has {info.file_size} bytes; at most {limit} are expected")
        return self._archive.read(info)

    def _unpickle(self, data: bytes) -> object:
        for operation, argument, _ in pickletools.genops(data):
            if operation.name not in OPERATIONS:
                raise self._error(f"its pickle uses {operation.name}")
            # Python's memo is an array: a large number would allocate as much memory
            if operation.name == "LONG_BINPUT" and int(str(argument)) > len(data):
                raise self._error("its pickle is damaged")
        return _Unpickler(data).load()

    def _array(self, name: str, tensor: _Tensor) -> Array:
        storage, offset, size, stride = tensor
        if not isinstance(storage, _Storage):
            raise self._error(f"{name} has no storage")
        for numbers in ((offset,), size, stride):
            if type(numbers) is not tuple or any(
                type(number) is not int or number < 0 for number in numbers
            ):
                raise self._error(f"{name} has a wrong shape")
        if len(size) != len(stride) or len(size) > MAX_DIMENSIONS:
            raise self._error(f"{name} has a wrong shape")
        values = self._storage(storage)
        if 0 in size:
            return np.empty(size, values.dtype)
        last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        if last >= len(values):
            raise self._error(f"{name} extends beyond its storage")
        steps = [
            step * values.itemsize if n > 1 else 0 for n, step in zip(size, stride, strict=True)
        ]
        return np.lib.stride_tricks.as_strided(values[offset:], size, steps, writeable=False)

    def _storage(self, storage: _Storage) -> npt.NDArray[Any]:
        if storage not in self._storages:
            size = storage.length * np.dtype(storage.dtype).itemsize
            data = self._member(f"data/{storage.key}", size)
            if len(data) != size:
                raise self._error(f"storage {storage.key} has {len(data)} bytes instead of {size}")
            self._storages[storage] = np.frombuffer(data, storage.dtype)
        return self._storages[storage]


class _Unpickler(pickle.Unpickler):
    """Makes tensors and plain containers; every other name is an error."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - a class or a function
        if module == "collections" and name == "OrderedDict":
            return OrderedDict
        if module == "torch._utils" and name == "_rebuild_tensor_v2":
            rebuild: Callable[..., _Tensor] = _rebuild_tensor
            return rebuild
        if module == "torch" and name in DTYPES:
            return _Storage(DTYPES[name], "", 0)  # an object: a pickle cannot call it
        if (module, name) in PLACEHOLDERS:
            return _Placeholder
        raise pickle.UnpicklingError(f"the pickle refers to {module}.{name}")

    def persistent_load(self, pid: object) -> _Storage:
        """Return the storage of a reference: ("storage", type, key, device, length)."""
        match pid:
            case ("storage", _Storage(dtype=dtype), str(key), str(), int(length)) if (
                key.isdigit() and length >= 0
            ):
                return _Storage(dtype, key, length)
        raise pickle.UnpicklingError("the pickle has a wrong reference to a storage")


def _rebuild_tensor(
    storage: object, offset: object, size: object, stride: object, *_: object
) -> _Tensor:
    """Take the arguments of PyTorch's function; gradients and hooks are not needed."""
    return _Tensor(storage, offset, size, stride)
