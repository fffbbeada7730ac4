"""Words that are not spoken are removed and listed; the sound text stays."""

from collections.abc import Sequence

import pytest

from tests.unit.fakes import Call
from tests.unit.synthetic_speech import (
    DecodedWords,
    Fault,
    chunk,
    decode,
    segments,
    sentence,
    text,
    word_engine,
)
from whisperbatch.types import Omission, to_seconds

SPANS = [(0.0, 4.0)]
TEXT = "please enter your number and press the pound key now"
SPOKEN = sentence(TEXT, 0.0)
LOOP = "thank you so much "


def always(words: Sequence[str], avg_logprob: float = -0.2, no_speech_prob: float = 0.01) -> Fault:
    """Return a fault that produces the same text for every decoding."""
    return lambda *_: DecodedWords(words, avg_logprob, no_speech_prob)


def reasons_and_texts(omissions: Sequence[Omission]) -> list[tuple[str, str]]:
    return [(omission.reason, omission.text) for omission in omissions]


@pytest.mark.parametrize("position", [0, 5, 10])
def test_a_loop_is_removed_and_the_other_words_stay(position: int) -> None:
    """The first time of the loop stays, because it may have been spoken."""
    spoken = TEXT.split()

    def looping(_: Call, words: Sequence[str]) -> DecodedWords:
        start = min(position, len(words))
        return DecodedWords([*words[:start], *(LOOP * 20).split(), *words[start:]])

    [result] = decode(word_engine(SPOKEN, looping), chunk(SPANS))
    others = [word for word in text(result).split() if word not in LOOP.split()]
    assert others == spoken
    assert result.redecoded
    assert {omission.reason for omission in result.omissions} <= {"loop", "too fast"}
    removed = " ".join(omission.text for omission in result.omissions).split()
    assert set(removed) == set(LOOP.split())
    assert len(text(result).split()) + len(removed) == len(spoken) + 80


DOUBTFUL = [(-0.9, 0.2), (-0.5, 0.55)]


@pytest.mark.parametrize(("avg_logprob", "no_speech_prob"), [*DOUBTFUL, (-0.5, 0.2)])
@pytest.mark.parametrize("times", [3, 5])
def test_spoken_text_that_is_one_loop_stays(
    avg_logprob: float, no_speech_prob: float, times: int
) -> None:
    """The alignment has a time for every word: an announcement is repeated."""
    words = ("I am not saying anything " * times).split()
    spoken = sentence(" ".join(words), 0.0)
    fault = always(words, avg_logprob, no_speech_prob)
    [result] = decode(word_engine(spoken, fault), chunk([(0.0, spoken[-1].start + 1.0)]))
    assert text(result) == " ".join(words)
    assert result.omissions == ()
    assert not result.redecoded


@pytest.mark.parametrize(("avg_logprob", "no_speech_prob"), DOUBTFUL)
def test_the_first_time_of_a_doubtful_loop_stays_where_speech_is_found(
    avg_logprob: float, no_speech_prob: float
) -> None:
    """The alignment has no time for the repetitions."""
    words = ("I am not saying anything " * 3).split()
    spoken = sentence("I am not saying anything", 0.0)
    fault = always(words, avg_logprob, no_speech_prob)
    [result] = decode(word_engine(spoken, fault), chunk([(0.0, spoken[-1].end + 0.1)]))
    assert text(result) == "I am not saying anything"
    removed = " ".join(omission.text for omission in result.omissions)
    assert removed == " ".join(words[5:])


def test_a_loop_does_not_affect_other_parts_of_the_chunk() -> None:
    later = sentence("this part is decoded as it should be every time", 5.0)

    def looping(call: Call, words: Sequence[str]) -> DecodedWords:
        return DecodedWords([*words, *(["um"] * 150)] if call.start < 4 else words)

    [result] = decode(word_engine([*SPOKEN, *later], looping), chunk([(0.0, 4.0), (5.0, 9.0)]))
    assert text(result).endswith("this part is decoded as it should be every time")
    assert text(result).startswith(TEXT)
    assert text(result).count("um") <= 2 + text(result).count("number")


def test_spoken_repetition_stays() -> None:
    spoken = sentence("no no no no that is not what I said", 0.0)
    [result] = decode(word_engine(spoken), chunk([(0.0, 4.0)]))
    assert text(result) == "no no no no that is not what I said"
    assert result.omissions == ()


