"""Transcripts as files: text, subtitles, tables and JSON."""

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
from whisperbatch.writers.options import LAID_OUT, SubtitleOptions, check_layout
from whisperbatch.writers.ttml import ttml
from whisperbatch.writers.verbose_json import verbose_json

__all__ = [
    "FORMATS",
    "LAID_OUT",
    "SubtitleOptions",
    "check_layout",
    "make_folder",
    "render",
    "write",
    "write_atomically",
]

FORMATS: Final = ("txt", "srt", "vtt", "tsv", "json", "csv", "lrc", "ttml")
"""Each is also the suffix of its files."""

_PLAIN: Final[Mapping[str, Callable[[Transcript], str]]] = MappingProxyType(
    {"txt": tables.txt, "tsv": tables.tsv, "csv": tables.csv_table, "json": verbose_json}
)
_SUBTITLES: Final[Mapping[str, Callable[[Transcript, SubtitleOptions], str]]] = MappingProxyType(
    {"srt": subtitles.srt, "vtt": subtitles.vtt, "lrc": subtitles.lrc, "ttml": ttml}
)


def render(
    transcript: Transcript,
    format: str,  # noqa: A002 - what it is called everywhere else
    options: SubtitleOptions | None = None,
) -> str:
    """A transcript as the text of a file.

    Args:
        transcript: any; silence gives a file without cues or rows.
        format: one of `FORMATS`.
        options: the layout of subtitles; None for its defaults.

    Returns:
        The text; a line feed ends each line.

    Raises:
        OptionError: no such format, or an option has no effect with it or without words.
    """
    if not isinstance(transcript, Transcript):
        raise OptionError(f"transcript must be a Transcript, not {type(transcript).__name__}")
    _check_format(format, f"format={format!r}")
    layout = SubtitleOptions() if options is None else options
    check_layout(layout, (format,))
    spoken = transcript.segments
    if spoken and layout.needs_words and not any(segment.words for segment in spoken):
        raise OptionError(
            f"{layout.needs_words[0]} has no effect without words; "
            "transcribe with word_timestamps=True"
        )
    if format in _PLAIN:
        return _PLAIN[format](transcript)
    return _SUBTITLES[format](transcript, layout)


def write(
    transcript: Transcript,
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002 - what it is called everywhere else
    options: SubtitleOptions | None = None,
) -> Path:
    """Write a transcript to a file, in UTF-8; the file is whole or as it was.

    Args:
        transcript: any.
        path: of the file. What is there is replaced.
        format: one of `FORMATS`; None for that which the path's suffix names.
        options: the layout of subtitles; None for its defaults.

    Returns:
        The path.

    Raises:
        OptionError: no such format, or an option has no effect with it or without words.
        WriteError: the file cannot be written.
    """
    if not isinstance(path, str | os.PathLike):
        raise OptionError(f"path must be a path, not {path!r}")
    if format is None:
        format = Path(path).suffix[1:].lower()  # noqa: A001 - likewise
        _check_format(format, f"the suffix of {os.fspath(path)!r}")
    return write_text_atomically(path, render(transcript, format, options))


def _check_format(format: object, named: str) -> None:  # noqa: A002 - likewise
    if format in FORMATS:
        return
    near = difflib.get_close_matches(str(format).lower(), FORMATS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(FORMATS)}"
    raise OptionError(f"{named} is not a format; {hint}")
