"""Files with random speakers: parsers of other programs find the names, and no text is lost."""

import re
from xml.etree import ElementTree as ET

import webvtt
from hypothesis import given

from tests.property.random_transcripts import diarized_transcripts, fewer_examples, layouts
from whisperbatch.types import Transcript
from whisperbatch.writers import SubtitleOptions, render
from whisperbatch.writers.cues import cues
from whisperbatch.writers.formatting import columns

TT = "{http://www.w3.org/ns/ttml}"
TTM = "{http://www.w3.org/ns/ttml#metadata}"
IDENTIFIER = "{http://www.w3.org/XML/1998/namespace}id"


@fewer_examples
@given(diarized_transcripts(), layouts)
def test_webvtt_has_the_cues_of_the_text_and_their_voices(
    transcript: Transcript, options: SubtitleOptions
) -> None:
    shown = cues(transcript, options, line_count=options.max_line_count)
    captions = webvtt.WebVTT.from_string(render(transcript, "vtt", options), strict=True).captions
    assert len(captions) == len(shown)
    for caption, cue in zip(captions, shown, strict=True):
        assert caption.raw_text.count("<v ") == bool(cue.speaker)
        assert caption.raw_text.startswith("<v ") == bool(cue.speaker)
        assert len(caption.raw_text.split("\n")) == len(cue.lines)


@fewer_examples
@given(diarized_transcripts(), layouts)
def test_ttml_names_every_speaker_once(transcript: Transcript, options: SubtitleOptions) -> None:
    shown = cues(transcript, options, line_count=options.max_line_count)
    root = ET.fromstring(render(transcript, "ttml", options))  # noqa: S314 - written by `render`
    names = {
        agent.get(IDENTIFIER): agent.findtext(f"{TTM}name") for agent in root.iter(f"{TTM}agent")
    }
    assert len(set(names.values())) == len(names)
    found = [names.get(paragraph.get(f"{TTM}agent"), "") for paragraph in root.iter(f"{TT}p")]
    assert found == [cue.speaker for cue in shown]


@fewer_examples
@given(diarized_transcripts(), layouts)
def test_subrip_respects_the_width_of_lines_with_names(
    transcript: Transcript, options: SubtitleOptions
) -> None:
    assert options.max_line_width is not None
    shown = cues(transcript, options, line_count=options.max_line_count, label="[{}]: ")
    unnamed = cues(transcript, options, line_count=options.max_line_count)
    texts = [
        "".join(line.text for cue in found for line in cue.lines) for found in (shown, unnamed)
    ]
    assert texts[0].replace(" ", "") == texts[1].replace(" ", "")
    for cue in shown:
        assert options.max_line_count is None or len(cue.lines) <= options.max_line_count
        name = f"[{cue.speaker}]: " if cue.speaker else ""
        first = cue.lines[0].text
        if sum(map(columns, name + first)) > options.max_line_width and cue.language == "en":
            assert re.search(r"\S[ ]\S", first) is None, "only one word, wider than the line"


@fewer_examples
@given(diarized_transcripts())
def test_every_line_of_rttm_has_ten_fields(transcript: Transcript) -> None:
    assert transcript.diarization is not None
    lines = render(transcript, "rttm").split("\n")
    assert lines.pop() == ""
    assert len(lines) == len(transcript.diarization.turns)
    for line in lines:
        fields = line.split()
        assert len(fields) == 10
        assert fields[0] == "SPEAKER"
        assert float(fields[3]) >= 0
        assert float(fields[4]) > 0
