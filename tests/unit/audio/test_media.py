"""Decoding what is damaged, cut off, late or odd: every sound keeps its place."""

import io
import logging
import os
import threading
from functools import cache
from pathlib import Path
from typing import BinaryIO

import av
import numpy as np
import psutil
import pytest

from tests.unit.media_files import LEVEL, bursts, damage, encode, level, onset, read, remux, tone
from whisperbatch.audio.reader import open_audio
from whisperbatch.errors import AudioError, OptionError
from whisperbatch.options import AudioOptions
from whisperbatch.types import SAMPLING_RATE

RATE = 48_000
LENGTH = 20.0  # seconds, with bursts at 2 and 15
JITTER = 0.1  # seconds that times may be off before there is said to be a gap
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


def piped(media: bytes) -> BinaryIO:
    """The reading end of a pipe into which `media` is written."""
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as file:
            try:
                file.write(media)
            except BrokenPipeError:
                return

    threading.Thread(target=write, daemon=True).start()
    return os.fdopen(reading, "rb")


class Failing(io.BytesIO):
    """A file on a disk that fails after some bytes."""

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
    name, frames, missing, at = warning.args or ()
    assert name == "<bytes>"
    assert isinstance(frames, int)
    assert frames or missing
    assert at == pytest.approx(0.4 * LENGTH, abs=1.1)  # an ogg page holds a second
    assert capfd.readouterr().err == "", "FFmpeg talks to the user"


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("kind", ["mp3", "m4a", "flac", "ogg", "ts"])
def test_a_few_lost_frames_cost_no_time(kind: str, seed: int) -> None:
    samples = read(damage(recording(*FORMATS[kind]), 0.4, 300, seed))
    assert onset(samples, after=10) == pytest.approx(15, abs=0.03)


