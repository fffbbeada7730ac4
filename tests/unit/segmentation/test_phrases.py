from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whisperbatch.segmentation.sentences import MAX_PHRASE, MIN_SEGMENT, divide_phrases
from whisperbatch.segmentation.timed_text import AlignedWord, join_words
from whisperbatch.types import SpeechSpan, to_samples

SPEECH = (SpeechSpan(0, to_samples(60)),)


def evenly(text: str, length: float = 0.3, span: int = 0, start: float = 0.0) -> list[AlignedWord]:
    """Words one after the other, each `length` seconds long."""
    words = [f" {word}" for word in text.split()]
    joints = [to_samples(start + n * length) for n in range(len(words) + 1)]
    return [
        AlignedWord(word, a, b, 0.5, span)
        for word, (a, b) in zip(words, pairwise(joints), strict=True)
    ]


def texts(words: list[AlignedWord], speech: tuple[SpeechSpan, ...] = SPEECH) -> list[str]:
    return [segment.text for segment in divide_phrases(words, speech, "en")]


def test_a_segment_ends_with_its_sentence() -> None:
    words = evenly("Please hold. Is it you? Yes! I see… well.")
    assert texts(words) == ["Please hold.", "Is it you?", "Yes!", "I see…", "well."]
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
    assert texts(evenly(text)) == [text]


def test_full_stops_are_read_as_in_sentences() -> None:
    """`text.sentences` knows the abbreviations and ordinals of each language."""
    [whole] = divide_phrases(evenly("Am 3. Mai kam Hr. Maier."), SPEECH, "de")
    assert whole.text == "Am 3. Mai kam Hr. Maier."
    assert texts(evenly("It was Room No. 5 then. He left.")) == [
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
    assert texts(evenly('He said "no." (Really?) Yes.')) == ['He said "no."', "(Really?)", "Yes."]


def test_sentences_end_in_other_scripts() -> None:
    assert texts(evenly("请稍候。 谢谢。 कृपया। شكرا؟")) == ["请稍候。", "谢谢。", "कृपया।", "شكرا؟"]


def test_a_pause_in_speech_ends_a_segment() -> None:
    speech = (SpeechSpan(0, 16_000), SpeechSpan(22_400, 48_000))
    words = [*evenly("one two"), *evenly("three four", span=1, start=1.4)]
    assert texts(words, speech) == ["one two", "three four"]
    shorter_pause = (SpeechSpan(0, 16_000), SpeechSpan(22_399, 48_000))
    assert texts(words, shorter_pause) == ["one two three four"]


def test_the_pauses_around_a_span_without_words_are_added() -> None:
    speech = (SpeechSpan(0, 16_000), SpeechSpan(19_200, 20_000), SpeechSpan(23_200, 48_000))
    words = [*evenly("one two"), *evenly("three four", span=2, start=1.5)]
    assert texts(words, speech) == ["one two", "three four"]


def test_a_long_sentence_is_divided_at_a_comma() -> None:
    text = " ".join(["word"] * 30 + ["word,"] + ["word"] * 29)
    words = evenly(text)
    assert words[-1].end == to_samples(18) > MAX_PHRASE
    assert texts(words) == [" ".join(["word"] * 30 + ["word,"]), " ".join(["word"] * 29)]


def test_a_long_sentence_is_divided_at_a_pause() -> None:
    speech = (SpeechSpan(0, to_samples(8.5)), SpeechSpan(to_samples(8.8), to_samples(18)))
    words = [*evenly("a " * 28), *evenly("b " * 28, span=1, start=8.8)]
    assert texts(words, speech) == [("a " * 28).strip(), ("b " * 28).strip()]


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
