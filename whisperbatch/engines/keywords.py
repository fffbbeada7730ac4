"""The keywords of `load` that set an engine; the engine that "auto" stands for.

Importing this file loads no large package.
"""

import functools
import inspect
import logging
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal, TypeAlias, cast, get_args

from whisperbatch.engines.keyword_types import EngineKeywords
from whisperbatch.engines.settings import (
    SETTINGS,
    EngineSettings,
    OnnxRuntimeComputeType,
    OpenVinoComputeType,
)
from whisperbatch.errors import MissingExtraError, OptionError
from whisperbatch.machine import onnxruntime_is_fastest
from whisperbatch.options import Options, checks, hint_for, is_same, plain
from whisperbatch.runtimes.openvino_package import check_openvino
from whisperbatch.text.messages import one_line, shown

EngineName: TypeAlias = Literal["auto", "ctranslate2", "onnxruntime", "openvino", "torch"]
Device: TypeAlias = Literal["auto", "cpu", "cuda"]

log = logging.getLogger(__name__)


class LoadKeywords(EngineKeywords, total=False):
    """The keywords of `load`; the functions that load and free the model accept them, too."""

    device: Device
    engine: EngineName | EngineSettings


@functools.cache
def setting_parameters() -> dict[str, inspect.Parameter]:
    """Return the settings of all engines as parameters of a function, by name."""
    parameters: dict[str, inspect.Parameter] = {}
    for settings in SETTINGS.values():
        for field in fields(settings):
            parameter = inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=field.type,
            )
            parameters.setdefault(field.name, parameter)
    return parameters


def choose_settings(
    engine: str | EngineSettings, device: str, keywords: Mapping[str, Any]
) -> EngineSettings:
    """Return the settings to load with.

    "auto" is the fastest engine whose settings the keywords are: on some CPUs "onnxruntime" (see
    `machine.onnxruntime_is_fastest`), on other CPUs "openvino", if OpenVINO is installed;
    otherwise, and on CUDA, "ctranslate2".

    Raises:
        OptionError: see `load_engine`.
    """
    check_names(keywords)
    device = check_device(device)
    keywords = {name: plain(value) for name, value in keywords.items()}
    keywords = {name: value for name, value in keywords.items() if not is_default(name, value)}
    engine = cast("str | EngineSettings", plain(engine))
    if issubclass(type(engine), EngineSettings):
        if keywords:
            raise OptionError(f"{next(iter(keywords))}: give this setting in the settings object")
        return cast("EngineSettings", engine)
    if type(engine) is not str or engine not in {"auto", *SETTINGS}:
        hint = "; a settings class needs parentheses" if issubclass(type(engine), type) else ""
        raise OptionError(f"engine={shown(engine)} is none of auto, {', '.join(SETTINGS)}{hint}")
    if engine == "auto":
        engine = _fastest_engine(device, keywords)
    for name, value in keywords.items():
        if name not in _names(engine):
            others = " or ".join(repr(other) for other in SETTINGS if name in _names(other))
            raise OptionError(
                f"{name}={shown(value)} has no effect with engine={engine!r}; give engine={others}"
            )
    return SETTINGS[engine](**keywords)


def is_default(name: str, value: object) -> bool:
    """Return whether a value is the default of a setting; 0 is not the default False."""
    return is_same(value, setting_parameters()[name].default)


def check_device(device: object) -> str:
    """Return the device as a str.

    Raises:
        OptionError: the value is not the name of a device.
    """
    device = plain(device)
    checks.choice("device", device, get_args(Device))
    return cast("str", device)


def check_names(keywords: Mapping[str, Any]) -> None:
    """Check that each keyword is a setting of an engine.

    Raises:
        OptionError: the message says how to correct the name.
    """
    names = {name for engine in SETTINGS for name in _names(engine)}
    for name in keywords:
        if name in names:
            continue
        if name in {field.name for field in fields(Options)}:
            raise OptionError(f"{name} is not a keyword of load; give {name} to transcribe")
        hint = hint_for(name, names) or "help(whisperbatch.load) lists all keywords"
        raise OptionError(f"{one_line(name)} is not a keyword of load; {hint}")


def settings_of(keywords: Mapping[str, Any]) -> EngineSettings:
    """Return the settings of these keywords of `load`, to be checked before a model is loaded.

    For "auto" these are the settings of "ctranslate2", which has all settings that "auto" accepts:
    no library is imported, and no GPU is tried.

    Raises:
        OptionError: see `load_engine`.
    """
    settings = dict(keywords)
    engine, device = plain(settings.pop("engine", "auto")), settings.pop("device", "auto")
    if type(engine) is str and engine == "auto":
        engine = "ctranslate2"
    return choose_settings(cast("str | EngineSettings", engine), device, settings)


def _fastest_engine(device: str, keywords: Mapping[str, Any]) -> str:
    """Return the engine that "auto" stands for with these keywords."""
    if is_cuda(device):
        return "ctranslate2"
    if onnxruntime_is_fastest() and _fits("onnxruntime", keywords, OnnxRuntimeComputeType):
        return "onnxruntime"
    if not _fits("openvino", keywords, OpenVinoComputeType):
        return "ctranslate2"
    try:
        check_openvino()
    except MissingExtraError as error:
        log.info("engine: ctranslate2, because %s", error)
        return "ctranslate2"
    return "openvino"


def _fits(engine: str, keywords: Mapping[str, Any], compute_types: object) -> bool:
    """Return whether the keywords are settings of an engine."""
    other = [name for name in keywords if name not in _names(engine)]
    compute_type = keywords.get("compute_type", "auto")
    if type(compute_type) is str and compute_type not in get_args(compute_types):
        other.append("compute_type")
    if other:
        log.info("engine: not %s, because of %s", engine, ", ".join(other))
    return not other


def is_cuda(device: str) -> bool:
    """Return whether "cuda" or "auto" is CUDA on this machine."""
    if device != "auto":
        return device == "cuda"
    import ctranslate2  # noqa: PLC0415 - heavy

    from whisperbatch.engines.ctranslate2.cuda import usable_device  # noqa: PLC0415 - heavy

    return bool(ctranslate2.get_cuda_device_count()) and usable_device(device, (0,)) != "cpu"


def _names(engine: str) -> set[str]:
    """Return the names of an engine's settings."""
    return {field.name for field in fields(SETTINGS[engine])}
