"""The rules by which a text proves that a region contains speech."""

import pytest

from tests.unit.synthetic_speech import chunk, rows
from whisperbatch.decoding.audit import DecodedRow
from whisperbatch.options import Options
from whisperbatch.protocols import Hypothesis
from whisperbatch.second_opinion.checks import proves_speech
from whisperbatch.segmentation.timed_text import AlignedWord, join_words
from whisperbatch.types import to_samples


def decoded(
    text: str, avg_logprob: float = -0.3, language: str = "en", pace: float = 0.4, tokens: int = 10
) -> DecodedRow:
    """A region of 10 s with this text; each word takes `pace` seconds."""
    words = [
        AlignedWord(word, to_samples(number * pace), to_samples((number + 1) * pace), 0.9, 0)
        for number, word in enumerate(text.split("|"))
    ]
    [row] = rows(chunk([(0.0, 10.0)]))
    hypothesis = Hypothesis((1,) * tokens, avg_logprob, 0.1)
    texts = (join_words(words),)
    return DecodedRow(row, language, hypothesis, text.replace("|", ""), texts, Options())


@pytest.mark.parametrize(
    ("text", "language"),
    [(" He| was| not| there.", "en"), ("他|不|在|那|里|啊", "zh"), (" 1,| 2,| 3,| 4.", "en")],
)
def test_a_probable_sentence_proves_speech(text: str, language: str) -> None:
    assert proves_speech(decoded(text, language=language), -0.7)


@pytest.mark.parametrize(
    "row",
    [
        decoded(" He| was| not| there.", avg_logprob=-0.71),
        decoded(" Thank| you."),
        decoded("他|不|在", language="zh"),
        decoded(" Thank| you| very| much."),
        decoded(" Thank| you.| Thanks| for| watching!| Bye."),
        decoded(" oh| my| oh| my| oh| my"),
        decoded("| ".join(["", *["a b c d e f g h"] * 9]), pace=1.0),
        decoded(" He| was| not| there.", pace=2.4),
        decoded(" Incomprehensibilities| characteristically| counterrevolutionary", pace=0.3),
        decoded(" He| was| not| there.", tokens=224),
        decoded(""),
    ],
    ids=(
        *("improbable", "two words", "three characters", "boilerplate", "stock phrases", "loop"),
        *("compression", "slow", "fast", "cut off", "empty"),
    ),
)
def test_other_text_does_not(row: DecodedRow) -> None:
    assert not proves_speech(row, -0.7)
