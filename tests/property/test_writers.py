"""Files of random transcripts and speakers: other programs read them back; no text is lost."""

import csv
import dataclasses
import html
import io
import json
import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as ET

import pysubs2
import webvtt
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.examples import up_to
from tests.property.random_transcripts import (
    diarized_transcripts,
    fewer_examples,
    layouts,
    transcripts,
)
from whisperbatch.errors import OptionError, WriteError
from whisperbatch.text.languages import UNSPACED
from whisperbatch.types import Transcript
from whisperbatch.writers import FORMATS, SubtitleOptions, TableOptions, render
from whisperbatch.writers.cues import Cue, cues, highlighted
from whisperbatch.writers.formatting import columns, is_visible, milliseconds, one_line
from whisperbatch.writers.layout import measure
from whisperbatch.writers.styled import ass

HAS_DIGITS = re.compile(r"\d")  # pysubs2 takes a line of digits as a cue number


def visible(text: str) -> str:
    """Return the text without whitespace and zero-width spaces, to compare the text of parsers."""
    return "".join(c for c in text if not c.isspace() and c != "\u200b")


def without_line_breaks(text: str) -> str:
    r"""Return the visible text without "\\N", pysubs2's line break, which the text may contain."""
    return visible(text.replace("\\N", ""))


def text_of(transcript: Transcript) -> str:
    lines = (one_line(segment.text) for segment in transcript.segments)
    return visible("".join(line for line in lines if is_visible(line)))


def texts_of(cues: Sequence[Cue]) -> list[str]:
    return [visible("".join(line.text for line in cue.lines)) for cue in cues]


@fewer_examples
@given(transcripts(), layouts, st.sampled_from((1, 10)))
def test_cues_are_in_order_have_a_duration_and_contain_all_text(
    transcript: Transcript, options: SubtitleOptions, step: int
) -> None:
    shown_cues = cues(transcript, options, line_count=options.max_line_count, step=step)
    assert "".join(texts_of(shown_cues)) == text_of(transcript)
    for cue in shown_cues:
        assert 0 <= cue.start < cue.end
        assert cue.start % step == cue.end % step == 0
        assert all(is_visible(line.text) for line in cue.lines)
    for cue, following in pairwise(shown_cues):
        assert cue.end <= following.start


@fewer_examples
@given(transcripts(), layouts)
def test_lines_respect_their_limits(transcript: Transcript, options: SubtitleOptions) -> None:
    assert isinstance(options.max_line_width, int)
    for cue in cues(transcript, options, line_count=options.max_line_count):
        assert (
            not isinstance(options.max_line_count, int) or len(cue.lines) <= options.max_line_count
        )
        for line in cue.lines:
            assert line.text == line.text.strip(" ")
            if sum(map(columns, line.text)) > options.max_line_width:
                assert len(measure(line.text, (), cue.language).units) == 1


@fewer_examples
@given(transcripts(with_words=True), st.integers(1, 5))
def test_lines_respect_the_number_of_words(transcript: Transcript, max_words: int) -> None:
    options = SubtitleOptions(max_line_width=None, max_words_per_line=max_words)
    shown_cues = cues(transcript, options, line_count=2)
    assert "".join(texts_of(shown_cues)) == text_of(transcript)
    for cue in shown_cues:
        assert len(cue.lines) <= 2
        for line in cue.lines:
            if cue.language not in UNSPACED:
                assert len(measure(line.text, (), "en").units) <= max_words


@fewer_examples
@given(transcripts(with_words=True), layouts)
def test_every_word_is_highlighted_once(transcript: Transcript, options: SubtitleOptions) -> None:
    highlighting = dataclasses.replace(options, highlight_words=True)
    shown_cues = list(highlighted(cues(transcript, highlighting)))
    underlined = "".join(line.parts[1] for cue in shown_cues for line in cue.lines)
    assert visible(underlined) == text_of(transcript)
    for cue, following in pairwise(shown_cues):
        assert cue.end <= following.start
        assert cue.start < cue.end


@fewer_examples
@given(transcripts(), layouts)
def test_parsers_read_webvtt_back(transcript: Transcript, options: SubtitleOptions) -> None:
    shown_cues = cues(transcript, options, line_count=options.max_line_count)
    text = render(transcript, "vtt", options)
    parsed = webvtt.WebVTT.from_string(text, strict=True)
    captions = parsed.captions
    assert not parsed.styles
    assert [
        (caption.start_time.in_milliseconds(), caption.end_time.in_milliseconds())
        for caption in captions
    ] == [(cue.start, cue.end) for cue in shown_cues]
    lines = [html.unescape(caption.raw_text).split("\n") for caption in captions]
    marked = [[line.removeprefix("\u200f") for line in caption] for caption in lines]
    assert marked == [
        [line.text.removeprefix("\u200f") for line in cue.lines] for cue in shown_cues
    ]
    if HAS_DIGITS.search(text_of(transcript)) is None:
        subtitles = pysubs2.SSAFile.from_string(text, format_="vtt", keep_html_tags=True)
        read = [html.unescape(without_line_breaks(line.text)) for line in subtitles]
        assert [line.replace("\u200f", "") for line in read] == [
            without_line_breaks(text).replace("\u200f", "") for text in texts_of(shown_cues)
        ]


