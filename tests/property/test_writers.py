"""Any text at any time: other programs' parsers read back what was written, and nothing is lost."""

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
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from whisperbatch.text.languages import UNSPACED
from whisperbatch.types import Segment, Transcript, Word
from whisperbatch.writers import SubtitleOptions, render
from whisperbatch.writers.breaks import measure
from whisperbatch.writers.cues import Cue, cues
from whisperbatch.writers.texts import columns, is_visible, one_line
from whisperbatch.writers.times import milliseconds

modest = settings(max_examples=120, deadline=None, derandomize=True)

LANGUAGES = ("en", "ar", "ja", "th", "km", "bo", "zh")
AWKWARD = (
    *(
        "\n",
        "\n\n",
        "\r",
        "\r\n",
        "\u2028",
        "\x85",
        "\t",
        " ",
        "\u00a0",
        "\u3000",
        "\u200b",
        "\ufeff",
    ),
    *("-->", "<", ">", "&", "&amp;", "<i>", "</i>", "{\\an8}", "[00:01.00]", '"', ",", ";", "\\N"),
    *("\0", "\x1b", "\ufffe", "\ud800", "NOTE", "STYLE", "WEBVTT", "-", ".", "?", "。", "、", "…"),
    *(
        "a",
        "word",
        "well-known",
        "漢字",
        "ひらがな",
        "カタカナ",
        "ー",
        "ไป",
        "ខ្មែរ",
        "བོད་",
        "שלום",
        "é",
        "👍🏽",
    ),
)

HAS_DIGITS = re.compile(r"\d")  # pysubs2 takes digits on a line for the next cue's number

pieces = st.lists(st.one_of(st.sampled_from(AWKWARD), st.text(max_size=8)), max_size=12)
texts = st.one_of(
    pieces.map("".join),
    pieces.map(" ".join),
    st.lists(st.sampled_from(("one", "three,", "seven.", "a", "thirteen")), max_size=60).map(
        " ".join
    ),
    st.text("漢字かな、。ABC", max_size=120),
)
seconds = st.floats(0, 500_000, allow_subnormal=False)


@st.composite
def segments(draw: st.DrawFn, *, with_words: bool = False) -> Segment:
    text = draw(texts)
    start, length = draw(seconds), draw(st.floats(0, 40, allow_subnormal=False))
    words = None
    if with_words or draw(st.booleans()):
        bounds = sorted(draw(st.sets(st.integers(0, len(text)), max_size=10)) | {0, len(text)})
        times = draw(
            st.lists(st.floats(start, start + length), min_size=len(bounds), max_size=len(bounds))
        )
        times = sorted(times) if draw(st.booleans()) else times
        words = tuple(
            Word(times[n], times[n + 1], text[first:last], 0.5)
            for n, (first, last) in enumerate(pairwise(bounds))
        )
    language = draw(st.sampled_from(LANGUAGES))
    return Segment(0, start, start + length, text, language, -0.1, 0.0, 1.2, 0.0, words)


@st.composite
def transcripts(draw: st.DrawFn, *, with_words: bool = False) -> Transcript:
    found = draw(st.lists(segments(with_words=with_words), max_size=5))
    if draw(st.booleans()):
        found.sort(key=lambda one: one.start)
    return Transcript(tuple(found), "en", 1.0, 60.0, "talk.mp3")


layouts = st.builds(
    SubtitleOptions,
    max_line_width=st.one_of(st.integers(1, 60), st.just(42)),
    max_line_count=st.one_of(st.none(), st.integers(1, 4)),
)


def squeezed(text: str) -> str:
    """Without spaces and what cannot be seen, for comparing what parsers read."""
    return "".join(c for c in text if not c.isspace() and c != "\u200b")


def joined(text: str) -> str:
    """Without pysubs2's line breaks, and texts that look like them."""
    return squeezed(text.replace("\\N", ""))


def said(transcript: Transcript) -> str:
    found = (one_line(segment.text) for segment in transcript.segments)
    return squeezed("".join(text for text in found if is_visible(text)))


