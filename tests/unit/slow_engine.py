"""A fake engine that is slower than the reading of the recordings, on every machine."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.unit.fakes import FakeEncoded, FakeEngine
from whisperbatch.features import feature_extractor
from whisperbatch.protocols import FeatureExtractor
from whisperbatch.types import Features, Samples

PATIENCE = 20.0  # seconds until a row is encoded although no other rows wait


class SlowEngine(FakeEngine):
    """Encodes only when more rows wait. A pause of fixed length would do on an idle machine only.

    Args:
        monkeypatch: of the test.
        ahead: rows whose features must exist beyond the rows of a call.
        total: rows for which a call waits: the rows of the test, or fewer.
        keywords: see `FakeEngine`.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, ahead: int, total: int, **keywords: Any
    ) -> None:
        super().__init__(**keywords)
        self._ahead, self._total = ahead, total
        self._computed: list[int] = []
        self._encoded = 0
        monkeypatch.setattr(
            "whisperbatch.pipeline_run.feature_extractor",
            lambda *kind: _Counted(feature_extractor(*kind), self._count),
        )

    def encode(self, features: npt.NDArray[np.float32]) -> FakeEncoded:
        self._encoded += len(features)
        end = time.monotonic() + PATIENCE
        while len(self._computed) < min(self._encoded + self._ahead, self._total):
            assert time.monotonic() < end, "the next rows never came"
            time.sleep(0.005)
        time.sleep(0.05)  # a row waits for the engine soon after its features exist
        return super().encode(features)

    def _count(self) -> None:
        self._computed.append(1)


class _Counted:
    """Features as before; counts the rows."""

    def __init__(self, extractor: FeatureExtractor, count: Callable[[], None]) -> None:
        self.n_mels = extractor.n_mels
        self._extractor, self._count = extractor, count

    def __call__(self, samples: Samples) -> Features:
        features = self._extractor(samples)
        self._count()
        return features

    def pad_value(self, features: Features) -> float:
        return self._extractor.pad_value(features)
