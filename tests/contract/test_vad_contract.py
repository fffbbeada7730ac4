"""Every Vad that `open_vad` returns satisfies `protocols.Vad`."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from whisperbatch.options import Options
from whisperbatch.protocols import Vad
from whisperbatch.types import Samples, SpeechFrames
from whisperbatch.vad import open_vad

SECOND = 16_000
LENGTHS = (1, 63, 511, 512, 513, SECOND, 2 * SECOND, 5 * SECOND + 1, 9 * SECOND)  # samples
MAX_HELD = 35 * SECOND  # samples that a Vad may have read, but not yielded


def check_vad(vad: Vad) -> None:
    """Raise AssertionError if `vad` violates `protocols.Vad`."""
    assert isinstance(vad, Vad)
    assert vad.hop > 0
    assert list(vad([])) == []
    assert sum(len(block.samples) for block in vad([np.zeros(0, np.float32)])) == 0
    for length in LENGTHS:
        audio = modulated_noise(length)
        expected = check_call(vad, [audio])
        for size in (1000, vad.hop, length // 2 + 1):
            assert check_call(vad, split(audio, size)).tobytes() == expected.tobytes()
    check_threads(vad)
    check_read_ahead(vad)
    check_error(vad)


def check_call(vad: Vad, blocks: list[Samples]) -> Samples:
    """Return the probabilities of a recording, after a check that its samples are unchanged."""
    for block in blocks:
        block.flags.writeable = False
    output = list(vad(blocks))
    output_samples = np.concatenate([frames.samples for frames in output])
    np.testing.assert_array_equal(output_samples, np.concatenate(blocks))
    for number, frames in enumerate(output, 1):
        assert frames.samples.dtype == frames.probabilities.dtype == np.float32
        assert frames.probabilities.shape == (-(-len(frames.samples) // vad.hop),)
        assert number == len(output) or len(frames.samples) % vad.hop == 0
    probabilities = np.concatenate([frames.probabilities for frames in output])
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
    return probabilities


def check_threads(vad: Vad) -> None:
    recordings = [modulated_noise(length) for length in LENGTHS]
    expected = [check_call(vad, [recording]) for recording in recordings]
    with ThreadPoolExecutor(4) as pool:
        results = pool.map(lambda recording: check_call(vad, [recording]), recordings * 2)
        for probabilities, expected_probabilities in zip(results, expected * 2, strict=True):
            np.testing.assert_array_equal(probabilities, expected_probabilities)


def check_read_ahead(vad: Vad) -> None:
    """Check that an endless recording is read at most `MAX_HELD` samples ahead of the output."""
    read = 0

    def endless() -> Iterator[Samples]:
        nonlocal read
        block = modulated_noise(SECOND)
        while True:
            read += len(block)
            yield block

    yielded = 0
    frames: Iterator[SpeechFrames] = vad(endless())
    while yielded < 60 * SECOND:
        yielded += len(next(frames).samples)
        assert read - yielded <= MAX_HELD


def check_error(vad: Vad) -> None:
    """Check that an exception of the source reaches the caller."""

    def broken() -> Iterator[Samples]:
        yield modulated_noise(SECOND)
        raise OSError("unplugged")

    with pytest.raises(OSError, match="unplugged"):
        list(vad(broken()))


def modulated_noise(length: int) -> Samples:
    rng = np.random.default_rng(length)
    envelope = np.sin(np.arange(length) / 3000) ** 2
    return (0.2 * envelope * rng.standard_normal(length)).astype(np.float32)


def split(audio: Samples, size: int) -> list[Samples]:
    return [audio[start : start + size] for start in range(0, len(audio), size)]


@pytest.mark.parametrize("vad", [True, False], ids=["silero", "no vad"])
def test_contract(vad: bool) -> None:
    check_vad(open_vad(Options(vad=vad)))


def test_no_vad_gives_every_frame_the_probability_1() -> None:
    output = open_vad(Options(vad=False))([modulated_noise(5 * SECOND + 1)])
    probabilities = np.concatenate([frames.probabilities for frames in output])
    assert len(probabilities) == 157
    assert (probabilities == 1).all()
