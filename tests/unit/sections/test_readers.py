"""Sections that are read at the same time: the same chunks, in order, and the same errors."""

import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import up_to
from tests.unit.fakes import LoudVad, noise
from whisperbatch.options import Options
from whisperbatch.sections import Readers, chunk_recording
from whisperbatch.types import (
    SAMPLING_RATE,
    WHOLE,
    Chunk,
    Samples,
    SectionSound,
    Span,
    SpeechFrames,
    to_samples,
)

OPTIONS = Options(speech_pad=0.0)
LOUD = LoudVad({0.01: 0.9})


def talk(seconds: float, seed: int = 0) -> Samples:
    """Noise of random lengths, and pauses."""
    rng, length = Random(seed), 0.0  # noqa: S311 - no cryptography
    parts: list[Samples] = []
    while length < seconds:
        speech, pause = rng.uniform(0.5, 40), rng.uniform(0.1, 4)
        parts += [noise(speech), np.zeros(to_samples(pause), np.float32)]
        length += speech + pause
    return np.concatenate(parts)[: to_samples(seconds)]


def blocks_of(samples: Samples, position: int = 0) -> Iterator[Samples]:
    for start in range(position, len(samples), SAMPLING_RATE):
        yield samples[start : start + SAMPLING_RATE]


@dataclass(frozen=True)
class UnevenVad:
    """A Vad whose sections take different times, so that threads overtake each other."""

    hop = LOUD.hop
    seed: int = 0

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        rng = Random(self.seed)  # noqa: S311 - no cryptography
        for frames in LOUD(blocks):
            if rng.random() < 0.1:
                time.sleep(rng.choice((0.0, 0.001, 0.005)))
            yield frames


def readers(count: int) -> Readers:
    return Readers(lambda: count)


def found(
    samples: Samples, count: int, options: Options = OPTIONS, span: Span = WHOLE
) -> list[tuple[object, ...]]:
    blocks = blocks_of(samples, span.start)
    return [
        key(chunk)
        for chunk in chunk_recording(
            blocks,
            options,
            UnevenVad(count),
            span=span,
            position=span.start,
            readers=readers(count),
        )
    ]


def key(chunk: Chunk) -> tuple[object, ...]:
    return (chunk.index, chunk.section, chunk.pieces, chunk.speech, chunk.samples.tobytes())


TALK = talk(2100)
CLIPS = ((20.0, 330.0), (331.0, 332.0), (340.5, 1500.0), (1500.0, None))


@pytest.mark.parametrize("count", [2, 3, 8])
def test_the_chunks_are_those_of_one_reader(count: int) -> None:
    one = found(TALK, 1)
    assert {section for _, section, *_ in one} == set(range(7))
    assert found(TALK, count) == one


@pytest.mark.parametrize("options", [Options(clip_timestamps=CLIPS), Options(vad=False)])
def test_the_chunks_of_clips_and_without_the_vad(options: Options) -> None:
    assert found(TALK, 4, options) == found(TALK, 1, options)


@pytest.mark.parametrize("span", [Span(0, 1), Span(1, 3), Span(2), Span(6), Span(7), Span(9, 12)])
def test_the_chunks_of_a_span(span: Span) -> None:
    assert found(TALK, 4, span=span) == found(TALK, 1, span=span)


@settings(max_examples=up_to(12), deadline=None)
@given(st.integers(0, 1000), st.floats(1, 1400), st.integers(2, 9))
def test_recordings_of_any_length(seed: int, seconds: float, count: int) -> None:
    samples = talk(seconds, seed)
    assert found(samples, count) == found(samples, 1)


@pytest.mark.parametrize("seconds", [200, 310, 640, 1300])
def test_an_error_comes_after_the_chunks_before_it(seconds: int) -> None:
    def broken() -> Iterator[Samples]:
        yield from blocks_of(TALK[: seconds * SAMPLING_RATE])
        raise OSError("unplugged")

    def until_error(count: int) -> list[tuple[object, ...]]:
        result: list[tuple[object, ...]] = []
        chunks = chunk_recording(broken(), OPTIONS, UnevenVad(), readers=readers(count))
        with pytest.raises(OSError, match="unplugged"):
            result.extend(map(key, chunks))
        return result

    assert until_error(4) == until_error(1)


def test_an_error_of_the_vad_is_raised_in_its_section() -> None:
    class Failing:
        hop = LOUD.hop

        def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
            seconds = 0.0
            for frames in LOUD(blocks):
                seconds += len(frames.samples) / SAMPLING_RATE
                yield frames
                if seconds > 200:
                    raise ValueError("the network failed")

    whole = found(TALK, 1)
    result: list[tuple[object, ...]] = []
    chunks = chunk_recording(blocks_of(TALK), OPTIONS, Failing(), readers=readers(4))
    with pytest.raises(ValueError, match="the network failed"):
        result.extend(map(key, chunks))
    assert result == whole[: len(result)]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_audio_that_is_held_is_limited(count: int) -> None:
    """Of a reader, a section and its overlaps: on the tape or in chunks."""
    read = 0

    def counted() -> Iterator[Samples]:
        nonlocal read
        for block in blocks_of(TALK):
            read += len(block)
            yield block

    for chunk in chunk_recording(counted(), OPTIONS, LOUD, readers=readers(count)):
        ahead = read - chunk.end
        assert ahead <= to_samples(count * 300 + 170)


def test_one_reader_needs_no_thread() -> None:
    before = threading.active_count()
    chunks = chunk_recording(blocks_of(TALK), OPTIONS, LOUD, readers=readers(1))
    next(chunks)
    assert threading.active_count() == before


def test_recordings_share_the_readers() -> None:
    """While a recording has all places, another has one thread."""
    shared, most = readers(3), 0

    class Counting:
        hop = LOUD.hop

        def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
            nonlocal most
            most = max(most, shared._reading)
            return LOUD(blocks)

    vad = Counting()
    one, other = (chunk_recording(blocks_of(TALK), OPTIONS, vad, readers=shared) for _ in range(2))
    both = [(key(first), key(second)) for first, second in zip(one, other, strict=True)]
    assert [pair[0] for pair in both] == [pair[1] for pair in both] == found(TALK, 1)
    assert 2 <= most <= 4


def test_a_stop_ends_all_threads() -> None:
    before = set(threading.enumerate())
    chunks = chunk_recording(blocks_of(TALK), OPTIONS, UnevenVad(), readers=readers(4))
    next(chunks)
    assert set(threading.enumerate()) > before
    chunks.close()  # type: ignore[attr-defined]  # a generator
    assert set(threading.enumerate()) <= before


def test_each_section_is_measured() -> None:
    def sounds(count: int) -> list[SectionSound]:
        result: list[SectionSound] = []
        chunks = chunk_recording(
            blocks_of(TALK), OPTIONS, UnevenVad(), readers=readers(count), on_section=result.append
        )
        assert list(chunks)
        return sorted(result, key=lambda sound: sound.start)

    assert sounds(4) == sounds(1)


def test_a_source_that_comes_slowly_gives_its_first_chunk_at_once() -> None:
    """The first section does not wait for the audio of the second."""
    given = 0

    def slow() -> Iterator[Samples]:
        nonlocal given
        for block in blocks_of(TALK):
            given += 1
            if given > 100:
                time.sleep(0.002)
            yield block

    chunks = chunk_recording(slow(), OPTIONS, LOUD, readers=readers(4))
    assert next(chunks).index == 0
    assert given < 250
