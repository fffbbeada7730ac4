"""The loaded models of a worker: random weights, which are fast to load, and tiny.en."""

import functools
import tempfile
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Final

import whisperbatch as wb
from tests.contract.model_directories import random_model
from tests.fuzz.inputs.containers import speech
from whisperbatch.models.architecture import RandomModel

ENGINES: Final = ("ctranslate2", "openvino", "onnxruntime", "torch")
WEIGHTS: Final = (30, 30, 30, 10)  # torch takes five times as long with models of this size
SIZES: Final = RandomModel(d_model=32, heads=2, layers=1)
FOLDER: Final = Path(tempfile.gettempdir()) / "whisperbatch-fuzz-model"


@functools.cache
def random_model_folder() -> Path:
    """Return the folder of the model with random weights; write it if it does not exist."""
    if not FOLDER.is_dir():
        with tempfile.TemporaryDirectory(dir=FOLDER.parent) as folder:
            written = random_model(Path(folder) / "model", SIZES)
            try:
                written.rename(FOLDER)
            except OSError:  # the other worker was first
                if not FOLDER.is_dir():
                    raise
    return FOLDER


def choose_engine(random: Random, engine: str | None) -> str:
    """Return the engine of a case; an engine that is not installed is replaced."""
    chosen = random.choices(ENGINES, WEIGHTS)[0]
    return engine or installed(chosen)


def installed(engine: str) -> str:
    """Return the engine, or "ctranslate2" if the engine is not installed."""
    return engine if find_spec(engine) else "ctranslate2"


def choose_model(random: Random) -> str:
    """Return the name of the model of a case: one case in twenty has real weights."""
    return "tiny.en" if random.random() < 0.05 else "random"


@functools.cache
def load(model: str, engine: str) -> wb.Transcriber:
    """Load a model for all cases of this worker, and start the threads that it keeps."""
    name = str(random_model_folder()) if model == "random" else model
    asr = wb.load(name, engine=engine, device="cpu")  # type: ignore[arg-type]  # one of ENGINES
    sound = speech(Random(0), 3)  # noqa: S311 - not a secret
    asr.transcribe(sound, max_new_tokens=5, word_timestamps=True)
    asr.transcribe(sound, max_new_tokens=5, temperature=1.0)
    for _ in range(3):  # OpenVINO starts the threads of its pool one by one
        asr.transcribe(sound, max_new_tokens=5, beam_size=32)
    asr.detect_language(sound)
    return asr
