"""What Silero says of a recording does not depend on how the recording arrives."""

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
from whisperbatch.chunking.merge import chunks
from whisperbatch.chunking.spans import SpanFinder
from whisperbatch.options import Options
from whisperbatch.types import Chunk, Samples, SpeechFrames, SpeechSpan
from whisperbatch.vad import silero
from whisperbatch.vad.framing import BLOCK, FRAME, reblock
from whisperbatch.vad.silero import SileroVad

SECOND = 16_000

modest = settings(max_examples=12, deadline=None, derandomize=True)


@pytest.fixture(scope="module")
def vad() -> SileroVad:
    return SileroVad()


@pytest.fixture(scope="module")
def samples(speech: Recording) -> Samples:
    """A minute: speech with pauses, then loud noise, silence and music-like tones; no round end."""
    rng = np.random.default_rng(5)
    time = np.arange(6 * SECOND) / SECOND
    tones = sum(np.sin(2 * np.pi * f * time) for f in (220.0, 277.2, 329.6))
    parts = (
        speech.samples[: 40 * SECOND] / 32768,
        0.3 * rng.standard_normal(5 * SECOND),
        np.zeros(3 * SECOND),
        0.1 * tones,
        speech.samples[40 * SECOND : 47 * SECOND + 77] / 32768,
    )
    return np.concatenate(parts).astype(np.float32)


@pytest.fixture(scope="module")
def whole(vad: SileroVad, samples: Samples) -> list[SpeechFrames]:
    return list(vad([samples]))


def cut(samples: Samples, cuts: Iterable[int]) -> Iterator[Samples]:
    bounds = sorted({0, len(samples), *(cut % (len(samples) + 1) for cut in cuts)})
    for first, last in pairwise(bounds):
        yield samples[first:last]


def every(samples: Samples, size: int) -> Iterator[Samples]:
    for start in range(0, len(samples), size):
        yield samples[start : start + size]


def joined(frames: Iterable[SpeechFrames]) -> npt.NDArray[np.float32]:
    return np.concatenate([block.probabilities for block in frames])


def spans_of(frames: Iterable[SpeechFrames], length: int) -> list[SpeechSpan]:
    finder = SpanFinder(Options(), FRAME)
    spans = [span for block in frames for span in finder.push(block)]
    return [*spans, *finder.finish(length)]


def contents(found: Iterable[Chunk]) -> list[tuple[object, ...]]:
    return [(c.index, c.pieces, c.speech, c.samples.tobytes()) for c in found]


@modest
@given(cuts=st.lists(st.integers(0, 2**31), max_size=40))
@example(cuts=[1])
@example(cuts=[BLOCK - 1, BLOCK, BLOCK + 1])
@example(cuts=[0, 0, -1])
def test_however_it_is_cut_it_is_the_same(
    vad: SileroVad, samples: Samples, whole: list[SpeechFrames], cuts: list[int]
) -> None:
    frames = list(vad(cut(samples, cuts)))
    assert joined(frames).tobytes() == joined(whole).tobytes()
    assert np.concatenate([block.samples for block in frames]).tobytes() == samples.tobytes()
    assert spans_of(frames, len(samples)) == spans_of(whole, len(samples))


@pytest.mark.parametrize("size", [160, 511, 512, 1024, 4000, BLOCK - 1, BLOCK, BLOCK + 1, 10**6])
def test_whatever_the_block_size_spans_and_chunks_are_the_same(
    vad: SileroVad, samples: Samples, whole: list[SpeechFrames], size: int
) -> None:
    options = Options(chunk_length=8, max_silence=0.5)
    frames = list(vad(every(samples, size)))
    assert joined(frames).tobytes() == joined(whole).tobytes()
    spans = spans_of(frames, len(samples))
    assert spans == spans_of(whole, len(samples))
    assert len(spans) > 5
    found = contents(chunks(frames, options, vad.hop))
    assert found == contents(chunks(whole, options, vad.hop))
    assert len(found) > 3


def test_equals_faster_whisper_on_the_whole_file(
    samples: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_weights = [(name, file) for name, file in silero.WEIGHTS if name.startswith("faster")]
    monkeypatch.setattr(silero, "WEIGHTS", own_weights)
    found = joined(SileroVad()([samples]))
    # It overwrites the last 64 samples that it is given with zeros: so give it zeros there.
    padded = np.pad(samples, (0, -len(samples) % FRAME + FRAME))
    expected = np.ravel(get_vad_model()(padded))[:-1]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_speech_is_told_from_noise_and_silence(whole: list[SpeechFrames]) -> None:
    probabilities = joined(whole)
    frames_a_second = SECOND / FRAME
    noise_to_music = probabilities[int(41 * frames_a_second) : int(53 * frames_a_second)]
    assert noise_to_music.max() < 0.5
    assert (probabilities[: int(40 * frames_a_second)] > 0.5).mean() > 0.5


def test_truth_lies_inside_the_spans(vad: SileroVad, speech: Recording) -> None:
    recording = (speech.samples / 32768).astype(np.float32)
    spans = spans_of(vad(every(recording, 4000)), len(recording))
    inside = np.zeros(len(recording), bool)
    for span in spans:
        inside[span.start : span.end] = True
    for utterance in speech.utterances:
        spoken = inside[int(utterance.start * SECOND) : int(utterance.end * SECOND)]
        assert spoken.mean() > 0.6, utterance.text
    assert inside.mean() < 0.95


def test_recordings_side_by_side_do_not_mix(
    vad: SileroVad, samples: Samples, whole: list[SpeechFrames]
) -> None:
    other = samples[::-1].copy()
    wanted = [joined(whole), joined(vad([other]))]
    turns = [vad(every(samples, 5000)), vad(every(other, 5000))]
    mixed: list[list[SpeechFrames]] = [[], []]
    for pair in zip(*turns, strict=True):
        for taken, block in zip(mixed, pair, strict=True):
            taken.append(block)
    for taken, expected in zip(mixed, wanted, strict=True):
        assert joined(taken).tobytes() == expected.tobytes()
    with ThreadPoolExecutor(4) as pool:
        results = pool.map(lambda audio: joined(vad([audio])), [samples, other] * 2)
        for result, expected in zip(results, wanted * 2, strict=True):
            assert result.tobytes() == expected.tobytes()


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 2 * BLOCK + 3), max_size=8))
def test_reblock(lengths: list[int]) -> None:
    audio = np.arange(sum(lengths), dtype=np.float32)
    bounds = [0, *np.cumsum(lengths, dtype=int).tolist()]
    blocks = list(reblock(audio[first:last] for first, last in pairwise(bounds)))
    np.testing.assert_array_equal(np.concatenate([np.zeros(0, np.float32), *blocks]), audio)
    assert all(len(block) == BLOCK for block in blocks[:-1])
    assert all(0 < len(block) <= BLOCK for block in blocks[-1:])
