"""What fails is decoded again, what passes is not; and the better text wins."""

from collections.abc import Sequence
from itertools import product
from random import Random

import pytest

from tests.unit.world import Call, Heard, World, chunk, decode, sentence, text
from whisperbatch.types import Reason

EARLY = sentence("one two three four five six seven eight", 0.0)
LATE = sentence("alpha bravo charlie delta echo foxtrot golf hotel", 4.0)
SAID = [*EARLY, *LATE]
SPOKEN = [(0.0, 3.2), (4.0, 7.2)]
ALL = " ".join(one.word for one in SAID)


def reasons(found: Sequence[object]) -> list[Reason]:
    return [one.reason for one in found]  # type: ignore[attr-defined]


def test_what_passes_is_decoded_once() -> None:
    engine = World(SAID)
    [found] = decode(engine, chunk(SPOKEN))
    assert text(found) == ALL
    assert not found.redecoded
    assert found.omissions == ()
    assert len(engine.calls) == 1


def stops_early(call: Call, words: Sequence[str]) -> Heard:
    """A row longer than 5 s loses its later half, at a perfectly good log-probability."""
    return Heard(words if call.end - call.start < 5 else words[: len(words) // 2], -0.1)


def test_speech_without_words_is_cut_out_and_decoded_again() -> None:
    engine = World(SAID, stops_early)
    [found] = decode(engine, chunk(SPOKEN))
    assert text(found) == ALL
    assert found.redecoded
    assert found.omissions == ()
    assert [(call.start, call.end) for call in engine.calls] == [(0, 7.2), (0, 3.2), (4, 7.2)]


def test_only_failed_rows_are_decoded_again_and_all_of_them_together() -> None:
    engine = World(SAID, stops_early)
    short = chunk([(0.0, 3.2)])
    found = decode(engine, chunk(SPOKEN), short, chunk(SPOKEN), short)
    assert [one.redecoded for one in found] == [True, False, True, False]
    assert [text(one) for one in found] == [ALL, ALL[: ALL.index(" alpha")]] * 2
    assert engine.batches == [2, 2, 4]  # of two lengths, then all parts are of one


def test_a_retry_that_mends_nothing_is_not_taken() -> None:
    def deaf(_: Call, words: Sequence[str]) -> Heard:
        return Heard([word for word in words if word in ALL[: ALL.index(" alpha")]])

    engine = World(SAID, deaf)
    [found] = decode(engine, chunk(SPOKEN))
    assert text(found) == "one two three four five six seven eight"
    assert [(d.start, d.end, d.reason, d.text) for d in found.omissions] == [(4, 7.2, "missed", "")]
    assert found.omissions[0].score == pytest.approx(3.2)


def test_coverage_can_be_left_unchecked() -> None:
    engine = World(SAID, stops_early)
    [found] = decode(engine, chunk(SPOKEN), coverage_threshold=None)
    assert len(engine.calls) == 1
    assert found.omissions == ()


def test_a_chunk_is_cut_until_its_parts_are_sound() -> None:
    words = sentence(" ".join(f"word{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"), 0, 0.5)
    said = [one for one in words if round(one.start * 2) % 4 != 3]  # pauses to cut at
    spans = [(one.start, one.start + 1.5) for one in said[::3]]

    def tires(call: Call, heard: Sequence[str]) -> Heard:
        return Heard(heard[:6] if call.end - call.start > 4 else heard)

    engine = World(said, tires)
    [found] = decode(engine, chunk(spans))
    assert text(found).split() == [one.word for one in said]
    assert found.omissions == ()


def test_speech_that_gives_no_text_is_tried_elsewhere_in_the_window() -> None:
    word = sentence("hello", 2.0)

    def needs_room(call: Call, words: Sequence[str]) -> Heard:
        return Heard(words if call.end - call.start > 1 else [])

    engine = World(word, needs_room)
    [found] = decode(engine, chunk([(2.0, 2.4)]))
    assert text(found) == "hello"
    assert [(call.start, call.end) for call in engine.calls] == [(2.0, 2.4), (1.5, 2.9)]
    [segment] = found.segments
    assert (segment.start, segment.end) == (2.0, 2.4)


def test_speech_that_gives_no_text_at_all_is_listed() -> None:
    engine = World(sentence("hello", 2.0), lambda *_: Heard([]))
    [found] = decode(engine, chunk([(2.0, 2.4)]))
    assert found.segments == ()
    assert reasons(found.omissions) == ["missed"]


def loops(call: Call, words: Sequence[str]) -> Heard:
    """Greedy search loops."""
    if call.options.beam_size > 1:
        return Heard(words)
    return Heard([*words[:4], *(list(words[2:4]) * 30)])


def test_loops_are_decoded_with_beams() -> None:
    engine = World(SAID, loops)
    [found] = decode(engine, chunk(SPOKEN), beam_size=1)
    assert text(found) == ALL
    assert [call.options.beam_size for call in engine.calls] == [1, 5]
    assert found.omissions == ()


def test_more_beams_are_for_fewer_rows() -> None:
    """A batch of five rows in greedy search has the room of one row of five beams."""
    engine = World(SAID, loops)
    found = decode(engine, *[chunk(SPOKEN)] * 5, beam_size=1, batch_size=5)
    assert [text(one) for one in found] == [ALL] * 5
    assert engine.batches == [5, 1, 1, 1, 1, 1]
    engine = World(SAID, stops_early)
    decode(engine, *[chunk(SPOKEN)] * 3, beam_size=5, batch_size=5)
    assert engine.batches == [3, 5, 1]  # six halves, of as many beams as before


def test_silence_does_not_cancel_the_retry_for_repetition() -> None:
    def silent(call: Call, words: Sequence[str]) -> Heard:
        heard = loops(call, words)
        return Heard(heard.words, *((-0.2, 0.0) if heard.words == words else (-1.5, 0.99)))

    [found] = decode(World(SAID, silent), chunk(SPOKEN), beam_size=1)
    assert text(found) == ALL


def test_what_still_repeats_is_decoded_without_repetition() -> None:
    def stubborn(call: Call, words: Sequence[str]) -> Heard:
        if call.options.no_repeat_ngram_size:
            return Heard(words)
        return Heard([*words[:4], *(list(words[2:4]) * 30)])

    engine = World(SAID, stubborn)
    [found] = decode(engine, chunk(SPOKEN))
    assert text(found) == ALL
    assert engine.calls[-1].options.no_repeat_ngram_size == 4


def test_improbable_text_is_sampled_last_at_the_next_temperature() -> None:
    def guesses(call: Call, words: Sequence[str]) -> Heard:
        return Heard(words, -0.3 if call.sampling and call.sampling.temperature > 0.3 else -1.4)

    engine = World(SAID[:8], guesses)
    [found] = decode(engine, chunk(SPOKEN[:1]), temperature=(0.0, 0.2, 0.4, 0.6))
    assert {segment.temperature for segment in found.segments} == {0.4}
    sampled = [call.sampling.temperature for call in engine.calls if call.sampling]
    assert sorted(sampled) == [0.2, 0.4]
    assert all(call.sampling is None for call in engine.calls[: -len(sampled)])


def test_a_sample_is_seeded_by_what_is_sampled() -> None:
    def seeds(*chunks: int, **options: int) -> list[int]:
        engine = World(SAID)
        decode(engine, *(chunk(SPOKEN[n : n + 1]) for n in chunks), temperature=0.5, **options)
        return [call.sampling.seed for call in engine.calls if call.sampling]

    first, second = seeds(0, 1)
    assert first != second
    assert seeds(1, 0) == [second, first]
    assert seeds(0, 1, batch_size=1) == [first, second]
    assert seeds(0, seed=1) != [first]


def test_a_limit_of_tokens_is_no_fault() -> None:
    def limited(call: Call, words: Sequence[str]) -> Heard:
        return Heard(words[: call.options.max_new_tokens])

    engine = World(SAID, limited)
    [found] = decode(engine, chunk(SPOKEN), max_new_tokens=3)
    assert text(found) == "one two three"
    assert len(engine.calls) == 1


def test_text_beyond_the_limit_of_tokens_is_found_by_cutting() -> None:
    syllables = ["".join(pair) for pair in product("bdfgklmnprst", "aeiou")]
    rng = Random(0)  # noqa: S311 - words, not secrets
    words = ["".join(rng.choices(syllables, k=6)) for _ in range(60)]
    said = [*sentence(" ".join(words[:30]), 0.0), *sentence(" ".join(words[30:]), 12.4)]

    def full(_: Call, heard: Sequence[str]) -> Heard:
        return Heard(heard[:35])  # of 6 to 8 tokens each

    engine = World(said, full)
    [found] = decode(engine, chunk([(0.0, 12.0), (12.4, 24.4)]))
    assert text(found).split() == words
    assert found.omissions == ()


def test_little_speech_has_few_tokens() -> None:
    """What loops in it is decoded again with a quarter or half of the limit."""

    def loops_on(call: Call, words: Sequence[str]) -> Heard:
        if call.options.no_repeat_ngram_size:
            return Heard(words)
        return Heard((["um"] * 200)[: call.options.max_new_tokens])

    engine = World([*sentence("yes", 0.0), *sentence("no it is not", 10.0)], loops_on)
    found = decode(engine, chunk([(0.0, 0.4)]), chunk([(10.0, 11.6)]))
    assert [text(one) for one in found] == ["yes", "no it is not"]
    assert [one.redecoded for one in found] == [True, True]
    limits = [(call.start, call.options.max_new_tokens) for call in engine.calls]
    assert limits == [(0.0, None), (10.0, None), (0.0, 56), (10.0, 112)]
    assert engine.batches == [2, 1, 1]


def test_more_tokens_than_speech_can_have_are_a_failure() -> None:
    """Whatever they say: no loop, and no log-probability, need show it."""
    syllables = ["".join(pair) for pair in product("bdfgklmnprst", "aeiou")]

    def raves(_: Call, words: Sequence[str]) -> Heard:
        return Heard([*words, *syllables])

    [found] = decode(World(sentence("yes", 0.0), raves), chunk([(0.0, 0.4)]))
    assert text(found) in ("", "yes")
    assert "too fast" in {one.reason for one in found.omissions}
