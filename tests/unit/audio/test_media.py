"""Formats, channels, and damaged or unusual media: all sound keeps its time in the recording."""

import io
import logging
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import psutil
import pytest
from av.audio.frame import AudioFrame
from av.audio.plane import AudioPlane

from tests.unit.fakes import FakeEngine
from tests.unit.media_files import (
    LEVEL,
    bursts,
    damage,
    encode,
    level,
    onset,
    pipe,
    read,
    remux,
    tone,
    wav,
)
from whisperbatch import Transcriber
from whisperbatch.audio.reader import open_audio
from whisperbatch.audio.resampling import Resampler
from whisperbatch.errors import AudioError, OptionError
from whisperbatch.options import Options
from whisperbatch.types import SAMPLING_RATE, Samples

RATE = 48_000
LENGTH = 20.0  # seconds; the bursts are at 2 s and 15 s
JITTER = 0.1  # seconds: a smaller deviation of time stamps is not a gap
FORMATS = {
    "mp3": ("mp3", "libmp3lame"),
    "ac3": ("ac3", "ac3"),
    "m4a": ("ipod", "aac"),
    "flac": ("flac", "flac"),
    "ogg": ("ogg", "libopus"),
    "webm": ("webm", "libopus"),
    "ts": ("mpegts", "aac"),
}
formats = pytest.mark.parametrize(("container", "codec"), FORMATS.values(), ids=FORMATS)


@cache
def recording(container: str, codec: str) -> bytes:
    return encode([bursts([2, 15], LENGTH, RATE)], container, codec, rate=RATE)


class Failing(io.BytesIO):
    """A file that fails after `after` bytes."""

    def __init__(self, media: bytes, after: int) -> None:
        super().__init__(media)
        self._after = after

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() >= self._after:
            raise OSError(5, "the disk is on fire")
        return super().read(size)


