"""`Transcriber.submit`: threads and tasks wait for recordings that are transcribed together."""

import asyncio
import gc
import io
import itertools
import threading
import time
import wave
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whisperbatch as wb
from tests.unit.counting_source import wait_until
from tests.unit.fakes import LOUD, FakeEngine, fails_on_loud_rows, noise, worker_threads
from whisperbatch import submissions
from whisperbatch.threads import in_background
from whisperbatch.transcriber import Transcriber
from whisperbatch.types import DeferredSource

pytestmark = pytest.mark.usefixtures("no_threads_left")

OPTIONS: dict[str, Any] = {"vad": False, "language": "en", "segments": "chunk"}


def constant(_: object) -> str:
    return " One text for all rows."


def test_the_transcript_is_that_of_transcribe() -> None:
    with Transcriber(FakeEngine(decode=constant)) as asr:
        samples = noise(100)
        expected = asr.transcribe(samples, **OPTIONS)
        submission = asr.submit(samples, **OPTIONS)
        assert tuple(submission) == expected.segments
        assert tuple(submission) == expected.segments  # from the first segment again
        assert submission.result() == expected
        assert submission.result(0) == expected
        assert submission.done


def test_submissions_share_the_calls_of_the_engine() -> None:
    engine = FakeEngine(delay={"decode": 0.5})
    with Transcriber(engine) as asr:
        handles = [asr.submit(noise(5, seed), **OPTIONS) for seed in range(16)]
        assert [len(handle.result(20).segments) for handle in handles] == [1] * 16
    assert len(engine.batches) <= 8


def test_segments_come_before_the_end() -> None:
    engine = FakeEngine(delay={"decode": 0.05})
    with Transcriber(engine) as asr, asr.submit(noise(600), batch_size=1, **OPTIONS) as handle:
        first = next(iter(handle))
        assert first.id == 0
        assert not handle.done
        with pytest.raises(TimeoutError, match=r"has not ended within 0\.01 s"):
            handle.result(0.01)
    assert len(engine.calls) < 20


def test_a_short_recording_does_not_wait_for_a_long_one() -> None:
    engine = FakeEngine(delay={"decode": 0.02})
    with Transcriber(engine) as asr:
        long = asr.submit(noise(1800), batch_size=2, **OPTIONS)
        next(iter(long))
        short = asr.submit(noise(5), batch_size=2, **OPTIONS)
        short.result(10)
        assert not long.done
        long.cancel()


def test_cancelled_recordings_stop_and_raise() -> None:
    engine = FakeEngine(delay={"decode": 0.02})
    with Transcriber(engine) as asr:
        handle = asr.submit(noise(1800), batch_size=1, **OPTIONS)
        next(iter(handle))
        handle.cancel()
        handle.cancel()
        assert handle.done
        with pytest.raises(wb.ClosedError, match="was cancelled"):
            handle.result()
        with pytest.raises(wb.ClosedError, match="was cancelled"):
            list(handle)
        assert asr.transcribe(noise(5), **OPTIONS).segments
    assert len(engine.calls) < 30


def test_cancelling_an_ended_recording_has_no_effect() -> None:
    with Transcriber(FakeEngine()) as asr:
        with asr.submit(noise(5), **OPTIONS) as handle:
            transcript = handle.result(10)
        handle.cancel()
        assert handle.result() is transcript


def test_a_failure_comes_after_the_segments_before_it() -> None:
    samples = noise(90)
    samples[60 * 16000 :] *= LOUD
    clips = tuple((30.0 * n, 30.0 * n + 28) for n in range(3))
    with Transcriber(FakeEngine(decode=fails_on_loud_rows())) as asr:
        handle = asr.submit(samples, clip_timestamps=clips, **OPTIONS)
        received: list[float] = []
        with pytest.raises(wb.EngineError, match="decode failed"):  # noqa: PT012 - the loop raises
            for segment in handle:
                received.append(segment.start)  # noqa: PERF401 - the loop raises
        assert received == [0, 30]
        with pytest.raises(wb.EngineError, match="decode failed"):
            handle.result()


def test_a_recording_that_cannot_be_read_raises_its_error(tmp_path: Path) -> None:
    with Transcriber(FakeEngine()) as asr:
        missing = asr.submit(tmp_path / "missing.wav", **OPTIONS)
        good = asr.submit(noise(5), **OPTIONS)
        with pytest.raises(wb.AudioError, match=r"missing\.wav"):
            missing.result(10)
        assert good.result(10).segments


