"""Code-switching: rows in doubtful languages are decoded again, or reported.

A recording is a row of phrases of 4 s with pauses of 0.5 s: "en en fr" is two phrases in English
and one in French.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from string import ascii_lowercase
from typing import Any, TypeAlias

import pytest

from tests.unit.fakes import Call, EncodedRow, FakeEngine, multilingual_tokenizer
from tests.unit.synthetic_speech import (
    DecodedWords,
    RampExtractor,
    chunk,
    decode,
    decode_rows,
    rows,
    sentence,
    text,
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


CASES = (
    # situation, source, spoken, label of the row, languages of the parts
    (
        "the sentences after a change are labelled like the neighbour before",
        "SYSTRAN/faster-whisper#1476",
        "ru ru it it it",
        "ru",
        "ru it",
    ),
    (
        "a window straddles the change from German to English",
        "SYSTRAN/faster-whisper#1322",
        "de de de en en",
        "en",
        "de en",
    ),
    (
        "the language changes in the middle of a chunk, and the rest is translated",
        "kaixxx/noScribe#294",
        "en en en nl nl nl",
        "en",
        "en nl",
    ),
    (
        "a paragraph in another language, and back",
        "ggml-org/whisper.cpp#749",
        "en en fr fr de",
        "de",
        "en fr de",
    ),
    (
        "all of a chunk has the language of its neighbours",
        "SYSTRAN/faster-whisper#918",
        "en en en en",
        "it",
        "en",
    ),
    (
        "English and Hebrew in one recording",
        "jhj0517/Whisper-WebUI#491",
        "he he en he he",
        "he",
        "he en he",
    ),
)


@pytest.mark.parametrize(("situation", "source", "spoken", "label", "expected"), CASES)
def test_every_part_gets_its_language(
    situation: str, source: str, spoken: str, label: str, expected: str
) -> None:
    engine = speech_engine(spoken)
    result = transcribed(engine, spoken, label, multilingual=True)
    assert [part.language for part in result.texts] == expected.split(), (situation, source)
    assert len(text(result).split()) == 10 * len(spoken.split())  # no word is lost
    assert result.redecoded
    assert result.doubts == ()


def test_probable_text_costs_nothing() -> None:
    engine = speech_engine("en en en")
    result = transcribed(engine, "en en en", "en", multilingual=True)
    assert [part.language for part in result.texts] == ["en"]
    assert (len(engine.calls), len(engine.scored)) == (1, 0)
    assert not result.redecoded


def test_improbable_text_in_its_own_language_stays() -> None:
    """Speech that is hard to understand: the windows agree with the label."""
    engine = speech_engine("en en en", lambda _, __: -0.6)
    result = transcribed(engine, "en en en", "en", multilingual=True)
    assert [part.language for part in result.texts] == ["en"]
    assert len(engine.scored) == 3
    assert not result.redecoded


def test_windows_without_a_probable_language_do_not_count() -> None:
    """A German window that sounds English with 0.43 (SYSTRAN/faster-whisper#1322)."""
    engine = speech_engine(
        "de de en", lambda _, __: -0.6, {"en": {"en": 0.43, "de": 0.3, "fr": 0.0}}
    )
    result = transcribed(engine, "de de en", "de", multilingual=True)
    assert [part.language for part in result.texts] == ["de"]


def test_text_that_is_clearly_better_in_the_language_of_the_row_keeps_it() -> None:
    """The sound says French, the text says English: an accent, or names."""
    engine = speech_engine("en en fr fr", lambda spoken, written: -0.4 if written == "en" else -0.8)
    result = transcribed(engine, "en en fr fr", "en", multilingual=True)
    assert [part.language for part in result.texts] == ["en"]
    assert len(text(result).split()) == 40


def test_only_the_given_languages_are_possible() -> None:
    engine = speech_engine("en en fr fr")
    result = transcribed(engine, "en en fr fr", "en", multilingual=True, languages=("en", "de"))
    assert "fr" not in [part.language for part in result.texts]


def test_the_sound_decides_the_language_of_a_translation() -> None:
    engine = speech_engine("en en fr fr", lambda _, __: -0.5)
    result = transcribed(
        engine, "en en fr fr", "fr", multilingual=True, code_switching_output="english"
    )
    tokens = [engine.tokenizer.id_to_token(call.prompt[2]) for call in engine.calls]
    languages = [engine.tokenizer.id_to_token(call.prompt[1]) for call in engine.calls]
    assert list(zip(languages, tokens, strict=True))[1:] == [
        ("<|en|>", "<|transcribe|>"),
        ("<|fr|>", "<|translate|>"),
    ]
    assert {part.language for part in result.texts} == {"en"}


def test_without_multilingual_the_text_is_not_changed() -> None:
    engine = speech_engine("en en fr fr", invented)
    result = transcribed(engine, "en en fr fr", "en", language="en")
    assert [part.language for part in result.texts] == ["en"]
    assert len(result.texts) == 1


Case: TypeAlias = tuple[str, str, Probable, list[tuple[int, int, str]]]
"""Spoken languages, decided language, log-probability of texts, expected phrases."""


def fluent(spoken: str, written: str) -> float:
    """Text in another language than the spoken one is nearly as probable: a translation."""
    return -0.1 if spoken == written else -0.2


def unclear(_: str, __: str) -> float:
    return -0.6


DOUBTS: tuple[tuple[str, str, Case], ...] = (
    # situation, source; spoken, decided, log-probability, [(first phrase, last, language)]
    (
        "the recording starts in French, and is mostly German",
        "ggml-org/whisper.cpp#1800",
        ("fr fr de de de", "de", invented, [(0, 1, "fr")]),
    ),
    (
        "Chinese with a default of English",
        "absadiki/subsai#168",
        ("zh zh zh zh", "en", invented, [(0, 3, "zh")]),
    ),
    (
        "English with language=Serbian",
        "Const-me/Whisper#12",
        ("en en en en", "sr", invented, [(0, 3, "en")]),
    ),
    (
        "a paragraph in another language in the middle",
        "ggml-org/whisper.cpp#749",
        ("en en fr fr en", "en", invented, [(2, 3, "fr")]),
    ),
    (
        "English and Hebrew in turn",
        "jhj0517/Whisper-WebUI#491",
        ("en he he en he", "en", invented, [(1, 2, "he"), (4, 4, "he")]),
    ),
    (
        "French and Arabic with language=French, to leave out the Arabic",
        "ggml-org/whisper.cpp#1195",
        ("fr fr fr ar ar", "fr", invented, [(3, 4, "ar")]),
    ),
    (
        "the detected language is wrong for the recording: Swedish with an intro",
        "ellite/anchor-sub-sync#7",
        ("sv sv sv sv", "th", invented, [(0, 3, "sv")]),
    ),
    (
        "probable text in the given language, as in a translation",
        "chidiwilliams/buzz#493",
        ("de de de de de", "en", fluent, [(0, 4, "de")]),
    ),
    (
        "speech in one language that is hard to understand",
        "SYSTRAN/faster-whisper#1322",
        ("de de de de", "de", unclear, []),
    ),
)


@pytest.mark.parametrize(("situation", "source", "case"), DOUBTS)
def test_stretches_in_another_language_are_found(situation: str, source: str, case: Case) -> None:
    spoken, decided, probable, expected = case
    engine = speech_engine(spoken, probable)
    result = transcribed(engine, spoken, decided, language=decided)
    assert found(result) == expected, (situation, source)
    assert {part.language for part in result.texts} == {decided}


def found(result: RowResult) -> list[tuple[int, int, str]]:
    """The first and last phrase of each doubt, and the language."""
    return [
        (
            round(doubt.start / 16000 / PERIOD),
            round((doubt.end / 16000 - PHRASE) / PERIOD),
            doubt.language,
        )
        for doubt in result.doubts
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"task": "translate", "language": "en"},  # Purfview/whisper-standalone-win#405
        {"vad": False, "language": "en"},
    ],
)
def test_no_doubt_where_the_language_of_the_text_says_nothing(options: dict[str, Any]) -> None:
    engine = speech_engine("fr fr fr")
    assert transcribed(engine, "fr fr fr", "en", **options).doubts == ()
    assert engine.scored == []


