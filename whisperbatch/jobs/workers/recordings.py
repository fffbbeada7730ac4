"""Whole recordings without a plan, whose results the caller keeps: `RecordingWorker`."""

import logging
import threading
from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace
from typing import Final

from whisperbatch.boundary import as_error
from whisperbatch.errors import ClosedError
from whisperbatch.jobs.plans.format import Failure, PlannedSpan
from whisperbatch.jobs.plans.recordings import READ_RANGE, opened
from whisperbatch.jobs.workers.failures import EngineFailures, failure_of, pauses_after
from whisperbatch.jobs.workers.job import BATCHES_AHEAD, MIN_AT_ONCE
from whisperbatch.jobs.workers.outcomes import SpanOutcome
from whisperbatch.jobs.workers.spans import ModelSpans, Running
from whisperbatch.options import Options, resolve
from whisperbatch.prefetch import interleave
from whisperbatch.protocols import EngineTraits
from whisperbatch.transcriber import Transcriber
from whisperbatch.types import Transcript

OPTION: Final = "option"

log = logging.getLogger(__name__)


class RecordingWorker:
    """Transcribes recordings; all of them share the batches of the model.

    Args:
        asr: the model.
        options: of the transcription.
    """

    def __init__(self, asr: Transcriber, options: Options) -> None:
        self._spans = ModelSpans(asr, options)
        self._options = options
        traits = EngineTraits.of(asr.engine)
        batch = options.batch_size or traits.default_batch_size(options.hypotheses)
        rows = batch * asr.engine.workers
        self._at_once = max(MIN_AT_ONCE, BATCHES_AHEAD * rows)
        self._running: set[Running] = set()
        self._engine_failures = EngineFailures()

    def outcomes(
        self, recordings: Iterable[tuple[str, object, object]]
    ) -> Generator[SpanOutcome, None, None]:
        """Yield the recordings in order: with the transcript, or with the reason of the failure.

        Stores and engines that fail are tried again, as `work` does. The order is always the same,
        because a program that calls this again after a death may skip the received outcomes.

        Args:
            recordings: id, URI and language of each. The URI is a path or a URL; the language is
                Whisper's code, or None to detect it.

        Raises:
            EngineError: the engine failed for several recordings in a row.
        """
        stopping = threading.Event()  # of this call: a thread of an earlier call stays stopped
        ended = interleave(
            (self._ended(*recording, stopping) for recording in recordings),
            at_once=self._at_once,
            depth=1,
            ordered=True,
        )
        try:
            for outcome in ended:
                self._engine_failures.note(outcome.failure)
                yield outcome
        finally:
            stopping.set()
            for running in list(self._running):
                running.cancel()
            ended.close()

    def _ended(
        self, id_: str, uri: object, language: object, stopping: threading.Event
    ) -> Iterator[SpanOutcome]:
        """Transcribe a recording, in a separate thread."""
        span = PlannedSpan(id_, id_, str(uri), "", 0, None, 0.0)
        if not isinstance(uri, str) or not uri:
            yield SpanOutcome(span, None, Failure(OPTION, f"recording {id_} has no uri"))
            return
        number = 0
        while True:
            try:
                transcript = self._transcribed(span, language, stopping)
            except ClosedError:
                if stopping.is_set():
                    return
                raise
            except Exception as error:  # noqa: BLE001 - ends this recording only
                failure = failure_of(as_error(error, uri))
            else:
                yield SpanOutcome(replace(span, duration=transcript.duration), transcript, None)
                return
            pauses = pauses_after(failure)
            if number == len(pauses) or stopping.is_set():
                yield SpanOutcome(span, None, failure)
                return
            log.warning("%s; trying again in %g s", failure.message, pauses[number])
            if stopping.wait(pauses[number]):
                return
            number += 1

    def _transcribed(
        self, span: PlannedSpan, language: object, stopping: threading.Event
    ) -> Transcript:
        """Transcribe a recording once."""
        chosen = self._options
        if language is not None:
            chosen = resolve(chosen, language=language)  # type: ignore[arg-type]  # is checked
        with opened(span.uri, None, read_range=READ_RANGE) as source:
            running = self._spans.start(source, span, chosen.language)
            self._running.add(running)
            if stopping.is_set():
                running.cancel()
            try:
                return running.result()
            finally:
                self._running.discard(running)
