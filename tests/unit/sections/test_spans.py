"""Spans of a recording, transcribed alone and joined, equal the transcript of one run."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.fake_diarizer import use_fake_diarizer
from tests.unit.fakes import Call, EncodedRow, FakeEngine, multilingual_tokenizer
from whisperbatch import AudioError, OptionError, Options, Transcriber, Transcript
from whisperbatch.protocols import Hypothesis
from whisperbatch.sections.joining import join_spans
from whisperbatch.types import SAMPLING_RATE, Features, Samples, Span, SpanSource, SpeechFrames
from whisperbatch.vad.levels import FRAME, reblock

pytestmark = pytest.mark.usefixtures("no_threads_left")

LENGTH = 650.0  # seconds: three sections
WORDS = ("one", "two,", "three.", "Four", "five", "six?", "Seven", "and", "eight", "nine.")
LANGUAGES = ("en", "fr", "de")


class Network:
    """Speech is audio that is louder than most earlier audio: a state with a long memory."""

    hop = FRAME

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        state = 0.0
        for samples in reblock(blocks):
            padded = np.pad(samples, (0, -len(samples) % FRAME)).reshape(-1, FRAME)
            probabilities = []
            for level in np.abs(padded).mean(axis=1, dtype=np.float64).tolist():
                state = max(0.998 * state + 0.002 * level, 1e-6)
                probabilities.append(level / (level + 0.5 * state))
            yield SpeechFrames(samples, np.array(probabilities, np.float32))


class Extractor:
    """A few numbers that identify the audio of a row, much faster than a spectrogram."""

    n_mels = 80

    def __call__(self, samples: Samples) -> Features:
        features = np.zeros((80, len(samples) // 160), np.float32)
        features[0, :3] = samples[0], samples[-1], samples.sum(dtype=np.float64)
        return features

    def pad_value(self, features: Features) -> float:
        return 0.0


@pytest.fixture(autouse=True)
def fast_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whisperbatch.pipeline_run.open_vad", lambda _: Network())
    monkeypatch.setattr("whisperbatch.pipeline_run.feature_extractor", lambda *_: Extractor())


@cache
def recording() -> Samples:
    """Loud and soft bursts with pauses of all lengths, and a minute of faint sound."""
    rng = np.random.default_rng(7)
    levels = np.full(round(LENGTH * 100), 1e-3, np.float32)
    position = 0.0
    while position < LENGTH:
        length = rng.uniform(0.3, 9.0)
        levels[int(position * 100) : int((position + length) * 100)] = 10 ** rng.uniform(-1.5, -0.5)
        position += length + rng.choice([0.1, 0.3, 0.8, 3.0])
    levels[36_000:42_000] = 0.01
    gains = np.repeat(levels, SAMPLING_RATE // 100)
    return (gains * rng.standard_normal(len(gains))).astype(np.float32)


def decode(call: Call) -> str:
    """Words that depend on the audio of the row and on its prompt."""
    choice = random.Random(repr((call.row.start, call.row.end, call.row.peak, call.prompt)))  # noqa: S311
    return "".join(f" {word}" for word in choice.choices(WORDS, k=choice.randint(8, 20)))


def detect(row: EncodedRow) -> dict[str, float]:
    """The language changes from row to row."""
    choice = random.Random(repr((row.start, row.end, row.peak)))  # noqa: S311
    shares = [choice.random() ** 4 + 0.01 for _ in LANGUAGES]
    return {code: share / sum(shares) for code, share in zip(LANGUAGES, shares, strict=True)}


def engine() -> FakeEngine:
    return FakeEngine(decode=decode, detect=detect, workers=2)


def spans(bounds: Sequence[int]) -> list[Span]:
    return [*(Span(first, last) for first, last in pairwise((0, *bounds))), Span(bounds[-1])]


def transcribed(bounds: Sequence[int], options: Options) -> Transcript:
    """The spans are transcribed together, and in another order."""
    sources = [SpanSource(recording(), span) for span in spans(bounds)]
    with Transcriber(engine()) as asr:
        return join_spans(list(asr.transcribe_many(sources[::-1], options=options))[::-1])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"condition_on_previous_text": True, "hallucination_filter": False},
        {"prefix": "Seven", "beam_size": 1},
        {"segments": "phrase", "max_silence": 0.5},
        {"word_timestamps": True, "chunk_length": 12.0},
        {"vad": False, "chunk_length": 20.0},
        {"clip_timestamps": ((3.0, 280.0), (290.0, 302.5), (310.0, 640.0))},
    ],
    ids=",".join,
)
def test_the_joined_spans_equal_the_recording(options: dict[str, Any]) -> None:
    resolved = Options(language="en", batch_size=3, **options)
    with Transcriber(engine()) as asr:
        whole = asr.transcribe(recording(), options=resolved)
    assert len(whole.segments) > 50
    assert transcribed((1, 2), resolved) == whole


def test_a_span_may_have_several_sections() -> None:
    options = Options(language="en", batch_size=3)
    parts = [transcribed(bounds, options) for bounds in ((1, 2), (2,), (1,))]
    assert parts[0] == parts[1] == parts[2]


def test_with_code_switching_the_text_equals_that_of_the_recording() -> None:
    options = Options(multilingual=True, batch_size=3)
    with Transcriber(engine()) as asr:
        whole = asr.transcribe(recording(), options=options)
    parts = transcribed((1, 2), options)
    assert parts.segments == whole.segments
    assert {segment.language for segment in whole.segments} == set(LANGUAGES)
    assert (parts.chunks, parts.omissions) == (whole.chunks, whole.omissions)
    seconds: Counter[str] = Counter()
    for segment in whole.segments:
        seconds[segment.language] += round(1000 * (segment.end - segment.start))
    assert parts.language == seconds.most_common(1)[0][0]


def test_the_language_notices_equal_those_of_the_recording() -> None:
    def surely(row: EncodedRow) -> dict[str, float]:
        best = max(LANGUAGES, key=lambda code: detect(row)[code])
        return {code: 0.98 if code == best else 0.01 for code in LANGUAGES}

    def probable(call: Call) -> Hypothesis:
        tokenizer = multilingual_tokenizer()
        written = tokenizer.id_to_token(call.prompt[1]) or ""
        right = surely(call.row)[written[2:-2]] > 0.5
        tokens = tokenizer.encode(decode(call), add_special_tokens=False).ids
        return Hypothesis(tuple(tokens), -0.1 if right else -0.9, 0.0)

    options = Options(language="en", batch_size=3, beam_size=1)
    with Transcriber(FakeEngine(decode=probable, detect=surely, workers=2)) as asr:
        whole = asr.transcribe(recording(), options=options)
        sources = [SpanSource(recording(), span) for span in spans((1, 2))]
        parts = join_spans(list(asr.transcribe_many(sources, options=options)))
    assert {notice.kind for notice in whole.notices} == {"language"}
    assert len(whole.notices) > 3
    assert parts == whole


def test_the_windows_of_the_recording_decide_the_language_of_each_span() -> None:
    options = Options(batch_size=3)
    with Transcriber(FakeEngine(decode=decode)) as asr:
        whole = asr.transcribe(recording(), options=options)
        sources = [SpanSource(recording(), span) for span in spans((1, 2))]
        assert join_spans(list(asr.transcribe_many(sources, options=options))) == whole
    assert whole.language == "fr"


def test_a_span_after_the_end_is_empty() -> None:
    with Transcriber(engine()) as asr:
        for first in (3, 400):
            transcript = asr.transcribe(SpanSource(recording(), Span(first)), language="en")
            assert transcript.segments == ()
            assert transcript.chunks == 0
            assert transcript.duration == LENGTH


def test_a_span_is_read_only_up_to_its_end() -> None:
    span = Span(1, 2)
    with Transcriber(engine()) as asr:
        transcript = asr.transcribe(SpanSource(recording(), span), language="en")
    assert span.end is not None
    assert 600 < transcript.duration <= span.end / SAMPLING_RATE + 1
    assert transcript.segments[0].start > 300


@pytest.mark.parametrize(
    ("options", "message"),
    [({"diarize": True}, "diarize: "), ({}, "language: ")],
)
def test_options_that_need_the_whole_recording_are_refused(
    options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whisperbatch.pipeline_run.find_windows", lambda *_: [])
    use_fake_diarizer(monkeypatch)
    with Transcriber(engine()) as asr, pytest.raises(OptionError, match=message):
        asr.transcribe(SpanSource(recording(), Span(1, 2)), options=Options(**options))


def test_the_source_of_a_span_is_checked(tmp_path: Path) -> None:
    with Transcriber(engine()) as asr, pytest.raises(AudioError, match="no such file"):
        asr.transcribe(SpanSource(tmp_path / "missing.wav", Span(1, 2)), language="en")


@pytest.mark.parametrize(("first", "last"), [(-1, None), (2, 2), (3, 1)])
def test_a_span_has_sections(first: int, last: int | None) -> None:
    with pytest.raises(ValueError, match="0 <= first < last"):
        Span(first, last)
