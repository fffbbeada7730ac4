"""Every Python block in the README and docs runs, on real weights and speech."""

import re
import wave
from pathlib import Path

import numpy as np
import pytest

from benchmarks import recordings

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(
        block,
        id=f"{page.relative_to(ROOT)}-{number}",
        marks=[pytest.mark.torch] if 'engine="torch"' in block or "TorchSettings" in block else [],
    )
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL), start=1
    )
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pages take for granted: a talk, and a call with a speaker a channel."""
    directory = tmp_path_factory.mktemp("docs")
    speech = recordings.prompts("en", duration=40)
    for name in ("talk.mp3", "lecture.mp3"):
        recordings.write(speech, directory / name)
    other = recordings.prompts("en", duration=40, seed=1)
    length = min(len(speech.samples), len(other.samples))
    with wave.open(str(directory / "call.wav"), "wb") as call:
        call.setparams((2, 2, recordings.SAMPLING_RATE, 0, "NONE", ""))
        call.writeframes(np.stack((speech.samples[:length], other.samples[:length]), 1).tobytes())
    return directory


@pytest.mark.parametrize("block", BLOCKS)
def test_block_runs(block: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if 'features="kaldi' in block:
        pytest.importorskip("torchaudio")
    monkeypatch.chdir(folder)
    exec(compile(block, "<docs>", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own pages
