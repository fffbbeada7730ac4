"""Recordings whose words are known, with an engine that decodes exactly these words.

The audio is a ramp: a sample's absolute value is its position in the recording. Its random signs
make noise of it, because constant sound is removed before the features. The features of a row
therefore identify its stretch of the recording, however the row was cut. `word_engine` decodes the
words that lie in this stretch; its alignment finds the time of these words, and gives other words
no duration. A test makes the engine err by passing a fault.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.unit.fakes import Call, EncodedRow, FakeEngine, multilingual_tokenizer
from whisperbatch.decoding.chunk_decoder import ChunkDecoder
from whisperbatch.decoding.engine_options import options_for
from whisperbatch.options import Options
from whisperbatch.options.keywords import resolve
from whisperbatch.protocols import Alignment, FeatureExtractor, Hypothesis
from whisperbatch.recording import End, RecordingState, Row
from whisperbatch.scheduling import RunShare, Scheduler, SharedModel
from whisperbatch.scheduling.call_queue import WaitingRow
from whisperbatch.segmentation import RowResult, Segmentation
from whisperbatch.types import (
    SAMPLING_RATE,
    Chunk,
    Features,
    Samples,
    Segment,
    SpeechSpan,
    to_samples,
)

PERIOD = 32_000  # samples, 2 s: a sentence of five words has the same sound when it is repeated
SCALE = 1e6  # positions per unit: exact to a sample in float32 up to 16 s, nearly exact beyond


@dataclass(frozen=True)
class SpokenWord:
    """A word of the recording, with its times in seconds."""

    start: float
    end: float
    word: str


@dataclass(frozen=True)
class DecodedWords:
    """The engine's result for a row: words, whether or not they are spoken, and their scores."""

    words: Sequence[str]
    avg_logprob: float = -0.2
    no_speech_prob: float = 0.01


Fault = Callable[[Call, Sequence[str]], DecodedWords]
"""From a row and the words spoken in the row, the words that the engine decodes."""


def ramp(seconds: float) -> Samples:
    """The audio of a recording."""
    positions = np.arange(round(seconds * SAMPLING_RATE), dtype=np.float64) / SCALE
    signs = np.random.default_rng(0).choice((-1.0, 1.0), PERIOD)
    samples: Samples = (positions * np.resize(signs, len(positions))).astype(np.float32)
    return samples


