"""Probes: functions that call whisperbatch and its libraries, each in a separate process.

A library that crashes or hangs ends only its probe.

    run_probe ── name, arguments, sys.path ──►  main in a new process, which calls the probe
              ◄── a line of JSON ─────────────  the probe's result, or its exception
"""

import faulthandler
import json
import os
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias

from whisperbatch.dependencies import interface_note
from whisperbatch.doctor.findings import known_fix
from whisperbatch.errors import WhisperBatchError
from whisperbatch.runtimes.interpreter import how_ended, python_command

STARTED: Final = "whisperbatch.doctor: probe"
"""First line that a probe writes to standard error; earlier lines are those of Python itself."""
CLIP: Final = Path(__file__).with_name("clip.opus")
"""9.3 s from the LibriVox recording of "Sense and Sensibility" (Jane Austen, chapter 1), which is
in the public domain like all recordings of LibriVox. It consists of the test recordings
sense_and_sensibility_01_austen_64kb-0920 and -0930 of CMU PocketSphinx (Debian's package
pocketsphinx-testdata), which follow each other in the book, as Opus at 20 kbit/s."""
SECONDS: Final = 9.34  # duration of the clip
CLIPS: Final = 4  # in a batch
BATCH_SIZE: Final = 8 * CLIPS  # the first batch of a run has an eighth of the rows
MAX_FIRST_SECONDS: Final = 5.0
"""If the first transcription takes longer, no batch follows. base takes 0.7 s on two cores."""
DEFAULT_MODEL: Final = "base"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The end of a probe.

    Attributes:
        values: the result of the probe; empty if it failed.
        failure: why there is no result, in one line; "" if there is a result.
        fix: the fix that the exception states, or "".
        details: the traceback, and everything that libraries printed.
    """

    values: dict[str, Any]
    failure: str = ""
    fix: str = ""
    details: str = ""

    def fix_or(self, fallback: str) -> str:
        """Return the fix that the exception states, that of a library's message, or another."""
        return self.fix or known_fix(f"{self.failure} {self.details}") or fallback


Probe: TypeAlias = Callable[..., ProbeResult]
"""`run_probe` with a time limit. A check calls it with a name and the arguments of the probe."""


def run_probe(name: str, *, time_limit: float, **arguments: object) -> ProbeResult:
    """Run a probe in a new process, with this process's `sys.path`.

    Args:
        name: of a probe, a public function below.
        time_limit: seconds after which the process is killed.
        **arguments: keyword arguments of the function; JSON can represent them.
    """
    command = python_command(__name__, "main", name, json.dumps(arguments))
    try:
        process = subprocess.run(  # noqa: S603 - this interpreter
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=time_limit,
            check=False,
            env={**os.environ, "PYTHONIOENCODING": "utf-8:backslashreplace"},
        )
    except subprocess.TimeoutExpired as error:
        return ProbeResult({}, f"no result within {time_limit:g} s", details=_text(error.stderr))
    except OSError as error:
        return ProbeResult({}, f"no process can be started: {error.strerror or error}")
    printed = _text(process.stderr)
    try:
        result = json.loads(process.stdout)
    except ValueError:
        return ProbeResult({}, _end(process.returncode, printed), details=printed)
    if "failure" in result:
        details = f"{printed}\n{result['traceback']}".strip()
        return ProbeResult({}, result["failure"], result["fix"], details)
    return ProbeResult(result["values"], details=printed)


def _end(status: int, printed: str) -> str:
    """Return how a process ended that printed no result, with the last line that it printed."""
    end = f"its process {how_ended(status)}"
    # faulthandler prints the stacks of the threads after the message of the library
    messages = re.split(r"^Fatal Python error", printed, flags=re.MULTILINE)[0].strip()
    last = messages.splitlines()[-1:] or [""]
    return f"{end}: {last[0].strip()}" if last[0] else end


def _text(output: bytes | None) -> str:
    text = (output or b"").decode("utf-8", "replace")
    return text.split(f"{STARTED}\n", 1)[-1].strip()


# The probes. Each loads only the libraries that it checks, so the imports are inside the functions.
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

    wb.diarize(CLIP)  # the first call converts and loads the weights
    start = time.perf_counter()
    speakers = len(wb.diarize(CLIP).speakers)
    seconds = time.perf_counter() - start
    return {"speakers": speakers, "seconds": seconds, "place": diarizer_state()["place"]}


def find_weights(
    model: str, *, revision: str | None = None, transformers: bool = False
) -> dict[str, Any]:
    """Find and check a model's weights, or download them; return their directory and size.

    An empty `model` is the default model, or another model that needs no download.
    """
    from whisperbatch.models import available_models, find_model, locate_model

    if not model:
        names = [DEFAULT_MODEL, *available_models()]
        model = next((name for name in names if locate_model(name)[0] != "hub"), DEFAULT_MODEL)
    directory = find_model(model, transformers=transformers, revision=revision)
    patterns = ("model.bin", "*.safetensors")
    size = sum(path.stat().st_size for pattern in patterns for path in directory.glob(pattern))
    return {
        "model": model,
        "directory": str(directory),
        "bytes": size,
        "ctranslate2": (directory / "model.bin").is_file(),
    }


def find_devices() -> dict[str, Any]:
    """Return the compute types of CTranslate2 on each device.

    Only the compute types that "auto" may choose are returned, in the order of preference.
    """
    import ctranslate2

    from whisperbatch.engines.devices import PREFERRED_COMPUTE_TYPES

    def compute_types(device: str, index: int = 0) -> list[str]:
        supported = ctranslate2.get_supported_compute_types(device, index)
        return [name for name in PREFERRED_COMPUTE_TYPES[device] if name in supported]

    count = ctranslate2.get_cuda_device_count()
    gpus = [compute_types("cuda", index) for index in range(count)]
    return {"cpu": compute_types("cpu"), "cuda": gpus}


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
    from whisperbatch.engines.ctranslate2.cuda import install_hint, preload_libraries

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


def main(name: str, arguments: str) -> None:
    """Run a probe, and write its result or its exception to standard output.

    Whatever libraries print goes to standard error.
    """
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as output:
        os.dup2(2, 1)
        faulthandler.enable()
        _suppress_core_dump()
        print(STARTED, file=sys.stderr, flush=True)  # noqa: T201 - read by `run_probe`
        probe: Callable[..., dict[str, Any]] = globals()[name]
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
