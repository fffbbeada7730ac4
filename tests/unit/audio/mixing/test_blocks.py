"""Frames become blocks of all channels, beside exactly the plain mix."""

import io

import av
import numpy as np
import pytest

from tests.unit.audio.mixing.voices import noise
from tests.unit.media_files import wav
from whisperbatch.audio.resampling import ChannelBlock, ChannelResampler, Resampler
from whisperbatch.types import SAMPLING_RATE, Samples


def media(channels: int, rate: int, seconds: float = 2.0) -> bytes:
    whole = np.stack([noise(n, seconds * rate / SAMPLING_RATE) for n in range(channels)], axis=1)
    return wav(rate, channels, 2, np.round(whole * 32767).astype("<i2").tobytes())


def decoded(data: bytes) -> tuple[ChannelBlock, Samples]:
    """Return all channels, and the plain mix as `Resampler` makes it."""
    resampler, plain = ChannelResampler("memory"), Resampler("memory", "mix")
    blocks: list[ChannelBlock] = []
    mixes: list[Samples] = []
    with av.open(io.BytesIO(data), "r") as container:
        for frame in container.decode(audio=0):
            blocks += resampler.push(frame)
            mixes += plain.push(frame)
    blocks += resampler.flush()
    mixes += plain.flush()
    return ChannelBlock.joined(blocks), np.concatenate(mixes)


@pytest.mark.parametrize("rate", [16_000, 44_100])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 6, 7, 8, 9, 16, 64, 65, 130])
def test_all_channels_and_the_plain_mix(channels: int, rate: int) -> None:
    block, plain = decoded(media(channels, rate))
    assert block.channels.shape == (len(plain), channels)
    if channels <= 64:
        np.testing.assert_array_equal(block.mixed, plain)
    else:
        np.testing.assert_allclose(block.mixed, plain, atol=1e-6)
    assert len(plain) == pytest.approx(2 * SAMPLING_RATE, abs=1)
    if rate == SAMPLING_RATE:
        sent = np.stack([noise(n, 2.0) for n in range(channels)], axis=1)
        np.testing.assert_allclose(block.channels, sent, atol=1e-4)


def test_parts() -> None:
    block = ChannelBlock.of(np.arange(20, dtype=np.float32).reshape(10, 2))
    assert len(block.part(2, 5)) == 3
    joined = ChannelBlock.joined([block.part(0, 4), block.part(4)])
    np.testing.assert_array_equal(joined.channels, block.channels)
    np.testing.assert_array_equal(joined.mixed, block.mixed)
