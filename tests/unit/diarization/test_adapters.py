"""senko and pyannote.audio behind the contract of diarizers, with fakes of the two packages."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typing_extensions import Self

from whisperbatch.diarization import adapters
from whisperbatch.diarization.adapters import PyannoteDiarizer, SenkoDiarizer
from whisperbatch.diarization.protocol import Diarizer, Progress, SpeakerLimits
from whisperbatch.errors import EngineError, MissingExtraError, ModelError, OptionError
from whisperbatch.types import SAMPLING_RATE, Diarization, Samples

NO_LIMITS = SpeakerLimits()


class FakeSenko:
    """senko's Diarizer: B speaks, then A; C has no turn left."""

    def __init__(self, *, warmup: bool, quiet: bool) -> None:
        self.heard: list[Samples] = []

    def diarize_samples(self, samples: Samples) -> dict[str, Any] | None:
        self.heard.append(samples)
        if not samples.any():
            return None
        if samples[0] == 1:
            raise RuntimeError("clustering failed")
        return {
            "merged_segments": [
                {"start": 4.0, "end": 90.0, "speaker": "SPEAKER_01"},
                {"start": 0.5, "end": 4.0, "speaker": "SPEAKER_02"},
            ],
            "speaker_centroids": {
                "SPEAKER_01": np.array([3.0, 4.0]),
                "SPEAKER_02": np.zeros(2),
                "SPEAKER_03": np.ones(2),
            },
        }


class FakeAnnotation:
    def __init__(self, *, is_exclusive: bool = False) -> None:
        self._second = 3.0 if is_exclusive else 2.5

    def itertracks(self, *, yield_label: bool) -> Iterator[tuple[object, str, str]]:
        for start, end, label in ((1.0, 3.0, "b"), (self._second, 6.0, "a"), (-1.0, 0.5, "a")):
            yield SimpleNamespace(start=start, end=end), "_", label

    def labels(self) -> list[str]:
        return ["a", "b"]


class FakePipeline:
    """A pipeline of pyannote.audio."""

    def __init__(self) -> None:
        self.calls: list[tuple[dict[str, Any], dict[str, int]]] = []
        self.is_old = False
        self.device = ""

    def __call__(self, file: dict[str, Any], **counts: int) -> object:
        self.calls.append((file, counts))
        if self.is_old:
            return FakeAnnotation()
        embeddings = np.array([[0.0, 2.0], [np.nan, 1.0]])
        return SimpleNamespace(
            speaker_diarization=FakeAnnotation(),
            exclusive_speaker_diarization=FakeAnnotation(is_exclusive=True),
            speaker_embeddings=embeddings,
        )

    def to(self, device: str) -> None:
        self.device = device


def module(name: str, **attributes: object) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(attributes)
    return made


@pytest.fixture
def senko_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made = module("senko.diarizer", Diarizer=FakeSenko, suppress_stdout_stderr=open)
    monkeypatch.setitem(sys.modules, "senko", module("senko", diarizer=made))
    monkeypatch.setitem(sys.modules, "senko.diarizer", made)
    monkeypatch.setattr(adapters, "version", lambda name: "1.2")
    return made


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch) -> FakePipeline:
    made = FakePipeline()

    def from_pretrained(name: str) -> FakePipeline | None:
        if name == "no/pipeline":
            return None
        if name == "pyannote/gated":
            raise OSError("401 Client Error\nmore lines")
        return made

    torch = module(
        "torch",
        cuda=SimpleNamespace(is_available=lambda: True),
        device=str,
        from_numpy=lambda array: array,
    )
    audio = module("pyannote.audio", Pipeline=SimpleNamespace(from_pretrained=from_pretrained))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "pyannote", module("pyannote", audio=audio))
    monkeypatch.setitem(sys.modules, "pyannote.audio", audio)
    monkeypatch.setattr(adapters, "version", lambda name: "4.0")
    monkeypatch.delenv("PYANNOTE_METRICS_ENABLED", raising=False)
    return made


def blocks(seconds: float, value: float = 0.25) -> Iterator[Samples]:
    """Blocks of 0.7 s."""
    samples = np.full(round(seconds * SAMPLING_RATE), value, np.float32)
    size = round(0.7 * SAMPLING_RATE)
    return (samples[start : start + size] for start in range(0, len(samples), size))


def result(
    diarizer: Diarizer, source: Iterator[Samples], limits: SpeakerLimits = NO_LIMITS
) -> tuple[list[float], Diarization]:
    """Return the ends of the Progress items, and the result."""
    *steps, last = diarizer(source, limits)
    assert isinstance(last, Diarization)
    assert all(isinstance(step, Progress) and step.turns == () for step in steps)
    return [step.end for step in steps if isinstance(step, Progress)], last


