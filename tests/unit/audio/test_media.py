"""Damaged, cut off and unusual media: all sound keeps its time in the recording."""

import io
import logging
from functools import cache
from pathlib import Path

import av
import numpy as np
import psutil
import pytest

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
from whisperbatch.audio.reader import open_audio
from whisperbatch.errors import AudioError, OptionError
from whisperbatch.options import Options
from whisperbatch.types import SAMPLING_RATE

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
    container: str,
    codec: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
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
    with pytest.raises(AudioError, match=r"its start$"):  # nothing was read before
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
