"""The layout options of subtitles, and the formats that each option has an effect on."""

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Final

from whisperbatch.errors import OptionError
from whisperbatch.options import checks

MAX_LIMIT: Final = 1000  # columns, lines, words: more than any screen shows

_ALL: Final = ("max_line_width", "max_line_count", "max_words_per_line", "highlight_words")

LAYOUT_OPTIONS: Final = MappingProxyType(
    {
        "srt": _ALL,
        "vtt": _ALL,
        "ttml": _ALL,
        "lrc": ("max_line_width", "max_words_per_line"),  # a cue of lyrics has only one line
    }
)
"""For each format of subtitles, the options that have an effect on the format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtitleOptions:
    """The layout of subtitles.

    Attributes:
        max_line_width: maximum width of a line, in columns. East Asian wide characters take two
            columns. A word that is wider gets its own line. None sets no limit.
        max_line_count: maximum number of lines of a cue. A longer segment becomes several cues.
            None sets no limit. Needs `max_line_width` or `max_words_per_line`.
        max_words_per_line: maximum number of words of a line; with `max_line_count=1`, also of a
            cue. None sets no limit. Needs word timestamps.
        highlight_words: show a separate cue for each word, in which this word is underlined. Needs
            word timestamps.

    Raises:
        OptionError: a value has the wrong type, is out of range, or has no effect because of
            another option; the message names the option.
    """

    max_line_width: int | None = 42
    max_line_count: int | None = 2
    max_words_per_line: int | None = None
    highlight_words: bool = False

    def __post_init__(self) -> None:
        for name in ("max_line_width", "max_line_count", "max_words_per_line"):
            if getattr(self, name) is not None:
                checks.integer(name, getattr(self, name), minimum=1, maximum=MAX_LIMIT)
        checks.boolean("highlight_words", self.highlight_words)
        if (self.max_line_width, self.max_words_per_line) == (None, None) and self.max_line_count:
            checks.without_effect(
                self, ("max_line_count",), "without max_line_width or max_words_per_line"
            )

    @property
    def needs_words(self) -> tuple[str, ...]:
        """Names of the options that are set and have no effect without `word_timestamps=True`."""
        return tuple(n for n in ("max_words_per_line", "highlight_words") if getattr(self, n))

    def fitted(self, format: str) -> "SubtitleOptions":  # noqa: A002 - as in `write`
        """Return a copy in which options without effect on the format have their defaults.

        Args:
            format: a name from `FORMATS`; for a format without layout, all options have their
                defaults.

        Returns:
            The copy.
        """
        defaults = {
            field.name: field.default
            for field in fields(self)
            if field.name not in LAYOUT_OPTIONS.get(format, ())
        }
        return replace(self, **defaults)  # type: ignore[arg-type]  # each value fits its field


def check_layout(options: SubtitleOptions, formats: Collection[str]) -> None:
    """Check that each option that is set has an effect on at least one of the formats.

    Raises:
        OptionError: an option has no effect; the message names the option.
    """
    if not isinstance(options, SubtitleOptions):
        raise OptionError(f"options must be a SubtitleOptions value, not {options!r}")
    where = f"on {' or '.join(formats)}" if formats else "without a file of subtitles"
    for name in _ALL:
        if not any(name in LAYOUT_OPTIONS.get(format, ()) for format in formats):  # noqa: A001 - as in `write`
            checks.without_effect(options, (name,), where)