class RampExtractor:
    """Features with the position of the first sample, the number of samples, and the silence."""

    n_mels = 80

    def __call__(self, samples: Samples) -> Features:
        samples = np.abs(samples)
        features = np.zeros((80, len(samples) // 160), np.float32)
        voiced = np.flatnonzero(samples)
        silence = max(int(voiced[0]) - 1, 0) if len(voiced) else 0  # before the first sample
        features[0, 0] = float(samples[-1]) * SCALE - (len(samples) - 1) if len(voiced) else 0.0
        if len(voiced) and voiced[-1] < len(samples) - 1:
            features[0, 0] = float(samples[voiced[-1]]) * SCALE - voiced[-1]
        features[0, 1] = len(samples)
        features[0, 2] = silence
        return features

    def pad_value(self, features: Features) -> float:
        return 0.0


def word_engine(
    spoken: Sequence[SpokenWord], fault: Fault | None = None, **keywords: Any
) -> FakeEngine:
    """An engine that decodes and aligns the spoken words, changed by `fault`."""
    tokenizer = multilingual_tokenizer()

    def words_in(row: EncodedRow) -> list[SpokenWord]:
        return [word for word in spoken if row.start <= (word.start + word.end) / 2 < row.end]

    def decode_words(call: Call) -> Hypothesis:
        words = [word.word for word in words_in(call.row)]
        decoded = fault(call, words) if fault else DecodedWords(words)
        text = "".join(f" {word}" for word in decoded.words)
        tokens = tokenizer.encode(text, add_special_tokens=False).ids if text else []
        return Hypothesis(tuple(tokens), decoded.avg_logprob, decoded.no_speech_prob)

    def align_words(row: EncodedRow, tokens: Sequence[int], frames: int) -> Alignment:
        remaining = words_in(row)
        starts, ends = [], []
        position = 0.0
        for token in tokens:
            text = tokenizer.decode([token])
            if text.startswith(" ") and remaining and remaining[0].word.startswith(text.strip()):
                word = remaining.pop(0)
                position, end = word.start - row.start, word.end - row.start
            else:  # a later token of a word, or a word that is not spoken
                end = position
            starts.append(position)
            ends.append(max(end, position))
            position = ends[-1]
        return Alignment(np.array(starts), np.array(ends), np.full(len(tokens), 0.9))

    return FakeEngine(decode=decode_words, align=align_words, **keywords)


def sentence(text: str, start: float = 0.0, pace: float = 0.4) -> list[SpokenWord]:
    """Consecutive words of `pace` seconds each."""
    return [
        SpokenWord(round(start + number * pace, 3), round(start + (number + 1) * pace, 3), word)
        for number, word in enumerate(text.split())
    ]


def chunk(speech: Sequence[tuple[float, float]], index: int = 0, recording: int = 0) -> Chunk:
    """A chunk from the start of the first span to the end of the last, given in seconds."""
    spans = tuple(SpeechSpan(to_samples(start), to_samples(end)) for start, end in speech)
    samples = ramp(speech[-1][1])[spans[0].start :]
    piece = SpeechSpan(spans[0].start, spans[-1].end)
    return Chunk(recording, index, (piece,), spans, samples)


def rows(*chunks: Chunk) -> list[Row]:
    """The rows of the chunks; rows of the same recording share its state."""
    extractor = RampExtractor()
    recordings = {chunk.recording: RecordingState(chunk.recording) for chunk in chunks}
    return [
        Row(chunk, extractor(chunk.samples), 0.0, recordings[chunk.recording]) for chunk in chunks
    ]


def decode(engine: FakeEngine, *chunks: Chunk, **options: Any) -> list[RowResult]:
    """Decode the chunks, in English and without margins: the spans are exactly the speech."""
    on_gpu = options.pop("on_gpu", False)
    resolved = resolve(Options(language="en", speech_pad=0.0), **options)
    english = [replace(row, language=resolved.language) for row in rows(*chunks)]
    return decode_rows(engine, RampExtractor(), resolved, english, on_gpu=on_gpu)


class Rounds(Scheduler):
    """A scheduler without threads: calls begin when all threads with a row wait for the engine.

    The calls are therefore the same in every run of a test, and have as many rows as possible.

    Args:
        engine: runs the model.
        threads: number of threads that decode a row.
    """

    def __init__(self, engine: FakeEngine, threads: int) -> None:
        super().__init__(engine)
        self._lock = threading.Lock()
        self._threads, self._waiting = threads, 0

    def compute(self, calls: Sequence[WaitingRow], patience: float | None = None) -> list[Any]:
        """See `Scheduler`."""
        with self._lock:
            self._queue.add(calls)
            self._waiting += 1
            self._compute_if_all_wait()
        return [call.result.result() for call in calls]

    def end_thread(self) -> None:
        """Do not wait for the rows of this thread again."""
        with self._lock:
            self._threads -= 1
            self._compute_if_all_wait()

    def _compute_if_all_wait(self) -> None:
        if self._waiting < self._threads:
            return
        self._waiting = 0
        while self._queue:
            self._run(self._queue.take())


def shared_model(engine: FakeEngine, options: Options | None = None) -> SharedModel:
    """The model for a single thread, without threads of a scheduler."""
    return SharedModel(Rounds(engine, 1), RunShare(), options_for(engine, options or Options()))


def decode_rows(
    engine: FakeEngine,
    extractor: FeatureExtractor,
    options: Options,
    rows: Sequence[Row],
    *,
    on_gpu: bool = False,
) -> list[RowResult]:
    """Decode rows, each in its own thread, with shared calls of the engine (see `Rounds`).

    `on_gpu` decodes all parts of a retry at once.
    """
    options = options_for(engine, options)
    scheduler = Rounds(engine, len(rows))
    model = SharedModel(scheduler, RunShare(), options)
    model.on_gpu = on_gpu
    decoder = ChunkDecoder(model, extractor, options)

    def decode_row(number: int) -> RowResult:
        try:
            with model.at((number, 0)):
                return decoder(rows[number])
        finally:
            scheduler.end_thread()

    with ThreadPoolExecutor(len(rows)) as pool:
        return list(pool.map(decode_row, range(len(rows))))


def segments(result: RowResult, **options: Any) -> tuple[Segment, ...]:
    """The segments of a row: phrases, unless the options say otherwise."""
    recording = RecordingState(0)
    stage = Segmentation(resolve(Options(segments="phrase"), **options))
    items = list(stage(recording, [result, End(recording)]))
    return tuple(item for item in items if not isinstance(item, End))


def text(result: RowResult) -> str:
    return " ".join(segment.text for segment in segments(result))


EARLY = sentence("one two three four five six seven eight", 0.0)
LATE = sentence("alpha bravo charlie delta echo foxtrot golf hotel", 4.0)
SPOKEN = [*EARLY, *LATE]
SPANS = [(0.0, 3.2), (4.0, 7.2)]
TEXT = " ".join(word.word for word in SPOKEN)
"""Two sentences with a pause between them: words, speech spans and text."""
