"""Recordings as blocks of mono samples at 16 kHz."""

from whisperbatch.audio.media import decode_audio, is_recording
from whisperbatch.audio.reader import AudioReader, known_duration, open_audio, rewinding
from whisperbatch.audio.sources import check_path
from whisperbatch.audio.track import list_tracks, stated_duration

__all__ = [
    "AudioReader",
    "check_path",
    "decode_audio",
    "is_recording",
    "known_duration",
    "list_tracks",
    "open_audio",
    "rewinding",
    "stated_duration",
]
