"""Speakers of random segments and turns: nothing is lost, and most of the time decides."""

from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import up_to
from whisperbatch.diarization.assignment import assign_speakers
from whisperbatch.text.languages import UNSPACED
from whisperbatch.types import Segment, Transcript, Turn, Word

fewer_examples = settings(max_examples=up_to(150), deadline=None, derandomize=True)

WORDS = {
    "en": (" one", " two", " Yes.", "-year", " ", "'s", " «", "!", " twenty,"),
    "ja": ("今日", "は", "、", "元気", " ", "です。", "OK"),
}
centiseconds = st.integers(0, 4000).map(lambda time: time / 100)


@st.composite
def turns(draw: st.DrawFn) -> list[Turn]:
    return [
        Turn(start, start + length, speaker, confidence)
        for start, length, speaker, confidence in draw(
            st.lists(
                st.tuples(
                    centiseconds,
                    st.sampled_from((0.0, 0.1, 0.5, 1.3, 8.0)),
                    st.sampled_from(("A", "B", "C")),
                    st.sampled_from((0.0, 0.3, 1.0)),
                ),
                max_size=8,
            )
        )
    ]


@st.composite
def segments(draw: st.DrawFn) -> list[Segment]:
    """Segments as the pipeline makes them: their words are in order and spell their text."""
    found = []
    time = draw(centiseconds)
    for number in range(draw(st.integers(0, 4))):
        language = draw(st.sampled_from(("en", "ja")))
        words = []
        for text in draw(st.lists(st.sampled_from(WORDS[language]), min_size=1, max_size=12)):
            start = time + draw(st.sampled_from((0.0, 0.0, 0.0, 0.31, 1.0)))
            time = start + draw(st.sampled_from((0.0, 0.1, 0.3, 0.8)))
            words.append(Word(start, time, text, 0.5))
        joined = "".join(word.word for word in words).strip()
        if joined:
            start = words[0].start
            found.append(
                Segment(number, start, time, joined, language, -0.1, 0.0, 1.2, 0.0, tuple(words))
            )
    return found


def plain(segments: list[Segment]) -> list[tuple[float, float, str]]:
    return [(w.start, w.end, w.word) for segment in segments for w in segment.words or ()]


@fewer_examples
@given(segments(), turns())
def test_nothing_is_lost(given_segments: list[Segment], given_turns: list[Turn]) -> None:
    parts = assign_speakers(given_segments, given_turns)
    assert plain(parts) == plain(given_segments)
    assert [part.id for part in parts] == list(range(len(parts)))
    for part in parts:
        assert part.text.strip()
        assert part.text == "".join(word.word for word in part.words or ()).strip()
    before, after = (Transcript(tuple(s), "en", 1.0, 60.0, "") for s in (given_segments, parts))
    if all(segment.language not in UNSPACED for segment in given_segments):
        assert after.text == before.text
    assert after.text.replace(" ", "") == before.text.replace(" ", "")


@fewer_examples
@given(segments(), turns())
def test_every_word_has_the_speaker_of_its_segment_if_there_is_a_turn(
    given_segments: list[Segment], given_turns: list[Turn]
) -> None:
    names = {turn.speaker for turn in given_turns if turn.start < turn.end}
    for part in assign_speakers(given_segments, given_turns):
        assert part.speaker in names if names else part.speaker is None
        for word in part.words or ():
            assert word.speaker == part.speaker
            assert word.speaker not in word.other_speakers
            assert set(word.other_speakers) <= set(part.other_speakers) <= names
            confidence = word.speaker_confidence
            assert confidence is None if not names else 0 <= (confidence or 0) <= 1


def has_long_units(part: Segment) -> bool:
    """Whether pieces that are written together, as in "one-year", last more than 1 s.

    Of a word of more than 1 s, a part counts. Its pieces alone would count fully.
    """
    start = 0.0
    for number, word in enumerate(part.words or ()):
        is_piece = number > 0 and part.language == "en" and not word.word.startswith(" ")
        start = start if is_piece else word.start
        if is_piece and word.end - start > 1.0:
            return True
    return False


@fewer_examples
@given(segments(), turns())
def test_the_speaker_of_a_segment_speaks_most_of_its_time(
    given_segments: list[Segment], given_turns: list[Turn]
) -> None:
    for part in assign_speakers(given_segments, given_turns):
        if has_long_units(part):
            continue
        times: dict[str | None, int] = {}
        for word in part.words or ():
            [alone] = assign_speakers(
                [Segment(0, word.start, word.end, "a", "en", 0, 0, 0)], given_turns
            )
            length = max(round((word.end - word.start) * 16000), 320)
            times[alone.speaker] = times.get(alone.speaker, 0) + length
        slack = 2 * len(part.words or ())  # samples: words begin between two samples
        assert times[part.speaker] >= max(times.values()) - slack


@fewer_examples
@given(segments(), turns(), st.randoms(use_true_random=False))
def test_the_order_of_the_turns_has_no_effect(
    given_segments: list[Segment], given_turns: list[Turn], random: Random
) -> None:
    shuffled = list(given_turns)
    random.shuffle(shuffled)
    first = assign_speakers(given_segments, given_turns)
    assert first == assign_speakers(given_segments, given_turns)
    names = {turn.speaker for turn in given_turns}
    starts = [(turn.start, turn.end) for turn in given_turns]
    if len(set(starts)) == len(starts):  # equal turns of two speakers: the first given is first
        assert assign_speakers(given_segments, shuffled) == first
    assert {part.speaker for part in first} <= {*names, None}


@fewer_examples
@given(segments(), turns())
def test_the_parts_of_a_segment_have_different_speakers(
    given_segments: list[Segment], given_turns: list[Turn]
) -> None:
    for segment in given_segments:
        parts = assign_speakers([segment], given_turns)
        assert (parts[0].start, parts[-1].end) == (segment.start, segment.end)
        for part, following in pairwise(parts):
            assert part.speaker != following.speaker
