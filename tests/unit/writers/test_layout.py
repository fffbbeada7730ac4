"""Where lines and cues part, how wide they are, and when they are shown."""

import pytest

from tests.unit.transcripts import segment, spoken, transcript
from whisperbatch.types import Segment, Word
from whisperbatch.writers.breaks import measure
from whisperbatch.writers.cues import Cue, cues
from whisperbatch.writers.options import SubtitleOptions
from whisperbatch.writers.texts import columns, is_visible, one_line

NO_LIMITS = SubtitleOptions(max_line_width=None)


def laid_out(one: Segment, options: SubtitleOptions | None = None) -> list[list[str]]:
    wanted = options or SubtitleOptions()
    found = cues(transcript(one), wanted, line_count=wanted.max_line_count)
    return [[line.text for line in cue.lines] for cue in found]


def times(
    *segments: Segment, options: SubtitleOptions = NO_LIMITS, step: int = 1
) -> list[tuple[int, int]]:
    found = cues(transcript(*segments), options, line_count=2, step=step)
    return [(cue.start, cue.end) for cue in found]


def atoms(text: str, *words: int, unspaced: bool = False) -> list[str]:
    measured = measure(text, words, unspaced=unspaced)
    return [text[atom.first : atom.last] for atom in measured.atoms]


def test_a_text_that_fits_is_one_line() -> None:
    text = "Forty-two columns are what a line may have"
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
            ["We had been walking through", "a fine old town for hours"],
        ),
        (  # a comma is no reason for a line of one word
            "Yes, the quick brown bear jumped over all of it",
            ["Yes, the quick brown bear", "jumped over all of it"],
        ),
    ],
)
def test_lines_are_even_and_end_at_good_points(text: str, lines: list[str]) -> None:
    assert laid_out(segment(text)) == [lines]


def test_lines_are_as_few_as_can_be() -> None:
    text = "this that then here there when what where whose whom"
    options = SubtitleOptions(max_line_width=20, max_line_count=None)
    assert laid_out(segment(text), options) == [
        ["this that then here", "there when what", "where whose whom"]
    ]


def test_a_word_is_never_cut() -> None:
    text = "See https://example.org/a-page-of-a-very-long-name for it"
    options = SubtitleOptions(max_line_width=10, max_line_count=1)
    assert laid_out(segment(text), options) == [
        ["See"],
        ["https://example.org/a-page-of-a-very-long-name"],
        ["for it"],
    ]


def test_a_space_that_does_not_break_is_kept() -> None:
    text = "Vous\u00a0?"
    assert laid_out(segment(text), SubtitleOptions(max_line_width=2)) == [[text]]


def test_a_long_segment_becomes_cues_that_part_at_sentences_and_clauses() -> None:
    text = (
        "Please hold the line while I transfer you to the billing department, where one of our "
        "agents will tell you more. Thank you for your patience."
    )
    assert laid_out(segment(text)) == [
        ["Please hold the line while I transfer", "you to the billing department,"],
        ["where one of our agents will tell", "you more. Thank you for your patience."],
    ]


def test_without_limits_a_segment_is_a_line() -> None:
    text = "word " * 100
    assert laid_out(segment(text), NO_LIMITS) == [[text.strip()]]


def test_words_of_a_line_are_counted() -> None:
    one = spoken("this that then, here there, when what")
    options = SubtitleOptions(max_line_width=None, max_words_per_line=2)
    assert laid_out(one, options) == [["this that", "then,"], ["here there,", "when what"]]
    single = SubtitleOptions(max_words_per_line=3, max_line_count=1)
    assert laid_out(one, single) == [["this that then,"], ["here there,"], ["when what"]]


def test_words_of_a_language_without_spaces_are_counted_as_spoken() -> None:
    parts = ["今日", "は", "いい", "天気", "です"]
    words = [Word(n, n + 1, part, 0.5) for n, part in enumerate(parts)]
    one = segment("".join(parts), 0, 5, language="ja", words=words)
    options = SubtitleOptions(max_words_per_line=2, max_line_count=None)
    assert laid_out(one, options) == [["今日は", "いい", "天気です"]]


def test_a_pause_is_a_good_point_to_part_cues() -> None:
    texts = ["one", " two", " three", " four", " five", " six"]
    starts = [0, 1, 5, 6, 7, 8]
    words = [Word(start, start + 1, text, 0.5) for start, text in zip(starts, texts, strict=True)]
    one = segment("".join(texts), 0, 9, words=words)
    assert laid_out(one, SubtitleOptions(max_line_width=20, max_line_count=1)) == [
        ["one two"],
        ["three four five six"],
    ]


