"""CTranslate2's copy of a model, and the memory that loading it leaves behind."""

import ctypes
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import ctranslate2

from whisperbatch.errors import ModelError

MMAP_THRESHOLD: Final = -3  # malloc.h's M_MMAP_THRESHOLD
LARGE: Final = 512 << 10  # bytes: the features of a row are 960 KB


class CTranslate2Weights:
    """CTranslate2's copy of a model: loaded when it is first asked for.

    Where OpenVINO does all that a run needs, it never is.

    Args:
        directory: of the weights.
        **settings: CTranslate2's.
    """

    def __init__(self, directory: Path, **settings: Any) -> None:  # noqa: ANN401 - CTranslate2's
        self._directory, self._settings = directory, settings
        self._lock = threading.Lock()
        self._loaded: Any = None

    @property
    def model(self) -> Any:  # noqa: ANN401 - untyped
        """The model.

        Raises:
            ModelError: the weights do not load.
        """
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load(self._settings)
            return self._loaded

    def fresh(self) -> Any:  # noqa: ANN401 - untyped
        """One more, of one worker, that has drawn no sample yet."""
        first = self._settings["device_index"][0]
        return self._load({**self._settings, "device_index": first, "inter_threads": 1})

    def free(self) -> None:
        """Free what is loaded."""
        with self._lock:
            if self._loaded is not None:
                self._loaded.unload_model()

    def _load(self, settings: dict[str, Any]) -> Any:  # noqa: ANN401 - untyped
        try:
            return ctranslate2.models.Whisper(str(self._directory), **settings)
        except Exception as error:  # RuntimeError, and what its bindings raise
            raise ModelError(f"{self._directory}: the weights do not load: {error}") from error


def give_back_memory() -> None:
    """Have glibc return to the system what was freed: it keeps all of base's 190 MB in int8.

    And have it return large arrays at once, from now on. By itself it learns not to, and the holes
    that they leave make three hours take more memory than ten minutes.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # another C library
            library = ctypes.CDLL(None)
            library.mallopt(MMAP_THRESHOLD, LARGE)
            library.malloc_trim(0)
