"""Check of the built-in diarizer: its weights, and the speaker of the clip."""

from collections.abc import Iterator
from typing import Final

from whisperbatch.doctor.clip import SECONDS
from whisperbatch.doctor.findings import Finding
from whisperbatch.doctor.processes import run_probe
from whisperbatch.doctor.remedies import remedy_for

SUBJECT: Final = "diarization"
REINSTALL: Final = "pip install --upgrade --force-reinstall onnxruntime"


def check_diarizer(time_limit: float) -> Iterator[Finding]:
    """Find the weights of the diarizer, and the speaker of the clip.

    Weights that are installed but not converted yet are converted.

    Args:
        time_limit: seconds for each of the two.
    """
    found = run_probe("diarizer_state", time_limit=time_limit)
    if found.failure:
        yield _failed(found.failure, found.fix, found.details)
        return
    state, place = found.values["state"], found.values["place"]
    if state == "missing":
        yield Finding("ok", SUBJECT, f"is not installed; diarize needs it: {place}")
        return
    if state == "damaged":
        yield Finding(
            "warning",
            SUBJECT,
            f"a converted network in {place} is damaged",
            "it is made again now; if this line comes back, check the disk",
        )
    result = run_probe("diarize_clip", time_limit=time_limit)
    if result.failure:
        yield _failed(result.failure, result.fix, result.details)
        return
    speakers, seconds = result.values["speakers"], result.values["seconds"]
    if speakers != 1:
        yield Finding(
            "warning",
            SUBJECT,
            f"finds {speakers} speakers in a recording of one speaker",
            REINSTALL,
        )
        return
    speed = SECONDS / seconds
    yield Finding(
        "ok",
        SUBJECT,
        f"finds the speaker of the test recording, {speed:.1f} x real time; the weights are in "
        f"{result.values['place']}",
        measured={"times_real_time": round(speed, 1)},
    )


def _failed(failure: str, fix: str, details: str) -> Finding:
    """Return the finding of a failure, whose message may end with a command."""
    message, _, command = failure.partition(": pip install")
    fix = fix or (f"pip install{command}" if command else remedy_for(details) or REINSTALL)
    return Finding("warning", SUBJECT, f"diarize fails: {message}", fix, details)
