"""The clock of a recording: jumps, gaps, joined recordings and late starts."""

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any, BinaryIO, cast

import av
import numpy as np
import pytest

from tests.unit.media_files import bursts, encode, onset, pipe
from tests.unit.strange_files import Unseekable
from whisperbatch.audio.clock import Clock, OtherTracks, Placed, Stamped, usable
from whisperbatch.audio.extent import Parts
from whisperbatch.audio.reader import open_audio
from whisperbatch.types import SAMPLING_RATE, Notice, Notices, Samples, Source

FRAME_LENGTH = 0.02  # seconds of a frame
SECONDS = 60.0  # of sound
MUTED_90 = "https://github.com/w3c/mediacapture-record/issues/195"
Stamps = Callable[[float], float | None]


@dataclass
class FakeTrack:
    """The properties of a track that the clock reads."""

    format: str = "matroska,webm"
    duration: float = 0.0
    others: OtherTracks = field(default_factory=OtherTracks)


def frames(stamp: Stamps, seconds: float = SECONDS) -> Iterator[Stamped]:
    """Frames of sound; `stamp` gives the time stamp of the frame at a time of the sound."""
    frame: Any = SimpleNamespace(
        samples=320, sample_rate=16_000, layout=SimpleNamespace(nb_channels=1)
    )
    frame.format = SimpleNamespace(bytes=4)
    for number in range(round(seconds / FRAME_LENGTH)):
        yield Stamped(frame, stamp(number * FRAME_LENGTH))


def place(stamp: Stamps, track: FakeTrack, seconds: float = SECONDS) -> tuple[list[Placed], Clock]:
    notices = Notices("recording")
    clock = Clock(cast("Any", track), Parts("a://b"), notices)
    placed = list(clock.place(frames(stamp, seconds)))
    clock.notices = notices  # type: ignore[attr-defined]
    return placed, clock


def doubts(clock: Clock) -> list[tuple[str, int]]:
    """Kind and start, in whole seconds, of each notice."""
    notices: Notices = clock.notices  # type: ignore[attr-defined]
    return [(notice.kind, round(notice.start)) for notice in notices.all()]


def gap(length: float, at: float = 20.0) -> Stamps:
    return lambda time: time + length * (time >= at)


def wrong(length: float, start: float, end: float) -> Stamps:
    return lambda time: time + length * (start <= time < end)


def bursty(time: float) -> float:
    """Stamps of packets that arrive together every 0.3 s."""
    return time // 0.3 * 0.3 + 0.3


def film(end: float) -> OtherTracks:
    others = OtherTracks()
    for second in range(round(end)):
        others.add(float(second), 1.0)
    return others


# situation, source, stamps, properties of the track, seconds of silence, doubts
JUMPS: dict[str, tuple[str, Stamps, FakeTrack, float, list[tuple[str, int]]]] = {
    "microphone muted for 90 s, no duration": (MUTED_90, gap(90), FakeTrack(), 90, []),
    "laptop asleep for an hour, no duration": (MUTED_90, gap(3600), FakeTrack(), 3600, []),
    "Opus with DTX: a packet each 0.4 s in silence": (
        "https://github.com/pion/webrtc/issues/3141",
        lambda time: time + 0.38 * min(max(round((time - 20) / FRAME_LENGTH), 0), 100),
        FakeTrack(),
        38,
        [],
    ),
    "gap of a network fault in a transport stream": (
        "https://github.com/SYSTRAN/faster-whisper/issues/128",
        gap(7.5),
        FakeTrack("mpegts", 67.5),
        7.5,
        [],
    ),
    "sound of a broadcast is off while the picture goes on": (
        "https://github.com/morpheus65535/bazarr/pull/2647",
        gap(40),
        FakeTrack("mpegts", 100, film(100)),
        40,
        [],
    ),
    "encoder restarts: the clock of a transport stream jumps by hours": (
        "https://github.com/small-teton/mpeg-ts-analyzer/issues/22",
        gap(16_000),
        FakeTrack("mpegts", 16_060),
        0,
        [("time", 20)],
    ),
    "advertisement in a live stream: the clock jumps back": (
        "https://github.com/video-dev/hls.js/issues/283",
        gap(-12),
        FakeTrack("mpegts", 60),
        0,
        [("time", 20)],
    ),
    "recordings of a browser were joined: the second starts at 0": (
        "https://github.com/streamproc/MediaStreamRecorder/issues/44",
        lambda time: time % 30,
        FakeTrack(),
        0,
        [],
    ),
    "joined recordings, and the header states the first one": (
        "https://github.com/muaz-khan/WebRTC-Experiment/issues/393",
        gap(600, at=30),
        FakeTrack(duration=30),
        600,
        [],
    ),
    "one packet has an absurd stamp": (
        "https://github.com/MediaArea/MediaInfoLib/issues/648",
        wrong(47_700, 20, 20.02),
        FakeTrack(),
        0,
        [],
    ),
    "a whole cluster has wrong stamps": (
        "https://github.com/MediaArea/MediaInfoLib/issues/648",
        wrong(47_700, 20, 25),
        FakeTrack(duration=60),
        0,
        [],
    ),
    "stamps that overflow 32 bits": (
        "https://github.com/bluenviron/mediamtx/issues/622",
        gap(2**32 / 1000),
        FakeTrack("flv"),
        0,
        [("time", 20)],
    ),
    "packets of a camera arrive in bursts": (
        "https://github.com/blakeblackshear/frigate/issues/7720",
        bursty,
        FakeTrack(),
        0,
        [],
    ),
    "two recorders overlap by 0.5 s": (
        "https://github.com/youtube/js_mse_eme/issues/29",
        gap(-0.5),
        FakeTrack("mov,mp4,m4a,3gp,3g2,mj2"),
        0,
        [],
    ),
    "the recorder's sampling rate is 4 % too low": (
        "https://github.com/davedoesdev/webm-muxer.js/issues/6",
        lambda time: time * 0.96,
        FakeTrack(),
        0,
        [("time", 27)],
    ),
    "captured sound is lost bit by bit": (
        "https://github.com/webadderallorg/Recordly/issues/809",
        lambda time: time + time // 2 * 0.5,
        FakeTrack(duration=75),
        14.5,
        [],
    ),
    "frames without stamps": (
        "https://github.com/horgh/videostreamer/issues/5",
        lambda time: None if round(time / FRAME_LENGTH) % 10 else time,
        FakeTrack(),
        0,
        [],
    ),
    "the sound starts 90 s after the picture, no duration": (
        "https://github.com/davedoesdev/webm-muxer.js/issues/13",
        lambda time: time + 90,
        FakeTrack(others=film(150)),
        90,
        [],
    ),
    "the last packet has an absurd stamp": (
        "https://github.com/MediaArea/MediaInfoLib/issues/648",
        gap(5000, at=59.97),
        FakeTrack(),
        0,
        [("time", 60)],
    ),
}