def test_two_seconds_of_another_language_are_no_evidence() -> None:
    """Single words in another language (tigros/Whisperer#28)."""
    engine = speech_engine("fr")
    [result] = decode(engine, chunk([(0.0, 2.0)]), beam_size=1)
    assert result.doubts == ()


def test_both_the_sound_and_the_text_must_speak_for_the_other_language() -> None:
    engine = speech_engine("fr fr fr", unclear)  # no text is more probable
    assert transcribed(engine, "fr fr fr", "en", language="en").doubts == ()
    unsure = {"fr": {"fr": 0.6, "en": 0.05, "it": 0.35}}  # no language is probable
    engine = speech_engine("fr fr fr", invented, unsure)
    assert transcribed(engine, "fr fr fr", "en", language="en").doubts == ()


def test_ordinary_rows_cost_a_step_of_the_decoder_every_two_minutes() -> None:
    spoken = " ".join(["en"] * 60)  # 270 s
    engine = speech_engine(spoken)
    starts = [n * PERIOD for n in range(60)]
    spans = [(start, start + PHRASE) for start in starts]
    chunks = [chunk(spans[n : n + 6], n // 6) for n in range(0, 60, 6)]
    decode(engine, *chunks, beam_size=1)
    scored = sorted(round(row.start) for row in engine.scored)
    assert scored == [0, 135, 243]  # the rows with 20 s, 140 s and 260 s


def test_the_step_of_the_decoder_uses_the_encoder_output_of_the_row() -> None:
    engine = speech_engine("en en en en en")
    transcribed(engine, "en en en en en", "en", language="en")
    assert [len(engine.calls), len(engine.scored)] == [1, 1]
    assert engine.batch_sizes["encode"] == [1]
