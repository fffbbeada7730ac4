"""How subtitles are laid out, and which formats that has an effect on."""

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Final

from whisperbatch.errors import OptionError
from whisperbatch.options import checks

MOST: Final = 1000  # columns, lines, words: more than any screen has

_ALL: Final = ("max_line_width", "max_line_count", "max_words_per_line", "highlight_words")

LAID_OUT: Final = MappingProxyType(
    {
        "srt": _ALL,
        "vtt": _ALL,
        "ttml": _ALL,
        "lrc": ("max_line_width", "max_words_per_line"),  # a line is all that a cue has
    }
)
"""Formats with a layout, to the options that have an effect on them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtitleOptions:
    """How subtitles are laid out.

    Raises OptionError, naming the option, for a value of the wrong type or out of range, and for
    one that has no effect beside the others.

    Attributes:
        max_line_width: columns of a line, of which East Asian wide characters take two. A single
            word that is wider stands on a line of its own. None sets no limit.
        max_line_count: lines of a cue; a segment of more becomes several cues. None sets no
            limit. Needs a limit on lines, too.
        max_words_per_line: words of a line; with max_line_count=1 also of a cue. None sets no
            limit. Needs words.
        highlight_words: give each word a cue of its own in which it is underlined. Needs words.
    """

    max_line_width: int | None = 42
    max_line_count: int | None = 2
    max_words_per_line: int | None = None
    highlight_words: bool = False

    def __post_init__(self) -> None:
        for name in ("max_line_width", "max_line_count", "max_words_per_line"):
            if getattr(self, name) is not None:
                checks.integer(name, getattr(self, name), least=1, most=MOST)
        checks.boolean("highlight_words", self.highlight_words)
        if (self.max_line_width, self.max_words_per_line) == (None, None) and self.max_line_count:
            checks.without_effect(
                self, ("max_line_count",), "without max_line_width or max_words_per_line"
            )

    @property
    def needs_words(self) -> tuple[str, ...]:
        """Which of the options that are set have no effect without `word_timestamps=True`."""
        return tuple(n for n in ("max_words_per_line", "highlight_words") if getattr(self, n))

    def fitted(self, format: str) -> "SubtitleOptions":  # noqa: A002 - as `write` calls it
        """Those that have an effect on a format, the others at their defaults."""
        others = {
            field.name: field.default
            for field in fields(self)
            if field.name not in LAID_OUT.get(format, ())
        }
        return replace(self, **others)  # type: ignore[arg-type]  # each its own


def check_layout(options: SubtitleOptions, formats: Collection[str]) -> None:
    """Each option that is set has an effect on one of the formats, or more.

    Raises:
        OptionError: one has not; the message names it.
    """
    if not isinstance(options, SubtitleOptions):
        raise OptionError(f"options must be a SubtitleOptions value, not {options!r}")
    where = f"on {' or '.join(formats)}" if formats else "without a file of subtitles"
    for name in _ALL:
        if not any(name in LAID_OUT.get(one, ()) for one in formats):
            checks.without_effect(options, (name,), where)
