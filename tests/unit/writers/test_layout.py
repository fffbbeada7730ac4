"""How text is divided into cues and lines, their width, and their times."""

from dataclasses import replace
from functools import partial

import pytest

from tests.unit.transcripts import segment, segment_with_words, transcript
from whisperbatch.types import Segment, Word
from whisperbatch.writers.cues import Cue, cues, highlighted
from whisperbatch.writers.formatting import columns, is_visible, one_line
from whisperbatch.writers.layout import measure
from whisperbatch.writers.options import SubtitleOptions

plain = partial(SubtitleOptions, subtitle_rules="plain")
NO_LIMITS = plain(max_line_width=None)


def laid_out(segment: Segment, options: SubtitleOptions | None = None) -> list[list[str]]:
    layout = options or plain()
    shown = cues(transcript(segment), layout, line_count=layout.max_line_count)
    return [[line.text for line in cue.lines] for cue in shown]


def times(
    *segments: Segment, options: SubtitleOptions = NO_LIMITS, step: int = 1
) -> list[tuple[int, int]]:
    shown = cues(transcript(*segments), options, line_count=2, step=step)
    return [(cue.start, cue.end) for cue in shown]


def units(text: str, language: str = "en") -> list[str]:
    measured = measure(text, (), language)
    return [text[unit.first : unit.stop] for unit in measured.units]


def test_a_text_that_fits_is_one_line() -> None:
    text = "This line has a width of forty-two columns"
    assert len(text) == 42
    assert laid_out(segment(text)) == [[text]]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "The quick brown fox jumps over the lazy dog and runs",
            ["The quick brown fox jumps", "over the lazy dog and runs"],
        ),
        (
            "I said that, but he would not hear anything of it",
            ["I said that,", "but he would not hear anything of it"],
        ),
        (
            "He does not know. You may ask him again tomorrow",
            ["He does not know.", "You may ask him again tomorrow"],
        ),
        (  # not after the article
            "We had been walking through a fine old town for hours",
            ["We had been walking", "through a fine old town for hours"],
        ),
        (  # a line of one word is worse than a break without a comma
            "Yes, the quick brown bear jumped over all of it",
            ["Yes, the quick brown bear jumped", "over all of it"],
        ),
    ],
)
def test_lines_have_even_widths_and_end_at_good_places(text: str, lines: list[str]) -> None:
    assert laid_out(segment(text)) == [lines]


def test_the_number_of_lines_is_minimal() -> None:
    text = "this that then here there when what where whose whom"
    options = plain(max_line_width=20, max_line_count=None)
    assert laid_out(segment(text), options) == [
        ["this that then here", "there when what", "where whose whom"]
    ]


def test_a_long_word_is_not_split() -> None:
    text = "See https://example.org/a-page-of-a-very-long-name for it"
    options = plain(max_line_width=10, max_line_count=1)
    assert laid_out(segment(text), options) == [
        ["See"],
        ["https://example.org/a-page-of-a-very-long-name"],
        ["for it"],
    ]


def test_a_line_does_not_end_at_a_no_break_space() -> None:
    text = "Vous\u00a0?"
    assert laid_out(segment(text), plain(max_line_width=2)) == [[text]]


def test_a_long_segment_becomes_cues_that_end_with_sentences_and_clauses() -> None:
    text = (
        "Please hold the line while I transfer you to the billing department, where one of our "
        "agents will tell you more. Thank you for your patience."
    )
    assert laid_out(segment(text)) == [
        ["Please hold the line while I transfer", "you to the billing department,"],
        ["where one of our agents will tell", "you more. Thank you for your patience."],
    ]


def test_without_limits_a_segment_is_one_line() -> None:
    text = "word " * 100
    assert laid_out(segment(text), NO_LIMITS) == [[text.strip()]]


def test_the_words_of_a_line_are_limited() -> None:
    spoken = segment_with_words("this that then, here there, when what")
    options = plain(max_line_width=None, max_words_per_line=2)
    assert laid_out(spoken, options) == [["this that", "then,"], ["here there,", "when what"]]
    single = plain(max_words_per_line=3, max_line_count=1)
    assert laid_out(spoken, single) == [["this that then,"], ["here there,"], ["when what"]]


def test_words_of_a_language_without_spaces_are_those_of_the_segment() -> None:
    parts = ["今日", "は", "いい", "天気", "です"]
    words = [Word(n, n + 1, part, 0.5) for n, part in enumerate(parts)]
    spoken = segment("".join(parts), 0, 5, language="ja", words=words)
    options = plain(max_words_per_line=2, max_line_count=None)
    assert laid_out(spoken, options) == [["今日は", "いい", "天気です"]]


def test_a_pause_is_a_good_place_to_end_a_cue() -> None:
    texts = ["one", " two", " three", " four", " five", " six"]
    starts = [0, 1, 5, 6, 7, 8]
    words = [Word(start, start + 1, text, 0.5) for start, text in zip(starts, texts, strict=True)]
    spoken = segment("".join(texts), 0, 9, words=words)
    assert laid_out(spoken, plain(max_line_width=20, max_line_count=1)) == [
        ["one two"],
        ["three four five six"],
    ]


