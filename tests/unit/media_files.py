"""Media with known sound, encoded by PyAV in memory, and measurements of the decoded samples."""

import io
import os
import threading
import wave
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import BinaryIO

import av
import numpy as np
from av.audio.stream import AudioStream
from av.container import OutputContainer
from av.video.stream import VideoStream
from numpy.lib.stride_tricks import sliding_window_view

from whisperbatch.audio.reader import open_audio
from whisperbatch.options import Channel, Options
from whisperbatch.types import SAMPLING_RATE, Samples, Source

LEVEL = 0.3  # amplitude of all tones
BURST = 0.2  # seconds
BURST_TONE = 1000.0  # Hz


class UnseekableBytes(io.BytesIO):
    """A file that can only be read in order."""

    def seekable(self) -> bool:
        return False


def tone(frequency: float, seconds: float, rate: int = SAMPLING_RATE) -> Samples:
    times = np.arange(round(seconds * rate)) / rate
    return (LEVEL * np.sin(2 * np.pi * frequency * times)).astype(np.float32)


def bursts(times: Iterable[float], seconds: float, rate: int = SAMPLING_RATE) -> Samples:
    """Faint noise with a short tone at each of `times` (in seconds)."""
    noise = np.random.default_rng(1).standard_normal(round(seconds * rate)) * 1e-3
    samples = noise.astype(np.float32)
    for time in times:
        start = round(time * rate)
        samples[start : start + round(BURST * rate)] += tone(BURST_TONE, BURST, rate)
    return samples


