"""The rules of broadcasters for lines and times of subtitles, by language.

The writers follow these rules, and `checking` finds the cues of a file that do not. Widths and
speeds count columns (`formatting.columns`), so that a full-width character counts as two: 13
Japanese characters are 26 columns. docs/reference/writers.md names the sources of all numbers.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from whisperbatch.text.languages import UNSPACED

RulesName = Literal["netflix", "bbc", "youtube", "plain"]

MIN_DURATION: Final = 5 / 6  # seconds: 20 frames at 24 frames per second
MAX_DURATION: Final = 7.0
HALF_SECOND: Final = 0.5
GAP_FRAMES: Final = 2
SYNC_FRAMES: Final = 3  # how far a cue may start from the first sound of its speech
FRAME_RATE: Final = 24.0

_WIDTHS: Final = MappingProxyType({"ja": 26, "zh": 32, "yue": 32, "ko": 32, "th": 35, "ru": 39})
_SPEEDS: Final = MappingProxyType(
    {"en": 20, "ar": 20, "hi": 22, "ja": 8, "zh": 18, "yue": 18, "ko": 24}
)
_USUAL_WIDTH: Final = 42
_USUAL_SPEED: Final = 17
_TELETEXT_WIDTH: Final = 37
_BBC_WORDS: Final = 3.0  # 180 words in a minute
_BBC_GAP: Final = 1.0
_PHONE_WIDTH: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules for cues in one language. Times are in seconds.

    Attributes:
        max_line_width: maximum columns of a line; None sets no limit.
        max_line_count: maximum lines of a cue; None sets no limit.
        max_reading_speed: columns that are read in a second; None sets no limit.
        max_words: words that are read in a second; None sets no limit.
        min_duration: the least time that a cue is shown.
        max_duration: the longest time that a cue is shown; None sets no limit.
        gap: the least time between two cues.
        min_pause: a shorter time between two cues than this is closed to `gap`.
        linger: how much longer than its speech a cue is shown if nothing follows.
        sync: how far a cue that is shown too briefly may start from its speech.
        timed: whether cues have other times than their speech.
    """

    max_line_width: int | None
    max_line_count: int | None
    max_reading_speed: float | None = None
    max_words: float | None = None
    min_duration: float = 0.0
    max_duration: float | None = None
    gap: float = 0.0
    min_pause: float = 0.0
    linger: float = 0.0
    sync: float = 0.0
    timed: bool = True

    def reading_time(self, width: int, words: int) -> float:
        """Return the least seconds that a cue of this width is shown."""
        by_width = width / self.max_reading_speed if self.max_reading_speed else 0.0
        by_words = words / self.max_words if self.max_words else 0.0
        return max(self.min_duration, by_width, by_words)


def rules_for(name: RulesName, language: str, frame_rate: float = FRAME_RATE) -> Rules:
    """Return the rules of a preset for a language.

    Args:
        name: of the preset.
        language: Whisper's code.
        frame_rate: of the video, in frames per second; the least gap is two frames.
    """
    width = _WIDTHS.get(language, _USUAL_WIDTH)
    if name == "plain":
        return Rules(max_line_width=_USUAL_WIDTH, max_line_count=2, timed=False)
    speed = _SPEEDS.get(language, _USUAL_SPEED)
    gap, sync = GAP_FRAMES / frame_rate, SYNC_FRAMES / frame_rate
    if name == "bbc":
        by_words = language not in UNSPACED and language != "ko"  # Korean words hold more
        return Rules(
            max_line_width=min(width, _TELETEXT_WIDTH),
            max_line_count=2,
            max_reading_speed=None if by_words else speed,
            max_words=_BBC_WORDS if by_words else None,
            min_duration=1.0,
            max_duration=MAX_DURATION,
            min_pause=_BBC_GAP,
            linger=HALF_SECOND,
            sync=sync,
        )
    return Rules(
        max_line_width=min(width, _PHONE_WIDTH) if name == "youtube" else width,
        max_line_count=2,
        max_reading_speed=speed,
        min_duration=1.0 if name == "youtube" else MIN_DURATION,
        max_duration=MAX_DURATION,
        gap=gap,
        min_pause=HALF_SECOND,
        linger=HALF_SECOND,
        sync=sync,
    )
