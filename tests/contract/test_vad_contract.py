"""Every Vad that is registered keeps the protocol's promises."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from whisperbatch.options import VadOptions
from whisperbatch.protocols import Vad
from whisperbatch.types import Samples, SpeechFrames
from whisperbatch.vad import open_vad

SECOND = 16_000
LENGTHS = (1, 63, 511, 512, 513, SECOND, 2 * SECOND, 5 * SECOND + 1, 9 * SECOND)
HELD = 35 * SECOND  # samples that a Vad may hold back


def check_vad(vad: Vad) -> None:
    """Raises AssertionError where `vad` breaks `protocols.Vad`."""
    assert isinstance(vad, Vad)
    assert vad.hop > 0
    assert list(vad([])) == []
    assert sum(len(block.samples) for block in vad([np.zeros(0, np.float32)])) == 0
    for length in LENGTHS:
        audio = sound(length)
        expected = check_call(vad, [audio])
        for size in (1000, vad.hop, length // 2 + 1):
            assert check_call(vad, every(audio, size)).tobytes() == expected.tobytes()
    check_threads(vad)
    check_held(vad)
    check_error(vad)


def check_call(vad: Vad, blocks: list[Samples]) -> Samples:
    """The probabilities of one recording, and that its samples come through."""
    for given_block in blocks:
        given_block.flags.writeable = False
    frames = list(vad(blocks))
    given = np.concatenate(blocks)
    np.testing.assert_array_equal(np.concatenate([f.samples for f in frames]), given)
    for number, block in enumerate(frames, 1):
        assert block.samples.dtype == block.probabilities.dtype == np.float32
        assert block.probabilities.shape == (-(-len(block.samples) // vad.hop),)
        assert number == len(frames) or len(block.samples) % vad.hop == 0
    probabilities = np.concatenate([f.probabilities for f in frames])
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
    return probabilities


def check_threads(vad: Vad) -> None:
    sounds = [sound(length) for length in LENGTHS]
    expected = [check_call(vad, [audio]) for audio in sounds]
    with ThreadPoolExecutor(4) as pool:
        for got, wanted in zip(
            pool.map(lambda audio: check_call(vad, [audio]), sounds * 2), expected * 2, strict=True
        ):
            np.testing.assert_array_equal(got, wanted)


def check_held(vad: Vad) -> None:
    """It reads no further ahead of what it has given than it may hold, however long it goes on."""
    read = 0

    def endless() -> Iterator[Samples]:
        nonlocal read
        block = sound(SECOND)
        while True:
            read += len(block)
            yield block

    given = 0
    frames: Iterator[SpeechFrames] = vad(endless())
    while given < 60 * SECOND:
        given += len(next(frames).samples)
        assert read - given <= HELD


def check_error(vad: Vad) -> None:
    """What its source raises comes through."""

    def broken() -> Iterator[Samples]:
        yield sound(SECOND)
        raise OSError("unplugged")

    with pytest.raises(OSError, match="unplugged"):
        list(vad(broken()))


def sound(length: int) -> Samples:
    rng = np.random.default_rng(length)
    swell = np.sin(np.arange(length) / 3000) ** 2
    return (0.2 * swell * rng.standard_normal(length)).astype(np.float32)


def every(audio: Samples, size: int) -> list[Samples]:
    return [audio[start : start + size] for start in range(0, len(audio), size)]


@pytest.mark.parametrize("vad", [True, False], ids=["silero", "everything"])
def test_contract(vad: bool) -> None:
    check_vad(open_vad(VadOptions(vad=vad)))


def test_everything_takes_every_frame_for_speech() -> None:
    frames = list(open_vad(VadOptions(vad=False))([sound(5 * SECOND + 1)]))
    probabilities = np.concatenate([f.probabilities for f in frames])
    assert len(probabilities) == 157
    assert (probabilities == 1).all()
