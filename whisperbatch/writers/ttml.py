"""Timed Text Markup Language (.ttml), as https://www.w3.org/TR/ttml1/ has it."""

from collections import Counter
from typing import Final
from xml.etree import ElementTree as ET

from whisperbatch.types import Transcript
from whisperbatch.writers.cues import Cue, cues
from whisperbatch.writers.options import SubtitleOptions
from whisperbatch.writers.times import clock

_ROOT: Final = {
    "xmlns": "http://www.w3.org/ns/ttml",
    "xmlns:tts": "http://www.w3.org/ns/ttml#styling",
}
_REGION: Final = {  # at the bottom of the picture, in the middle
    "xml:id": "bottom",
    "tts:origin": "10% 10%",
    "tts:extent": "80% 80%",
    "tts:displayAlign": "after",
    "tts:textAlign": "center",
}
_UNDERLINED: Final = {"tts:textDecoration": "underline"}


def ttml(transcript: Transcript, options: SubtitleOptions) -> str:
    """A paragraph a cue; its language is said where it is not that of most."""
    shown = cues(transcript, options, line_count=options.max_line_count)
    usual = Counter(cue.language for cue in shown).most_common(1)
    language = usual[0][0] if usual else ""
    root = ET.Element("tt", {**_ROOT, "xml:lang": _tag(language)})
    layout = ET.SubElement(ET.SubElement(root, "head"), "layout")
    ET.SubElement(layout, "region", _REGION)
    division = ET.SubElement(ET.SubElement(root, "body", region="bottom"), "div")
    division.text = "\n"
    for cue in shown:
        own = {} if cue.language == language else {"xml:lang": _tag(cue.language)}
        _add(division, cue, own)
    written = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{written}\n'


def _add(division: ET.Element, cue: Cue, language: dict[str, str]) -> None:
    """Add a cue's paragraph, on a line of the file of its own."""
    times = {"begin": clock(cue.start), "end": clock(cue.end)}
    paragraph = ET.SubElement(division, "p", {**times, **language})
    paragraph.tail = "\n"
    for number, line in enumerate(cue.lines):
        before, marked, after = line.parts
        if number:
            ET.SubElement(paragraph, "br").tail = before
        else:
            paragraph.text = before
        if marked:
            span = ET.SubElement(paragraph, "span", _UNDERLINED)
            span.text, span.tail = marked, after


def _tag(language: str) -> str:
    """The language tag of BCP 47 for Whisper's code."""
    return "jv" if language == "jw" else language
