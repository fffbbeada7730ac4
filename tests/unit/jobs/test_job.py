import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.fakes import FakeEngine, noise
from tests.unit.media_files import encode
from whisperbatch.errors import AudioError, EngineError, InternalError, WriteError
from whisperbatch.jobs.claims import Event, Failed, Finished, SegmentReady
from whisperbatch.jobs.inputs import WorkItem, find_inputs, plan_outputs
from whisperbatch.jobs.job import Job, run_job
from whisperbatch.jobs.ledger import Ledger
from whisperbatch.options import Options
from whisperbatch.transcriber import Transcriber
from whisperbatch.types import Transcript

OPTIONS = Options(vad=False, language="en", batch_size=2, chunk_length=5.0)


def level_engine(**keywords: Any) -> FakeEngine:
    """Return an engine that writes the level of each row: its text depends on the row only."""
    return FakeEngine(decode=lambda call: f" Level {call.row.level:.6f}.", **keywords)


def write_text(transcript: Transcript, path: Path) -> None:
    path.write_text(transcript.text)


@pytest.fixture
def recordings(tmp_path: Path) -> list[Path]:
    """Three recordings of 20 s, with about five rows each."""
    paths = []
    for number in range(3):
        path = tmp_path / f"{number}.wav"
        path.write_bytes(encode([noise(20, seed=number)], "wav", "pcm_s16le", rate=16000))
        paths.append(path)
    return paths


def items_of(recordings: Sequence[Path]) -> tuple[WorkItem, ...]:
    return plan_outputs(tuple(find_inputs(map(str, recordings))), ("txt",), None)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path) as opened:
        yield opened


def job(ledger: Ledger | None, settings: str = "s", *, redo: bool = False) -> Job:
    return Job(lambda _: settings, ledger, redo=redo)


def run_events(
    engine: FakeEngine,
    items: Sequence[WorkItem],
    ledger: Ledger | None = None,
    write: Callable[[Transcript, Path], None] = write_text,
) -> list[Event]:
    return list(run_job(Transcriber(engine), items, OPTIONS, job(ledger), write=write))


def take_text(item: WorkItem) -> str:
    """Return the text of an output, and delete it."""
    text = item.outputs[0].read_text()
    item.outputs[0].unlink()
    return text


def done(item: WorkItem, ledger: Ledger, settings: str = "s") -> bool:
    return job(ledger, settings).remaining(item) is None


def test_each_recording_yields_its_segments_and_writes_its_files(recordings: list[Path]) -> None:
    items = items_of(recordings)
    events = run_events(level_engine(), items)
    for item in items:
        item_events = [event for event in events if event.item == item]
        assert isinstance(item_events[-1], Finished)
        assert item_events[-1].transcript.segments == tuple(
            event.segment for event in item_events if isinstance(event, SegmentReady)
        )
        assert item.outputs[0].read_text() == item_events[-1].transcript.text


def test_a_broken_recording_does_not_affect_the_others(recordings: list[Path]) -> None:
    recordings[1].write_bytes(b"not media")
    missing = recordings[0].with_name("missing.wav")
    events = run_events(level_engine(), items_of([*recordings, missing]))
    ends = [event for event in events if not isinstance(event, SegmentReady)]
    failed = [event for event in ends if isinstance(event, Failed)]
    assert {Path(event.item.source).name for event in failed} == {"1.wav", "missing.wav"}
    assert all(isinstance(event.error, AudioError) for event in failed)
    assert sum(isinstance(event, Finished) for event in ends) == 2


def test_an_unexpected_exception_of_a_writer_fails_its_recording_only(
    recordings: list[Path], ledger: Ledger
) -> None:
    def write(transcript: Transcript, path: Path) -> None:
        if path.name == "1.txt":
            raise KeyError("no such cue")
        write_text(transcript, path)

    items = items_of(recordings)
    ends = [
        event
        for event in run_events(level_engine(), items, ledger, write)
        if not isinstance(event, SegmentReady)
    ]
    (failed,) = (event for event in ends if isinstance(event, Failed))
    assert isinstance(failed.error, InternalError)
    assert failed.error.source == failed.item.source == str(recordings[1])
    assert isinstance(failed.error.__cause__, KeyError)
    assert [done(item, ledger) for item in items] == [True, False, True]
    engine = level_engine()
    run_events(engine, [items[1]], ledger)
    assert done(items[1], ledger)
    assert engine.calls == []  # all rows come from the journal


def test_finished_means_same_recording_same_settings_and_all_outputs_there(
    recordings: list[Path], ledger: Ledger
) -> None:
    items = items_of(recordings)
    assert not any(done(item, ledger) for item in items)
    run_events(level_engine(), items, ledger)
    assert all(done(item, ledger) for item in items)
    assert not done(items[0], ledger, "other settings")
    items[0].outputs[0].unlink()
    assert not done(items[0], ledger)
    recordings[1].write_bytes(recordings[2].read_bytes())
    assert not done(items[1], ledger)
    recordings[2].unlink()
    assert not done(items[2], ledger)


