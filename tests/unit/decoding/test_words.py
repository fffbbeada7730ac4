from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakes import multilingual_tokenizer
from whisperbatch.decoding.tokenizer import WhisperTokenizer
from whisperbatch.decoding.words import AlignedWord, into_speech, merge_punctuation, place_words
from whisperbatch.protocols import Alignment
from whisperbatch.types import Chunk, SpeechSpan, to_samples

VOCABULARY = WhisperTokenizer(multilingual_tokenizer(), multilingual=True)


def placed(*words: tuple[str, float, float]) -> list[AlignedWord]:
    return [
        AlignedWord(text, to_samples(start), to_samples(end), 0.5, 0) for text, start, end in words
    ]


def spans(*pairs: tuple[float, float]) -> tuple[SpeechSpan, ...]:
    return tuple(SpeechSpan(to_samples(start), to_samples(end)) for start, end in pairs)


def chunk_of(speech: tuple[SpeechSpan, ...], pieces: tuple[SpeechSpan, ...] = ()) -> Chunk:
    held = pieces or (SpeechSpan(speech[0].start, speech[-1].end),)
    samples = np.zeros(sum(piece.length for piece in held), np.float32)
    return Chunk(0, 0, held, speech, samples)


def seconds(words: list[AlignedWord]) -> list[tuple[str, float, float]]:
    return [(word.text, word.start / 16000, word.end / 16000) for word in words]


def texts(words: list[AlignedWord]) -> list[str]:
    return [word.text for word in words]


def test_marks_join_the_word_before_and_do_not_stretch_it() -> None:
    given = placed((" Yes", 0, 1), (",", 1, 3), (" no", 3, 4), ("...", 4, 9))
    assert seconds(merge_punctuation(given)) == [(" Yes,", 0, 1), (" no...", 3, 4)]


def test_marks_join_the_word_after() -> None:
    given = placed(
        (' "', 0, 1), ("Yes", 1, 2), ('"', 2, 3), (" (", 3, 4), ("no", 4, 5), (").", 5, 6)
    )
    assert seconds(merge_punctuation(given)) == [(' "Yes"', 1, 2), (" (no).", 4, 5)]


@pytest.mark.parametrize("text", [".", '"', "¿", "...", " -"])
def test_a_lone_mark_is_a_word(text: str) -> None:
    given = placed((text, 0, 1))
    assert merge_punctuation(given) == given


def test_no_words() -> None:
    assert merge_punctuation([]) == []
    assert into_speech([], spans((0, 1))) == []
    nothing = Alignment(np.zeros(0), np.zeros(0), np.zeros(0))
    assert place_words([], nothing, chunk_of(spans((0, 1))), "en", VOCABULARY) == []


def test_words_stretched_over_a_pause_are_cut_to_speech() -> None:
    speech = spans((0, 2), (5, 7))
    given = placed(
        (" one", 0.0, 1.0), (" two", 1.0, 4.0), (" three", 4.0, 6.0), (" four", 6.0, 7.5)
    )
    found = into_speech(given, speech)
    assert seconds(found) == [(" one", 0, 1), (" two", 1, 2), (" three", 5, 6), (" four", 6, 7)]
    assert [word.span for word in found] == [0, 0, 1, 1]


def test_words_in_silence_go_to_the_nearest_speech() -> None:
    speech = spans((0, 2), (6, 8))
    assert seconds(into_speech(placed((" a", 2.2, 2.6)), speech)) == [(" a", 0, 2)]
    assert seconds(into_speech(placed((" a", 5.2, 5.6)), speech)) == [(" a", 6, 8)]


def test_words_outside_share_the_time_of_a_neighbour_by_their_length() -> None:
    speech = spans((10, 14))
    given = placed((" aaa", 8, 9), (" aaa", 9, 14))
    assert seconds(into_speech(given, speech)) == [(" aaa", 10, 12), (" aaa", 12, 14)]
    given = placed((" a", 10, 12), (" aaaaa", 15, 16))
    assert seconds(into_speech(given, speech)) == [(" a", 10, 10.5), (" aaaaa", 10.5, 12)]


def test_words_that_are_all_outside_share_the_span() -> None:
    speech = spans((10, 14))
    given = placed((" aaa", 15, 16), (" aaa", 16, 17))
    assert seconds(into_speech(given, speech)) == [(" aaa", 10, 12), (" aaa", 12, 14)]


times = st.integers(0, 320_000)


@st.composite
def speeches(draw: st.DrawFn) -> tuple[SpeechSpan, ...]:
    joints = sorted(draw(st.sets(times, min_size=2, max_size=12)))
    return tuple(SpeechSpan(a, b) for a, b in zip(joints[::2], joints[1::2], strict=False))


