"""One real recording through each front door: the same text everywhere, and few word errors.

`make test` runs these tests of tests/model only. tests/unit/front_doors has the options.
"""

from pathlib import Path

import openai
import pytest

import whisperbatch as wb
from benchmarks import recordings, scoring
from benchmarks.recordings import Recording
from tests.model.command_line import FAST, run, run_here
from tests.model.server import running
from whisperbatch.compat.faster_whisper import WhisperModel


@pytest.fixture(scope="module")
def recording() -> Recording:
    return recordings.prompts("en", duration=40, seed=3)


@pytest.fixture(scope="module")
def talk(recording: Recording, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recordings.write(recording, tmp_path_factory.mktemp("doors") / "talk.mp3")


@pytest.fixture(scope="module")
def text(tiny: wb.Transcriber, talk: Path) -> str:
    return tiny.transcribe(talk, beam_size=1).text


def test_python(recording: Recording, text: str) -> None:
    assert scoring.word_error_rate(recording.text, text).rate < 0.1


def test_command_line(talk: Path, text: str) -> None:
    assert run("transcribe", talk.name, *FAST, cwd=talk.parent).stdout.split() == text.split()


def test_server(talk: Path, text: str) -> None:
    with running() as server, openai.OpenAI(base_url=server.api, api_key="none") as client:
        assert client.audio.transcriptions.create(model="whisper-1", file=talk).text == text


def test_drop_in(talk: Path, text: str) -> None:
    segments, info = WhisperModel("tiny.en", device="cpu").transcribe(
        str(talk), beam_size=1, temperature=0.0
    )
    assert "".join(segment.text for segment in segments).strip() == text
    assert info.language == "en"


@pytest.mark.usefixtures("kept_models")
def test_plan(talk: Path, text: str) -> None:
    run_here("plan", talk.name, "-o", "talks.plan", *FAST, cwd=talk.parent)
    run_here("work", "talks.plan", cwd=talk.parent)
    run_here("join", "talks.plan", "-o", "texts", cwd=talk.parent)
    assert (talk.parent / "texts/talk.txt").read_text().split() == text.split()
