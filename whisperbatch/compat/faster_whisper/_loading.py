"""The weights of `WhisperModel`: files in memory, settings, and `WhisperModel.model`."""

import sys
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

from whisperbatch import Transcriber
from whisperbatch.engines.settings import EngineKeywords, check_device, is_cuda, is_default
from whisperbatch.errors import ClosedError, OptionError
from whisperbatch.options import checks, is_same
from whisperbatch.text import one_line, shown
from whisperbatch.threads import Lock, cached_property


def write_files(name: str | PathLike[str], files: object) -> "TemporaryDirectory[str] | None":
    """Write the files of a model to a new temporary directory.

    Args:
        name: of the model, for messages.
        files: for each file name, the contents as bytes or as an open binary file.

    Returns:
        The directory, which is removed with the object; None without files.

    Raises:
        OptionError: `files` is of another kind.
    """
    if files is None:
        return None
    checks.path("model_size_or_path", name)
    if not issubclass(type(files), Mapping):
        raise OptionError(f"files must be a dict of file names and contents, not {shown(files)}")
    contents = {
        _file_name(file): _contents(file, content)
        for file, content in cast("Mapping[Any, Any]", files).items()
    }
    if not contents:
        return None
    label = "".join(letter if letter.isalnum() else "-" for letter in Path(name).name)[:40]
    directory: TemporaryDirectory[str] = TemporaryDirectory(prefix=f"whisperbatch-{label}-")
    for file, content in contents.items():
        (Path(directory.name) / file).write_bytes(content)
    return directory


def _file_name(name: object) -> str:
    if not isinstance(name, str) or not name or Path(name).name != name:
        raise OptionError(f"files: {shown(name)} is not the name of a file")
    return name


def _contents(name: str, content: Any) -> bytes:  # noqa: ANN401 - bytes or an open file
    try:
        content = content.read() if hasattr(content, "read") else content
        return bytes(memoryview(content))
    except Exception as error:  # a foreign object may raise anything
        raise OptionError(f"files: {name} must be bytes or an open binary file") from error


DEFAULTS: Final = {"tensor_parallel": False, "max_queued_batches": 0}
"""Further arguments of CTranslate2's model, with the only values that are accepted."""


def engine_settings(
    device: object,
    device_index: object,
    compute_type: object,
    num_workers: object,
    **others: Any,  # noqa: ANN401 - several types
) -> EngineKeywords:
    """Return the settings that are not at their defaults.

    On CUDA the number of CPU threads has no effect, and faster-whisper accepts any number. One
    worker is faster-whisper's default, so the engine chooses the number.

    Raises:
        OptionError: the device is unknown, or there is no worker.
    """
    checks.integer("num_workers", num_workers, minimum=1, maximum=sys.maxsize)
    settings = {
        "device_index": tuple(device_index) if type(device_index) is list else device_index,
        "compute_type": compute_type,
        "inter_threads": 0 if num_workers == 1 else num_workers,
        **others,
    }
    if is_cuda(check_device(device)):
        del settings["intra_threads"]
    given = {name: value for name, value in settings.items() if not is_default(name, value)}
    return cast("EngineKeywords", given)


def check_model_arguments(arguments: Mapping[str, object]) -> None:
    """Check the further arguments of CTranslate2's model.

    Raises:
        OptionError: an argument is unknown, or does not have its default.
    """
    for name, value in arguments.items():
        if name not in DEFAULTS or not is_same(value, DEFAULTS[name]):
            raise OptionError(f"{one_line(name)}={shown(value)} cannot be honoured; leave it out")


class CTranslate2Model:
    """`WhisperModel.model`: CTranslate2's model, for programs that call its methods.

    It has all attributes and methods of `ctranslate2.models.Whisper`. `transcribe` does not use
    them. If CTranslate2 is the engine that transcribes, they are those of the engine's model.
    Otherwise CTranslate2 loads the weights, too, when a program uses the first of them, except the
    attributes below.

    Args:
        asr: transcribes.
        load: loads the same weights with the engine "ctranslate2".
        device: "cpu" or "cuda".
        device_index: number of the device, or several numbers.
        compute_type: as in faster-whisper.

    Attributes:
        is_multilingual: False for English-only models.
        n_mels: number of mel bands of the features.
        num_workers: number of batches decoded at a time.
        device: "cpu" or "cuda".
        device_index: numbers of the devices.
    """

    def __init__(
        self,
        asr: Transcriber,
        load: Callable[[], Transcriber],
        *,
        device: str,
        device_index: object,
        compute_type: str,
    ) -> None:
        self._asr, self._load = asr, load
        self._compute_type = compute_type
        self._ctranslate2: Transcriber | None = None
        self._is_closed = False
        self._lock = Lock()
        self.is_multilingual = asr.engine.is_multilingual
        self.n_mels = asr.engine.n_mels
        self.num_workers = asr.engine.workers
        self.device = device
        several = type(device_index) in {list, tuple}
        self.device_index = list(cast("Any", device_index)) if several else [device_index]

    @cached_property
    def compute_type(self) -> str:
        """Type of the weights."""
        from whisperbatch.engines.devices import choose_compute_type  # noqa: PLC0415 - heavy

        if self._compute_type not in ("default", "auto"):
            return self._compute_type
        return choose_compute_type("auto", self.device, tuple(cast("Any", self.device_index)))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - untyped
        """Return an attribute of CTranslate2's model.

        Raises:
            ClosedError: `unload_model` was called.
            ModelError: the weights do not load.
        """
        from ctranslate2.models import Whisper  # noqa: PLC0415 - heavy

        if name.startswith("_") or not hasattr(Whisper, name):
            raise AttributeError(f"model has no attribute {name!r}")
        return getattr(self._loaded(), name)

    def _loaded(self) -> Any:  # noqa: ANN401 - untyped
        from whisperbatch.engines.ctranslate2.engine import CTranslate2Engine  # noqa: PLC0415

        with self._lock:
            if self._is_closed:
                raise ClosedError(f"model {self._asr.engine.name} is closed")
            if self._ctranslate2 is None:
                shared = isinstance(self._asr.engine, CTranslate2Engine)
                self._ctranslate2 = self._asr if shared else self._load()
            return cast("CTranslate2Engine", self._ctranslate2.engine).ctranslate2_model

    def unload_model(self, to_cpu: bool = False) -> None:
        """Free the weights. They cannot be loaded again.

        Raises:
            OptionError: `to_cpu` is not False.
        """
        if to_cpu:
            raise OptionError(
                "to_cpu=True cannot be honoured: freed weights cannot be loaded again"
            )
        with self._lock:
            self._is_closed = True
            self._asr.close()
            if self._ctranslate2:
                self._ctranslate2.close()
