"""The options of files, and the formats that each option has an effect on."""

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Final, TypeAlias

from typing_extensions import Self

from whisperbatch.errors import OptionError
from whisperbatch.options import checks, convert_fields

MAX_LIMIT: Final = 1000  # columns, lines, words: more than any screen shows

_LAYOUT: Final = ("max_line_width", "max_line_count", "max_words_per_line", "highlight_words")
_TABLE: Final = ("spreadsheet_safe",)

FORMAT_OPTIONS: Final = MappingProxyType(
    {
        "srt": _LAYOUT,
        "vtt": _LAYOUT,
        "ttml": _LAYOUT,
        "lrc": ("max_line_width", "max_words_per_line"),  # a cue of lyrics has only one line
        "tsv": _TABLE,
        "csv": _TABLE,
    }
)
"""For each format, the options that have an effect on the format; other formats have no options."""

TABLE_FORMATS: Final = tuple(name for name, own in FORMAT_OPTIONS.items() if own == _TABLE)
"""The formats that `TableOptions` has an effect on."""

SUBTITLE_FORMATS: Final = tuple(name for name in FORMAT_OPTIONS if name not in TABLE_FORMATS)
"""The formats that `SubtitleOptions` has an effect on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _FormatOptions:
    """Base of the option classes."""

    def fitted(self, format: str) -> Self:  # noqa: A002 - as in `write`
        """Return a copy in which options without effect on the format have their defaults.

        Args:
            format: a name from `FORMATS`; for a format without options, all options have their
                defaults.

        Returns:
            The copy.
        """
        defaults = {
            field.name: field.default
            for field in fields(self)
            if field.name not in FORMAT_OPTIONS.get(format, ())
        }
        return replace(self, **defaults)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtitleOptions(_FormatOptions):
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
        convert_fields(self, SubtitleOptions)
        for name in ("max_line_width", "max_line_count", "max_words_per_line"):
            if getattr(self, name) is not None:
                checks.integer(name, getattr(self, name), minimum=1, maximum=MAX_LIMIT)
        checks.boolean("highlight_words", self.highlight_words)
        if (self.max_line_width, self.max_words_per_line) == (None, None) and self.max_line_count:
            checks.without_effect(
                self, ("max_line_count",), "without `max_line_width` or `max_words_per_line`"
            )

    @property
    def needs_words(self) -> tuple[str, ...]:
        """Names of the options that are set and have no effect without `word_timestamps=True`."""
        return tuple(n for n in ("max_words_per_line", "highlight_words") if getattr(self, n))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions(_FormatOptions):
    """The content of tables.

    Attributes:
        spreadsheet_safe: put an apostrophe before a text that a spreadsheet would evaluate as a
            formula, because it begins with "=", "+", "-" or "@". False leaves such texts unchanged.

    Raises:
        OptionError: a value has the wrong type; the message names the option.
    """

    spreadsheet_safe: bool = True

    def __post_init__(self) -> None:
        convert_fields(self, TableOptions)
        checks.boolean("spreadsheet_safe", self.spreadsheet_safe)


FileOptions: TypeAlias = SubtitleOptions | TableOptions


def check_file_options(options: FileOptions, formats: Collection[str]) -> None:
    """Check that each option that is set has an effect on at least one of the formats.

    Raises:
        OptionError: an option has no effect; the message names the option.
    """
    if not issubclass(type(options), SubtitleOptions | TableOptions):
        raise OptionError(
            f"options must be a SubtitleOptions or TableOptions value, not {type(options).__name__}"
        )
    kind = "a table" if isinstance(options, TableOptions) else "a file of subtitles"
    where = f"on {' or '.join(formats)}" if formats else f"without {kind}"
    for field in fields(options):
        if not any(field.name in FORMAT_OPTIONS.get(format, ()) for format in formats):  # noqa: A001 - as in `write`
            checks.without_effect(options, (field.name,), where)
