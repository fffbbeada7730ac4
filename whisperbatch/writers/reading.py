"""Read the cues of subtitle files: SubRip, WebVTT, YouTube's format and SubStation Alpha."""

import html
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from whisperbatch.errors import OptionError
from whisperbatch.text import shown

_CLOCK: Final = r"(?:(\d+):)?(\d{1,2}):(\d{1,2})[.,](\d{1,3})"
_ARROW: Final = re.compile(rf"{_CLOCK}\s*-->\s*{_CLOCK}")
_COMMA: Final = re.compile(rf"{_CLOCK},{_CLOCK}\s*")
_EVENT: Final = re.compile(rf"Dialogue:[^,]*,\s*{_CLOCK}\s*,\s*{_CLOCK}\s*,(?:[^,]*,){{6}}(.*)")
_TAG: Final = re.compile(r"</?[A-Za-z][^<>]*>|<\d[\d:.]*>|\{\\[^{}]*\}")
_HIGHLIGHT: Final = re.compile(r"<u>.*?</u>", re.DOTALL)
_OVERRIDE: Final = re.compile(r"(?<!\\)\{[^{}]*\}")
_NEVER_VISIBLE: Final = re.compile("[\u200b\u2060\ufeff]")


@dataclass(frozen=True, slots=True)
class FileCue:
    """A cue of a file.

    Attributes:
        number: from 1, in the order of the file.
        start: in milliseconds.
        end: in milliseconds.
        lines: of text, without markup; empty if the cue has no text.
    """

    number: int
    start: int
    end: int
    lines: tuple[str, ...]


def read_cues(path: str | os.PathLike[str]) -> list[FileCue]:
    """Read the cues of a file; its suffix states the format.

    Successive cues that highlight the words of the same lines are one cue, as they are shown.

    Raises:
        OptionError: the file cannot be read, has an unknown suffix, or has no cues.
    """
    name = shown(os.fspath(path))
    reader = _READERS.get(Path(path).suffix.lower())
    if reader is None:
        raise OptionError(f"{name} is none of {', '.join(_READERS)}")
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError as error:
        raise OptionError(f"{name}: there is no such file; check the path") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise OptionError(f"{name} cannot be read: {error}") from error
    text = "\n".join(_decoded(data).splitlines())
    found: list[FileCue] = []
    previous = ""  # text of the cue before
    for number, (start, end, block) in enumerate(reader(text), start=1):
        lines = _lines(block)
        if (
            previous != block
            and _HIGHLIGHT.search(previous + block)
            and _goes_on(found, lines, start)
        ):
            found[-1] = replace(found[-1], end=max(end, found[-1].end))
        else:
            found.append(FileCue(number, start, end, lines))
        previous = block
    if not found:
        raise OptionError(f"{name} has no cues; is it a file of subtitles?")
    return found


def _goes_on(found: Sequence[FileCue], lines: tuple[str, ...], start: int) -> bool:
    """Return whether a cue shows the lines of the last cue, without a gap."""
    return bool(found) and found[-1].lines == lines and start <= found[-1].end


def _decoded(data: bytes) -> str:
    if data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError:
            return data.decode("cp1252", errors="replace")
    return data.decode("utf-16", errors="replace")


def _blocks(text: str, times: re.Pattern[str]) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and text of each cue whose times stand on a line before the text.

    A number before the times of the next cue does not belong to the text.
    """
    matches = list(times.finditer(text))
    for number, match in enumerate(matches):
        begin = text.find("\n", match.end())
        stop = matches[number + 1].start() if number + 1 < len(matches) else len(text)
        block = "" if not 0 <= begin < stop else text[begin:stop].strip("\n")
        block = block.split("\n\n")[0]
        yield *_times(match), block


def _times(match: re.Match[str]) -> tuple[int, int]:
    """Return start and end in milliseconds."""
    found = []
    for first in (1, 5):
        hours, minutes, seconds, fraction = match.group(*range(first, first + 4))
        total = (int(hours or 0) * 60 + int(minutes)) * 60 + int(seconds)
        found.append(total * 1000 + int(fraction.ljust(3, "0")))
    return found[0], found[1]


def _events(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and text of each event of a SubStation Alpha file, in order of time."""
    events = []
    for match in _EVENT.finditer(text):
        shown_text = _OVERRIDE.sub("", match[9]).replace(r"\{", "{").replace(r"\}", "}")
        shown_text = re.sub(r"\\[Nn]", "\n", shown_text).replace(r"\h", " ")
        events.append((*_times(match), shown_text))
    yield from sorted(events, key=lambda event: event[:2])


def _lines(block: str) -> tuple[str, ...]:
    """Return the visible lines of a cue's text."""
    text = _NEVER_VISIBLE.sub("", html.unescape(_TAG.sub("", block)))
    return tuple(line.strip() for line in text.split("\n") if line.strip())


def _with(times: re.Pattern[str]) -> Callable[[str], Iterator[tuple[int, int, str]]]:
    return lambda text: _blocks(text, times)


_READERS: Final[MappingProxyType[str, Callable[[str], Iterator[tuple[int, int, str]]]]] = (
    MappingProxyType(
        {
            ".srt": _with(_ARROW),
            ".vtt": _with(_ARROW),
            ".sbv": _with(_COMMA),
            ".ass": _events,
            ".ssa": _events,
        }
    )
)
