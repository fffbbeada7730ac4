"""Recordings with unusual headers: of pipes, of editors, of live streams."""

import io
import struct

import av
import numpy as np
from av.audio.stream import AudioStream

from tests.unit.media_files import bursts, encode, tone, wav
from whisperbatch.types import SAMPLING_RATE

SECONDS = 20.0
RATE = 48_000


class Unseekable:
    """A file that can only be written in order, as a pipe: sizes in headers stay unknown."""

    def __init__(self) -> None:
        self.file = io.BytesIO()

    def write(self, data: bytes) -> int:
        return self.file.write(data)


def header(riff: int, data: int, *, name: bytes = b"RIFF", extra: bytes = b"") -> bytes:
    """A WAV file with 20 s of sound and the given sizes in its header."""
    sound = wav(SAMPLING_RATE, 1, 2, (tone(440, SECONDS) * 32767).astype("<i2").tobytes())
    return (
        name + struct.pack("<I", riff) + b"WAVE" + extra + sound[12:40] + struct.pack("<I", data)
    ) + sound[44:]


def unseekable(container: str, codec: str) -> bytes:
    output = Unseekable()
    samples = (tone(440, SECONDS) * 32767).astype(np.int16)[None]
    with av.open(output, "w", format=container) as file:
        stream = file.add_stream(codec, rate=SAMPLING_RATE, layout="mono")
        assert isinstance(stream, AudioStream)
        for start in range(0, samples.shape[1], 1024):
            frame = av.AudioFrame.from_ndarray(samples[:, start : start + 1024], "s16", "mono")
            frame.sample_rate = SAMPLING_RATE
            frame.pts = start
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    return output.file.getvalue()


def short_sound(container: str) -> bytes:
    """A film of 20 s whose sound ends after 10 s."""
    film = encode([bursts([2], SECONDS, RATE)], "matroska", "libopus", rate=RATE, video="libvpx")
    file = io.BytesIO()
    with av.open(io.BytesIO(film), "r") as source, av.open(file, "w", format=container) as output:
        copies = [output.add_stream_from_template(stream) for stream in source.streams]
        for packet in source.demux():
            if packet.dts is None or packet.pts is None:
                continue
            if packet.stream.type == "video" or packet.pts * packet.time_base < SECONDS / 2:
                packet.stream = copies[packet.stream.index]
                output.mux(packet)
    return file.getvalue()


def edited_mp3(media: bytes) -> bytes:
    """An MP3 file that an editor cut after a frame, with the header frame of the long file."""
    with av.open(io.BytesIO(media), "r") as container:
        ends = [p.pos + p.size for p in container.demux() if p.pos is not None and p.size]
    return media[: ends[len(ends) // 2]]


def late_webm(media: bytes) -> bytes:
    """A live recording whose stamps start at 600 s, and its duration counts from zero."""
    file = io.BytesIO()
    with av.open(io.BytesIO(media), "r") as source, av.open(file, "w", format="webm") as output:
        copy = output.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(audio=0):
            if packet.dts is None or packet.pts is None:
                continue
            packet.pts += 600_000
            packet.dts += 600_000
            packet.stream = copy
            output.mux(packet)
    return file.getvalue()
