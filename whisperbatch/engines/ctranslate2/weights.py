"""CTranslate2's copies of a model's weights: the complete model, and models for sampling only.

CTranslate2 cannot use every model directory as it is: `align` fails if config.json does not list
the alignment heads, as in models that were converted before CTranslate2 3.23. CTranslate2 reads
config.json itself, so it gets a temporary directory with a complete config.json and links to the
other files.

CTranslate2's random generators belong to the threads of a model. A generator is seeded at its first
use and never again, so each sampled row needs a new thread, and only a new model has new threads.
Loading base from its file takes 0.6 s of processor time in int8, mostly to round the weights.

The sampler makes a new model cheap. It has only what CTranslate2 needs to decode rows that are
already encoded: the decoder, and the smallest encoder that CTranslate2 accepts (one layer). The
weights are already rounded to 8 bits, and lie in memory in the format of a model directory. A new
model of base then takes 0.1 s, and gives the same text as the complete model, to the last digit.

    model.bin -> arrays of the decoder, rounded -> sampler files (62 MB for base) -> a model per row
"""

import functools
import io
import json
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import ctranslate2
import numpy as np
import numpy.typing as npt

from whisperbatch.engines.arrays import MAX_LEVEL
from whisperbatch.engines.model_info import ModelInfo
from whisperbatch.errors import ModelError
from whisperbatch.models.files import one_line, read_json
from whisperbatch.models.model_bin import Variable, read_headers, read_variable, write_model_bin
from whisperbatch.threads import Lock, keep_in_children, reset_after_fork

log = logging.getLogger(__name__)

CONFIG: Final = "config.json"
LOADED_FILES: Final = ("model.bin", "vocabulary.json", "vocabulary.txt")
"""The files that CTranslate2 reads besides config.json."""

SUBSTITUTES: Final = {
    "suppress_ids": "lists no tokens to suppress",
    "suppress_ids_begin": "lists no tokens to suppress at the start of a text",
    "alignment_heads": (
        "lists no alignment heads of this decoder; times of words come from all heads of the upper "
        "half of the decoder's layers"
    ),
    "lang_ids": "lists no languages, or other tokens as languages; the tokenizer's are used",
}
"""The log message for each setting that is replaced."""

MODEL_BIN: Final = "model.bin"
UPPER_ENCODER: Final = re.compile(r"encoder/layer_[1-9]\d*/")  # all encoder layers but the first
MATRIX_DIMENSIONS: Final = 2  # convolutions have 3; CTranslate2 does not round them on every device


class CTranslate2Weights:
    """A model on CTranslate2, loaded when `model` is first read.

    The fallback of the engine on ONNX Runtime may never need its copy.

    Args:
        model: the model.
        **settings: CTranslate2's settings, such as device and compute_type.
    """

    def __init__(self, model: ModelInfo, **settings: Any) -> None:  # noqa: ANN401 - CTranslate2's
        self._model, self._settings = model, settings
        self._lock = Lock()
        self._loaded: Any = None
        self._sampler_files: dict[str, bytes] | None = None
        reset_after_fork(self)

    def _after_fork(self) -> None:
        """Load the weights again when they are needed: the threads of the model are missing."""
        self._loaded = None

    @property
    def model(self) -> Any:  # noqa: ANN401 - untyped
        """The loaded model.

        Raises:
            ModelError: the weights do not load.
        """
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def new_sampler(self) -> Any:  # noqa: ANN401 - untyped
        """Return a new model whose random generator is unused, to sample rows of encoder output.

        The first call reads the sampler's weights from the file; they stay in memory until `free`.

        Raises:
            ModelError: the weights do not load.
        """
        first_device = self._settings["device_index"][0]
        settings = {**self._settings, "device_index": first_device, "inter_threads": 1}
        with self._errors():
            files = self._files_of_sampler()
            sampler = ctranslate2.models.Whisper(self._model.name, files=files, **settings)
        keep_in_children(sampler)
        return sampler

    def _files_of_sampler(self) -> dict[str, bytes]:
        model = self._model
        int8_weights = self._settings["compute_type"].startswith("int8")
        with self._lock:
            if self._sampler_files is None:
                self._sampler_files = sampler_files(
                    model.directory, model.missing_settings(), int8_weights=int8_weights
                )
                size = sum(map(len, self._sampler_files.values()))
                log.debug("model %s: the sampler takes %d MB", model.name, size >> 20)
            return self._sampler_files

    def free(self) -> None:
        """Free the loaded model and the sampler."""
        with self._lock:
            self._sampler_files = None
            if self._loaded is not None:
                self._loaded.unload_model()

    def _load(self) -> Any:  # noqa: ANN401 - untyped
        model = self._model
        with (
            self._errors(),
            with_settings(model.directory, model.missing_settings()) as directory,
        ):
            loaded = ctranslate2.models.Whisper(str(directory), **self._settings)
        keep_in_children(loaded)
        return loaded

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except ModelError:
            raise
        except Exception as error:  # RuntimeError, and the errors of CTranslate2's bindings
            raise ModelError(
                f"{self._model.directory}: the weights do not load: {one_line(error)}"
            ) from error


