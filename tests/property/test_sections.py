"""The chunks of a span are exactly those that the whole recording has there."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from whisperbatch.chunking.merge import chunks
from whisperbatch.options import Options
from whisperbatch.protocols import Vad
from whisperbatch.sections import chunk_recording
from whisperbatch.types import SEARCH, SECTION, Chunk, Samples, Span, SpeechFrames
from whisperbatch.vad import NoVad
from whisperbatch.vad.levels import FRAME, CalibratedVad, GainControlledVad, reblock

SECOND = 16_000
MEMORY = 0.95  # of the fake network: its state forgets half of a block of 2 s in 28 s

few_examples = settings(max_examples=10, deadline=None, derandomize=True)


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
            state = max(MEMORY * state + (1 - MEMORY) * float(levels.mean()), 1e-9)
            yield SpeechFrames(samples, (levels / (levels + 0.7 * state)).astype(np.float32))


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


def contents(found: Iterable[Chunk]) -> list[tuple[object, ...]]:
    return [(chunk.section, chunk.pieces, chunk.speech, chunk.samples.tobytes()) for chunk in found]


RANGES = st.lists(
    st.tuples(st.floats(0.0, 400.0), st.floats(0.5, 700.0)), max_size=3
)  # pauses before the ranges, and their lengths, in seconds


def clips_of(lengths: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Return ranges in order, in whole hundredths of a second."""
    clips: list[tuple[float, float]] = []
    position = 0.0
    for pause, length in lengths:
        start = round(position + pause, 2)
        clips.append((start, round(start + length, 2)))
        position = clips[-1][1]
    return tuple(clips)


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
    RANGES,
    st.booleans(),
)
def test_the_spans_of_a_recording_have_its_chunks(  # noqa: PLR0917 - values of hypothesis
    scene: Scene,
    vad: Vad,
    size: int,
    bounds: list[int],
    ranges: list[tuple[float, float]],
    exact: bool,
) -> None:
    """Spans of any lengths at any nominal points; their audio is complete, or only what they need.

    The fake network and the levels around a span depend on audio for minutes, so a state that is
    not forgotten at a point gives other chunks.
    """
    samples = scene.samples()
    options = Options(vad=not isinstance(vad, NoVad), clip_timestamps=clips_of(ranges))
    expected = contents(chunk_recording(blocks_of(samples, SECOND), options, vad))
    parts: list[tuple[object, ...]] = []
    for span in spans_of(bounds):
        position = span.start if exact else 0
        end = span.end_of_clips if ranges else span.end
        blocks = blocks_of(samples[position:end], size)
        parts += contents(chunk_recording(blocks, options, vad, span=span, position=position))
    assert parts == expected


@few_examples
@given(SCENES, st.sampled_from(VADS), st.sampled_from((1000, 16_000, 70_001)))
def test_no_chunk_crosses_a_point_and_points_are_in_their_windows(
    scene: Scene, vad: Vad, size: int
) -> None:
    options = Options(vad=not isinstance(vad, NoVad))
    samples = scene.samples()
    found = list(chunk_recording(blocks_of(samples, size), options, vad))
    last = max((len(samples) - SEARCH) // SECTION, 0)
    assert all(0 <= chunk.section <= last for chunk in found)
    for before, after in pairwise(found):
        assert before.end <= after.start
        if before.section < after.section:
            assert before.end < after.section * SECTION + SEARCH
            assert after.start >= after.section * SECTION
        else:
            assert before.section == after.section


@few_examples
@given(SCENES, st.sampled_from(VADS))
def test_a_recording_of_less_than_five_minutes_has_the_chunks_of_one_run_of_the_vad(
    scene: Scene, vad: Vad
) -> None:
    samples = replace(scene, seconds=min(scene.seconds, 299.9)).samples()
    options = Options(vad=not isinstance(vad, NoVad))
    whole = contents(chunks(vad([samples]), options, vad.hop))
    assert contents(chunk_recording(blocks_of(samples, SECOND), options, vad)) == whole