@fewer_examples
@given(transcripts(), layouts)
def test_a_parser_reads_subrip_back(transcript: Transcript, options: SubtitleOptions) -> None:
    assume(HAS_DIGITS.search(text_of(transcript)) is None)
    assume(
        all(segment.end < 300_000 for segment in transcript.segments)
    )  # pysubs2 reads at most 99 hours
    shown_cues = cues(transcript, options, line_count=options.max_line_count)
    text = render(transcript, "srt", options)
    subtitles = pysubs2.SSAFile.from_string(text, format_="srt")
    assert [(line.start, line.end) for line in subtitles] == [
        (cue.start, cue.end) for cue in shown_cues
    ]
    assert [without_line_breaks(line.text) for line in subtitles] == list(
        map(without_line_breaks, texts_of(shown_cues))
    )


@fewer_examples
@given(transcripts(), layouts)
def test_a_cue_of_subrip_ends_with_a_blank_line(
    transcript: Transcript, options: SubtitleOptions
) -> None:
    shown_cues = cues(transcript, options, line_count=options.max_line_count)
    blocks = f"\n{render(transcript, 'srt', options)}".split("\n\n")
    blocks = [block.strip("\n") for block in blocks if shown_cues]
    assert [block.split("\n")[0] for block in blocks] == [
        str(n + 1) for n in range(len(shown_cues))
    ]
    assert [block.count("-->") for block in blocks] == [1] * len(shown_cues)
    assert ["".join(map(visible, block.split("\n")[2:])) for block in blocks] == texts_of(
        shown_cues
    )


@fewer_examples
@given(transcripts(with_words=True), layouts, st.booleans())
def test_ass_contains_all_text(
    transcript: Transcript, options: SubtitleOptions, karaoke: bool
) -> None:
    options = dataclasses.replace(options, highlight_words=karaoke)
    shown = cues(transcript, options, step=10)
    assume(all(cue.end < 36_000_000 for cue in shown))  # the format has one digit of hours
    lines = ass(transcript, options).splitlines()
    events = [line.split(",", 9) for line in lines if line.startswith("Dialogue")]
    assert len(events) == len(shown)
    for event, cue in zip(events, shown, strict=True):
        text = re.sub(r"(?<!\\)\{\\k\d+\}", "", event[9]).replace("\u2060", "")
        text = text.replace("\\{", "{").replace("\\}", "}")
        assert visible(text.replace("\\N", "")) == visible(
            "".join(line.text for line in cue.lines)
        ).replace("\\N", "").replace("\u2060", "")
        durations = [int(number) for number in re.findall(r"\{\\k(\d+)\}", event[9])]
        assert sum(durations) * 10 <= cue.end - cue.start


@fewer_examples
@given(transcripts(), layouts)
def test_parsers_read_ttml_back(transcript: Transcript, options: SubtitleOptions) -> None:
    shown_cues = cues(transcript, options, line_count=options.max_line_count)
    text = render(transcript, "ttml", options)
    root = ET.fromstring(text)  # noqa: S314 - written by `render`
    paragraphs = list(root.iter("{http://www.w3.org/ns/ttml}p"))
    assert [list(paragraph.itertext()) for paragraph in paragraphs] == [
        [line.text for line in cue.lines] for cue in shown_cues
    ]
    subtitles = pysubs2.SSAFile.from_string(text, format_="ttml")
    assert [(line.start, line.end) for line in subtitles] == [
        (cue.start, cue.end) for cue in shown_cues
    ]


@fewer_examples
@given(transcripts(), layouts)
def test_lyrics_have_one_line_for_each_cue(
    transcript: Transcript, options: SubtitleOptions
) -> None:
    lines = render(transcript, "lrc", options.fitted("lrc")).split("\n")
    assert lines.pop() == ""
    matches = [re.fullmatch(r"\[(\d\d+):(\d\d)\.(\d\d)\](.*)", line) for line in lines]
    times = [int(m[1]) * 6000 + int(m[2]) * 100 + int(m[3]) for m in matches if m]
    assert len(times) == len(lines)
    assert all(time < next_time for time, next_time in pairwise(times))
    assert visible("".join(m[4] for m in matches if m)) == text_of(transcript)


@fewer_examples
@given(transcripts())
def test_tables_have_one_row_for_each_segment(transcript: Transcript) -> None:
    rows = [
        (milliseconds(segment.start), milliseconds(segment.end), one_line(segment.text))
        for segment in transcript.segments
    ]
    unsafe = TableOptions(spreadsheet_safe=False)
    header, *table = csv.reader(io.StringIO(render(transcript, "csv", unsafe), newline=""))
    assert header == ["id", "start", "end", "language", "text"]
    assert [
        (round(float(a) * 1000), round(float(b) * 1000), text) for _, a, b, _, text in table
    ] == rows
    lines = render(transcript, "tsv", unsafe).split("\n")
    assert lines[0] == "start\tend\ttext"
    assert lines[1:-1] == ["\t".join(map(str, row)) for row in rows]
    assert render(transcript, "txt").split("\n")[:-1] == [
        row[2] for row in rows if is_visible(row[2])
    ]


