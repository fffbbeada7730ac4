"""Which device and which arithmetic: "auto" becomes a choice, and the choice is logged."""

import os
from importlib.util import find_spec
from typing import Final, Literal, cast, get_args

import ctranslate2

from whisperbatch.errors import OptionError

Device = Literal["auto", "cpu", "cuda"]
PartKind = Literal["auto", "ctranslate2", "openvino"]

FLOAT32: Final = ("int8", "int8_float32", "int16", "float32")
"""Compute types in which CTranslate2's decoder takes encoder output in float32."""

PREFERRED: Final = {
    # int8 is the fastest of a CPU's and within rounding of float32 in errors
    "cpu": ("int8", "float32"),
    # half precision is Whisper's own; without it int8 keeps the weights small
    "cuda": ("float16", "bfloat16", "int8_float32", "float32"),
}
"""Compute types by device, the first supported one is taken."""


def choose_device(device: str, device_index: tuple[int, ...]) -> Literal["cpu", "cuda"]:
    """The device to run on: "auto" is CUDA where a GPU is seen.

    Raises:
        OptionError: an unknown device, or one that is not there.
    """
    if device not in get_args(Device):
        raise OptionError(f"device={device!r} is none of {', '.join(get_args(Device))}")
    if not device_index or not all(type(index) is int for index in device_index):
        raise OptionError(f"device_index={device_index!r} must be one device number or several")
    present = ctranslate2.get_cuda_device_count()
    if device == "cpu" or (device == "auto" and not present):
        if device_index != (0,):
            raise OptionError(f"device_index={device_index} needs CUDA; the CPU has no index")
        return "cpu"
    if not present:
        raise OptionError("device='cuda' but no CUDA device is seen; install a driver or use 'cpu'")
    for index in device_index:
        if not 0 <= index < present:
            raise OptionError(f"device_index={index}: CUDA devices here are 0 to {present - 1}")
    return "cuda"


def choose_compute_type(compute_type: str, device: Literal["cpu", "cuda"], index: int) -> str:
    """The compute type to load with: "auto" is the best that the device supports.

    Raises:
        OptionError: the device does not support it; the message lists what it does.
    """
    supported = ctranslate2.get_supported_compute_types(device, index)
    if compute_type == "auto":
        return next(name for name in PREFERRED[device] if name in supported)
    if compute_type not in supported:
        raise OptionError(
            f"compute_type={compute_type!r} is not supported on {device} here; "
            f"give auto, {', '.join(sorted(supported))}"
        )
    return compute_type


def choose_part(
    part: str, wanted: str, device: Literal["cpu", "cuda"], compute_type: str
) -> PartKind:
    """Whose encoder or decoder: "auto" is OpenVINO's on a CPU, where it is installed.

    Args:
        part: "encoder" or "decoder", for messages.
        wanted: what was asked for.
        device: as chosen.
        compute_type: likewise.

    Raises:
        OptionError: an unknown one, or one that does not fit the device or its arithmetic.
    """
    if wanted not in get_args(PartKind):
        raise OptionError(f"{part}={wanted!r} is none of {', '.join(get_args(PartKind))}")
    fits = device == "cpu" and compute_type in FLOAT32
    if wanted == "openvino" and not fits:
        raise OptionError(
            f"{part}='openvino' goes with device='cpu' and compute_type {', '.join(FLOAT32)}; "
            f"this is {compute_type} on {device}"
        )
    if wanted == "auto":
        return "openvino" if fits and find_spec("openvino") else "ctranslate2"
    return cast("PartKind", wanted)


def share_threads(inter_threads: int, intra_threads: int) -> tuple[int, int]:
    """Both as given, but the cores shared out where `intra_threads` is 0.

    Raises:
        OptionError: one is no whole number or too small.
    """
    for name, value, least in (
        ("inter_threads", inter_threads, 1),
        ("intra_threads", intra_threads, 0),
    ):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise OptionError(f"{name}={value!r} must be a whole number, at least {least}")
    return inter_threads, intra_threads or max(available_cores() // inter_threads, 1)


def available_cores() -> int:
    """Processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # where there is no affinity: macOS, Windows