@pytest.mark.parametrize(
    ("source", "stamp", "track", "silence", "expected"), JUMPS.values(), ids=JUMPS
)
def test_jumps_of_the_time_stamps(
    source: str, stamp: Stamps, track: FakeTrack, silence: float, expected: list[tuple[str, int]]
) -> None:
    assert source.startswith("https://")
    placed, clock = place(stamp, track)
    assert len(placed) == round(SECONDS / FRAME_LENGTH), "a frame was lost"
    assert sum(each.gap for each in placed) == pytest.approx(silence, abs=0.1)
    assert clock.decoded == pytest.approx(SECONDS + silence, abs=0.1)
    found = doubts(clock)
    assert [kind for kind, _ in found] == [kind for kind, _ in expected]
    for (_, start), (_, second) in zip(found, expected, strict=True):
        assert start == pytest.approx(second, abs=2)


def test_frames_follow_one_another() -> None:
    placed, _ = place(gap(90), FakeTrack())
    end = 0.0
    for each in placed:
        assert each.start == pytest.approx(end + each.gap)
        end = each.start + FRAME_LENGTH


def test_the_look_ahead_is_bounded() -> None:
    read = 0

    def counted() -> Iterator[Stamped]:
        nonlocal read
        for stamped in frames(gap(90, at=1)):
            read += 1
            yield stamped

    clock = Clock(cast("Any", FakeTrack()), Parts("a://b"), Notices("recording"))
    ahead = []
    for number, _ in enumerate(clock.place(counted()), 1):
        ahead.append(read - number)
    assert max(ahead) * FRAME_LENGTH == pytest.approx(10, abs=0.1)
    assert max(ahead[:40]) == 0, "frames were held without a jump"


def test_held_frames_are_bounded_in_memory() -> None:
    def large() -> Iterator[Stamped]:
        for stamped in frames(gap(90, at=1)):
            frame: Any = stamped.frame
            frame.layout = SimpleNamespace(nb_channels=8000)  # 10 MB for each frame
            yield stamped

    clock = Clock(cast("Any", FakeTrack()), Parts("a://b"), Notices("recording"))
    assert sum(each.gap for each in clock.place(large())) == pytest.approx(90)


@pytest.mark.parametrize(("stamp", "expected"), [(1.5, 1.5), (None, None), (float("nan"), None)])
def test_usable_stamps(stamp: float | None, expected: float | None) -> None:
    assert usable(stamp) == expected


def test_other_tracks_between_two_times() -> None:
    others = film(100)
    assert others.end == 100
    assert others.between(20, 60)
    assert not others.between(120, 160)


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


@cache
def sound(codec: str) -> bytes:
    return encode([bursts([2, 15], LENGTH, RATE)], "matroska", codec, rate=RATE)


def shifted(kind: str, shift: Callable[[float], float], *, live: bool = False) -> bytes:
    """Copy the packets of `sound` into a container, with moved time stamps."""
    container, codec, options = CONTAINERS[kind]
    output_file = Unseekable() if live else io.BytesIO()
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
    return (output_file.file if isinstance(output_file, Unseekable) else output_file).getvalue()


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
