"""The page of constants and the source."""

import re
from pathlib import Path

from benchmarks.constants import speakers
from benchmarks.constants.inventory import constants

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "constants.md"
ROW = re.compile(r"^\| `([a-z_.0-9]+\.[A-Z_]+)` \| `([^`]+)` \| (.+?) \|$", re.MULTILINE)


def test_the_page_has_every_constant_with_its_value() -> None:
    """After a change, correct the row in docs/reference/constants.md."""
    rows = {key: source for key, source, _ in ROW.findall(PAGE.read_text(encoding="utf-8"))}
    assert rows == {key: constant.source for key, constant in constants().items()}


def test_every_constant_of_the_diarization_has_a_state() -> None:
    states = {**speakers.STATES, **speakers.UNCHECKED}
    assert not set(speakers.STATES) & set(speakers.UNCHECKED)
    assert states.keys() == {key for key in constants() if key.startswith("diarization.")}
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    on_page = {key: state for key, _, state in rows if key.startswith("diarization.")}
    assert on_page == states