@formats
def test_sound_after_damage_keeps_its_time(
    container: str, codec: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    media = recording(container, codec)
    samples = read(damage(media, 0.4, len(media) // 20))
    assert onset(samples) == pytest.approx(2, abs=0.05)
    assert onset(samples, after=4) == pytest.approx(15, abs=JITTER)
    assert len(samples) / SAMPLING_RATE == pytest.approx(LENGTH, abs=JITTER)
    (warning,) = (record for record in caplog.records if record.levelno == logging.WARNING)
    name, frames, missing, time = warning.args or ()
    assert name == "<bytes>"
    assert isinstance(frames, int)
    assert frames or missing
    assert time == pytest.approx(0.4 * LENGTH, abs=1.1)  # an ogg page holds one second
    assert capfd.readouterr().err == "", "FFmpeg wrote to the standard error stream"


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("kind", ["mp3", "m4a", "flac", "ogg", "ts"])
def test_a_few_lost_frames_do_not_shift_later_sound(kind: str, seed: int) -> None:
    samples = read(damage(recording(*FORMATS[kind]), 0.4, 300, seed))
    assert onset(samples, after=10) == pytest.approx(15, abs=0.03)


@formats
def test_truncated_file_is_read_up_to_its_end(container: str, codec: str) -> None:
    media = recording(container, codec)
    if container == "ipod":
        with pytest.raises(AudioError, match=r"<bytes>: is not media.*cut off"):
            read(media[: len(media) // 2])
        return
    samples = read(media[: len(media) // 2])
    assert onset(samples) == pytest.approx(2, abs=0.05)
    assert len(samples) / SAMPLING_RATE == pytest.approx(LENGTH / 2, abs=1.1)


def test_mp4_truncated_after_its_index(tmp_path: Path) -> None:
    path = tmp_path / "cut.mp4"
    with (
        av.open(io.BytesIO(recording("ipod", "aac")), "r") as source,
        av.open(str(path), "w", options={"movflags": "faststart"}) as output,
    ):
        copy = output.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(audio=0):
            if packet.dts is not None:
                packet.stream = copy
                output.mux(packet)
    media = path.read_bytes()
    path.write_bytes(media[: len(media) // 2])
    samples = read(path)
    assert onset(samples) == pytest.approx(2, abs=0.05)
    assert 8 < len(samples) / SAMPLING_RATE < 12
    with pipe(media) as file:
        assert onset(read(file), after=4) == pytest.approx(15, abs=0.05)


@pytest.mark.parametrize("gap", [0.5, 7.25])
@pytest.mark.parametrize(("container", "codec"), [("matroska", "flac"), ("webm", "libopus")])
def test_missing_frames_become_silence(container: str, codec: str, gap: float) -> None:
    media = remux(recording(container, codec), container, keep=lambda t: not 5 <= t < 5 + gap)
    samples = read(media)
    assert len(samples) / SAMPLING_RATE == pytest.approx(LENGTH, abs=0.03)
    assert onset(samples, after=4) == pytest.approx(15, abs=0.03)
    inside = samples[round(5.1 * SAMPLING_RATE) : round((4.9 + gap) * SAMPLING_RATE)]
    assert not inside.any()


def test_errors_of_many_gaps_do_not_add_up() -> None:
    media = remux(recording("matroska", "flac"), "matroska", keep=lambda t: t % 0.48 < 0.3)
    samples = read(media)
    assert onset(samples, after=4) == pytest.approx(15, abs=0.02)


def test_small_deviations_of_times_are_not_gaps() -> None:
    flac = recording("matroska", "flac")
    media = remux(flac, "matroska", shift=lambda t: 0.04 * (round(t * 10) % 2))
    np.testing.assert_array_equal(read(media), read(flac))


def test_absurd_times_are_ignored() -> None:
    flac = recording("matroska", "flac")
    media = remux(flac, "matroska", shift=lambda t: 1e6 if t > 8 else 0.0)
    samples = read(media)
    assert len(samples) == len(read(flac))
    assert onset(samples, after=4) == pytest.approx(15, abs=0.02)


def test_tag_between_two_mp3_files_is_not_lost_sound(caplog: pytest.LogCaptureFixture) -> None:
    mp3 = recording("mp3", "libmp3lame")
    picture = np.random.default_rng(0).bytes(200_000)  # would last 12 s as sound
    size = bytes(len(picture) >> shift & 0x7F for shift in (21, 14, 7, 0))
    samples = read(mp3 + b"ID3\x03\x00\x00" + size + picture + mp3)
    assert len(samples) / SAMPLING_RATE == pytest.approx(2 * LENGTH, abs=JITTER)
    assert onset(samples, after=30) == pytest.approx(LENGTH + 15, abs=JITTER)
    assert not caplog.records


def test_track_that_appears_later_is_ignored() -> None:
    first = recording("mpegts", "aac")
    second = encode([tone(440, 5, RATE)], "mpegts", "aac", rate=RATE, more=[tone(880, 5, RATE)])
    samples = read(first + second)  # the times restart at 0
    assert onset(samples, after=4) == pytest.approx(15, abs=0.05)
    assert len(samples) / SAMPLING_RATE == pytest.approx(LENGTH + 5, abs=JITTER)
    assert level(samples[round((LENGTH + 1) * SAMPLING_RATE) :], 440) == pytest.approx(
        LEVEL, abs=0.03
    )


def test_chained_ogg_files_are_read_one_after_another(caplog: pytest.LogCaptureFixture) -> None:
    parts = (bursts([0.5, 1.5], 2, RATE), bursts([1.25], 3, RATE))
    media = b"".join(encode([part], "ogg", "libopus", rate=RATE) for part in parts)
    samples = read(media)
    assert len(samples) / SAMPLING_RATE == pytest.approx(5, abs=0.03)
    assert onset(samples, after=1) == pytest.approx(1.5, abs=0.03)
    assert onset(samples, after=2) == pytest.approx(3.25, abs=0.03)
    assert not caplog.records


def test_format_may_change_within_a_track() -> None:
    mono = encode([tone(440, 2, RATE)], "mp3", "libmp3lame", rate=RATE)
    pair = [tone(440, 2, 44_100), tone(440, 2, 44_100)]
    stereo = encode(pair, "mp3", "libmp3lame", rate=44_100, layout="stereo")
    samples = read(mono + stereo)
    assert len(samples) / SAMPLING_RATE == pytest.approx(4, abs=0.2)
    assert level(samples[2 * SAMPLING_RATE :], 440) == pytest.approx(LEVEL, abs=0.03)


def test_blocks_last_one_second() -> None:
    with open_audio(recording("mp3", "libmp3lame"), Options()) as reader:
        sizes = [len(block) for block in reader.blocks()]
    assert set(sizes[:-1]) == {SAMPLING_RATE}
    assert reader.position == sum(sizes)
    assert reader.position / SAMPLING_RATE == pytest.approx(LENGTH, abs=0.03)


@pytest.mark.parametrize("name", ["12:30 notes.flac", "http:a.flac", "-.flac", "%03d ?*[a].flac"])
def test_unusual_file_names(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(encode([tone(440, 1)], "flac", "flac", rate=SAMPLING_RATE))
    assert level(read(name), 440) == pytest.approx(LEVEL, abs=0.01)


def test_mp4_in_a_pipe_is_refused_with_a_remedy() -> None:
    with pipe(recording("ipod", "aac")) as file, pytest.raises(AudioError, match="faststart"):
        read(file)


@pytest.mark.parametrize("after", [0, 200_000])
def test_failing_disk_is_an_error_and_not_the_end_of_the_file(after: int) -> None:
    file = Failing(recording("flac", "flac"), after)
    with pytest.raises(AudioError, match=r"<Failing>: cannot be .*the disk is on fire") as caught:
        read(file)
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.source == "<Failing>"


def test_file_at_its_end_is_refused_with_a_remedy() -> None:
    file = io.BytesIO(recording("flac", "flac"))
    file.seek(0, io.SEEK_END)
    with pytest.raises(AudioError, match=r"seek\(0\)"):
        read(file)
    file.seek(0)
    assert len(read(file)) == LENGTH * SAMPLING_RATE
    assert not file.closed
    # nothing was read before
    with pytest.raises(AudioError, match=r"its start; give a recording or a video$"):
        read(io.BytesIO(b"no media" * 9))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinite_samples(bad: float) -> None:
    sound = tone(440, 3)
    sound[20_000] = bad
    media = encode([sound], "wav", "pcm_f32le", rate=SAMPLING_RATE)
    with pytest.raises(AudioError, match=r"<bytes>: has NaN or infinite samples at 1\.250 s"):
        read(media)


@pytest.mark.parametrize("channels", [2, 100])
@pytest.mark.parametrize("values", [(3e38, 3e38), (np.inf, -np.inf)])
def test_channels_that_cannot_be_averaged_are_an_error(
    channels: int, values: tuple[float, float]
) -> None:
    frame = np.resize(np.array(values, "<f4"), channels)
    media = bytearray(wav(RATE, channels, frame.itemsize, np.tile(frame, RATE // 4).tobytes()))
    media[20:22] = b"\3\0"  # floating point numbers
    with pytest.raises(AudioError, match="has NaN or infinite samples"):
        read(bytes(media))


def test_level_is_limited_to_12_db_above_full_scale() -> None:
    sound = tone(440, 3)
    sound[20_000], sound[30_000] = 1e37, 1.5
    media = encode([sound], "wav", "pcm_f32le", rate=SAMPLING_RATE)
    samples = read(media)
    sound[20_000] = 4.0
    np.testing.assert_allclose(samples, sound, atol=1e-6)


def test_right_channel_of_a_mono_file() -> None:
    with pytest.raises(OptionError, match="channel='right': <bytes> has one channel"):
        read(recording("flac", "flac"), channel="right")


def test_all_files_are_closed(tmp_path: Path) -> None:
    good, bad, silent = (tmp_path / name for name in ("good.mp3", "bad.mp3", "silent.mp4"))
    good.write_bytes(recording("mp3", "libmp3lame"))
    bad.write_bytes(b"hello, world\n" * 100)
    silent.write_bytes(encode([tone(440, 1)], "mp4", "aac", rate=SAMPLING_RATE, video="mpeg4"))
    process = psutil.Process()
    before = process.num_fds()
    for _ in range(3):
        reader = open_audio(good, Options())
        blocks = reader.blocks()
        next(blocks)
        reader.close()
        assert next(blocks, None) is None
        reader.close()
        with pytest.raises(AudioError):
            open_audio(bad, Options())
        with pytest.raises(AudioError):
            open_audio(silent, Options(track=3))
        with pytest.raises(OptionError):
            open_audio(good, Options(channel="right"))
    assert process.num_fds() == before


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


SAMPLE_FORMATS: dict[str, Callable[[Samples], bytes]] = {
    "8 bit": lambda samples: wav_file(np.rint(samples * 128 + 128).astype("u1")),
    "16 bit": lambda samples: wav_file((samples * 2**15).astype("<i2")),
    "32 bit": lambda samples: wav_file((samples * 2.0**31).astype("<i4")),
    "float": lambda samples: wav_file(samples.astype("<f4"), FLOAT),
    "double": lambda samples: wav_file(samples.astype("<f8"), FLOAT),
}


@pytest.mark.parametrize("channels", [9, 65, 256])
@pytest.mark.parametrize("kind", SAMPLE_FORMATS)
def test_all_channels_are_mixed(channels: int, kind: str) -> None:
    media = SAMPLE_FORMATS[kind](sound(channels))
    np.testing.assert_allclose(read(media), sound(channels).mean(axis=1), atol=0.005)
    first, second = read(media, channel="left"), read(media, channel="right")
    np.testing.assert_allclose(first, tone(TONES[0], SECONDS), atol=0.005)
    np.testing.assert_allclose(second, tone(TONES[1], SECONDS), atol=0.005)


@pytest.mark.parametrize("channels", [65, 256])
def test_language_and_text_of_many_channels(channels: int) -> None:
    media = SAMPLE_FORMATS["16 bit"](sound(channels))
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
        read(SAMPLE_FORMATS["16 bit"](np.zeros((100, 1000), np.float32)))