@given(st.lists(times, min_size=2, max_size=20).map(sorted), speeches())
def test_words_stay_in_order_within_speech(
    joints: list[int], speech: tuple[SpeechSpan, ...]
) -> None:
    words = [AlignedWord(f" {n}", a, b, 0.5, 0) for n, (a, b) in enumerate(pairwise(joints))]
    found = into_speech(words, speech)
    assert texts(found) == texts(words)
    for word in found:
        span = speech[word.span]
        assert span.start <= word.start <= word.end <= span.end
    for one, other in pairwise(found):
        assert one.end <= other.start
        assert one.span <= other.span


def test_the_span_keeps_a_word_longer_than_it() -> None:
    found = into_speech(placed((" long", 0, 10)), spans((2, 3), (5, 8)))
    assert seconds(found) == [(" long", 5, 8)]


def test_places_are_those_of_the_recording() -> None:
    tokens = VOCABULARY._tokenizer.encode(" Good morning.", add_special_tokens=False).ids
    assert len(tokens) == 3
    alignment = Alignment(
        np.array([0.0, 1.2, 2.0]), np.array([1.0, 2.0, 2.5]), np.array([0.2, 0.4, 0.9])
    )
    speech = spans((100, 101.5), (111, 112))  # and the pause between is cut out
    [one, two] = place_words(tokens, alignment, chunk_of(speech, speech), "en", VOCABULARY)
    assert (one.text, one.start, one.end) == (" Good", 1_600_000, 1_624_000)
    assert (one.probability, one.span) == (0.2, 0)
    # the alignment ends both half a second before their spans do
    assert (two.text, two.start, two.end) == (" morning.", 1_776_000, 1_792_000)
    assert two.aligned == (19_200, 32_000)
    assert (two.probability, two.span) == (0.4, 1)


def test_a_word_takes_the_mean_of_its_tokens() -> None:
    tokens = VOCABULARY._tokenizer.encode(" unforgettably", add_special_tokens=False).ids
    count = len(tokens)
    assert count > 1
    alignment = Alignment(
        np.arange(count) / 10, np.arange(1, count + 1) / 10, np.linspace(0, 1, count)
    )
    [word] = place_words(tokens, alignment, chunk_of(spans((0, 5))), "en", VOCABULARY)
    assert (word.start, word.end) == (0, to_samples(count / 10))
    assert word.probability == pytest.approx(0.5)


def span(start: float, end: float, before: float = 0.0, after: float = 0.0) -> SpeechSpan:
    times = (to_samples(time) for time in (start, end, before, after))
    return SpeechSpan(*times)


def test_no_word_lies_in_a_margin() -> None:
    [one, two] = into_speech(
        placed((" Good", 10.0, 10.4), (" morning.", 10.4, 10.9)), [span(10, 11, 0.1, 0.1)]
    )
    # the detector hears speech a frame late, and its end a frame early
    assert (one.start, one.end) == (to_samples(10.08), to_samples(10.4))
    assert (two.start, two.end) == (to_samples(10.4), to_samples(10.92))


def test_margins_leave_half_of_a_short_span() -> None:
    [one] = into_speech(placed((" Yes.", 10.0, 10.2)), [span(10, 10.2, 0.1, 0.1)])
    assert (one.start, one.end) == (to_samples(10.05), to_samples(10.15))


@pytest.mark.parametrize(("end", "expected"), [(10.6, 12.0), (11.5, 12.0), (11.4, 11.4)])
def test_the_last_word_lasts_until_its_speech_ends(end: float, expected: float) -> None:
    """But not over speech that must be somebody else's words."""
    speech = [span(10, 12)] if end > 11 else [span(10, 11), span(11.5, 12)]
    words = placed((" Good", 10.0, 10.3), (" morning.", 10.3, end))
    found = into_speech(words, speech)[-1].end
    assert found == to_samples(expected if end > 11 else 11.0)


def test_a_sentence_stays_together_across_a_false_alarm() -> None:
    """Music in the pause was taken for speech; the alignment stretches "The" over all of it."""
    speech = [span(10, 11), span(15, 15.5), span(20, 21)]
    words = placed((" second.", 10.0, 11.0), (" The", 11.0, 20.4), (" test", 20.4, 20.9))
    one, two, three = into_speech(words, speech)
    assert (one.span, two.span, three.span) == (0, 2, 2)
    assert two.start == to_samples(20)
    ends = placed((" the", 10.0, 10.4), (" second.", 10.4, 19.8), (" Test", 19.8, 20.9))
    assert [word.span for word in into_speech(ends, speech)] == [0, 0, 2]
