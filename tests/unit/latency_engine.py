"""A fake engine whose calls take the time of large-v3-turbo on an NVIDIA H200, without a GPU."""

import re
import threading
import time
from collections.abc import Sequence
from random import Random
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tests.unit.fakes import Call, EncodedRow, FakeEncoded, FakeEngine
from tests.unit.small_tokenizers import TEXT
from whisperbatch.engines.memory import MAX_BATCH_SIZE
from whisperbatch.protocols import Alignment

STEPS: Final = 130  # of the decoder in each call: the longest text of 27 s of speech
WORDS_PER_SECOND: Final = 2.5
SENTENCE: Final = 12  # words
FRAMES_PER_SECOND: Final = 100
SEEN_FRAMES: Final = 64  # of each row; they make the text
WORDS: Final = sorted({word.lower() for word in re.findall(r"\b[A-Za-z]{2,}\b", TEXT)})


def encoding(rows: int) -> float:
    """Return the seconds in which a GPU encodes a call of this many rows. An estimate."""
    return 0.003 + 0.0055 * rows


def decoding(rows: int) -> float:
    """Return the seconds in which a GPU decodes and aligns a call. An estimate."""
    return STEPS * (0.0008 + 0.000006 * rows) + 0.020 + 0.0008 * rows


def detecting(rows: int) -> float:
    """Return the seconds of a step of the decoder, which detects the languages. An estimate."""
    return 0.0008 + 0.000006 * rows


def sentences(call: Call) -> str:
    """Return sentences without repetitions, as many words as the row has time for."""
    count = max(round(call.frames / FRAMES_PER_SECOND * WORDS_PER_SECOND), 1)
    random, words = Random(call.row.level), list[str]()  # noqa: S311 - repeatable
    while len(words) < count:
        words += random.sample(WORDS, len(WORDS))
    parts = [words[start : start + SENTENCE] for start in range(0, count, SENTENCE)]
    parts[-1] = parts[-1][: (count - 1) % SENTENCE + 1]
    return "".join(f" {' '.join(part).capitalize()}." for part in parts)


def whole_row(row: EncodedRow, tokens: Sequence[int], frames: int) -> Alignment:
    """Tokens of equal length from the start to the end of the row: no speech is uncovered."""
    times = np.linspace(0, frames / FRAMES_PER_SECOND, len(tokens) + 1)
    return Alignment(times[:-1], times[1:], np.full(len(tokens), 0.9))


class LatencyEngine(FakeEngine):
    """An engine that waits as long as a GPU would compute, with the GIL released.

    Its texts are sentences whose words cover the whole row, so that no row is decoded again. The
    encoder of one call uses the whole GPU: encoders of two workers run one after the other.

    Args:
        workers: number of calls at a time.
        keywords: see `FakeEngine`.

    Attributes:
        busy: seconds in which the workers computed, added over all workers.
    """

    n_mels = 128
    device = "cuda"
    feature_type = np.float16

    def __init__(self, *, workers: int = 2, **keywords: Any) -> None:
        keywords.setdefault("decode", sentences)
        keywords.setdefault("align", whole_row)
        delay = {"encode": encoding, "decode": decoding, "detect_language": detecting}
        super().__init__(workers=workers, delay=delay, **keywords)
        self.busy = 0.0
        self._gpu = threading.Lock()

    @staticmethod
    def default_batch_size(hypotheses: int) -> int:
        return MAX_BATCH_SIZE

    def idle_share(self, seconds: float) -> float:
        """Return the share of time in which a worker was free, of a run of this many seconds."""
        return 1 - self.busy / (self.workers * seconds)

    def encode(self, features: npt.NDArray[np.floating[Any]]) -> FakeEncoded:
        assert features.dtype == np.float16
        return super().encode(features[:, :, :SEEN_FRAMES].astype(np.float32))

    def _record(self, method: str, rows: int) -> None:
        started = time.perf_counter()
        if method == "encode":
            with self._gpu:
                super()._record(method, rows)
        else:
            super()._record(method, rows)
        with self._lock:
            self.busy += time.perf_counter() - started
