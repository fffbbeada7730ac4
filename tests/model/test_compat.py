"""Programs written for faster-whisper run on the drop-in; only their import changes.

Each program of `compat_programs` runs with both packages and the same weights. It stores results in
`result`, which must have the same structure, and in `same`, which must be equal. The transcript of
the drop-in must have few word errors.
"""

import wave
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest

from benchmarks import recordings, scoring
from benchmarks.faster_whisper_files import let_faster_whisper_open_files
from benchmarks.recordings import Recording
from tests.model.compat_programs import PROGRAMS, Program
from whisperbatch.models.registry import find_model

THEIRS = "faster_whisper"
OURS = "whisperbatch.compat.faster_whisper"

FILES = {"AUDIO": "talk.mp3", "FRENCH": "french.mp3", "STEREO": "stereo.wav"}

# other programs use most of the same names
SLOW = (
    "first example of the README",
    "languages",
    "two speakers",
    "voice activity",
    "audio without samples",
    "chunks",
    "one window",
    "subtitles",
    "prefix",
    "hotwords and languages",
    "windows one after the other",
    "a subclass that decodes batches",
)


@pytest.fixture(scope="module")
def talk() -> Recording:
    return recordings.prompts("en", duration=30, seed=3)


@pytest.fixture(scope="module")
def variables(talk: Recording, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The global variables that the programs read."""
    directory = tmp_path_factory.mktemp("compat")
    second = recordings.prompts("en", duration=30, seed=4)
    length = min(len(talk.samples), len(second.samples))
    stereo = np.stack((talk.samples[:length], second.samples[:length]), 1)
    recordings.write(talk, directory / "talk.mp3")
    recordings.write(recordings.prompts("fr", duration=30), directory / "french.mp3")
    with wave.open(str(directory / "stereo.wav"), "wb") as file:
        file.setparams((2, 2, recordings.SAMPLING_RATE, 0, "NONE", ""))
        file.writeframes(stereo.tobytes())
    paths = {name: str(directory / file) for name, file in FILES.items()}
    return {**paths, "BASE": str(find_model("base")), "TINY": str(find_model("tiny.en"))}


def run(program: Program, module: str, variables: dict[str, str]) -> dict[str, Any]:
    source = program.source.replace(f"from {THEIRS}", f"from {module}")
    source = source.replace(f"import {THEIRS}", f"import {module} as {THEIRS}")
    scope: dict[str, Any] = dict(variables)
    exec(compile(source, f"<{module}>", "exec"), scope)  # noqa: S102 - the programs above
    return scope


def structure(value: Any) -> Any:
    """Return the structure of a result: types, names and the first item of lists, without values.

    Two fields are left out, because the options in effect may differ in form: `vad_options` is None
    in faster-whisper where the drop-in uses its VAD.
    """
    if is_dataclass(value):
        names = [f.name for f in fields(value) if f.name not in ("clip_timestamps", "vad_options")]
        return type(value).__name__, {name: structure(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return {key: structure(item) for key, item in value.items()}
    if isinstance(value, tuple) and not all(isinstance(item, int) for item in value):
        return tuple(structure(item) for item in value)
    if isinstance(value, list | tuple):
        return type(value)([structure(value[0])] if value else [])
    if isinstance(value, bool | str) or value is None:
        return type(value).__name__
    return "number" if isinstance(value, int | float) else type(value).__name__


@pytest.mark.usefixtures("kept_models")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in PROGRAMS]
)
def test_program(name: str, variables: dict[str, str], talk: Recording) -> None:
    program = PROGRAMS[name]
    ours = run(program, OURS, variables)
    if program.max_word_error_rate is not None:
        score = scoring.word_error_rate(talk.text, ours["text"], "en")
        assert score.rate <= program.max_word_error_rate
    if program.runs_with_theirs:
        let_faster_whisper_open_files()
        theirs = run(program, THEIRS, variables)
        assert structure(ours["result"]) == structure(theirs["result"])
        assert ours.get("same") == theirs.get("same")
