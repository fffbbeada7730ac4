"""Gaps, joined recordings and clocks that start late, in the containers that have time stamps."""

import io
from collections.abc import Callable, Mapping
from functools import cache
from typing import BinaryIO

import av
import numpy as np
import pytest

from tests.unit.media_files import bursts, encode, onset, pipe
from whisperbatch.audio.reader import open_audio
from whisperbatch.types import SAMPLING_RATE, Notice, Samples, Source

RATE = 48_000
LENGTH = 20.0  # seconds; the bursts are at 2 s and 15 s
FRAGMENTS = {"movflags": "frag_keyframe+empty_moov", "frag_duration": "1000000"}
CONTAINERS: dict[str, tuple[str, str, Mapping[str, str]]] = {
    "webm": ("webm", "libopus", {}),
    "mkv": ("matroska", "flac", {}),
    "mp4": ("mp4", "aac", {}),
    "fragmented mp4": ("mp4", "aac", FRAGMENTS),
    "flv": ("flv", "aac", {}),
    "nut": ("nut", "libopus", {}),
    "asf": ("asf", "libmp3lame", {}),
    "ogg": ("ogg", "libopus", {}),
    "ts": ("mpegts", "aac", {}),
    "mpg": ("mpeg", "mp2", {}),
}


class Pipe:
    """A file that can only be written, so that no program states a duration in it."""

    def __init__(self) -> None:
        self.file = io.BytesIO()

    def write(self, data: bytes) -> int:
        return self.file.write(data)


@cache
def sound(codec: str) -> bytes:
    return encode([bursts([2, 15], LENGTH, RATE)], "matroska", codec, rate=RATE)


def shifted(kind: str, shift: Callable[[float], float], *, live: bool = False) -> bytes:
    """Copy the packets of `sound` into a container, with moved time stamps."""
    container, codec, options = CONTAINERS[kind]
    output_file = Pipe() if live else io.BytesIO()
    with (
        av.open(io.BytesIO(sound(codec)), "r") as source,
        av.open(output_file, "w", format=container, options=dict(options)) as output,
    ):
        copy = output.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(audio=0):
            if packet.pts is None or packet.dts is None:
                continue
            ticks = round(shift(float(packet.pts * packet.time_base)) / packet.time_base)
            packet.pts += ticks
            packet.dts += ticks
            packet.stream = copy
            output.mux(packet)
    return (output_file.file if isinstance(output_file, Pipe) else output_file).getvalue()


def read(source: Source) -> tuple[Samples, tuple[Notice, ...]]:
    with open_audio(source) as reader:
        return np.concatenate(list(reader.blocks())), reader.notices.all()


@pytest.mark.parametrize("gap", [50, 90, 600])
@pytest.mark.parametrize("kind", ["webm", "mkv", "fragmented mp4", "flv"])
def test_gap_of_a_live_recording(kind: str, gap: int) -> None:
    samples, notices = read(shifted(kind, lambda time: gap * (time >= 8), live=True))
    assert onset(samples) == pytest.approx(2, abs=0.05)
    assert onset(samples, after=8 + gap) == pytest.approx(15 + gap, abs=0.05)
    assert len(samples) / SAMPLING_RATE == pytest.approx(LENGTH + gap, abs=0.1)
    assert not notices


@pytest.mark.parametrize(
    "kind", ["webm", "mkv", "mp4", "fragmented mp4", "flv", "nut", "asf", "ogg"]
)
def test_gap_of_a_recording_with_a_duration(kind: str) -> None:
    samples, notices = read(shifted(kind, lambda time: 90 * (time >= 8)))
    assert onset(samples, after=98) == pytest.approx(105, abs=0.05)
    assert len(samples) / SAMPLING_RATE == pytest.approx(LENGTH + 90, abs=0.1)
    assert not notices


@pytest.mark.parametrize("kind", ["webm", "flv", "fragmented mp4"])
def test_gap_in_a_pipe(kind: str) -> None:
    file: BinaryIO
    with pipe(shifted(kind, lambda time: 90 * (time >= 8), live=True)) as file:
        samples, _ = read(file)
    assert onset(samples, after=98) == pytest.approx(105, abs=0.05)


