"""Big-endian WAV files (RIFX) have the sound of the little-endian ones."""

import io
import struct
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.unit.media_files import pipe, read, tone
from whisperbatch.audio import decode_audio, stated_duration
from whisperbatch.audio.file_objects import RifxFile, open_rifx
from whisperbatch.audio.media import MediaDecoder
from whisperbatch.audio.reader import open_audio
from whisperbatch.errors import AudioError
from whisperbatch.options import Options
from whisperbatch.types import SAMPLING_RATE, Notices

SOUND = tone(440, 3)
KINDS = {  # format tag and NumPy's type of a sample
    "u8": (1, "u1"),
    "s16": (1, ">i2"),
    "s24": (1, "24"),
    "s32": (1, ">i4"),
    "f32": (3, ">f4"),
    "f64": (3, ">f8"),
}


def chunk(name: bytes, content: bytes) -> bytes:
    return name + struct.pack(">I", len(content)) + content + bytes(len(content) % 2)


def samples_of(kind: str, channels: int) -> tuple[bytes, int]:
    """The bytes of the samples, and the bits of one."""
    sound = np.repeat(SOUND[:, None], channels, axis=1).astype(np.float64)
    tag, dtype = KINDS[kind]
    if kind == "s24":
        wide = np.ascontiguousarray((sound * (2**23 - 1)).astype(">i4"))
        return wide.view(np.uint8).reshape(-1, 4)[:, 1:].tobytes(), 24
    bits = np.dtype(dtype).itemsize * 8
    if kind == "u8":
        return (sound * 127 + 128).astype("u1").tobytes(), bits
    scale = 2 ** (bits - 1) - 1 if tag == 1 else 1
    return (sound * scale).astype(dtype).tobytes(), bits


def rifx(kind: str, channels: int = 1, *, extensible: bool = False, before: bytes = b"") -> bytes:
    data, bits = samples_of(kind, channels)
    tag, _ = KINDS[kind]
    align = channels * bits // 8
    fmt = struct.pack(
        ">HHIIHH",
        *(0xFFFE if extensible else tag, channels, SAMPLING_RATE, SAMPLING_RATE * align),
        *(align, bits),
    )
    if extensible:  # as sox writes samples of 24 and 32 bits
        fmt += struct.pack(">HHIIHH", 22, bits, 0, tag, 0, 16) + bytes.fromhex("800000aa00389b71")
    body = b"WAVE" + before + chunk(b"fmt ", fmt) + chunk(b"data", data) + chunk(b"LIST", b"INFO")
    return b"RIFX" + struct.pack(">I", len(body)) + body


@pytest.mark.parametrize("extensible", [False, True])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_the_sound_is_right(kind: str, channels: int, tmp_path: Path, *, extensible: bool) -> None:
    media = rifx(kind, channels, extensible=extensible, before=chunk(b"bext", bytes(603)))
    path = tmp_path / "recording.wav"
    path.write_bytes(media)
    for source in (media, path, io.BytesIO(media)):
        np.testing.assert_allclose(read(source), SOUND, atol=0.02)
    with pipe(media) as file:
        np.testing.assert_allclose(read(file), SOUND, atol=0.02)
    assert stated_duration(str(path)) == pytest.approx(3)
    np.testing.assert_allclose(decode_audio(str(path))[0], SOUND, atol=0.02)


def test_seeking_and_random_access(tmp_path: Path) -> None:
    path = tmp_path / "recording.wav"
    path.write_bytes(rifx("s24"))
    first = 2 * SAMPLING_RATE + 17
    decoder = MediaDecoder("file", str(path), Options(), Notices("file"), first)
    with closing(decoder):
        assert decoder.position == SAMPLING_RATE, "not read by seeking"
        samples = np.concatenate(list(decoder.blocks()))
    np.testing.assert_allclose(samples, SOUND[SAMPLING_RATE:], atol=0.001)
    with open_audio(path, Options()) as reader, reader.random_access() as access:
        assert access is not None
        start, samples = access.read(1.0, 1.0)
        first = round(start * SAMPLING_RATE)
        np.testing.assert_allclose(samples, SOUND[first : first + len(samples)], atol=0.001)


@pytest.mark.parametrize("size", [1, 7, 1000, 10**6])
def test_reads_of_any_size(size: int) -> None:
    file = RifxFile(io.BytesIO(rifx("s24")))
    whole = b"".join(iter(lambda: file.read(10**9), b""))
    file.seek(0)
    assert b"".join(iter(lambda: file.read(size), b"")) == whole
    assert file.tell() == len(whole) == file.seek(0, 2)
    file.seek(-5, 1)
    assert file.read(10) == whole[-5:]


def test_recording_that_was_cut_off() -> None:
    media = rifx("s32")
    with open_audio(media[: len(media) * 4 // 10]) as reader:
        length = sum(map(len, reader.blocks())) / SAMPLING_RATE
    # PyAV 17 does not decode the last packet (48 ms), in which a sample was cut, as in any WAV file
    assert length == pytest.approx(1.2, abs=0.05)
    (notice,) = reader.notices.all()
    assert notice.kind == "incomplete"
    assert notice.end == pytest.approx(3.0, abs=0.15)


def test_files_without_samples_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "recording.wav"
    path.write_bytes(b"RIFX\0\0\0\x10WAVEjunk\xff\xff\xff\xff")
    with pytest.raises(AudioError, match="big-endian"):
        open_rifx(str(path))
    with pytest.raises(AudioError, match="big-endian"):
        open_audio(path.read_bytes())
    assert open_rifx(str(tmp_path / "missing")) is None
