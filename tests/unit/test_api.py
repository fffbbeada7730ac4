"""The API and the pipeline under it, on an engine without weights."""

import gc
import io
import os
import subprocess
import sys
import threading
import time
import wave
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pytest

import whisperbatch as wb
from benchmarks.recordings import _wave_header
from tests.unit.fakes import FakeEncoded, FakeEngine, noise
from whisperbatch import Audio, Options, Transcriber

if TYPE_CHECKING:
    from whisperbatch.types import Source


def texts(transcript: wb.Transcript) -> list[str]:
    return [segment.text for segment in transcript.segments]


def wav(path: Path, seconds: float = 2.0) -> Path:
    with wave.open(str(path), "wb") as file:
        _wave_header(file)
        file.writeframes((noise(seconds) * 10000).astype("<i2").tobytes())
    return path


def running() -> set[str]:
    return {t.name for t in threading.enumerate() if t.name.startswith("whisperbatch")}


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def asr(engine: FakeEngine) -> Iterator[Transcriber]:
    with Transcriber(engine) as transcriber:
        yield transcriber
    assert engine.closed
    assert running() == set()


def test_segments_come_in_order_and_numbered(asr: Transcriber, engine: FakeEngine) -> None:
    clips = tuple((float(start), start + 28.0) for start in range(0, 420, 28))
    found = asr.transcribe(
        noise(420), vad=False, language="en", batch_size=4, clip_timestamps=clips
    )
    assert texts(found) == [f"Sentence {n}." for n in range(len(found.segments))]
    assert [segment.id for segment in found.segments] == list(range(len(found.segments)))
    assert sum(engine.batches) == len(found.segments) >= 14
    assert engine.batches[:3] == [1, 2, 4]
    assert max(engine.batches) == 4
    assert found.duration == 420
    assert found.source == "<array>"
    assert (found.language, found.language_probability) == ("en", 1.0)
    starts = [segment.start for segment in found.segments]
    assert starts == sorted(starts)
    assert starts[0] == 0
    assert starts[-1] > 365


def test_stream_gives_what_transcribe_gives() -> None:
    with Transcriber(FakeEngine()) as asr:
        whole = asr.transcribe(noise(200), vad=False)
    with Transcriber(FakeEngine()) as asr, asr.stream(noise(200), vad=False) as stream:
        assert tuple(stream) == whole.segments
        assert stream.duration == 200
        assert stream.language == "fr"
        assert stream.language_probability == pytest.approx(0.9)


def test_a_stream_comes_before_the_recording_is_read(engine: FakeEngine) -> None:
    """A pipe that never ends gives segments."""
    reading, writing = os.pipe()
    stop = threading.Event()

    def write() -> None:
        header = wav_header()
        sound = (noise(10) * 10000).astype("<i2").tobytes()
        with os.fdopen(writing, "wb") as file:
            try:
                file.write(header)
                while not stop.is_set():
                    file.write(sound)
            except BrokenPipeError:
                pass

    writer = threading.Thread(target=write)
    writer.start()
    with Transcriber(engine) as asr, os.fdopen(reading, "rb") as pipe:
        stream = asr.stream(pipe, vad=False, language="en")
        assert next(stream).text == "Sentence 0."
        assert next(stream).text == "Sentence 1."
        assert stream.duration is None
        stream.close()
    stop.set()
    writer.join(10)
    assert running() == set()


def wav_header() -> bytes:
    """Of a wav file whose length is not known, as programs write it to a pipe."""
    size = (0xFFFFFFFF).to_bytes(4, "little")
    form = (1).to_bytes(2, "little") * 2 + (16000).to_bytes(4, "little")
    form += (32000).to_bytes(4, "little") + (2).to_bytes(2, "little") + (16).to_bytes(2, "little")
    return b"RIFF" + size + b"WAVEfmt " + (16).to_bytes(4, "little") + form + b"data" + size


def test_silence_is_no_error(asr: Transcriber, engine: FakeEngine) -> None:
    found = asr.transcribe(np.zeros(16000 * 100, np.float32))
    assert found == wb.Transcript((), None, 0.0, 100.0, "<array>")
    assert found.text == ""
    assert engine.batches == []


def test_language_is_detected_once_a_recording(asr: Transcriber, engine: FakeEngine) -> None:
    found = asr.transcribe(noise(600), vad=False)
    assert engine.detections == 8  # windows
    assert found.language == "fr"
    assert found.language_probability == pytest.approx(0.9)
    assert {segment.language for segment in found.segments} == {"fr"}
    french = engine.tokenizer.token_to_id("<|fr|>")
    assert all(prompt[1] == french for prompt in engine.prompts)


