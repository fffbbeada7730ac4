"""Why a section has no text: a notice for the user of the recording."""

from whisperbatch.options import Options
from whisperbatch.recording import RecordingState
from whisperbatch.types import (
    SILENT,
    Notice,
    SectionSound,
    concerns_empty_only,
    to_samples,
    to_seconds,
)

VAD_FOUND_NONE = "no text: the voice activity detector found no speech in the sound"
# Samples of frames that count as speech: single frames in noise give no chunk, and no text.
MIN_SPEECH = to_samples(1.0)
HELP = "another channel, track or language may have the speech"


def explain_missing_text(recording: RecordingState, options: Options) -> None:
    """Add a notice for each section without text, when the recording has been read.

    Silence and short ranges need no explanation if the recording has text elsewhere. So the notices
    of a span are those of the whole recording there, except in a span without any text
    (`sections.joining`).
    """
    for sound, checked in recording.sounds:
        if sound.number in recording.sections_with_text or sound.end == sound.start:
            continue
        start, end = to_seconds(sound.start), to_seconds(sound.end)
        text = _reason(recording, options, sound, checked)
        if not (recording.segments and concerns_empty_only(Notice("no speech", start, end, text))):
            recording.notices.add("no speech", start, end, text)


def _reason(recording: RecordingState, options: Options, sound: SectionSound, checked: int) -> str:
    """Return the text of the notice: the reason, and what can help."""
    start, end = to_seconds(sound.start), to_seconds(sound.end)
    if not sound.sound:
        return SILENT
    if any(item.text and start <= item.start < end for item in recording.omissions):
        return f"no text: all text was removed, because it does not seem spoken (omissions); {HELP}"
    if not options.vad:
        return f"no text: the model found none in the sound; {HELP}"
    if sound.speech >= MIN_SPEECH:
        return f"no text: the model found none in the sound that may be speech; {HELP}"
    if checked:
        return (
            f"{VAD_FOUND_NONE}, nor did the model in the parts that it checked; "
            f"vad=False decodes all sound; {HELP}"
        )
    return f"{VAD_FOUND_NONE}; vad=False decodes all sound; {HELP}"