def shown(found: Sequence[Cue]) -> list[str]:
    return [squeezed("".join(line.text for line in cue.lines)) for cue in found]


@modest
@given(transcripts(), layouts, st.sampled_from((1, 10)))
def test_cues_are_in_order_and_last_and_hold_all_text(
    transcript: Transcript, options: SubtitleOptions, step: int
) -> None:
    found = cues(transcript, options, line_count=options.max_line_count, step=step)
    assert "".join(shown(found)) == said(transcript)
    for cue in found:
        assert 0 <= cue.start < cue.end
        assert cue.start % step == cue.end % step == 0
        assert all(is_visible(line.text) for line in cue.lines)
    for cue, following in pairwise(found):
        assert cue.end <= following.start


@modest
@given(transcripts(), layouts)
def test_lines_keep_to_their_limits(transcript: Transcript, options: SubtitleOptions) -> None:
    assert options.max_line_width is not None
    for cue in cues(transcript, options, line_count=options.max_line_count):
        assert options.max_line_count is None or len(cue.lines) <= options.max_line_count
        for line in cue.lines:
            assert line.text == line.text.strip(" ")
            unspaced = cue.language in UNSPACED
            if sum(map(columns, line.text)) > options.max_line_width:
                assert len(measure(line.text, (), unspaced=unspaced).atoms) == 1


@modest
@given(transcripts(with_words=True), st.integers(1, 5))
def test_lines_keep_to_their_words(transcript: Transcript, most: int) -> None:
    options = SubtitleOptions(max_line_width=None, max_words_per_line=most)
    found = cues(transcript, options, line_count=2)
    assert "".join(shown(found)) == said(transcript)
    for cue in found:
        assert len(cue.lines) <= 2
        for line in cue.lines:
            if cue.language not in UNSPACED:
                assert len(measure(line.text, (), unspaced=False).atoms) <= most


@modest
@given(transcripts(with_words=True), layouts)
def test_every_word_is_highlighted_once(transcript: Transcript, options: SubtitleOptions) -> None:
    marking = SubtitleOptions(
        max_line_width=options.max_line_width,
        max_line_count=options.max_line_count,
        highlight_words=True,
    )
    found = cues(transcript, marking, line_count=options.max_line_count)
    marked = "".join(line.parts[1] for cue in found for line in cue.lines)
    assert squeezed(marked) == said(transcript)
    for cue, following in pairwise(found):
        assert cue.end <= following.start
        assert cue.start < cue.end


@modest
@given(transcripts(), layouts)
def test_webvtt_is_read_back(transcript: Transcript, options: SubtitleOptions) -> None:
    found = cues(transcript, options, line_count=options.max_line_count)
    written = render(transcript, "vtt", options)
    read = webvtt.WebVTT.from_string(written, strict=True)
    captions = read.captions
    assert not read.styles
    assert [
        (one.start_time.in_milliseconds(), one.end_time.in_milliseconds()) for one in captions
    ] == [(cue.start, cue.end) for cue in found]
    assert [html.unescape(one.raw_text).split("\n") for one in captions] == [
        [line.text for line in cue.lines] for cue in found
    ]
    if HAS_DIGITS.search(said(transcript)) is None:
        other = pysubs2.SSAFile.from_string(written, format_="vtt", keep_html_tags=True)
        assert [html.unescape(joined(one.text)) for one in other] == list(map(joined, shown(found)))


@modest
@given(transcripts(), layouts)
def test_subrip_is_read_back(transcript: Transcript, options: SubtitleOptions) -> None:
    assume(HAS_DIGITS.search(said(transcript)) is None)
    assume(all(segment.end < 300_000 for segment in transcript.segments))  # it knows 99 hours
    found = cues(transcript, options, line_count=options.max_line_count)
    written = render(transcript, "srt", options)
    read = pysubs2.SSAFile.from_string(written, format_="srt")
    assert [(one.start, one.end) for one in read] == [(cue.start, cue.end) for cue in found]
    assert [joined(one.text) for one in read] == list(map(joined, shown(found)))


