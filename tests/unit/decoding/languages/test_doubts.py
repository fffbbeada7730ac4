"""Speech that sounds like another language than its text is reported, and nothing else."""

from typing import Any, TypeAlias

import pytest

from tests.unit.decoding.languages.spoken import (
    PERIOD,
    PHRASE,
    Probable,
    invented,
    speech_engine,
    transcribed,
)
from tests.unit.synthetic_speech import chunk, decode
from whisperbatch.segmentation import RowResult

Case: TypeAlias = tuple[str, str, Probable, list[tuple[int, int, str]]]
"""Spoken languages, decided language, log-probability of texts, expected phrases."""


def fluent(spoken: str, written: str) -> float:
    """Text in another language than the spoken one is nearly as probable: a translation."""
    return -0.1 if spoken == written else -0.2


def unclear(_: str, __: str) -> float:
    return -0.6


CASES: tuple[tuple[str, str, Case], ...] = (
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


@pytest.mark.parametrize(("situation", "source", "case"), CASES)
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
