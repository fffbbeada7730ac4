"""A shared model for tests: the text of each row is its level."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from tests.unit.fakes import Call
from tests.unit.scheduling.row_calls import Caller, CountedScheduler, GatedEngine
from whisperbatch.options import Options, SearchOptions
from whisperbatch.protocols import DecodeRequest
from whisperbatch.recording import RecordingState, Row
from whisperbatch.scheduling import RunShare, SharedModel
from whisperbatch.types import Chunk

T = TypeVar("T")

OPTIONS = Options(batch_size=8)
SEARCH = OPTIONS.search
START = (50, 51, 52)
PROMPT = (10, *START, 53, 20)
REQUEST = DecodeRequest(PROMPT, START, prefix=(20,), frames=4)


def rows_of(*levels: float, window: int = 4) -> list[Row]:
    """Return rows whose features have one value each, in an encoder window of this size."""
    rows = []
    for level in levels:
        features = np.full((80, window), level, np.float32)
        row = Row(Chunk(0, 0, (), (), np.zeros(0, np.float32)), features, 0.0, RecordingState(0))
        row.prepare(np.float32, window)
        rows.append(row)
    return rows


def level_text(call: Call) -> str:
    return f" {call.row.level:g}."


@dataclass(frozen=True)
class Sharing:
    """A shared model, and the parts below it."""

    engine: GatedEngine
    scheduler: CountedScheduler
    run: RunShare
    model: SharedModel

    def decode(
        self, rows: Sequence[Row], request: DecodeRequest = REQUEST, search: SearchOptions = SEARCH
    ) -> list[str]:
        """Return the text of each row: its level."""
        return self.texts([(row, request, search) for row in rows])

    def texts(self, requests: Sequence[tuple[Row, DecodeRequest, SearchOptions]]) -> list[str]:
        """Return the text of each request: the level of its row."""
        decoded = self.model.decode(requests)
        tokenizer = self.engine.tokenizer
        return [tokenizer.decode(row.hypothesis.tokens).strip(" .") for row in decoded]

    def start(self, function: Callable[[], T], rows: int = 1) -> Caller[T]:
        """Call a function in a thread, and wait until its rows are in the queue."""
        caller = Caller(function)
        self.scheduler.wait_for_rows(rows)
        return caller


@contextmanager
def sharing(
    options: Options = OPTIONS, *, hold: bool = False, workers: int = 1
) -> Iterator[Sharing]:
    """Yield a shared model. If `hold` is true, the rows of all calls wait for the gate."""
    engine = GatedEngine(decode=level_text, workers=workers)
    scheduler, run = CountedScheduler(engine), RunShare()
    with scheduler.running(run):
        if hold:
            scheduler.hold(run)
            engine.batch_sizes["encode"].clear()
        else:
            engine.gate.set()
        yield Sharing(engine, scheduler, run, SharedModel(scheduler, run, options))