def test_wide_characters_take_two_columns() -> None:
    assert [columns(c) for c in "aé漢。ｱＡ한"] == [1, 1, 2, 2, 1, 2, 2]
    assert [columns(c) for c in "\u0301\u200b\u0e31"] == [0, 0, 0]
    options = plain(max_line_width=10, max_line_count=None)
    assert laid_out(segment("天気予報を見ました", language="zh"), options) == [
        ["天気予報", "を見ました"]
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("はい、そうです。", "は|い、|そ|う|で|す。"),
        ("「はい」と言った", "「は|い」|と|言っ|た"),
        ("新しいGPT-4のモデル", "新|し|い|GPT-4|の|モ|デ|ル"),
        ("コーヒー 二つ", "コー|ヒー|二|つ"),
        ("ไปไหน", "ไป|ไห|น"),  # a vowel is written before its consonant
        ("น้ำ", "น้ำ"),
        ("ខ្មែរ", "ខ្មែ|រ"),
        ("བོད་ཡིག་", "བོད་|ཡིག་"),
        ("中\u200b国", "中\u200b|国"),
    ],
)
def test_languages_without_spaces_break_between_characters(text: str, expected: str) -> None:
    assert units(text, "ja") == expected.split("|")


def test_invisible_text_does_not_get_a_separate_line() -> None:
    assert units("a \u200b b\u200b \u00a0") == ["a \u200b", "b\u200b \u00a0"]
    assert units("\u200b a b") == ["\u200b a", "b"]


def test_other_languages_break_only_at_spaces() -> None:
    assert units("well-known 漢字 a\u00a0b\u3000c") == ["well-known", "漢字", "a\u00a0b", "c"]


def test_cues_have_the_times_of_their_words() -> None:
    words = [Word(1, 1.5, "one", 0.5), Word(1.5, 2, " two", 0.5), Word(4, 5, " three", 0.5)]
    spoken = segment("one two three", 1, 5, words=words)
    assert times(spoken, options=plain(max_line_width=5, max_line_count=2)) == [
        (1000, 2000),
        (4000, 5000),
    ]


def test_without_words_characters_share_the_time_equally() -> None:
    spoken = segment("aaaaa bbbb", 10, 20)
    options = plain(max_line_width=5, max_line_count=1)
    shown = cues(transcript(spoken), options, line_count=1)
    assert [(cue.start, cue.end) for cue in shown] == [(10_000, 15_000), (16_000, 20_000)]


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        # 8 + 15 + 8 characters share 31 s: a pause has as much time as 15 letters after a sentence,
        ("aaaaaaa. bbbbbbbb", "en", [(0, 8000), (23_000, 31_000)]),
        # and after a clause as much as 10
        ("aaaaaaa, bbbbbbbb", "en", [(0, 9538), (21_462, 31_000)]),
        ("今日は今日は。今日は今日は。", "ja", [(0, 10_093), (20_907, 31_000)]),
        ("aaa 4.56 bbb cccc", "en", [(0, 21_882), (23_706, 31_000)]),  # no end of a sentence
    ],
)
def test_without_words_there_are_pauses_after_clauses(
    text: str, language: str, expected: list[tuple[int, int]]
) -> None:
    spoken = segment(text, 0, 31, language=language)
    shown = cues(transcript(spoken), plain(max_line_width=14), line_count=1)
    assert [(cue.start, cue.end) for cue in shown] == expected


def test_words_that_do_not_spell_the_text_are_ignored() -> None:
    spoken = segment("aaaaa bbbb", 10, 20, words=[Word(11, 12, "something", 0.5)])
    shown = cues(transcript(spoken), plain(max_line_width=5), line_count=1)
    assert [(cue.start, cue.end) for cue in shown] == [(10_000, 15_000), (16_000, 20_000)]


def test_a_word_in_two_cues_is_divided_by_its_length() -> None:
    words = [Word(0, 4, "今日今日", 0.5)]
    spoken = segment("今日今日", 0, 4, language="zh", words=words)
    shown = cues(transcript(spoken), plain(max_line_width=4), line_count=1)
    assert [(cue.start, cue.end, cue.lines[0].text) for cue in shown] == [
        (0, 2000, "今日"),
        (2000, 4000, "今日"),
    ]


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([(0, 1), (1, 2)], [(0, 1000), (1000, 2000)]),
        ([(0, 3), (1, 2)], [(0, 1000), (1000, 2000)]),  # overlapping
        ([(0, 0), (0, 0), (0, 1)], [(0, 1), (1, 2), (2, 1000)]),  # without duration
        (
            [(0, 1.0004), (1.0004, 1.0005)],
            [(0, 1000), (1000, 1001)],
        ),  # without duration after rounding
        ([(-1, 0.5)], [(0, 500)]),
        ([(5, 6), (1, 2)], [(5000, 5001), (5001, 5002)]),  # out of order
        ([(5, 4)], [(5000, 5001)]),
        ([(360_000, 360_001)], [(360_000_000, 360_001_000)]),
    ],
)
def test_cues_do_not_overlap_and_have_a_duration(
    spans: list[tuple[float, float]], expected: list[tuple[int, int]]
) -> None:
    assert times(*(segment("a", *span) for span in spans)) == expected


