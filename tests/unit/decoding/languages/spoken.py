"""Recordings in several languages, with an engine that finds each text probable in its language.

A recording is a row of phrases of 4 s with pauses of 0.5 s: "en en fr" is two phrases in English
and one in French.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from string import ascii_lowercase
from typing import Any

from tests.unit.fakes import Call, EncodedRow, FakeEngine, multilingual_tokenizer
from tests.unit.synthetic_speech import (
    DecodedWords,
    RampExtractor,
    chunk,
    decode_rows,
    rows,
    sentence,
    word_engine,
)
from whisperbatch.options.keywords import resolve
from whisperbatch.segmentation import RowResult

PHRASE, PERIOD = 4.0, 4.5  # seconds
RIGHT, WRONG = -0.1, -1.3  # average log-probability of text in the spoken and in another language

Probable = Callable[[str, str], float]  # (spoken, written) -> average log-probability


def invented(spoken: str, written: str) -> float:
    """Text in another language than the spoken one is improbable."""
    return RIGHT if spoken == written else WRONG


def phrases(spoken: str) -> list[tuple[float, float, str]]:
    """Start, end and language of each phrase."""
    return [
        (number * PERIOD, number * PERIOD + PHRASE, code)
        for number, code in enumerate(spoken.split())
    ]


def sentence_at(start: float) -> str:
    """Return ten words, which no other phrase has."""
    rng = Random(start)  # noqa: S311 - words, not secrets
    return " ".join("".join(rng.choices(ascii_lowercase, k=4)) for _ in range(10))


def speech_engine(
    spoken: str,
    probable: Probable = invented,
    unsure: Mapping[str, Mapping[str, float]] | None = None,
) -> FakeEngine:
    """Return an engine for a recording.

    Args:
        spoken: the languages of the phrases.
        probable: the log-probability of a text.
        unsure: for a language, the probabilities that the engine detects instead of 0.98.
    """
    tokenizer = multilingual_tokenizer()
    words = [
        word for start, _, _ in phrases(spoken) for word in sentence(sentence_at(start), start)
    ]

    def shares(row: EncodedRow) -> dict[str, float]:
        times: dict[str, float] = {}
        for start, end, code in phrases(spoken):
            overlap = min(end, row.end) - max(start, row.start)
            times[code] = times.get(code, 0.0) + max(overlap, 0.0)
        return {code: time / sum(times.values()) for code, time in times.items() if time}

    def detect(row: EncodedRow) -> dict[str, float]:
        """The most spoken language hides the others."""
        best = max(shares(row), key=lambda code: shares(row)[code])
        probabilities = {"en": 0.0, "fr": 0.0, "de": 0.0, best: 0.98}
        return dict((unsure or {}).get(best, probabilities))

    def decoded(call: Call, spoken_words: Sequence[str]) -> DecodedWords:
        written = (tokenizer.id_to_token(call.prompt[1]) or "")[2:-2]
        logprob = sum(share * probable(code, written) for code, share in shares(call.row).items())
        return DecodedWords(spoken_words, logprob)

    return word_engine(words, decoded, detect=detect)


def transcribed(engine: FakeEngine, spoken: str, label: str, **options: Any) -> RowResult:
    """Decode a recording of one row, which has a label."""
    speech = [(start, end) for start, end, _ in phrases(spoken)]
    if options.get("vad", True):
        options |= {"speech_pad": 0.0}
    if options.get("multilingual") and "code_switching_output" not in options:
        options |= {"latin_names": True}  # all words have Latin letters
    resolved = resolve(None, beam_size=1, **options)
    row = replace(rows(chunk(speech))[0], language=label)
    [result] = decode_rows(engine, RampExtractor(), resolved, [row])
    return result