@pytest.mark.parametrize("weight", [0, -1, 101, float("nan"), "2", None, True])
def test_wrong_weights_and_options_are_refused_by_the_call(weight: Any) -> None:
    with Transcriber(FakeEngine()) as asr:
        with pytest.raises(wb.OptionError, match="weight"):
            asr.submit(noise(1), weight=weight)
        with pytest.raises(wb.OptionError, match="beam_size"):
            asr.submit(noise(1), beam_size=0)


def test_a_higher_weight_gets_a_higher_share() -> None:
    def decode(call: Any) -> str:
        shares.append(call.row.peak > 1.08)
        return " One text for all rows."

    shares: list[bool] = []
    engine = FakeEngine(decode=decode, delay={"decode": 0.04})
    ranges = tuple((5.0 * n, 5.0 * n + 4) for n in range(80))
    quiet = noise(400)
    loud = quiet[: 100 * 16000] * np.float32(LOUD)
    with Transcriber(engine) as asr:
        options = {**OPTIONS, "batch_size": 1, "clip_timestamps": ranges}
        low = asr.submit(quiet, **options)
        high = asr.submit(loud, weight=4, **options)
        high.result(30)
        assert not low.done
        low.cancel()
    while_both = shares[shares.index(True) : len(shares) - shares[::-1].index(True)]
    assert while_both.count(True) == 20
    assert 3 <= while_both.count(False) <= 8


def test_a_closed_transcriber_cancels_its_recordings() -> None:
    asr = Transcriber(FakeEngine(delay={"decode": 0.1}))
    handles = [asr.submit(noise(600), batch_size=1, **OPTIONS) for _ in range(3)]
    asr.close()
    assert worker_threads() == set()
    for handle in handles:
        with pytest.raises(wb.ClosedError):
            handle.result(0)
    with pytest.raises(wb.ClosedError):
        asr.submit(noise(1))


def test_at_most_a_number_of_recordings_is_active(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submissions.Places, "of", lambda *_: submissions.Places(2, 1))
    engine = FakeEngine(delay={"decode": 0.05})
    with Transcriber(engine) as asr:
        handles = [asr.submit(noise(5, seed), **OPTIONS) for seed in range(9)]
        handles[7].cancel()  # waits
        time.sleep(0.02)
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("whisperbatch-submission") <= 2
        for number, handle in enumerate(handles):
            if number != 7:
                assert handle.result(10).segments
        with pytest.raises(wb.ClosedError):
            handles[7].result(0)


def test_the_wait_for_a_place_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submissions.Places, "of", lambda *_: submissions.Places(1, 1))
    with Transcriber(FakeEngine(delay={"decode": 0.2})) as asr:
        first, second, third = (asr.submit(noise(5, seed), **OPTIONS) for seed in range(3))
        first.result(10)
        third.cancel()
        while second.waited < 0.2:  # it goes on
            time.sleep(0.01)
        second.result(10)
        waited = [handle.waited for handle in (first, second, third)]
        assert waited[1] >= 0.2
        assert waited[1] > waited[0]
        time.sleep(0.05)
        assert [handle.waited for handle in (first, second, third)] == waited


def test_the_position_is_the_end_of_the_transcribed_audio() -> None:
    with Transcriber(FakeEngine(decode=constant)) as asr:
        handle = asr.submit(noise(300), **OPTIONS)
        assert handle.position <= 300
        for segment in handle:
            assert handle.position >= segment.end
        assert handle.result(10).duration == handle.position == 300
        stopped = asr.submit(noise(900), **OPTIONS)
        first = next(iter(stopped))
        stopped.cancel()
        assert first.end <= stopped.position <= 900


@contextmanager
def places(all_places: int, long: int, delay: float = 0.01) -> Iterator[Transcriber]:
    """Yield a model with places for recordings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(submissions.Places, "of", lambda *_: submissions.Places(all_places, long))
        with Transcriber(FakeEngine(decode=constant, delay={"decode": delay})) as asr:
            yield asr


def end_all(handles: Iterable[wb.Submission]) -> None:
    for handle in handles:
        handle.cancel()


class Pipe(io.BytesIO):
    """A file without random access."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: int) -> int:
        raise OSError("cannot seek")


def wav(seconds: float) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as output:
        output.setparams((1, 2, 16000, 0, "NONE", ""))
        output.writeframes((noise(seconds) * 8000).astype(np.int16).tobytes())
    return file.getvalue()


