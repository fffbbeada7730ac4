"""CTranslate2's copy of a model's weights."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ctranslate2

from whisperbatch.engines.ctranslate2.model_files import with_settings
from whisperbatch.engines.ctranslate2.sampler import sampler_files
from whisperbatch.engines.model_info import ModelInfo
from whisperbatch.errors import ModelError
from whisperbatch.models.files import one_line
from whisperbatch.threads import Lock, keep_in_children, reset_after_fork

log = logging.getLogger(__name__)


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
                self._loaded = self._load(self._settings)
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

    def _load(self, settings: dict[str, Any]) -> Any:  # noqa: ANN401 - untyped
        model = self._model
        with (
            self._errors(),
            with_settings(model.directory, model.missing_settings()) as directory,
        ):
            loaded = ctranslate2.models.Whisper(str(directory), **settings)
        keep_in_children(loaded)
        return loaded

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise errors of loading as a ModelError."""
        try:
            yield
        except ModelError:
            raise
        except Exception as error:  # RuntimeError, and the errors of CTranslate2's bindings
            raise ModelError(
                f"{self._model.directory}: the weights do not load: {one_line(error)}"
            ) from error
