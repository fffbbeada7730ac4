"""Speakers in files: only transcripts with speakers have them, so other files stay as they are."""

import re
from dataclasses import asdict
from typing import Any, Final

from whisperbatch.errors import OptionError
from whisperbatch.types import Diarization, Segment, Transcript, Word
from whisperbatch.writers.text_cleaning import is_visible, one_line
from whisperbatch.writers.timestamps import decimal, milliseconds

SPEAKER_FIELDS: Final = ("speaker", "speaker_confidence", "other_speakers")
"""The fields of words and segments that say who speaks."""

_SPACES: Final = re.compile(r"\s+")
_ADDRESS: Final = re.compile(r"[a-zA-Z][\w+.-]*://")
_UNNAMED: Final = "recording"


def has_speakers(transcript: Transcript) -> bool:
    """Return whether files show the speakers of a transcript.

    True with `diarize=True`, even without speech, so that all tables of a job have the same
    columns; and if a program has given a segment its speaker.
    """
    named = any(segment.speaker is not None for segment in transcript.segments)
    return transcript.diarization is not None or named


def speaker_name(segment: Segment) -> str:
    """Return the name of the speaker on one line; empty without a speaker."""
    name = one_line(segment.speaker or "")
    return name if is_visible(name) else ""


def speaker_prefix(segment: Segment) -> str:
    """Return what stands before the text of a speaker: "SPEAKER_00: "; empty without a speaker."""
    name = speaker_name(segment)
    return f"{name}: " if name else ""


def segment_values(segment: Segment) -> dict[str, Any]:
    """Return the fields of a segment; those of speakers only if the segment has one, or may yet."""
    value = asdict(segment)
    if segment.speaker is None and not segment.provisional:
        del value["provisional"]
        for timed in (value, *(value["words"] or ())):
            for name in SPEAKER_FIELDS:
                del timed[name]
    return value


def word_values(word: Word, *, speakers: bool) -> dict[str, Any]:
    """Return the fields of a word, with or without those of speakers."""
    value = asdict(word)
    return value if speakers else {k: v for k, v in value.items() if k not in SPEAKER_FIELDS}


def speaker_values(transcript: Transcript) -> dict[str, Any]:
    """Return the names of the speakers and their turns; empty without a diarization."""
    if transcript.diarization is None:
        return {}
    turns = [asdict(turn) for turn in transcript.diarization.turns]
    return {"speakers": list(transcript.speakers), "turns": turns}


def rttm(result: Transcript | Diarization) -> str:
    """Return the turns in NIST's Rich Transcription Time Marked format, one line for each.

    The identifier of the recording is its file name without directory and suffix. Names and the
    identifier have no spaces in this format: each becomes "_".

    Raises:
        OptionError: the transcript has no diarization.
    """
    diarization = result.diarization if isinstance(result, Transcript) else result
    if diarization is None:
        raise OptionError("format 'rttm' needs speakers; transcribe with diarize=True")
    recording = _identifier(diarization.source or result.source)
    lines = []
    for turn in diarization.turns:
        start = milliseconds(turn.start)
        duration = max(milliseconds(turn.end) - start, 1)
        times = f"{decimal(start)} {decimal(duration)}"
        name = _without_spaces(turn.speaker) or "<NA>"
        lines.append(f"SPEAKER {recording} 1 {times} <NA> <NA> {name} <NA> <NA>\n")
    return "".join(lines)


def _identifier(source: str) -> str:
    """Return the name of a recording without directory, suffix and query."""
    path = re.split(r"[?#]", source)[0] if _ADDRESS.match(source) else source
    name = re.split(r"[/\\]", path.rstrip("/\\"))[-1]
    if name.startswith("<") and name.endswith(">"):  # "<stdin>": no file
        name = name[1:-1]
    stem, dot, _ = name.rpartition(".")
    return _without_spaces(stem if dot and stem else name) or _UNNAMED


def _without_spaces(name: str) -> str:
    """Return a name as one field of a line; empty if no character is visible."""
    line = one_line(name)
    return _SPACES.sub("_", line) if is_visible(line) else ""
