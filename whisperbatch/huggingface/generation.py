"""The parameters of transformers' pipelines, which clients of Hugging Face send.

return_timestamps     true: a chunk is a segment; "word": a chunk is a word
generate_kwargs       an object: settings of the search; generation_parameters and generate, too
sampling_rate, ...    no effect

    {"num_beams": 1, "condition_on_prev_tokens": false, "logprob_threshold": -1.0}
    {"beam_size": 1, "condition_on_previous_text": false, "log_prob_threshold": -1.0}     options
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import whisperbatch as wb
from whisperbatch.options import MAX_NEW_TOKENS, hint_for, is_number, plain
from whisperbatch.text import one_line, shown

GENERATION: Final = ("generate_kwargs", "generation_parameters", "generate")
RETURN_TIMESTAMPS: Final = "return_timestamps"
UNUSED: Final = ("sampling_rate", "stride_length_s", "ignore_warning")
"""Parameters without effect: recordings state their rate, and chunks do not overlap."""

OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "num_beams": "beam_size",
        "max_length": "max_new_tokens",
        "condition_on_prev_tokens": "condition_on_previous_text",
        "logprob_threshold": "log_prob_threshold",
        **{
            name: name
            for name in (
                *("language", "task", "temperature", "max_new_tokens", "no_speech_threshold"),
                *("compression_ratio_threshold", "length_penalty", "repetition_penalty"),
                "no_repeat_ngram_size",
            )
        },
    }
)
"""Settings of the search -> options."""

NO_EFFECT: Final = (
    *("do_sample", "early_stopping", "use_cache", "is_multilingual"),
    *("top_k", "top_p", "typical_p", "epsilon_cutoff", "eta_cutoff"),
    *("return_dict_in_generate", "return_segments", "return_token_timestamps"),
)
"""Settings without effect. Whisper samples if the temperature is above 0, also in transformers."""

NEUTRAL: Final[Mapping[str, int]] = MappingProxyType(
    {
        "min_length": 0,
        "min_new_tokens": 0,
        "num_beam_groups": 1,
        "num_return_sequences": 1,
        "penalty_alpha": 0,
    }
)
"""Settings that are accepted only with the value that changes nothing."""

START_TOKENS: Final = 4  # of a text in transformers, which max_length counts

MAX_RATIO: Final = 100
TOKEN_RATIO: Final = 2.4 / 1.35
"""transformers compares the compression of tokens: its 1.35 stands for 2.4 of the text."""


@dataclass(frozen=True, slots=True)
class Given:
    """A parameter with its value.

    Attributes:
        label: as the client wrote it, for messages: "generate_kwargs: num_beams".
        name: of the parameter that it stands for: "beam_size".
        value: any value.
    """

    label: str
    name: str
    value: object


def parameters_of(name: str, settings: object) -> list[Given]:
    """Return the parameters that settings of the search stand for.

    Args:
        name: of the parameter that has the settings.
        settings: names and values; a setting that is null is not given.

    Returns:
        Options, and `return_timestamps`.

    Raises:
        OptionError: a setting is unknown, or has a value that cannot be honoured.
    """
    if not isinstance(settings, Mapping):
        raise wb.OptionError(f'{name} must be an object, such as {{"num_beams": 1}}')
    given = {str(setting): plain(value) for setting, value in settings.items()}
    found: list[Given] = []
    for setting, value in given.items():
        if value is None or setting in NO_EFFECT:
            continue
        if setting == "max_length" and given.get("max_new_tokens") is not None:
            continue  # as in transformers
        if setting in NEUTRAL:
            if not is_number(value, NEUTRAL[setting]):
                raise wb.OptionError(f"{name}: {setting}={shown(value)} is not supported")
        elif setting in (*OPTIONS, RETURN_TIMESTAMPS):
            option = OPTIONS.get(setting, setting)
            found.append(Given(f"{name}: {setting}", option, _converted(setting, value)))
        else:
            hint = hint_for(setting, OPTIONS)
            raise wb.OptionError(
                f"{name}: {one_line(setting)} is not supported{f'; {hint}' if hint else ''}"
            )
    return found


def _converted(setting: str, value: object) -> object:
    """Return the value of an option. `Options` refuses what is no number here."""
    if setting == "max_length" and type(value) is int:
        return min(value - START_TOKENS, MAX_NEW_TOKENS)
    if setting == "max_new_tokens" and type(value) is int:
        return min(value, MAX_NEW_TOKENS)
    is_ratio = setting == "compression_ratio_threshold" and type(value) in {int, float}
    if is_ratio and 0 <= value <= MAX_RATIO:  # type: ignore[operator]  # a number
        return value * TOKEN_RATIO  # type: ignore[operator]
    return value
