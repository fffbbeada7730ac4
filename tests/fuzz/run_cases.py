"""Run cases: several jobs use one Transcriber with a fake engine at the same time.

Some recordings cannot be read to their end, and some have rows that the engine cannot decode.
"""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import whisperbatch as wb
from tests.fuzz.cases import Case, Environment, Result
from tests.fuzz.runs import Material, check_run, run_of
from tests.unit.fakes import LOUD, LOUD_PEAK, Call, FakeEngine, noise

LENGTHS = (0.2, 2.0, 5.0, 31.0, 65.0, 100.0)  # seconds
FAILURES = ("", "source", "row")
OPTIONS: tuple[dict[str, Any], ...] = (
    {"language": "en"},
    {"language": "en", "beam_size": 1, "batch_size": 1},
    {},
    {"multilingual": True, "batch_size": 2},
    {"language": "en", "condition_on_previous_text": True, "batch_size": 4},
)


def audio(length: int, failure: str) -> npt.NDArray[np.float32]:
    samples: npt.NDArray[np.float32] = noise(LENGTHS[length], length).copy()
    if failure == "row":
        samples[len(samples) // 3 : len(samples) // 2] *= LOUD
    if failure == "source":
        samples[-1] = np.nan
    return samples


def decode(call: Call) -> str:
    """The text depends on the row only; loud rows fail."""
    if call.row.peak > LOUD_PEAK:
        raise wb.EngineError("fake: decode failed")
    return f" Level {round(call.row.level * 1e4)} of {call.options.beam_size} beams."


MATERIAL = Material(
    sources=[
        partial(audio, length, failure) for failure in FAILURES for length in range(len(LENGTHS))
    ],
    options=[{"vad": False, "chunk_length": 10.0, **options} for options in OPTIONS],
    engine=lambda workers: FakeEngine(decode=decode, workers=workers, delay={"decode": 0.005}),
    delay=0.1,
    timeout=60.0,
)


DRAWN = [*range(len(LENGTHS)), *range(len(MATERIAL.sources))]  # more without failure


def run(case: Case, env: Environment) -> Result:
    """Let the jobs of a random run use a Transcriber at the same time."""
    random_run = run_of(case.random(), DRAWN, len(OPTIONS))
    env.note(str(random_run))
    MATERIAL.alone(0, 0)  # libraries start native threads, which stay
    env.begin()
    check_run(MATERIAL, random_run)
    return Result("run")
