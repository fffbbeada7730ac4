"""The model, as the stages of one run use it: its rows share calls with the rows of all threads."""

import threading
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager

from whisperbatch.options import Options, SearchOptions
from whisperbatch.protocols import Decoded, DecodeRequest, EngineTraits
from whisperbatch.recording import Row
from whisperbatch.scheduling.call_queue import FIRST, Position, RunShare, WaitingRow
from whisperbatch.scheduling.scheduler import Scheduler


class SharedModel:
    """Detects the languages of rows, and decodes rows, for one run. Thread-safe.

    The thread that calls a method waits. Rows of other threads that can share a call of the engine
    are computed with its rows. A row is encoded in the first call that needs its encoder output.
    Its thread pads its features and converts them to the engine's type, so that the engine is busy
    meanwhile.

    Args:
        scheduler: computes the rows.
        run: the share of the engine of this run.
        options: limit the number of rows of a call. A call with more hypotheses for each row
            (beams, or sampled hypotheses) than the first decoding has fewer rows, because the
            engine holds keys and values for each hypothesis. The memory of a call therefore does
            not grow.
        position: of rows outside a block of `at`. By default, they come before all chunks, because
            chunks and languages depend on them.

    Attributes:
        is_multilingual: see `protocols.Engine`.
        n_mels: see `protocols.Engine`.
        tokenizer: see `protocols.Engine`.
    """

    def __init__(
        self, scheduler: Scheduler, run: RunShare, options: Options, position: Position = FIRST
    ) -> None:
        engine = scheduler.engine
        self.is_multilingual, self.n_mels = engine.is_multilingual, engine.n_mels
        self.tokenizer = engine.tokenizer
        self._feature_type = EngineTraits.of(engine).feature_type
        self._no_timestamps = engine.tokenizer.token_to_id("<|notimestamps|>")
        self._scheduler, self._share, self._position = scheduler, run, position
        self._batch_size = options.chosen_batch_size
        self._hypotheses = options.hypotheses
        self._thread = threading.local()

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

    def detect_languages(
        self, rows: Sequence[Row], window: int | None = None
    ) -> list[dict[str, float]]:
        """Return the probability of each language, one dict per row, in order.

        Args:
            rows: rows of any encoder windows.
            window: feature frames in the encoder window of all rows; None for their own windows.

        Raises:
            ClosedError: the run has ended, or the engine is closed.
            EngineError: the engine failed.
        """
        group = object()
        return self._scheduler.compute([self._call(row, group, window=window) for row in rows])

    def decode(self, requests: Sequence[tuple[Row, DecodeRequest, SearchOptions]]) -> list[Decoded]:
        """Decode rows, and align their texts. Return one result per request, in order.

        Args:
            requests: rows of any encoder windows, prompt lengths and searches; a row may occur
                several times.

        Raises:
            ClosedError: the run has ended, or the engine is closed.
            EngineError: the engine failed.
        """
        group = object()
        calls = [self._call(row, group, request, search) for row, request, search in requests]
        return self._scheduler.compute(calls)

    def _call(
        self,
        row: Row,
        group: object,
        request: DecodeRequest | None = None,
        search: SearchOptions | None = None,
        window: int | None = None,
    ) -> WaitingRow:
        encoding = row.prepare(self._feature_type, window)
        max_rows = self._batch_size
        key: Hashable = encoding.frames
        if request and search:
            hypotheses = request.sampling.best_of if request.sampling else search.beam_size
            max_rows = max(max_rows * min(self._hypotheses, hypotheses) // hypotheses, 1)
            key = (encoding.frames, self._decode_key(request), search)
        position = getattr(self._thread, "position", self._position)
        return WaitingRow(key, encoding, self._share, group, position, max_rows, request, search)

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
