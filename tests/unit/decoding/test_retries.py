"""Rows that fail their audit are decoded again, and the better text wins."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest

from tests.unit.fakes import Call, EncodedRow, FakeEngine, multilingual_tokenizer
from tests.unit.synthetic_speech import (
    EARLY,
    LATE,
    SPANS,
    SPOKEN,
    TEXT,
    DecodedWords,
    chunk,
    decode,
    rows,
    segments,
    sentence,
    text,
    word_engine,
)
from whisperbatch.decoding.audit import DecodedRow
from whisperbatch.decoding.retries import least_cost, without_doubtful_text
from whisperbatch.options import Options
from whisperbatch.protocols import Alignment, Hypothesis
from whisperbatch.segmentation.timed_text import AlignedWord, join_words
from whisperbatch.types import to_samples

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


def test_on_a_gpu_the_parts_of_a_retry_are_decoded_in_one_call() -> None:
    """The text is the same."""
    steps = []
    for on_gpu in (False, True):
        engine = word_engine(SPOKEN, stops_early)
        [result] = decode(engine, chunk(SPANS), on_gpu=on_gpu)
        assert text(result) == TEXT
        steps.append(engine.batch_sizes["decode"])
    assert steps == [[1, 1, 1], [1, 2]]


def test_parts_that_are_decoded_at_once_change_no_decision() -> None:
    """Of a strategy that cannot help, the other parts are decoded in vain."""

    def lost(call: Call, words: Sequence[str]) -> DecodedWords:
        random = Random(repr((call.start, call.end)))  # noqa: S311 - no cryptography
        kept = [word for word in words if random.random() < 0.7]
        return DecodedWords(kept, random.uniform(-1.5, -0.1))

    results = [
        decode(word_engine(SPOKEN, lost), chunk(SPANS), on_gpu=on_gpu) for on_gpu in (False, True)
    ]
    assert segments(results[0][0]) == segments(results[1][0])
    assert results[0][0].omissions == results[1][0].omissions


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


SENTENCE = "please enter the number of the person you would like to call followed by the pound key"


def decoded_row(words: str) -> DecodedRow:
    """A row whose words fill its speech at a normal rate."""
    spoken = sentence(words)
    aligned = []
    for word in spoken:
        times = to_samples(word.start), to_samples(word.end)
        aligned.append(AlignedWord(f" {word.word}", *times, 0.9, 0, aligned=times))
    [row] = rows(chunk([(0.0, spoken[-1].end)]))
    texts = (join_words(aligned),)
    return DecodedRow(row, "en", Hypothesis((), -0.1, 0.01), f" {words}", texts, Options())


@pytest.mark.parametrize(
    ("words", "repetitive"),
    [
        (SENTENCE, False),
        (f"no no no no no {SENTENCE}", False),
        (f"{SENTENCE} {'ten ' * 16}", True),
        (f"{SENTENCE} {'one of the ' * 8}", True),
    ],
)
def test_a_short_loop_in_a_long_text_is_repetitive(words: str, repetitive: bool) -> None:
    """The loops are too short for the compression ratio of the whole text (at most 2.1)."""
    row = decoded_row(words.strip())
    assert row.compression_ratio < 2.4
    assert row.audit.repetitive == repetitive
    assert not replace(row, options=Options(compression_ratio_threshold=None)).audit.repetitive


@pytest.mark.parametrize(
    ("words", "avg_logprob", "text_costs_less"),
    [
        (SENTENCE, -0.1, True),
        (SENTENCE, -1.5, True),  # improbable text costs half of its speech
        (f"{SENTENCE} {'ten ' * 40}".strip(), -1.5, False),
    ],
)
def test_the_least_cost_is_the_cost_with_or_without_doubtful_text(
    words: str, avg_logprob: float, text_costs_less: bool
) -> None:
    row = decoded_row(words)
    row = replace(row, hypothesis=replace(row.hypothesis, avg_logprob=avg_logprob))
    silent = without_doubtful_text(row)
    assert bool(silent.words) == (avg_logprob == -0.1)
    costs = [each.audit.cost for each in (row, silent)]
    assert least_cost(row) == min(costs)
    assert (costs[0] <= costs[1]) == text_costs_less


@pytest.mark.parametrize(("doubt", "used"), [(1.05, True), (1.2, False)])
def test_text_before_a_word_that_the_alignment_stretches_is_new(doubt: float, used: bool) -> None:
    """A noise precedes a sentence, and the alignment begins the first word in the noise.

    The first half of the noise seems to be covered by this word, so that the time of the words
    does not say that its text is new.
    """
    tokenizer = multilingual_tokenizer()

    def words_in(row: EncodedRow) -> list[str]:
        return [word.word for word in LATE if row.start <= word.start < row.end]

    def decode_words(call: Call) -> Hypothesis:
        words = words_in(call.row)
        spoken = "".join(f" {word}" for word in words or ["what"])
        tokens = tuple(tokenizer.encode(spoken, add_special_tokens=False).ids)
        scores = (-0.1, 0.01) if words else (-0.9, doubt - 0.9)
        return Hypothesis(tokens, *scores)

    def align(row: EncodedRow, tokens: Sequence[int], _: int) -> Alignment:
        numbers = np.cumsum([tokenizer.decode([token]).startswith(" ") for token in tokens]) - 1
        starts = np.array([LATE[number].start - row.start for number in numbers])
        ends = np.array([LATE[number].end - row.start for number in numbers])
        if not words_in(row):
            return Alignment(np.zeros(len(tokens)), np.ones(len(tokens)), np.ones(len(tokens)))
        starts[numbers == 0] = 0.5 if row.start < 0.5 else 0.0
        return Alignment(starts, ends, np.full(len(tokens), 0.9))

    engine = FakeEngine(decode=decode_words, align=align)
    [result] = decode(engine, chunk([(0.0, 7.2)]))
    words = text(result).split()
    assert words[-len(LATE) :] == [word.word for word in LATE]
    assert ("what" in words) == used


def test_a_split_that_frees_speech_from_a_loop_is_used() -> None:
    """The loop of the part is longer than the loop of the whole row."""

    def loops_with_the_first_word(call: Call, words: Sequence[str]) -> DecodedWords:
        if words[0] != "one":
            return DecodedWords(words)
        return DecodedWords([*words[:4], *(["um"] * (60 if len(words) > len(LATE) else 200))])

    [result] = decode(word_engine(SPOKEN, loops_with_the_first_word), chunk(SPANS))
    assert text(result).endswith(" ".join(word.word for word in LATE))


ANNOUNCEMENT = "please hold the line you are next"
STARTS = (0.0, 4.0, 8.0, 12.0)
PHRASES = [word for start in STARTS for word in sentence(ANNOUNCEMENT, start)]
PHRASE_SPANS = [(start, start + 2.8) for start in STARTS]


@pytest.mark.parametrize(
    ("avg_logprob", "no_speech_prob", "options", "used"),
    [
        (-0.9, 0.1, {}, True),
        (-0.9, 0.3, {}, False),
        (-0.5, 0.5, {}, True),
        (-0.5, 0.7, {}, False),
        (-0.9, 0.3, {"log_prob_threshold": -1.2}, True),
        (-0.9, 0.3, {"no_speech_threshold": 0.9}, True),
        (-0.9, 0.3, {"log_prob_threshold": None}, True),
        (-0.9, 0.3, {"no_speech_threshold": None}, True),
    ],
)
def test_new_text_for_speech_without_text_must_be_probable(
    avg_logprob: float, no_speech_prob: float, options: dict[str, float | None], used: bool
) -> None:
    """The later half has no text at first."""

    def later_half_alone(call: Call, words: Sequence[str]) -> DecodedWords:
        if call.start >= 3.5:
            return DecodedWords(words, avg_logprob, no_speech_prob)
        return DecodedWords(words[: len(EARLY)])

    [result] = decode(word_engine(SPOKEN, later_half_alone), chunk(SPANS), **options)
    early = " ".join(word.word for word in EARLY)
    assert text(result) == (TEXT if used else early)
    assert [omission.reason for omission in result.omissions] == ([] if used else ["missed"])


def test_improbable_text_for_speech_that_had_text_stays() -> None:
    """A split that adds no new text needs no higher probability: the audit alone compares."""

    def repeats(call: Call, words: Sequence[str]) -> DecodedWords:
        whole = call.end - call.start > 5
        return DecodedWords([*words, *words, *words] if whole else words, -0.2 if whole else -0.9)

    [result] = decode(word_engine(SPOKEN, repeats), chunk(SPANS))
    assert text(result) == TEXT


def is_one_phrase(call: Call) -> bool:
    return call.end - call.start < 4


def test_a_repeated_announcement_is_kept_as_often_as_it_is_spoken() -> None:
    """With several announcements in a row, the text repeats more often than the speech."""

    def loops(call: Call, words: Sequence[str]) -> DecodedWords:
        return DecodedWords(words if is_one_phrase(call) else ANNOUNCEMENT.split() * 12)

    [result] = decode(word_engine(PHRASES, loops), chunk(PHRASE_SPANS))
    assert text(result) == " ".join([ANNOUNCEMENT] * 4)
    assert result.omissions == ()


def test_several_voices_that_are_only_decoded_alone_are_decoded_alone() -> None:
    def empty(call: Call, words: Sequence[str]) -> DecodedWords:
        return DecodedWords(words if is_one_phrase(call) else ())

    [result] = decode(word_engine(PHRASES, empty), chunk(PHRASE_SPANS))
    assert text(result) == " ".join([ANNOUNCEMENT] * 4)
    assert result.omissions == ()


def test_speech_with_text_stays_together_when_other_speech_is_decoded_in_pieces() -> None:
    """The first two phrases have text; the last two are decoded only if each is alone."""

    def early_only(call: Call, words: Sequence[str]) -> DecodedWords:
        if is_one_phrase(call) and call.start >= 7:
            return DecodedWords(words)
        return DecodedWords(words[:14] if call.start < 7 else ())

    engine = word_engine(PHRASES, early_only)
    [result] = decode(engine, chunk(PHRASE_SPANS))
    assert [round(segment.start) for segment in segments(result)] == [0, 4, 8, 12]
    assert result.omissions == ()


def test_pieces_are_not_divided_again() -> None:
    engine = word_engine(PHRASES, lambda *_: DecodedWords(()))
    [result] = decode(engine, chunk(PHRASE_SPANS))
    assert [omission.reason for omission in result.omissions] == ["missed"]
    assert len(engine.calls) <= 15