def test_two_recordings_with_the_same_output_replace_each_other(
    recordings: list[Path], ledger: Ledger
) -> None:
    output = recordings[0].with_name("same.txt")
    first, second = (WorkItem(str(path), (output,)) for path in recordings[:2])
    for item in (first, second, first):
        assert not done(item, ledger)
        run_events(level_engine(), [item], ledger)
        assert done(item, ledger)


def test_only_missing_outputs_are_made(recordings: list[Path], ledger: Ledger) -> None:
    txt, txt_and_srt = (
        plan_outputs(tuple(find_inputs([str(recordings[0])])), formats, None)
        for formats in (("txt",), ("txt", "srt"))
    )
    run_events(level_engine(), txt, ledger)
    remaining = job(ledger).remaining(txt_and_srt[0])
    assert isinstance(remaining, WorkItem)
    assert [path.name for path in remaining.outputs] == ["0.srt"]


def test_files_of_other_origin_are_replaced_only_with_redo(
    recordings: list[Path], ledger: Ledger
) -> None:
    foreign, edited, _ = items_of(recordings)
    foreign.outputs[0].write_text("my notes")
    blocked = job(ledger).remaining(foreign)
    assert isinstance(blocked, Failed)
    assert "0.txt: exists already; --no-resume replaces it" in str(blocked.error)
    assert job(ledger, redo=True).remaining(foreign) == foreign
    run_events(level_engine(), [edited], ledger)
    edited.outputs[0].write_text("by hand")
    assert done(edited, ledger)  # the settings are the same: the edited file stays
    modified = job(ledger, "other settings").remaining(edited)
    assert isinstance(modified, Failed)
    assert "was modified after it was written" in str(modified.error)


@pytest.mark.parametrize("moment", ["before the file is there", "after the file is there"])
def test_a_kill_while_an_output_is_written_does_not_make_it_foreign(
    recordings: list[Path], ledger: Ledger, moment: str
) -> None:
    [item, *_] = items_of(recordings)
    [output] = item.outputs
    run_events(level_engine(), [item], ledger)
    text = output.read_text()
    output.write_text(text if moment.startswith("after") else "the output of other settings")
    ledger.begin(output)  # and then the process is killed
    remaining = job(ledger).remaining(item)
    assert remaining == item
    run_events(level_engine(), [item], ledger)
    assert output.read_text() == text
    assert done(item, ledger)


def test_a_failed_write_leaves_a_file_of_other_origin_foreign(
    recordings: list[Path], ledger: Ledger
) -> None:
    [item, *_] = items_of(recordings)
    item.outputs[0].write_text("my notes")

    def fail(*_: object) -> None:
        raise WriteError("disk full")

    with Transcriber(level_engine()) as asr:
        events = list(run_job(asr, [item], OPTIONS, job(ledger, redo=True), write=fail))
    assert isinstance(events[-1], Failed)
    assert isinstance(job(ledger).remaining(item), Failed)


def test_a_failed_write_leaves_an_own_outdated_file_an_own_file(
    recordings: list[Path], ledger: Ledger
) -> None:
    def fail(*_: object) -> None:
        raise WriteError("disk full")

    [item, *_] = items_of(recordings)
    run_events(level_engine(), [item], ledger)
    with Transcriber(level_engine()) as asr:
        changed = job(ledger, "other settings")
        [*_, last] = run_job(asr, [item], OPTIONS, changed, write=fail)
    assert isinstance(last, Failed)
    assert done(item, ledger)  # it is still the output of the first settings
    assert changed.remaining(item) == item


def test_missing_outputs_are_made_although_others_are_of_other_origin(
    recordings: list[Path], ledger: Ledger
) -> None:
    [item] = plan_outputs(tuple(find_inputs([str(recordings[0])])), ("txt", "srt", "vtt"), None)
    foreign, *others = item.outputs
    foreign.write_text("my notes")
    remaining = job(ledger).remaining(item)
    assert isinstance(remaining, WorkItem)
    [*_, last] = run_events(level_engine(), [remaining], ledger)
    assert isinstance(last, Failed)
    assert "0.txt: exists already; --no-resume replaces it" in str(last.error)
    assert foreign.read_text() == "my notes"
    assert all(output.exists() for output in others)
    again = job(ledger).remaining(item)
    assert isinstance(again, Failed)
    assert str(again.error) == str(last.error)


def test_a_file_that_appears_during_the_transcription_is_not_replaced(
    recordings: list[Path], ledger: Ledger
) -> None:
    [item, *_] = items_of(recordings)
    events = run_job(Transcriber(level_engine()), [item], OPTIONS, job(ledger), write=write_text)
    assert isinstance(next(events), SegmentReady)
    item.outputs[0].write_text("my notes")
    [*_, last] = events
    assert isinstance(last, Failed)
    assert item.outputs[0].read_text() == "my notes"


