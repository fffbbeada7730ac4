"""The words that are settled, of texts that grow and change."""

from collections.abc import Iterable

import pytest

from whisperbatch.live.settling import PartText, Policy
from whisperbatch.segmentation.timed_text import AlignedWord

SECOND = 16_000


def words(text: str, length: float = 0.5, probability: float = 0.9) -> list[AlignedWord]:
    """Words of equal length from the start of the audio; "~" marks a doubtful word."""
    result = []
    for index, word in enumerate(text.split()):
        sure = 0.2 if word.startswith("~") else probability
        start = round(index * length * SECOND)
        end = start + round(length * SECOND)
        result.append(AlignedWord(" " + word.removeprefix("~"), start, end, sure, 0))
    return result


def joined(found: Iterable[AlignedWord]) -> str:
    return "".join(word.text for word in found)


def offer(part: PartText, text: str, end: float, policy: Policy) -> tuple[str, str]:
    """Offer a text of audio that ends at a time; return the settled text and the tail."""
    progress = part.offer(words(text), part.text_from(0), round(end * SECOND), policy)
    return joined(progress.words), progress.tail


def test_words_near_the_end_and_the_last_word_are_held_back() -> None:
    part = PartText()
    never = Policy(0.6, "never", first=0.0)
    assert offer(part, "the quick brown fox", 2.0, never) == (" the quick", " brown fox")
    # the last word is old enough, but a word may follow
    assert offer(part, "the quick brown fox", 9.0, never) == (" brown", " fox")
    assert offer(part, "the quick brown fox jumps", 9.0, never) == (" fox", " jumps")
    assert joined(part.words) == " the quick brown fox"


def test_doubtful_words_need_the_same_word_in_the_text_before() -> None:
    part = PartText()
    policy = Policy(0.0, "doubtful", patience=60.0, first=0.0)
    assert offer(part, "we ~flew home again", 2.0, policy) == (" we", " flew home again")
    assert offer(part, "we ~flu home again", 2.5, policy) == ("", " flu home again")
    assert offer(part, "we ~Flu, home again", 3.0, policy) == (" Flu, home", " again")


def test_a_doubtful_word_is_settled_after_some_seconds() -> None:
    part = PartText()
    policy = Policy(0.3, "always", patience=4.0, first=0.0)
    assert offer(part, "one two", 2.0, policy)[0] == ""
    assert offer(part, "won two", 4.0, policy)[0] == ""
    assert offer(part, "one too", 4.6, policy)[0] == " one"


def test_marks_wait_for_the_word_after_them() -> None:
    part = PartText()
    policy = Policy(0.5, "never", first=0.0)
    settled, tail = offer(part, "Hello. My", 1.0, policy)
    assert (settled, tail) == (" Hello", ". My")
    # with the settled word as prefix, the text goes on with a comma
    settled, tail = offer(part, "Hello, Ann. How", 1.5, policy)
    assert (settled, tail) == (", Ann", ". How")
    assert joined(part.words) == " Hello, Ann"


@pytest.mark.parametrize("marks", ["...", "?!", "”", "。", "؟"])
def test_marks_alone_are_never_settled_last(marks: str) -> None:
    part = PartText()
    settled, tail = offer(part, f"Yes{marks} but", 9.0, Policy(0.5, "never", first=0.0))
    assert settled == " Yes"
    assert tail == f"{marks} but"
    assert offer(part, f"Yes{marks} but", 9.5, Policy(0.5, "never", first=0.0)) == (
        "",
        f"{marks} but",
    )


def test_the_prefix_is_not_repeated() -> None:
    part = PartText()
    policy = Policy(0.1, "never", first=0.0)
    offer(part, "one two three", 9.0, policy)
    progress = part.offer(words("two three four"), " two", 9 * SECOND, policy)
    assert joined(progress.words) == " three"


@pytest.mark.parametrize(
    ("final", "rest"),
    [
        ("the quick brown fox.", " fox."),  # equal words
        ("the thick brown fox.", " fox."),  # a settled word was wrong
        ("a quick brown the fox", " the fox"),
        ("entirely other words here", " here"),  # by time alone
        ("", ""),
    ],
)
def test_the_final_text_goes_on_after_the_settled_words(final: str, rest: str) -> None:
    part = PartText()
    offer(part, "the quick brown fox jumps", 2.1, Policy(0.6, "never", first=0.0))
    assert joined(part.words) == " the quick brown"
    assert joined(part.finish(words(final))) == rest


@pytest.mark.parametrize(
    ("before", "after", "settled"),
    [
        (" ill", "-disposed", ""),
        (" l", "\u2019été", ""),
        (" l'", "arrivée", ""),
        ("今", "日", "今"),
        (" one", " two", " one"),
    ],
)
def test_a_word_is_not_divided(before: str, after: str, settled: str) -> None:
    texts = [before, after, " more"]
    given = [AlignedWord(t, n * 8000, n * 8000 + 8000, 0.9, 0) for n, t in enumerate(texts)]
    progress = PartText().offer(given, "", 16_000, Policy(0.5, "never", first=0.0))
    assert joined(progress.words) == settled


def test_a_pause_settles_all_words_but_the_last() -> None:
    part = PartText()
    offer(part, "the quick brown fox", 1.6, Policy(0.6, "never", first=0.0))
    progress = part.offer_pause(words("the quick brown dog. Then"))
    assert (joined(progress.words), progress.tail) == (" brown dog", ". Then")
    assert part.offer_pause(words("the quick brown dog.")).words == ()


def test_a_frequent_word_later_in_the_final_text_is_no_match() -> None:
    part = PartText()
    offer(part, "so the man in the hat", 1.8, Policy(0.6, "never", first=0.0))
    assert joined(part.words) == " so the"
    rest = joined(part.finish(words("oh the man in the hat and the dog")))
    assert rest == " man in the hat and the dog"


def test_without_settled_words_the_whole_final_text_follows() -> None:
    assert joined(PartText().finish(words("good morning"))) == " good morning"


def test_the_first_words_wait_for_some_seconds_of_audio() -> None:
    part = PartText()
    policy = Policy(0.3, "never", first=2.0)
    assert offer(part, "hello", 1.0, policy) == ("", " hello")
    assert offer(part, "hello my name", 1.9, policy) == ("", " hello my name")
    assert offer(part, "hell of my name", 2.0, policy)[0] == " hell of my"
    assert offer(part, "hell of my name is", 2.4, policy)[0] == " name"
