"""The options of the diarization."""

from dataclasses import dataclass
from typing import Final

from whisperbatch.errors import OptionError
from whisperbatch.options import checks
from whisperbatch.options.values import convert_fields

MAX_SPEAKERS: Final = 100


@dataclass(frozen=True, kw_only=True)
class SpeakerOptions:
    """Who speaks.

    Attributes:
        diarize: find the speakers: each segment and word has a `speaker`, and the transcript has a
            `diarization`. Needs the extra `diarization`.
        num_speakers: number of speakers, from 1 to 100, if it is known. With 1, the voices are not
            compared. Refused without `diarize`, and with `min_speakers` or `max_speakers`.
        min_speakers: smallest number of speakers, from 1 to 100. A recording with less speech has
            fewer. Refused without `diarize`.
        max_speakers: largest number of speakers, from 1 to 100. Refused without `diarize`.
    """

    diarize: bool = False
    num_speakers: int | None = None
    min_speakers: int | None = None
    max_speakers: int | None = None

    def __post_init__(self) -> None:
        convert_fields(self, SpeakerOptions)
        checks.boolean("diarize", self.diarize)
        for name in ("num_speakers", "min_speakers", "max_speakers"):
            value = getattr(self, name)
            if value is not None:
                checks.integer(name, value, minimum=1, maximum=MAX_SPEAKERS)
        if not self.diarize:
            counts = ("num_speakers", "min_speakers", "max_speakers")
            checks.without_effect(self, counts, "without diarize=True")
        if self.num_speakers is not None:
            limits = ("min_speakers", "max_speakers")
            checks.without_effect(self, limits, "with num_speakers")
        if (
            self.min_speakers is not None
            and self.max_speakers is not None
            and self.min_speakers > self.max_speakers
        ):
            raise OptionError(
                f"min_speakers={self.min_speakers} is above max_speakers={self.max_speakers}; "
                "lower min_speakers or raise max_speakers"
            )
