from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.unit.fakes import FakeEncoded, FakeEngine, noise
from tests.unit.media_files import encode
from whisperbatch.errors import AudioError, EngineError, WriteError
from whisperbatch.jobs.inputs import WorkItem, find, plan
from whisperbatch.jobs.job import Event, Failed, Finished, Job, SegmentReady, digest, run
from whisperbatch.jobs.ledger import Ledger
from whisperbatch.options import DecodeOptions, Options
from whisperbatch.protocols import Encoded, Sampling
from whisperbatch.transcriber import Transcriber
from whisperbatch.types import Hypothesis, Transcript

OPTIONS = Options(vad=False, language="en", batch_size=2, chunk_length=5.0)


class Echo(FakeEngine):
    """What it hears depends on the row alone: its level."""

    def generate(
        self,
        encoded: Encoded,
        prompts: Sequence[Sequence[int]],
        options: DecodeOptions,
        sampling: Sequence[Sampling] | None = None,
    ) -> list[Hypothesis]:
        assert isinstance(encoded, FakeEncoded)
        super().generate(encoded, prompts, options, sampling)
        texts = [f" Level {level:.6f}." for level in encoded.levels]
        return [
            Hypothesis(tuple(self.tokenizer.encode(t, add_special_tokens=False).ids), -0.1, 0.0)
            for t in texts
        ]

    @property
    def decoded(self) -> int:
        """Rows so far."""
        return sum(self.batches)


def put(transcript: Transcript, path: Path) -> None:
    path.write_text(transcript.text)


@pytest.fixture
def recordings(tmp_path: Path) -> list[Path]:
    """Three of 20 s, five or so rows each."""
    made = []
    for number in range(3):
        path = tmp_path / f"{number}.wav"
        path.write_bytes(encode([noise(20, seed=number)], "wav", "pcm_s16le", rate=16000))
        made.append(path)
    return made


def tasks_of(recordings: Sequence[Path]) -> tuple[WorkItem, ...]:
    return plan(tuple(find(map(str, recordings))), ("txt",), None)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path) as made:
        yield made


def job(ledger: Ledger | None, settings: str = "s", *, anew: bool = False) -> Job:
    return Job(lambda _: settings, ledger, anew=anew)


def do(
    engine: FakeEngine,
    tasks: Sequence[WorkItem],
    ledger: Ledger | None = None,
    write: Callable[[Transcript, Path], None] = put,
) -> list[Event]:
    return list(run(Transcriber(engine), tasks, OPTIONS, job(ledger), write=write))


def done(task: WorkItem, ledger: Ledger, settings: str = "s") -> bool:
    return job(ledger, settings).left(task) is None


def test_every_recording_gives_its_segments_and_its_files(recordings: list[Path]) -> None:
    tasks = tasks_of(recordings)
    events = do(Echo(), tasks)
    for task in tasks:
        own = [event for event in events if event.task == task]
        assert isinstance(own[-1], Finished)
        assert own[-1].transcript.segments == tuple(
            event.segment for event in own if isinstance(event, SegmentReady)
        )
        assert task.outputs[0].read_text() == own[-1].transcript.text


def test_a_broken_one_costs_no_other(recordings: list[Path]) -> None:
    recordings[1].write_bytes(b"not media")
    missing = recordings[0].with_name("missing.wav")
    events = do(Echo(), tasks_of([*recordings, missing]))
    ends = [event for event in events if not isinstance(event, SegmentReady)]
    failed = [event for event in ends if isinstance(event, Failed)]
    assert {Path(event.task.source).name for event in failed} == {"1.wav", "missing.wav"}
    assert all(isinstance(event.error, AudioError) for event in failed)
    assert sum(isinstance(event, Finished) for event in ends) == 2


def test_what_is_finished_is_known_by_recording_settings_and_outputs(
    recordings: list[Path], ledger: Ledger
) -> None:
    tasks = tasks_of(recordings)
    assert not any(done(task, ledger) for task in tasks)
    do(Echo(), tasks, ledger)
    assert all(done(task, ledger) for task in tasks)
    assert not done(tasks[0], ledger, "other settings")
    tasks[0].outputs[0].unlink()
    assert not done(tasks[0], ledger)
    recordings[1].write_bytes(recordings[2].read_bytes())
    assert not done(tasks[1], ledger)
    recordings[2].unlink()
    assert not done(tasks[2], ledger)


def test_another_recording_with_the_same_output_is_done_and_then_the_first_again(
    recordings: list[Path], ledger: Ledger
) -> None:
    output = recordings[0].with_name("one.txt")
    first, second = (WorkItem(str(path), (output,)) for path in recordings[:2])
    for task in (first, second, first):
        assert not done(task, ledger)
        do(Echo(), [task], ledger)
        assert done(task, ledger)


def test_outputs_that_are_missing_are_made_and_the_others_left(
    recordings: list[Path], ledger: Ledger
) -> None:
    short, long = (
        plan(tuple(find([str(recordings[0])])), formats, None)
        for formats in (("txt",), ("txt", "srt"))
    )
    do(Echo(), short, ledger)
    left = job(ledger).left(long[0])
    assert isinstance(left, WorkItem)
    assert [path.name for path in left.outputs] == ["0.srt"]


