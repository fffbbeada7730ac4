"""The recorded speech of two games: free to use and change, in Debian since 2005 and 2012.

    flight-of-the-amazon-queen   5 hours in 6,745 files (MP3, 11 kHz); the files of a dialogue say
                                 which side speaks, and each dialogue is with one role
    drascula                     48 minutes in 750 files (8 bits, 11 kHz); the first letters of a
                                 file's name say which role speaks

The credits of the first game (CREDIT2.CRD in its archive) say who plays which roles. A voice here
is one actor in one or two similar roles. Roles that the credits give to two actors are left out,
and so is a role with a disguised voice in an invented language.

Drascula names no actors. Of its roles, only three are used, whose average speaker embeddings
(CAM++) have cosines up to 0.68; two actors of the first game reach 0.87, one actor in two roles
0.79 to 0.97. Some files of the hero are in Spanish, by another person: Whisper base gives Spanish a
probability of at least 0.7 against English. They are left out, too.
"""

import io
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final, Literal

import av
import numpy as np

from benchmarks import speech
from benchmarks.clips import SAMPLING_RATE, Samples

GAME_RATE: Final = 11_025  # Hz


@dataclass(frozen=True, slots=True)
class Role:
    """One actor's voice in a game.

    Attributes:
        name: of the voice.
        part: the set that the voice belongs to.
        sex: "f" or "m".
        person: the actor; without credits, the role.
        files: the numbers of the role's dialogues; Drascula: the letters before a file's number.
    """

    name: str
    part: Literal["development", "test"]
    sex: Literal["f", "m"]
    person: str
    files: tuple[str, ...]


DRASCULA: Final = (
    Role("drascula-hacker", "test", "m", "John Hacker", ("",)),
    Role("drascula-bj", "test", "f", "BJ", ("BJ",)),
    Role("drascula-l", "test", "m", "L", ("L",)),
)
SPANISH: Final = frozenset(
    (25, 26, 40, 45, 47, 49, 51, 52, 53, 62, 63, 64, 99, 255, 256, 257, 258, 259, 462)
)
"""The numbers of the hero's files in Spanish."""
AMAZON: Final = (
    Role("amazon-joe", "development", "m", "Brad Lavelle", ("JOE",)),
    Role("amazon-sparky", "development", "m", "Tom Hill", ("33", "34", "51", "53", "55", "74")),
    Role("amazon-bud", "development", "m", "Bill Hootkins", ("08", "09", "10")),
    Role("amazon-bob", "development", "m", "Jon Coleman", ("06", "07", "67", "68", "77")),
    Role("amazon-faye", "development", "f", "Lisa Valdez", ("18", "20", "21", "22", "84")),
    Role("amazon-tam", "development", "f", "Regina Reagan", ("57", "69", "71", "72")),
    Role("amazon-princess", "development", "f", "Debbie Arnold", ("17", "42", "45")),
    Role("amazon-henry", "test", "m", "Enn Reitel", ("02", "24", "64")),
    Role("amazon-chief", "test", "m", "Barry James", ("11", "15", "16", "75", "76")),
    Role("amazon-naomi", "test", "f", "Jessica Martin", ("37", "38")),
    Role("amazon-oracle", "test", "f", "Penelope Keith", ("39", "40", "41")),
)


def recordings(name: str) -> Iterator[Samples]:
    """Yield the recordings of a role (16 kHz)."""
    role = next(role for role in (*DRASCULA, *AMAZON) if role.name == name)
    yield from _drascula(role) if role in DRASCULA else _amazon(role)


def _drascula(role: Role) -> Iterator[Samples]:
    directory = speech.debian("drascula", "usr/share/scummvm/drascula/en/259.ALS").parent
    for path in sorted(directory.glob("*.ALS")):
        letters, number = re.sub(r"\d+", "", path.stem), re.sub(r"\D+", "", path.stem)
        if letters in role.files and (letters or int(number) not in SPANISH):
            unsigned = np.frombuffer(path.read_bytes(), np.uint8)
            yield _resampled((unsigned.astype(np.int16) - 128) * 256)


def _resampled(samples: Samples) -> Samples:
    resampler = av.AudioResampler("s16", "mono", SAMPLING_RATE)
    frame = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
    frame.sample_rate = GAME_RATE
    blocks = chain(resampler.resample(frame), resampler.resample(None))
    return np.concatenate([block.to_ndarray()[0] for block in blocks])


def _amazon(role: Role) -> Iterator[Samples]:
    path, files = amazon_files()
    patterns = [
        re.compile(r"JOE\w+\.SB" if each == "JOE" else rf"{each}\w{{4}}P\d\.SB")
        for each in role.files
    ]
    with path.open("rb") as archive:
        for name, (offset, size) in sorted(files.items()):
            if any(pattern.fullmatch(name) for pattern in patterns):
                archive.seek(offset)
                yield decode(archive.read(size), "mp3")


@cache
def amazon_files() -> tuple[Path, dict[str, tuple[int, int]]]:
    """Return the archive of the game, and the offset and size in bytes of each of its files."""
    package = "flight-of-the-amazon-queen"
    path = speech.debian(package, f"usr/share/scummvm/{package}/queen.1c")
    files = {}
    with path.open("rb") as archive:
        archive.seek(13)  # "QTBL", version, compression
        (count,) = struct.unpack(">H", archive.read(2))
        for _ in range(count):
            name, _, offset, size = struct.unpack(">12sBII", archive.read(21))
            files[name.partition(b"\0")[0].decode("ascii")] = (offset, size)
    return path, files


def decode(content: bytes, container_format: str) -> Samples:
    """Return the samples of a file in a format of FFmpeg that cannot always be recognized."""
    resampler = av.AudioResampler("s16", "mono", SAMPLING_RATE)
    blocks = [np.zeros(0, np.int16)]
    with av.open(io.BytesIO(content), "r", format=container_format) as container:
        for frame in chain(container.decode(audio=0), [None]):
            blocks += [block.to_ndarray()[0] for block in resampler.resample(frame)]
    return np.concatenate(blocks)
