"""The probes: functions that call whisperbatch and its libraries, each in a separate process.

`processes.run_probe` starts the process. A probe takes and returns values that JSON can represent.
"""

import faulthandler
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from whisperbatch.dependencies import interface_note
from whisperbatch.doctor.clip import CLIP, SECONDS
from whisperbatch.doctor.extras import is_complete
from whisperbatch.doctor.processes import STARTED
from whisperbatch.errors import WhisperBatchError

CLIPS: Final = 4  # in a batch
BATCH_SIZE: Final = 8 * CLIPS  # the first batch of a run has an eighth of the rows
MAX_FIRST_SECONDS: Final = 5.0
"""If the first transcription takes longer, no batch follows. base takes 0.7 s on two cores."""

# The imports are inside the functions: each probe loads only the libraries that it checks.
# ruff: noqa: PLC0415


def import_modules(modules: Sequence[str]) -> dict[str, Any]:
    """Import modules; return the message of each module's exception."""
    from whisperbatch.runtimes.openvino_package import import_openvino

    failures: dict[str, str] = {}
    for module in modules:
        try:
            import_openvino() if module == "openvino" else import_module(module)
        except Exception as error:  # noqa: BLE001 - a damaged package can raise anything
            failures[module] = _line(error)
    return {"failures": failures}


def compare_names(modules: Sequence[str]) -> dict[str, Any]:
    """Return the names that whisperbatch uses and that modules lack, by module."""
    from whisperbatch.dependencies import missing_names

    missing: dict[str, list[str]] = {}
    for name in missing_names(modules):
        missing.setdefault(name.partition(".")[0], []).append(name)
    return {"missing": missing}


def find_folders() -> dict[str, Any]:
    """Return the folders of the caches: "huggingface" and "whisperbatch"."""
    from huggingface_hub import constants

    from whisperbatch.models.packages import default_cache

    return {"huggingface": constants.HF_HUB_CACHE, "whisperbatch": str(default_cache())}


def decode_audio(codecs: Sequence[str]) -> dict[str, Any]:
    """Return the codecs that PyAV cannot decode, and the seconds of audio in the clip."""
    import av

    import whisperbatch as wb

    missing: list[str] = []
    for codec in codecs:
        try:
            av.Codec(codec, "r")
        except ValueError:  # av.codec.codec.UnknownCodecError
            missing.append(codec)
    with wb.open_audio(CLIP) as reader:
        samples = sum(len(block) for block in reader.blocks())
    return {"missing": missing, "seconds": samples / 16000}


def detect_speech() -> dict[str, Any]:
    """Return the seconds of speech that the VAD finds in the clip."""
    import whisperbatch as wb

    chunks = list(wb.chunk_audio(CLIP))
    return {"seconds": sum((chunk.end - chunk.start) / 16000 for chunk in chunks)}


def diarizer_state() -> dict[str, Any]:
    """Return the state of the diarizer's weights, and their folder or the command to install."""
    from whisperbatch.diarization import built_in_state

    state, place = built_in_state()
    return {"state": state, "place": place}


def diarize_clip() -> dict[str, Any]:
    """Return the number of speakers in the clip, the seconds needed, and the weights' folder."""
    import whisperbatch as wb
    from whisperbatch.diarization import built_in_state

    wb.diarize(CLIP)  # the first call converts and loads the weights
    start = time.perf_counter()
    speakers = len(wb.diarize(CLIP).speakers)
    seconds = time.perf_counter() - start
    return {"speakers": speakers, "seconds": seconds, "place": built_in_state()[1]}


def find_weights(model: str, revision: str | None = None) -> dict[str, Any]:
    """Find and check a model's weights, or download them; return their directory and size.

    An empty `model` is the default model, or another model that needs no download.
    """
    from whisperbatch.models import available_models, find_model, locate_model

    if not model:
        names = [DEFAULT_MODEL, *available_models()]
        model = next((name for name in names if locate_model(name)[0] != "hub"), DEFAULT_MODEL)
    directory = find_model(model, transformers=is_complete("torch"), revision=revision)
    patterns = ("model.bin", "*.safetensors")
    size = sum(path.stat().st_size for pattern in patterns for path in directory.glob(pattern))
    return {
        "model": model,
        "directory": str(directory),
        "bytes": size,
        "ctranslate2": (directory / "model.bin").is_file(),
    }