def test_language_is_waited_for_by_other_workers() -> None:
    """The batch that decides is slow; no other may go ahead with another language."""

    class Slow(FakeEngine):
        def detect_language(self, encoded: object) -> list[dict[str, float]]:
            time.sleep(0.3)
            return super().detect_language(encoded)  # type: ignore[arg-type]

    engine = Slow(workers=4)
    with Transcriber(engine) as asr:
        found = asr.transcribe(noise(600), vad=False, batch_size=2)
    assert {segment.language for segment in found.segments} == {"fr"}
    assert engine.detections == 8


def test_failure_to_detect_reaches_the_caller() -> None:
    class Deaf(FakeEngine):
        def detect_language(self, encoded: object) -> list[dict[str, float]]:
            raise wb.EngineError("fake: deaf")

    with Transcriber(Deaf(workers=4)) as asr, pytest.raises(wb.EngineError, match="deaf"):
        asr.transcribe(noise(600), vad=False, batch_size=2)
    assert running() == set()


def test_english_only_models_say_so() -> None:
    with Transcriber(FakeEngine(multilingual=False)) as asr:
        found = asr.transcribe(noise(5), vad=False)
        assert (found.language, found.language_probability) == ("en", 1.0)
        for wrong in ({"language": "fr"}, {"task": "translate"}):
            with pytest.raises(wb.OptionError, match="English-only"):
                asr.transcribe(noise(5), **wrong)  # type: ignore[arg-type]


def test_what_the_model_has_no_token_for_is_refused(asr: Transcriber) -> None:
    with pytest.raises(wb.OptionError, match="language='yue': model fake does not know it"):
        asr.transcribe(noise(5), language="cantonese")
    with pytest.raises(wb.OptionError, match="model fake has no token 51865; its last is 51864"):
        asr.transcribe(noise(5), suppress_tokens=(-1, 51865))
    assert asr.transcribe(noise(5), vad=False, suppress_tokens=(51864,)).segments


def test_translation_is_in_english(asr: Transcriber, engine: FakeEngine) -> None:
    found = asr.transcribe(noise(5), vad=False, task="translate")
    assert found.language == "fr"
    assert found.segments[0].language == "en"
    assert engine.tokenizer.token_to_id("<|translate|>") in engine.prompts[0]


def test_many_recordings_fill_batches_and_keep_their_order() -> None:
    engine = FakeEngine(workers=3, seconds=0.01)
    sources = [noise(5, seed) for seed in range(20)]
    with Transcriber(engine) as asr:
        found = list(asr.transcribe_many(sources, vad=False, batch_size=8, language="en"))
    assert len(found) == 20
    assert [len(transcript.segments) for transcript in found] == [1] * 20
    assert all(transcript.segments[0].id == 0 for transcript in found)
    assert sorted(engine.batches) == [1, 2, 4, 5, 8]


def test_one_broken_recording_never_costs_the_others(asr: Transcriber, tmp_path: Path) -> None:
    good = wav(tmp_path / "good.wav")
    (tmp_path / "bad.mp3").write_text("no sound at all")
    nan = np.full(16000, np.nan, np.float32)
    sources: list[Source] = [
        good,
        tmp_path / "missing.wav",
        good,
        tmp_path / "bad.mp3",
        nan,
        good,
    ]
    found = list(asr.transcribe_many(sources, on_error="yield", vad=False))
    assert [type(item) for item in found] == [
        wb.Transcript,
        wb.AudioError,
        wb.Transcript,
        wb.AudioError,
        wb.AudioError,
        wb.Transcript,
    ]
    errors = [item for item in found if isinstance(item, wb.WhisperBatchError)]
    assert [error.source for error in errors] == [str(sources[1]), str(sources[3]), "<array>"]


def held_up(go: threading.Event, path: Path) -> BinaryIO:
    """A recording that comes to a standstill when it has been opened."""

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell() > 8192:
                assert go.wait(20)
            return super().read(size)

        def seekable(self) -> bool:
            return False

    return Slow(path.read_bytes())


