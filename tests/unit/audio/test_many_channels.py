"""Files with more channels than FFmpeg converts (64): they are mixed, or a channel is taken."""

import struct
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from av.audio.frame import AudioFrame
from av.audio.plane import AudioPlane

from tests.unit.fakes import FakeEngine
from tests.unit.media_files import level, read, tone
from whisperbatch import AudioError, Transcriber, open_audio
from whisperbatch.audio.resampling import Resampler
from whisperbatch.types import SAMPLING_RATE, Samples

SECONDS = 2
TONES = (440.0, 1000.0, 2500.0)  # of the first, the second and the last channel
INTEGER, FLOAT = 1, 3  # the kinds of samples in a wav file


def sound(channels: int) -> Samples:
    """Samples of shape (n_samples, channels)."""
    samples = np.zeros((SECONDS * SAMPLING_RATE, channels), np.float32)
    for index, frequency in zip((0, 1, channels - 1), TONES, strict=True):
        samples[:, index] = tone(frequency, SECONDS)
    return samples


def wav_file(samples: npt.NDArray[np.generic], kind: int = INTEGER) -> bytes:
    """A wav file; `samples` has the shape (n_samples, channels)."""
    channels, size = samples.shape[1], samples.itemsize
    rates = (SAMPLING_RATE, SAMPLING_RATE * channels * size, channels * size, 8 * size)
    header = struct.pack("<HHIIHH", kind, channels, *rates)
    data = samples.tobytes()
    chunks = struct.pack("<I", len(header)) + header + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(chunks) + 8) + b"WAVEfmt " + chunks


FORMATS: dict[str, Callable[[Samples], bytes]] = {
    "8 bit": lambda samples: wav_file(np.rint(samples * 128 + 128).astype("u1")),
    "16 bit": lambda samples: wav_file((samples * 2**15).astype("<i2")),
    "32 bit": lambda samples: wav_file((samples * 2.0**31).astype("<i4")),
    "float": lambda samples: wav_file(samples.astype("<f4"), FLOAT),
    "double": lambda samples: wav_file(samples.astype("<f8"), FLOAT),
}


@pytest.mark.parametrize("channels", [9, 65, 256])
@pytest.mark.parametrize("kind", FORMATS)
def test_all_channels_are_mixed(channels: int, kind: str) -> None:
    media = FORMATS[kind](sound(channels))
    np.testing.assert_allclose(read(media), sound(channels).mean(axis=1), atol=0.005)
    first, second = read(media, channel="left"), read(media, channel="right")
    np.testing.assert_allclose(first, tone(TONES[0], SECONDS), atol=0.005)
    np.testing.assert_allclose(second, tone(TONES[1], SECONDS), atol=0.005)


@pytest.mark.parametrize("channels", [65, 256])
def test_language_and_text_of_many_channels(channels: int) -> None:
    media = FORMATS["16 bit"](sound(channels))
    with open_audio(media) as reader, reader.random_access() as recording:
        assert recording is not None
        start, samples = recording.read(1.0, 0.5)
    first = round(start * SAMPLING_RATE)
    np.testing.assert_allclose(samples, read(media)[first : first + len(samples)], atol=1e-4)
    with Transcriber(FakeEngine()) as asr:
        assert asr.detect_language(media, vad=False).language == "fr"
        assert asr.transcribe(media, vad=False).segments


def test_another_rate_and_many_planes() -> None:
    """FFmpeg's decoders return planes; `frame.planes` would read beyond them."""
    planes = np.ascontiguousarray(sound(100).T)
    frame = AudioFrame(format="fltp", layout="100 channels", samples=planes.shape[1])
    for index, plane in enumerate(planes):
        AudioPlane(frame, index).update(plane)
    frame.sample_rate = 2 * SAMPLING_RATE  # twice as fast, so tones are twice as high
    resampler = Resampler("planes", "mix")
    samples = np.concatenate([*resampler.push(frame), *resampler.flush()])
    assert len(samples) == pytest.approx(SECONDS * SAMPLING_RATE / 2, abs=1)
    for frequency in TONES:
        assert level(samples, 2 * frequency) == pytest.approx(0.3 / 100, rel=0.02)


def test_a_thousand_channels_are_refused() -> None:
    with pytest.raises(AudioError, match="<bytes>: contains no sound that can be decoded"):
        read(FORMATS["16 bit"](np.zeros((100, 1000), np.float32)))
