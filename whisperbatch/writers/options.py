"""The options of files, and the formats that each option has an effect on."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, TypedDict, cast, get_args

from typing_extensions import Self, Unpack

from whisperbatch.errors import OptionError
from whisperbatch.options import checks, convert_fields, hint_for
from whisperbatch.text import one_line, short_repr
from whisperbatch.writers.rules import FRAME_RATE, Rules, RulesName, rules_for

MAX_LIMIT: Final = 1000  # columns, lines, words, columns per second: more than any screen shows
MAX_CUE: Final = 3600.0  # seconds
AUTO: Final = "auto"

SpeakerStyle = Literal["name", "on-change", "dash", "none"]

_LYRICS: Final = ("max_line_width", "max_words_per_line", "subtitle_rules")
_TIMES: Final = ("min_cue_duration", "max_cue_duration", "max_reading_speed", "frame_rate")
_LAYOUT: Final = (*_LYRICS, "max_line_count", *_TIMES)
_FIRST_OPTIONS: Final[Mapping[str, object]] = MappingProxyType(
    {
        "max_line_width": 42,
        "max_line_count": 2,
        "max_words_per_line": None,
        "highlight_words": False,
    }
)
"""The options of the first versions and their defaults, which are in the keys of all outputs."""
_LABEL: Final = "speaker_style"
_TABLE: Final = ("spreadsheet_safe",)

FORMAT_OPTIONS: Final = MappingProxyType(
    {
        "srt": (*_LAYOUT, "highlight_words", _LABEL),
        "vtt": (*_LAYOUT, "highlight_words"),
        "ttml": (*_LAYOUT, "highlight_words"),
        "ass": (*_LAYOUT, "highlight_words", _LABEL),
        "sbv": (*_LAYOUT, _LABEL),
        "lrc": (*_LYRICS, _LABEL),  # a cue of lyrics has only one line, and no end
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
    """The layout and the times of subtitles.

    Attributes:
        max_line_width: maximum width of a line, in columns. East Asian wide characters take two
            columns. A word that is wider gets its own line. None sets no limit: a segment is one
            cue. "auto" takes the width of `subtitle_rules` for the language, usually 42.
        max_line_count: maximum number of lines of a cue. A longer segment becomes several cues.
            None sets no limit. Needs `max_line_width` or `max_words_per_line`. "auto" is 2.
        max_words_per_line: maximum number of words of a line; with `max_line_count=1`, also of a
            cue. None sets no limit. Needs word timestamps.
        highlight_words: show a separate cue for each word, in which this word is underlined. Needs
            word timestamps. In ass files, the words are coloured as they are spoken (karaoke).
        subtitle_rules: the rules for lines and times: "netflix", "bbc", "youtube" (for phones), or
            "plain": lines of 42 columns, and each cue is shown exactly as long as its speech. The
            other options replace single rules.
        min_cue_duration: the least seconds that a cue is shown, if there is time. "auto" takes the
            duration of `subtitle_rules`.
        max_cue_duration: the most seconds that a cue is shown; a longer segment becomes several
            cues. None sets no limit. "auto" takes the duration of `subtitle_rules`.
        max_reading_speed: the most columns that are read in a second: a cue is shown longer than
            its speech if there is time. None sets no limit. "auto" takes the speed of
            `subtitle_rules` for the language.
        frame_rate: frames per second of the video. The gap between two cues is two frames.
        speaker_style: how a file shows who speaks, if the transcript has speakers: "name" before
            each cue, "on-change" before the first cue of a speaker's turn, "dash" for a dash there,
            or "none".

    Raises:
        OptionError: a value has the wrong type, is out of range, or has no effect because of
            another option; the message names the option.
    """

    max_line_width: int | Literal["auto"] | None = "auto"
    max_line_count: int | Literal["auto"] | None = "auto"
    max_words_per_line: int | None = None
    highlight_words: bool = False
    subtitle_rules: RulesName = "netflix"
    min_cue_duration: float | Literal["auto"] = "auto"
    max_cue_duration: float | Literal["auto"] | None = "auto"
    max_reading_speed: float | Literal["auto"] | None = "auto"
    frame_rate: float = FRAME_RATE
    speaker_style: SpeakerStyle = "name"

    __repr__ = short_repr

    def __post_init__(self) -> None:
        convert_fields(self, SubtitleOptions)
        for name in ("max_line_width", "max_line_count", "max_words_per_line"):
            if self._limits(name) or (name == "max_words_per_line" and self.max_words_per_line):
                checks.integer(name, getattr(self, name), minimum=1, maximum=MAX_LIMIT)
        checks.boolean("highlight_words", self.highlight_words)
        checks.choice("subtitle_rules", self.subtitle_rules, get_args(RulesName))
        checks.choice("speaker_style", self.speaker_style, get_args(SpeakerStyle))
        if not _is_auto(self.min_cue_duration):
            checks.number("min_cue_duration", self.min_cue_duration, minimum=0, maximum=MAX_CUE)
        if self._limits("max_cue_duration"):
            checks.number("max_cue_duration", self.max_cue_duration, minimum=0.1, maximum=MAX_CUE)
        if self._limits("max_reading_speed"):
            checks.number("max_reading_speed", self.max_reading_speed, minimum=1, maximum=MAX_LIMIT)
        checks.number("frame_rate", self.frame_rate, minimum=1, maximum=MAX_LIMIT)
        if (self.max_line_width, self.max_words_per_line) == (None, None) and self.max_line_count:
            checks.without_effect(
                self, ("max_line_count",), "without `max_line_width` or `max_words_per_line`"
            )
        if self.subtitle_rules == "plain":
            checks.without_effect(self, _TIMES, 'with subtitle_rules="plain"')
        shortest, longest = self.rules("en").min_duration, self.rules("en").max_duration
        if longest is not None and shortest > longest:
            raise OptionError(
                f"min_cue_duration={shortest:g} is longer than max_cue_duration={longest:g}"
            )

    def _limits(self, name: str) -> bool:
        """Return whether a field is a number, or a wrong value."""
        value = getattr(self, name)
        return value is not None and not _is_auto(value)

    @property
    def key(self) -> str:
        """The options as text, for the keys of outputs that jobs have finished.

        With default rules, it is the text of the versions that had no rules: a new version does not
        make the outputs of an archive again.
        """
        values = {
            field.name: _FIRST_OPTIONS[field.name] if _is_auto(value) else value
            for field in fields(self)
            for value in [getattr(self, field.name)]
            if field.name in _FIRST_OPTIONS or value != field.default
        }
        text = ", ".join(f"{name}={value!r}" for name, value in values.items())
        given = [name for name in ("max_line_width", "max_line_count") if self._limits(name)]
        also = [name for name in given if values[name] == _FIRST_OPTIONS[name]]
        return f"SubtitleOptions({text}{''.join(f', {name} is given' for name in also)})"

    @property
    def needs_words(self) -> tuple[str, ...]:
        """Names of the options that are set and have no effect without `word_timestamps=True`."""
        return tuple(n for n in ("max_words_per_line", "highlight_words") if getattr(self, n))

    def rules(self, language: str) -> Rules:
        """Return the rules for a language: those of `subtitle_rules`, and the options that are set.

        Args:
            language: Whisper's code.

        Returns:
            The rules.
        """
        rules = rules_for(self.subtitle_rules, language, self.frame_rate)
        given = {
            "max_line_width": self.max_line_width,
            "max_line_count": self.max_line_count,
            "min_duration": self.min_cue_duration,
            "max_duration": self.max_cue_duration,
            "max_reading_speed": self.max_reading_speed,
        }
        changed = {name: value for name, value in given.items() if value != AUTO}
        if "max_reading_speed" in changed:
            changed["max_words"] = None
        return replace(rules, **changed)  # type: ignore[arg-type]  # checked above


def _is_auto(value: object) -> bool:
    return type(value) is str and value == AUTO


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


class SubtitleKeywords(TypedDict, total=False):
    """The fields of `SubtitleOptions`."""

    max_line_width: int | Literal["auto"] | None
    max_line_count: int | Literal["auto"] | None
    max_words_per_line: int | None
    highlight_words: bool
    subtitle_rules: RulesName
    min_cue_duration: float | Literal["auto"]
    max_cue_duration: float | Literal["auto"] | None
    max_reading_speed: float | Literal["auto"] | None
    frame_rate: float
    speaker_style: SpeakerStyle


class FileKeywords(SubtitleKeywords, total=False):
    """The fields of `SubtitleOptions` and `TableOptions`."""

    spreadsheet_safe: bool


def file_options(
    format: str,  # noqa: A002 - as in `write`
    options: FileOptions | None,
    **keywords: Unpack[FileKeywords],
) -> FileOptions | None:
    """Return `options` (None: the defaults) with the fields that `keywords` name replaced.

    Args:
        format: a name from `FORMATS`.
        options: as in `write`.
        **keywords: fields of the options that have an effect on the format.

    Raises:
        OptionError: a keyword is unknown or wrong, or has no effect on the format.
    """
    known = FORMAT_OPTIONS.get(format, ())
    for name in keywords:
        if name not in known:
            if name in FileKeywords.__annotations__:
                raise OptionError(f"{name} has no effect on {format}; leave it out")
            hint = hint_for(name, known) or f"{format} has {', '.join(known) or 'no options'}"
            raise OptionError(f"{one_line(name)} is not an option of files; {hint}")
    if not keywords:
        return options
    kind = TableOptions if format in TABLE_FORMATS else SubtitleOptions
    return replace(cast("Any", options or kind()), **keywords)  # type: ignore[no-any-return]


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
