"""The environment variables of an endpoint.

ASR_MODEL           the model: a name, directory or repository
HF_MODEL_DIR        directory of the endpoint's repository: the model, without ASR_MODEL
ASSISTANT_MODEL     draft model for requests with "assisted": true
DIARIZATION_MODEL   "builtin": every request finds the speakers, unless it says "diarize": false
HF_TOKEN            read by huggingface_hub, which downloads the models
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from typing_extensions import Self

import whisperbatch as wb
from whisperbatch.engines.settings import LoadKeywords
from whisperbatch.text import shown

BUILT_IN: Final = "builtin"
"""The value of DIARIZATION_MODEL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """The settings of an endpoint; a variable that is empty is not set.

    Attributes:
        asr_model: the model; None if it is not set.
        model_directory: directory of the endpoint's repository; None if it is not set.
        assistant_model: the draft model; None if it is not set.
        diarize: whether requests find the speakers without the parameter `diarize`.
    """

    asr_model: str | None = None
    model_directory: str | None = None
    assistant_model: str | None = None
    diarize: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Return the settings that the environment variables give.

        Args:
            environment: the variables; None for those of this process.

        Returns:
            The settings.

        Raises:
            OptionError: DIARIZATION_MODEL names another model than "builtin".
        """
        variables = os.environ if environment is None else environment
        diarizer = variables.get("DIARIZATION_MODEL")
        if diarizer and diarizer != BUILT_IN:
            raise wb.OptionError(
                f"DIARIZATION_MODEL={shown(diarizer)} cannot be loaded: whisperbatch has its own "
                f"diarizer. Set DIARIZATION_MODEL={BUILT_IN} for speakers, or remove this variable"
            )
        return cls(
            asr_model=variables.get("ASR_MODEL") or None,
            model_directory=variables.get("HF_MODEL_DIR") or None,
            assistant_model=variables.get("ASSISTANT_MODEL") or None,
            diarize=bool(diarizer),
        )

    @property
    def model(self) -> str | None:
        """The model that the variables name: ASR_MODEL, otherwise HF_MODEL_DIR."""
        return self.asr_model or self.model_directory


def with_draft_model(draft_model: str, keywords: LoadKeywords) -> LoadKeywords:
    """Return the keywords of `load` for the same model with a draft model.

    Only PyTorch has draft models. The settings of another engine have no meaning for PyTorch, so
    only the device and the revision are kept then.

    Args:
        draft_model: the draft model, as in `load`.
        keywords: of the model without a draft model.

    Returns:
        The keywords; the engine is PyTorch.
    """
    engine = keywords.get("engine", "auto")
    if isinstance(engine, wb.TorchSettings):
        return {**keywords, "engine": replace(engine, draft_model=draft_model)}
    if engine == "torch":
        return {**keywords, "draft_model": draft_model}
    drafted: LoadKeywords = {"engine": "torch", "draft_model": draft_model}
    drafted["device"] = keywords.get("device", "auto")
    given = keywords.get("revision") if isinstance(engine, str) else engine.revision
    if given is not None:
        drafted["revision"] = given
    return drafted
