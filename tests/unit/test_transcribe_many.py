"""`transcribe_many`: order, full batches, and failures that end only their own recording."""

import io
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pytest

import whisperbatch as wb
from tests.unit.fakes import (
    LOUD,
    FakeEngine,
    fails_on_loud_rows,
    noise,
    worker_threads,
    write_noise,
)
from tests.unit.slow_engine import SlowEngine
from whisperbatch import Audio, Transcriber

if TYPE_CHECKING:
    from whisperbatch.types import Source

pytestmark = pytest.mark.usefixtures("no_threads_left")


@pytest.mark.parametrize("ordered", [False, True])
def test_calls_are_filled_across_recordings(
    monkeypatch: pytest.MonkeyPatch, *, ordered: bool
) -> None:
    engine = SlowEngine(monkeypatch, ahead=8, total=40)
    sources = [noise(5, seed) for seed in range(40)]
    with Transcriber(engine) as asr:
        transcripts = list(
            asr.transcribe_many(sources, vad=False, batch_size=8, language="en", ordered=ordered)
        )
    assert [len(transcript.segments) for transcript in transcripts] == [1] * 40
    assert all(transcript.segments[0].id == 0 for transcript in transcripts)
    assert sum(engine.batches) == 40
    assert max(engine.batches) == 8
    assert len(engine.batches) <= 8


def test_transcripts_are_in_the_order_of_the_sources() -> None:
    sources = [noise(length, length) for length in (70, 1, 30, 2, 50, 1)]
    with Transcriber(FakeEngine(workers=3, delay={"decode": 0.01})) as asr:
        transcripts = list(asr.transcribe_many(sources, vad=False, batch_size=2))
    assert [transcript.duration for transcript in transcripts] == [70, 1, 30, 2, 50, 1]


def test_a_file_may_be_deleted_when_the_next_source_is_taken(tmp_path: Path) -> None:
    def sources() -> Iterator[Path]:
        for number in range(12):
            path = write_noise(tmp_path / f"{number}.wav", 40)
            yield path
            path.unlink()

    with Transcriber(FakeEngine(delay={"decode": 0.01})) as asr:
        transcripts = list(asr.transcribe_many(sources(), vad=False, language="en"))
    assert [transcript.duration for transcript in transcripts] == [40] * 12


def test_a_file_object_may_be_closed_when_the_next_source_is_taken(tmp_path: Path) -> None:
    path = write_noise(tmp_path / "noise.wav", 40)

    def sources() -> Iterator[BinaryIO]:
        for _ in range(6):
            with path.open("rb") as file:
                yield file

    with Transcriber(FakeEngine(delay={"decode": 0.01})) as asr:
        transcripts = list(asr.transcribe_many(sources(), vad=False, language="en"))
    assert [transcript.duration for transcript in transcripts] == [40] * 6


def test_a_file_object_may_be_read_by_several_sources(tmp_path: Path) -> None:
    data = write_noise(tmp_path / "noise.wav", 40).read_bytes()
    file = io.BytesIO(data)

    def sources() -> Iterator[BinaryIO]:
        for _ in range(3):
            file.seek(0)
            yield file

    with Transcriber(FakeEngine(delay={"decode": 0.01})) as asr:
        transcripts = list(asr.transcribe_many(sources(), vad=False, language="en"))
    assert [transcript.duration for transcript in transcripts] == [40] * 3


def test_with_order_a_slow_recording_does_not_stop_the_reading_of_the_next(tmp_path: Path) -> None:
    unblock = threading.Event()
    engine = FakeEngine()
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def write() -> None:
        with path.open("wb") as file:
            file.write(data[:20000])
            file.flush()
            assert unblock.wait(20)
            file.write(data[20000:])

    data = write_noise(tmp_path / "slow.wav").read_bytes()
    writer = threading.Thread(target=write)
    writer.start()
    others = [write_noise(tmp_path / f"{name}.wav") for name in "abc"]
    with Transcriber(engine) as asr:
        items = asr.transcribe_many([path, *others], vad=False, language="en")
        waiting = threading.Thread(target=when_rows_are_decoded, args=(engine, 3, unblock.set))
        waiting.start()
        transcripts = list(items)
    writer.join()
    waiting.join()
    assert [transcript.source for transcript in transcripts] == [str(path), *map(str, others)]


