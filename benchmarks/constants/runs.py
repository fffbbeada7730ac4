"""Checks that need complete runs: word errors and lost speech with another value of a constant.

run         the defaults, greedily: chunks, retries, second opinion
context     the same with `condition_on_previous_text`
segments    segments that do not end a sentence, and sentences whose end is no segment's end
detect      recordings whose language is detected wrongly

Each kind has its own recordings (`names_for`).
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Final, Literal, TypeAlias

import whisperbatch as wb
from benchmarks import corpora, recordings, scoring, segments
from benchmarks.constants.figures import Check, Figures
from benchmarks.constants.inventory import Number, setting
from benchmarks.constants.sounds import built
from benchmarks.languages import in_language
from benchmarks.scoring import TimedWord
from whisperbatch.types import to_samples

VOICES: Final = ("hoarse", "whispered", "quieter", "distant")
Run: TypeAlias = Callable[[wb.Transcriber, str], Figures]

CHECKS: Final = (
    Check("chunking.merge.LOOK_AHEAD", "run", (1, 6)),
    Check("chunking.merge.LONG_PAUSE", "run", (to_samples(0.5), to_samples(2.0))),
    Check("chunking.merge.BREAK_COST", "run", (0.1, 1.0)),
    Check("chunking.spans.LEVEL_SCALE", "run", (20.0, 80.0)),
    Check("chunking.split.MIN_SPEECH", "run", (to_samples(0.5), to_samples(2.0))),
    Check("chunking.split.LONG_PAUSE", "run", (to_samples(0.5), to_samples(2.0))),
    Check("chunking.split.NEAR_BORDER", "run", (to_samples(0.15), to_samples(0.6))),
    Check("chunking.split.MAX_SHIFT", "run", (to_samples(0.25), to_samples(1.0))),
    Check("decoding.audit.LETTERS_PER_SECOND", "run", (7.5, 30.0)),
    Check("decoding.consensus.IMPROBABLE", "run", (-0.5, -0.3)),
    Check("decoding.consensus.MIN_SPEECH", "run", (1.5, 6.0)),
    Check("decoding.consensus.MAX_SILENCE", "run", (to_samples(0.5), to_samples(2.0))),
    Check("decoding.retries.MAX_DOUBT", "run", (-0.8, -0.2)),
    Check("decoding.retries.MIN_UNCOVERED", "run", (0.25, 0.75)),
    Check("decoding.retries.MAX_SPLITS", "run", (1, 5)),
    Check("decoding.retries.RETRY_BEAMS", "run", (2, 10)),
    Check("decoding.retries.RETRY_NGRAM", "run", (3, 6)),
    Check("decoding.retries.MIN_GAIN", "run", (0.0, 1.0)),
    Check("features.levels.LOUD", "run", (0.75, 0.95)),
    Check("features.levels.MARGIN", "run", (0.0, 6.0)),
    Check("features.levels.MAX_GAIN", "run", (20.0, 40.0)),
    Check("recording.MIN_PADDING", "run", (250, 1000)),
    Check("second_opinion.stage.SURROUNDINGS", "run", (to_samples(1.5), to_samples(6.0))),
    Check("second_opinion.stage.SURROUNDINGS_SHIFT", "run", (0.9, 3.5)),
    Check("second_opinion.stage.MIN_SOUND", "run", (to_samples(0.05), to_samples(0.2))),
    Check("second_opinion.stage.WORD_MARGIN", "run", (to_samples(0.05), to_samples(0.2))),
    Check("second_opinion.stage.MAX_WORD_GAP", "run", (to_samples(0.5), to_samples(2.0))),
    Check("second_opinion.stage.SPEECH_PROBABILITY", "run", (0.6, 0.99)),
    Check("second_opinion.stage.FREE_WORK", "run", (to_samples(45.0), to_samples(180.0))),
    Check("second_opinion.stage.LATER_FREE_WORK", "run", (to_samples(0.5), to_samples(10.0))),
    Check("second_opinion.stage.WORK_SHARE", "run", (0.015, 0.06)),
    Check("decoding.prompts.MAX_CONTEXT", "context", (32, 128)),
    Check("decoding.prompts.MAX_CHANGED_WORDS", "context", (2, 10)),
    Check("decoding.prompts.MAX_LENGTH_CHANGE", "context", (1, 4)),
    Check("segmentation.sentences.MIN_SEGMENT", "segments", (to_samples(0.5), to_samples(2.0))),
    Check("segmentation.sentences.MAX_PAUSE", "segments", (to_samples(1.0), to_samples(4.0))),
    Check("segmentation.sentences.MAX_SENTENCE", "segments", (to_samples(15.0), to_samples(60.0))),
    Check("segmentation.sentences.MAX_FIRST", "segments", (to_samples(7.5), to_samples(30.0))),
    Check("segmentation.sentences.COMMA_PAUSE", "segments", (to_samples(1.0), to_samples(4.0))),
    Check(
        "segmentation.sentences.MIN_SENTENCE_PAUSE",
        "segments",
        (to_samples(0.15), to_samples(0.6)),
    ),
    Check("segmentation.sentences.FOLLOWING", "segments", (2, 8)),
    Check("segmentation.sentences.MIN_PAUSE", "phrases", (to_samples(0.2), to_samples(0.8))),
    Check("segmentation.sentences.MAX_PHRASE", "phrases", (to_samples(7.5), to_samples(30.0))),
    Check("segmentation.sentences.PHRASE_COMMA", "phrases", (to_samples(0.25), to_samples(1.0))),
    Check("decoding.spoken_language.MARGIN", "switching", (0.0, 0.3)),
    Check("decoding.spoken_language.SURE_LANGUAGE", "switching", (0.8, 0.95)),
    Check("decoding.spoken_language.DOUBTFUL", "switching", (-0.5, -0.2)),
    Check("language.code_switching.SURE_PROBABILITY", "switching", (0.6, 0.95)),
    Check("language.code_switching.MAX_WINDOW", "switching", (to_samples(2.5), to_samples(10.0))),
    Check("language.detection.MIN_SPEECH", "detect", (0.5, 2.0)),
    Check("language.detection.MIN_SPEECH_FRACTION", "detect", (0.05, 0.2)),
    Check("language.detection.MIN_POWER", "detect", (1e-8, 1e-6)),
    Check("language.detection.CANDIDATES_PER_WINDOW", "detect", (2, 8)),
    Check("language.detection.PADDING", "detect", (150, 600)),
    Check("language.detection.MIN_WINDOWS", "detect", (1, 6)),
)


def measure(check: Check, asr: wb.Transcriber, name: str, value: Number | None) -> Figures:
    """Return the figures of a value for a recording; None is the constant's own value."""
    run = KINDS[check.kind]
    with setting(check.key, value):
        return run(asr, name)


