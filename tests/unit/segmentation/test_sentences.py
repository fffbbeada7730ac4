"""Sentences and phrases of rows: "|" is the border of two rows, "~1.5" a pause of 1.5 s."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise, zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whisperbatch.segmentation.sentences import (
    MAX_FIRST,
    MAX_PAUSE,
    MAX_PHRASE,
    MAX_SENTENCE,
    MIN_SEGMENT,
    Sentence,
    divide_phrases,
    join_texts,
    next_row,
)
from whisperbatch.segmentation.timed_text import AlignedWord, ScoredText, Scores, join_words
from whisperbatch.types import SpeechSpan, to_samples

WORD = 0.3  # seconds


def scores(number: int) -> Scores:
    return Scores(-0.1 * (number + 1), 0.1 * number, 1.0 + number, 0.2 * number)


@dataclass
class Speaker:
    """Speaks words of equal length, one after the other.

    Attributes:
        language: of all words.
        pace: seconds of a word.
        position: seconds spoken so far.
        rows: number of rows spoken so far.
    """

    language: str = "en"
    pace: float = WORD
    position: float = 0.0
    rows: int = 0
    words: list[AlignedWord] = field(default_factory=list)

    def row(self, text: str) -> Sentence | None:
        """Return a row; "~1.5" in the text is a pause of 1.5 s."""
        words = []
        for word in text.split():
            if word.startswith("~"):
                self.position += float(word[1:])
                continue
            end = self.position + self.pace
            words.append(
                AlignedWord(f" {word}", to_samples(self.position), to_samples(end), 0.5, 0)
            )
            self.position = end
        self.words += words
        self.rows += 1
        timed = (join_words(words),) if words else ()
        row_scores = scores(self.rows - 1)
        return join_texts([ScoredText(self.language, row_scores, timed, (SpeechSpan(0, 1),))])


def sentences(
    *rows: Sentence | None, clip_starts: tuple[int, ...] = (), cuts: tuple[bool, ...] = ()
) -> list[list[Sentence]]:
    """The sentences that are complete after each row, and at the end."""
    held: Sentence | None = None
    result: list[list[Sentence]] = []
    for row, cut in zip_longest(rows, cuts):
        if row is None:
            result.append([held] if held else [])
            held = None
            continue
        first = not any(result)
        step = next_row(held, row, clip_starts=clip_starts, cut=bool(cut), first=first)
        result.append([*step.earlier, *step.sentences])
        held = step.held
    return [*result, [held] if held else []]


def texts(text: str, language: str = "en") -> list[list[str]]:
    """The sentences of a text after each row, and at the end; "||" is a border without a pause."""
    speaker = Speaker(language)
    parts = text.replace("||", "=|").split("|")
    rows = [speaker.row(part.rstrip("=")) for part in parts]
    cuts = tuple(part.endswith("=") for part in parts)
    return [[sentence.text.strip() for sentence in step] for step in sentences(*rows, cuts=cuts)]


def test_a_complete_sentence_waits_for_no_row() -> None:
    assert texts("Please hold. Is it you? | Yes! No.") == [
        ["Please hold.", "Is it you?"],
        ["Yes!", "No."],
        [],
    ]


def test_an_unfinished_sentence_is_joined_with_the_next_row() -> None:
    assert texts("I am Bob. The purpose of this test | is to give you an idea. Thank | you.") == [
        ["I am Bob."],
        ["The purpose of this test is to give you an idea."],
        ["Thank you."],
        [],
    ]


def test_a_full_stop_at_a_cut_ends_no_sentence_that_continues() -> None:
    assert texts("Yes. I wonder how. || much there is. || No. || Yes.") == [
        ["Yes."],
        ["I wonder how. much there is."],
        [],
        ["No.", "Yes."],
        [],
    ]
    assert texts("One. | two. | three.") == [["One."], ["two."], ["three."], []]
    assert texts("One. || two.") == [["One."], ["two."], []]  # the first segment does not wait


def test_the_end_of_the_recording_ends_a_sentence() -> None:
    assert texts("Dial 600. Thank you for") == [["Dial 600."], ["Thank you for"]]


def test_no_word_waits_for_two_rows() -> None:
    assert texts("One two | three four, five six | seven eight.") == [
        [],
        ["One two three four,"],
        ["five six seven eight."],
        [],
    ]


def test_a_row_without_text_ends_the_sentence_before_it() -> None:
    assert texts("One two | | three four.") == [[], ["One two"], ["three four."], []]


@pytest.mark.parametrize(("pause", "joins"), [("~1.9", True), ("~2.0", False)])
def test_a_pause_of_two_seconds_ends_a_segment(pause: str, joins: bool) -> None:
    assert (texts(f"One two {pause} three four.") == [["One two three four."], []]) is joins
    after_rows = [[], ["One two three four."], []]
    assert (texts(f"One two | {pause} three four.") == after_rows) is joins
    if not joins:
        assert texts(f"One two | {pause} three four.")[1] == ["One two", "three four."]


def test_a_closing_mark_stays_with_its_sentence_after_a_pause() -> None:
    assert texts("C'est vous ~3.0 ? Oui.", "fr") == [["C'est vous ?", "Oui."], []]


def test_the_pause_after_an_abbreviation_decides() -> None:
    assert texts("At 5 p.m. Eastern time.") == [["At 5 p.m. Eastern time."], []]
    assert texts("At 5 p.m. ~0.4 He left.") == [["At 5 p.m.", "He left."], []]
    assert texts("At 5 p.m. | ~0.4 He left.") == [[], ["At 5 p.m.", "He left."], []]
    assert texts("I met Dr. | ~0.4 Jones.") == [[], ["I met Dr. Jones."], []]


def test_sentences_of_two_languages_are_not_joined() -> None:
    english, french = Speaker(), Speaker("fr", position=0.6)
    steps = sentences(english.row("Thank you"), french.row("merci beaucoup."))
    assert [[s.text.strip() for s in step] for step in steps] == [
        [],
        ["Thank you", "merci beaucoup."],
        [],
    ]
    assert [s.language for s in steps[1]] == ["en", "fr"]


def test_sentences_of_two_clips_are_not_joined() -> None:
    speaker = Speaker()
    rows = [speaker.row("one two"), speaker.row("three four.")]
    [_, apart, _] = sentences(*rows, clip_starts=(0, to_samples(0.6)))
    assert [sentence.text.strip() for sentence in apart] == ["one two", "three four."]
    [_, [together], _] = sentences(*rows, clip_starts=(0, to_samples(0.7)))
    assert together.text.strip() == "one two three four."


@pytest.mark.parametrize(
    ("language", "first", "second", "joined"),
    [
        ("en", "one", "two.", " one two."),
        ("zh", "一", "二。", "一二。"),
        ("th", "หนึ่ง", "สอง", "หนึ่งสอง"),
        ("ar", "واحد", "اثنان.", " واحد اثنان."),
        ("ko", "하나", "둘.", " 하나 둘."),
    ],
)
def test_rows_are_joined_with_a_space_if_the_language_has_spaces(
    language: str, first: str, second: str, joined: str
) -> None:
    space = "" if language in {"zh", "th"} else " "

    def text(word: str, start: int) -> ScoredText:
        words = [AlignedWord(word, start, start + 10, 0.5, 0)]
        return ScoredText(language, scores(0), (join_words(words),), ())

    row = join_texts([text(space + first, 0), text(f" {second}", 10)])  # two parts of a row
    assert row
    assert row.text == joined
    assert [word.text for word in row.words] == [space + first, space + second]


def test_a_sentence_has_the_scores_of_its_rows() -> None:
    speaker = Speaker()
    [_, [sentence], _] = sentences(speaker.row("abc"), speaker.row("abcdefghi."))
    assert sentence.mean_scores.avg_logprob == pytest.approx((3 * -0.1 + 10 * -0.2) / 13)
    assert sentence.mean_scores.no_speech_prob == pytest.approx(10 * 0.1 / 13)
    assert sentence.mean_scores.compression_ratio == 2.0
    assert sentence.mean_scores.temperature == 0.2
    [[alone], _] = sentences(Speaker().row("One."))
    assert alone.mean_scores == scores(0)


def test_a_long_sentence_is_divided_at_a_clause() -> None:
    words = ["Word"] * 90
    words[44] = "clause,"
    [first, second, end] = texts(" ".join(["Yes.", *words, "|", *["more"] * 29, "end."]))
    assert (first, end) == (["Yes."], [])
    assert [len(text.split()) for text in second] == [45, 75]
    assert second[0].endswith("clause,")


def test_a_space_ends_a_clause_in_languages_without_spaces() -> None:
    speaker = Speaker("th", 1.0)
    row = speaker.row(" ".join(["คำ"] * 40))
    assert row
    words = [replace(word, text=word.text.strip()) for word in row.words]
    words[16] = replace(words[16], text=" คำ")
    steps = sentences(Sentence("th", tuple(words), row.scores))
    assert [len(sentence.words) for step in steps for sentence in step] == [16, 24]


def test_text_without_punctuation_is_divided_at_pauses() -> None:
    text = " ".join(["word"] * 40) + " ~2.5 " + " ".join(["word"] * 40)
    assert [len(step) for step in texts(text)] == [1, 1]
    rows = " | ".join([" ".join(["word"] * 60)] * 4)
    lengths = [len(text.split()) for step in texts(rows) for text in step]
    assert sum(lengths) == 240
    assert min(lengths) >= 15
    assert max(lengths) <= 100


def test_the_first_segment_of_a_recording_does_not_wait_for_the_second_row() -> None:
    [first, _, _] = texts(" ".join(["word"] * 30 + ["clause,"] + ["word"] * 40) + " | end.")
    assert [len(text.split()) for text in first] == [31]
    [first, second, _, _] = texts("Yes. | " + " ".join(["word"] * 70) + " | end.")
    assert first == ["Yes."]
    assert second == []


WORDS = st.sampled_from(("a", "Word", "end.", "clause,", "Mr.", "why?", "5", "…", "wait..."))
TIMED_WORDS = st.tuples(WORDS, st.floats(0.0, 5.0), st.floats(0.0, 2.5))
ROWS = st.lists(st.lists(TIMED_WORDS, max_size=25), max_size=8)


def spoken(rows: list[list[tuple[str, float, float]]]) -> Iterator[list[AlignedWord]]:
    position = 0
    for row in rows:
        words = []
        for text, length, pause in row:
            end = position + to_samples(length)
            words.append(AlignedWord(f" {text}", position, end, 0.5, 0))
            position = end + to_samples(pause)
        yield words


@given(ROWS, st.lists(st.booleans(), min_size=8, max_size=8))
def test_all_words_come_once_in_order_and_at_most_a_row_late(
    rows: list[list[tuple[str, float, float]]], cuts: list[bool]
) -> None:
    spoken_rows = list(spoken(rows))
    row_texts = [
        join_texts([ScoredText("en", scores(n), (join_words(words),) if words else (), ())])
        for n, words in enumerate(spoken_rows)
    ]
    steps = sentences(*row_texts, cuts=tuple(cuts[: len(rows)]))
    all_words = [word for words in spoken_rows for word in words]
    assert [word for step in steps for sentence in step for word in sentence.words] == all_words
    returned = 0
    for number, step in enumerate(steps):
        returned += sum(len(sentence.words) for sentence in step)
        assert returned >= sum(len(words) for words in spoken_rows[:number])
    for sentence in (sentence for step in steps for sentence in step):
        duration = sentence.words[-1].end - sentence.words[0].start
        assert duration <= MAX_SENTENCE or len(sentence.words) == 1
        for before, after in pairwise(sentence.words):
            closing = after.text.strip() == "…"
            assert after.start - before.end < MAX_PAUSE or closing


def test_the_limits_are_in_order() -> None:
    assert MAX_PAUSE < MAX_FIRST < MAX_SENTENCE


SPEECH = (SpeechSpan(0, to_samples(60)),)


def evenly(text: str, length: float = 0.3, span: int = 0, start: float = 0.0) -> list[AlignedWord]:
    """Words one after the other, each `length` seconds long."""
    words = [f" {word}" for word in text.split()]
    joints = [to_samples(start + n * length) for n in range(len(words) + 1)]
    return [
        AlignedWord(word, a, b, 0.5, span)
        for word, (a, b) in zip(words, pairwise(joints), strict=True)
    ]


def phrases(words: list[AlignedWord], speech: tuple[SpeechSpan, ...] = SPEECH) -> list[str]:
    return [segment.text for segment in divide_phrases(words, speech, "en")]


def test_a_segment_ends_with_its_sentence() -> None:
    words = evenly("Please hold. Is it you? Yes! I see… well.")
    assert phrases(words) == ["Please hold.", "Is it you?", "Yes!", "I see…", "well."]
    first = divide_phrases(words, SPEECH, "en")[0]
    assert (first.start, first.end) == (0, to_samples(0.6))
    assert first.words == tuple(words[:2])


@pytest.mark.parametrize(
    "text",
    [
        "Dr. Who met Mr. Jones.",
        "Born in the U.S. Navy town.",
        "J. R. Smith.",
        "At 5 p.m. Eastern time.",
        "He paid 3.50 for it.",
        "Wait ... what is it.",
        "about approx. ten of them.",
    ],
)
def test_a_full_stop_of_an_abbreviation_ends_no_sentence(text: str) -> None:
    assert phrases(evenly(text)) == [text]


def test_full_stops_are_read_as_in_sentences() -> None:
    """`text.sentences` knows the abbreviations and ordinals of each language."""
    [whole] = divide_phrases(evenly("Am 3. Mai kam Hr. Maier."), SPEECH, "de")
    assert whole.text == "Am 3. Mai kam Hr. Maier."
    assert phrases(evenly("It was Room No. 5 then. He left.")) == [
        "It was Room No. 5 then.",
        "He left.",
    ]


@pytest.mark.parametrize(
    ("before", "after", "language"),
    [("We sell pens, etc.", "Then we go.", "en"), ("Der Preis ist 5.", "Dann gehen wir.", "de")],
)
def test_a_pause_decides_after_an_abbreviation_or_a_number(
    before: str, after: str, language: str
) -> None:
    for pause, expected in ((0.1, [f"{before} {after}"]), (1.0, [before, after])):
        first = evenly(before)
        words = [*first, *evenly(after, start=first[-1].end / 16_000 + pause)]
        phrases = divide_phrases(words, SPEECH, language)
        assert [phrase.text for phrase in phrases] == expected, pause


def test_closing_marks_belong_to_their_sentence() -> None:
    assert phrases(evenly('He said "no." (Really?) Yes.')) == ['He said "no."', "(Really?)", "Yes."]


def test_sentences_end_in_other_scripts() -> None:
    assert phrases(evenly("请稍候。 谢谢。 कृपया। شكرا؟")) == [
        "请稍候。",
        "谢谢。",
        "कृपया।",
        "شكرا؟",
    ]


def test_a_pause_in_speech_ends_a_segment() -> None:
    speech = (SpeechSpan(0, 16_000), SpeechSpan(22_400, 48_000))
    words = [*evenly("one two"), *evenly("three four", span=1, start=1.4)]
    assert phrases(words, speech) == ["one two", "three four"]
    shorter_pause = (SpeechSpan(0, 16_000), SpeechSpan(22_399, 48_000))
    assert phrases(words, shorter_pause) == ["one two three four"]


def test_the_pauses_around_a_span_without_words_are_added() -> None:
    speech = (SpeechSpan(0, 16_000), SpeechSpan(19_200, 20_000), SpeechSpan(23_200, 48_000))
    words = [*evenly("one two"), *evenly("three four", span=2, start=1.5)]
    assert phrases(words, speech) == ["one two", "three four"]


def test_a_long_sentence_is_divided_at_a_comma() -> None:
    text = " ".join(["word"] * 30 + ["word,"] + ["word"] * 29)
    words = evenly(text)
    assert words[-1].end == to_samples(18) > MAX_PHRASE
    assert phrases(words) == [" ".join(["word"] * 30 + ["word,"]), " ".join(["word"] * 29)]


def test_a_long_sentence_is_divided_at_a_pause() -> None:
    speech = (SpeechSpan(0, to_samples(8.5)), SpeechSpan(to_samples(8.8), to_samples(18)))
    words = [*evenly("a " * 28), *evenly("b " * 28, span=1, start=8.8)]
    assert phrases(words, speech) == [("a " * 28).strip(), ("b " * 28).strip()]


def test_a_single_word_is_never_divided() -> None:
    [segment] = divide_phrases([AlignedWord(" endless", 0, to_samples(29), 0.5, 0)], SPEECH, "en")
    assert (segment.start, segment.end) == (0, to_samples(29))


def test_space_alone_is_no_segment() -> None:
    assert divide_phrases([], SPEECH, "en") == []
    assert divide_phrases([AlignedWord(" ", 0, 100, 0.5, 0)], SPEECH, "en") == []


def test_join_words_adds_no_space() -> None:
    words = [AlignedWord("请", 5, 6, 0.5, 0), AlignedWord("稍候。", 6, 9, 0.5, 0)]
    joined = join_words(words)
    assert (joined.text, joined.start, joined.end) == ("请稍候。", 5, 9)


@given(
    st.lists(
        st.tuples(
            st.sampled_from((" a", " Word", " end.", " clause,", " Mr.", " why?")),
            st.integers(0, 40_000),
            st.integers(0, 20_000),
        ),
        max_size=60,
    )
)
def test_segments_contain_all_words_and_are_short(timed_words: list[tuple[str, int, int]]) -> None:
    words, speech, position = [], [], 0
    for number, (text, length, gap) in enumerate(timed_words):
        words.append(AlignedWord(text, position, position + length, 0.5, number))
        speech.append(SpeechSpan(position, position + length))
        position += length + gap
    segments = divide_phrases(words, speech, "en")
    assert [word for segment in segments for word in segment.words] == words
    for segment in segments:
        assert segment.end - segment.start <= MAX_PHRASE or len(segment.words) == 1
        assert (segment.start, segment.end) == (segment.words[0].start, segment.words[-1].end)
        assert segment.text == segment.text.strip() != ""
    for segment, following in pairwise(segments):
        assert segment.end <= following.start


def test_dividing_leaves_no_very_short_segments() -> None:
    words = evenly(" ".join(["and,"] + ["word"] * 52 + ["word,", "too"]))
    for segment in divide_phrases(words, SPEECH, "en"):
        assert segment.end - segment.start >= MIN_SEGMENT
