"""Which engine runs a model, and which of the keywords of `load` go with it."""

import inspect
from collections.abc import Mapping
from os import PathLike
from typing import Any, Final, Literal, TypeAlias

from whisperbatch.errors import MissingExtraError, OptionError
from whisperbatch.models.registry import find_model
from whisperbatch.protocols import Engine

EngineKind: TypeAlias = Literal["ctranslate2", "torch"]

OTHERS: Final = {
    "ctranslate2": ("quantization", "group_size", "draft_model", "compile"),
    "torch": ("encoder", "decoder", "inter_threads", "intra_threads"),
}
"""What an engine has no use for."""


def check_kind(engine: str, given: Mapping[str, Any], signature: inspect.Signature) -> None:
    """Refuse keywords of `load` that have no effect on this engine.

    Raises:
        OptionError: an unknown engine, or a keyword that is not as in `signature`.
    """
    if engine not in OTHERS:
        raise OptionError(f"engine={engine!r} is none of {', '.join(OTHERS)}")
    for name in OTHERS[engine]:
        if given[name] != signature.parameters[name].default:
            raise OptionError(f"{name}={given[name]!r} has no effect with engine={engine!r}")


def check_index(device_index: object) -> tuple[int, ...]:
    """The numbers of devices, one or several.

    Raises:
        OptionError: it is something else.
    """
    if not isinstance(device_index, int | tuple | list):
        raise OptionError(f"device_index={device_index!r} must be one device number or several")
    return (device_index,) if isinstance(device_index, int) else tuple(device_index)


def torch_engine(
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
    """See `engines.torch.TorchEngine`.

    Raises:
        MissingExtraError: PyTorch or safetensors is not installed.
        OptionError: several devices.
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
