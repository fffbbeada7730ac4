"""Fixtures for several test folders: recordings of real speech with their truth, and models.

`make test` fetches the speech before the tests, with `python -m benchmarks.speech`. Otherwise the
fixtures fetch missing speech.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# No test may use the network. huggingface_hub reads this variable once, when it is imported.
os.environ["HF_HUB_OFFLINE"] = "1"

# MKL reads this variable before its first product. The PyTorch engine sets the variable, but a test
# may use PyTorch before the engine does (whisperbatch/engines/torch/modules.py).
if sys.platform == "linux" and "GenuineIntel" in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")

from hypothesis import HealthCheck, settings

import whisperbatch as wb
from benchmarks import recordings
from benchmarks.recordings import Recording
from whisperbatch.engines.loading import load_engine
from whisperbatch.protocols import Engine

# A shell without job control starts background programs with Ctrl-C (SIGINT) ignored, and their
# child processes inherit this. The tests of Ctrl-C need Python's normal handler.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same cases in every run: a random failure does not show which change caused it. No time limit:
# on a busy machine, Hypothesis would fail a test whose cases are made slowly.
settings.register_profile(
    "fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
# A third of the cases for a run without the slow tests (tests/examples.py).
settings.register_profile("fewer", settings.get_profile("fixed"), max_examples=33)
settings.load_profile("fixed")


def pytest_configure(config: pytest.Config) -> None:
    """Give each process of pytest-xdist its own cores, which the engines' threads then share."""
    if "not slow" in config.option.markexpr:
        settings.load_profile("fewer")
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker and hasattr(os, "sched_setaffinity"):
        count = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        cores = sorted(os.sched_getaffinity(0))[int(worker[2:]) :: count]
        if cores:
            os.sched_setaffinity(0, cores)


CHECKED = (
    "benchmarks/tests",
    "tests/fuzz",
    "tests/model",
    *("tests/contract/test_damaged_models.py", "tests/contract/test_engine_directories.py"),
    *("tests/unit/compat/test_hostile_values.py", "tests/unit/options/test_hostile_values.py"),
    *("tests/unit/diarization/networks", "tests/unit/doctor"),
    *("tests/unit/sections/test_spans.py", "tests/unit/sections/test_division.py"),
    *("tests/unit/test_processes.py", "tests/unit/test_telemetry.py"),
    "tests/unit/test_site.py",
)
"""Folders and files whose tests have the marker `check`: `make check` runs them."""

FRONT_DOORS = "tests/model/test_front_doors.py"
"""The tests with real weights that `make test` runs."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of `make check`."""
    if missing := [path for path in CHECKED if not (ROOT / path).exists()]:
        raise pytest.UsageError(f"conftest.py: CHECKED names files that do not exist: {missing}")
    for item in items:
        path = item.path.relative_to(ROOT).as_posix()
        if path.startswith(CHECKED) and path != FRONT_DOORS:
            item.add_marker("check")


def pytest_collection_finish() -> None:
    """Leave the objects of thousands of tests out of the garbage collections that tests ask for."""
    gc.collect()
    gc.freeze()


Save = Callable[[Recording, str], Path]
ROOT = Path(__file__).parent


@pytest.fixture(scope="session")
def save(tmp_path_factory: pytest.TempPathFactory) -> Save:
    """Return a function that writes a recording in the format of a suffix, once per session."""
    directory = tmp_path_factory.mktemp("recordings")

    def save_once(recording: Recording, suffix: str = ".wav") -> Path:
        path = directory / f"{recording.name}{suffix}"
        return path if path.exists() else recordings.write(recording, path)

    return save_once


@pytest.fixture(scope="session")
def speech() -> Recording:
    """Two minutes of English prompts with pauses."""
    return recordings.prompts("en", duration=120)


@pytest.fixture(scope="session")
def speech_wav(speech: Recording, save: Save) -> Path:
    """Two minutes of English prompts with pauses, as a file."""
    return save(speech, ".wav")


@pytest.fixture(scope="session")
def long_speech() -> Recording:
    """Ten minutes of English prompts with pauses: the recording of the accuracy promises."""
    return recordings.prompts("en", duration=600)


@pytest.fixture(scope="session")
def long_speech_wav(long_speech: Recording, save: Save) -> Path:
    """Ten minutes of English prompts with pauses, as a file."""
    return save(long_speech, ".wav")


@pytest.fixture(scope="session")
def base() -> Iterator[wb.Transcriber]:
    """The multilingual model, loaded once."""
    with wb.load("base", device="cpu") as asr:
        yield asr


@pytest.fixture(scope="session")
def tiny() -> Iterator[wb.Transcriber]:
    """The small English model, loaded once."""
    with wb.load("tiny.en", device="cpu") as asr:
        yield asr


@pytest.fixture(scope="session")
def load_once() -> Iterator[Callable[..., Engine]]:
    """Return a function that loads an engine, once for equal arguments.

    `close` has no effect on its engines before the end of the session.
    """
    engines: dict[str, Engine] = {}
    with pytest.MonkeyPatch.context() as patch:

        def load(model: str, **keywords: Any) -> Engine:  # noqa: ANN401 - settings of several engines
            if "torch" in str(keywords.get("engine")).lower():
                return load_engine(model, **keywords)
            key = repr((model, sorted(keywords.items())))
            if key not in engines:
                engines[key] = load_engine(model, **keywords)
                patch.setattr(engines[key], "close", lambda: None)
            return engines[key]

        yield load
    for engine in engines.values():
        engine.close()


@pytest.fixture
def kept_models(monkeypatch: pytest.MonkeyPatch, load_once: Callable[..., Engine]) -> None:
    """`load` returns models that other tests have loaded already."""
    monkeypatch.setattr("whisperbatch.engines.loading.load_engine", load_once)


@pytest.fixture(scope="session")
def base_model() -> str:
    """The name of the multilingual model that the `models` extra installs."""
    return "base"


@pytest.fixture(scope="session")
def tiny_model() -> str:
    """The name of the small English model that the `models` extra installs."""
    return "tiny.en"
