"""The device, the compute type and the number of threads that "auto" or 0 stand for."""

from collections.abc import Iterator
from typing import Final, Literal

import ctranslate2

from whisperbatch.engines.settings import ENGINES_OF_TYPES
from whisperbatch.errors import OptionError
from whisperbatch.runtimes.machine import available_cpus
from whisperbatch.text.messages import one_line, shown

PREFERRED_COMPUTE_TYPES: Final = {
    # int8 is the fastest on a CPU, and its word error rate equals float32's within rounding
    "cpu": ("int8", "float32"),
    # Whisper's own weights are in half precision; without it, int8 keeps the weights small
    "cuda": ("float16", "bfloat16", "int8_float32", "float32"),
}
"""For each device, the compute types that "auto" tries: the first supported type is taken."""


def choose_device(
    device: str, indexes: tuple[int, ...], *, device_count: int, library: str
) -> Literal["cpu", "cuda"]:
    """Return the device to run on: for "auto", CUDA if the library finds a GPU.

    Args:
        device: the checked option.
        indexes: numbers of the CUDA devices.
        device_count: number of CUDA devices that the library finds.
        library: name of the library, for messages.

    Raises:
        OptionError: the device is not present.
    """
    if device == "cpu" or (device == "auto" and not device_count):
        if indexes != (0,):
            raise OptionError(
                f"`device_index={one_line(', '.join(map(str, indexes)))}` needs CUDA; "
                "the CPU has no index"
            )
        return "cpu"
    if not device_count:
        raise OptionError(
            f"`device='cuda'` but {library} finds no CUDA device; install a driver or use 'cpu'"
        )
    for index in indexes:
        if not 0 <= index < device_count:
            raise OptionError(
                f"`device_index={index}` does not exist: "
                f"{library} finds the CUDA devices 0 to {device_count - 1}"
            )
    return "cuda"


def choose_compute_type(compute_type: str, device: str, indexes: tuple[int, ...]) -> str:
    """Return the compute type to load with: for "auto", the best that all devices support.

    Args:
        compute_type: the setting's value.
        device: "cpu" or "cuda".
        indexes: numbers of the devices.

    Raises:
        OptionError: a device does not support the type; the message lists the supported types.
    """
    supported = {index: ctranslate2.get_supported_compute_types(device, index) for index in indexes}
    common = set.intersection(*map(set, supported.values()))
    if compute_type == "auto":
        return next(name for name in PREFERRED_COMPUTE_TYPES[device] if name in common)
    for index, names in supported.items():
        if compute_type not in names:
            number = f" {index}" if len(indexes) > 1 else ""
            other = ENGINES_OF_TYPES.get(compute_type) if device == "cpu" else None
            raise OptionError(
                f"`compute_type={shown(compute_type)}` is not supported by this machine's {device} "
                f"device{number}; use auto, {', '.join(sorted(common))}"
                + (f", or give `engine={other}`" if other else "")
            )
    return compute_type


def describe_devices() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each fact about this machine's devices, for a bug report."""
    count = ctranslate2.get_cuda_device_count()
    yield "CUDA devices", str(count)
    for device in ("cpu", "cuda")[: 1 + bool(count)]:
        yield (
            f"types on {device}",
            ", ".join(sorted(ctranslate2.get_supported_compute_types(device))),
        )


def share_cores(inter_threads: int, intra_threads: int, *, most: int = 1) -> tuple[int, int]:
    """Return the number of batches computed at a time, and the CPU threads for each.

    Args:
        inter_threads: number of batches; 0 lets the engine choose.
        intra_threads: threads for each batch; 0 divides the cores equally.
        most: the number of batches that the engine chooses, if each has a core and the number of
            threads is not given. Otherwise it computes one batch at a time.
    """
    cores = available_cpus()
    batches = inter_threads or (1 if intra_threads else min(most, cores))
    return batches, intra_threads or max(cores // batches, 1)
