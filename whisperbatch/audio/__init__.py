"""Recordings as blocks of mono samples at 16 kHz."""

from whisperbatch.audio.decode import decode_audio
from whisperbatch.audio.media import stated_duration
from whisperbatch.audio.reader import AudioReader, open_audio

__all__ = ["AudioReader", "decode_audio", "open_audio", "stated_duration"]
