"""The engine that a model is loaded with, and the keywords of `load` that this engine accepts."""

import inspect
from collections.abc import Mapping
from os import PathLike
from typing import Any, Final, Literal

from whisperbatch.errors import MissingExtraError, OptionError
from whisperbatch.models.registry import find_model
from whisperbatch.protocols import Engine

UNUSED_KEYWORDS: Final = {
    "ctranslate2": ("quantization", "group_size", "draft_model", "compile"),
    "torch": ("encoder", "decoder", "inter_threads", "intra_threads"),
}
"""For each engine, the keywords of `load` that have no effect on it."""


def check_keywords(engine: str, keywords: Mapping[str, Any], signature: inspect.Signature) -> None:
    """Refuse keywords of `load` that have no effect on this engine.

    Args:
        engine: the option's value.
        keywords: the value of every keyword of `load`.
        signature: of `load`; a keyword with its default value is accepted.

    Raises:
        OptionError: the engine is unknown, or a keyword has no effect on it.
    """
    if engine not in UNUSED_KEYWORDS:
        raise OptionError(f"engine={engine!r} is none of {', '.join(UNUSED_KEYWORDS)}")
    for name in UNUSED_KEYWORDS[engine]:
        if keywords[name] != signature.parameters[name].default:
            raise OptionError(f"{name}={keywords[name]!r} has no effect with engine={engine!r}")


def check_device_index(device_index: object) -> tuple[int, ...]:
    """Return the device numbers as a tuple.

    Raises:
        OptionError: `device_index` is neither a number nor a list or tuple.
    """
    if not isinstance(device_index, int | tuple | list):
        raise OptionError(f"device_index={device_index!r} must be one device number or several")
    return (device_index,) if isinstance(device_index, int) else tuple(device_index)


def load_torch_engine(
    model: str | PathLike[str],
    *,
    device: str,
    device_index: tuple[int, ...],
    compute_type: str,
    quantization: Literal["hqq4", "int8"] | None,
    group_size: int,
    draft_model: str | PathLike[str] | None,
    compiled: bool,
) -> Engine:
    """Return a `TorchEngine`; see `engines.torch.engine` for the arguments.

    Raises:
        MissingExtraError: PyTorch or safetensors is not installed.
        OptionError: `device_index` names several devices.
    """
    try:
        from whisperbatch.engines.torch.engine import TorchEngine  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError(
            f'engine="torch": {error.name} is not installed: pip install "whisperbatch[torch]"'
        ) from error
    if len(device_index) != 1:
        raise OptionError(f"device_index={device_index!r}: engine='torch' runs on one device")
    return TorchEngine(
        find_model(model, transformers=True),
        name=str(model),
        device=device,
        device_index=device_index[0],
        compute_type=compute_type,
        quantization=quantization,
        group_size=group_size,
        draft_model=find_model(draft_model, transformers=True) if draft_model is not None else None,
        compiled=compiled,
    )