@pytest.mark.parametrize(
    "source",
    [
        lambda _: noise(6),
        lambda _: noise(6).astype(np.int16),
        lambda _: wb.Audio(noise(6), 16000),
        lambda _: wav(6),
        lambda _: io.BytesIO(wav(6)),
        lambda folder: str(folder / "short.wav"),
        lambda folder: folder / "short.wav",
    ],
    ids=["array", "int16", "Audio", "bytes", "file", "str", "Path"],
)
def test_short_recordings_do_not_wait_for_many_long_ones(source: Any, tmp_path: Path) -> None:
    (tmp_path / "short.wav").write_bytes(wav(6))
    long = noise(1200)
    with places(4, 2) as asr:
        waiting = [asr.submit(long, batch_size=1, **OPTIONS) for _ in range(30)]
        next(iter(waiting[0]))
        short = asr.submit(source(tmp_path), **OPTIONS)
        assert short.result(20) == asr.transcribe(source(tmp_path), **OPTIONS)
        assert not any(handle.done for handle in waiting)
        submitted = asr.submitted
        assert (submitted.active, submitted.waiting, submitted.long_waiting) == (2, 28, 28)
        assert submitted.places == submissions.Places(4, 2)
        end_all(waiting)


@pytest.mark.parametrize("source", [lambda: Pipe(wav(6)), lambda: io.BytesIO(b"no media")])
def test_recordings_of_unknown_length_count_as_long(source: Callable[[], Any]) -> None:
    sound = noise(600)
    with places(4, 1) as asr:
        long = [asr.submit(sound, batch_size=1, **OPTIONS) for _ in range(2)]
        unknown = asr.submit(source(), **OPTIONS)
        known = asr.submit(source(), length=6.0, **OPTIONS)
        with suppress(wb.AudioError):
            known.result(20)
        assert not unknown.done
        assert asr.submitted.long_waiting == 2
        end_all([*long, unknown])


@pytest.mark.parametrize(
    "source",
    [
        lambda _: noise(150),
        lambda _: wav(150),
        lambda _: io.BytesIO(wav(150)),
        lambda folder: folder / "long.wav",
        lambda _: DeferredSource(lambda: Pipe(wav(150))),
    ],
    ids=["array", "bytes", "file", "Path", "deferred"],
)
def test_a_recording_that_is_longer_than_stated_waits_for_a_place_for_long_ones(
    source: Any, tmp_path: Path
) -> None:
    (tmp_path / "long.wav").write_bytes(wav(150))
    with places(4, 1) as asr:
        first = asr.submit(noise(600), batch_size=1, **OPTIONS)
        wrong = asr.submit(source(tmp_path), length=1.0, batch_size=1, **OPTIONS)
        wait_until(lambda: asr.submitted.long_waiting == 1 and wrong.position > 120)
        assert asr.submitted.long_active == 1
        known = list(itertools.takewhile(lambda segment: segment.end <= wrong.position, wrong))
        first.cancel()
        transcript = wrong.result(30)
        assert transcript == asr.transcribe(source(tmp_path), **OPTIONS)
        assert transcript.segments[: len(known)] == tuple(known)
        assert tuple(wrong) == transcript.segments


def test_a_recording_that_cannot_be_read_again_keeps_its_place() -> None:
    with places(4, 1) as asr:
        first = asr.submit(noise(600), batch_size=1, **OPTIONS)
        wrong = asr.submit(Pipe(wav(150)), length=1.0, batch_size=1, **OPTIONS)
        assert wrong.result(30) == asr.transcribe(Pipe(wav(150)), **OPTIONS)
        first.cancel()


def test_recordings_with_wrong_lengths_do_not_stop_short_ones() -> None:
    sound = noise(1200)
    with places(4, 1) as asr:
        wrong = [asr.submit(sound, length=1.0, batch_size=1, **OPTIONS) for _ in range(12)]
        wait_until(lambda: asr.submitted.long_waiting >= 4)
        assert asr.submit(noise(5), **OPTIONS).result(30).segments
        end_all(wrong)


def test_short_recordings_leave_long_ones_their_places() -> None:
    sound, long_sound = noise(5), noise(300)
    with places(3, 1) as asr:
        short = [asr.submit(sound, length=5.0, batch_size=1, **OPTIONS) for _ in range(100)]
        long = asr.submit(long_sound, batch_size=1, **OPTIONS)
        next(iter(long))
        assert not all(handle.done for handle in short)
        end_all([long, *short])