@modest
@given(transcripts(), layouts)
def test_a_cue_of_subrip_ends_with_a_blank_line(
    transcript: Transcript, options: SubtitleOptions
) -> None:
    found = cues(transcript, options, line_count=options.max_line_count)
    blocks = f"\n{render(transcript, 'srt', options)}".split("\n\n")
    blocks = [block.strip("\n") for block in blocks if found]
    assert [block.split("\n")[0] for block in blocks] == [str(n + 1) for n in range(len(found))]
    assert [block.count("-->") for block in blocks] == [1] * len(found)
    assert ["".join(map(squeezed, block.split("\n")[2:])) for block in blocks] == shown(found)


@modest
@given(transcripts(), layouts)
def test_ttml_is_read_back(transcript: Transcript, options: SubtitleOptions) -> None:
    found = cues(transcript, options, line_count=options.max_line_count)
    written = render(transcript, "ttml", options)
    root = ET.fromstring(written)  # noqa: S314 - our own
    paragraphs = list(root.iter("{http://www.w3.org/ns/ttml}p"))
    assert [list(paragraph.itertext()) for paragraph in paragraphs] == [
        [line.text for line in cue.lines] for cue in found
    ]
    read = pysubs2.SSAFile.from_string(written, format_="ttml")
    assert [(one.start, one.end) for one in read] == [(cue.start, cue.end) for cue in found]


@modest
@given(transcripts(), layouts)
def test_lyrics_have_a_line_a_cue(transcript: Transcript, options: SubtitleOptions) -> None:
    lines = render(transcript, "lrc", options.fitted("lrc")).split("\n")
    assert lines.pop() == ""
    read = [re.fullmatch(r"\[(\d\d+):(\d\d)\.(\d\d)\](.*)", line) for line in lines]
    times = [int(one[1]) * 6000 + int(one[2]) * 100 + int(one[3]) for one in read if one]
    assert len(times) == len(lines)
    assert all(one < other for one, other in pairwise(times))
    assert squeezed("".join(one[4] for one in read if one)) == said(transcript)


@modest
@given(transcripts())
def test_tables_have_a_row_a_segment(transcript: Transcript) -> None:
    rows = [
        (milliseconds(one.start), milliseconds(one.end), one_line(one.text))
        for one in transcript.segments
    ]
    header, *table = csv.reader(io.StringIO(render(transcript, "csv"), newline=""))
    assert header == ["id", "start", "end", "language", "text"]
    assert [
        (round(float(a) * 1000), round(float(b) * 1000), text) for _, a, b, _, text in table
    ] == rows
    lines = render(transcript, "tsv").split("\n")
    assert lines[0] == "start\tend\ttext"
    assert lines[1:-1] == ["\t".join(map(str, row)) for row in rows]
    assert render(transcript, "txt").split("\n")[:-1] == [
        row[2] for row in rows if is_visible(row[2])
    ]


@modest
@given(transcripts())
def test_json_is_exact(transcript: Transcript) -> None:
    written = render(transcript, "json").encode()
    read = json.loads(written)
    assert read["text"] == transcript.text
    for one, segment in zip(read["segments"], transcript.segments, strict=True):
        assert (one["start"], one["end"], one["text"]) == (segment.start, segment.end, segment.text)
        read_words = [word["word"] for word in one.get("words", ())]
        assert read_words == [word.word for word in segment.words or ()]
        assert ("words" in one) == (segment.words is not None)


@modest
@given(
    transcripts(with_words=True),
    st.sampled_from(("txt", "srt", "vtt", "tsv", "csv", "lrc", "ttml", "json")),
)
def test_every_file_can_be_encoded_and_has_plain_line_breaks(
    transcript: Transcript,
    format: str,  # noqa: A002 - render's name
) -> None:
    written = render(transcript, format).encode()
    assert b"\r" not in written
    assert b"\xef\xbb\xbf" not in written or format == "json"
    assert written == b"" or written.endswith(b"\n")
