"""The types of keywords. Written by `make declarations`: do not edit."""

from os import PathLike
from typing import TypedDict

from whisperbatch.engines.settings import GroupSize, Quantization


class EngineKeywords(TypedDict, total=False):
    """The settings of all engines."""

    revision: str | None
    device_index: int | tuple[int, ...]
    compute_type: str
    inter_threads: int
    intra_threads: int
    flash_attention: bool
    kept_frames: float | None
    quantization: Quantization | None
    group_size: GroupSize
    draft_model: str | PathLike[str] | None
    compile: bool