def test_the_filter_can_be_disabled() -> None:
    words = [*TEXT.split(), *(LOOP * 20).split()]
    [result] = decode(
        word_engine(SPOKEN, always(words)),
        chunk(SPANS),
        hallucination_filter=False,
        coverage_threshold=None,
    )
    assert text(result).split() == words
    assert result.omissions == ()


def test_text_after_the_end_of_speech_is_removed() -> None:
    """The alignment leaves no time for this text."""
    added = "subscribe to my channel and ring the bell"

    def more(_: Call, words: Sequence[str]) -> DecodedWords:
        return DecodedWords([*words, *added.split()])

    [result] = decode(word_engine(SPOKEN[:4], more), chunk([(0.0, 1.6)]))
    assert text(result) == "please enter your number"
    assert reasons_and_texts(result.omissions) == [("too fast", added)]
    assert result.omissions[0].score > 50


def test_improbable_text_over_silence_is_removed() -> None:
    [result] = decode(word_engine(SPOKEN, always(TEXT.split(), -1.2, 0.9)), chunk(SPANS))
    assert segments(result) == ()
    assert {omission.reason for omission in result.omissions} == {"no speech"}
    assert " ".join(omission.text for omission in result.omissions) == TEXT
    assert {omission.score for omission in result.omissions} == {0.9}


@pytest.mark.parametrize(("avg_logprob", "no_speech_prob"), [(-0.9, 0.9), (-1.2, 0.1)])
def test_one_signal_alone_removes_nothing(avg_logprob: float, no_speech_prob: float) -> None:
    fault = always(TEXT.split(), avg_logprob, no_speech_prob)
    [result] = decode(word_engine(SPOKEN, fault), chunk(SPANS))
    assert text(result).split() == TEXT.split()


def test_stock_phrases_over_music_are_removed() -> None:
    phrase = sentence("Thanks for watching!", 2.0)
    fault = always(["Thanks", "for", "watching!"], -0.8)
    [result] = decode(word_engine(phrase, fault), chunk([(0.0, 20.0)]), coverage_threshold=None)
    assert reasons_and_texts(result.omissions) == [("boilerplate", "Thanks for watching!")]
    assert result.omissions[0].score > 0.8


def test_spoken_stock_phrases_stay() -> None:
    phrase = sentence("Thanks for watching!", 0.0)
    for avg_logprob in (-0.2, -0.8):
        fault = always(["Thanks", "for", "watching!"], avg_logprob)
        [result] = decode(word_engine(phrase, fault), chunk([(0.0, 1.2)]))
        assert text(result) == "Thanks for watching!"


@pytest.mark.parametrize(("avg_logprob", "removed"), [(-1.5, True), (-0.5, False)])
def test_improbable_stock_phrases_are_removed(avg_logprob: float, removed: bool) -> None:
    phrase = sentence("music playing", 0.0)
    [result] = decode(
        word_engine(phrase, always(["music", "playing"], avg_logprob)), chunk([(0.0, 0.8)])
    )
    assert reasons_and_texts(result.omissions) == (
        [("boilerplate", "music playing")] if removed else []
    )


def test_a_sentence_is_too_fast_for_a_short_noise() -> None:
    phrase = sentence("Thank you.", 0.0, pace=0.1)
    [result] = decode(word_engine(phrase), chunk([(0.0, 0.2)]))
    assert reasons_and_texts(result.omissions) == [("too fast", "Thank you.")]
    [result] = decode(word_engine(sentence("Yes.", 0.0, pace=0.2)), chunk([(0.0, 0.2)]))
    assert text(result) == "Yes."


PROMPT = "Kubernetes and Istio maintainers meeting"


def leaks(call: Call, words: Sequence[str]) -> DecodedWords:
    """With a prompt, the text begins with the prompt's words, which are not spoken."""
    return DecodedWords([*PROMPT.split(), *words] if len(call.prompt) > 4 else words)


