"""Timed Text Markup Language (.ttml), as defined in https://www.w3.org/TR/ttml1/."""

from collections import Counter
from collections.abc import Mapping
from typing import Final
from xml.etree import ElementTree as ET

from whisperbatch.types import Transcript
from whisperbatch.writers.cues import Cue, cues
from whisperbatch.writers.options import SubtitleOptions
from whisperbatch.writers.text_cleaning import one_line
from whisperbatch.writers.timestamps import clock

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


def ttml(transcript: Transcript, options: SubtitleOptions) -> str:
    """Return a document with one paragraph for each cue.

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
