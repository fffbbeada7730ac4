"""How far a work is: a transcription, a diarization, a download.

meter.py      one work: its position becomes `Progress` values
bars.py       shows these values as bars, on a terminal or in a notebook
downloads.py  the progress of downloads from the Hugging Face hub
"""

from whisperbatch.progress.bars import Bars
from whisperbatch.progress.downloads import downloading, shows_downloads
from whisperbatch.progress.meter import (
    Meter,
    Progress,
    ProgressOption,
    ShowProgress,
    shown_by,
)

__all__ = [
    "Bars",
    "Meter",
    "Progress",
    "ProgressOption",
    "ShowProgress",
    "downloading",
    "shown_by",
    "shows_downloads",
]