def test_the_wait_is_that_of_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submissions, "KNOWN_AFTER", 0.0)
    with places(4, 1) as asr:
        first = asr.submit(noise(900), group="a", batch_size=1, **OPTIONS)
        assert next(iter(first))
        assert asr.submitted_beside("b").long_wait > 0  # no place, but it is next
        queued = [
            asr.submit(noise(1), length=1800.0, group="a", batch_size=1, **OPTIONS)
            for _ in range(5)
        ]
        wait_until(lambda: len(asr._submissions._long) == 5)
        own, other = (asr.submitted_beside(group).long_wait for group in "ab")
        assert own > 5 * other > 0
        end_all([first, *queued])


def test_a_stated_length_counts_up_to_the_longest_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submissions, "KNOWN_AFTER", 0.0)
    with places(4, 1) as asr:
        options: Any = {"batch_size": 1, "max_duration": 1000.0, **OPTIONS}
        handles = [asr.submit(noise(900), **options)]
        assert next(iter(handles[0]))
        handles += [asr.submit(noise(1), length=4e9, **options) for _ in range(2)]
        wait_until(lambda: len(asr._submissions._long) == 2)
        assert asr.submitted.long_wait < 3600
        end_all(handles)


def test_an_ended_handle_is_freed_without_the_garbage_collector() -> None:
    with Transcriber(FakeEngine()) as asr:
        handle = asr.submit(noise(5), **OPTIONS)
        handle.result(10)
        wait_until(lambda: not worker_threads())
        reference = weakref.ref(handle)
        del handle
        assert reference() is None


def test_cancelled_recordings_leave_the_line() -> None:
    sound = noise(200)
    with places(1, 1) as asr:
        first = asr.submit(sound, batch_size=1, **OPTIONS)
        waiting = [asr.submit(sound, **OPTIONS) for _ in range(50)]
        end_all(waiting)
        wait_until(lambda: asr.submitted.waiting == 0)
        first.cancel()


def test_groups_take_places_in_turn() -> None:
    started: list[str] = []

    def recording(name: str, seed: int) -> DeferredSource:
        def choose() -> Any:
            started.append(name)
            return noise(5, seed)

        return DeferredSource(choose)

    with places(1, 1) as asr:
        first = asr.submit(noise(30), **OPTIONS)
        handles = [asr.submit(recording("a", seed), group="a", **OPTIONS) for seed in range(6)]
        handles += [asr.submit(recording("b", seed), group="b", **OPTIONS) for seed in range(2)]
        for handle in [first, *handles]:
            handle.result(20)
    assert "".join(started) == "ababaaaa"


