"""Files of random transcripts: parsers of other programs read them back, and no text is lost."""

import csv
import html
import io
import json
import re
from collections.abc import Sequence
from itertools import pairwise
from xml.etree import ElementTree as ET

import pysubs2
import webvtt
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.property.random_transcripts import fewer_examples, layouts, transcripts
from whisperbatch.text.languages import UNSPACED
from whisperbatch.types import Transcript
from whisperbatch.writers import SubtitleOptions, TableOptions, render
from whisperbatch.writers.cues import Cue, cues
from whisperbatch.writers.formatting import columns, is_visible, milliseconds, one_line
from whisperbatch.writers.layout import measure

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
    assert options.max_line_width is not None
    for cue in cues(transcript, options, line_count=options.max_line_count):
        assert options.max_line_count is None or len(cue.lines) <= options.max_line_count
        for line in cue.lines:
            assert line.text == line.text.strip(" ")
            unspaced = cue.language in UNSPACED
            if sum(map(columns, line.text)) > options.max_line_width:
                assert len(measure(line.text, (), unspaced=unspaced).units) == 1


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
                assert len(measure(line.text, (), unspaced=False).units) <= max_words


@fewer_examples
@given(transcripts(with_words=True), layouts)
def test_every_word_is_highlighted_once(transcript: Transcript, options: SubtitleOptions) -> None:
    highlighting = SubtitleOptions(
        max_line_width=options.max_line_width,
        max_line_count=options.max_line_count,
        highlight_words=True,
    )
    shown_cues = cues(transcript, highlighting, line_count=options.max_line_count)
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
    assert [html.unescape(caption.raw_text).split("\n") for caption in captions] == [
        [line.text for line in cue.lines] for cue in shown_cues
    ]
    if HAS_DIGITS.search(text_of(transcript)) is None:
        subtitles = pysubs2.SSAFile.from_string(text, format_="vtt", keep_html_tags=True)
        assert [html.unescape(without_line_breaks(line.text)) for line in subtitles] == list(
            map(without_line_breaks, texts_of(shown_cues))
        )


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