def test_cues_of_speakers_who_talk_at_the_same_time_overlap() -> None:
    def said(text: str, start: float, end: float, speaker: str) -> Segment:
        return replace(segment(text, start, end), speaker=speaker)

    first, second = said("aaa", 0, 6, "A"), said("bbb", 2, 4, "B")
    assert times(first, second) == [(0, 6000), (2000, 4000)]
    assert times(first, second, said("ccc", 5, 7, "A")) == [(0, 5000), (2000, 4000), (5000, 7000)]
    assert times(first, replace(second, speaker="A")) == [(0, 2000), (2000, 4000)]
    assert times(first, replace(second, start=0)) == [(0, 6000), (1, 4000)]
    two_lines = said("aaaa bbbb", 0, 6, "A")
    narrow = plain(max_line_width=4, max_line_count=1)
    shown = cues(transcript(two_lines, second), narrow, line_count=1)
    assert [cue.speaker for cue in shown] == ["A", "B", "A"]
    assert [cue.start for cue in shown] == sorted(cue.start for cue in shown)


def test_times_are_multiples_of_the_step() -> None:
    assert times(segment("a", 0.004, 0.006), segment("b", 0.006, 1.236), step=10) == [
        (0, 10),
        (10, 1240),
    ]


def underlined(cues: list[Cue]) -> list[tuple[int, int, str]]:
    """Start, end and text of each cue: underlined text in brackets, a bar between lines."""
    rows = []
    for cue in cues:
        parts = [line.parts for line in cue.lines]
        lines = [f"{before}[{mid}]{after}" if mid else before for before, mid, after in parts]
        rows.append((cue.start, cue.end, "|".join(lines)))
    return rows


def test_words_are_highlighted_one_after_another_and_gaps_are_filled() -> None:
    words = [Word(1, 2, " Well,", 0.5), Word(2, 3, " I", 0.5), Word(3.5, 4, " am.", 0.5)]
    spoken = segment("Well, I am.", 1, 4, words=words)
    shown = list(highlighted(cues(transcript(spoken), plain())))
    assert underlined(shown) == [
        (1000, 2000, "[Well,] I am."),
        (2000, 3000, "Well, [I] am."),
        (3000, 3500, "Well, I am."),
        (3500, 4000, "Well, I [am.]"),
    ]


def test_nothing_is_shown_between_two_cues() -> None:
    first, second = segment_with_words("one two"), segment_with_words("three", start=5)
    shown = list(highlighted(cues(transcript(first, second), plain())))
    assert [(cue.start, cue.end) for cue in shown] == [(0, 1000), (1000, 2000), (5000, 6000)]


def test_a_word_on_two_lines_is_highlighted_on_both() -> None:
    spoken = segment("今日今日", 0, 4, language="zh", words=[Word(0, 4, "今日今日", 0.5)])
    found = highlighted(cues(transcript(spoken), plain(max_line_width=4)))
    assert underlined(list(found)) == [(0, 4000, "[今日]|[今日]")]


def test_a_segment_without_words_is_not_highlighted() -> None:
    spoken = transcript(segment_with_words("one"), segment("two", 1, 2))
    shown = list(highlighted(cues(spoken, plain())))
    assert underlined(shown) == [(0, 1000, "[one]"), (1000, 2000, "two")]


@pytest.mark.parametrize("text", ["", " ", "\n", "\u200b", "\ufeff", "\0", "\u3000\u200e"])
def test_invisible_text_makes_no_cue(text: str) -> None:
    assert not is_visible(one_line(text))
    assert laid_out(segment(text)) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            " one\r\n\r\ntwo\u2028three\u2029four\x85five\x0bsix\x1cseven ",
            "one two three four five six seven",
        ),
        ("a\tb  c", "a b c"),
        ("\ufeffa\0b\x1bc\x7f\uffff", "abc"),
        ("a \0 b", "a b"),
        ("half \ud83d pair", "half \ufffd pair"),
        ("1\u00a0000\u3000\u202f?", "1\u00a0000\u3000\u202f?"),
        ("\u202bשלם\u202c \u202eabc", "שלם abc"),
        ("\u2066a\u2067b\u2068c\u2069\u202a\u202d", "abc"),
        ("שלם\u200f! \u200e\u061c.", "שלם\u200f! \u200e\u061c."),
    ],
)
def test_text_is_cleaned_and_put_on_one_line(text: str, line: str) -> None:
    assert one_line(text) == line


def test_right_to_left_text_keeps_its_order() -> None:
    text = "مرحبا بكم في هذا البرنامج الذي نتحدث فيه عن اللغات"
    lines = laid_out(segment(text, language="ar"))[0]
    assert " ".join(lines) == text
    assert len(lines) == 2
