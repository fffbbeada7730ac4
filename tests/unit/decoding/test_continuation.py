"""The second pass: chunks are decoded again with the previous text as context."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.unit import synthetic_speech
from tests.unit.fakes import Call
from tests.unit.synthetic_speech import DecodedWords, decode, sentence, text, word_engine
from whisperbatch.decoding.chunk_decoder import ChunkDecoder
from whisperbatch.decoding.engine_options import options_for
from whisperbatch.decoding.prompts import (
    MAX_CHANGED_WORDS,
    MAX_CONTEXT,
    advance,
    only_corrects_words,
)
from whisperbatch.errors import EngineError
from whisperbatch.options import Options
from whisperbatch.recording import RecordingState

FIRST = "the caller waits for an agent in this queue"
SECOND = "send the caller on to voicemail please"
SPOKEN = [*sentence(FIRST, 0.0), *sentence(SECOND, 100.0)]
CHUNKS = (synthetic_speech.chunk([(0.0, 3.6)]), synthetic_speech.chunk([(100.0, 102.8)], index=1))


def test_a_chunk_waits_for_the_previous_chunk_of_its_recording() -> None:
    first, second = RecordingState(0), RecordingState(1)
    assert advance(second, 0, [9]) == ()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(advance, first, 1, [3])
        assert advance(second, 1, []) == (9,)
        assert not waiting.done()
        assert advance(first, 0, [1, 2]) == ()
        assert waiting.result(5) == (1, 2)
    assert advance(first, 2, []) == (1, 2, 3)


def test_no_chunk_waits_after_a_failure() -> None:
    """The chunks after a chunk that fails are decoded without its text."""

    def fails(call: Call, words: Sequence[str]) -> DecodedWords:
        if call.start == 0:
            raise EngineError("out of memory")
        return DecodedWords(words)

    later = tuple(synthetic_speech.chunk([(100.0, 102.8)], index=index) for index in (1, 2))
    rows = [replace(row, language="en") for row in synthetic_speech.rows(CHUNKS[0], *later)]
    given = Options(language="en", speech_pad=0.0, condition_on_previous_text=True)
    engine = word_engine(SPOKEN, fails)
    options = options_for(engine, given)
    decoder = ChunkDecoder(
        synthetic_speech.shared_model(engine, options), synthetic_speech.RampExtractor(), options
    )
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(decoder, row) for row in rows[1:]]
        time.sleep(0.05)
        assert not any(future.done() for future in waiting)
        with pytest.raises(EngineError, match="out of memory"):
            decoder(rows[0])
        assert [text(future.result(5)) for future in waiting] == [SECOND, SECOND]
    first, second, again = (call for call in engine.calls if call.start == 100.0)
    assert not has_context(first)
    assert not has_context(second)
    assert engine.tokenizer.decode(list(again.prompt[1 : -len(first.prompt)])).strip() == SECOND


def test_history_keeps_the_last_tokens_up_to_the_maximum() -> None:
    recording = RecordingState(0)
    advance(recording, 0, range(MAX_CONTEXT - 2))
    advance(recording, 1, [7, 8, 9])
    assert advance(recording, 2, []) == (*range(1, MAX_CONTEXT - 2), 7, 8, 9)


def test_a_chunk_adds_its_tokens_only_once() -> None:
    """A chunk that fails after it has added its tokens is also skipped."""
    recording = RecordingState(0)
    advance(recording, 0, [1])
    advance(recording, 0, [1])
    assert advance(recording, 1, []) == (1,)


@pytest.mark.parametrize(
    ("with_context", "accepted"),
    [
        ("a b c d e f g h", True),
        ("a b x d e f y h", True),
        ("v w x y z f g h", True),  # MAX_CHANGED_WORDS
        ("u v w x y z g h", False),
        ("a b c x y d e f g h", True),
        ("a b c x y z d e f g h", False),
        ("a b f g h", False),
        ("", False),
    ],
)
def test_a_context_may_correct_words_but_not_passages(with_context: str, accepted: bool) -> None:
    assert MAX_CHANGED_WORDS == 5
    without_context = ["a", "b", "c", "d", "e", "f", "g", "h"]
    assert only_corrects_words(without_context, with_context.split()) is accepted


def test_the_previous_text_corrects_a_word() -> None:
    engine = word_engine(SPOKEN, mishears)
    results = decode(engine, *CHUNKS, condition_on_previous_text=True)
    assert [text(result) for result in results] == [FIRST, SECOND]
    assert not any(result.redecoded for result in results)  # no row failed its audit
    first, second, again = engine.calls
    assert (again.start, again.end) == (second.start, second.end)
    before = engine.tokenizer.decode(list(again.prompt[1 : -len(second.prompt)]))
    assert before.strip() == FIRST
    assert first.prompt == second.prompt
    assert engine.batch_sizes["encode"] == [2]  # nothing is encoded twice
    assert text(decode(word_engine(SPOKEN, mishears), *CHUNKS)[1]) == SECOND.replace(
        "caller", "call"
    )


def test_the_initial_prompt_comes_before_the_previous_text() -> None:
    engine = word_engine(SPOKEN)
    decode(engine, *CHUNKS, condition_on_previous_text=True, initial_prompt="Names: Ada")
    first, second = engine.calls[0].prompt, engine.calls[2].prompt
    start = first.index(engine.tokenizer.token_to_id("<|startoftranscript|>"))
    assert second[:start] == first[:start]
    assert engine.tokenizer.decode(list(second[start : -len(first) + start])).strip() == FIRST


def test_text_that_copies_the_context_or_drops_speech_is_not_used() -> None:
    for wrong in (FIRST, FIRST + " " + SECOND, "send the caller", ""):

        def copies(call: Call, words: Sequence[str], wrong: str = wrong) -> DecodedWords:
            return DecodedWords(wrong.split() if has_context(call) else words)

        results = decode(word_engine(SPOKEN, copies), *CHUNKS, condition_on_previous_text=True)
        assert [text(result) for result in results] == [FIRST, SECOND]
        assert not any(result.omissions for result in results)


def test_text_that_failed_its_audit_is_never_used_as_context() -> None:
    def loops(call: Call, words: Sequence[str]) -> DecodedWords:
        return DecodedWords(["um"] * 150 if call.start == 0 and call.end == 3.6 else words)

    engine = word_engine(SPOKEN, loops)
    decode(engine, *CHUNKS, condition_on_previous_text=True)
    assert not any(has_context(call) for call in engine.calls)


def mishears(call: Call, words: Sequence[str]) -> DecodedWords:
    """Without context, the engine makes an error in a word that the context contains."""
    if call.start == 100.0 and not has_context(call):
        return DecodedWords([word.replace("caller", "call") for word in words])
    return DecodedWords(words)


def has_context(call: Call) -> bool:
    return len(call.prompt) > 4


def test_without_room_for_previous_text_there_is_no_second_pass() -> None:
    engine = word_engine(SPOKEN)
    decode(engine, *CHUNKS, condition_on_previous_text=True, initial_prompt=tuple(range(219)))
    assert len(engine.calls) == len(CHUNKS)
