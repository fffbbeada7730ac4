"""Transcripts as files: text, subtitles, tables and JSON.

transcript -> tables                        txt, tsv, csv, rttm
           -> verbose_json                  json
           -> cues -> subtitles, styled     srt, vtt, sbv, lrc, ttml, ass
              |- layout, breaks             where cues and lines end
              |- timing                     when each cue is shown
              `- rules                      of broadcasters, for both; `checking` finds violations
           -> timeline                      a picture, for the command line
           -> notebook                      HTML, for the cell of a notebook
files                                       written completely, or not at all
"""

import difflib
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from typing_extensions import Unpack

from whisperbatch.errors import OptionError, WriteError
from whisperbatch.files import make_folder, write_atomically, write_through
from whisperbatch.options import FORMAT_REMARKS, OTHER_FORMATS, checks, plain
from whisperbatch.text import shown
from whisperbatch.types import Diarization, Transcript, check_fields
from whisperbatch.writers import styled, subtitles, tables
from whisperbatch.writers.checking import Violation, check
from whisperbatch.writers.formatting import clock, one_line, speaker_prefix
from whisperbatch.writers.options import (
    FORMAT_OPTIONS,
    SUBTITLE_FORMATS,
    TABLE_FORMATS,
    FileKeywords,
    FileOptions,
    SubtitleOptions,
    TableOptions,
    check_file_options,
    file_options,
)
from whisperbatch.writers.rules import FRAME_RATE, RulesName
from whisperbatch.writers.verbose_json import (
    segment_values,
    transcript_values,
    verbose_json,
    verbose_values,
)

log = logging.getLogger(__name__)

__all__ = [
    "FORMATS",
    "FORMAT_OPTIONS",
    "FRAME_RATE",
    "SPEAKER_FORMATS",
    "SUBTITLE_FORMATS",
    "TABLE_FORMATS",
    "FileOptions",
    "RulesName",
    "SubtitleOptions",
    "TableOptions",
    "Violation",
    "check",
    "check_file_options",
    "check_format",
    "clock",
    "format_of",
    "make_folder",
    "one_line",
    "render",
    "segment_values",
    "speaker_prefix",
    "transcript_values",
    "verbose_values",
    "write",
    "write_atomically",
    "write_through",
]

_WRITERS: Final[Mapping[str, Callable[..., str]]] = MappingProxyType(
    {
        "txt": tables.txt,
        "srt": subtitles.srt,
        "vtt": subtitles.vtt,
        "tsv": tables.tsv,
        "json": verbose_json,
        "csv": tables.csv_table,
        "lrc": subtitles.lrc,
        "ttml": subtitles.ttml,
        "ass": styled.ass,
        "sbv": subtitles.sbv,
        "rttm": tables.rttm,
    }
)

FORMATS: Final = tuple(_WRITERS)
"""Names of the formats; each is also the suffix of its files."""

SPEAKER_FORMATS: Final = ("rttm",)
"""The formats that hold the turns of speakers, and no text. They need `diarize=True`."""


def render(
    transcript: Transcript | Diarization,
    format: str,  # noqa: A002 - the usual name of this parameter
    options: FileOptions | None = None,
    **keywords: Unpack[FileKeywords],
) -> str:
    """Return a transcript as the text of a file.

    Args:
        transcript: any transcript; silence gives a file without cues or rows. A Diarization has
            no text, so it needs the format rttm.
        format: a name from `FORMATS`.
        options: `SubtitleOptions` for subtitles, `TableOptions` for csv and tsv; None for the
            defaults.
        **keywords: any field of these options, which replaces the field of `options`.

    Returns:
        The text; every line ends with a line feed.

    Raises:
        OptionError: the format is unknown, or an option has no effect on the format, or the
            format or an option needs speakers or words that the transcript does not have.
        WriteError: a field of the transcript has the wrong type, or a time is not finite.
    """
    if not isinstance(transcript, Transcript | Diarization):
        raise OptionError(f"transcript must be a Transcript, not {type(transcript).__name__}")
    check_format(format, f"format={shown(format)}")
    options = file_options(format, options, **keywords)
    if options is not None:
        check_file_options(options, (format,))
    try:
        check_fields(Transcript if isinstance(transcript, Transcript) else Diarization, transcript)
    except OptionError as error:
        raise WriteError(str(error)) from error
    writer = _WRITERS[format]
    if isinstance(transcript, Diarization) and format not in SPEAKER_FORMATS:
        raise OptionError(f"a Diarization has no text for format={shown(format)}; write it as rttm")
    if format in TABLE_FORMATS:
        return writer(transcript, options if isinstance(options, TableOptions) else TableOptions())
    if isinstance(transcript, Diarization) or format not in SUBTITLE_FORMATS:
        return writer(transcript)
    layout = options if isinstance(options, SubtitleOptions) else SubtitleOptions()
    _check_words(transcript, layout)
    return writer(transcript, layout)


