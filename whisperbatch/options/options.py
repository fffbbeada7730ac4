"""All options of a transcription in one flat value."""

from dataclasses import dataclass

from whisperbatch.errors import OptionError
from whisperbatch.options import checks
from whisperbatch.options.decoding import DecodeOptions
from whisperbatch.options.groups import (
    AudioOptions,
    ChunkOptions,
    FeatureOptions,
    LanguageOptions,
    VadOptions,
)


@dataclass(frozen=True, kw_only=True)
class Options(
    AudioOptions, VadOptions, ChunkOptions, FeatureOptions, LanguageOptions, DecodeOptions
):
    """All options of a transcription, flat: `Options(language="en", beam_size=1)`.

    Frozen; `dataclasses.replace` gives a changed copy. Raises OptionError, naming the option, for
    a value of the wrong type or out of range.
    """

    def __post_init__(self) -> None:
        for group in Options.__bases__:
            group.__post_init__(self)  # type: ignore[attr-defined]  # each group has one
        checks.room("chunk_length", self.chunk_length, self.speech_pad)
        if self.multilingual:
            self._check_multilingual()
        usual = checks.default(DecodeOptions, "coverage_threshold")
        if self.coverage_threshold not in (None, usual):
            if not self.vad:
                raise OptionError(
                    "coverage_threshold has no effect with vad=False, since nobody then knows "
                    "where speech is; leave it out"
                )
            if self.task == "translate":
                raise OptionError(
                    "coverage_threshold has no effect with task='translate', since a translation's "
                    "words do not follow the speech; leave it out"
                )

    def _check_multilingual(self) -> None:
        if self.task == "translate":
            raise OptionError(
                "task='translate' with multilingual=True: give "
                "code_switching_output='english', which translates all but English"
            )
        if self.condition_on_previous_text:
            raise OptionError(
                "condition_on_previous_text does not go with multilingual=True: the text before "
                "may be in another language; leave either out"
            )
