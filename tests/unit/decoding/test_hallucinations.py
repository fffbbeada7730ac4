"""What nobody says is taken out and listed; none of the sound text goes."""

from collections.abc import Sequence

import pytest

from tests.unit.world import (
    Call,
    Fault,
    Heard,
    World,
    chunk,
    decode,
    sentence,
    text,
)
from whisperbatch.types import Omission

SAID = sentence("please enter your number and press the pound key now", 0.0)
SPOKEN = [(0.0, 4.0)]
TEXT = "please enter your number and press the pound key now"
LOOP = "thank you so much "


def always(words: Sequence[str], avg_logprob: float = -0.2, no_speech_prob: float = 0.01) -> Fault:
    """The same text, however it is decoded."""
    return lambda *_: Heard(words, avg_logprob, no_speech_prob)


def listed(dropped: Sequence[Omission]) -> list[tuple[str, str]]:
    return [(one.reason, one.text) for one in dropped]


@pytest.mark.parametrize("place", [0, 5, 10])
def test_an_injected_loop_is_cut_out_and_the_rest_stays(place: int) -> None:
    """Wherever it is: it keeps its first time, which somebody may have said."""
    words = TEXT.split()

    def looping(_: Call, heard: Sequence[str]) -> Heard:
        at = min(place, len(heard))
        return Heard([*heard[:at], *(LOOP * 20).split(), *heard[at:]])

    [found] = decode(World(SAID, looping), chunk(SPOKEN))
    left = [word for word in text(found).split() if word not in LOOP.split()]
    assert left == words
    assert found.redecoded
    assert {one.reason for one in found.omissions} <= {"loop", "too fast"}
    gone = " ".join(one.text for one in found.omissions).split()
    assert set(gone) == set(LOOP.split())
    assert len(text(found).split()) + len(gone) == len(words) + 80


def test_a_loop_in_one_part_leaves_the_others() -> None:
    later = sentence("this part is heard as it should be by everybody", 5.0)

    def looping(call: Call, heard: Sequence[str]) -> Heard:
        return Heard([*heard, *(["um"] * 150)] if call.start < 4 else heard)

    [found] = decode(World([*SAID, *later], looping), chunk([(0.0, 4.0), (5.0, 9.0)]))
    assert text(found).endswith("this part is heard as it should be by everybody")
    assert text(found).startswith(TEXT)
    assert text(found).count("um") <= 2 + text(found).count("number")


def test_what_people_do_repeat_stays() -> None:
    said = sentence("no no no no that is not what I said", 0.0)
    [found] = decode(World(said), chunk([(0.0, 4.0)]))
    assert text(found) == "no no no no that is not what I said"
    assert found.omissions == ()


def test_the_filter_can_be_left_out() -> None:
    words = [*TEXT.split(), *(LOOP * 20).split()]
    [found] = decode(
        World(SAID, always(words)),
        chunk(SPOKEN),
        hallucination_filter=False,
        coverage_threshold=None,
    )
    assert text(found).split() == words
    assert found.omissions == ()


def test_text_beyond_the_speech_is_dropped() -> None:
    """There is no time for it: the alignment leaves it none."""
    beyond = "subscribe to my channel and ring the bell"

    def more(_: Call, heard: Sequence[str]) -> Heard:
        return Heard([*heard, *beyond.split()])

    [found] = decode(World(SAID[:4], more), chunk([(0.0, 1.6)]))
    assert text(found) == "please enter your number"
    assert listed(found.omissions) == [("too fast", beyond)]
    assert found.omissions[0].score > 50


def test_improbable_text_where_nobody_seems_to_speak_is_dropped() -> None:
    [found] = decode(World(SAID, always(TEXT.split(), -1.2, 0.9)), chunk(SPOKEN))
    assert found.segments == ()
    assert {one.reason for one in found.omissions} == {"no speech"}
    assert " ".join(one.text for one in found.omissions) == TEXT
    assert {one.score for one in found.omissions} == {0.9}


@pytest.mark.parametrize(("avg_logprob", "no_speech_prob"), [(-0.9, 0.9), (-1.2, 0.1)])
def test_one_signal_alone_drops_nothing(avg_logprob: float, no_speech_prob: float) -> None:
    fault = always(TEXT.split(), avg_logprob, no_speech_prob)
    [found] = decode(World(SAID, fault), chunk(SPOKEN))
    assert text(found).split() == TEXT.split()


