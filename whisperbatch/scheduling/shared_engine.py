"""An engine whose rows share calls with the rows of all other threads."""

import threading
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from whisperbatch.errors import EngineError
from whisperbatch.options import Options, SearchOptions
from whisperbatch.protocols import (
    Alignment,
    AlignRequest,
    Decoded,
    DecodeRequest,
    Encoded,
    EngineTraits,
)
from whisperbatch.scheduling.row_calls import FIRST, Flow, Position, RowCall, SharedRow
from whisperbatch.scheduling.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class SharedRows:
    """Rows that are encoded when they are needed: the `Encoded` of a `SharedEngine`."""

    items: tuple[SharedRow, ...]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.items)


class SharedEngine:
    """The engine of a scheduler, for one run (see `protocols.Engine`). Thread-safe.

    The thread that calls a method waits. Rows of other threads that can share a call of the engine
    are computed with its rows. `encode` does no work: rows are encoded in the call that needs them.

    Args:
        scheduler: computes the rows.
        flow: the run.
        options: limit the number of rows of a call. A call with more hypotheses for each row
            (beams, or sampled hypotheses) than the first decoding has fewer rows, because the
            engine holds keys and values for each hypothesis.
        position: of rows outside a block of `at`. By default, they come before all chunks, because
            chunks and languages depend on them.
    """

    def __init__(
        self, scheduler: Scheduler, flow: Flow, options: Options, position: Position = FIRST
    ) -> None:
        engine = scheduler.engine
        self._position = position
        self._scheduler, self._flow = scheduler, flow
        self._batch_size = options.chosen_batch_size
        self._hypotheses = options.hypotheses
        self._thread = threading.local()
        self._no_timestamps = engine.tokenizer.token_to_id("<|notimestamps|>")
        self.name = engine.name
        self.fingerprint = engine.fingerprint
        self.is_multilingual = engine.is_multilingual
        self.can_translate = engine.can_translate
        self.n_mels = engine.n_mels
        self.workers = engine.workers
        self._feature_type = EngineTraits.of(engine).feature_type
        self.tokenizer = engine.tokenizer

    @contextmanager
    def at(self, position: Position) -> Iterator[None]:
        """Give the position of a chunk to the rows of this thread until the end of a `with` block.

        Outside the block, rows have the position of the constructor.
        """
        self._thread.position = position
        try:
            yield
        finally:
            del self._thread.position

    def check(self, options: SearchOptions) -> None:
        """See `protocols.Engine`."""
        self._scheduler.engine.check(options)

    def encode(self, features: npt.NDArray[np.float32]) -> SharedRows:
        """See `protocols.Engine`. The rows are encoded later.

        The thread of a row converts its features to the engine's type, so that the engine is busy
        meanwhile.
        """
        converted = features.astype(self._feature_type, copy=False)
        return SharedRows(tuple(SharedRow(row, row.shape[1]) for row in converted))

    def split(self, encoded: Encoded) -> list[Encoded]:
        """See `protocols.Engine`. The encoder outputs of these rows are stored."""
        rows = _items(encoded)
        for row in rows:
            row.stored = True
        return [SharedRows((row,)) for row in rows]

    def join(self, rows: Sequence[Encoded]) -> SharedRows:
        """See `protocols.Engine`. Rows that are joined are decoded again: outputs are stored."""
        items = tuple(item for row in rows for item in _items(row))
        for item in items:
            item.stored = True
        return SharedRows(items)

    def detect_language(self, encoded: Encoded) -> list[dict[str, float]]:
        """See `protocols.Engine`. The text is usually decoded next, so the output is stored."""
        rows = _items(encoded)
        for row in rows:
            row.stored = True
        return self._compute("detect_language", rows, [None] * len(rows))

    def decode(
        self, encoded: Encoded, requests: Sequence[DecodeRequest], options: SearchOptions
    ) -> list[Decoded]:
        """See `protocols.Engine`."""
        [decoded] = self.decode_all([(encoded, requests, options)])
        return decoded

    def decode_all(
        self, calls: Iterable[tuple[Encoded, Sequence[DecodeRequest], SearchOptions]]
    ) -> list[list[Decoded]]:
        """Decode the rows of several calls of `decode`, and wait for all of them once."""
        waiting = [
            self._row_calls(
                "decode",
                _items(encoded),
                requests,
                keys=[(self._decode_key(request), options) for request in requests],
                arguments=(options,),
                max_rows=self._max_rows(requests[0], options),
            )
            for encoded, requests, options in calls
        ]
        results = iter(self._scheduler.compute([call for calls in waiting for call in calls]))
        return [list(islice(results, len(calls))) for calls in waiting]

    def align(self, encoded: Encoded, texts: Sequence[AlignRequest]) -> list[Alignment]:
        """See `protocols.Engine`."""
        return self._compute("align", _items(encoded), texts)

    def close(self) -> None:
        """Do nothing: the engine belongs to the Transcriber."""

    def _decode_key(self, request: DecodeRequest) -> Hashable:
        """Return what the requests of a call must have in common."""
        sampling = request.sampling
        return (
            len(request.prompt),
            len(request.start),
            len(request.prefix),
            self._no_timestamps in request.prompt,
            sampling and (sampling.temperature, sampling.best_of),
        )

    def _max_rows(self, request: DecodeRequest, options: SearchOptions) -> int:
        hypotheses = request.sampling.best_of if request.sampling else options.beam_size
        return max(self._batch_size * min(self._hypotheses, hypotheses) // hypotheses, 1)

    def _compute(
        self, method: str, rows: Sequence[SharedRow], requests: Sequence[Any]
    ) -> list[Any]:
        return self._scheduler.compute(self._row_calls(method, rows, requests))

    def _row_calls(
        self,
        method: str,
        rows: Sequence[SharedRow],
        requests: Sequence[Any],
        *,
        keys: Sequence[Hashable] | None = None,
        arguments: tuple[Any, ...] = (),
        max_rows: int | None = None,
    ) -> list[RowCall]:
        group = object()
        position = getattr(self._thread, "position", self._position)
        return [
            RowCall(
                method,
                (method, row.frames, key),
                row,
                request,
                arguments,
                self._flow,
                group,
                position,
                max_rows or self._batch_size,
            )
            for row, request, key in zip(rows, requests, keys or [None] * len(rows), strict=True)
        ]


def _items(encoded: Encoded) -> tuple[SharedRow, ...]:
    if not isinstance(encoded, SharedRows):
        raise EngineError("the encoder output comes from another engine")
    return encoded.items
