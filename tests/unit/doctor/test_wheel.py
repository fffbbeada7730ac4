"""The wheel contains the recording of the doctor."""

import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_the_wheel_contains_the_clip(tmp_path: Path) -> None:
    builder = pytest.importorskip("hatchling.builders.wheel", reason="pip install hatchling")
    (wheel,) = builder.WheelBuilder(str(ROOT)).build(directory=str(tmp_path))
    with zipfile.ZipFile(wheel) as archive:
        clip = archive.read("whisperbatch/doctor/clip.opus")
    assert clip == (ROOT / "whisperbatch/doctor/clip.opus").read_bytes()
