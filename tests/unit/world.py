"""An engine that hears exactly what is said, until a test makes it err.

Audio is a ramp, so that a row's features tell which stretch of the recording it is, however it was
cut. Words are said at known times; the alignment finds those that are, and gives no time to others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.unit.fakes import FakeEngine
from whisperbatch.decoding.batch_decoder import BatchDecoder, RowResult
from whisperbatch.language.decisions import LanguageDecisions
from whisperbatch.options import DecodeOptions, Options
from whisperbatch.options.keywords import resolve
from whisperbatch.protocols import Alignment, Encoded, Sampling
from whisperbatch.rows import Row
from whisperbatch.types import Chunk, Features, Hypothesis, Samples, SpeechSpan, to_samples

SCALE = 1e6  # samples a unit: positions are exact to a sample in float32 below 16 s, near beyond


@dataclass(frozen=True)
class Said:
    """A word, and when it is said, in seconds."""

    start: float
    end: float
    word: str


@dataclass(frozen=True)
class Heard:
    """What an engine makes of a row: words, whoever said them, and how sure it is."""

    words: Sequence[str]
    avg_logprob: float = -0.2
    no_speech_prob: float = 0.01


@dataclass(frozen=True)
class Call:
    """A row that was decoded: its stretch of the recording, and how."""

    start: float
    end: float
    options: DecodeOptions
    sampling: Sampling | None
    prompt: tuple[int, ...] = field(repr=False)


Fault = Callable[[Call, Sequence[str]], Heard]


@dataclass(frozen=True)
class Stretches:
    rows: int
    spans: tuple[tuple[float, float], ...]


def ramp(seconds: float) -> Samples:
    """The recording."""
    return (np.arange(round(seconds * 16000), dtype=np.float64) / SCALE).astype(np.float32)


class RampExtractor:
    """Features that tell the first sample and the length."""

    n_mels = 80

    def __call__(self, samples: Samples) -> Features:
        features = np.zeros((80, len(samples) // 160), np.float32)
        loud = np.flatnonzero(samples)
        silence = max(int(loud[0]) - 1, 0) if len(loud) else 0  # put before it
        features[0, 0] = float(samples[-1]) * SCALE - (len(samples) - 1) if len(loud) else 0.0
        if len(loud) and loud[-1] < len(samples) - 1:
            features[0, 0] = float(samples[loud[-1]]) * SCALE - loud[-1]
        features[0, 1] = len(samples)
        features[0, 2] = silence
        return features

    def pad_value(self, features: Features) -> float:
        return 0.0


class World(FakeEngine):
    """See the module.

    Args:
        said: what is said, in order.
        fault: what the engine hears instead of the words that are said in a row.
    """

    def __init__(self, said: Sequence[Said], fault: Fault | None = None, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.said = said
        self.fault = fault or (lambda _, words: Heard(words))
        self.calls: list[Call] = []

    def encode(self, features: npt.NDArray[np.float32]) -> Any:
        self.batches.append(len(features))
        return Stretches(
            len(features),
            tuple(
                (float(row[0, 0]) / 16000, float(row[0, 0] + row[0, 1]) / 16000) for row in features
            ),
        )

    def split(self, encoded: Encoded) -> list[Encoded]:
        assert isinstance(encoded, Stretches)
        return [Stretches(1, (span,)) for span in encoded.spans]

    def join(self, rows: Sequence[Encoded]) -> Any:
        spans = tuple(row.spans[0] for row in rows if isinstance(row, Stretches))
        return Stretches(len(rows), spans)

    def generate(
        self,
        encoded: Encoded,
        prompts: Sequence[Sequence[int]],
        options: DecodeOptions,
        sampling: Sequence[Sampling] | None = None,
    ) -> list[Hypothesis]:
        assert isinstance(encoded, Stretches)
        assert len({len(prompt) for prompt in prompts}) == 1
        results = []
        for number, ((start, end), prompt) in enumerate(zip(encoded.spans, prompts, strict=True)):
            how = sampling[number] if sampling else None
            call = Call(round(start, 2), round(end, 2), options, how, tuple(prompt))
            self.calls.append(call)
            heard = self.fault(call, [one.word for one in self._within(start, end)])
            text = "".join(f" {word}" for word in heard.words)
            tokens = self.tokenizer.encode(text, add_special_tokens=False).ids if text else []
            results.append(Hypothesis(tuple(tokens), heard.avg_logprob, heard.no_speech_prob))
        return results

    def align(
        self,
        encoded: Encoded,
        prompts: Sequence[Sequence[int]],
        tokens: Sequence[Sequence[int]],
        frames: Sequence[int],
    ) -> list[Alignment]:
        assert isinstance(encoded, Stretches)
        return [
            self._aligned(row, start, end)
            for row, (start, end) in zip(tokens, encoded.spans, strict=True)
        ]

    def _within(self, start: float, end: float) -> list[Said]:
        return [one for one in self.said if start <= (one.start + one.end) / 2 < end]

    def _aligned(self, tokens: Sequence[int], start: float, end: float) -> Alignment:
        due = self._within(start, end)
        starts, ends = [], []
        position = 0.0
        for token in tokens:
            piece = self.tokenizer.decode([token])
            word = piece.strip()
            if piece.startswith(" ") and due and due[0].word.startswith(word):
                position, until = due[0].start - start, due[0].end - start
                due = due[1:]
            else:  # the rest of a word, or a word that nobody says
                until = position
            starts.append(position)
            ends.append(max(until, position))
            position = ends[-1]
        return Alignment(np.array(starts), np.array(ends), np.full(len(tokens), 0.9))


def sentence(text: str, start: float = 0.0, pace: float = 0.4) -> list[Said]:
    """Words one after the other, `pace` seconds each."""
    return [
        Said(round(start + number * pace, 3), round(start + (number + 1) * pace, 3), word)
        for number, word in enumerate(text.split())
    ]


def chunk(speech: Sequence[tuple[float, float]], index: int = 0, recording: int = 0) -> Chunk:
    """From the first span's start to the last one's end."""
    spans = tuple(SpeechSpan(to_samples(start), to_samples(end)) for start, end in speech)
    samples = ramp(speech[-1][1])[spans[0].start :]
    whole = (SpeechSpan(spans[0].start, spans[-1].end),)
    return Chunk(recording, index, whole, spans, samples)


def rows(*chunks: Chunk) -> list[Row]:
    extractor = RampExtractor()
    return [Row(one, extractor(one.samples), 0.0) for one in chunks]


def decode(engine: World, *chunks: Chunk, **options: Any) -> list[RowResult]:
    """What becomes of the chunks. Margins are none: spans are what is said."""
    resolved = resolve(Options(language="en", speech_pad=0.0), **options)
    return BatchDecoder(
        engine, RampExtractor(), resolved, LanguageDecisions(Options(language="en"))
    )(rows(*chunks))


def text(found: RowResult) -> str:
    return " ".join(segment.text for segment in found.segments)
