"""Fixtures that several tests share: recordings of real speech with their truth, and models.

The speech is fetched before the tests (`python -m benchmarks.speech`, which `make test` runs);
where it is missing, its fixtures fetch it.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

# Before anything imports huggingface_hub, which reads it once: no test may reach for the network.
os.environ["HF_HUB_OFFLINE"] = "1"

from hypothesis import settings

from benchmarks import recordings
from benchmarks.recordings import Recording

# A shell without job control has what it runs in the background ignore Ctrl-C, and programs that
# are started from there inherit it: tests of Ctrl-C need it as people have it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same cases every time: what fails by chance tells nobody what has changed.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")

Save = Callable[[Recording, str], Path]


@pytest.fixture(scope="session")
def save(tmp_path_factory: pytest.TempPathFactory) -> Save:
    """Write a recording once a session, in the format of the suffix; returns its path."""
    directory = tmp_path_factory.mktemp("recordings")

    def saved(recording: Recording, suffix: str = ".wav") -> Path:
        path = directory / f"{recording.name}{suffix}"
        return path if path.exists() else recordings.write(recording, path)

    return saved


@pytest.fixture(scope="session")
def speech() -> Recording:
    """Two minutes of English prompts with pauses."""
    return recordings.prompts("en", duration=120)


@pytest.fixture(scope="session")
def speech_wav(speech: Recording, save: Save) -> Path:
    """The same as a file."""
    return save(speech, ".wav")


@pytest.fixture(scope="session")
def long_speech() -> Recording:
    """Ten minutes of English prompts with pauses: what accuracy is promised on."""
    return recordings.prompts("en", duration=600)


@pytest.fixture(scope="session")
def long_speech_wav(long_speech: Recording, save: Save) -> Path:
    """The same as a file."""
    return save(long_speech, ".wav")


@pytest.fixture(scope="session")
def base_model() -> str:
    """The multilingual model that the `models` extra installs."""
    return "base"


@pytest.fixture(scope="session")
def tiny_model() -> str:
    """The small English model that the `models` extra installs."""
    return "tiny.en"
