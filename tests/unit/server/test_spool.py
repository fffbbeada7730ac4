"""Uploads on disk: read while they are received, as a pipe, or with random access."""

import threading
from io import UnsupportedOperation
from pathlib import Path

import numpy as np
import pytest

from tests.unit.media_files import encode, tone
from tests.unit.scheduling.row_calls import Caller
from whisperbatch.audio.reader import open_audio
from whisperbatch.server.uploads import HEAD, Spool
from whisperbatch.types import SAMPLING_RATE

SOUND = [tone(440, 3)]


def spooled(data: bytes, *, complete: bool = False) -> Spool:
    spool = Spool("talk")
    spool.write(data)
    if complete:
        spool.finish()
    return spool


def test_a_reader_waits_for_more_bytes_and_ends_with_the_upload() -> None:
    spool = Spool("talk.wav")
    file = spool.open()
    assert (file.name, file.seekable()) == ("talk.wav", False)
    assert file.read(0) == b""
    first = Caller(lambda: file.read(10))
    spool.write(b"abc")
    assert first.result() == b"abc"
    second = Caller(lambda: file.read(2))
    spool.write(b"defg")
    assert second.result() == b"de"
    spool.finish()
    assert file.read(10) == b"fg"
    assert file.read(10) == b""


def test_a_closed_upload_ends_a_reader_that_waits() -> None:
    spool = Spool("talk.wav")
    caller = Caller(lambda: spool.open().read(10))
    spool.close()
    spool.close()
    with pytest.raises(OSError, match="the upload has ended"):
        caller.result()


def test_a_complete_upload_has_random_access() -> None:
    spool = spooled(b"0123456789", complete=True)
    file, other = spool.open(), spool.open()
    assert file.seek(4) == 4
    assert file.read(3) == b"456"
    assert file.seek(-2, 2) == 8
    assert file.seek(1, 1) == 9
    assert (file.read(5), file.tell()) == (b"9", 10)
    assert other.read(2) == b"01"
    with pytest.raises(UnsupportedOperation):
        spooled(b"012").open().seek(0)


def test_an_upload_is_transcribable_while_it_is_received() -> None:
    data = encode(SOUND, "flac", "flac", rate=SAMPLING_RATE)
    spool = Spool("talk.flac")

    def receive() -> None:
        for start in range(0, len(data), 1000):
            spool.write(data[start : start + 1000])
        spool.finish()

    thread = threading.Thread(target=receive)
    thread.start()
    with open_audio(spool.open()) as reader:  # type: ignore[arg-type]  # a binary file
        samples = np.concatenate(list(reader.blocks()))
    thread.join()
    assert len(samples) == 3 * SAMPLING_RATE


@pytest.mark.parametrize(
    ("container", "codec", "in_order"),
    [
        ("wav", "pcm_s16le", True),
        ("flac", "flac", True),
        ("ogg", "libopus", True),
        ("webm", "libopus", True),
        ("mp3", "libmp3lame", True),
        ("adts", "aac", True),
        ("mp4", "aac", False),  # the index is at the end
        ("aiff", "pcm_s16be", False),  # not among the known containers
    ],
)
def test_which_containers_are_read_in_order(container: str, codec: str, *, in_order: bool) -> None:
    rate = 48_000 if codec == "libopus" else SAMPLING_RATE
    data = encode([tone(440, 3, rate)], container, codec, rate=rate)
    assert spooled(data[:5]).can_be_read_in_order() is None
    assert spooled(data, complete=True).can_be_read_in_order() is in_order
    assert spooled(data[: HEAD + 100]).can_be_read_in_order() is in_order


def box(kind: bytes, size: int) -> bytes:
    return (size + 8).to_bytes(4, "big") + kind + bytes(size)


def test_mp4_with_its_index_first_is_read_in_order() -> None:
    start = box(b"ftyp", 16) + box(b"free", 1000)
    assert spooled(start + box(b"moov", 100)).can_be_read_in_order() is True
    assert spooled(start + box(b"mdat", 100)).can_be_read_in_order() is False
    assert spooled(start).can_be_read_in_order() is None
    assert spooled(start, complete=True).can_be_read_in_order() is False
    assert spooled(box(b"ftyp", 16) + box(b"free", 2 * HEAD)).can_be_read_in_order() is False
    assert spooled(b"\0\0\0\0ftyp" + bytes(100)).can_be_read_in_order() is False


def test_the_file_has_no_name_on_disk(tmp_path: Path) -> None:
    spool = Spool("../../talk.wav", tmp_path)
    spool.write(b"abc")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match="missing"):
        Spool("talk.wav", tmp_path / "missing")
