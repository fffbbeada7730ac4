"""Chunks decoded again after the text before them."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.unit import world
from tests.unit.world import Call, Heard, World, decode, sentence, text
from whisperbatch.decoding.continuation import PASSAGE, TAIL, History, corrects
from whisperbatch.types import Chunk, SpeechSpan

FIRST = "the caller waits for an agent in this queue"
SECOND = "send the caller on to voicemail please"
SAID = [*sentence(FIRST, 0.0), *sentence(SECOND, 100.0)]
CHUNKS = (world.chunk([(0.0, 3.6)]), world.chunk([(100.0, 102.8)], index=1))


def chunk(index: int, recording: int = 0) -> Chunk:
    span = (SpeechSpan(index * 10, index * 10 + 10),)
    return Chunk(recording, index, span, span, np.zeros(10, np.float32))


def test_a_chunk_waits_for_the_one_before_it() -> None:
    history = History()
    assert history.follow(chunk(0, recording=1), [9]) == ()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(history.follow, chunk(1), [3])
        assert history.follow(chunk(1, recording=1), []) == (9,)
        assert not waiting.done()
        assert history.follow(chunk(0), [1, 2]) == ()
        assert waiting.result(5) == (1, 2)
    assert history.follow(chunk(2), []) == (1, 2, 3)


def test_as_much_is_kept_as_a_context_has_room_for() -> None:
    history = History()
    history.follow(chunk(0), range(TAIL - 2))
    history.follow(chunk(1), [7, 8, 9])
    assert history.follow(chunk(2), []) == (*range(1, TAIL - 2), 7, 8, 9)


def test_a_chunk_that_comes_again_adds_nothing() -> None:
    """One that failed after it had come is skipped like one that failed before."""
    history = History()
    history.follow(chunk(0), [1])
    history.follow(chunk(0), [1])
    assert history.follow(chunk(1), []) == (1,)


def test_a_recording_that_has_ended_is_forgotten() -> None:
    history = History()
    history.follow(chunk(0), [1])
    history.forget(0)
    assert history.follow(chunk(0), [2]) == ()
    assert history.follow(chunk(1), []) == (2,)


@pytest.mark.parametrize(
    ("continued", "mended"),
    [
        ("a b c d e f g h", True),
        ("a b x d e f y h", True),
        ("v w x y z f g h", True),  # PASSAGE words
        ("u v w x y z g h", False),
        ("a b c x y d e f g h", True),
        ("a b c x y z d e f g h", False),
        ("a b f g h", False),
        ("", False),
    ],
)
def test_a_context_mends_words_not_passages(continued: str, mended: bool) -> None:
    assert PASSAGE == 5
    assert corrects(["a", "b", "c", "d", "e", "f", "g", "h"], continued.split()) is mended


def test_a_chunk_is_mended_by_the_text_before_it() -> None:
    engine = World(SAID, mishears)
    found = decode(engine, *CHUNKS, condition_on_previous_text=True)
    assert [text(one) for one in found] == [FIRST, SECOND]
    assert not any(one.redecoded for one in found)  # nothing had failed
    first, second, again = engine.calls
    assert (again.start, again.end) == (second.start, second.end)
    before = engine.tokenizer.decode(list(again.prompt[1 : -len(second.prompt)]))
    assert before.strip() == FIRST
    assert first.prompt == second.prompt
    assert engine.batches == [2]  # nothing is encoded twice
    assert text(decode(World(SAID, mishears), *CHUNKS)[1]) == SECOND.replace("caller", "call")


def test_the_prompt_that_is_given_comes_first() -> None:
    engine = World(SAID)
    decode(engine, *CHUNKS, condition_on_previous_text=True, initial_prompt="Names: Ada")
    given, again = engine.calls[0].prompt, engine.calls[2].prompt
    start = given.index(engine.tokenizer.token_to_id("<|startoftranscript|>"))
    assert again[:start] == given[:start]
    assert engine.tokenizer.decode(list(again[start : -len(given) + start])).strip() == FIRST


def test_a_context_that_is_copied_or_silences_the_model_changes_nothing() -> None:
    for wrong in (FIRST, FIRST + " " + SECOND, "send the caller", ""):

        def copies(call: Call, heard: Sequence[str], wrong: str = wrong) -> Heard:
            return Heard(wrong.split() if has_context(call) else heard)

        found = decode(World(SAID, copies), *CHUNKS, condition_on_previous_text=True)
        assert [text(one) for one in found] == [FIRST, SECOND]
        assert not any(one.omissions for one in found)


def test_nobody_goes_on_from_text_that_failed() -> None:
    def loops(call: Call, heard: Sequence[str]) -> Heard:
        return Heard(["um"] * 150 if call.start == 0 and call.end == 3.6 else heard)

    engine = World(SAID, loops)
    decode(engine, *CHUNKS, condition_on_previous_text=True)
    assert not any(has_context(call) for call in engine.calls)


def mishears(call: Call, heard: Sequence[str]) -> Heard:
    """The word that is also in the context is heard with it alone."""
    if call.start == 100.0 and not has_context(call):
        return Heard([word.replace("caller", "call") for word in heard])
    return Heard(heard)


def has_context(call: Call) -> bool:
    return len(call.prompt) > 4


def test_where_a_given_prompt_leaves_no_room_nothing_is_decoded_twice() -> None:
    engine = World(SAID)
    decode(engine, *CHUNKS, condition_on_previous_text=True, initial_prompt=tuple(range(219)))
    assert len(engine.calls) == len(CHUNKS)
