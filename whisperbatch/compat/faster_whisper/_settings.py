"""The settings of the engine, from the arguments of faster-whisper's model."""

from collections.abc import Sequence
from typing import Any, cast

from whisperbatch.engines.keyword_types import EngineKeywords
from whisperbatch.engines.keywords import is_cuda, setting_parameters


def engine_settings(
    device: str,
    device_index: int | Sequence[int],
    compute_type: str,
    **others: Any,  # noqa: ANN401 - several types
) -> EngineKeywords:
    """Return the settings that are not at their defaults.

    On CUDA the number of CPU threads has no effect, and faster-whisper accepts any number.
    """
    settings = {
        "device_index": device_index if isinstance(device_index, int) else tuple(device_index),
        "compute_type": "auto" if compute_type == "default" else compute_type,
        **others,
    }
    if is_cuda(device):
        del settings["intra_threads"]
    defaults = setting_parameters()
    given = {name: value for name, value in settings.items() if value != defaults[name].default}
    return cast("EngineKeywords", given)