def test_wide_characters_take_two_columns() -> None:
    assert [columns(c) for c in "aé漢。ｱＡ한"] == [1, 1, 2, 2, 1, 2, 2]
    assert [columns(c) for c in "\u0301\u200b\u0e31"] == [0, 0, 0]
    options = SubtitleOptions(max_line_width=10, max_line_count=None)
    assert laid_out(segment("天気予報を見ました", language="zh"), options) == [
        ["天気予報を", "見ました"]
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
def test_languages_without_spaces_part_between_characters(text: str, expected: str) -> None:
    assert atoms(text, unspaced=True) == expected.split("|")


def test_what_cannot_be_seen_has_no_line_of_its_own() -> None:
    assert atoms("a \u200b b\u200b \u00a0") == ["a \u200b", "b\u200b \u00a0"]
    assert atoms("\u200b a b") == ["\u200b a", "b"]


def test_other_languages_part_at_spaces_alone() -> None:
    assert atoms("well-known 漢字 a\u00a0b\u3000c") == ["well-known", "漢字", "a\u00a0b", "c"]


def test_cues_have_the_times_of_their_words() -> None:
    words = [Word(1, 1.5, "one", 0.5), Word(1.5, 2, " two", 0.5), Word(4, 5, " three", 0.5)]
    one = segment("one two three", 1, 5, words=words)
    assert times(one, options=SubtitleOptions(max_line_width=5, max_line_count=2)) == [
        (1000, 2000),
        (4000, 5000),
    ]


def test_without_words_text_shares_out_the_time() -> None:
    one = segment("aaaaa bbbb", 10, 20)
    options = SubtitleOptions(max_line_width=5, max_line_count=1)
    found = cues(transcript(one), options, line_count=1)
    assert [(cue.start, cue.end) for cue in found] == [(10_000, 15_000), (16_000, 20_000)]


def test_words_that_spell_another_text_count_for_nothing() -> None:
    one = segment("aaaaa bbbb", 10, 20, words=[Word(11, 12, "something", 0.5)])
    found = cues(transcript(one), SubtitleOptions(max_line_width=5), line_count=1)
    assert [(cue.start, cue.end) for cue in found] == [(10_000, 15_000), (16_000, 20_000)]


def test_a_word_of_two_cues_is_parted_by_its_length() -> None:
    words = [Word(0, 4, "今日今日", 0.5)]
    one = segment("今日今日", 0, 4, language="zh", words=words)
    found = cues(transcript(one), SubtitleOptions(max_line_width=4), line_count=1)
    assert [(cue.start, cue.end, cue.lines[0].text) for cue in found] == [
        (0, 2000, "今日"),
        (2000, 4000, "今日"),
    ]


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([(0, 1), (1, 2)], [(0, 1000), (1000, 2000)]),
        ([(0, 3), (1, 2)], [(0, 1000), (1000, 2000)]),  # overlapping
        ([(0, 0), (0, 0), (0, 1)], [(0, 1), (1, 2), (2, 1000)]),  # of no length
        ([(0, 1.0004), (1.0004, 1.0005)], [(0, 1000), (1000, 1001)]),  # none when rounded
        ([(-1, 0.5)], [(0, 500)]),
        ([(5, 6), (1, 2)], [(5000, 5001), (5001, 5002)]),  # out of order
        ([(5, 4)], [(5000, 5001)]),
        ([(360_000, 360_001)], [(360_000_000, 360_001_000)]),
    ],
)
def test_cues_do_not_overlap_and_last(
    spans: list[tuple[float, float]], expected: list[tuple[int, int]]
) -> None:
    assert times(*(segment("a", *span) for span in spans)) == expected


def test_times_are_whole_steps() -> None:
    assert times(segment("a", 0.004, 0.006), segment("b", 0.006, 1.236), step=10) == [
        (0, 10),
        (10, 1240),
    ]


def marked(found: list[Cue]) -> list[tuple[int, int, str]]:
    """Start, end and text of each, brackets around what is underlined, a bar between lines."""
    shown = []
    for cue in found:
        parts = [line.parts for line in cue.lines]
        lines = [f"{before}[{mid}]{after}" if mid else before for before, mid, after in parts]
        shown.append((cue.start, cue.end, "|".join(lines)))
    return shown


def test_each_word_is_highlighted_in_its_turn_and_gaps_are_filled() -> None:
    words = [Word(1, 2, " Well,", 0.5), Word(2, 3, " I", 0.5), Word(3.5, 4, " am.", 0.5)]
    one = segment("Well, I am.", 1, 4, words=words)
    found = cues(transcript(one), SubtitleOptions(highlight_words=True), line_count=2)
    assert marked(found) == [
        (1000, 2000, "[Well,] I am."),
        (2000, 3000, "Well, [I] am."),
        (3000, 3500, "Well, I am."),
        (3500, 4000, "Well, I [am.]"),
    ]


def test_a_gap_between_two_cues_stays_empty() -> None:
    first, second = spoken("one two"), spoken("three", start=5)
    options = SubtitleOptions(highlight_words=True)
    found = cues(transcript(first, second), options, line_count=2)
    assert [(cue.start, cue.end) for cue in found] == [(0, 1000), (1000, 2000), (5000, 6000)]


def test_a_word_on_two_lines_is_highlighted_on_both() -> None:
    one = segment("今日今日", 0, 4, language="zh", words=[Word(0, 4, "今日今日", 0.5)])
    options = SubtitleOptions(max_line_width=4, highlight_words=True)
    assert marked(cues(transcript(one), options, line_count=2)) == [(0, 4000, "[今日]|[今日]")]


def test_a_segment_without_words_is_shown_unmarked_among_others() -> None:
    options = SubtitleOptions(highlight_words=True)
    found = cues(transcript(spoken("one"), segment("two", 1, 2)), options, line_count=2)
    assert marked(found) == [(0, 1000, "[one]"), (1000, 2000, "two")]


@pytest.mark.parametrize("text", ["", " ", "\n", "\u200b", "\ufeff", "\0", "\u3000\u200e"])
def test_nothing_to_see_makes_no_cue(text: str) -> None:
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
        ("\u202bשלם\u202c", "\u202bשלם\u202c"),
    ],
)
def test_a_text_becomes_one_line(text: str, line: str) -> None:
    assert one_line(text) == line


def test_right_to_left_text_stays_in_its_order() -> None:
    text = "مرحبا بكم في هذا البرنامج الذي نتحدث فيه عن اللغات"
    lines = laid_out(segment(text, language="ar"))[0]
    assert " ".join(lines) == text
    assert len(lines) == 2
