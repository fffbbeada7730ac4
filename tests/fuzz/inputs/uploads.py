"""Files that hostile requests carry: media bombs, playlists, damaged media."""

import functools
import io
import struct
from collections.abc import Callable
from random import Random
from typing import Final

import av
import numpy as np

from benchmarks import recordings
from benchmarks.recordings import SAMPLING_RATE

BOMB_RATE = 8000  # Hz
BOMB_SECONDS = 3600  # more than the server's longest duration

PLAYLISTS = (
    "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{target}\n#EXT-X-ENDLIST\n",
    '#EXTM3U\n#EXT-X-KEY:METHOD=AES-128,URI="{target}"\n#EXTINF:1,\n{target}\n',
    "ffconcat version 1.0\nfile '{target}'\nduration 10\n",
    "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=audio {port} RTP/AVP 0\n",
    '<?xml version="1.0"?><MPD><Period><BaseURL>{target}</BaseURL></Period></MPD>',
    "[playlist]\nFile1={target}\nNumberOfEntries=1\n",
    "<smil><body><audio src='{target}'/></body></smil>",
    "{target}\n",
)


@functools.cache
def speech() -> bytes:
    """Three seconds of speech as WAV."""
    samples = recordings.prompts("en", duration=3).samples
    return wav(samples.astype("<i2").tobytes())


def wav(data: bytes, stated: int | None = None) -> bytes:
    """Return a WAV file whose header states a number of bytes."""
    size = len(data) if stated is None else stated
    form = struct.pack("<HHIIHH", 1, 1, SAMPLING_RATE, 2 * SAMPLING_RATE, 2, 16)
    riff = struct.pack("<4sI4s4sI", b"RIFF", min(size + 36, 2**32 - 1), b"WAVE", b"fmt ", 16)
    return riff + form + struct.pack("<4sI", b"data", size) + data


@functools.cache
def bomb(container: str, codec: str) -> bytes:
    """Return an hour of silence in a small file."""
    file = io.BytesIO()
    with av.open(file, "w", format=container) as output:
        stream = output.add_stream(codec, rate=BOMB_RATE, layout="mono")
        assert isinstance(stream, av.AudioStream)
        for start in range(0, BOMB_SECONDS, 60):
            silence = np.zeros((1, 60 * BOMB_RATE), np.int16)
            frame = av.AudioFrame.from_ndarray(silence, format="s16", layout="mono")
            frame.sample_rate, frame.pts = BOMB_RATE, start * BOMB_RATE
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return file.getvalue()


def media(rng: Random, port: int) -> bytes:
    """Return a hostile file. Playlists name a port of this machine, and files."""
    return rng.choice(KINDS)(rng, port)


def _bomb(rng: Random, _: int) -> bytes:
    return bomb(*rng.choice((("flac", "flac"), ("ogg", "libopus"))))


def _playlist(rng: Random, port: int) -> bytes:
    target = rng.choice((f"http://127.0.0.1:{port}/a.ts", "file:///etc/passwd", "/etc/passwd"))
    return rng.choice(PLAYLISTS).format(target=target, port=port).encode()


def _false_size(rng: Random, _: int) -> bytes:
    return wav(rng.randbytes(rng.randrange(2000)), stated=2**32 - 1)


def _random(rng: Random, _: int) -> bytes:
    head = rng.choice((b"", b"fLaC", b"OggS", b"\x1aE\xdf\xa3", b"ID3", b"\xff\xfb", b"....ftyp"))
    return head + rng.randbytes(rng.randrange(20_000))


def _cut(rng: Random, _: int) -> bytes:
    return bomb("flac", "flac")[: rng.randrange(5000)]


def _damaged(rng: Random, _: int) -> bytes:
    damaged = bytearray(speech())
    for _ in range(rng.randrange(1, 40)):
        damaged[rng.randrange(200 if rng.random() < 0.5 else len(damaged))] = rng.randrange(256)
    return bytes(damaged)


KINDS: Final[tuple[Callable[[Random, int], bytes], ...]] = (
    *(_bomb, _playlist, _false_size, _random, _cut, _damaged),
)
