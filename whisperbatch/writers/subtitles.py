"""Subtitles as plain text: SubRip (.srt), WebVTT (.vtt) and lyrics (.lrc)."""

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from whisperbatch.types import Transcript
from whisperbatch.writers.cues import Cue, cues
from whisperbatch.writers.options import SubtitleOptions
from whisperbatch.writers.timestamps import clock, short_clock

LRC_STEP: Final = 10  # ms: times in lyrics have two decimals

# SubRip and lyrics have no escapes for markup: the arrow "-->", tags of HTML and SubStation Alpha,
# and time tags. A zero-width space inside the markup makes players show the characters.
_ZERO_WIDTH_SPACE: Final = "\u200b"
_ARROW_OR_TAG: Final = re.compile(r"(?<=-)(?=->)|(?<=<)(?=[\s/!]*\w)|(?<=\{)(?=\\)")
_TIME_TAG: Final = re.compile(r"(?<=[\[<])(?=\s*\d+:\d)")


def srt(transcript: Transcript, options: SubtitleOptions) -> str:
    """Return SubRip: numbered cues, with a comma before the milliseconds."""
    return "\n".join(
        f"{number}\n{_with_times(cue, ',', partial(_ARROW_OR_TAG.sub, _ZERO_WIDTH_SPACE))}"
        for number, cue in enumerate(_cues(transcript, options), start=1)
    )


def vtt(transcript: Transcript, options: SubtitleOptions) -> str:
    """Return WebVTT, as defined in https://www.w3.org/TR/webvtt1/."""
    blocks = [_with_times(cue, ".", escaped) for cue in _cues(transcript, options)]
    return "\n".join(("WEBVTT\n", *blocks))


def lrc(transcript: Transcript, options: SubtitleOptions) -> str:
    """Return lyrics: one line for each cue, with the start of the cue."""
    return "".join(
        f"[{short_clock(cue.start)}]{_TIME_TAG.sub(_ZERO_WIDTH_SPACE, cue.lines[0].text)}\n"
        for cue in cues(transcript, options, line_count=1, step=LRC_STEP)
    )


def escaped(text: str) -> str:
    """Return the text with WebVTT's markup characters escaped, so that "-->" cannot occur."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _cues(transcript: Transcript, options: SubtitleOptions) -> list[Cue]:
    return cues(transcript, options, line_count=options.max_line_count)


def _with_times(cue: Cue, mark: str, escape: Callable[[str], str]) -> str:
    """Return a cue's times and lines, each with a line break.

    Args:
        cue: any cue.
        mark: separates seconds from milliseconds.
        escape: makes the format show all characters of a text.
    """
    rows = [f"{clock(cue.start, mark)} --> {clock(cue.end, mark)}"]
    for line in cue.lines:
        before, underlined, after = map(escape, line.parts)
        rows.append(f"{before}<u>{underlined}</u>{after}" if underlined else before + after)
    return "\n".join((*rows, ""))
