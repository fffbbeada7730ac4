"""`transcribe_many`: order, full batches, and failures that end only their own recording."""

import io
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pytest

import whisperbatch as wb
from tests.unit.fakes import FakeEngine, noise, worker_threads, write_noise
from whisperbatch import Audio, Transcriber

if TYPE_CHECKING:
    from whisperbatch.types import Source

pytestmark = pytest.mark.usefixtures("no_threads_left")


def test_batches_are_filled_across_recordings_in_order() -> None:
    engine = FakeEngine(workers=3, delay={"decode": 0.01})
    sources = [noise(5, seed) for seed in range(20)]
    with Transcriber(engine) as asr:
        transcripts = list(asr.transcribe_many(sources, vad=False, batch_size=8, language="en"))
    assert [len(transcript.segments) for transcript in transcripts] == [1] * 20
    assert all(transcript.segments[0].id == 0 for transcript in transcripts)
    assert sorted(engine.batches) == [1, 2, 4, 5, 8]


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
        transcripts = [next(items) for _ in paths]
        assert [transcript.source for transcript in transcripts] == [str(path) for path in paths]
        unblock.set()
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
def test_a_failed_recording_does_not_end_the_next(workers: int, options: dict[str, Any]) -> None:
    """Its later rows would share batches with the rows of the next recordings."""
    engine = FakeEngine(workers=workers, failing={"encode": {0}})
    with Transcriber(engine) as asr:
        results = list(
            asr.transcribe_many(
                [noise(100, seed) for seed in range(4)],
                on_error="yield",
                vad=False,
                batch_size=4,
                **options,
            )
        )
    names = sorted(type(result).__name__ for result in results)
    assert names == ["EngineError", *["Transcript"] * 3]


@pytest.mark.parametrize("error", [wb.EngineError, wb.OptionError])
def test_a_failed_batch_ends_only_its_recordings(error: type[wb.WhisperBatchError]) -> None:
    sources = [noise(5, seed) for seed in range(6)]
    with Transcriber(FakeEngine(failing={"decode": {1}}, error=error)) as asr:
        results = list(
            asr.transcribe_many(sources, on_error="yield", vad=False, language="en", batch_size=8)
        )
    types = [type(result) for result in results]
    assert types == [wb.Transcript, error, error, *[wb.Transcript] * 3]
    with Transcriber(FakeEngine(failing={"decode": {1}}, error=error)) as asr:
        items = asr.transcribe_many(sources, vad=False, language="en", batch_size=8)
        with pytest.raises(error):
            list(items)


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
