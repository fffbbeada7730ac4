"""Subtitles as plain text: SubRip (.srt), WebVTT (.vtt) and lyrics (.lrc)."""

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from whisperbatch.types import Transcript
from whisperbatch.writers.cues import Cue, cues
from whisperbatch.writers.options import SubtitleOptions
from whisperbatch.writers.times import clock, short_clock

LRC_STEP: Final = 10  # ms: times have two decimals

# SubRip and lyrics cannot escape what they take for markup: an arrow, tags of HTML, of SubStation
# and of time. A zero-width space parts it, so that it is shown as it was said.
_ZERO_WIDTH_SPACE: Final = "\u200b"
_ARROW_OR_TAG: Final = re.compile(r"(?<=-)(?=->)|(?<=<)(?=[\s/!]*\w)|(?<=\{)(?=\\)")
_TIME_TAG: Final = re.compile(r"(?<=[\[<])(?=\s*\d+:\d)")


def srt(transcript: Transcript, options: SubtitleOptions) -> str:
    """SubRip: numbered cues, a comma before milliseconds."""
    return "\n".join(
        f"{number}\n{_timed(cue, ',', partial(_ARROW_OR_TAG.sub, _ZERO_WIDTH_SPACE))}"
        for number, cue in enumerate(_cues(transcript, options), start=1)
    )


def vtt(transcript: Transcript, options: SubtitleOptions) -> str:
    """WebVTT, as https://www.w3.org/TR/webvtt1/ has it."""
    shown = [_timed(cue, ".", escaped) for cue in _cues(transcript, options)]
    return "\n".join(("WEBVTT\n", *shown))


def lrc(transcript: Transcript, options: SubtitleOptions) -> str:
    """Lyrics: a line a cue, with the time when it begins."""
    found = cues(transcript, options, line_count=1, step=LRC_STEP)
    return "".join(
        f"[{short_clock(cue.start)}]{_TIME_TAG.sub(_ZERO_WIDTH_SPACE, cue.lines[0].text)}\n"
        for cue in found
    )


def escaped(text: str) -> str:
    """Text with what is markup in WebVTT escaped; it then holds no "-->" either."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _cues(transcript: Transcript, options: SubtitleOptions) -> list[Cue]:
    return cues(transcript, options, line_count=options.max_line_count)


def _timed(cue: Cue, mark: str, escape: Callable[[str], str]) -> str:
    """A cue's times and its lines, each with its line break."""
    rows = [f"{clock(cue.start, mark)} --> {clock(cue.end, mark)}"]
    for line in cue.lines:
        before, marked, after = map(escape, line.parts)
        rows.append(f"{before}<u>{marked}</u>{after}" if marked else before + after)
    return "\n".join((*rows, ""))