def test_a_finished_job_on_a_read_only_folder_is_finished(
    recordings: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = items_of(recordings)
    with Ledger(tmp_path) as ledger:
        run_events(level_engine(), items[:2], ledger)
    files = set(tmp_path.iterdir())
    monkeypatch.setattr(os, "access", lambda *_: False)
    with Ledger(tmp_path) as ledger:
        rules = job(ledger)
        rules.register()
        assert [rules.remaining(item) for item in items[:2]] == [None, None]
        assert all(map(rules.was_complete, items[:2]))
        last = rules.remaining(items[2])
        assert isinstance(last, Failed)
        assert f"{ledger.path}: cannot be written" in str(last.error)
    assert set(tmp_path.iterdir()) == files


def test_a_run_that_ran_out_of_memory_is_resumed(recordings: list[Path], ledger: Ledger) -> None:
    items = items_of(recordings)
    uninterrupted = level_engine()
    run_events(uninterrupted, items)
    expected = [take_text(item) for item in items]
    first = level_engine(failing={"decode": range(4, 10**6)})  # as if memory were exhausted
    assert any(isinstance(event, Failed) for event in run_events(first, items, ledger))
    second = level_engine()
    remaining = [item for item in items if not done(item, ledger)]
    assert remaining
    assert all(
        isinstance(event, SegmentReady | Finished)
        for event in run_events(second, remaining, ledger)
    )
    assert len(second.calls) < len(uninterrupted.calls)
    assert [item.outputs[0].read_text() for item in items] == expected


def test_a_run_that_was_closed_early_is_resumed(recordings: list[Path], ledger: Ledger) -> None:
    [item] = items_of(recordings[:1])
    uninterrupted = level_engine()
    run_events(uninterrupted, [item])
    expected = take_text(item)
    slow = level_engine(delay={"decode": 0.2})  # so that calls are left when the run is closed
    events = run_job(Transcriber(slow), [item], OPTIONS, job(ledger), write=write_text)
    assert isinstance(next(events), SegmentReady)
    events.close()
    second = level_engine()
    run_events(second, [item], ledger)
    assert 0 < len(second.calls) < len(uninterrupted.calls)
    assert item.outputs[0].read_text() == expected


def test_the_journal_of_finished_recordings_is_deleted(
    recordings: list[Path], ledger: Ledger
) -> None:
    run_events(level_engine(), items_of(recordings), ledger)
    assert ledger.mark() > 10
    assert ledger.count() == 0


def test_entries_of_an_earlier_run_stay_until_all_recordings_have_ended(
    recordings: list[Path], ledger: Ledger
) -> None:
    short, long = items_of(recordings[:2])
    events = run_job(Transcriber(level_engine()), [long], OPTIONS, job(ledger), write=write_text)
    next(events)
    events.close()
    count = ledger.count()
    assert count
    events = run_job(
        Transcriber(level_engine()),
        [short, long],
        OPTIONS,
        job(ledger),
        write=write_text,
        ordered=True,
    )
    for event in events:
        if isinstance(event, Finished):
            break
    assert ledger.count() >= count
    events.close()


def test_a_recording_whose_output_cannot_be_written_fails_and_keeps_its_journal(
    recordings: list[Path], ledger: Ledger
) -> None:
    def write_to_full_disk(transcript: Transcript, path: Path) -> None:
        if path.name == "1.txt":
            raise WriteError(f"{path}: cannot be written: no space left")
        write_text(transcript, path)

    items = items_of(recordings)
    events = run_events(level_engine(), items, ledger, write_to_full_disk)
    [failed] = [event for event in events if isinstance(event, Failed)]
    assert failed.item == items[1]
    assert not done(items[1], ledger)
    resumed = level_engine()
    run_events(resumed, [items[1]], ledger)
    assert len(resumed.calls) == 0
    assert done(items[1], ledger)
    assert ledger.count() == 0


def test_a_recording_whose_folder_cannot_be_created_fails(recordings: list[Path]) -> None:
    blocked = recordings[0].with_name("blocked")
    blocked.write_text("a file")
    item = WorkItem(str(recordings[0]), (blocked / "0.txt",))
    [*_, last] = run_events(level_engine(), [item])
    assert isinstance(last, Failed)
    assert isinstance(last.error, WriteError)


def test_an_engine_error_fails_the_recording(recordings: list[Path]) -> None:
    events = run_events(level_engine(failing={"decode": range(10**6)}), items_of(recordings[:1]))
    [failed] = [event for event in events if isinstance(event, Failed)]
    assert isinstance(failed.error, EngineError)


def test_a_failed_recording_does_not_keep_the_journal_of_the_others(
    recordings: list[Path], ledger: Ledger
) -> None:
    def write_to_full_disk(transcript: Transcript, path: Path) -> None:
        if path.name == "0.txt":
            raise WriteError(f"{path}: cannot be written: no space left")
        write_text(transcript, path)

    items = items_of(recordings)
    events = list(
        run_job(
            Transcriber(level_engine()),
            items,
            OPTIONS,
            job(ledger),
            write=write_to_full_disk,
            ordered=True,
        )
    )
    assert sum(isinstance(event, Failed) for event in events) == 1
    uninterrupted = level_engine()
    run_events(uninterrupted, items[1:], None)
    assert 0 < ledger.count() < ledger.mark() - 1  # the entries of the other recordings are deleted
    resumed = level_engine()
    run_events(resumed, items[:1], ledger)
    assert len(resumed.calls) == 0
    assert ledger.count() == 0