@formats
def test_a_cut_tail_loses_the_tail_alone(container: str, codec: str) -> None:
    media = recording(container, codec)
    if container == "ipod":
        with pytest.raises(AudioError, match=r"<bytes>: is not media.*cut off"):
            read(media[: len(media) // 2])
        return
    samples = read(media[: len(media) // 2])
    assert onset(samples) == pytest.approx(2, abs=0.05)
    assert len(samples) / SAMPLING_RATE == pytest.approx(LENGTH / 2, abs=1.1)


def test_mp4_cut_short_after_its_index(tmp_path: Path) -> None:
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
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    samples = read(path)
    assert onset(samples) == pytest.approx(2, abs=0.05)
    assert 8 < len(samples) / SAMPLING_RATE < 12
    with piped(whole) as pipe:
        assert onset(read(pipe), after=4) == pytest.approx(15, abs=0.05)


@pytest.mark.parametrize("gap", [0.5, 7.25])
@pytest.mark.parametrize(("container", "codec"), [("matroska", "flac"), ("webm", "libopus")])
def test_what_is_missing_is_silent(container: str, codec: str, gap: float) -> None:
    media = remux(recording(container, codec), container, keep=lambda t: not 5 <= t < 5 + gap)
    samples = read(media)
    assert len(samples) / SAMPLING_RATE == pytest.approx(LENGTH, abs=0.03)
    assert onset(samples, after=4) == pytest.approx(15, abs=0.03)
    inside = samples[round(5.1 * SAMPLING_RATE) : round((4.9 + gap) * SAMPLING_RATE)]
    assert not inside.any()


def test_many_gaps_do_not_add_up() -> None:
    media = remux(recording("matroska", "flac"), "matroska", keep=lambda t: t % 0.48 < 0.3)
    samples = read(media)
    assert onset(samples, after=4) == pytest.approx(15, abs=0.02)


def test_small_deviations_are_no_gaps() -> None:
    flac = recording("matroska", "flac")
    media = remux(flac, "matroska", shift=lambda t: 0.04 * (round(t * 10) % 2))
    np.testing.assert_array_equal(read(media), read(flac))


def test_absurd_times_are_not_believed() -> None:
    flac = recording("matroska", "flac")
    media = remux(flac, "matroska", shift=lambda t: 1e6 if t > 8 else 0.0)
    samples = read(media)
    assert len(samples) == len(read(flac))
    assert onset(samples, after=4) == pytest.approx(15, abs=0.02)


def test_a_tag_between_two_mp3_is_no_lost_sound(caplog: pytest.LogCaptureFixture) -> None:
    mp3 = recording("mp3", "libmp3lame")
    picture = np.random.default_rng(0).bytes(200_000)  # 12 s, were it sound
    size = bytes(len(picture) >> shift & 0x7F for shift in (21, 14, 7, 0))
    samples = read(mp3 + b"ID3\x03\x00\x00" + size + picture + mp3)
    assert len(samples) / SAMPLING_RATE == pytest.approx(2 * LENGTH, abs=JITTER)
    assert onset(samples, after=30) == pytest.approx(LENGTH + 15, abs=JITTER)
    assert not caplog.records


def test_a_track_that_appears_later_is_passed_over() -> None:
    first = recording("mpegts", "aac")
    second = encode([tone(440, 5, RATE)], "mpegts", "aac", rate=RATE, more=[tone(880, 5, RATE)])
    samples = read(first + second)  # and times that begin anew
    assert onset(samples, after=4) == pytest.approx(15, abs=0.05)
    assert len(samples) / SAMPLING_RATE == pytest.approx(LENGTH + 5, abs=JITTER)
    assert level(samples[round((LENGTH + 1) * SAMPLING_RATE) :], 440) == pytest.approx(
        LEVEL, abs=0.03
    )


def test_chained_ogg_files_follow_each_other(caplog: pytest.LogCaptureFixture) -> None:
    parts = (bursts([0.5, 1.5], 2, RATE), bursts([1.25], 3, RATE))
    media = b"".join(encode([part], "ogg", "libopus", rate=RATE) for part in parts)
    samples = read(media)
    assert len(samples) / SAMPLING_RATE == pytest.approx(5, abs=0.03)
    assert onset(samples, after=1) == pytest.approx(1.5, abs=0.03)
    assert onset(samples, after=2) == pytest.approx(3.25, abs=0.03)
    assert not caplog.records


def test_the_format_may_change_within_a_track() -> None:
    mono = encode([tone(440, 2, RATE)], "mp3", "libmp3lame", rate=RATE)
    pair = [tone(440, 2, 44_100), tone(440, 2, 44_100)]
    stereo = encode(pair, "mp3", "libmp3lame", rate=44_100, layout="stereo")
    samples = read(mono + stereo)
    assert len(samples) / SAMPLING_RATE == pytest.approx(4, abs=0.2)
    assert level(samples[2 * SAMPLING_RATE :], 440) == pytest.approx(LEVEL, abs=0.03)


def test_blocks_are_of_one_second() -> None:
    with open_audio(recording("mp3", "libmp3lame"), AudioOptions()) as reader:
        sizes = [len(block) for block in reader.blocks()]
    assert set(sizes[:-1]) == {SAMPLING_RATE}
    assert reader.position == sum(sizes)
    assert reader.position / SAMPLING_RATE == pytest.approx(LENGTH, abs=0.03)


@pytest.mark.parametrize("name", ["12:30 notes.flac", "http:a.flac", "-.flac", "%03d ?*[a].flac"])
def test_no_name_is_taken_for_anything_else(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(encode([tone(440, 1)], "flac", "flac", rate=SAMPLING_RATE))
    assert level(read(name), 440) == pytest.approx(LEVEL, abs=0.01)


@pytest.mark.parametrize("container", ["ogg", "webm"])
def test_a_pipe(container: str) -> None:
    media = recording(container, "libopus")
    with piped(media) as pipe:
        np.testing.assert_array_equal(read(pipe), read(media))
        assert not pipe.closed


def test_mp4_in_a_pipe_says_what_to_do() -> None:
    with piped(recording("ipod", "aac")) as pipe, pytest.raises(AudioError, match="faststart"):
        read(pipe)


@pytest.mark.parametrize("after", [0, 200_000])
def test_a_failing_disk_is_an_error_and_no_end(after: int) -> None:
    file = Failing(recording("flac", "flac"), after)
    with pytest.raises(AudioError, match=r"<Failing>: cannot be .*the disk is on fire") as caught:
        read(file)
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.source == "<Failing>"


def test_a_file_read_to_its_end() -> None:
    file = io.BytesIO(recording("flac", "flac"))
    file.seek(0, io.SEEK_END)
    with pytest.raises(AudioError, match=r"seek\(0\)"):
        read(file)
    file.seek(0)
    assert len(read(file)) == LENGTH * SAMPLING_RATE
    assert not file.closed


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_samples_that_are_no_numbers(bad: float) -> None:
    sound = tone(440, 3)
    sound[20_000] = bad
    media = encode([sound], "wav", "pcm_f32le", rate=SAMPLING_RATE)
    with pytest.raises(AudioError, match=r"<bytes>: has NaN or infinite samples at 1\.250 s"):
        read(media)


def test_no_damage_is_louder_than_12_db_over_full_scale() -> None:
    sound = tone(440, 3)
    sound[20_000], sound[30_000] = 1e37, 1.5
    media = encode([sound], "wav", "pcm_f32le", rate=SAMPLING_RATE)
    samples = read(media)
    sound[20_000] = 4.0
    np.testing.assert_allclose(samples, sound, atol=1e-6)


def test_the_right_of_one_channel() -> None:
    with pytest.raises(OptionError, match="channel='right': <bytes> has one channel"):
        read(recording("flac", "flac"), channel="right")


def test_no_file_stays_open(tmp_path: Path) -> None:
    good, bad, silent = (tmp_path / name for name in ("good.mp3", "bad.mp3", "silent.mp4"))
    good.write_bytes(recording("mp3", "libmp3lame"))
    bad.write_bytes(b"hello, world\n" * 100)
    silent.write_bytes(encode([tone(440, 1)], "mp4", "aac", rate=SAMPLING_RATE, video="mpeg4"))
    process = psutil.Process()
    before = process.num_fds()
    for _ in range(3):
        reader = open_audio(good, AudioOptions())
        blocks = reader.blocks()
        next(blocks)
        reader.close()
        assert next(blocks, None) is None
        reader.close()
        with pytest.raises(AudioError):
            open_audio(bad, AudioOptions())
        with pytest.raises(AudioError):
            open_audio(silent, AudioOptions(track=3))
        with pytest.raises(OptionError):
            open_audio(good, AudioOptions(channel="right"))
    assert process.num_fds() == before
