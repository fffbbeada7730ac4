"""CTranslate2's copy of a model's weights."""

import threading
from typing import Any

import ctranslate2

from whisperbatch.engines.ctranslate2.model_files import with_settings
from whisperbatch.engines.model_info import ModelInfo
from whisperbatch.errors import ModelError
from whisperbatch.models.files import one_line


class CTranslate2Weights:
    """A model on CTranslate2, loaded when `model` is first read.

    The fallback of OpenVINO's engine may never need its copy.

    Args:
        model: the model.
        **settings: CTranslate2's settings, such as device and compute_type.
    """

    def __init__(self, model: ModelInfo, **settings: Any) -> None:  # noqa: ANN401 - CTranslate2's
        self._model, self._settings = model, settings
        self._lock = threading.Lock()
        self._loaded: Any = None

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

    def load_for_sampling(self) -> Any:  # noqa: ANN401 - untyped
        """Load and return another copy with one worker, whose random generators are unused."""
        first_device = self._settings["device_index"][0]
        return self._load({**self._settings, "device_index": first_device, "inter_threads": 1})

    def free(self) -> None:
        """Free the loaded model."""
        with self._lock:
            if self._loaded is not None:
                self._loaded.unload_model()

    def _load(self, settings: dict[str, Any]) -> Any:  # noqa: ANN401 - untyped
        model = self._model
        try:
            with with_settings(model.directory, model.missing_settings()) as directory:
                return ctranslate2.models.Whisper(str(directory), **settings)
        except ModelError:
            raise
        except Exception as error:  # RuntimeError, and the errors of CTranslate2's bindings
            raise ModelError(
                f"{model.directory}: the weights do not load: {one_line(error)}"
            ) from error
