import pytest

from tests.unit.fakes import multilingual_tokenizer
from whisperbatch import OptionError, Options
from whisperbatch.decoding.prompts import NO_CONTEXT, Context, Prompts, WhisperTokenizer

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
