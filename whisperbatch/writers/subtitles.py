"""Subtitles: SubRip (.srt), WebVTT (.vtt), lyrics (.lrc) and Timed Text Markup Language (.ttml)."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final
from xml.etree import ElementTree as ET

from whisperbatch.types import Transcript
from whisperbatch.writers.cues import Cue, cues
from whisperbatch.writers.formatting import clock, one_line, short_clock
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
_UNDERLINE: Final = {"tts:textDecoration": "underline"}


def srt(transcript: Transcript, options: SubtitleOptions) -> str:
    """Return SubRip: numbered cues, with a comma before the milliseconds.

    With speakers, each cue begins with the name, as WhisperX writes it: "[SPEAKER_00]: Yes."
    """
    escape = partial(_ARROW_OR_TAG.sub, _ZERO_WIDTH_SPACE)
    shown = cues(transcript, options, line_count=options.max_line_count, label=SUBRIP_LABEL)
    return "\n".join(
        f"{number}\n{_with_times(cue, ',', escape, escape(_label(cue, SUBRIP_LABEL)))}"
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
    shown = cues(transcript, options, line_count=1, step=LRC_STEP, label=LYRICS_LABEL)
    return "".join(
        f"[{short_clock(cue.start)}]"
        f"{_TIME_TAG.sub(_ZERO_WIDTH_SPACE, _label(cue, LYRICS_LABEL) + cue.lines[0].text)}\n"
        for cue in shown
    )


def escaped(text: str) -> str:
    """Return the text with WebVTT's markup characters escaped, so that "-->" cannot occur."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _label(cue: Cue, label: str) -> str:
    """Return what shows the speaker of a cue; empty without a speaker."""
    return label.format(cue.speaker) if cue.speaker else ""


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


def ttml(transcript: Transcript, options: SubtitleOptions) -> str:
    """Return a document with one paragraph for each cue, as in https://www.w3.org/TR/ttml1/.

    The document has the language of most cues. A cue in another language states its language.
    The head has an agent for each speaker, and a cue names the agent that speaks.
    """
    all_cues = cues(transcript, options, line_count=options.max_line_count)
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
        speaker = {"ttm:agent": agents[cue.speaker]} if cue.speaker else {}
        _add_paragraph(division, cue, stated | speaker)
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