def write(
    transcript: Transcript | Diarization,
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002 - the usual name of this parameter
    options: FileOptions | None = None,
    **keywords: Unpack[FileKeywords],
) -> Path:
    """Write a transcript to a file, in UTF-8.

    The file is written completely or, if writing fails, stays unchanged. For subtitles, transcribe
    with `word_timestamps=True`: without words, the time of a long segment is divided among its cues
    by the length of their text, and a cue may come a second too early or too late.

    Args:
        transcript: any transcript, or a Diarization with the format rttm.
        path: of the file; an existing file is replaced, and its folder is made if necessary.
        format: a name from `FORMATS`; None takes the suffix of the path.
        options: `SubtitleOptions` for subtitles, `TableOptions` for csv and tsv; None for the
            defaults.
        **keywords: any field of these options, which replaces the field of `options`.

    Returns:
        The path.

    Raises:
        OptionError: the format is unknown, or an option has no effect on the format, or the
            format or an option needs speakers or words that the transcript does not have.
        WriteError: the file cannot be written, a field of the transcript has the wrong type, or a
            time is not finite.
    """
    checks.path("path", path)
    if format is None:
        format = format_of(path)  # noqa: A001 - the name of the parameter
        check_format(format, f"the suffix of path={shown(os.fspath(path))}")
    data = render(transcript, format, options, **keywords).encode()
    if (
        format in SUBTITLE_FORMATS
        and isinstance(transcript, Transcript)
        and _lacks_words(transcript)
    ):
        log.warning(
            "%s: the times of long cues are estimated; transcribe with word_timestamps=True for "
            "exact times",
            os.fspath(path),
        )
    make_folder(Path(path).parent)
    return write_atomically(path, data)


def _lacks_words(transcript: Transcript | Diarization) -> bool:
    """Return whether a transcript has segments, but no words."""
    if isinstance(transcript, Diarization):
        return False
    return bool(transcript.segments) and not any(each.words for each in transcript.segments)


def _check_words(transcript: Transcript, layout: SubtitleOptions) -> None:
    """Refuse options that need words if the transcript has none. Silence is not an error."""
    if layout.needs_words and _lacks_words(transcript):
        raise OptionError(
            f"`{layout.needs_words[0]}` has no effect without words; "
            "transcribe with `word_timestamps=True`"
        )


def format_of(path: str | os.PathLike[str]) -> str:
    """Return the format that the suffix of a path names, in lower case; it may be unknown."""
    return Path(path).suffix[1:].lower()


def check_format(format: object, subject: str) -> None:  # noqa: A002 - as in `write`
    """Refuse a name that is not in `FORMATS`; `subject` begins the message.

    Raises:
        OptionError: the format is unknown.
    """
    name = plain(format)
    if type(name) is str and name in FORMATS:
        return
    text = shown(name).strip("'").lower()
    near = difflib.get_close_matches(text, FORMATS, n=1)
    hint = ""
    if text in OTHER_FORMATS:
        remark = f" ({FORMAT_REMARKS[text]})" if text in FORMAT_REMARKS else ""
        hint = f"use {OTHER_FORMATS[text]}{remark}; "
    elif near:
        hint = f"did you mean {near[0]!r}? "
    raise OptionError(f"{subject} is not a format; {hint}the formats are {', '.join(FORMATS)}")
