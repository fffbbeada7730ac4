"""The settings of the engine, from the arguments of faster-whisper's model."""

import sys
from collections.abc import Mapping
from typing import Any, Final, cast

from whisperbatch.engines.keywords import EngineKeywords, check_device, is_cuda, is_default
from whisperbatch.errors import OptionError
from whisperbatch.options import checks, is_same
from whisperbatch.text import one_line, shown

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
        "compute_type": "auto" if is_same(compute_type, "default") else compute_type,
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