def test_what_somebody_else_has_written_is_never_replaced_unless_asked(
    recordings: list[Path], ledger: Ledger
) -> None:
    mine, edited, _ = tasks_of(recordings)
    mine.outputs[0].write_text("my notes")
    blocked = job(ledger).left(mine)
    assert isinstance(blocked, Failed)
    assert "0.txt: is there already; --no-resume replaces it" in str(blocked.error)
    assert job(ledger, anew=True).left(mine) == mine
    do(Echo(), [edited], ledger)
    edited.outputs[0].write_text("by hand")
    assert done(edited, ledger)  # of the same settings: left alone
    changed = job(ledger, "other settings").left(edited)
    assert isinstance(changed, Failed)
    assert "was changed since" in str(changed.error)


def test_what_files_depend_on_is_told_apart() -> None:
    one = digest("weights", OPTIONS, ("srt",))
    assert one == digest("weights", Options(**{**vars(OPTIONS), "batch_size": 7}), ("srt",))
    assert one != digest("weights", Options(**{**vars(OPTIONS), "beam_size": 1}), ("srt",))
    assert one != digest("others", OPTIONS, ("srt",))
    assert one != digest("weights", OPTIONS, ("vtt",))


def test_a_run_that_was_killed_is_gone_on_with(recordings: list[Path], ledger: Ledger) -> None:
    tasks = tasks_of(recordings)
    whole = Echo()
    do(whole, tasks)
    expected = [task.outputs[0].read_text() for task in tasks]
    first = Echo(fail_at=4)  # as if there were no more memory
    assert any(isinstance(event, Failed) for event in do(first, tasks, ledger))
    second = Echo()
    left = [task for task in tasks if not done(task, ledger)]
    assert left
    assert all(isinstance(event, SegmentReady | Finished) for event in do(second, left, ledger))
    assert second.decoded < whole.decoded
    assert [task.outputs[0].read_text() for task in tasks] == expected


def test_so_is_one_that_was_broken_off(recordings: list[Path], ledger: Ledger) -> None:
    [task] = tasks_of(recordings[:1])
    whole = Echo()
    do(whole, [task])
    expected = task.outputs[0].read_text()
    going = run(Transcriber(Echo()), [task], OPTIONS, job(ledger), write=put)
    assert isinstance(next(going), SegmentReady)
    going.close()
    second = Echo()
    do(second, [task], ledger)
    assert 0 < second.decoded < whole.decoded
    assert task.outputs[0].read_text() == expected


def test_the_journal_of_what_is_finished_goes(recordings: list[Path], ledger: Ledger) -> None:
    do(Echo(), tasks_of(recordings), ledger)
    everything = ledger.mark()
    assert everything > 10
    assert ledger.count() == 0


def test_what_an_earlier_run_has_left_stays_until_all_have_ended(
    recordings: list[Path], ledger: Ledger
) -> None:
    short, long = tasks_of(recordings[:2])
    going = run(Transcriber(Echo()), [long], OPTIONS, job(ledger), write=put)
    next(going)
    going.close()
    left = ledger.count()
    assert left
    both = run(Transcriber(Echo()), [short, long], OPTIONS, job(ledger), write=put, ordered=True)
    for event in both:
        if isinstance(event, Finished):
            break
    assert ledger.count() >= left
    both.close()


def test_outputs_that_cannot_be_written_fail_their_recording_and_keep_its_journal(
    recordings: list[Path], ledger: Ledger
) -> None:
    def full(transcript: Transcript, path: Path) -> None:
        if path.name == "1.txt":
            raise WriteError(f"{path}: cannot be written: no space left")
        put(transcript, path)

    tasks = tasks_of(recordings)
    events = do(Echo(), tasks, ledger, full)
    [failed] = [event for event in events if isinstance(event, Failed)]
    assert failed.task == tasks[1]
    assert not done(tasks[1], ledger)
    again = Echo()
    do(again, [tasks[1]], ledger)
    assert again.decoded == 0
    assert done(tasks[1], ledger)
    assert ledger.count() == 0


def test_a_folder_that_cannot_be_made_fails_its_recording(recordings: list[Path]) -> None:
    blocked = recordings[0].with_name("blocked")
    blocked.write_text("a file")
    task = WorkItem(str(recordings[0]), (blocked / "0.txt",))
    [*_, last] = do(Echo(), [task])
    assert isinstance(last, Failed)
    assert isinstance(last.error, WriteError)


def test_an_engine_that_fails_is_told_of(recordings: list[Path]) -> None:
    events = do(Echo(fail_at=0), tasks_of(recordings[:1]))
    [failed] = [event for event in events if isinstance(event, Failed)]
    assert isinstance(failed.error, EngineError)


def test_the_journal_of_one_that_fails_holds_up_no_other(
    recordings: list[Path], ledger: Ledger
) -> None:
    def full(transcript: Transcript, path: Path) -> None:
        if path.name == "0.txt":
            raise WriteError(f"{path}: cannot be written: no space left")
        put(transcript, path)

    tasks = tasks_of(recordings)
    events = list(run(Transcriber(Echo()), tasks, OPTIONS, job(ledger), write=full, ordered=True))
    assert sum(isinstance(event, Failed) for event in events) == 1
    alone = Echo()
    do(alone, tasks[1:], None)
    assert 0 < ledger.count() < ledger.mark() - 1  # that of the others is gone
    again = Echo()
    do(again, tasks[:1], ledger)
    assert again.decoded == 0
    assert ledger.count() == 0