@contextmanager
def with_settings(directory: Path, settings: Mapping[str, Any]) -> Iterator[Path]:
    """Give a directory from which CTranslate2 loads a model with these settings.

    Without settings, the directory is used unchanged. Otherwise the `with` block gets a temporary
    directory, in which the settings replace those of config.json; it is deleted when the block
    ends. CTranslate2 keeps no file open.

    Args:
        directory: of the model.
        settings: see `ModelInfo.missing_settings`.

    Raises:
        ModelError: config.json cannot be read.
    """
    if not settings:
        yield directory
        return
    config = read_json(directory / CONFIG, dict)
    _log_once(directory, tuple(settings))
    with tempfile.TemporaryDirectory(
        prefix="whisperbatch-", ignore_cleanup_errors=True
    ) as temporary:
        complete = Path(temporary)
        for path in (directory / name for name in LOADED_FILES):
            if path.is_file():
                _link(path.resolve(), complete / path.name)
        (complete / CONFIG).write_text(json.dumps({**config, **settings}), encoding="utf-8")
        yield complete


@functools.cache
def _log_once(directory: Path, settings: tuple[str, ...]) -> None:
    for setting in settings:
        log.info("%s: %s", directory / CONFIG, SUBSTITUTES[setting])


def _link(source: Path, target: Path) -> None:
    """Make `source` available as `target`.

    Symbolic links need a privilege on Windows, hard links the same file system; a copy always works
    but takes time and space.
    """
    for link in (os.symlink, os.link):
        with suppress(OSError, NotImplementedError):
            link(source, target)
            return
    shutil.copyfile(source, target)


def sampler_files(
    directory: Path, settings: Mapping[str, Any], *, int8_weights: bool
) -> dict[str, bytes]:
    """Return the files of the sampler, for the argument `files` of `ctranslate2.models.Whisper`.

    Args:
        directory: of the model.
        settings: replace those of config.json. See `ModelInfo.missing_settings`.
        int8_weights: round the matrices to 8 bits; otherwise the weights stay as stored.

    Raises:
        ModelError: a file of the model cannot be read.
    """
    arrays: dict[str, npt.NDArray[Any]] = {}
    aliases: dict[str, str] = {}
    stored: dict[int, str] = {}  # the first name of the data at each offset
    for header in read_headers(directory / MODEL_BIN).values():
        if UPPER_ENCODER.match(header.name):
            continue
        name = stored.setdefault(header.offset, header.name) if header.size else header.name
        if name != header.name:
            aliases[header.name] = name
        elif int8_weights and _is_matrix(header):
            arrays |= _rounded(header.name, read_variable(directory / MODEL_BIN, header))
        else:
            arrays[header.name] = read_variable(directory / MODEL_BIN, header)
    model_bin = io.BytesIO()
    write_model_bin(model_bin, arrays, aliases)
    config = {**read_json(directory / CONFIG, dict), **settings}
    vocabularies = (directory / name for name in LOADED_FILES if name != MODEL_BIN)
    return {
        MODEL_BIN: model_bin.getvalue(),
        CONFIG: json.dumps(config).encode(),
        **{path.name: path.read_bytes() for path in vocabularies if path.is_file()},
    }


def _is_matrix(header: Variable) -> bool:
    """Return whether CTranslate2 rounds this array: a matrix of weights in floating point."""
    return (
        header.name.endswith("weight")
        and len(header.shape) == MATRIX_DIMENSIONS
        and header.is_float
    )


def _rounded(name: str, weights: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    """Return a matrix in 8 bits and the factors of its rows, as CTranslate2 computes them."""
    float32 = weights.astype(np.float32)
    magnitudes = np.abs(float32).max(axis=1)
    factors = np.full(len(float32), 1, np.float32)
    np.divide(np.float32(MAX_LEVEL), magnitudes, out=factors, where=magnitudes > 0)
    float32 *= factors[:, None]
    return {name: np.rint(float32, out=float32).astype(np.int8), f"{name}_scale": factors}