def test_stock_phrases_over_music_are_dropped() -> None:
    phrase = sentence("Thanks for watching!", 2.0)
    fault = always(["Thanks", "for", "watching!"], -0.8)
    [found] = decode(World(phrase, fault), chunk([(0.0, 20.0)]), coverage_threshold=None)
    assert listed(found.omissions) == [("boilerplate", "Thanks for watching!")]
    assert found.omissions[0].score > 0.8


def test_stock_phrases_that_are_said_stay() -> None:
    phrase = sentence("Thanks for watching!", 0.0)
    for probability in (-0.2, -0.8):
        fault = always(["Thanks", "for", "watching!"], probability)
        [found] = decode(World(phrase, fault), chunk([(0.0, 1.2)]))
        assert text(found) == "Thanks for watching!"


@pytest.mark.parametrize(("avg_logprob", "dropped"), [(-1.5, True), (-0.5, False)])
def test_improbable_stock_phrases_are_dropped(avg_logprob: float, dropped: bool) -> None:
    phrase = sentence("music playing", 0.0)
    [found] = decode(World(phrase, always(["music", "playing"], avg_logprob)), chunk([(0.0, 0.8)]))
    assert listed(found.omissions) == ([("boilerplate", "music playing")] if dropped else [])


def test_a_noise_is_too_short_for_a_sentence() -> None:
    phrase = sentence("Thank you.", 0.0, pace=0.1)
    [found] = decode(World(phrase), chunk([(0.0, 0.2)]))
    assert listed(found.omissions) == [("too fast", "Thank you.")]
    [found] = decode(World(sentence("Yes.", 0.0, pace=0.2)), chunk([(0.0, 0.2)]))
    assert text(found) == "Yes."


PROMPT = "Kubernetes and Istio maintainers meeting"


def leaks(call: Call, heard: Sequence[str]) -> Heard:
    """The prompt's words come first, whoever said them."""
    return Heard([*PROMPT.split(), *heard] if len(call.prompt) > 4 else heard)


@pytest.mark.parametrize("option", ["initial_prompt", "hotwords"])
def test_a_leaked_prompt_is_dropped(option: str) -> None:
    engine = World(SAID, leaks)
    [found] = decode(engine, chunk(SPOKEN), **{option: PROMPT})
    assert text(found) == TEXT
    assert "prompt" in {one.reason for one in found.omissions}
    gone = " ".join(one.text for one in found.omissions)
    assert all(word in gone for word in PROMPT.split())


def test_words_of_the_prompt_that_are_said_stay_as_the_prompt_spells_them() -> None:
    said = sentence("the Kubernetes and Istio maintainers are here", 0.0)

    def spells(call: Call, heard: Sequence[str]) -> Heard:
        if len(call.prompt) > 4:
            return Heard(heard)
        wrong = {"Kubernetes": "Cooper", "Istio": "Easter"}
        return Heard([wrong.get(word, word) for word in heard])

    [found] = decode(World(said, spells), chunk([(0.0, 2.8)]), initial_prompt=PROMPT)
    assert text(found) == "the Kubernetes and Istio maintainers are here"
    assert found.omissions == ()


def test_a_prompt_of_token_ids() -> None:
    engine = World(SAID)
    ids = tuple(engine.tokenizer.encode(f" {PROMPT}", add_special_tokens=False).ids)
    decode(engine, chunk(SPOKEN), initial_prompt=ids)
    decode(engine, chunk(SPOKEN), initial_prompt=PROMPT)
    one, other = (call.prompt for call in engine.calls)
    assert one == other
    assert one[0] == engine.tokenizer.token_to_id("<|startofprev|>")
    assert one[1 : 1 + len(ids)] == ids


def test_the_prefix_begins_the_recording_and_stays_in_its_text() -> None:
    def goes_on(call: Call, heard: Sequence[str]) -> Heard:
        return Heard(heard[2:] if call.start == 0 else heard)

    engine = World([*SAID, *sentence("and more", 100.0)], goes_on)
    found = decode(engine, chunk(SPOKEN), chunk([(100.0, 100.8)], index=1), prefix="please enter")
    assert text(found[0]) == TEXT
    assert text(found[1]) == "and more"
    assert len(engine.calls[0].prompt) == len(engine.calls[1].prompt) + 2


def test_words_keep_their_places_around_a_loop() -> None:
    def looping(_: Call, heard: Sequence[str]) -> Heard:
        return Heard([*heard[:5], *(["um"] * 150), *heard[5:]])

    [found] = decode(World(SAID, looping), chunk(SPOKEN), word_timestamps=True)
    words = [word for segment in found.segments for word in segment.words or ()]
    places = {word.word.strip(): word.start for word in words}
    for one in SAID:
        assert places[one.word] == pytest.approx(one.start, abs=0.41)
