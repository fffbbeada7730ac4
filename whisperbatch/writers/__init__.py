"""Transcripts as files: text, subtitles, tables and JSON.

transcript -> tables, verbose_json                      txt, tsv, csv, json
           -> cues -> subtitles, ttml                   srt, vtt, lrc, ttml
                |- character_times   when each character is spoken
                |- breaks            where a line may end, and the cost of a line break
                `- layout            the text of each cue and its lines
           -> files                                     written completely, or not at all
"""

import difflib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from whisperbatch.errors import OptionError
from whisperbatch.types import Transcript
from whisperbatch.writers import subtitles, tables
from whisperbatch.writers.files import make_folder, write_atomically, write_text_atomically
from whisperbatch.writers.options import LAYOUT_OPTIONS, SubtitleOptions, check_layout
from whisperbatch.writers.ttml import ttml
from whisperbatch.writers.verbose_json import verbose_json

__all__ = [
    "FORMATS",
    "LAYOUT_OPTIONS",
    "SubtitleOptions",
    "check_layout",
    "make_folder",
    "render",
    "write",
    "write_atomically",
]

FORMATS: Final = ("txt", "srt", "vtt", "tsv", "json", "csv", "lrc", "ttml")
"""Names of the formats; each is also the suffix of its files."""

_RENDER_WITHOUT_LAYOUT: Final[Mapping[str, Callable[[Transcript], str]]] = MappingProxyType(
    {"txt": tables.txt, "tsv": tables.tsv, "csv": tables.csv_table, "json": verbose_json}
)
_RENDER_SUBTITLES: Final[Mapping[str, Callable[[Transcript, SubtitleOptions], str]]] = (
    MappingProxyType(
        {"srt": subtitles.srt, "vtt": subtitles.vtt, "lrc": subtitles.lrc, "ttml": ttml}
    )
)


def render(
    transcript: Transcript,
    format: str,  # noqa: A002 - the usual name of this parameter
    options: SubtitleOptions | None = None,
) -> str:
    """Return a transcript as the text of a file.

    Args:
        transcript: any transcript; silence gives a file without cues or rows.
        format: a name from `FORMATS`.
        options: the layout of subtitles; None for the defaults.

    Returns:
        The text; every line ends with a line feed.

    Raises:
        OptionError: the format is unknown, or an option has no effect on the format or needs
            words that the transcript does not have.
    """
    if not isinstance(transcript, Transcript):
        raise OptionError(f"transcript must be a Transcript, not {type(transcript).__name__}")
    _check_format(format, f"format={format!r}")
    layout = SubtitleOptions() if options is None else options
    check_layout(layout, (format,))
    segments = transcript.segments
    if segments and layout.needs_words and not any(segment.words for segment in segments):
        raise OptionError(
            f"{layout.needs_words[0]} has no effect without words; "
            "transcribe with word_timestamps=True"
        )
    if format in _RENDER_WITHOUT_LAYOUT:
        return _RENDER_WITHOUT_LAYOUT[format](transcript)
    return _RENDER_SUBTITLES[format](transcript, layout)


def write(
    transcript: Transcript,
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002 - the usual name of this parameter
    options: SubtitleOptions | None = None,
) -> Path:
    """Write a transcript to a file, in UTF-8.

    The file is written completely or, if writing fails, stays unchanged.

    Args:
        transcript: any transcript.
        path: of the file; an existing file is replaced.
        format: a name from `FORMATS`; None takes the suffix of the path.
        options: the layout of subtitles; None for the defaults.

    Returns:
        The path.

    Raises:
        OptionError: the format is unknown, or an option has no effect on the format or needs
            words that the transcript does not have.
        WriteError: the file cannot be written.
    """
    if not isinstance(path, str | os.PathLike):
        raise OptionError(f"path must be a path, not {path!r}")
    if format is None:
        format = Path(path).suffix[1:].lower()  # noqa: A001 - the name of the parameter
        _check_format(format, f"the suffix of {os.fspath(path)!r}")
    return write_text_atomically(path, render(transcript, format, options))


def _check_format(format: object, subject: str) -> None:  # noqa: A002 - as in `write`
    """Refuse an unknown format; `subject` begins the message."""
    if format in FORMATS:
        return
    near = difflib.get_close_matches(str(format).lower(), FORMATS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the formats are {', '.join(FORMATS)}"
    raise OptionError(f"{subject} is not a format; {hint}")