def when_rows_are_decoded(engine: FakeEngine, count: int, function: Callable[[], None]) -> None:
    deadline = time.monotonic() + 15
    while sum(engine.batches) < count and time.monotonic() < deadline:
        time.sleep(0.01)
    if sum(engine.batches) >= count:  # otherwise the test fails: the writer waits
        function()


def test_an_unreadable_recording_does_not_affect_the_others(
    asr: Transcriber, tmp_path: Path
) -> None:
    good = write_noise(tmp_path / "good.wav")
    (tmp_path / "bad.mp3").write_text("no audio")
    nan = np.full(16000, np.nan, np.float32)
    missing, bad = tmp_path / "missing.wav", tmp_path / "bad.mp3"
    sources: list[Source] = [good, missing, good, bad, nan, good]
    results = list(asr.transcribe_many(sources, on_error="yield", vad=False))
    assert [type(result) for result in results] == [
        wb.Transcript,
        wb.AudioError,
        wb.Transcript,
        wb.AudioError,
        wb.AudioError,
        wb.Transcript,
    ]
    errors = [result for result in results if isinstance(result, wb.WhisperBatchError)]
    assert [error.source for error in errors] == [str(missing), str(bad), "<array>"]


def blocked_file(path: Path, unblock: threading.Event) -> BinaryIO:
    """A recording that can be opened, but not be read until `unblock` is set."""

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell() > 8192:
                assert unblock.wait(20)
            return super().read(size)

        def seekable(self) -> bool:
            return False

    return Slow(path.read_bytes())


def test_a_slow_recording_does_not_delay_the_others(engine: FakeEngine, tmp_path: Path) -> None:
    unblock = threading.Event()
    slow = blocked_file(write_noise(tmp_path / "slow.wav"), unblock)
    paths = [write_noise(tmp_path / f"{name}.wav") for name in "abc"]
    with Transcriber(engine) as asr:
        items = asr.transcribe_many(
            [slow, *paths], ordered=False, vad=False, language="en", batch_size=8
        )
        try:
            transcripts = [next(items) for _ in paths]
        finally:
            unblock.set()  # also after a failure, so that no thread is left for the next tests
        sources = {transcript.source for transcript in transcripts}
        assert sources == {str(path) for path in paths}  # in the order in which they were ready
        transcripts += items
    assert transcripts[3].source == "<Slow>"
    for transcript in transcripts:
        ids = [segment.id for segment in transcript.segments]
        assert ids == list(range(len(ids)))


def test_with_raise_the_error_comes_after_the_earlier_transcripts(
    asr: Transcriber, tmp_path: Path
) -> None:
    items = asr.transcribe_many([noise(3), tmp_path / "missing.wav", noise(3)], vad=False)
    assert next(items).source == "<array>"
    with pytest.raises(wb.AudioError, match=r"missing\.wav"):
        next(items)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("options", [{}, {"multilingual": True}, {"language": "fr"}])
