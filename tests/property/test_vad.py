"""Silero's probabilities do not depend on the sizes of the blocks in which a recording arrives."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from faster_whisper.vad import get_vad_model
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.recordings import Recording
from tests.examples import up_to
from whisperbatch.chunking.spans import SpanFinder
from whisperbatch.options import Options
from whisperbatch.types import Samples, SpeechFrames, SpeechSpan
from whisperbatch.vad import weights
from whisperbatch.vad.levels import BLOCK, FRAME, reblock
from whisperbatch.vad.silero import SileroVad

SECOND = 16_000

few_examples = settings(max_examples=12, deadline=None, derandomize=True)


@pytest.fixture(scope="module")
def vad() -> SileroVad:
    return SileroVad()


@pytest.fixture(scope="module")
def samples(speech: Recording) -> Samples:
    """Return a minute of speech with pauses, loud noise, silence, music-like tones and speech.

    The length is not a multiple of the VAD frame.
    """
    rng = np.random.default_rng(5)
    time = np.arange(6 * SECOND) / SECOND
    tones = sum(np.sin(2 * np.pi * hertz * time) for hertz in (220.0, 277.2, 329.6))
    parts = (
        speech.samples[: 40 * SECOND] / 32768,
        0.3 * rng.standard_normal(5 * SECOND),
        np.zeros(3 * SECOND),
        0.1 * tones,
        speech.samples[40 * SECOND : 47 * SECOND + 77] / 32768,
    )
    return np.concatenate(parts).astype(np.float32)


@pytest.fixture(scope="module")
def expected_frames(vad: SileroVad, samples: Samples) -> list[SpeechFrames]:
    return list(vad([samples]))


def split_at(samples: Samples, positions: Iterable[int]) -> Iterator[Samples]:
    inner_bounds = (position % (len(samples) + 1) for position in positions)
    bounds = sorted({0, len(samples), *inner_bounds})
    for first, last in pairwise(bounds):
        yield samples[first:last]


def split_every(samples: Samples, size: int) -> Iterator[Samples]:
    for start in range(0, len(samples), size):
        yield samples[start : start + size]


def joined_probabilities(frames: Iterable[SpeechFrames]) -> npt.NDArray[np.float32]:
    return np.concatenate([block.probabilities for block in frames])


def find_spans(frames: Iterable[SpeechFrames], length: int) -> list[SpeechSpan]:
    finder = SpanFinder(Options(), FRAME)
    spans = [span for block in frames for span in finder.push(block)]
    return [*spans, *finder.finish(length)]


@few_examples
@given(positions=st.lists(st.integers(0, 2**31), max_size=40))
@example(positions=[1])
@example(positions=[BLOCK - 1, BLOCK, BLOCK + 1])
@example(positions=[0, 0, -1])
def test_probabilities_do_not_depend_on_where_blocks_end(
    vad: SileroVad, samples: Samples, expected_frames: list[SpeechFrames], positions: list[int]
) -> None:
    frames = list(vad(split_at(samples, positions)))
    assert joined_probabilities(frames).tobytes() == joined_probabilities(expected_frames).tobytes()
    assert np.concatenate([block.samples for block in frames]).tobytes() == samples.tobytes()
    assert find_spans(frames, len(samples)) == find_spans(expected_frames, len(samples))


def test_probabilities_equal_those_of_faster_whisper(
    samples: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = [(name, file) for name, file in weights.WEIGHTS if name.startswith("faster")]
    monkeypatch.setattr(weights, "WEIGHTS", packages)
    probabilities = joined_probabilities(SileroVad()([samples]))
    # faster-whisper overwrites the last 64 samples with zeros: append a VAD frame of zeros.
    padded = np.pad(samples, (0, -len(samples) % FRAME + FRAME))
    expected = np.ravel(get_vad_model()(padded))[:-1]
    assert probabilities.shape == expected.shape
    np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-5)


def test_speech_is_distinguished_from_noise_and_silence(
    expected_frames: list[SpeechFrames],
) -> None:
    probabilities = joined_probabilities(expected_frames)
    frames_per_second = SECOND / FRAME
    noise_to_music = probabilities[int(41 * frames_per_second) : int(53 * frames_per_second)]
    assert noise_to_music.max() < 0.5
    assert (probabilities[: int(40 * frames_per_second)] > 0.5).mean() > 0.5


def test_spans_contain_the_utterances(vad: SileroVad, speech: Recording) -> None:
    recording = (speech.samples / 32768).astype(np.float32)
    spans = find_spans(vad(split_every(recording, 4000)), len(recording))
    inside = np.zeros(len(recording), bool)
    for span in spans:
        inside[span.start : span.end] = True
    for utterance in speech.utterances:
        covered = inside[int(utterance.start * SECOND) : int(utterance.end * SECOND)]
        assert covered.mean() > 0.6, utterance.text
    assert inside.mean() < 0.95


def test_recordings_in_progress_together_do_not_affect_each_other(
    vad: SileroVad, samples: Samples, expected_frames: list[SpeechFrames]
) -> None:
    reversed_samples = samples[::-1].copy()
    expected = [
        joined_probabilities(expected_frames),
        joined_probabilities(vad([reversed_samples])),
    ]
    iterators = [vad(split_every(samples, 5000)), vad(split_every(reversed_samples, 5000))]
    outputs: list[list[SpeechFrames]] = [[], []]
    for blocks in zip(*iterators, strict=True):
        for output, block in zip(outputs, blocks, strict=True):
            output.append(block)
    for output, probabilities in zip(outputs, expected, strict=True):
        assert joined_probabilities(output).tobytes() == probabilities.tobytes()
    with ThreadPoolExecutor(4) as pool:
        recordings = [samples, reversed_samples] * 2
        results = pool.map(lambda recording: joined_probabilities(vad([recording])), recordings)
        for result, probabilities in zip(results, expected * 2, strict=True):
            assert result.tobytes() == probabilities.tobytes()


@settings(max_examples=up_to(100), deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 2 * BLOCK + 3), max_size=8))
def test_reblock(lengths: list[int]) -> None:
    audio = np.arange(sum(lengths), dtype=np.float32)
    bounds = [0, *np.cumsum(lengths, dtype=int).tolist()]
    blocks = list(reblock(audio[first:last] for first, last in pairwise(bounds)))
    np.testing.assert_array_equal(np.concatenate([np.zeros(0, np.float32), *blocks]), audio)
    assert all(len(block) == BLOCK for block in blocks[:-1])
    assert all(0 < len(block) <= BLOCK for block in blocks[-1:])
