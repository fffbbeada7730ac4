"""Checks of the decoder of audio and of the voice activity detection."""

from collections.abc import Iterator
from typing import Final

from whisperbatch.doctor.clip import SECONDS
from whisperbatch.doctor.findings import Finding
from whisperbatch.doctor.processes import run_probe
from whisperbatch.doctor.remedies import remedy_for

CODECS: Final = ("mp3", "aac", "opus", "vorbis", "flac", "alac", "wmav2", "pcm_s16le")
"""Codecs of most audio and video files, as FFmpeg calls them."""
MIN_SPEECH: Final = 0.5
"""Fraction of the clip. Silero finds 95 % of the clip to be speech, with the pauses inside."""
REINSTALL_AV: Final = "pip install --upgrade --force-reinstall av"


def check_decoder(time_limit: float) -> Iterator[Finding]:
    """Decode the clip, and look for the decoders of common codecs.

    Args:
        time_limit: seconds for both.
    """
    result = run_probe("decode_audio", time_limit=time_limit, codecs=CODECS)
    if result.failure:
        yield Finding(
            "problem",
            "audio",
            f"a recording cannot be decoded: {result.failure}",
            result.fix or remedy_for(result.details) or REINSTALL_AV,
            result.details,
        )
        return
    seconds, missing = result.values["seconds"], result.values["missing"]
    if abs(seconds - SECONDS) > 0.1:  # noqa: PLR2004 - a tenth of a second
        yield Finding(
            "problem",
            "audio",
            f"{seconds:.1f} s were decoded of a recording of {SECONDS:.1f} s",
            REINSTALL_AV,
        )
    elif missing:
        yield Finding(
            "warning",
            "audio",
            f"PyAV cannot decode {', '.join(missing)}: its FFmpeg was built without them",
            f"{REINSTALL_AV}; a build of PyAV from source has the codecs of the system's FFmpeg",
        )
    else:
        yield Finding("ok", "audio", f"decodes {', '.join(CODECS)}")


def check_speech_detection(time_limit: float) -> Iterator[Finding]:
    """Detect the speech in the clip.

    Args:
        time_limit: seconds.
    """
    result = run_probe("detect_speech", time_limit=time_limit)
    fix = "pip install --upgrade --force-reinstall onnxruntime faster-whisper"
    if result.failure:
        yield Finding(
            "problem",
            "speech detection",
            f"fails: {result.failure}",
            result.fix or remedy_for(result.details) or fix,
            result.details,
        )
    elif result.values["seconds"] < MIN_SPEECH * SECONDS:
        yield Finding(
            "problem",
            "speech detection",
            f"finds {result.values['seconds']:.1f} s of speech in {SECONDS:.1f} s of speech",
            f"{fix}; until then, transcribe with vad=False",
        )
    else:
        yield Finding("ok", "speech detection", "finds the speech of the test recording")
