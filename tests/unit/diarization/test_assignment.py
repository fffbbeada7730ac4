"""The speakers of words and segments, from turns; segments are divided at clear changes."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.transcripts import segment, segment_with_words
from whisperbatch.diarization.assignment import (
    MIN_PAUSE,
    MIN_UNITS,
    WordRun,
    assign_speakers,
    divide_words,
)
from whisperbatch.types import Segment, Turn, Word, to_samples


def turns(*given: tuple[float, float, str]) -> list[Turn]:
    return [Turn(start, end, speaker, 1.0) for start, end, speaker in given]


def spoken(text: str, *times: tuple[float, float], language: str = "en") -> Segment:
    """Return a segment whose words, separated by "|", have these times."""
    words = [
        Word(start, end, word, 0.5)
        for word, (start, end) in zip(text.split("|"), times, strict=True)
    ]
    return segment(
        text.replace("|", "").strip(), words[0].start, words[-1].end, language=language, words=words
    )


def said(segments: list[Segment]) -> list[tuple[str | None, str]]:
    return [(part.speaker, part.text) for part in segments]


def words_of(segments: list[Segment]) -> list[Word]:
    return [word for part in segments for word in part.words or ()]


def only_word(word: tuple[float, float], *given: Turn) -> Word:
    [result] = words_of(assign_speakers([spoken(" Yes.", word)], given))
    return result


def test_a_segment_within_a_turn_has_its_speaker() -> None:
    given = segment_with_words(" Well, I know.", 1.0)
    [part] = assign_speakers([given], turns((0, 5, "A"), (6, 9, "B")))
    assert (part.speaker, part.speaker_confidence, part.other_speakers) == ("A", 1.0, ())
    assert [word.speaker for word in part.words or ()] == ["A"] * 3
    assert replace(part, speaker=None, speaker_confidence=None, words=given.words) == given


def test_without_turns_there_are_no_speakers() -> None:
    given = segment_with_words(" Well, I know.", 1.0)
    assert assign_speakers([given], []) == [given]
    assert assign_speakers([given], turns((2, 2, "A"))) == [given], "a turn without duration"


def test_without_segments_there_is_nothing() -> None:
    assert assign_speakers([], turns((0, 1, "A"))) == []


@pytest.mark.parametrize(
    ("word", "given", "speaker"),
    [
        ((1.0, 2.0), turns((0, 1.4, "A"), (1.4, 3, "B")), "B"),
        ((1.0, 2.0), turns((0, 1.6, "A"), (1.6, 3, "B")), "A"),
        # of a speaker with two turns, both count
        ((1.0, 2.0), turns((0, 1.3, "A"), (1.3, 1.7, "B"), (1.7, 3, "A")), "A"),
        # equal overlaps: the higher confidence, then the earlier turn
        ((1.0, 2.0), turns((0, 1.5, "A"), (1.5, 3, "B")), "A"),
        ((1.0, 2.0), [Turn(0, 1.5, "A", 0.4), Turn(1.5, 3, "B", 0.5)], "B"),
        ((1.0, 2.0), [Turn(0.5, 3, "B", 1.0), Turn(0.7, 3, "A", 1.0)], "B"),
        # no overlap: the nearest turn
        ((1.0, 2.0), turns((0, 0.9, "A"), (2.2, 3, "B")), "A"),
        ((1.0, 2.0), turns((0, 0.7, "A"), (2.2, 3, "B")), "B"),
        ((1.0, 2.0), turns((0, 0.9, "A"), (2.1, 3, "B")), "A"),
        ((90.0, 91.0), turns((0, 1, "A"), (1, 2, "B")), "B"),
        # a long first turn does not hide a short one
        ((50.0, 50.5), turns((0, 100, "A"), (50, 50.4, "B")), "A"),
        ((50.0, 50.0), turns((0, 49, "A"), (49.9, 51, "B")), "B"),
    ],
)
def test_a_word_has_the_speaker_who_speaks_most_of_it(
    word: tuple[float, float], given: list[Turn], speaker: str
) -> None:
    assert only_word(word, *given).speaker == speaker
    assert only_word(word, *given[::-1]).speaker == speaker


def test_one_second_of_a_stretched_word_counts() -> None:
    first = spoken(" Letters| of| your| name.", (3, 6), (6, 6.2), (6.2, 6.4), (6.4, 6.9))
    [part] = assign_speakers([first], turns((0, 5.2, "A"), (5.3, 9, "B")))
    assert (part.speaker, part.start, part.end) == ("B", 3, 6.9), "the times stay the same"
    last = spoken(" Press| 6| now.", (0.5, 0.8), (0.8, 1), (1, 4))
    [part] = assign_speakers([last], turns((0, 2, "A"), (2, 4, "B")))
    assert (part.speaker, part.speaker_confidence) == ("A", 1.0)


def test_who_speaks_during_all_of_a_sentence_says_the_words_of_two_who_speak_at_once() -> None:
    times = [(1 + 0.3 * k, 1.3 + 0.3 * k) for k in range(5)]
    given = spoken(" No| more| messages| for| you.", *times)
    both = turns((0, 1.9, "A"), (1, 9, "B"))
    [part] = assign_speakers([given], both, exclusive=turns((0, 1.9, "A"), (1.9, 9, "B")))
    assert part.speaker == "B"
    [part] = assign_speakers([given], turns((0, 9, "A"), (1, 9, "B")), exclusive=turns((0, 9, "A")))
    assert part.speaker == "A", "the dominant speaker"


@pytest.mark.parametrize(
    ("given", "confidence"),
    [
        ([Turn(0, 3, "A", 0.8)], 0.8),
        # half of the word is B's
        ([Turn(0, 1.5, "A", 0.8), Turn(1.5, 3, "B", 0.6)], 0.4),
        # half of the word is in no turn, which counts half
        ([Turn(0, 1.5, "A", 0.8)], 0.6),
        # beside a turn, and further away
        ([Turn(0, 1.0, "A", 0.8)], 0.4),
        ([Turn(0, 0.5, "A", 0.8)], 0.2),
        ([Turn(2.5, 3.5, "A", 0.8)], 0.2),
        ([Turn(60, 61, "A", 0.8)], 0.0),
        # wrong values stay within the limits
        ([Turn(0, 3, "A", 7.0)], 1.0),
        ([Turn(0, 3, "A", -1.0)], 0.0),
        # turns of one speaker that overlap count once
        ([Turn(0, 3, "A", 0.5), Turn(1, 2, "A", 1.0)], 0.5),
    ],
)
def test_the_confidence_falls_with_the_part_without_turn_and_with_the_distance(
    given: list[Turn], confidence: float
) -> None:
    assert only_word((1.0, 2.0), *given).speaker_confidence == pytest.approx(confidence, abs=1e-3)


def test_who_speaks_during_a_third_of_a_word_is_one_of_its_other_speakers() -> None:
    enough = turns((0, 3, "A"), (1.65, 3, "B"))
    assert only_word((1.0, 2.0), *enough).other_speakers == ("B",)
    less = turns((0, 3, "A"), (1.7, 3, "B"))
    assert only_word((1.0, 2.0), *less).other_speakers == ()


def test_a_segment_lists_the_other_speakers_of_its_words() -> None:
    given = segment_with_words(" Well, I know.", 1.0)
    [part] = assign_speakers([given], turns((0, 9, "A"), (1, 2, "C"), (3, 4, "B")))
    assert part.other_speakers == ("C", "B")
    assert [word.other_speakers for word in part.words or ()] == [("C",), (), ("B",)]


def test_a_segment_is_divided_where_both_sides_are_long() -> None:
    given = segment_with_words(" Are you there? Yes, I am.", 1.0, 0.4)
    parts = assign_speakers([given], turns((1.0, 2.2, "A"), (2.2, 4, "B")), first_id=7)
    assert said(parts) == [("A", "Are you there?"), ("B", "Yes, I am.")]
    assert [part.id for part in parts] == [7, 8]
    times = [time for part in parts for time in (part.start, part.end)]
    assert times == pytest.approx([1.0, 2.2, 2.2, 3.4])
    for part in parts:
        assert (part.language, part.avg_logprob, part.temperature) == ("en", -0.25, 0.0)


def test_one_word_is_not_a_change_of_speaker() -> None:
    given = segment_with_words(" So you went there and it was closed.", 0.0, 0.4)
    [part] = assign_speakers([given], turns((0, 1.6, "A"), (1.6, 2.0, "B"), (2.0, 9, "A")))
    assert part.speaker == "A"
    assert {word.speaker for word in part.words or ()} == {"A"}
    assert (part.words or ())[4].other_speakers == ("B",)
    assert (part.words or ())[4].speaker_confidence == 0.0
    assert part.text == given.text


def test_two_short_words_are_not_a_change_of_speaker() -> None:
    given = segment_with_words(" So you went there and it was closed.", 0.0, 0.3)
    [part] = assign_speakers([given], turns((0, 1.2, "A"), (1.2, 1.8, "B"), (1.8, 9, "A")))
    assert part.speaker == "A"


def test_a_word_between_two_speakers_does_not_hide_the_change() -> None:
    given = segment_with_words(" Are you there? Hm. Yes, I am.", 0.0, 0.4)
    parts = assign_speakers([given], turns((0, 1.2, "A"), (1.2, 1.6, "C"), (1.6, 9, "B")))
    assert said(parts) == [("A", "Are you there? Hm."), ("B", "Yes, I am.")]


def test_a_pause_makes_the_change_of_one_word_clear() -> None:
    times = [(0.0, 0.4), (0.4, 0.8), (1.2, 1.5)]
    given = spoken(" Ready|, then?| Yes.", *times)
    parts = assign_speakers([given], turns((0, 1, "A"), (1, 2, "B")))
    assert said(parts) == [("A", "Ready, then?"), ("B", "Yes.")]
    without_pause = spoken(" Ready|, then?| Yes.", *times[:2], (0.9, 1.2))
    assert len(assign_speakers([without_pause], turns((0, 0.85, "A"), (0.85, 2, "B")))) == 1


def test_the_majority_by_time_decides() -> None:
    given = spoken(" I| am| astonished.", (0, 0.2), (0.2, 0.4), (0.4, 1.2))
    [part] = assign_speakers([given], turns((0, 0.4, "A"), (0.4, 2, "B")))
    assert part.speaker == "B"


@pytest.mark.parametrize(
    ("text", "language", "change", "parts"),
    [
        (" one| two| three| four", "en", 2, ["one two", "three four"]),
        # no part begins inside of text that is written together, or with a closing mark
        (" one| two| ten|-year|-old| boy", "en", 3, ["one two", "ten-year-old boy"]),
        ("今日|は|元気|です", "ja", 2, ["今日は", "元気です"]),
        ("今日|は|、|元気|です", "ja", 2, ["今日は、", "元気です"]),
        # a word without text stays with its neighbours
        (" one| two| | three| four", "en", 2, ["one two", "three four"]),
        (" | one| two| three", "en", 1, ["one two three"]),
        (" one| two| three| ", "en", 3, ["one two three"]),
    ],
)
def test_parts_have_the_text_of_their_words(
    text: str, language: str, change: int, parts: list[str]
) -> None:
    times = [(float(n), n + 1.0) for n in range(len(text.split("|")))]
    given = spoken(text, *times, language=language)
    found = assign_speakers([given], turns((0, change, "A"), (change, 9, "B")))
    assert [part.text for part in found] == parts
    assert "".join(word.word for word in words_of(found)) == text.replace("|", "")


def test_words_that_do_not_spell_the_text_do_not_divide_it() -> None:
    given = replace(segment_with_words(" Are you there? Yes, I am.", 1.0, 0.4), text="Other text.")
    [part] = assign_speakers([given], turns((0, 2.2, "A"), (2.2, 2.6, "B")))
    assert (part.speaker, part.text) == ("A", "Other text.")


@pytest.mark.parametrize("words", [None, ()])
def test_a_segment_without_words_is_not_divided(words: tuple[Word, ...] | None) -> None:
    given = segment("Are you there? Yes.", 1.0, 3.0, words=words)
    [part] = assign_speakers([given], turns((0, 2.2, "A"), (2.2, 9, "B")))
    assert (part.speaker, part.speaker_confidence, part.other_speakers) == ("A", 0.6, ("B",))
    assert part.words == words


def test_words_are_left_out_on_request() -> None:
    given = segment_with_words(" Are you there? Yes, I am.", 1.0, 0.4)
    parts = assign_speakers([given], turns((0, 2.2, "A"), (2.2, 9, "B")), keep_words=False)
    assert said(parts) == [("A", "Are you there?"), ("B", "Yes, I am.")]
    assert [part.words for part in parts] == [None, None]
    assert [part.words for part in assign_speakers([given], [], keep_words=False)] == [None]


@pytest.mark.parametrize("given", [[], turns((0, 9, "A"))])
def test_segments_may_be_provisional(given: list[Turn]) -> None:
    [part] = assign_speakers([segment("Yes.")], given, provisional=True, first_id=3)
    assert part.provisional
    assert part.id == 3


def test_many_segments_are_compared_in_blocks() -> None:
    given = [segment_with_words(" Well, I know.", 3.0 * n) for n in range(1100)]
    given_turns = turns(*((3.0 * n, 3.0 * n + 3, f"S{n % 7}") for n in range(1100)))
    parts = assign_speakers(given, given_turns)
    assert [part.speaker for part in parts] == [f"S{n % 7}" for n in range(1100)]
    assert [part.id for part in parts] == list(range(1100))


def test_a_segment_of_a_channel_keeps_its_speaker() -> None:
    """The channel was decoded alone, so a louder speaker at the same time changes nothing."""
    given = replace(spoken(" Yes.| I| know.", (1, 2), (2, 3), (3, 4)), speaker="B")
    found = [Turn(0, 9, "A", 0.95), Turn(1, 3, "B", 0.05)]
    [part] = assign_speakers([given], found, exclusive=[Turn(0, 9, "A", 0.95)])
    assert (part.speaker, part.other_speakers) == ("B", ("A",))
    assert [word.speaker for word in part.words or ()] == ["B"] * 3
    assert [word.speaker_confidence for word in part.words or ()] == [1.0, 1.0, 0.0]
    assert part.speaker_confidence == pytest.approx(2 / 3, abs=1e-3)
    [unknown] = assign_speakers([replace(given, speaker="C")], found)
    assert (unknown.speaker, unknown.speaker_confidence) == ("C", 0.0)
    [bare] = assign_speakers([replace(given, words=None)], found)
    assert bare.speaker == "B"
    assert bare.speaker_confidence == pytest.approx(2 / 3, abs=1e-3)


WORD = to_samples(0.4)


def words(speakers: str, pauses: dict[int, int] | None = None, length: int = WORD) -> list[WordRun]:
    """Return a word for each letter, with a pause before some of them."""
    result, at = [], 0
    for number, letter in enumerate(speakers):
        at += (pauses or {}).get(number, 0)
        result.append(WordRun(number, number + 1, at, at + length, {ord(letter): length}, length))
        at += length
    return result


def parts(runs: list[WordRun]) -> list[tuple[int, int, str]]:
    return [(run.first, run.stop, chr(run.speaker)) for run in divide_words(runs)]


def test_a_single_word_between_words_of_another_is_no_part() -> None:
    assert parts(words("AAABAAA")) == [(0, 7, "A")]
    assert parts(words("AAAB")) == [(0, 4, "A")]


def test_several_long_words_are_a_part() -> None:
    assert parts(words("AAABB")) == [(0, 3, "A"), (3, 5, "B")]


def test_several_short_words_are_no_part() -> None:
    assert parts(words("AAAABB", length=to_samples(0.3))) == [(0, 6, "A")]


@pytest.mark.parametrize(
    ("pause", "count"), [(0, 1), (MIN_PAUSE - 1, 1), (MIN_PAUSE, 2)], ids=["none", "short", "long"]
)
def test_a_single_word_after_a_pause_is_a_part(pause: int, count: int) -> None:
    assert len(parts(words("AAAB", {3: pause}))) == count


def test_the_longer_side_decides() -> None:
    assert parts(words("ABBB")) == [(0, 4, "B")]
    assert parts(words("AB")) == [(0, 2, "A")]  # as long: the first to speak


def test_a_word_joins_its_longer_neighbour() -> None:
    assert parts(words("AABCCC")) == [(0, 2, "A"), (2, 6, "C")]


def test_a_pause_without_a_change_divides_nothing() -> None:
    assert parts(words("AAAA", {2: 5 * MIN_PAUSE})) == [(0, 4, "A")]


@settings(max_examples=200)
@given(
    st.text("ABC", min_size=1, max_size=20),
    st.dictionaries(st.integers(0, 19), st.sampled_from((1000, MIN_PAUSE, 30_000))),
    st.sampled_from((800, 3000, WORD)),
)
def test_parts_are_all_words_with_clear_changes(
    speakers: str, pauses: dict[int, int], length: int
) -> None:
    given_words = words(speakers, pauses, length)
    found = divide_words(given_words)
    assert [n for run in found for n in range(run.first, run.stop)] == list(range(len(speakers)))
    for one, other in pairwise(found):
        assert one.speaker != other.speaker
        pause = other.start - one.end
        assert pause >= MIN_PAUSE or min(one.units, other.units) >= MIN_UNITS
    assert sum(run.spoken for run in found) == len(speakers) * length


def test_no_words_have_no_parts() -> None:
    assert divide_words([]) == []
