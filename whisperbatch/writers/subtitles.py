"""Subtitles: SubRip (.srt), WebVTT (.vtt), YouTube's (.sbv), lyrics (.lrc), Timed Text (.ttml)."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final
from xml.etree import ElementTree as ET

from whisperbatch.text.languages import is_right_to_left
from whisperbatch.types import Transcript
from whisperbatch.writers.cues import Cue, cues, highlighted
from whisperbatch.writers.formatting import begins_right_to_left, clock, one_line, short_clock
from whisperbatch.writers.options import SubtitleOptions

SUBRIP_LABEL: Final = "[{}]: "
LYRICS_LABEL: Final = "{}: "
LRC_STEP: Final = 10  # ms: times in lyrics have two decimals

# SubRip and lyrics have no escapes for markup: the arrow "-->", tags of HTML and SubStation Alpha,
# and time tags. A zero-width space inside the markup makes players show the characters.
_ZERO_WIDTH_SPACE: Final = "\u200b"
_ARROW_OR_TAG: Final = re.compile(r"(?<=-)(?=->)|(?<=<)(?=[\s/!]*\w)|(?<=\{)(?=\\)")
_TIME_TAG: Final = re.compile(r"(?<=[\[<])(?=\s*\d+:\d)")

_ROOT: Final = {
    "xmlns": "http://www.w3.org/ns/ttml",
    "xmlns:tts": "http://www.w3.org/ns/ttml#styling",
}
_REGION: Final = {  # centred at the bottom of the picture
    "xml:id": "bottom",
    "tts:origin": "10% 10%",
    "tts:extent": "80% 80%",
    "tts:displayAlign": "after",
    "tts:textAlign": "center",
}
_METADATA: Final = "http://www.w3.org/ns/ttml#metadata"
_RIGHT_TO_LEFT: Final = {"tts:direction": "rtl", "tts:unicodeBidi": "embed"}
_RLM: Final = "&rlm;"  # in WebVTT, the mark of a right-to-left line
_UNDERLINE: Final = {"tts:textDecoration": "underline"}


def srt(transcript: Transcript, options: SubtitleOptions) -> str:
    """Return SubRip: numbered cues, with a comma before the milliseconds.

    With speakers, each cue begins with the name, as WhisperX writes it: "[SPEAKER_00]: Yes."
    """
    escape = partial(_ARROW_OR_TAG.sub, _ZERO_WIDTH_SPACE)
    shown = _shown(cues(transcript, options, label=SUBRIP_LABEL), options)
    return "\n".join(
        f"{number}\n{_with_times(cue, ',', escape, escape(cue.label))}"
        for number, cue in enumerate(shown, start=1)
    )


def vtt(transcript: Transcript, options: SubtitleOptions) -> str:
    """Return WebVTT, as defined in https://www.w3.org/TR/webvtt1/.

    With speakers, each cue is a voice span: "<v SPEAKER_00>Yes." Players do not show the name.
    """
    blocks = [
        _with_times(cue, ".", escaped, f"<v {escaped(cue.speaker)}>" if cue.speaker else "", _RLM)
        for cue in _shown(cues(transcript, options), options)
    ]
    return "\n".join(("WEBVTT\n", *blocks))


def sbv(transcript: Transcript, options: SubtitleOptions) -> str:
    """Return YouTube's own format: the times of a cue on one line, and its text."""
    blocks = []
    for cue in cues(transcript, options, label=SUBRIP_LABEL):
        start, end = (clock(time).removeprefix("0") for time in (cue.start, cue.end))
        text = "\n".join(line.text for line in cue.lines)
        blocks.append(f"{start},{end}\n{cue.label}{text}\n")
    return "\n".join(blocks)


def lrc(transcript: Transcript, options: SubtitleOptions) -> str:
    """Return lyrics: one line for each cue, with the start of the cue.

    With speakers, the text begins with the name: "SPEAKER_00: Yes." Brackets would make it a tag.
    """
    shown = cues(transcript, options, line_count=1, step=LRC_STEP, label=LYRICS_LABEL, timed=False)
    return "".join(
        f"[{short_clock(cue.start)}]"
        f"{_TIME_TAG.sub(_ZERO_WIDTH_SPACE, cue.label + cue.lines[0].text)}\n"
        for cue in shown
    )


