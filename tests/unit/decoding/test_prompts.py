from dataclasses import replace

import pytest

from tests.unit.fakes import FakeEngine, multilingual_tokenizer
from whisperbatch import OptionError, Options
from whisperbatch.decoding.prompts import NO_CONTEXT, Context, Prompts, with_end_of_prompt
from whisperbatch.decoding.tokenizer import WhisperTokenizer

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
