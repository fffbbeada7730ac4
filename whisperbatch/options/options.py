"""All options of a transcription in one value."""

from dataclasses import dataclass, fields

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
from whisperbatch.options.search import SearchOptions


@dataclass(frozen=True, kw_only=True)
class Options(
    AudioOptions,
    VadOptions,
    ChunkOptions,
    FeatureOptions,
    LanguageOptions,
    SearchOptions,
    DecodeOptions,
):
    """All options of a transcription as the fields of one value: `Options(language="en")`.

    The option groups document the fields. An Options value is frozen; `dataclasses.replace`
    returns a changed copy.

    Raises:
        OptionError: a value has the wrong type or is out of range, or an option has no effect
            together with the other options. The message names the option.
    """

    def __post_init__(self) -> None:
        for group in Options.__bases__:
            group.__post_init__(self)  # type: ignore[attr-defined]  # every group has this method
        checks.room_for_speech("chunk_length", self.chunk_length, self.speech_pad)
        if self.multilingual:
            self._check_multilingual()
        self._check_coverage()
        if self.timestamps != "tokens" and self.max_initial_timestamp != 1:
            raise OptionError(
                "max_initial_timestamp has no effect with timestamps='alignment'; "
                "give timestamps='tokens'"
            )

    @property
    def search(self) -> SearchOptions:
        """The options that engines read."""
        return SearchOptions(
            **{field.name: getattr(self, field.name) for field in fields(SearchOptions)}
        )

    def _check_multilingual(self) -> None:
        if self.task == "translate":
            raise OptionError(
                "task='translate' cannot be combined with multilingual=True; "
                "give code_switching_output='english', which translates all other languages"
            )
        if self.condition_on_previous_text:
            raise OptionError(
                "condition_on_previous_text cannot be combined with multilingual=True, because "
                "the previous text may be in another language; leave one of the two out"
            )

    def _check_coverage(self) -> None:
        default = checks.default(DecodeOptions, "coverage_threshold")
        if self.coverage_threshold in (None, default):
            return
        if not self.vad:
            raise OptionError(
                "coverage_threshold has no effect with vad=False, because only the voice "
                "activity detector finds speech; leave it out"
            )
        if self.task == "translate":
            raise OptionError(
                "coverage_threshold has no effect with task='translate', because the words of a "
                "translation do not follow the speech; leave it out"
            )