def find_devices() -> dict[str, Any]:
    """Return the compute types of CTranslate2 on each device, and the number of GPUs of PyTorch.

    Only the compute types that "auto" may choose are returned, in the order of preference.
    """
    import ctranslate2

    from whisperbatch.engines.devices import PREFERRED_COMPUTE_TYPES

    def compute_types(device: str, index: int = 0) -> list[str]:
        supported = ctranslate2.get_supported_compute_types(device, index)
        return [name for name in PREFERRED_COMPUTE_TYPES[device] if name in supported]

    count = ctranslate2.get_cuda_device_count()
    return {
        "cpu": compute_types("cpu"),
        "cuda": [compute_types("cuda", index) for index in range(count)],
    }


def find_torch_devices() -> dict[str, Any]:
    """Return the number of GPUs that PyTorch finds."""
    import torch

    return {"cuda": torch.cuda.device_count()}


def check_openvino() -> dict[str, Any]:
    """Check that OpenVINO is installed in a usable version; raise MissingExtraError otherwise."""
    from whisperbatch.runtimes.openvino_package import check_openvino

    check_openvino()
    return {}


def load_cuda_libraries() -> dict[str, Any]:
    """Return the libraries that CTranslate2 needs on a GPU and that do not load, with the fix."""
    from whisperbatch.engines.ctranslate2.cuda_libraries import install_hint, preload_libraries

    return {"missing": {name: install_hint(name) for name in preload_libraries()}}


def transcribe_clip(directory: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Transcribe the clip, then a batch of clips, unless the first takes long.

    The first transcription may compile and allocate, so the batch shows the speed.

    Args:
        directory: of the weights.
        settings: keywords of `whisperbatch.load`.

    Returns:
        "texts": all transcripts; "times_real_time": speed; "peak_bytes": memory.
    """
    import whisperbatch as wb

    with wb.load(directory, **settings) as asr:
        start = time.perf_counter()
        texts = [asr.transcribe(CLIP, language="en").text]
        seconds = time.perf_counter() - start
        if seconds < MAX_FIRST_SECONDS:
            start = time.perf_counter()
            batch = asr.transcribe_many([CLIP] * CLIPS, language="en", batch_size=BATCH_SIZE)
            texts += [transcript.text for transcript in batch]
            seconds = (time.perf_counter() - start) / CLIPS
    return {"texts": texts, "times_real_time": SECONDS / seconds, "peak_bytes": _peak_memory()}


def _peak_memory() -> int:
    """Return the largest amount of memory that this process used, in bytes; 0 if unknown."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


DEFAULT_MODEL: Final = "base"
PROBES: Final = MappingProxyType(
    {
        probe.__name__: probe
        for probe in (
            *(import_modules, compare_names, find_folders, decode_audio, detect_speech),
            *(find_weights, find_devices, find_torch_devices, check_openvino),
            *(load_cuda_libraries, transcribe_clip, diarizer_state, diarize_clip),
        )
    }
)
"""The probes by name."""


def main(name: str, arguments: str) -> None:
    """Run a probe, and write its result or its exception to standard output.

    Whatever libraries print goes to standard error.

    Args:
        name: of the probe.
        arguments: its keyword arguments as JSON.
    """
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as output:
        os.dup2(2, 1)
        faulthandler.enable()
        _suppress_core_dump()
        print(STARTED, file=sys.stderr, flush=True)  # noqa: T201 - read by `processes`
        probe: Callable[..., dict[str, Any]] = PROBES[name]
        try:
            result: dict[str, Any] = {"values": probe(**json.loads(arguments))}
        except Exception as error:  # noqa: BLE001 - the parent process reports it
            result = {**_failure(error), "traceback": traceback.format_exc()}
        json.dump(result, output)
    os._exit(0)  # without the destructors of libraries, which may crash after a correct result


def _failure(error: Exception) -> dict[str, str]:
    """Return the message of an exception, and the fix that whisperbatch's messages end with."""
    message, separator, fix = _line(error).rpartition("; ")
    if separator and (isinstance(error, WhisperBatchError) or interface_note(error)):
        return {"failure": message, "fix": fix}
    return {"failure": _line(error), "fix": ""}


def _line(error: Exception) -> str:
    """Return an exception in one line."""
    text = " ".join(str(error).split())
    if isinstance(error, WhisperBatchError) and text:
        return text
    note = interface_note(error)
    return f"{type(error).__name__}: {text}{note}" if text else f"{type(error).__name__}{note}"


def _suppress_core_dump() -> None:
    """Write no core file if a library aborts the process: the file may be larger than the disk."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
