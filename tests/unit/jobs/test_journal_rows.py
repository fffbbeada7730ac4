"""A job with a ledger encodes its rows as often as a job without a ledger."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.fakes import Call, FakeEngine, write_noise
from whisperbatch.jobs.inputs import WorkItem
from whisperbatch.jobs.job import Job, run_job
from whisperbatch.jobs.ledger import Ledger
from whisperbatch.options import Options
from whisperbatch.protocols import Hypothesis
from whisperbatch.transcriber import Transcriber

CHUNKS = Options(vad=False, chunk_length=4.0, batch_size=4)


def run(path: Path, options: dict[str, Any], ledger: Ledger | None, *, alone: bool) -> FakeEngine:
    """Transcribe a recording with text that fails its audit if it is to be retried."""

    def decode(call: Call) -> Hypothesis:
        token = 10 + round(call.row.level * 1000) % 40
        return Hypothesis((token,), -2.0 if "temperature" in options else -0.1, 0.0)

    engine = FakeEngine(decode=decode, detect=lambda _: {"en": 0.95, "fr": 0.05})
    engine.encodes_rows_alone = alone
    item = WorkItem(str(path), ())
    job = Job(lambda _: "settings", ledger)
    events = run_job(
        Transcriber(engine), [item], Options(**{**vars(CHUNKS), **options}), job, write=_no_file
    )
    assert type(list(events)[-1]).__name__ == "Finished"
    return engine


def _no_file(*_: object) -> None:
    raise AssertionError("the item has no outputs")


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"multilingual": True},
        {"language": "en", "condition_on_previous_text": True},
        {"language": "en", "temperature": (0.0, 0.4, 0.8)},
    ],
    ids=lambda options: list(options)[-1],
)
def test_rows_are_encoded_as_often_with_a_ledger(
    tmp_path: Path, options: dict[str, Any], *, alone: bool
) -> None:
    path = write_noise(tmp_path / "noise.wav", 60.0)
    without = run(path, options, None, alone=alone)
    with Ledger(tmp_path) as ledger:
        journaled = run(path, options, ledger, alone=alone)
    assert sum(without.batch_sizes["decode"]) >= 15
    for method in ("encode", "detect_language", "decode"):
        assert sum(journaled.batch_sizes[method]) == sum(without.batch_sizes[method]), method
