"""Text that a retry adds must be probable; loops, short or long, do not hide speech."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.fakes import Call, EncodedRow, FakeEngine, multilingual_tokenizer
from tests.unit.synthetic_speech import (
    LATE,
    SPANS,
    SPOKEN,
    DecodedWords,
    chunk,
    decode,
    rows,
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