@pytest.mark.parametrize("kind", ["ts", "mpg"])
@pytest.mark.parametrize("gap", [7, 90, 20_000])
def test_clock_of_a_broadcast_is_reset(kind: str, gap: int) -> None:
    """FFmpeg itself takes a jump of more than 10 s for a reset of the clock in these formats."""
    samples, notices = read(shifted(kind, lambda time: gap * (time >= 8)))
    silence = gap if gap < 10 else 0
    assert onset(samples, after=8 + silence) == pytest.approx(15 + silence, abs=0.1)
    assert len(samples) / SAMPLING_RATE == pytest.approx(LENGTH + silence, abs=0.1)
    assert [notice.kind for notice in notices] == ([] if silence else ["time"])
    if notices:
        assert notices[0].start == pytest.approx(8, abs=0.1)
        assert notices[0].end == pytest.approx(LENGTH, abs=0.1)


@pytest.mark.parametrize("kind", ["webm", "mkv", "ts", "mpg", "ogg", "nut"])
def test_joined_recordings_follow_one_another(kind: str) -> None:
    part = shifted(kind, lambda _: 0, live=kind in ("webm", "mkv"))
    samples, notices = read(part + part)
    assert onset(samples, after=LENGTH) == pytest.approx(LENGTH + 2, abs=0.1)
    assert onset(samples, after=LENGTH + 4) == pytest.approx(LENGTH + 15, abs=0.1)
    assert len(samples) / SAMPLING_RATE == pytest.approx(2 * LENGTH, abs=0.1)
    assert not notices


@pytest.mark.parametrize("kind", ["ts", "mpg", "ogg"])
@pytest.mark.parametrize("late", [False, True])
def test_joined_recordings_with_different_clocks(kind: str, *, late: bool) -> None:
    parts = [shifted(kind, lambda _: 0), shifted(kind, lambda _: 600)]
    samples, _ = read(b"".join(parts if late else reversed(parts)))
    assert onset(samples, after=LENGTH + 4) == pytest.approx(LENGTH + 15, abs=0.1)
    assert len(samples) / SAMPLING_RATE == pytest.approx(2 * LENGTH, abs=0.1)


@pytest.mark.parametrize("kind", ["webm", "mkv", "fragmented mp4", "flv", "ts", "ogg"])
def test_clock_that_starts_hours_late(kind: str) -> None:
    samples, notices = read(shifted(kind, lambda _: 5 * 3600))
    assert onset(samples, after=8) == pytest.approx(15, abs=0.1)
    assert len(samples) / SAMPLING_RATE == pytest.approx(LENGTH, abs=0.1)
    assert not notices


def test_clock_of_a_transport_stream_wraps() -> None:
    wrap = 2**33 / 90_000
    samples, notices = read(shifted("ts", lambda _: wrap - 8))
    assert onset(samples, after=8) == pytest.approx(15, abs=0.1)
    assert len(samples) / SAMPLING_RATE == pytest.approx(LENGTH, abs=0.1)
    assert not notices


def test_sound_pauses_while_the_picture_goes_on() -> None:
    film = encode([bursts([2, 15], 60, RATE)], "matroska", "aac", rate=RATE, video="mpeg4")
    file = io.BytesIO()
    with av.open(io.BytesIO(film), "r") as source, av.open(file, "w", format="mpegts") as output:
        copies = [output.add_stream_from_template(stream) for stream in source.streams]
        for packet in source.demux():
            if packet.pts is None or packet.dts is None:
                continue
            time = float(packet.pts * packet.time_base)
            if packet.stream.type == "video" or not 20 <= time < 55:
                packet.stream = copies[packet.stream.index]
                output.mux(packet)
    samples, notices = read(file.getvalue())
    assert len(samples) / SAMPLING_RATE == pytest.approx(60, abs=0.2)
    assert not notices
