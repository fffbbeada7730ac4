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
    """Return SubRip: numbered cues, with a comma before the milliseconds.

    With speakers, each cue begins with the name, as WhisperX writes it: "[SPEAKER_00]: Yes."
    """
    escape = partial(_ARROW_OR_TAG.sub, _ZERO_WIDTH_SPACE)
    shown = cues(transcript, options, line_count=options.max_line_count, shown_name=_name_in_subrip)
    return "\n".join(
        f"{number}\n{_with_times(cue, ',', escape, escape(_name_in_subrip(cue.speaker)))}"
        for number, cue in enumerate(shown, start=1)
    )


def vtt(transcript: Transcript, options: SubtitleOptions) -> str:
    """Return WebVTT, as defined in https://www.w3.org/TR/webvtt1/.

    With speakers, each cue is a voice span: "<v SPEAKER_00>Yes." Players do not show the name.
    """
    blocks = [
        _with_times(cue, ".", escaped, f"<v {escaped(cue.speaker)}>" if cue.speaker else "")
        for cue in cues(transcript, options, line_count=options.max_line_count)
    ]
    return "\n".join(("WEBVTT\n", *blocks))


def lrc(transcript: Transcript, options: SubtitleOptions) -> str:
    """Return lyrics: one line for each cue, with the start of the cue.

    With speakers, the text begins with the name: "SPEAKER_00: Yes." Brackets would make it a tag.
    """
    shown = cues(transcript, options, line_count=1, step=LRC_STEP, shown_name=_name_in_lyrics)
    return "".join(
        f"[{short_clock(cue.start)}]"
        f"{_TIME_TAG.sub(_ZERO_WIDTH_SPACE, _name_in_lyrics(cue.speaker) + cue.lines[0].text)}\n"
        for cue in shown
    )


def escaped(text: str) -> str:
    """Return the text with WebVTT's markup characters escaped, so that "-->" cannot occur."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _name_in_subrip(name: str) -> str:
    """Return the label before the text of a speaker."""
    return f"[{name}]: " if name else ""


def _name_in_lyrics(name: str) -> str:
    """Return the label before the text of a speaker."""
    return f"{name}: " if name else ""


def _with_times(cue: Cue, mark: str, escape: Callable[[str], str], speaker: str) -> str:
    """Return a cue's times and lines, each with a line break.

    Args:
        cue: any cue.
        mark: separates seconds from milliseconds.
        escape: makes the format show all characters of a text.
        speaker: the start of the first line, as the format writes a speaker.
    """
    rows = [f"{clock(cue.start, mark)} --> {clock(cue.end, mark)}"]
    prefix = speaker
    for line in cue.lines:
        before, underlined, after = map(escape, line.parts)
        line_text = f"{before}<u>{underlined}</u>{after}" if underlined else before + after
        rows.append(prefix + line_text)
        prefix = ""
    return "\n".join((*rows, ""))