def test_a_failed_recording_does_not_end_the_next(
    workers: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows share calls with the rows of the next recordings."""
    engine = SlowEngine(monkeypatch, ahead=2, total=3, workers=workers, decode=fails_on_loud_rows())
    sources = [noise(100, seed) for seed in range(4)]
    sources[0] *= LOUD
    with Transcriber(engine) as asr:
        results = list(
            asr.transcribe_many(sources, on_error="yield", vad=False, batch_size=4, **options)
        )
    names = [type(result).__name__ for result in results]
    assert names == ["EngineError", *["Transcript"] * 3]
    assert workers > 1 or max(engine.batch_sizes["encode"]) > 1


@pytest.mark.parametrize("error", [wb.EngineError, wb.OptionError])
def test_a_failed_call_ends_only_the_recordings_that_fail_alone(
    error: type[wb.WhisperBatchError],
) -> None:
    sources = [noise(5, seed) for seed in range(6)]
    for number in (1, 4):
        sources[number] *= LOUD
    engine = FakeEngine(decode=fails_on_loud_rows(error), delay={"decode": 0.2})
    with Transcriber(engine) as asr:
        results = list(
            asr.transcribe_many(sources, on_error="yield", vad=False, language="en", batch_size=8)
        )
    failed = [number for number, result in enumerate(results) if type(result) is error]
    assert failed == [1, 4]
    assert [type(result) for result in results].count(wb.Transcript) == 4
    assert max(engine.batch_sizes["encode"]) > 1  # a call with several recordings failed
    with Transcriber(FakeEngine(decode=fails_on_loud_rows(error))) as asr:
        items = asr.transcribe_many(sources, vad=False, language="en", batch_size=8)
        assert next(items).segments
        with pytest.raises(error):
            next(items)


def test_a_call_that_fails_once_ends_no_recording() -> None:
    engine = FakeEngine(failing={"decode": {1}}, delay={"decode": 0.2})
    sources = [noise(5, seed) for seed in range(6)]
    with Transcriber(engine) as asr:
        transcripts = list(asr.transcribe_many(sources, vad=False, language="en", batch_size=8))
    assert [len(transcript.segments) for transcript in transcripts] == [1] * 6


def test_closing_the_generator_stops_the_reading_at_once(tmp_path: Path) -> None:
    """A batch of 64 rows would be half an hour of audio."""
    path = write_noise(tmp_path / "long.wav", 60)
    taken = 0

    def sources() -> Iterator[Path]:
        nonlocal taken
        for _ in range(500):
            taken += 1
            time.sleep(0.02)
            yield path

    with Transcriber(FakeEngine()) as asr:
        items = asr.transcribe_many(sources(), vad=False, language="en", batch_size=64)
        next(items)
        started = time.perf_counter()
        items.close()
        assert time.perf_counter() - started < 4  # less than prefetch.JOIN_TIMEOUT
    assert worker_threads() == set()
    assert taken < 100


def test_sources_are_taken_when_they_are_to_be_read(asr: Transcriber) -> None:
    taken = 0

    def sources() -> Iterator[Audio]:
        nonlocal taken
        while True:
            taken += 1
            yield Audio(noise(29), 16000)

    items = asr.transcribe_many(sources(), vad=False, batch_size=2, language="en")
    next(items)
    time.sleep(0.2)
    assert taken < 30
    items.close()


@pytest.mark.parametrize("source", ["a.wav", b"RIFF", noise(1), Audio(noise(1)), Path("a.wav"), 3])
def test_a_single_source_is_refused(source: object, asr: Transcriber) -> None:
    with pytest.raises(wb.OptionError, match="sources must be"):
        asr.transcribe_many(source)  # type: ignore[call-overload]


def test_wrong_arguments_are_refused_by_the_call_itself(asr: Transcriber) -> None:
    with pytest.raises(wb.OptionError, match="on_error"):
        asr.transcribe_many([], on_error="skip")  # type: ignore[call-overload]
    with pytest.raises(wb.OptionError, match="beam_size"):
        asr.transcribe_many([], beam_size=0)
    with pytest.raises(wb.OptionError, match="beam_size"):
        asr.stream(noise(1), beam_size=0)
    with pytest.raises(wb.AudioError, match="no such file"):
        asr.stream("missing.wav")
    assert list(asr.transcribe_many([])) == []


def discard(asr: Transcriber) -> None:
    asr.transcribe_many([noise(2)], vad=False)


def test_transcripts_that_are_discarded_say_so() -> None:
    with (
        Transcriber(FakeEngine()) as asr,
        pytest.warns(
            RuntimeWarning, match=r"was discarded, and nothing was transcribed: .* write: for "
        ) as caught,
    ):
        discard(asr)
    assert [Path(each.filename).name for each in caught] == ["test_transcribe_many.py"]


def test_a_discarded_call_frees_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine()
    monkeypatch.setattr("whisperbatch.engines.loading.load_engine", lambda *_, **__: engine)
    with pytest.warns(RuntimeWarning, match="nothing was transcribed"):
        wb.transcribe_many([noise(2)], vad=False)
    assert engine.closed


@pytest.mark.filterwarnings("error")
def test_transcripts_that_are_used_or_closed_say_nothing() -> None:
    with Transcriber(FakeEngine()) as asr:
        for use in (list, next, lambda items: items.close(), lambda items: [*items]):
            items = asr.transcribe_many([noise(2), noise(3)], vad=False)
            use(items)
            del items
        items = asr.transcribe_many([noise(2)], vad=False)
        with pytest.raises(LookupError):
            items.throw(LookupError("why"))
        assert list(items) == []
        first, second = asr.transcribe_many([noise(2), noise(3)], vad=False)
        assert (first.duration, second.duration) == (2, 3)