@pytest.mark.parametrize("option", ["initial_prompt", "hotwords"])
def test_a_leaked_prompt_is_removed(option: str) -> None:
    engine = word_engine(SPOKEN, leaks)
    [result] = decode(engine, chunk(SPANS), **{option: PROMPT})
    assert text(result) == TEXT
    assert "prompt" in {omission.reason for omission in result.omissions}
    removed = " ".join(omission.text for omission in result.omissions)
    assert all(word in removed for word in PROMPT.split())


def test_spoken_words_of_the_prompt_keep_the_spelling_of_the_prompt() -> None:
    spoken = sentence("the Kubernetes and Istio maintainers are here", 0.0)

    def spells(call: Call, words: Sequence[str]) -> DecodedWords:
        if len(call.prompt) > 4:
            return DecodedWords(words)
        misspelled = {"Kubernetes": "Cooper", "Istio": "Easter"}
        return DecodedWords([misspelled.get(word, word) for word in words])

    [result] = decode(word_engine(spoken, spells), chunk([(0.0, 2.8)]), initial_prompt=PROMPT)
    assert text(result) == "the Kubernetes and Istio maintainers are here"
    assert result.omissions == ()


def test_a_prompt_may_be_token_ids() -> None:
    engine = word_engine(SPOKEN)
    ids = tuple(engine.tokenizer.encode(f" {PROMPT}", add_special_tokens=False).ids)
    decode(engine, chunk(SPANS), initial_prompt=ids)
    decode(engine, chunk(SPANS), initial_prompt=PROMPT)
    from_ids, from_text = (call.prompt for call in engine.calls)
    assert from_ids == from_text
    assert from_ids[0] == engine.tokenizer.token_to_id("<|startofprev|>")
    assert from_ids[1 : 1 + len(ids)] == ids


def test_the_prefix_stays_in_the_text_of_the_first_chunk() -> None:
    def continues(call: Call, words: Sequence[str]) -> DecodedWords:
        return DecodedWords(words[2:] if call.start == 0 else words)

    engine = word_engine([*SPOKEN, *sentence("and more", 100.0)], continues)
    results = decode(engine, chunk(SPANS), chunk([(100.0, 100.8)], index=1), prefix="please enter")
    assert text(results[0]) == TEXT
    assert text(results[1]) == "and more"
    assert len(engine.calls[0].prompt) == len(engine.calls[1].prompt) + 2


def test_words_keep_their_times_around_a_loop() -> None:
    def looping(_: Call, words: Sequence[str]) -> DecodedWords:
        return DecodedWords([*words[:5], *(["um"] * 150), *words[5:]])

    [result] = decode(word_engine(SPOKEN, looping), chunk(SPANS), word_timestamps=True)
    words = [word for text in result.texts for word in text.words]
    starts = {word.text.strip(): to_seconds(word.start) for word in words}
    for spoken in SPOKEN:
        assert starts[spoken.word] == pytest.approx(spoken.start, abs=0.41)


@pytest.mark.parametrize(
    ("avg_logprob", "no_speech_prob", "removed"),
    [(-0.9, 0.75, True), (-1.3, 0.35, True), (-0.9, 0.65, False), (-0.5, 0.99, False)],
)
@pytest.mark.parametrize("seconds", [2.0, 4.0])
def test_doubtful_text_on_little_speech_is_removed(
    avg_logprob: float, no_speech_prob: float, removed: bool, seconds: float
) -> None:
    spoken = sentence("yes of course", 0.0)
    fault = always([word.word for word in spoken], avg_logprob, no_speech_prob)
    [result] = decode(word_engine(spoken, fault), chunk([(0.0, seconds)]), coverage_threshold=None)
    expected = removed and seconds < 3
    assert text(result) == ("" if expected else "yes of course")
    assert [o.reason for o in result.omissions] == (["no speech"] if expected else [])


@pytest.mark.parametrize("threshold", ["no_speech_threshold", "log_prob_threshold"])
def test_text_on_little_speech_is_not_doubtful_without_a_threshold(threshold: str) -> None:
    spoken = sentence("yes of course", 0.0)
    fault = always([word.word for word in spoken], -0.9, 0.75)
    row = chunk([(0.0, 2.0)])
    options = {threshold: None, "coverage_threshold": None}
    [result] = decode(word_engine(spoken, fault), row, **options)
    is_silence = threshold == "log_prob_threshold"  # then the no-speech probability alone decides
    assert text(result) == ("" if is_silence else "yes of course")
