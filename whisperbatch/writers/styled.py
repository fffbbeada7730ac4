"""Advanced SubStation Alpha (.ass): styles, a colour for each speaker, and karaoke."""

import re
from typing import Final

from whisperbatch.text.languages import is_right_to_left
from whisperbatch.types import Transcript
from whisperbatch.writers.cues import Cue, cues
from whisperbatch.writers.formatting import clock
from whisperbatch.writers.options import SubtitleOptions
from whisperbatch.writers.subtitles import SUBRIP_LABEL

STEP: Final = 10  # ms: times have two decimals
COLOURS: Final = ("FFFFFF", "FFFF00", "00FFFF", "00FF00")
"""White, yellow, cyan and green: the colours of speakers in broadcasts, as RGB."""

_NOT_YET_SUNG: Final = "888888"
_HEAD: Final = """[Script Info]
ScriptType: v4.00+
PlayResX: 1920
PlayResY: 1080
WrapStyle: 2
ScaledBorderAndShadow: yes

[V4+ Styles]
Format: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, BackColour, Bold, \
Italic, Underline, StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, Outline, Shadow, \
Alignment, MarginL, MarginR, MarginV, Encoding
"""
_STYLE: Final = (
    "Style: {name},Arial,60,&H00{colour},&H00{waiting},&H00000000,&H80000000,"
    "0,0,0,0,100,100,0,0,1,3,1,2,100,100,60,{encoding}\n"
)
_EVENTS: Final = """
[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
"""
_USUAL_ENCODING: Final = 1
_AUTOMATIC_DIRECTION: Final = -1  # libass takes the direction of each line from its letters
_ESCAPE: Final = re.compile(r"\\(?=[Nnh{}]|$)")  # a backslash that players would interpret
_BRACE: Final = re.compile("[{}]")
_WORD_JOINER: Final = "\u2060"


def ass(transcript: Transcript, options: SubtitleOptions) -> str:
    """Return Advanced SubStation Alpha. Each speaker has a style with a colour.

    With `highlight_words`, the words of a cue get their colour when they are spoken: karaoke.
    """
    found = cues(transcript, options, step=STEP, label=SUBRIP_LABEL)
    names = dict.fromkeys(cue.speaker for cue in found if cue.speaker)
    styles = {name: f"Speaker {number}" for number, name in enumerate(names, start=1)}
    encoding = _USUAL_ENCODING
    if any(is_right_to_left(cue.language) for cue in found):
        encoding = _AUTOMATIC_DIRECTION
    rows = [
        _STYLE.format(
            name=style,
            colour=_bgr(COLOURS[number % len(COLOURS)]),
            waiting=_bgr(_NOT_YET_SUNG),
            encoding=encoding,
        )
        for number, style in enumerate(
            ("Default", *styles.values()) if not styles else styles.values()
        )
    ]
    events = [
        f"Dialogue: 0,{_time(cue.start)},{_time(cue.end)},{styles.get(cue.speaker, 'Default')},"
        f"{cue.speaker.replace(',', ';')},0,0,0,,{_text(cue, karaoke=options.highlight_words)}\n"
        for cue in found
    ]
    return "".join((_HEAD, *rows, _EVENTS, *events))


def _time(time: int) -> str:
    """Return a time with one digit for the hours and two decimals: "0:00:01.50"."""
    return clock(time).removeprefix("0")[:-1]


def _bgr(colour: str) -> str:
    """Return an RGB colour in the order of the format: blue, green, red."""
    return colour[4:] + colour[2:4] + colour[:2]


def _text(cue: Cue, *, karaoke: bool) -> str:
    r"""Return the lines of a cue, with "\N" between them."""
    if karaoke and cue.words:
        return _escape(cue.label) + _karaoke(cue)
    return _escape(cue.label) + r"\N".join(_escape(line.text) for line in cue.lines)


def _karaoke(cue: Cue) -> str:
    r"""Return the lines with the duration of each word: "{\k50}Well, {\k30}I"."""
    position, line, column = cue.start, 0, 0
    text = ""
    for word in cue.words:
        if word.line > line:
            text += _escape(cue.lines[line].text[column:]) + r"\N"
            line, column = word.line, 0
        text += _escape(cue.lines[line].text[column : word.first])
        if word.start > position:
            text += f"{{\\k{(word.start - position) // STEP}}}"
        start = max(word.start, position)
        text += f"{{\\k{max(word.end - start, 0) // STEP}}}"
        text += _escape(cue.lines[line].text[word.first : word.stop])
        position, column = max(position, word.end), word.stop
    rest = [_escape(cue.lines[line].text[column:])]
    rest += [_escape(following.text) for following in cue.lines[line + 1 :]]
    return text + r"\N".join(rest)


def _escape(text: str) -> str:
    """Return a text in which no player finds markup: braces and backslashes are shown."""
    joined = _ESCAPE.sub(lambda match: match[0] + _WORD_JOINER, text)
    return _BRACE.sub(lambda match: "\\" + match[0], joined)