def _shown(found: Iterable[Cue], options: SubtitleOptions) -> list[Cue]:
    """Return the cues, or a cue for each word if words are highlighted."""
    return list(highlighted(found) if options.highlight_words else found)


def escaped(text: str) -> str:
    """Return the text with WebVTT's markup characters escaped, so that "-->" cannot occur."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _with_times(
    cue: Cue, mark: str, escape: Callable[[str], str], label: str, direction: str = ""
) -> str:
    """Return a cue's times and lines, each with a line break.

    Args:
        cue: any cue.
        mark: separates seconds from milliseconds.
        escape: makes the format show all characters of a text.
        label: the start of the first line, as the format writes a speaker.
        direction: begins a line of a right-to-left language whose first letter is of another one.
    """
    rows = [f"{clock(cue.start, mark)} --> {clock(cue.end, mark)}"]
    prefix = label
    is_right_to_left_cue = is_right_to_left(cue.language)
    for line in cue.lines:
        before, underlined, after = map(escape, line.parts)
        line_text = f"{before}<u>{underlined}</u>{after}" if underlined else before + after
        if is_right_to_left_cue and not begins_right_to_left(line.text):
            prefix += direction
        rows.append(prefix + line_text)
        prefix = ""
    return "\n".join((*rows, ""))


def ttml(transcript: Transcript, options: SubtitleOptions) -> str:
    """Return a document with one paragraph for each cue, as in https://www.w3.org/TR/ttml1/.

    The document has the language of most cues. A cue in another language states its language.
    The head has an agent for each speaker, and a cue names the agent that speaks.
    """
    all_cues = _shown(cues(transcript, options), options)
    most_common = Counter(cue.language for cue in all_cues).most_common(1)
    language = most_common[0][0] if most_common else ""
    names = dict.fromkeys(cue.speaker for cue in all_cues if cue.speaker)
    agents = {name: f"speaker{number}" for number, name in enumerate(names, start=1)}
    namespaces = {**_ROOT, "xmlns:ttm": _METADATA} if agents else _ROOT
    root = ET.Element("tt", {**namespaces, "xml:lang": _language_tag(language)})
    head = ET.SubElement(root, "head")
    _add_agents(head, agents)
    ET.SubElement(ET.SubElement(head, "layout"), "region", _REGION)
    division = ET.SubElement(ET.SubElement(root, "body", region="bottom"), "div")
    division.text = "\n"
    for cue in all_cues:
        stated = {} if cue.language == language else {"xml:lang": _language_tag(cue.language)}
        direction = _RIGHT_TO_LEFT if is_right_to_left(cue.language) else {}
        speaker = {"ttm:agent": agents[cue.speaker]} if cue.speaker else {}
        _add_paragraph(division, cue, stated | direction | speaker)
    document = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{document}\n'


def _add_agents(head: ET.Element, agents: Mapping[str, str]) -> None:
    """Add the name of each speaker, given with its identifier."""
    if agents:
        metadata = ET.SubElement(head, "metadata")
        for name, identifier in agents.items():
            agent = ET.SubElement(metadata, "ttm:agent", {"xml:id": identifier, "type": "person"})
            ET.SubElement(agent, "ttm:name", type="alias").text = name


def _add_paragraph(division: ET.Element, cue: Cue, attributes: dict[str, str]) -> None:
    """Add the paragraph of a cue, on a separate line of the file."""
    times = {"begin": clock(cue.start), "end": clock(cue.end)}
    paragraph = ET.SubElement(division, "p", {**times, **attributes})
    paragraph.tail = "\n"
    for number, line in enumerate(cue.lines):
        before, underlined, after = line.parts
        if number:
            ET.SubElement(paragraph, "br").tail = before
        else:
            paragraph.text = before
        if underlined:
            span = ET.SubElement(paragraph, "span", _UNDERLINE)
            span.text, span.tail = underlined, after


def _language_tag(language: str) -> str:
    """Return the BCP 47 tag of a Whisper language code: Whisper writes "jw" for Javanese, "jv"."""
    return "jv" if language == "jw" else one_line(language)