def test_one_slow_recording_never_holds_up_the_others(engine: FakeEngine, tmp_path: Path) -> None:
    go = threading.Event()
    slow = held_up(go, wav(tmp_path / "slow.wav"))
    paths = [wav(tmp_path / f"{name}.wav") for name in "abc"]
    with Transcriber(engine) as asr:
        items = asr.transcribe_many(
            [slow, *paths], ordered=False, vad=False, language="en", batch_size=8
        )
        found = [next(items) for _ in paths]
        assert [one.source for one in found] == [str(path) for path in paths]
        go.set()
        found += items
    assert found[3].source == "<Slow>"
    assert all([s.id for s in one.segments] == list(range(len(one.segments))) for one in found)


def test_raise_stops_in_the_turn_of_the_broken_one(asr: Transcriber, tmp_path: Path) -> None:
    items = asr.transcribe_many([noise(3), tmp_path / "missing.wav", noise(3)], vad=False)
    assert next(items).source == "<array>"
    with pytest.raises(wb.AudioError, match=r"missing\.wav"):
        next(items)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("options", [{}, {"multilingual": True}, {"language": "fr"}])
def test_a_failed_recording_does_not_fail_its_neighbours(
    workers: int, options: dict[str, Any]
) -> None:
    """Its later rows would share batches with theirs."""

    class Once(FakeEngine):
        calls = 0

        def encode(self, features: npt.NDArray[np.float32]) -> FakeEncoded:
            with self._lock:
                self.calls += 1
                if self.calls == 1:
                    raise wb.EngineError("fake: out of memory")
            return super().encode(features)

    with Transcriber(Once(workers=workers)) as asr:
        found = list(
            asr.transcribe_many(
                [noise(100, seed) for seed in range(4)],
                on_error="yield",
                vad=False,
                batch_size=4,
                **options,
            )
        )
    assert sorted(type(one).__name__ for one in found) == ["EngineError", *["Transcript"] * 3]


def test_an_engines_failure_ends_its_recordings_alone() -> None:
    sources = [noise(5, seed) for seed in range(6)]
    with Transcriber(FakeEngine(fail_at=1)) as asr:
        found = list(
            asr.transcribe_many(sources, on_error="yield", vad=False, language="en", batch_size=8)
        )
    kinds = [type(item) for item in found]
    assert kinds == [wb.Transcript, wb.EngineError, wb.EngineError, *[wb.Transcript] * 3]
    with Transcriber(FakeEngine(fail_at=1)) as asr:
        items = asr.transcribe_many(sources, vad=False, language="en", batch_size=8)
        with pytest.raises(wb.EngineError):
            list(items)
    assert running() == set()


def test_leaving_many_stops_the_reading_at_once(tmp_path: Path) -> None:
    """A batch of 64 would be half an hour of sound."""
    path = wav(tmp_path / "long.wav", 60)
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
        assert time.perf_counter() - started < 4  # not waited for until patience ends
    assert running() == set()
    assert taken < 100


@pytest.mark.parametrize("one", ["a.wav", b"RIFF", noise(1), Audio(noise(1)), Path("a.wav"), 3])
def test_one_source_is_not_many(one: object, asr: Transcriber) -> None:
    with pytest.raises(wb.OptionError, match="sources must be"):
        asr.transcribe_many(one)  # type: ignore[call-overload]


def test_sources_are_taken_in_their_turn(asr: Transcriber) -> None:
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


def test_wrong_calls_are_refused_at_once(asr: Transcriber) -> None:
    with pytest.raises(wb.OptionError, match="on_error"):
        asr.transcribe_many([], on_error="skip")  # type: ignore[call-overload]
    with pytest.raises(wb.OptionError, match="several"):
        asr.transcribe_many("a.wav")
    with pytest.raises(wb.OptionError, match="beam_size"):
        asr.transcribe_many([], beam_size=0)
    with pytest.raises(wb.OptionError, match="beam_size"):
        asr.stream(noise(1), beam_size=0)
    with pytest.raises(wb.AudioError, match="no such file"):
        asr.stream("missing.wav")
    assert list(asr.transcribe_many([])) == []


def test_bad_input_costs_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: object, **__: object) -> None:
        pytest.fail("a model was loaded")

    monkeypatch.setattr("whisperbatch.api.load", load)
    with pytest.raises(wb.AudioError):
        wb.transcribe("missing.wav")
    with pytest.raises(wb.OptionError):
        wb.stream(noise(1), beam_size=0)
    with pytest.raises(wb.OptionError):
        wb.transcribe_many([], beam_size=0)


