"""Undamaged media: real speech in many containers, encoded by PyAV."""

import functools
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType
from typing import Final

import av
import numpy as np

from benchmarks import clips
from tests.unit.media_files import encode, wav
from whisperbatch.types import SAMPLING_RATE, Samples

MAX_SAMPLES: Final = 500_000  # of all channels: longer media would only take more time
RATES: Final = (8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000)
MPEG_RATES: Final = (16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
OPUS_RATES: Final = (8_000, 12_000, 16_000, 24_000, 48_000)
AC3_RATES: Final = (32_000, 44_100, 48_000)
LAYOUTS: Final = ("mono", "stereo", "3.0", "quad", "5.0", "5.1", "6.1", "7.1")
TWO: Final = ("mono", "stereo")
PCM: Final = ("pcm_s16le", "pcm_u8", "pcm_s24le", "pcm_s32le", "pcm_f32le", "pcm_f64le")
BIG_ENDIAN: Final = ("pcm_s16be", "pcm_s24be", "pcm_mulaw", "pcm_alaw")


@dataclass(frozen=True)
class Codec:
    """An encoder, with the sampling rates and layouts that it accepts."""

    name: str
    rates: tuple[int, ...] = RATES
    layouts: tuple[str, ...] = TWO
    options: Mapping[str, str] = field(default_factory=dict)


def _pcm(*names: str, layouts: tuple[str, ...] = LAYOUTS) -> tuple[Codec, ...]:
    return tuple(Codec(name, layouts=layouts) for name in names)


AAC: Final = Codec("aac", MPEG_RATES, (*TWO, "5.1"))
MP3: Final = Codec("libmp3lame", MPEG_RATES)
MP2: Final = Codec("mp2", MPEG_RATES)
OPUS: Final = Codec("libopus", OPUS_RATES)
AC3: Final = Codec("ac3", AC3_RATES, (*TWO, "quad", "5.1"))
EAC3: Final = Codec("eac3", AC3_RATES, (*TWO, "5.1"))
FLAC: Final = Codec("flac", layouts=LAYOUTS)
ALAC: Final = Codec("alac", layouts=TWO)
VORBIS: Final = Codec("vorbis", (44_100, 48_000), ("stereo",), {"strict": "experimental"})
AMR: Final = tuple(
    Codec(name, (8_000,), ("mono",))
    for name in ("libopencore_amrnb",)
    if name in av.codecs_available  # PyAV 19 decodes AMR, but has no encoder
)
ADPCM: Final = (Codec("adpcm_ima_wav"), Codec("adpcm_ms"))
WMA: Final = tuple(
    Codec(name, (16_000, 22_050, 44_100), options={"b": "64000"}) for name in ("wmav2", "wmav1")
)

CONTAINERS: Final[Mapping[str, tuple[Codec, ...]]] = MappingProxyType(
    {
        "wav": (*_pcm(*PCM, "pcm_mulaw", "pcm_alaw"), *ADPCM),
        "mp3": (MP3,),
        "flac": (FLAC,),
        "ogg": (OPUS, VORBIS, FLAC),
        "mp4": (AAC, ALAC, AC3, OPUS),
        "mov": (AAC, *_pcm("pcm_s16le", "pcm_s16be", layouts=TWO)),
        "matroska": (OPUS, AAC, FLAC, MP3, *_pcm("pcm_s16le")),
        "webm": (OPUS, VORBIS),
        "mpegts": (AAC, MP2, AC3, OPUS),
        "mpeg": (MP2, AC3),
        "avi": (MP3, AC3, *_pcm("pcm_s16le", layouts=TWO)),
        "aiff": _pcm("pcm_s16be", "pcm_s24be", layouts=TWO),
        "caf": (ALAC, *_pcm("pcm_s16be", "pcm_s16le", layouts=TWO)),
        "au": _pcm(*BIG_ENDIAN),
        "asf": WMA,
        **({"amr": AMR} if AMR else {}),
        "adts": (AAC,),
        "w64": _pcm(*PCM),
        "ac3": (AC3,),
        "eac3": (EAC3,),
        "mp2": (MP2,),
        "tta": (Codec("tta", layouts=TWO),),
        "wv": (Codec("wavpack", layouts=TWO),),
        "voc": _pcm("pcm_u8", layouts=TWO),
        "flv": (Codec("libmp3lame", (22_050, 44_100)), Codec("aac", (44_100, 48_000))),
        "nut": (FLAC, MP3, OPUS),
        "3gp": (*AMR, AAC),
        "ircam": _pcm("pcm_s16le", layouts=TWO),
        "latm": (AAC,),
        "sox": (Codec("pcm_s32le", layouts=TWO),),
    }
)
"""The containers by FFmpeg's names, each with its codecs."""

VIDEO: Final = MappingProxyType(
    {
        "mp4": ("mpeg4", "libx264"),
        "mov": ("mpeg4",),
        "matroska": ("mpeg4", "libx264"),
        "mpegts": ("mpeg2video", "libx264"),
        "avi": ("mpeg4",),
        "nut": ("mpeg4",),
    }
)
"""The containers that get a video track in some cases, with its codecs."""

METADATA: Final = (
    {"title": "A talk"},
    {"title": "z" * 200, "comment": "\u202e \N{GRINNING FACE}"},
    {"encoder": "\r\n", "artist": "=cmd|' /C calc'!A0", "language": "xx"},
)

MANY_CHANNELS: Final = (9, 16, 33, 63, 64, 65, 66, 100, 128, 255, 256, 257, 999, 1000, 30_000)


@dataclass(frozen=True)
class Media:
    """A media file and its description."""

    content: bytes
    container: str
    text: str


def build(random: Random) -> Media:
    """Encode a random stretch of speech in a random container."""
    if random.random() < 0.04:
        return many_channels(random)
    container = random.choice(list(CONTAINERS))
    codec = random.choice(CONTAINERS[container])
    rate, layout = random.choice(codec.rates), random.choice(codec.layouts)
    channels = av.AudioLayout(layout).nb_channels
    seconds = min(random.uniform(0.5, 6), MAX_SAMPLES / rate / channels)
    video = random.choice(VIDEO[container]) if container in VIDEO and random.random() < 0.2 else ""
    tracks = random.choice((1, 2)) if container in ("mp4", "matroska", "mpegts", "mov") else 0
    tracks = tracks if random.random() < 0.3 else 0
    sound = speech(random, seconds, rate)
    planes = [np.roll(sound, 7 * number) for number in range(channels)]
    try:
        content = encode(
            planes,
            container,
            codec.name,
            rate=rate,
            layout=layout,
            video=video or None,
            late=random.choice((0.0, 0.0, 0.7)) if video else 0.0,
            more=[sound] * tracks,
            options=codec.options,
            metadata=random.choice(METADATA) if random.random() < 0.3 else None,
        )
    except (av.FFmpegError, ValueError) as error:  # an encoder that this FFmpeg does not have
        reason = f"{container}/{codec.name}: {error}".replace("\n", " ")
        pcm = (sound * 32_767).astype("<i2").tobytes()
        return Media(wav(rate, 1, 2, pcm), "wav", f"wav, because of {reason}")
    text = f"{container} {codec.name} {rate} Hz {layout} {seconds:.2f} s {video} +{tracks} tracks"
    return Media(content, container, text)


def many_channels(random: Random) -> Media:
    """A wav file with more channels than FFmpeg has names for."""
    channels = random.choice(MANY_CHANNELS)
    rate, width = random.choice((8_000, 16_000, 48_000)), random.choice((1, 2, 3, 4))
    width = min(width, 65_535 // channels)  # the size of a frame has 16 bits
    samples = max(int(min(0.5 * rate, MAX_SAMPLES / channels)), 100)
    content = bytearray(wav(rate, channels, width, random.randbytes(samples * channels * width)))
    if random.random() < 0.5:  # the extensible header, with a mask of speaker positions
        mask = struct.pack("<IHHIIHHHHI", 40, 0xFFFE, channels, rate, rate * channels * width,
                           channels * width % 65_536, width * 8, 22, width * 8,
                           random.getrandbits(32))  # fmt: skip
        guid = bytes.fromhex("0100000000001000800000aa00389b71")
        content[16:36] = mask + guid
        struct.pack_into("<I", content, 4, len(content) - 8)
    return Media(bytes(content), "wav", f"wav with {channels} channels of {width} bytes {rate} Hz")


def speech(random: Random, seconds: float, rate: int = SAMPLING_RATE) -> Samples:
    """A stretch of English speech with a random start."""
    sound = _speech()
    length = round(seconds * SAMPLING_RATE)
    start = random.randrange(max(len(sound) - length, 1))
    stretch = sound[start : start + length]
    if rate == SAMPLING_RATE:
        return stretch
    times = np.arange(int(seconds * rate)) / rate * SAMPLING_RATE
    return np.interp(times, np.arange(len(stretch)), stretch).astype(np.float32)


@functools.cache
def _speech() -> Samples:
    parts = [clip.samples for clip in clips.librivox_clips()]
    return (np.concatenate(parts) / 32_768).astype(np.float32)
