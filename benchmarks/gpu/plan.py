"""The stages in the order of their importance, each with its limit in seconds."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.gpu.running import Job, Rows, Stage

WAV: Final = "speech.wav"
OTHER: Final = "other.wav"  # the same speech, as another file
FRONT_SECONDS: Final = 600.0  # of the recordings that are read in one and two threads
CPU_SECONDS: Final = 600.0  # of the recording of the stage with many cores
CPU_MODEL: Final = "tiny.en"
REAL_MODEL: Final = "base"


def prepare(job: Job) -> Rows:
    """Write the recording, and the weights of turbo's shape."""
    from benchmarks.gpu.inputs import hour, random_model  # noqa: PLC0415 - in the stage's process

    hour(job.speech, job.folder / WAV, job.seconds)
    yield WAV, {"MB": (job.folder / WAV).stat().st_size / 1e6}
    random_model("turbo", job.folder / "turbo")
    yield "turbo", {"MB": (job.folder / "turbo" / "model.bin").stat().st_size / 1e6}


def recording(job: Job, suffix: str = ".wav", seconds: float | None = None) -> Path:
    """Return the recording in a format, and write it if it does not exist."""
    from benchmarks.gpu.inputs import hour  # noqa: PLC0415 - as above

    length = seconds or job.seconds
    path = job.folder / f"speech{'' if seconds is None else f'-{length:g}'}{suffix}"
    return path if path.exists() else hour(job.speech, path, length)


def simulated(suffix: str) -> Callable[[Job], Rows]:
    """Return a stage: the recording in a format, on the simulated engine."""

    def run(job: Job) -> Rows:
        from benchmarks.gpu.simulation import simulate  # noqa: PLC0415 - as above

        return simulate(recording(job, suffix), job.seconds)

    return run


def front_end(job: Job) -> Rows:
    """Read two recordings in one and two threads, on two cores."""
    from benchmarks.gpu.front_end import on_two_cores  # noqa: PLC0415 - as above

    seconds = min(job.seconds, FRONT_SECONDS)
    path = recording(job, seconds=seconds)
    other = job.folder / OTHER
    other.write_bytes(path.read_bytes())
    return on_two_cores(path, other, seconds)


def spans(job: Job) -> Rows:
    """Read the spans of the recording in 1, 2, 4 and 8 threads."""
    from benchmarks.gpu.front_end import spans_in_threads  # noqa: PLC0415 - as above

    return spans_in_threads(recording(job), job.seconds)


def whole(name: str) -> Callable[[Job], Rows]:
    """Return a stage: whisperbatch on the GPU, with random weights of a shape."""

    def run(job: Job) -> Rows:
        from benchmarks.gpu.end_to_end import whisperbatch  # noqa: PLC0415 - as above

        return whisperbatch(weights(job, name), recording(job), job.seconds)

    return run


def weights(job: Job, name: str) -> str:
    """Return the directory of random weights of a shape, and write it if it does not exist."""
    from benchmarks.gpu.inputs import random_model  # noqa: PLC0415 - as above

    folder = job.folder / name
    return str(folder if folder.exists() else random_model(name, folder))


def rival(name: str) -> Callable[[Job], Rows]:
    """Return a stage: faster-whisper's batched mode on the same weights."""

    def run(job: Job) -> Rows:
        from benchmarks.gpu.end_to_end import WARM_UP, faster_whisper  # noqa: PLC0415 - as above

        beginning = recording(job, seconds=WARM_UP)
        return faster_whisper(weights(job, name), recording(job), job.seconds, beginning)

    return run


def parts(job: Job) -> Rows:
    """Time the parts of CTranslate2's calls, and calls side by side."""
    from benchmarks.gpu import ctranslate2_calls  # noqa: PLC0415 - as above

    calls = ctranslate2_calls.Calls(Path(weights(job, "turbo")))
    yield from ctranslate2_calls.side_by_side(calls)
    yield from ctranslate2_calls.parts(calls)


def real(job: Job) -> Rows:
    """Transcribe with real weights: with retries, and with faster-whisper beside it."""
    from benchmarks.gpu import end_to_end  # noqa: PLC0415 - as above

    path, beginning = recording(job), recording(job, seconds=end_to_end.WARM_UP)
    yield from end_to_end.whisperbatch(REAL_MODEL, path, job.seconds, random=False)
    yield from end_to_end.faster_whisper(REAL_MODEL, path, job.seconds, beginning, batches=(32,))


def cores(job: Job) -> Rows:
    """Compare both programs on 2, 8 and 16 cores, with tiny.en or random weights."""
    from benchmarks.gpu.end_to_end import on_cores  # noqa: PLC0415 - as above
    from benchmarks.gpu.machine import has_weights  # noqa: PLC0415 - as above

    seconds = min(job.seconds, CPU_SECONDS)
    model = CPU_MODEL if has_weights(CPU_MODEL) else weights(job, REAL_MODEL)
    return on_cores(model, recording(job, seconds=seconds), seconds)


def with_before(stages: Sequence[Stage], package: Path | None = None) -> tuple[Stage, ...]:
    """Return the stages; after each on the simulated engine, the same with another package.

    Args:
        stages: the stages.
        package: folder with the package.
    """
    found: list[Stage] = []
    for stage in stages:
        found.append(stage)
        if stage.name.startswith(SIMULATED):
            found.append(replace(stage, name=f"{stage.name}, before", package=package))
    return tuple(found)


SIMULATED: Final = "simulated engine"
ON_GPU: Final = (
    Stage("prepare", 60, prepare, ("gpu",)),
    Stage("turbo, random weights", 110, whole("turbo"), ("gpu",)),
    Stage("turbo, faster-whisper", 80, rival("turbo"), ("gpu", "faster-whisper")),
    Stage("front end, spans in threads", 45, spans, ("gpu",)),
    Stage(f"{SIMULATED}, WAV", 40, simulated(".wav"), ("gpu",)),
    Stage("CTranslate2, turbo", 80, parts, ("gpu",)),
    Stage("front end, two cores", 40, front_end, ("gpu",)),
    Stage("base, real weights", 60, real, ("gpu", "base", "faster-whisper")),
    Stage("large-v3, random weights", 90, whole("large-v3"), ("gpu",)),
    Stage("large-v3, faster-whisper", 60, rival("large-v3"), ("gpu", "faster-whisper")),
    Stage("many cores", 120, cores, ("gpu", "8 cores", "faster-whisper")),
)
WITHOUT_GPU: Final = (
    *(
        Stage(f"{SIMULATED}, {name}", 150, simulated(suffix))
        for name, suffix in (("WAV", ".wav"), ("MP3", ".mp3"), ("Opus", ".ogg"), ("AAC", ".m4a"))
    ),
    Stage("front end, two cores", 150, front_end),
    Stage("front end, spans in threads", 60, spans),
    Stage("many cores", 200, cores, ("8 cores", "faster-whisper")),
)
