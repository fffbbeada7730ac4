"""Prompts: their tokens, the previous text as context, and prompts that leak into the text."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.unit import synthetic_speech
from tests.unit.fakes import Call, FakeEngine, multilingual_tokenizer
from tests.unit.synthetic_speech import DecodedWords, decode, sentence, text, word_engine
from whisperbatch import OptionError, Options
from whisperbatch.decoding.chunk_decoder import ChunkDecoder
from whisperbatch.decoding.engine_options import options_for
from whisperbatch.decoding.hallucinations import leaked_words, suspicious_words
from whisperbatch.decoding.prompts import (
    MAX_CHANGED_WORDS,
    MAX_CONTEXT,
    NO_CONTEXT,
    Context,
    Prompts,
    WhisperTokenizer,
    advance,
    only_corrects_words,
    with_end_of_prompt,
)
from whisperbatch.errors import EngineError
from whisperbatch.recording import RecordingState

VOCABULARY = WhisperTokenizer(multilingual_tokenizer(), multilingual=True)
START = VOCABULARY.start_of_previous


def ids(text: str) -> tuple[int, ...]:
    return tuple(VOCABULARY.encode(text))


def test_without_options_there_is_no_context() -> None:
    assert Prompts(Options(), VOCABULARY).context(first=True) == NO_CONTEXT


def test_hotwords_come_before_the_initial_prompt() -> None:
    prompts = Prompts(Options(hotwords="Istio", initial_prompt="A talk."), VOCABULARY)
    assert prompts.context() == Context((START, *ids("Istio"), *ids("A talk.")))


def test_only_the_first_row_has_the_prefix() -> None:
    prompts = Prompts(Options(prefix="Good morning"), VOCABULARY)
    assert prompts.context(first=True) == Context(prefix=ids("Good morning"))
    assert prompts.context() == NO_CONTEXT


def test_previous_text_is_cut_to_the_tokens_that_fit() -> None:
    prompts = Prompts(Options(initial_prompt="A talk.", prefix="Well"), VOCABULARY)
    context = prompts.context(range(1000))
    assert context.before[:4] == (START, *ids("A talk."))
    assert context.before[-1] == 999
    assert len(context.before) + 4 + len(ids("Well")) == 224


def test_prompts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(OptionError, match=r"initial_prompt: \d+ tokens, but only 219 fit"):
        Prompts(Options(initial_prompt="word " * 300), VOCABULARY)
    with pytest.raises(OptionError, match="hotwords and prefix"):
        Prompts(Options(hotwords="word " * 150, prefix="word " * 150), VOCABULARY)
    with pytest.raises(OptionError, match=r"initial_prompt: 50257 is not a text token"):
        Prompts(Options(initial_prompt=(5, 50257)), VOCABULARY)
    full = Prompts(Options(initial_prompt=tuple(range(219))), VOCABULARY)
    assert full.context([7]).before == (START, *range(219))


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


PROMPT = ["kubernetes", "istio", "and", "envoy", "today"]


def test_a_run_of_the_prompts_words_is_suspicious() -> None:
    words = ["so", "kubernetes", "istio", "and", "envoy", "run"]
    assert suspicious_words(words, PROMPT) == [1, 2, 3, 4]


def test_single_words_of_the_prompt_are_not_suspicious() -> None:
    words = ["we", "talk", "of", "kubernetes", "and", "of", "envoy", "today"]
    assert suspicious_words(words, PROMPT) == []
    assert suspicious_words(["istio", "and", "kubernetes"], PROMPT) == []


def test_a_short_text_is_suspicious_if_all_its_words_are_from_the_prompt() -> None:
    assert suspicious_words(["envoy"], PROMPT) == [0]
    assert suspicious_words(["istio", "and"], PROMPT) == [0, 1]
    assert suspicious_words(["of", "envoy"], PROMPT) == []


def test_empty_texts_and_prompts_are_not_suspicious() -> None:
    assert suspicious_words([], PROMPT) == []
    assert suspicious_words(["envoy"], []) == []


def test_words_that_disappear_without_the_prompt_are_leaked() -> None:
    words = ["kubernetes", "istio", "and", "envoy", "so", "we", "begin"]
    suspicious = suspicious_words(words, PROMPT)
    assert leaked_words(words, ["so", "we", "begin"], suspicious) == [0, 1, 2, 3]
    assert leaked_words(words, [], suspicious) == [0, 1, 2, 3]


def test_words_that_are_only_spelled_differently_are_not_leaked() -> None:
    words = ["we", "use", "kubernetes", "istio", "and", "envoy", "here"]
    without_prompt = ["we", "use", "cooper", "netties", "easter", "and", "on", "void", "here"]
    assert leaked_words(words, without_prompt, suspicious_words(words, PROMPT)) == []


def test_only_suspicious_words_are_leaked() -> None:
    words = ["hello", "kubernetes", "istio", "and", "envoy", "hello", "we", "begin"]
    suspicious = suspicious_words(words, PROMPT)
    assert leaked_words(words, ["we", "begin"], suspicious) == [1, 2, 3, 4]


def test_the_end_of_a_prompt_fits() -> None:
    engine = FakeEngine()
    words = [f"number {index}." for index in range(200)]
    long = Options(initial_prompt=" ".join(words), hotwords="Istio", prefix="Well")
    fitting = with_end_of_prompt(long, engine)
    vocabulary = WhisperTokenizer(engine.tokenizer, multilingual=True)
    others = len(vocabulary.encode("Istio")) + len(vocabulary.encode("Well"))
    assert fitting == replace(
        long, initial_prompt=tuple(vocabulary.encode(" ".join(words))[others - 219 :])
    )
    Prompts(fitting, vocabulary)
    as_tokens = Options(initial_prompt=tuple(range(300)))
    assert with_end_of_prompt(as_tokens, engine).initial_prompt == tuple(range(81, 300))
    for options in (
        Options(),
        Options(initial_prompt="A talk."),
        Options(initial_prompt=tuple(range(219))),
        Options(initial_prompt="A talk.", hotwords="word " * 300),  # refused by `Prompts`
    ):
        assert with_end_of_prompt(options, engine) is options
