"""Whether a file is a recording: FFmpeg opens the file and decodes its first packets."""

from contextlib import closing
from itertools import islice
from typing import BinaryIO, Final

from whisperbatch.audio.file_objects import FileObject
from whisperbatch.audio.track import Track, frames_of
from whisperbatch.errors import AudioError

PACKETS: Final = 20
# Damaged packets for each packet that decodes. FFmpeg takes some programs for MPEG streams: of
# 1,066 programs, five had a packet that decodes, and none passed this limit.
MAX_DAMAGED: Final = 0.25


def is_recording(name: str, file: BinaryIO) -> bool:
    """Return whether FFmpeg can read sound from a file.

    Args:
        name: name of the file; the formats of some files are known only from their suffix.
        file: opened for reading; FFmpeg opens no other file or address.
    """
    decoded = damaged = 0
    try:
        with closing(Track(name, FileObject(name, file))) as track:
            for packet in islice(track.packets(), PACKETS):
                frames = frames_of(packet)
                damaged += frames is None
                decoded += bool(frames)
    except AudioError:
        return False
    return decoded > 0 and damaged <= MAX_DAMAGED * decoded