def test_a_source_that_does_not_answer_does_not_stop_the_others() -> None:
    class Silent(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            answered.wait(20)
            return super().read(size)

    answered = threading.Event()
    with places(4, 1) as asr:
        long = asr.submit(noise(1200), batch_size=1, **OPTIONS)
        silent = asr.submit(Silent(wav(5)), **OPTIONS)
        assert asr.submit(noise(5), **OPTIONS).result(20).segments
        answered.set()
        end_all([long, silent])


@pytest.mark.parametrize(
    ("name", "value"),
    [("length", -1), ("length", "1"), ("length", float("nan")), ("length", True), ("group", [])],
)
def test_wrong_lengths_and_groups_are_refused_by_the_call(name: str, value: Any) -> None:
    with Transcriber(FakeEngine()) as asr, pytest.raises(wb.OptionError, match=name):
        asr.submit(noise(1), **{name: value})


def test_a_source_that_ends_its_thread_gives_a_result() -> None:
    class Exits(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise SystemExit

    with Transcriber(FakeEngine()) as asr:
        handle = asr.submit(Exits(b"1234"), **OPTIONS)
        with pytest.raises(wb.ClosedError, match="was stopped by SystemExit"):
            handle.result(10)


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_recording_that_has_ended_is_freed(*, cancelled: bool) -> None:
    class Sound(np.ndarray[Any, np.dtype[np.float32]]):
        """An array that can be referenced weakly."""

    samples = noise(5).view(Sound)
    reference = weakref.ref(samples)
    with Transcriber(FakeEngine()) as asr:
        handle = asr.submit(samples, **OPTIONS)
        del samples
        if cancelled:
            handle.cancel()
        else:
            handle.result(10)
        wait_until(lambda: not worker_threads())
        gc.collect()
        assert reference() is None
        assert handle.done


def test_an_error_can_be_raised_any_number_of_times(tmp_path: Path) -> None:
    with Transcriber(FakeEngine()) as asr:
        handle = asr.submit(tmp_path / "missing.wav", **OPTIONS)
        lengths = []
        for _ in range(3):
            with pytest.raises(wb.AudioError) as caught:
                handle.result(10)
            lengths.append(len(caught.traceback))
        assert len({*lengths}) == 1


def test_recordings_wait_for_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system gives one thread for a submission at a time."""

    def one_at_a_time(function: Callable[[], None]) -> threading.Thread:
        if "whisperbatch-submission" in worker_threads() - {threading.current_thread().name}:
            raise RuntimeError("can't start new thread")
        return in_background(function)

    monkeypatch.setattr(submissions, "in_background", one_at_a_time)
    with Transcriber(FakeEngine(delay={"decode": 0.05})) as asr:
        handles = [asr.submit(noise(5, seed), **OPTIONS) for seed in range(3)]
        assert [len(handle.result(10).segments) for handle in handles] == [1, 1, 1]


def test_without_any_thread_a_recording_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: Callable[[], None]) -> threading.Thread:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(submissions, "in_background", never)
    with Transcriber(FakeEngine()) as asr:
        handle = asr.submit(noise(5), **OPTIONS)
        with pytest.raises(wb.InternalError, match="can't start new thread"):
            handle.result(0)


def test_no_recording_starts_while_the_transcriber_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first recording ends before the second is cancelled."""
    monkeypatch.setattr(submissions.Places, "of", lambda *_: submissions.Places(1, 1))
    cancel = wb.Submission.cancel

    def cancel_later(handle: wb.Submission) -> None:
        active.result(10)
        wait_until(lambda: "whisperbatch-submission" not in worker_threads() or started != [active])
        cancel(handle)

    def noted_collect(handle: wb.Submission) -> None:
        started.append(handle)
        collect(handle)

    started: list[wb.Submission] = []
    collect = wb.Submission._collect
    monkeypatch.setattr(wb.Submission, "_collect", noted_collect)
    asr = Transcriber(FakeEngine(delay={"decode": 0.05}))
    active, waiting = (asr.submit(noise(5, seed), **OPTIONS) for seed in range(2))
    monkeypatch.setattr(wb.Submission, "cancel", cancel_later)
    asr.close()
    assert started == [active]
    with pytest.raises(wb.ClosedError, match="was cancelled"):
        waiting.result(0)


def test_tasks_iterate_and_await() -> None:
    async def segments(handle: wb.Submission) -> list[wb.Segment]:
        return [segment async for segment in handle]

    async def main(asr: Transcriber) -> None:
        handles = [asr.submit(noise(100, seed), **OPTIONS) for seed in range(4)]
        received = await asyncio.gather(*map(segments, handles))
        for handle, found in zip(handles, received, strict=True):
            assert (await handle).segments == tuple(found)
            assert len(found) >= 3

    with Transcriber(FakeEngine(delay={"decode": 0.01})) as asr:
        asyncio.run(main(asr))


def test_a_task_that_stops_waiting_leaves_the_recording_alone() -> None:
    async def main(asr: Transcriber) -> None:
        handle = asr.submit(noise(60), **OPTIONS)

        async def wait() -> wb.Transcript:
            return await handle

        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(wait(), 0.01)
        assert (await handle).segments

    with Transcriber(FakeEngine(delay={"decode": 0.1})) as asr:
        asyncio.run(main(asr))


def test_an_async_block_cancels_and_errors_reach_the_task(tmp_path: Path) -> None:
    async def main(asr: Transcriber) -> None:
        async with asr.submit(noise(1800), batch_size=1, **OPTIONS) as handle:
            async for segment in handle:
                assert segment.id == 0
                break
        assert handle.done
        with pytest.raises(wb.ClosedError):
            await handle
        with pytest.raises(wb.AudioError):
            await asr.submit(tmp_path / "missing.wav", **OPTIONS)

    with Transcriber(FakeEngine(delay={"decode": 0.01})) as asr:
        asyncio.run(main(asr))


def test_an_event_loop_that_ended_does_not_disturb_the_recording() -> None:
    async def first(handle: wb.Submission) -> wb.Segment:
        waiting = asyncio.ensure_future(_awaited(handle))
        await asyncio.sleep(0)
        async for segment in handle:
            waiting.cancel()
            return segment
        raise AssertionError("no segment")

    with Transcriber(FakeEngine(delay={"decode": 0.05})) as asr:
        handle = asr.submit(noise(200), batch_size=1, **OPTIONS)
        assert asyncio.run(first(handle)).id == 0
        assert len(handle.result(20).segments) > 3


async def _awaited(handle: wb.Submission) -> wb.Transcript:
    return await handle
