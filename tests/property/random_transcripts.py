"""Random transcripts with difficult text, and random layouts."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st

from tests.examples import up_to
from whisperbatch.types import Diarization, Notice, Segment, Transcript, Turn, Word
from whisperbatch.writers import SubtitleOptions

fewer_examples = settings(max_examples=up_to(120), deadline=None, derandomize=True)

LANGUAGES = ("en", "ar", "ja", "th", "km", "bo", "zh")
DIFFICULT = (
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
    *("=", "+", "@", "'", "\uff1d", "\u202e", "\u202b", "\u202c", "\u2067", "\u2069", "\u200f"),
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

difficult_parts = st.lists(st.one_of(st.sampled_from(DIFFICULT), st.text(max_size=8)), max_size=12)
texts = st.one_of(
    difficult_parts.map("".join),
    difficult_parts.map(" ".join),
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
    drawn = draw(st.lists(segments(with_words=with_words), max_size=5))
    if draw(st.booleans()):
        drawn.sort(key=lambda segment: segment.start)
    notices = draw(
        st.lists(st.builds(Notice, st.sampled_from(("time", "track")), seconds, seconds, texts))
    )
    return Transcript(tuple(drawn), "en", 1.0, 60.0, "talk.mp3", notices=tuple(notices))


@st.composite
def diarized_transcripts(draw: st.DrawFn, *, with_words: bool = False) -> Transcript:
    transcript = draw(transcripts(with_words=with_words))
    names = draw(st.lists(difficult_parts.map("".join), min_size=1, max_size=3))
    speakers = st.one_of(st.none(), st.sampled_from(names))
    spoken = [
        replace(segment, speaker=draw(speakers), speaker_confidence=0.5, other_speakers=("B",))
        for segment in transcript.segments
    ]
    turns = draw(st.lists(st.builds(Turn, seconds, seconds, st.sampled_from(names), st.just(0.5))))
    diarization = Diarization(tuple(turns), draw(texts))
    return replace(transcript, segments=tuple(spoken), diarization=diarization)


layouts = st.builds(
    SubtitleOptions,
    max_line_width=st.one_of(st.integers(1, 60), st.just(42)),
    max_line_count=st.one_of(st.none(), st.integers(1, 4)),
    subtitle_rules=st.sampled_from(("netflix", "bbc", "youtube", "plain")),
)
