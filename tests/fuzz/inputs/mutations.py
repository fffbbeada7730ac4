"""Damage to media files: each mutation is a function from bytes to bytes."""

import struct
from collections.abc import Callable
from random import Random
from typing import Final, TypeAlias

HEADER: Final = 512  # bytes; most damage that changes more than sound is here
MAX_SIZE: Final = 1_000_000  # bytes: at the lowest bit rates, minutes to hours of sound
COUNTS: Final = (1, 1, 1, 2, 2, 3, 4)  # mutations of a file
EXTREMES: Final = (0, 1, 2, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF)

MAGIC: Final = (
    *(
        b"RIFF\xff\xff\xff\xffWAVEfmt ",
        b"RF64\xff\xff\xff\xffWAVEds64",
        b"ID3\x04\x00\x00",
        b"fLaC",
    ),
    *(b"OggS\x00\x02", b"\x1aE\xdf\xa3", b"\x00\x00\x00\x18ftypM4A ", b"FORM\x00\x00\x00\x00AIFF"),
    *(
        b"caff\x00\x01\x00\x00",
        b".snd\x00\x00\x00\x18",
        b"#!AMR\n",
        b"\xff\xf1\x50\x80",
        b"\xff\xfb",
    ),
    *(
        b"\x30\x26\xb2\x75\x8e\x66\xcf\x11",
        b"\x0b\x77",
        b"wvpk",
        b"TTA1",
        b"G@\x00\x10",
        b"FLV\x01",
    ),
    *(b"Creative Voice File\x1a", b"riff\x2e\x91\xcf\x11", b"\x00\x00\x01\xba", b".RMF", b"MThd"),
    *(
        b"PK\x03\x04",
        b"\x7fELF",
        b"#EXTM3U\n",
        b"%PDF-1.7",
        b"\x89PNG\r\n",
        b"GIF89a",
        b"nut/multi",
    ),
    *(b"ffconcat version 1.0\nfile x\n", b"[playlist]\nFile1=x\n", b"<?xml version='1.0'?><MPD/>"),
)
"""The first bytes of formats that FFmpeg recognises, also of formats without sound."""

Mutation: TypeAlias = Callable[[bytes, Random, Callable[[], bytes]], bytes]
"""From the bytes, the random numbers, and a function that builds another file."""


def position(content: bytes, random: Random) -> int:
    """A position in the file; half of the positions are in the header."""
    limit = min(len(content), HEADER) if random.random() < 0.5 else len(content)
    return random.randrange(max(limit, 1))


