"""Rows that fail their audit are decoded again, and the better text wins."""

from collections.abc import Sequence
from itertools import product
from random import Random

import numpy as np
import pytest

from tests.unit.fakes import Call, EncodedRow, FakeEngine, multilingual_tokenizer
from tests.unit.synthetic_speech import (
    LATE,
    SPANS,
    SPOKEN,
    TEXT,
    DecodedWords,
    chunk,
    decode,
    segments,
    sentence,
    text,
    word_engine,
)
from whisperbatch.protocols import Alignment, Hypothesis

BORDERS = ("start", "end")


def test_a_row_that_passes_is_decoded_once() -> None:
    engine = word_engine(SPOKEN)
    [result] = decode(engine, chunk(SPANS))
    assert text(result) == TEXT
    assert not result.redecoded
    assert result.omissions == ()
    assert len(engine.calls) == 1


def stops_early(call: Call, words: Sequence[str]) -> DecodedWords:
    """A row longer than 5 s loses its later half, with a high log-probability."""
    return DecodedWords(words if call.end - call.start < 5 else words[: len(words) // 2], -0.1)


def test_a_chunk_with_uncovered_speech_is_split_and_decoded_again() -> None:
    engine = word_engine(SPOKEN, stops_early)
    [result] = decode(engine, chunk(SPANS))
    assert text(result) == TEXT
    assert result.redecoded
    assert result.omissions == ()
    assert [(call.start, call.end) for call in engine.calls] == [(0, 7.2), (4, 7.2), (0, 3.2)]


def test_all_failed_rows_and_no_others_are_decoded_again_together() -> None:
    engine = word_engine(SPOKEN, stops_early)
    short = chunk([(0.0, 3.2)])
    results = decode(engine, chunk(SPANS), short, chunk(SPANS), short)
    assert [result.redecoded for result in results] == [True, False, True, False]
    assert [text(result) for result in results] == [TEXT, TEXT[: TEXT.index(" alpha")]] * 2
    # two window lengths; the later parts; the others
    assert engine.batch_sizes["encode"] == [2, 2, 2, 2]


def test_a_retry_without_improvement_is_not_used() -> None:
    def stops(_: Call, words: Sequence[str]) -> DecodedWords:
        return DecodedWords([word for word in words if word in TEXT[: TEXT.index(" alpha")]])

    engine = word_engine(SPOKEN, stops)
    [result] = decode(engine, chunk(SPANS))
    assert text(result) == "one two three four five six seven eight"
    [omission] = result.omissions
    assert (omission.start, omission.end, omission.text) == (4, 7.2, "")
    assert omission.reason == "missed"
    assert omission.score == pytest.approx(3.2)


def test_speech_that_is_decoded_only_when_it_is_alone_is_isolated() -> None:
    loud = sentence("then the normal voice resumes louder than before", 8.0)
    times = {word.word: word for word in (*SPOKEN, *loud)}
    faint = {word.word for word in LATE}
    tokenizer = multilingual_tokenizer()

    def begin_at_the_loud_voice(call: Call) -> Hypothesis:
        words = [word for word, time in times.items() if call.start <= time.start < call.end]
        clear = [word for word in words if word not in faint] or words
        tokens = tokenizer.encode(f" {' '.join(clear)}", add_special_tokens=False).ids
        return Hypothesis(tuple(tokens), -0.1, 0.01)

    def align(row: EncodedRow, tokens: Sequence[int], _: int) -> Alignment:
        words = tokenizer.decode(list(tokens)).split()
        numbers = np.cumsum([tokenizer.decode([token]).startswith(" ") for token in tokens]) - 1
        spoken = [times[words[number]] for number in numbers]
        starts, ends = ([getattr(word, name) - row.start for word in spoken] for name in BORDERS)
        return Alignment(np.array(starts), np.array(ends), np.full(len(tokens), 0.9))

    engine = FakeEngine(decode=begin_at_the_loud_voice, align=align)
    [result] = decode(engine, chunk([*SPANS, (8.0, 11.2)]))
    assert text(result).split() == list(times)
    assert result.omissions == ()
    parts = sorted((call.start, call.end) for call in engine.calls[-3:])
    assert parts == [(0, 4), (4, 7.2), (7.2, 11.2)]


def test_the_coverage_check_can_be_disabled() -> None:
    engine = word_engine(SPOKEN, stops_early)
    [result] = decode(engine, chunk(SPANS), coverage_threshold=None)
    assert len(engine.calls) == 1
    assert result.omissions == ()


def test_a_chunk_is_split_until_its_parts_pass() -> None:
    words = sentence(" ".join(f"word{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"), 0, 0.5)
    spoken = [word for word in words if round(word.start * 2) % 4 != 3]  # pauses between words
    spans = [(word.start, word.start + 1.5) for word in spoken[::3]]

    def stops_after_six(call: Call, words: Sequence[str]) -> DecodedWords:
        return DecodedWords(words[:6] if call.end - call.start > 4 else words)

    engine = word_engine(spoken, stops_after_six)
    [result] = decode(engine, chunk(spans))
    assert text(result).split() == [word.word for word in spoken]
    assert result.omissions == ()


def test_short_speech_without_text_is_shifted_in_the_window() -> None:
    word = sentence("hello", 2.0)

    def needs_room(call: Call, words: Sequence[str]) -> DecodedWords:
        return DecodedWords(words if call.end - call.start > 1 else [])

    engine = word_engine(word, needs_room)
    [result] = decode(engine, chunk([(2.0, 2.4)]))
    assert text(result) == "hello"
    assert [(call.start, call.end) for call in engine.calls] == [(2.0, 2.4), (1.5, 2.9)]
    [segment] = segments(result)
    assert (segment.start, segment.end) == (2.0, 2.4)


def test_speech_without_text_is_listed_as_missed() -> None:
    engine = word_engine(sentence("hello", 2.0), lambda *_: DecodedWords([]))
    [result] = decode(engine, chunk([(2.0, 2.4)]))
    assert segments(result) == ()
    assert [omission.reason for omission in result.omissions] == ["missed"]


def loops(call: Call, words: Sequence[str]) -> DecodedWords:
    """Greedy search produces a loop."""
    if call.options.beam_size > 1:
        return DecodedWords(words)
    return DecodedWords([*words[:4], *(list(words[2:4]) * 30)])


def test_loops_of_greedy_search_are_decoded_with_beam_search() -> None:
    engine = word_engine(SPOKEN, loops)
    [result] = decode(engine, chunk(SPANS), beam_size=1)
    assert text(result) == TEXT
    assert [call.options.beam_size for call in engine.calls] == [1, 5]
    assert result.omissions == ()


@pytest.mark.parametrize(("alone", "twice"), [(True, 0), (False, 1)])
def test_a_row_is_not_encoded_again_for_each_remedy(alone: bool, twice: int) -> None:
    """An engine that encodes rows one by one stores all outputs; others those of retries."""
    engine = word_engine(SPOKEN[:8], lambda _, words: DecodedWords(words, -1.4))
    engine.encodes_rows_alone = alone
    decode(engine, chunk(SPANS[:1]), temperature=(0.0, 0.2, 0.4), beam_size=1)
    spans = {(call.start, call.end) for call in engine.calls}
    assert len(engine.calls) == len(spans) + 3  # beam search and two temperatures
    assert sum(engine.batch_sizes["encode"]) == len(spans) + twice


def test_a_call_with_more_beams_has_fewer_rows() -> None:
    """Five rows in greedy search need as much memory as one row with five beams."""
    engine = word_engine(SPOKEN, loops)
    results = decode(engine, *[chunk(SPANS)] * 5, beam_size=1, batch_size=5)
    assert [text(result) for result in results] == [TEXT] * 5
    assert engine.batch_sizes["encode"] == [5, 1, 1, 1, 1, 1]
    engine = word_engine(SPOKEN, stops_early)
    decode(engine, *[chunk(SPANS)] * 6, beam_size=5, batch_size=5)
    assert engine.batch_sizes["encode"] == [5, 1] * 3  # parts with as many beams as the chunks


def test_silence_does_not_prevent_retries_of_repetitive_text() -> None:
    def silent(call: Call, words: Sequence[str]) -> DecodedWords:
        result = loops(call, words)
        return DecodedWords(result.words, *((-0.2, 0.0) if result.words == words else (-1.5, 0.99)))

    [result] = decode(word_engine(SPOKEN, silent), chunk(SPANS), beam_size=1)
    assert text(result) == TEXT


def test_text_that_still_repeats_is_decoded_without_repeated_ngrams() -> None:
    def stubborn(call: Call, words: Sequence[str]) -> DecodedWords:
        if call.options.no_repeat_ngram_size:
            return DecodedWords(words)
        return DecodedWords([*words[:4], *(list(words[2:4]) * 30)])

    engine = word_engine(SPOKEN, stubborn)
    [result] = decode(engine, chunk(SPANS))
    assert text(result) == TEXT
    assert engine.calls[-1].options.no_repeat_ngram_size == 4


def test_the_last_strategy_for_improbable_text_is_sampling() -> None:
    def guesses(call: Call, words: Sequence[str]) -> DecodedWords:
        return DecodedWords(
            words, -0.3 if call.sampling and call.sampling.temperature > 0.3 else -1.4
        )

    engine = word_engine(SPOKEN[:8], guesses)
    [result] = decode(engine, chunk(SPANS[:1]), temperature=(0.0, 0.2, 0.4, 0.6))
    assert {segment.temperature for segment in segments(result)} == {0.4}
    temperatures = [call.sampling.temperature for call in engine.calls if call.sampling]
    assert sorted(temperatures) == [0.2, 0.4]
    assert all(call.sampling is None for call in engine.calls[: -len(temperatures)])


def test_sampling_is_seeded_by_the_audio() -> None:
    def seeds(*chunks: int, **options: int) -> list[int]:
        engine = word_engine(SPOKEN)
        decode(engine, *(chunk(SPANS[n : n + 1]) for n in chunks), temperature=0.5, **options)
        return [call.sampling.seed for call in engine.calls if call.sampling]

    first, second = seeds(0, 1)
    assert first != second
    assert seeds(1, 0) == [second, first]
    assert seeds(0, 1, batch_size=1) == [first, second]
    assert seeds(0, seed=1) != [first]


def test_reaching_max_new_tokens_is_no_fault() -> None:
    def limited(call: Call, words: Sequence[str]) -> DecodedWords:
        return DecodedWords(words[: call.options.max_new_tokens])

    engine = word_engine(SPOKEN, limited)
    [result] = decode(engine, chunk(SPANS), max_new_tokens=3)
    assert text(result) == "one two three"
    assert len(engine.calls) == 1


def test_a_split_recovers_text_beyond_the_token_limit() -> None:
    syllables = ["".join(pair) for pair in product("bdfgklmnprst", "aeiou")]
    rng = Random(0)  # noqa: S311 - words, not secrets
    words = ["".join(rng.choices(syllables, k=6)) for _ in range(60)]
    spoken = [*sentence(" ".join(words[:30]), 0.0), *sentence(" ".join(words[30:]), 12.4)]

    def full(_: Call, words: Sequence[str]) -> DecodedWords:
        return DecodedWords(words[:35])  # words of 6 to 8 tokens

    engine = word_engine(spoken, full)
    [result] = decode(engine, chunk([(0.0, 12.0), (12.4, 24.4)]))
    assert text(result).split() == words
    assert result.omissions == ()


def test_short_speech_gets_a_lower_token_limit() -> None:
    """A loop in short speech is decoded again with a quarter or half of Whisper's limit."""

    def keeps_looping(call: Call, words: Sequence[str]) -> DecodedWords:
        if call.options.no_repeat_ngram_size:
            return DecodedWords(words)
        return DecodedWords((["um"] * 200)[: call.options.max_new_tokens])

    engine = word_engine([*sentence("yes", 0.0), *sentence("no it is not", 10.0)], keeps_looping)
    results = decode(engine, chunk([(0.0, 0.4)]), chunk([(10.0, 11.6)]))
    assert [text(result) for result in results] == ["yes", "no it is not"]
    assert [result.redecoded for result in results] == [True, True]
    limits = [(call.start, call.options.max_new_tokens) for call in engine.calls]
    assert limits == [(0.0, None), (10.0, None), (0.0, 56), (10.0, 112)]
    assert engine.batch_sizes["encode"] == [2, 1, 1]


def test_more_tokens_than_the_speech_allows_are_a_fault() -> None:
    """Even without a loop and with a high log-probability."""
    syllables = ["".join(pair) for pair in product("bdfgklmnprst", "aeiou")]

    def adds_syllables(_: Call, words: Sequence[str]) -> DecodedWords:
        return DecodedWords([*words, *syllables])

    [result] = decode(word_engine(sentence("yes", 0.0), adds_syllables), chunk([(0.0, 0.4)]))
    assert text(result) in ("", "yes")
    assert "too fast" in {omission.reason for omission in result.omissions}


SECOND = [*sentence("one two three four five six seven eight", 10.0), *sentence(TEXT[40:], 14.0)]
SECOND_SPANS = [(10.0, 13.2), (14.0, 17.2)]


def loops_or_stops(call: Call, words: Sequence[str]) -> DecodedWords:
    """The first chunk loops with every beam, the second loses its later half; parts are right."""
    if call.end - call.start < 5:
        return DecodedWords(words)
    looping = [*words[:4], *(list(words[2:4]) * 30)]
    return DecodedWords(looping if call.start < 10 else words[: len(words) // 2], -0.1)


def test_chunks_with_different_strategies_are_retried_at_the_same_time() -> None:
    """The first chunk is split after a wider beam, the second at once."""
    engine = word_engine([*SPOKEN, *SECOND], loops_or_stops)
    results = decode(engine, chunk(SPANS), chunk(SECOND_SPANS), beam_size=1)
    assert [result.omissions for result in results] == [(), ()]
    assert [result.redecoded for result in results] == [True, True]
    assert engine.batch_sizes["decode"] == [2, 1, 1, 2, 1]  # both; the beam; parts


def test_the_retries_of_a_chunk_do_not_depend_on_other_chunks() -> None:
    chunks = [chunk(SPANS), chunk(SECOND_SPANS)]
    together = word_engine([*SPOKEN, *SECOND], loops_or_stops)
    texts = [text(result) for result in decode(together, *chunks, beam_size=1)]
    for number, single in enumerate(chunks):
        alone = word_engine([*SPOKEN, *SECOND], loops_or_stops)
        [result] = decode(alone, single, beam_size=1)
        assert text(result) == texts[number]
        calls = {(call.start, call.end, call.options) for call in alone.calls}
        assert calls <= {(call.start, call.end, call.options) for call in together.calls}