def test_senko(senko_module: ModuleType) -> None:
    diarizer = SenkoDiarizer()
    assert isinstance(diarizer, Diarizer)
    assert diarizer.fingerprint == "senko 1.2"
    assert vars(senko_module)["suppress_stdout_stderr"] is nullcontext
    ends, found = result(diarizer, blocks(60))
    assert len(ends) > 8
    assert max(np.diff([0, *ends])) < 10  # far less than MAX_LAG
    turns = [(turn.start, turn.end, turn.speaker) for turn in found.turns]
    assert turns == [(0.5, 4.0, "SPEAKER_00"), (4.0, 60.0, "SPEAKER_01")]
    assert {name: vector.tolist() for name, vector in found.embeddings.items()} == {
        "SPEAKER_01": pytest.approx([0.6, 0.8])
    }
    diarizer.close()
    diarizer.close()


def test_senko_hears_all_samples_in_the_range(senko_module: ModuleType) -> None:
    diarizer = SenkoDiarizer()
    result(diarizer, blocks(7, -1.5))
    (heard,) = diarizer._senko.heard
    assert heard.shape == (7 * SAMPLING_RATE,)
    assert heard.dtype == np.float32
    assert (heard == -1).all()


def test_silence_and_nothing(senko_module: ModuleType) -> None:
    diarizer = SenkoDiarizer()
    assert result(diarizer, blocks(3, 0.0))[1].turns == ()
    assert result(diarizer, blocks(0))[1].turns == ()
    assert len(diarizer._senko.heard) == 1


def test_senko_refuses_limits_at_once(senko_module: ModuleType) -> None:
    with pytest.raises(OptionError, match="cannot be told a number of speakers"):
        SenkoDiarizer()(blocks(1), SpeakerLimits(1, 2))


def test_a_failure_of_senko(senko_module: ModuleType) -> None:
    with pytest.raises(EngineError, match=r"senko 1\.2 failed: RuntimeError: clustering failed"):
        result(SenkoDiarizer(), blocks(1, 1.0))

    def fail(**_: object) -> None:
        raise OSError("libfbank_extractor.so: cannot open")

    vars(senko_module)["Diarizer"] = fail
    with pytest.raises(ModelError, match="senko does not load: OSError: libfbank"):
        SenkoDiarizer()


def test_the_packages_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("senko", "senko.diarizer", "pyannote", "pyannote.audio"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'whisperbatch\[senko\]'$"):
        SenkoDiarizer()
    with pytest.raises(MissingExtraError, match=r"pip install 'whisperbatch\[pyannote\]'$"):
        PyannoteDiarizer()


def test_the_extras_exist() -> None:
    root = Path(__file__).parents[3]
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    assert '\nsenko = ["senko>=' in text
    assert '\npyannote = ["pyannote.audio>=4' in text


@pytest.mark.parametrize(
    ("limits", "counts"),
    [
        (NO_LIMITS, {}),
        (SpeakerLimits(2, 2), {"num_speakers": 2}),
        (SpeakerLimits(2, None), {"min_speakers": 2}),
        (SpeakerLimits(1, 3), {"max_speakers": 3}),
        (SpeakerLimits(2, 3), {"min_speakers": 2, "max_speakers": 3}),
    ],
)
def test_pyannote(pipeline: FakePipeline, limits: SpeakerLimits, counts: dict[str, int]) -> None:
    diarizer = PyannoteDiarizer()
    assert isinstance(diarizer, Diarizer)
    assert os.environ["PYANNOTE_METRICS_ENABLED"] == "false"
    assert pipeline.device == "cuda"
    _, found = result(diarizer, blocks(5), limits)
    ((file, given),) = pipeline.calls
    assert given == counts
    assert file["waveform"].shape == (1, 5 * SAMPLING_RATE)
    assert file["sample_rate"] == SAMPLING_RATE
    for turns, second in ((found.turns, 2.5), (found.exclusive, 3.0)):
        assert [(turn.start, turn.end, turn.speaker) for turn in turns] == [
            (0.0, 0.5, "SPEAKER_00"),
            (1.0, 3.0, "SPEAKER_01"),
            (second, 5.0, "SPEAKER_00"),
        ]
    assert {name: vector.tolist() for name, vector in found.embeddings.items()} == {
        "SPEAKER_00": [0.0, 1.0]
    }


def test_a_pipeline_that_returns_an_annotation(pipeline: FakePipeline) -> None:
    pipeline.is_old = True
    _, found = result(PyannoteDiarizer(), blocks(5))
    assert found.speakers == ("SPEAKER_00", "SPEAKER_01")
    assert found.embeddings == {}
    assert found.exclusive == ()


@pytest.mark.parametrize("name", ["pyannote/gated", "no/pipeline"])
def test_a_pipeline_that_cannot_be_loaded(pipeline: FakePipeline, name: str) -> None:
    with pytest.raises(ModelError, match=f"{name}: .* https://hf.co/{name} and set HF_TOKEN"):
        PyannoteDiarizer(name)


def test_the_disk_is_full(senko_module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    class FullFile:
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def write(self, data: bytes) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: FullFile())
    with pytest.raises(EngineError, match=r"No space left on device.* set TMPDIR"):
        result(SenkoDiarizer(), blocks(1))