@fewer_examples
@given(transcripts())
def test_json_keeps_text_and_times_unchanged(transcript: Transcript) -> None:
    content = json.loads(render(transcript, "json").encode())
    assert content["text"] == transcript.text
    for entry, segment in zip(content["segments"], transcript.segments, strict=True):
        assert (entry["start"], entry["end"], entry["text"]) == (
            segment.start,
            segment.end,
            segment.text,
        )
        words = [word["word"] for word in entry.get("words", ())]
        assert words == [word.word for word in segment.words or ()]
        assert ("words" in entry) == (segment.words is not None)


@fewer_examples
@given(
    transcripts(with_words=True),
    st.sampled_from(("txt", "srt", "vtt", "tsv", "csv", "lrc", "ttml", "json")),
)
def test_every_file_is_utf8_with_line_feeds_only(
    transcript: Transcript,
    format: str,  # noqa: A002 - as in `render`
) -> None:
    data = render(transcript, format).encode()
    assert b"\r" not in data
    assert b"\xef\xbb\xbf" not in data or format == "json"
    assert data == b"" or data.endswith(b"\n")


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
    assert isinstance(options.max_line_width, int)
    shown = cues(transcript, options, line_count=options.max_line_count, label="[{}]: ")
    unnamed = cues(transcript, options, line_count=options.max_line_count)
    texts = [
        "".join(line.text for cue in found for line in cue.lines) for found in (shown, unnamed)
    ]
    assert texts[0].replace(" ", "") == texts[1].replace(" ", "")
    for cue in shown:
        assert (
            not isinstance(options.max_line_count, int) or len(cue.lines) <= options.max_line_count
        )
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


BIDIRECTIONAL_CONTROLS = re.compile("[\u202a-\u202e\u2066-\u2069]")


@fewer_examples
@given(diarized_transcripts(), st.sampled_from(FORMATS))
def test_no_file_contains_controls_that_reorder_text(
    transcript: Transcript,
    format: str,  # noqa: A002 - as in `render`
) -> None:
    text = render(transcript, format)
    assert BIDIRECTIONAL_CONTROLS.search(text) is None
    assert not any(unicodedata.category(c) == "Cc" and c not in "\n\t" for c in text)


@fewer_examples
@given(diarized_transcripts())
def test_no_cell_is_a_formula(transcript: Transcript) -> None:
    _, *table = csv.reader(io.StringIO(render(transcript, "csv"), newline=""))
    cells = [cell for *_, text, speaker in table for cell in (text, speaker)]
    rows = render(transcript, "tsv").split("\n")[1:-1]
    cells += [cell for row in rows for cell in row.split("\t")[2:]]
    for cell in cells:
        characters = [c for c in cell if unicodedata.category(c) != "Cf" and not c.isspace()]
        assert not characters or unicodedata.normalize("NFKC", characters[0]) not in "=+-@"


STRANGE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from((10**400, -(10**5000), b"bytes", {}, object())),
    st.floats(),
    st.text(max_size=3),
    st.tuples(st.text(max_size=3)),
)


@settings(fewer_examples, max_examples=up_to(400))
@given(diarized_transcripts(with_words=True), st.data(), st.sampled_from(FORMATS))
def test_any_value_in_any_field_is_written_or_refused_by_name(
    transcript: Transcript,
    data: st.DataObject,
    format: str,  # noqa: A002 - as in `render`
) -> None:
    """Replaces a field of the transcript, of a segment or of a word."""

    def changed(owner: Any, name: str = "") -> tuple[Any, str]:
        if isinstance(owner, str):  # one of `other_speakers`
            return data.draw(STRANGE), name.removesuffix(".")
        field = data.draw(st.sampled_from([field.name for field in dataclasses.fields(owner)]))
        members = getattr(owner, field)
        full_name = f"{name}{field}"
        if dataclasses.is_dataclass(members) and data.draw(st.booleans()):
            member, full_name = changed(members, f"{full_name}.")
            return dataclasses.replace(owner, **{field: member}), full_name
        if isinstance(members, tuple) and members and data.draw(st.booleans()):
            number = data.draw(st.integers(0, len(members) - 1))
            member, full_name = changed(members[number], f"{full_name}[{number}].")
            value: Any = (*members[:number], member, *members[number + 1 :])
        else:
            value = data.draw(STRANGE)
        return dataclasses.replace(owner, **{field: value}), full_name

    strange, name = changed(transcript)
    message = name
    try:
        render(strange, format).encode()
    except WriteError as error:
        message = str(error)
    except OptionError:
        assert (format, name) == ("rttm", "diarization")
    assert message.startswith(name)
    assert "\n" not in message