def test_the_engines_failure_comes_at_its_place() -> None:
    with Transcriber(FakeEngine(fail_at=2)) as asr:
        stream = asr.stream(noise(400), vad=False, language="en", batch_size=4)
        assert [next(stream).text for _ in range(3)] == [f"Sentence {n}." for n in range(3)]
        with pytest.raises(wb.EngineError, match="out of order"):
            next(stream)
        with pytest.raises(StopIteration):
            next(stream)
    assert running() == set()


@pytest.mark.parametrize("how", ["close", "with", "drop", "break", "unused"])
def test_abandoned_streams_leave_nothing(how: str, asr: Transcriber, tmp_path: Path) -> None:
    path = wav(tmp_path / "long.wav", 200)
    before = open_files()
    for _ in range(5):
        stream = asr.stream(path, vad=False, batch_size=2)
        if how == "with":
            with stream:
                next(stream)
        elif how == "break":
            for _segment in stream:
                break
        elif how != "unused":
            next(stream)
        if how == "close":
            stream.close()
            stream.close()
            assert list(stream) == []
        del stream
    gc.collect()
    assert running() == set()
    assert open_files() == before


def test_close_while_a_stream_is_open() -> None:
    asr = Transcriber(FakeEngine())
    stream = asr.stream(noise(600), vad=False, batch_size=2)
    next(stream)
    asr.close()
    asr.close()
    with pytest.raises(wb.ClosedError):
        list(stream)
    with pytest.raises(wb.ClosedError):
        asr.transcribe(noise(1))
    assert running() == set()


def test_a_stream_is_closed_while_another_thread_waits_in_it() -> None:
    with Transcriber(FakeEngine(seconds=0.3)) as asr:
        stream = asr.stream(noise(600), vad=False, language="en", batch_size=1)
        found: list[wb.Segment] = []
        reader = threading.Thread(target=lambda: found.extend(stream))
        reader.start()
        time.sleep(0.1)
        stream.close()
        reader.join(10)
        assert not reader.is_alive()
        assert len(found) < 3
    assert running() == set()


def test_a_file_of_the_callers_stays_open(asr: Transcriber, tmp_path: Path) -> None:
    with wav(tmp_path / "a.wav").open("rb") as file:
        asr.transcribe(file, vad=False)
        assert not file.closed


def test_several_threads_share_one() -> None:
    with Transcriber(FakeEngine(workers=2)) as asr, ThreadPoolExecutor(8) as pool:
        lengths = [31.0, 62.0, 93.0, 5.0] * 4
        found = list(pool.map(lambda s: asr.transcribe(noise(s), vad=False), lengths))
    assert [round(transcript.duration) for transcript in found] == [31, 62, 93, 5] * 4
    for transcript in found:
        assert [s.id for s in transcript.segments] == list(range(len(transcript.segments)))
        assert len(transcript.segments) >= transcript.duration // 30


def test_callers_values_are_not_modified(asr: Transcriber) -> None:
    samples = noise(40)
    kept = samples.copy()
    samples.setflags(write=False)
    options = Options(vad=False, clip_timestamps=((1.0, 2.0), (5.0, None)))
    found = asr.transcribe(samples, options=options, batch_size=2)
    assert np.array_equal(samples, kept)
    assert options == Options(vad=False, clip_timestamps=((1.0, 2.0), (5.0, None)))
    assert found.segments[0].start == 1.0
    assert found.segments[0].end <= 2.0
    assert found.segments[1].start == 5.0


def test_ranges_beyond_the_end_are_empty(asr: Transcriber) -> None:
    found = asr.transcribe(noise(3), vad=False, clip_timestamps=((10.0, 20.0),))
    assert found.segments == ()
    assert found.duration == 3


def test_nothing_is_read_after_the_last_range(asr: Transcriber) -> None:
    found = asr.transcribe(noise(100), vad=False, clip_timestamps=((0.0, 10.0),))
    assert found.duration < 12


def test_import_is_light() -> None:
    heavy = "torch ctranslate2 onnxruntime av faster_whisper numpy huggingface_hub tokenizers"
    program = (
        "import sys, whisperbatch; "
        f"print([name for name in {heavy.split()} if name in sys.modules]); "
        "whisperbatch.Options; whisperbatch.transcribe; "
        "print([n for n in ('torch', 'ctranslate2', 'onnxruntime') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n[]\n"


def test_public_names_are_sorted_and_there() -> None:
    assert sorted(wb.__all__) == list(wb.__all__)
    for name in wb.__all__:
        assert getattr(wb, name) is not None
    assert set(wb.__all__) <= set(dir(wb))
    with pytest.raises(AttributeError, match="nothing"):
        _ = wb.nothing
