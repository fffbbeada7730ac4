"""Loads a model into an engine."""

import logging
from os import PathLike
from typing import Any, cast

import ctranslate2

from whisperbatch.dependencies import import_failure
from whisperbatch.engines.devices import choose_device
from whisperbatch.engines.model_info import ModelInfo
from whisperbatch.engines.settings import (
    CTranslate2Settings,
    EngineSettings,
    OnnxRuntimeSettings,
    TorchSettings,
    check_device,
    choose_settings,
)
from whisperbatch.errors import MissingExtraError, ModelError, OptionError
from whisperbatch.models.registry import find_model
from whisperbatch.protocols import Engine
from whisperbatch.text.messages import shown

log = logging.getLogger(__name__)


def load_engine(
    model: str | PathLike[str],
    *,
    device: str = "auto",
    engine: str | EngineSettings = "auto",
    **keywords: Any,  # noqa: ANN401 - settings of several engines
) -> Engine:
    """Load a model into an engine.

    Args:
        model: a name, directory or repository.
        device: "auto", "cpu" or "cuda".
        engine: "auto", the name of an engine, or its settings.
        **keywords: single settings, if `engine` is a name.

    Raises:
        OptionError: the engine is unknown, a setting has no effect on the engine, or the device or
            a setting is not available on this machine.
        MissingExtraError: the engine's package is not installed.
        ModelError: the weights are missing or damaged.
    """
    device = check_device(device)
    settings = choose_settings(engine, device, keywords)
    if isinstance(settings, TorchSettings):
        return _load_torch(model, device, settings)
    info = ModelInfo.read(find_model(model, revision=settings.revision), str(model))
    if isinstance(settings, CTranslate2Settings):
        return _load_ctranslate2(info, device, settings)
    if not isinstance(settings, OnnxRuntimeSettings):
        raise OptionError(f"`engine={shown(engine)}` is not the settings of an engine")
    try:
        return _load_onnxruntime(info, device, settings)
    except (ModelError, MissingExtraError) as error:
        if engine != "auto" or settings.compute_type == "int8_bfloat16":
            raise  # CTranslate2 has no such type
        log.info("CTranslate2 runs the model, because of an error: %s", error)
        settings = choose_settings("ctranslate2", device, keywords)
        return _load_ctranslate2(info, device, cast("CTranslate2Settings", settings))


def _load_ctranslate2(info: ModelInfo, device: str, settings: CTranslate2Settings) -> Engine:
    from whisperbatch.engines.ctranslate2.cuda import usable_device  # noqa: PLC0415 - heavy
    from whisperbatch.engines.ctranslate2.engine import CTranslate2Engine  # noqa: PLC0415 - heavy

    chosen = choose_device(
        usable_device(device, settings.devices),
        settings.devices,
        device_count=ctranslate2.get_cuda_device_count(),
        library="CTranslate2",
    )
    return CTranslate2Engine(info, device=chosen, settings=settings)


def _load_onnxruntime(info: ModelInfo, device: str, settings: OnnxRuntimeSettings) -> Engine:
    if device == "cuda":
        raise OptionError(f"`engine='{settings.name}'` runs on the CPU; leave out `device='cuda'`")
    from whisperbatch.engines.onnx.engine import OnnxRuntimeEngine  # noqa: PLC0415 - heavy

    return OnnxRuntimeEngine(info, settings=settings)


def _load_torch(model: str | PathLike[str], device: str, settings: TorchSettings) -> Engine:
    try:
        from whisperbatch.engines.torch.engine import TorchEngine  # noqa: PLC0415 - an extra
    except ImportError as error:
        failure = import_failure(error, 'pip install "whisperbatch[torch]"')
        raise MissingExtraError(f"`engine='torch'`: {failure}") from error
    draft_model = settings.draft_model
    return TorchEngine(
        find_model(model, transformers=True, revision=settings.revision),
        name=str(model),
        device=device,
        settings=settings,
        draft_model=find_model(draft_model, transformers=True) if draft_model is not None else None,
    )
