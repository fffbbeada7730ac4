"""A shared engine for tests: the text of each row is its level."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tests.unit.fakes import Call
from tests.unit.scheduling.row_calls import Caller, CountedScheduler, GatedEngine
from whisperbatch.options import Options, SearchOptions
from whisperbatch.protocols import AlignRequest, DecodeRequest, Encoded
from whisperbatch.scheduling import Flow, SharedEngine

T = TypeVar("T")

OPTIONS = Options(batch_size=8)
SEARCH = OPTIONS.search
START = (50, 51, 52)
PROMPT = (10, *START, 53, 20)
REQUEST = DecodeRequest(PROMPT, START, prefix=(20,), frames=4)
ALIGN = AlignRequest(START, (1, 2, 3), 4)


def features(*levels: float, window: int = 4) -> npt.NDArray[np.float32]:
    """Return the features of rows, each with one value everywhere."""
    values = np.array(levels, np.float32)
    return np.broadcast_to(values[:, None, None], (len(levels), 80, window)).copy()


def level_text(call: Call) -> str:
    return f" {call.row.level:g}."


@dataclass(frozen=True)
class Sharing:
    """A shared engine, and the parts below it."""

    engine: GatedEngine
    scheduler: CountedScheduler
    flow: Flow
    shared: SharedEngine

    def decode(
        self, rows: Encoded, request: DecodeRequest = REQUEST, search: SearchOptions = SEARCH
    ) -> list[str]:
        """Return the text of each row: its level."""
        decoded = self.shared.decode(rows, [request] * rows.rows, search)
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
    """Yield a shared engine. If `hold` is true, the rows of all calls wait for the gate."""
    engine = GatedEngine(decode=level_text, workers=workers)
    scheduler, flow = CountedScheduler(engine), Flow()
    with scheduler.running(flow):
        if hold:
            scheduler.hold(flow)
            engine.batch_sizes["encode"].clear()
        else:
            engine.gate.set()
        yield Sharing(engine, scheduler, flow, SharedEngine(scheduler, flow, options))
