"""The chunks of a span are exactly those that the whole recording has there."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from whisperbatch.options import Options
from whisperbatch.protocols import Vad
from whisperbatch.sections import chunk_recording
from whisperbatch.types import Chunk, Samples, Span, SpeechFrames
from whisperbatch.vad.calibration import CalibratedVad
from whisperbatch.vad.framing import FRAME, reblock
from whisperbatch.vad.gain_control import GainControlledVad
from whisperbatch.vad.no_vad import NoVad

SECOND = 16_000
MEMORY = 0.999  # of the fake network: its state forgets half of a frame in 22 s

few_examples = settings(max_examples=25, deadline=None, derandomize=True)


class LevelVad:
    """A network with a long memory: a frame is speech if it is louder than the frames before it.

    A state that began elsewhere gives other probabilities, as with Silero's network.
    """

    hop = FRAME

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        state = 0.0
        for samples in reblock(blocks):
            padded = np.pad(samples, (0, -len(samples) % FRAME)).reshape(-1, FRAME)
            levels = np.abs(padded).mean(axis=1, dtype=np.float64)
            probabilities = np.empty(len(levels), np.float32)
            for index, level in enumerate(levels.tolist()):
                state = max(MEMORY * state + (1 - MEMORY) * level, 1e-9)
                probabilities[index] = level / (level + 0.7 * state)
            yield SpeechFrames(samples, probabilities)


VADS: tuple[Vad, ...]
VADS = (LevelVad(), CalibratedVad(GainControlledVad(LevelVad())), NoVad())


@dataclass(frozen=True)
class Scene:
    """Sound with pauses: lengths in seconds, and levels."""

    seed: int
    seconds: float
    speech: float
    pause: float
    noise: float

    def samples(self) -> Samples:
        rng = np.random.default_rng(self.seed)
        count = round(self.seconds * SECOND)
        levels = np.full(count // 160 + 1, self.noise)
        position = 0.0
        while self.pause < 1e3 and position < self.seconds:
            length = rng.uniform(0.2, 2.0) * self.speech
            levels[int(position * 100) : int((position + length) * 100)] = 10 ** rng.uniform(-2, 0)
            position += length + rng.uniform(0.1, 2.0) * self.pause
        noise = rng.standard_normal(SECOND).astype(np.float32)
        gains = np.repeat(levels.astype(np.float32), 160)[:count]
        return gains * np.resize(noise, count)


SCENES = st.builds(
    Scene,
    seed=st.integers(0, 2**32 - 1),
    seconds=st.sampled_from((40.0, 299.9, 330.0, 331.0, 640.5, 905.3, 1231.7)),
    speech=st.sampled_from((0.3, 2.0, 20.0, 1000.0)),
    pause=st.sampled_from((0.01, 0.4, 3.0, 60.0, 1e6)),
    noise=st.sampled_from((0.0, 1e-4, 0.01, 0.3)),
)


def blocks_of(samples: Samples, size: int) -> Iterator[Samples]:
    return (samples[start : start + size] for start in range(0, len(samples), size))


def contents(chunks: Iterable[Chunk]) -> list[tuple[object, ...]]:
    return [
        (chunk.section, chunk.pieces, chunk.speech, chunk.samples.tobytes()) for chunk in chunks
    ]


def spans_of(bounds: list[int]) -> list[Span]:
    """Return spans that begin at nominal points; the last has no end."""
    starts = sorted({0, *bounds})
    return [Span(first, last) for first, last in pairwise(starts)] + [Span(starts[-1])]


@few_examples
@given(
    SCENES,
    st.sampled_from(VADS),
    st.sampled_from((1000, 16_000, 70_001)),
    st.lists(st.integers(1, 5), max_size=4),
    st.booleans(),
)
def test_the_spans_of_a_recording_have_its_chunks(
    scene: Scene, vad: Vad, size: int, bounds: list[int], *, exact: bool
) -> None:
    samples = scene.samples()
    options = Options(vad=not isinstance(vad, NoVad))
    expected = contents(chunk_recording(blocks_of(samples, SECOND), options, vad))
    parts: list[tuple[object, ...]] = []
    for span in spans_of(bounds):
        position = span.start if exact else 0
        blocks = blocks_of(samples[position : span.end], size)
        parts += contents(chunk_recording(blocks, options, vad, span=span, position=position))
    assert parts == expected
