"""The words of a row and their times."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakes import multilingual_tokenizer
from whisperbatch.chunking.split import shift
from whisperbatch.decoding.prompts import WhisperTokenizer, segment_by_timestamps
from whisperbatch.decoding.words import merge_punctuation, move_into_speech, place_words
from whisperbatch.protocols import Alignment
from whisperbatch.segmentation.timed_text import AlignedWord
from whisperbatch.types import Chunk, SpeechSpan, to_samples

VOCABULARY = WhisperTokenizer(multilingual_tokenizer(), multilingual=True)


def aligned_words(*words: tuple[str, float, float]) -> list[AlignedWord]:
    return [
        AlignedWord(text, to_samples(start), to_samples(end), 0.5, 0) for text, start, end in words
    ]


def spans(*pairs: tuple[float, float]) -> tuple[SpeechSpan, ...]:
    return tuple(SpeechSpan(to_samples(start), to_samples(end)) for start, end in pairs)


def chunk_of(speech: tuple[SpeechSpan, ...], pieces: tuple[SpeechSpan, ...] = ()) -> Chunk:
    chunk_pieces = pieces or (SpeechSpan(speech[0].start, speech[-1].end),)
    samples = np.zeros(sum(piece.length for piece in chunk_pieces), np.float32)
    return Chunk(0, 0, chunk_pieces, speech, samples)


def seconds(words: list[AlignedWord]) -> list[tuple[str, float, float]]:
    return [(word.text, word.start / 16000, word.end / 16000) for word in words]


def texts(words: list[AlignedWord]) -> list[str]:
    return [word.text for word in words]


def test_marks_join_the_previous_word_without_extending_it() -> None:
    words = aligned_words((" Yes", 0, 1), (",", 1, 3), (" no", 3, 4), ("...", 4, 9))
    assert seconds(merge_punctuation(words)) == [(" Yes,", 0, 1), (" no...", 3, 4)]


def test_marks_join_the_next_word() -> None:
    words = aligned_words(
        (' "', 0, 1), ("Yes", 1, 2), ('"', 2, 3), (" (", 3, 4), ("no", 4, 5), (").", 5, 6)
    )
    assert seconds(merge_punctuation(words)) == [(' "Yes"', 1, 2), (" (no).", 4, 5)]


@pytest.mark.parametrize("text", [".", '"', "¿", "...", " -"])
def test_a_lone_mark_is_a_word(text: str) -> None:
    words = aligned_words((text, 0, 1))
    assert merge_punctuation(words) == words


def test_no_words() -> None:
    assert merge_punctuation([]) == []
    assert move_into_speech([], spans((0, 1))) == []
    no_times = Alignment(np.zeros(0), np.zeros(0), np.zeros(0))
    assert place_words([], no_times, chunk_of(spans((0, 1))), "en", VOCABULARY) == []


def test_words_stretched_over_a_pause_are_cut_to_speech() -> None:
    speech = spans((0, 2), (5, 7))
    words = aligned_words(
        (" one", 0.0, 1.0), (" two", 1.0, 4.0), (" three", 4.0, 6.0), (" four", 6.0, 7.5)
    )
    moved = move_into_speech(words, speech)
    assert seconds(moved) == [(" one", 0, 1), (" two", 1, 2), (" three", 5, 6), (" four", 6, 7)]
    assert [word.span for word in moved] == [0, 0, 1, 1]


def test_words_in_silence_move_to_the_nearest_speech() -> None:
    speech = spans((0, 2), (6, 8))
    assert seconds(move_into_speech(aligned_words((" a", 2.2, 2.6)), speech)) == [(" a", 0, 2)]
    assert seconds(move_into_speech(aligned_words((" a", 5.2, 5.6)), speech)) == [(" a", 6, 8)]


def test_words_outside_speech_share_the_time_of_a_neighbour_by_length() -> None:
    speech = spans((10, 14))
    words = aligned_words((" aaa", 8, 9), (" aaa", 9, 14))
    assert seconds(move_into_speech(words, speech)) == [(" aaa", 10, 12), (" aaa", 12, 14)]
    words = aligned_words((" a", 10, 12), (" aaaaa", 15, 16))
    assert seconds(move_into_speech(words, speech)) == [(" a", 10, 10.5), (" aaaaa", 10.5, 12)]


def test_words_share_the_span_if_all_are_outside() -> None:
    speech = spans((10, 14))
    words = aligned_words((" aaa", 15, 16), (" aaa", 16, 17))
    assert seconds(move_into_speech(words, speech)) == [(" aaa", 10, 12), (" aaa", 12, 14)]


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
    moved = move_into_speech(words, speech)
    assert texts(moved) == texts(words)
    for word in moved:
        span = speech[word.span]
        assert span.start <= word.start <= word.end <= span.end
    for word, following in pairwise(moved):
        assert word.end <= following.start
        assert word.span <= following.span


def test_a_long_word_moves_to_the_span_that_it_overlaps_most() -> None:
    moved = move_into_speech(aligned_words((" long", 0, 10)), spans((2, 3), (5, 8)))
    assert seconds(moved) == [(" long", 5, 8)]


def test_words_have_recording_times() -> None:
    tokens = VOCABULARY._tokenizer.encode(" Good morning.", add_special_tokens=False).ids
    assert len(tokens) == 3
    alignment = Alignment(
        np.array([0.0, 1.2, 2.0]), np.array([1.0, 2.0, 2.5]), np.array([0.2, 0.4, 0.9])
    )
    speech = spans((100, 101.5), (111, 112))  # the pause between them is cut out
    [good, morning] = place_words(tokens, alignment, chunk_of(speech, speech), "en", VOCABULARY)
    assert (good.text, good.start, good.end) == (" Good", 1_600_000, 1_624_000)
    assert (good.probability, good.span) == (0.2, 0)
    # by the alignment, both words end half a second before their spans
    assert (morning.text, morning.start, morning.end) == (" morning.", 1_776_000, 1_792_000)
    assert morning.aligned == (19_200, 32_000)
    assert (morning.probability, morning.span) == (0.4, 1)


def test_the_probability_of_a_word_is_the_mean_of_its_tokens() -> None:
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
    [good, morning] = move_into_speech(
        aligned_words((" Good", 10.0, 10.4), (" morning.", 10.4, 10.9)), [span(10, 11, 0.1, 0.1)]
    )
    # VAD_ERROR of each margin is speech
    assert (good.start, good.end) == (to_samples(10.08), to_samples(10.4))
    assert (morning.start, morning.end) == (to_samples(10.4), to_samples(10.92))


def test_at_least_half_of_a_short_span_remains() -> None:
    [yes] = move_into_speech(aligned_words((" Yes.", 10.0, 10.2)), [span(10, 10.2, 0.1, 0.1)])
    assert (yes.start, yes.end) == (to_samples(10.05), to_samples(10.15))


@pytest.mark.parametrize(("end", "expected"), [(10.6, 12.0), (11.5, 12.0), (11.4, 11.4)])
def test_the_last_word_is_extended_to_the_end_of_its_speech(end: float, expected: float) -> None:
    """But not if more than MAX_EXTENSION is missing: that speech belongs to other words."""
    speech = [span(10, 12)] if end > 11 else [span(10, 11), span(11.5, 12)]
    words = aligned_words((" Good", 10.0, 10.3), (" morning.", 10.3, end))
    last = move_into_speech(words, speech)[-1]
    assert last.end == to_samples(expected if end > 11 else 11.0)


def test_a_sentence_stays_together_if_the_vad_takes_music_for_speech() -> None:
    """The alignment stretches "The" over the music in the pause."""
    speech = [span(10, 11), span(15, 15.5), span(20, 21)]
    words = aligned_words((" second.", 10.0, 11.0), (" The", 11.0, 20.4), (" test", 20.4, 20.9))
    moved = move_into_speech(words, speech)
    assert [word.span for word in moved] == [0, 2, 2]
    assert moved[1].start == to_samples(20)
    words = aligned_words((" the", 10.0, 10.4), (" second.", 10.4, 19.8), (" Test", 19.8, 20.9))
    assert [word.span for word in move_into_speech(words, speech)] == [0, 0, 2]


FIRST_TIMESTAMP = VOCABULARY.no_timestamps + 1  # 0.00


def chunk(length: float = 10.0, start: float = 0.0) -> Chunk:
    span = SpeechSpan(to_samples(start), to_samples(start + length))
    return Chunk(0, 0, (span,), (span,), np.zeros(span.length, np.float32))


def tokens(*parts: float | str) -> list[int]:
    """Return timestamp tokens for numbers (seconds) and text tokens for texts."""
    token_ids: list[int] = []
    for part in parts:
        if isinstance(part, str):
            token_ids += VOCABULARY._tokenizer.encode(part, add_special_tokens=False).ids
        else:
            token_ids.append(FIRST_TIMESTAMP + round(part / 0.02))
    return token_ids


def timed(token_ids: list[int], decoded: Chunk) -> list[tuple[str, float, float]]:
    segments = segment_by_timestamps(token_ids, decoded, VOCABULARY)
    return [(text.text, text.start / 16000, text.end / 16000) for text, _ in segments]


def test_timestamp_tokens_delimit_segments() -> None:
    token_ids = tokens(0.0, " One.", 1.5, 2.0, " Two.", 3.02)
    assert timed(token_ids, chunk(start=100)) == [("One.", 100, 101.5), ("Two.", 102, 103.02)]
    assert [part for _, part in segment_by_timestamps(token_ids, chunk(), VOCABULARY)] == [
        tokens(" One."),
        tokens(" Two."),
    ]


def test_text_without_end_timestamp_ends_with_the_chunk() -> None:
    assert timed(tokens(1.0, " One.", 2.0, 3.0, " Two"), chunk()) == [
        ("One.", 1, 2),
        ("Two", 3, 10),
    ]
    assert timed(tokens(" One"), chunk(start=5)) == [("One", 5, 15)]


def test_times_after_the_chunk_become_its_end() -> None:
    assert timed(tokens(9.0, " One.", 12.0), chunk()) == [("One.", 9, 10)]


def test_times_in_added_silence_become_the_ends_of_the_speech() -> None:
    shifted = shift(chunk(start=100), to_samples(0.5))
    assert shifted.start == to_samples(99.5)
    token_ids = tokens(0.1, " One.", 1.5, 2.0, " Two.", 10.9)
    assert timed(token_ids, shifted) == [("One.", 100, 101), ("Two.", 101.5, 110)]
    assert timed(tokens(0.1, " One.", 0.3), shifted) == [("One.", 100, 100)]


def test_an_end_before_its_start_becomes_the_start() -> None:
    assert timed(tokens(4.0, " One.", 2.0), chunk()) == [("One.", 4, 4)]


def test_timestamps_without_text_make_no_segments() -> None:
    assert timed(tokens(0.0, 1.0, 1.0, 30.0), chunk()) == []
    assert timed([], chunk()) == []


def test_timestamps_after_a_shortened_pause() -> None:
    pieces = (SpeechSpan(0, 32_000), SpeechSpan(160_000, 192_000))
    cut = Chunk(0, 0, pieces, pieces, np.zeros(64_000, np.float32))
    assert timed(tokens(0.0, " One.", 1.0, 3.0, " Two.", 4.0), cut) == [
        ("One.", 0, 1),
        ("Two.", 11, 12),
    ]
