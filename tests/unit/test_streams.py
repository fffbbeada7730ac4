"""`SegmentStream`: segments during the reading, and no resources left after an early stop."""

import asyncio
import gc
import os
import threading
import time
from pathlib import Path
from typing import Any

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
from whisperbatch import Transcriber

pytestmark = pytest.mark.usefixtures("no_threads_left")


def wav_header() -> bytes:
    """The header of a wav file of unknown length, as programs write it to a pipe."""
    size = (0xFFFFFFFF).to_bytes(4, "little")
    form = (1).to_bytes(2, "little") * 2 + (16000).to_bytes(4, "little")
    form += (32000).to_bytes(4, "little") + (2).to_bytes(2, "little") + (16).to_bytes(2, "little")
    return b"RIFF" + size + b"WAVEfmt " + (16).to_bytes(4, "little") + form + b"data" + size


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_stream_has_the_segments_of_the_transcript() -> None:
    engine = FakeEngine(decode=lambda call: f" Level {call.row.level:.6f}.")
    with Transcriber(engine) as asr:
        transcript = asr.transcribe(noise(200), vad=False)
        assert len({segment.text for segment in transcript.segments}) > 6
        with asr.stream(noise(200), vad=False) as stream:
            assert tuple(stream) == transcript.segments
            assert stream.duration == 200
            assert stream.language == "fr"
            assert stream.language_probability == pytest.approx(0.9)


def test_segments_come_while_the_recording_is_read(engine: FakeEngine) -> None:
    """A pipe that never ends gives segments."""
    reading, writing = os.pipe()
    stop = threading.Event()

    def write() -> None:
        audio = (noise(10) * 10000).astype("<i2").tobytes()
        with os.fdopen(writing, "wb") as file:
            try:
                file.write(wav_header())
                while not stop.is_set():
                    file.write(audio)
            except BrokenPipeError:
                pass

    writer = threading.Thread(target=write)
    writer.start()
    with Transcriber(engine) as asr, os.fdopen(reading, "rb") as pipe:
        stream = asr.stream(pipe, vad=False, language="en")
        for number in range(2):
            segment = next(stream)
            assert segment.id == number
            assert segment.text.startswith("Sentence ")
        assert stream.duration is None
        stream.close()
    stop.set()
    writer.join(10)


def test_a_failure_of_the_engine_is_raised_after_the_segments_before_it() -> None:
    samples = noise(400)
    samples[90 * 16000 :] *= LOUD
    ranges = tuple((30.0 * n, 30.0 * n + 28) for n in range(13))
    with Transcriber(FakeEngine(decode=fails_on_loud_rows())) as asr:
        stream = asr.stream(samples, vad=False, language="en", batch_size=4, clip_timestamps=ranges)
        assert [next(stream).start for _ in range(3)] == [0, 30, 60]
        with pytest.raises(wb.EngineError, match="decode failed"):
            next(stream)
        with pytest.raises(StopIteration):
            next(stream)
        assert worker_threads() == set()


@pytest.mark.parametrize("way", ["close", "with", "drop", "break", "unused"])
def test_an_abandoned_stream_leaves_no_threads_and_no_files(
    way: str, asr: Transcriber, tmp_path: Path
) -> None:
    path = write_noise(tmp_path / "long.wav", 200)
    gc.collect()  # files of earlier tests
    before = open_files()
    for _ in range(5):
        stream = asr.stream(path, vad=False, batch_size=2)
        if way == "with":
            with stream:
                next(stream)
        elif way == "break":
            for _segment in stream:
                break
        elif way != "unused":
            next(stream)
        if way == "close":
            stream.close()
            stream.close()
            assert list(stream) == []
        del stream
    gc.collect()
    assert worker_threads() == set()
    assert open_files() == before


def test_an_open_stream_fails_after_the_transcriber_is_closed() -> None:
    asr = Transcriber(FakeEngine())
    stream = asr.stream(noise(600), vad=False, batch_size=2)
    next(stream)
    asr.close()
    asr.close()
    with pytest.raises(wb.ClosedError):
        list(stream)
    with pytest.raises(wb.ClosedError):
        asr.transcribe(noise(1))


def test_a_stream_can_be_closed_while_another_thread_waits_for_a_segment() -> None:
    with Transcriber(FakeEngine(delay={"decode": 0.3})) as asr:
        stream = asr.stream(noise(600), vad=False, language="en", batch_size=1)
        segments: list[wb.Segment] = []
        reader = threading.Thread(target=lambda: segments.extend(stream))
        reader.start()
        time.sleep(0.1)
        stream.close()
        reader.join(10)
        assert not reader.is_alive()
        assert len(segments) < 3
        assert worker_threads() == set()


def test_a_stream_is_read_in_an_event_loop() -> None:
    samples = noise(40)

    async def read() -> list[wb.Segment]:
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                beats += 1
                await asyncio.sleep(0.001)

        task = asyncio.create_task(beat())
        with Transcriber(FakeEngine(delay={"decode": 0.02})) as asr:
            found = [segment async for segment in asr.stream(samples, vad=False)]
        task.cancel()
        assert beats > 10  # the loop was free
        return found

    with Transcriber(FakeEngine()) as asr:
        expected = asr.transcribe(samples, vad=False).segments
    assert [segment.text for segment in asyncio.run(read())] == [each.text for each in expected]


def test_an_error_of_a_stream_reaches_the_event_loop() -> None:
    async def read() -> None:
        with Transcriber(FakeEngine(decode=fails_on_loud_rows())) as asr:
            async for _ in asr.stream(noise(40) * LOUD, vad=False):
                pass

    with pytest.raises(wb.EngineError):
        asyncio.run(read())


def test_streams_and_submissions_are_not_unpacked() -> None:
    with Transcriber(FakeEngine()) as asr:
        with pytest.raises(TypeError, match="a stream cannot be unpacked"):
            _segments, _info = asr.stream(noise(40), vad=False)
        with pytest.raises(TypeError, match="a Submission cannot be unpacked"):
            _segments, _info = asr.submit(noise(40), vad=False)


def test_a_stream_says_where_the_transcript_is() -> None:
    with Transcriber(FakeEngine()) as asr:
        stream: Any = asr.stream(noise(4), vad=False)
        with pytest.raises(AttributeError, match=r"transcribe\(\) returns the transcript"):
            _ = stream.text
        submission: Any = asr.submit(noise(4), vad=False)
        with pytest.raises(AttributeError, match=r"wait for .*: submission\.result"):
            submission.save("a.srt")
        stream.close()