def encode(
    channels: Sequence[Samples],
    container: str,
    codec: str,
    *,
    rate: int,
    layout: str = "mono",
    video: str | None = None,
    late: float = 0.0,
    more: Sequence[Samples] = (),
    options: Mapping[str, str] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> bytes:
    """Encode a media file; equal arguments give equal bytes.

    `late` is the time in seconds by which the picture precedes the sound; `more` holds the
    samples of further mono tracks; `metadata` holds the tags of the file.
    """
    file = io.BytesIO()
    with av.open(file, "w", format=container, options={"fflags": "bitexact"}) as output:
        output.metadata.update(metadata or {})
        picture = output.add_stream(video, rate=10) if video else None
        tracks = [output.add_stream(codec, rate=rate, layout=layout, options=dict(options or {}))]
        tracks += [output.add_stream(codec, rate=rate, layout="mono") for _ in more]
        if isinstance(picture, VideoStream):
            seconds = len(channels[0]) / rate + late
            _encode_picture(output, picture, frames=round(seconds * 10))
        for track, planes in zip(tracks, [channels, *([samples] for samples in more)], strict=True):
            assert isinstance(track, AudioStream)
            _encode_sound(output, track, np.stack(planes), first=round(late * rate))
    return file.getvalue()


def _encode_picture(output: OutputContainer, stream: VideoStream, frames: int) -> None:
    stream.width = stream.height = 64
    stream.pix_fmt = "yuv420p"
    stream.codec_context.thread_count = 1  # the bytes depend on the number of threads
    for number in range(frames):
        frame = av.VideoFrame(64, 64, "yuv420p")
        for plane in frame.planes:
            plane.update(bytes(plane.buffer_size))
        frame.pts, frame.time_base = number, Fraction(1, 10)
        output.mux(stream.encode(frame))
    output.mux(stream.encode(None))


def _encode_sound(
    output: OutputContainer, stream: AudioStream, planes: Samples, first: int
) -> None:
    for start in range(0, planes.shape[1], 1024):
        # PyAV cannot fill planar frames of more than seven channels
        block = np.ascontiguousarray(planes[:, start : start + 1024].T).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(block, format="flt", layout=stream.layout.name)
        frame.sample_rate = stream.rate
        frame.pts, frame.time_base = first + start, Fraction(1, stream.rate)
        output.mux(stream.encode(frame))
    output.mux(stream.encode(None))


def remux(
    media: bytes,
    container: str,
    keep: Callable[[float], bool] = lambda _: True,
    shift: Callable[[float], float] = lambda _: 0.0,
) -> bytes:
    """Copy the packets of the first audio track whose time passes `keep`, moved by `shift` (s)."""
    file = io.BytesIO()
    with av.open(io.BytesIO(media), "r") as source, av.open(file, "w", format=container) as output:
        stream = source.streams.audio[0]
        copy = output.add_stream_from_template(stream)
        for packet in source.demux(stream):
            if packet.pts is None or packet.dts is None:
                continue
            time = float(packet.pts * packet.time_base)
            if keep(time):
                ticks = round(shift(time) / packet.time_base)
                packet.pts += ticks
                packet.dts += ticks
                packet.stream = copy
                output.mux(packet)
    return file.getvalue()


def damage(media: bytes, start: float, length: int, seed: int = 0) -> bytes:
    """Overwrite `length` bytes with random bytes, beginning at `start` (0 to 1) of the file."""
    damaged = bytearray(media)
    first = int(len(media) * start)
    damaged[first : first + length] = np.random.default_rng(seed).bytes(length)
    return bytes(damaged)


def wav(rate: int, channels: int, width: int, samples: bytes) -> bytes:
    """A wav file of integer samples that take `width` bytes each."""
    file = io.BytesIO()
    with wave.open(file, "wb") as output:
        output.setnchannels(channels)
        output.setsampwidth(width)
        output.setframerate(rate)
        output.writeframes(samples)
    return file.getvalue()


def pipe(media: bytes) -> BinaryIO:
    """The reading end of a pipe; a thread writes `media` in pieces that do not match frames."""
    read_end, write_end = os.pipe()

    def write() -> None:
        with os.fdopen(write_end, "wb", buffering=0) as file:
            try:
                for start in range(0, len(media), 1000):
                    file.write(media[start : start + 1000])
            except BrokenPipeError:
                return

    threading.Thread(target=write, daemon=True).start()
    return os.fdopen(read_end, "rb")


def read(
    source: Source, *, track: int = 0, channel: Channel = "mix", sampling_rate: int | None = None
) -> Samples:
    """Read a recording completely, and check the properties that blocks must have."""
    options = Options(track=track, channel=channel, sampling_rate=sampling_rate)
    reader = open_audio(source, options)
    blocks: list[Samples] = []
    try:
        for block in reader.blocks():
            assert block.dtype == np.float32
            assert block.ndim == 1
            assert 0 < len(block) <= 2 * SAMPLING_RATE
            blocks.append(block)
            assert reader.position == sum(map(len, blocks))
    finally:
        reader.close()
    return np.concatenate(blocks)


def level(samples: Samples, frequency: float) -> float:
    """The amplitude of a tone of this frequency (Hz) in the middle half of `samples`."""
    middle = samples[len(samples) // 4 : -(len(samples) // 4)].astype(np.float64)
    wave = np.exp(-2j * np.pi * frequency * np.arange(len(middle)) / SAMPLING_RATE)
    window = np.hanning(len(middle))
    return float(2 * abs(np.sum(middle * wave * window)) / np.sum(window))


def onset(samples: Samples, after: float = 0.0) -> float:
    """The start of the first burst after `after` seconds, in seconds."""
    hop = SAMPLING_RATE // 200
    frame = 2 * hop  # 10 ms: ten periods of the tone
    start = round(after * SAMPLING_RATE)
    wave = np.exp(-2j * np.pi * BURST_TONE * np.arange(frame) / SAMPLING_RATE)
    frames = sliding_window_view(samples[start:], frame)[::hop]  # (n_frames, frame)
    loud = np.flatnonzero(2 * np.abs(frames @ wave) / frame > LEVEL / 2)
    assert len(loud), "no burst"
    return (start + int(loud[0]) * hop + hop) / SAMPLING_RATE
