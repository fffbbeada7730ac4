"""What headers state: sizes that are none, the frames of MP3, the pages of Ogg."""

import io
import struct

import pytest

from tests.unit.media_files import bursts, encode, wav
from whisperbatch.audio.extent import (
    Parts,
    asf_extent,
    begins_stream,
    ends_within_frame,
    ends_within_page,
    frame_header,
    is_size,
    riff_bytes,
    second_sound,
    xing_seconds,
)
from whisperbatch.audio.file_objects import FileObject


class Pipe:
    """A file that cannot seek."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, size: int) -> bytes:
        data, self._data = self._data[:size], self._data[size:]
        return data


def parts(data: bytes) -> Parts:
    return Parts(FileObject("recording", io.BytesIO(data)))


@pytest.mark.parametrize(
    "size", [0, 0x7FFFFFFF, 0x7FFFF000, 0x7F000000, 2**31, 2**32 - 1, 2**64 - 1]
)
def test_numbers_that_stand_for_an_unknown_size(size: int) -> None:
    assert not is_size(size)


@pytest.mark.parametrize("size", [1, 2**20, 2_000_000_000, 3_000_000_000, 2**33, 2**40])
def test_sizes(size: int) -> None:
    assert is_size(size)


def test_wav_with_chunks_before_and_after_its_sound() -> None:
    media = wav(8000, 1, 2, bytes(1000))
    odd = media[:36] + b"LIST" + struct.pack("<I", 5) + bytes(6) + media[36:]
    odd = b"RIFF" + struct.pack("<I", len(odd) - 8) + odd[8:]
    assert riff_bytes(parts(odd)) == (58, 1000)
    assert second_sound(parts(odd)) == 0
    assert second_sound(parts(odd + b"data" + struct.pack("<I", 400))) == 400


@pytest.mark.parametrize("media", [b"", b"RIFF", b"RIFF\x10\0\0\0WAVE", b"RIFF\x10\0\0\0WEBPabcd"])
def test_files_that_state_nothing(media: bytes) -> None:
    assert riff_bytes(parts(media)) is None
    assert xing_seconds(parts(media)) is None
    assert asf_extent(parts(media)) is None


@pytest.mark.parametrize(
    ("header", "samples", "rate", "size"),
    [
        ("fffb9064", 1152, 44_100, 417),
        ("fffb9264", 1152, 44_100, 418),
        ("fff388c4", 576, 16_000, 288),
        ("ffe318c4", 576, 8000, 72),
        ("fffb0064", 1152, 44_100, 0),  # the free format
    ],
)
def test_frames_of_mp3(header: str, samples: int, rate: int, size: int) -> None:
    found = frame_header(bytes.fromhex(header))
    assert found
    assert (found.samples, found.rate, found.size) == (samples, rate, size)
    frame = bytes.fromhex(header) + bytes(max(size - 4, 0))
    assert not ends_within_frame(frame)
    assert not size or ends_within_frame(frame[: size // 2])


@pytest.mark.parametrize("header", ["", "fffb", "00000000", "fffbf064", "fffb9c64", "ffeb9064"])
def test_bytes_that_are_no_frame_of_mp3(header: str) -> None:
    assert frame_header(bytes.fromhex(header)) is None


def test_vbri() -> None:
    frame = bytes.fromhex("fffb9064") + bytes(32) + b"VBRI" + bytes(10) + struct.pack(">I", 1000)
    assert xing_seconds(parts(frame + bytes(400))) == pytest.approx(1000 * 1152 / 44_100)


def test_header_frame_after_large_tags() -> None:
    mp3 = encode([bursts([1], 5, 16_000)], "mp3", "libmp3lame", rate=16_000)
    tag = b"ID3\x03\0\0" + bytes((0, 8, 0, 0)) + bytes(8 << 14)
    assert xing_seconds(parts(tag + mp3)) == pytest.approx(5, abs=0.2)


def test_pages_of_ogg() -> None:
    ogg = encode([bursts([1], 5, 48_000)], "ogg", "libopus", rate=48_000)
    last = ogg.rfind(b"OggS\0")
    assert not ends_within_page(ogg)
    assert not ends_within_page(ogg[:last])
    for length in (1, 4, 20, 27, 40, len(ogg) - last - 1):
        assert ends_within_page(ogg[: last + length]), length
    assert not ends_within_page(ogg + b"TAG of another program")
    assert not ends_within_page(b"no pages")
    assert begins_stream(ogg)
    assert not begins_stream(ogg[last:])


def test_parts_of_a_pipe() -> None:
    data = bytes(range(256)) * 4096
    file = FileObject("recording", Pipe(data))
    while file.read(30_000):
        pass
    found = Parts(file)
    assert found.size() == len(data)
    assert not found.can_seek()
    assert found.at(100, 50) == data[100:150]
    assert found.at(500_000, 10) == b""
    assert found.at(len(data) - 10, 20) == data[-10:]
    assert found.tail() == data[-131_072:]
    assert Parts("https://host/a.wav").at(0, 10) == b""
    assert Parts("https://host/a.wav").size() is None
