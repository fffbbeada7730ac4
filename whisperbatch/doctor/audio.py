"""Checks with the clip: decoder, voice activity detection, and the built-in diarizer."""

from collections.abc import Iterator
from typing import Final

from whisperbatch.doctor.findings import Finding, known_fix
from whisperbatch.doctor.probes import SECONDS, Probe, ProbeResult

CODECS: Final = ("mp3", "aac", "opus", "vorbis", "flac", "alac", "wmav2", "pcm_s16le")
"""Codecs of most audio and video files, as FFmpeg calls them."""
MIN_SPEECH: Final = 0.5
"""Fraction of the clip. Silero finds 95 % of the clip to be speech, with the pauses inside."""
REINSTALL: Final = "pip install --upgrade --force-reinstall"


def check_decoder(probe: Probe) -> Iterator[Finding]:
    """Decode the clip, and look for the decoders of common codecs."""
    result, fix = probe("decode_audio", codecs=CODECS), f"{REINSTALL} av"
    if result.failure:
        message = f"a recording cannot be decoded: {result.failure}"
        yield Finding("problem", "audio", message, result.fix_or(fix), result.details)
        return
    seconds, missing = result.values["seconds"], result.values["missing"]
    if abs(seconds - SECONDS) > 0.1:  # noqa: PLR2004 - a tenth of a second
        message = f"{seconds:.1f} s were decoded of a recording of {SECONDS:.1f} s"
        yield Finding("problem", "audio", message, fix)
    elif missing:
        message = f"PyAV cannot decode {', '.join(missing)}: its FFmpeg was built without them"
        fix += "; a build of PyAV from source has the codecs of the system's FFmpeg"
        yield Finding("warning", "audio", message, fix)
    else:
        yield Finding("ok", "audio", f"decodes {', '.join(CODECS)}")


def check_speech_detection(probe: Probe) -> Iterator[Finding]:
    """Detect the speech in the clip."""
    subject, fix = "speech detection", f"{REINSTALL} onnxruntime faster-whisper"
    result = probe("detect_speech")
    if result.failure:
        message = f"fails: {result.failure}"
        yield Finding("problem", subject, message, result.fix_or(fix), result.details)
    elif (found := result.values["seconds"]) < MIN_SPEECH * SECONDS:
        message = f"finds {found:.1f} s of speech in {SECONDS:.1f} s of speech"
        yield Finding("problem", subject, message, f"{fix}; until then, transcribe with vad=False")
    else:
        yield Finding("ok", subject, "finds the speech of the test recording")


def check_diarizer(probe: Probe) -> Iterator[Finding]:
    """Find the weights of the diarizer, and the speaker of the clip.

    Weights that are installed but not converted yet are converted.
    """
    subject, reinstall = "diarization", f"{REINSTALL} onnxruntime"

    def failed(result: ProbeResult) -> Finding:
        """Return the finding of a failure, whose message may end with a command."""
        message, _, command = result.failure.partition(": pip install")
        stated = result.fix or (f"pip install{command}" if command else "")
        fix = stated or known_fix(result.details) or reinstall
        return Finding("warning", subject, f"diarize fails: {message}", fix, result.details)

    weights = probe("diarizer_state")
    if weights.failure:
        yield failed(weights)
        return
    state, place = weights.values["state"], weights.values["place"]
    if state == "missing":
        yield Finding("ok", subject, f"is not installed; diarize needs it: {place}")
        return
    if state == "damaged":
        message = f"a converted network in {place} is damaged"
        fix = "it is made again now; if this line comes back, check the disk"
        yield Finding("warning", subject, message, fix)
    result = probe("diarize_clip")
    if result.failure:
        yield failed(result)
    elif (speakers := result.values["speakers"]) != 1:
        message = f"finds {speakers} speakers in a recording of one speaker"
        yield Finding("warning", subject, message, reinstall)
    else:
        speed, place = SECONDS / result.values["seconds"], result.values["place"]
        yield Finding(
            "ok",
            subject,
            f"finds the speaker of the test recording, {speed:.1f} x real time; "
            f"the weights are in {place}",
            measured={"times_real_time": round(speed, 1)},
        )