def _stretch(content: bytes, random: Random) -> tuple[int, int]:
    start = position(content, random)
    length = random.choice((1, 2, 4, 16, 100, 1000, max(len(content) // 4, 1)))
    return start, min(start + length, len(content))


def flip_bits(content: bytes, random: Random, _: Callable[[], bytes]) -> bytes:
    changed = bytearray(content)
    for _number in range(random.choice((1, 2, 5, 20, 100)) if changed else 0):
        changed[position(content, random)] ^= 1 << random.randrange(8)
    return bytes(changed)


def set_bytes(content: bytes, random: Random, _: Callable[[], bytes]) -> bytes:
    changed = bytearray(content)
    for _number in range(random.choice((1, 3, 10, 300)) if changed else 0):
        changed[position(content, random)] = random.choice((0, 255, random.randrange(256)))
    return bytes(changed)


def truncate(content: bytes, random: Random, _: Callable[[], bytes]) -> bytes:
    return content[: position(content, random)]


def remove_start(content: bytes, random: Random, _: Callable[[], bytes]) -> bytes:
    return content[position(content, random) :]


def remove(content: bytes, random: Random, _: Callable[[], bytes]) -> bytes:
    start, end = _stretch(content, random)
    return content[:start] + content[end:]


def duplicate(content: bytes, random: Random, _: Callable[[], bytes]) -> bytes:
    start, end = _stretch(content, random)
    return content[:end] + content[start:end] * random.choice((1, 2, 20)) + content[end:]


def zero(content: bytes, random: Random, _: Callable[[], bytes]) -> bytes:
    start, end = _stretch(content, random)
    return content[:start] + bytes(end - start) + content[end:]


def insert_garbage(content: bytes, random: Random, _: Callable[[], bytes]) -> bytes:
    start = position(content, random)
    return content[:start] + random.randbytes(random.choice((1, 3, 64, 5000))) + content[start:]


def swap_blocks(content: bytes, random: Random, _: Callable[[], bytes]) -> bytes:
    """Exchange two neighbouring stretches."""
    start, end = _stretch(content, random)
    length = end - start
    return content[:start] + content[end : end + length] + content[start:end] + content[
        end + length :
    ]  # fmt: skip


def set_size_field(content: bytes, random: Random, _: Callable[[], bytes]) -> bytes:
    """Write an extreme number over 1 to 8 bytes, most often in the header."""
    form = random.choice(("B", "<H", ">H", "<I", ">I", "<Q", ">Q"))
    width = struct.calcsize(form)
    if len(content) < width:
        return content
    start = min(position(content, random), len(content) - width)
    if random.random() < 0.5:
        start -= start % 2
    value = random.choice((*EXTREMES, 2**63 - 1, 2**63, 2**64 - 1, random.getrandbits(32)))
    value &= 2 ** (8 * width) - 1
    return content[:start] + struct.pack(form, value) + content[start + width :]


def swap_byte_order(content: bytes, random: Random, _: Callable[[], bytes]) -> bytes:
    start, end = _stretch(content, random)
    end -= (end - start) % 2
    changed = bytearray(content)
    changed[start:end:2], changed[start + 1 : end : 2] = (
        changed[start + 1 : end : 2],
        changed[start:end:2],
    )
    return bytes(changed)


def splice(content: bytes, random: Random, other: Callable[[], bytes]) -> bytes:
    """The start of this file and the end of another file."""
    following = other()
    return content[: position(content, random)] + following[position(following, random) :]


def concatenate(content: bytes, random: Random, other: Callable[[], bytes]) -> bytes:
    return content + (content if random.random() < 0.3 else other())


def nest(content: bytes, random: Random, other: Callable[[], bytes]) -> bytes:
    """A file within another file."""
    start = position(content, random)
    return content[:start] + other() + content[start:]


def other_magic(content: bytes, random: Random, _: Callable[[], bytes]) -> bytes:
    magic = random.choice(MAGIC)
    return magic + content[random.choice((0, len(magic))) :]


def random_bytes(content: bytes, random: Random, _: Callable[[], bytes]) -> bytes:
    """Random bytes after the first bytes of a format."""
    start = random.choice((*MAGIC, content[: random.choice((16, 64, 256))]))
    return start + random.randbytes(random.choice((0, 1, 10, 1000, 50_000)))


def reverse(content: bytes, random: Random, _: Callable[[], bytes]) -> bytes:
    start, end = _stretch(content, random)
    return content[:start] + content[start:end][::-1] + content[end:]


def empty(content: bytes, random: Random, _: Callable[[], bytes]) -> bytes:
    return random.choice((b"", b"\0", b"\n", b"\0" * 100_000))


MUTATIONS: Final[tuple[tuple[Mutation, int], ...]] = (
    *((flip_bits, 8), (set_bytes, 8), (set_size_field, 10), (truncate, 6), (remove_start, 2)),
    *((remove, 4), (duplicate, 4), (zero, 4), (insert_garbage, 4), (swap_blocks, 2)),
    *((swap_byte_order, 2), (splice, 4), (concatenate, 3), (nest, 2), (other_magic, 2)),
    *((random_bytes, 2), (reverse, 1), (empty, 1)),
)
"""The mutations with their weights."""


def mutate(content: bytes, random: Random, other: Callable[[], bytes]) -> tuple[bytes, list[str]]:
    """Damage a file, and return the names of the mutations; one file in twenty stays intact."""
    names: list[str] = []
    if random.random() < 0.05:
        return content, names
    functions, weights = zip(*MUTATIONS, strict=True)
    for mutation in random.choices(functions, weights, k=random.choice(COUNTS)):
        content = mutation(content, random, other)[:MAX_SIZE]
        names.append(mutation.__name__)
    return content, names
