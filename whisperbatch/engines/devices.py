"""The device, the compute type and the backends that "auto" stands for."""

import os
from importlib.util import find_spec
from typing import Final, Literal, cast, get_args

import ctranslate2

from whisperbatch.errors import OptionError

Device = Literal["auto", "cpu", "cuda"]
Backend = Literal["auto", "ctranslate2", "openvino"]

FLOAT32_INPUT_COMPUTE_TYPES: Final = ("int8", "int8_float32", "int16", "float32")
"""Compute types with which CTranslate2's decoder accepts encoder output in float32."""

PREFERRED_COMPUTE_TYPES: Final = {
    # int8 is the fastest on a CPU, and its word error rate equals float32's within rounding
    "cpu": ("int8", "float32"),
    # Whisper's own weights are in half precision; without it, int8 keeps the weights small
    "cuda": ("float16", "bfloat16", "int8_float32", "float32"),
}
"""For each device, the compute types that "auto" tries: the first supported type is taken."""


def choose_device(device: str, device_index: tuple[int, ...]) -> Literal["cpu", "cuda"]:
    """Return the device to run on: for "auto", CUDA if CTranslate2 sees a GPU.

    Raises:
        OptionError: the device is unknown or not present.
    """
    if device not in get_args(Device):
        raise OptionError(f"device={device!r} is none of {', '.join(get_args(Device))}")
    if not device_index or not all(type(index) is int for index in device_index):
        raise OptionError(f"device_index={device_index!r} must be one device number or several")
    device_count = ctranslate2.get_cuda_device_count()
    if device == "cpu" or (device == "auto" and not device_count):
        if device_index != (0,):
            raise OptionError(f"device_index={device_index} needs CUDA; the CPU has no index")
        return "cpu"
    if not device_count:
        raise OptionError(
            "device='cuda' but no CUDA device was found; install a driver or use 'cpu'"
        )
    for index in device_index:
        if not 0 <= index < device_count:
            raise OptionError(
                f"device_index={index} does not exist: "
                f"this machine has the CUDA devices 0 to {device_count - 1}"
            )
    return "cuda"


def choose_compute_type(compute_type: str, device: Literal["cpu", "cuda"], index: int) -> str:
    """Return the compute type to load with: for "auto", the best that the device supports.

    Raises:
        OptionError: the device does not support it; the message lists the supported types.
    """
    supported = ctranslate2.get_supported_compute_types(device, index)
    if compute_type == "auto":
        return next(name for name in PREFERRED_COMPUTE_TYPES[device] if name in supported)
    if compute_type not in supported:
        raise OptionError(
            f"compute_type={compute_type!r} is not supported by this machine's {device} device; "
            f"use auto, {', '.join(sorted(supported))}"
        )
    return compute_type


def choose_backend(
    part: str, backend: str, device: Literal["cpu", "cuda"], compute_type: str
) -> Backend:
    """Return the library that runs the encoder or the decoder.

    "auto" is OpenVINO on a CPU if OpenVINO is installed, and CTranslate2 otherwise.

    Args:
        part: "encoder" or "decoder", the option's name in messages.
        backend: the option's value.
        device: from `choose_device`.
        compute_type: from `choose_compute_type`.

    Raises:
        OptionError: the backend is unknown, or cannot run with this device and compute type.
    """
    if backend not in get_args(Backend):
        raise OptionError(f"{part}={backend!r} is none of {', '.join(get_args(Backend))}")
    openvino_fits = device == "cpu" and compute_type in FLOAT32_INPUT_COMPUTE_TYPES
    if backend == "openvino" and not openvino_fits:
        raise OptionError(
            f"{part}='openvino' needs device='cpu' and compute_type "
            f"{', '.join(FLOAT32_INPUT_COMPUTE_TYPES)}; this is {compute_type} on {device}"
        )
    if backend == "auto":
        return "openvino" if openvino_fits and find_spec("openvino") else "ctranslate2"
    return cast("Backend", backend)


def resolve_threads(inter_threads: int, intra_threads: int) -> tuple[int, int]:
    """Return both numbers; `intra_threads=0` becomes an equal share of the cores.

    Raises:
        OptionError: a number is too small, or is no whole number.
    """
    for name, value, minimum in (
        ("inter_threads", inter_threads, 1),
        ("intra_threads", intra_threads, 0),
    ):
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise OptionError(f"{name}={value!r} must be a whole number, at least {minimum}")
    return inter_threads, intra_threads or max(available_cores() // inter_threads, 1)


def available_cores() -> int:
    """Return the number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # macOS and Windows have no affinity
