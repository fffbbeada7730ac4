"""Formats, channels and tracks: the samples that come out of them."""

from pathlib import Path

import numpy as np
import pytest

from tests.unit.media_files import LEVEL, bursts, encode, level, onset, read, tone, wav
from whisperbatch.errors import AudioError
from whisperbatch.types import SAMPLING_RATE

STEREO = {
    "wav": ("wav", "pcm_s16le", 0.0),
    "wav of 24 bits": ("wav", "pcm_s24le", 0.0),
    "wav of floats": ("wav", "pcm_f32le", 0.0),
    "flac": ("flac", "flac", 0.0),
    "mp3": ("mp3", "libmp3lame", 0.0),
    "m4a": ("ipod", "aac", 0.03),  # seconds: encoder delay, and an incomplete last frame
    "adts": ("adts", "aac", 0.05),
    "ogg": ("ogg", "libopus", 0.0),
    "webm": ("webm", "libopus", 0.03),
}


@pytest.mark.parametrize(("container", "codec", "longer"), STEREO.values(), ids=STEREO)
def test_channels_are_averaged_or_selected(container: str, codec: str, longer: float) -> None:
    channels = [tone(440, 2, 48_000), tone(880, 2, 48_000)]
    recording = encode(channels, container, codec, rate=48_000, layout="stereo")
    mix, left, right = (read(recording, channel=name) for name in ("mix", "left", "right"))
    assert len(mix) == len(left) == len(right)
    assert len(mix) / SAMPLING_RATE == pytest.approx(2 + longer / 2, abs=longer / 2 + 0.002)
    levels = [(level(samples, 440), level(samples, 880)) for samples in (mix, left, right)]
    expected = [(LEVEL / 2, LEVEL / 2), (LEVEL, 0.0), (0.0, LEVEL)]
    np.testing.assert_allclose(levels, expected, atol=0.02)


@pytest.mark.parametrize(
    ("container", "codec", "rate"),
    [("wav", "pcm_u8", 8000), ("wav", "pcm_mulaw", 8000), ("g722", "g722", 16_000)],
)
def test_telephone_formats(container: str, codec: str, rate: int, tmp_path: Path) -> None:
    path = tmp_path / f"call.{container}"  # FFmpeg recognises g722 only by the file extension
    path.write_bytes(encode([tone(440, 2, rate)], container, codec, rate=rate))
    samples = read(path)
    assert len(samples) / SAMPLING_RATE == pytest.approx(2, abs=0.01)
    assert level(samples, 440) == pytest.approx(LEVEL, abs=0.01)


@pytest.mark.parametrize("late", [0.0, 1.5])
@pytest.mark.parametrize(
    ("container", "codec", "video"),
    [("mp4", "aac", "mpeg4"), ("webm", "libopus", "libvpx"), ("matroska", "aac", "mpeg4")],
)
def test_sound_of_a_video_keeps_its_times(
    container: str, codec: str, video: str, late: float
) -> None:
    sound = bursts([0.5, 1.5], 2, 48_000)
    samples = read(encode([sound], container, codec, rate=48_000, video=video, late=late))
    assert len(samples) / SAMPLING_RATE == pytest.approx(2 + late, abs=0.03)
    assert onset(samples) == pytest.approx(0.5 + late, abs=0.03)
    assert onset(samples, after=1 + late) == pytest.approx(1.5 + late, abs=0.03)


@pytest.mark.parametrize("container", ["matroska", "mp4"])
def test_second_track_can_be_selected(container: str) -> None:
    recording = encode([tone(440, 1)], container, "aac", rate=16_000, more=[tone(1000, 1)])
    assert level(read(recording), 440) == pytest.approx(LEVEL, abs=0.02)
    assert level(read(recording), 1000) == pytest.approx(0, abs=0.02)
    assert level(read(recording, track=1), 1000) == pytest.approx(LEVEL, abs=0.02)
    with pytest.raises(AudioError, match=r"track=2 does not exist: the file has 2 audio track"):
        read(recording, track=2)


def test_mix_of_six_channels_contains_all_but_the_subwoofer() -> None:
    channels = [tone(440 + 100 * number, 1) for number in range(6)]
    recording = encode(channels, "flac", "flac", rate=SAMPLING_RATE, layout="5.1")
    mix = read(recording)
    levels = [level(mix, 440 + 100 * number) for number in range(6)]
    assert levels[2] == max(levels)  # the centre channel, which carries speech
    assert all(value > 0.1 for number, value in enumerate(levels) if number != 3)
    assert level(read(recording, channel="right"), 540) == pytest.approx(LEVEL, abs=0.01)


@pytest.mark.parametrize("count", [3, 8, 9, 16, 32])
def test_any_number_of_channels(count: int) -> None:
    ramp = (tone(440, 1)[:, None] * 32767 * np.eye(count)[1]).astype(np.int16)  # only in channel 1
    recording = wav(SAMPLING_RATE, count, 2, ramp.tobytes())
    assert level(read(recording, channel="right"), 440) == pytest.approx(LEVEL, abs=0.01)
    assert level(read(recording, channel="left"), 440) == pytest.approx(0, abs=0.01)
    assert level(read(recording), 440) > LEVEL / count / 2