def transcribe(asr: wb.Transcriber, name: str, *, context: bool = False) -> Figures:
    """Return the word errors and the seconds of lost speech of a transcript."""
    recording = built(name)
    language = corpora.parse(name)[1]
    transcript = asr.transcribe(
        recording.samples,
        language=language,
        beam_size=1,
        word_timestamps=True,
        condition_on_previous_text=context,
    )
    score = scoring.word_error_rate(recording.text, transcript.text, language)
    words = [TimedWord(w.start, w.end, w.word) for s in transcript.segments for w in s.words or ()]
    return Figures(
        score.errors,
        score.words,
        scoring.uncovered(recording.utterances, words, language),
        sum(utterance.end - utterance.start for utterance in recording.utterances),
    )


def with_context(asr: wb.Transcriber, name: str) -> Figures:
    """Return the figures of `transcribe` with the previous text as context."""
    return transcribe(asr, name, context=True)


def sentence_ends(
    asr: wb.Transcriber, name: str, kind: Literal["sentence", "phrase"] = "sentence"
) -> Figures:
    """Return how many segments end no sentence, and how many sentences end no segment."""
    _, language, seconds, seed = corpora.parse(name)
    recording = segments.recording_of_sentences(language, seconds, seed)
    transcript = asr.transcribe(recording.samples, language=language, beam_size=1, segments=kind)
    result = segments.compare(recording, transcript.segments, language)
    return Figures(
        result.segments - result.correct,
        result.segments,
        result.sentences - result.found,
        result.sentences,
    )


def phrase_ends(asr: wb.Transcriber, name: str) -> Figures:
    """Return the figures of `sentence_ends` for phrases."""
    return sentence_ends(asr, name, "phrase")


def switching(asr: wb.Transcriber, name: str) -> Figures:
    """Return the seconds of speech in segments with the wrong language.

    Only the seconds and the seed of the name count: the recording has all languages.
    """
    _, _, seconds, seed = corpora.parse(name)
    recording = recordings.switching(duration=seconds, seed=seed)
    transcript = asr.transcribe(recording.samples, multilingual=True, beam_size=1)
    speech = sum(utterance.end - utterance.start for utterance in recording.utterances)
    return Figures((1 - in_language(transcript, recording.utterances)) * speech, speech)


def detect(asr: wb.Transcriber, name: str) -> Figures:
    """Return whether the language of a recording is detected wrongly."""
    detected = asr.detect_language(built(name).samples).language
    return Figures(detected != corpora.parse(name)[1], 1)


KINDS: Final[Mapping[str, Run]] = {
    "run": transcribe,
    "context": with_context,
    "segments": sentence_ends,
    "phrases": phrase_ends,
    "switching": switching,
    "detect": detect,
}


def names_for(kind: str, languages: Sequence[str], seed: int) -> list[str]:
    """Return the recordings of a kind of check.

    A run has a minute of a normal voice and of each difficult voice, in the languages in turn.
    """
    if kind == "detect":
        voices = ("quieter", "distant")
        return [f"{voice}:{code}:60:{seed}" for code in languages for voice in voices]
    if kind == "switching":
        return [f"prompts:en:300:{seed}"] if len(languages) > 1 else []
    if kind in ("segments", "phrases", "context"):
        return [f"prompts:{code}:60:{seed}" for code in languages[:2]]
    pairs = zip(("prompts", *VOICES), cycle(languages), strict=False)
    return [f"{voice}:{code}:60:{seed}" for voice, code in pairs]
