"""Which process of several takes which recording of a directory."""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whisperbatch.errors import AudioError, EngineError, WriteError
from whisperbatch.jobs.claims import Claims, Event, Failed, FinishedElsewhere, NothingFreeError
from whisperbatch.jobs.inputs import WorkItem
from whisperbatch.jobs.ledger import DirectoryLeases, Ledger


@dataclass
class Directory:
    """The outputs of a directory, as all processes see them."""

    finished: set[str] = field(default_factory=set)

    def remaining(self, item: WorkItem) -> WorkItem | Failed | None:
        return None if item.source in self.finished else item

    def key(self, item: WorkItem) -> str | None:
        return None if "://" in item.source else item.source


def items(count: int) -> list[WorkItem]:
    return [WorkItem(f"{number}.wav", (Path(f"{number}.txt"),)) for number in range(count)]


class Process:
    """A run of a job, one step at a time."""

    def __init__(self, path: Path, directory: Directory, recordings: list[WorkItem]) -> None:
        self.leases = DirectoryLeases(path)
        self.claims = Claims(recordings, directory, self.leases, lambda *_: None)
        self._sources = enumerate(self.claims.sources())
        self._directory = directory
        self.open: dict[int, str] = {}
        self.events: list[Event] = []

    def take(self) -> str | None:
        """Open a source; return None if nothing is free."""
        recording = None
        if self.claims._has_news():  # otherwise the sources would wait
            with suppress(NothingFreeError, StopIteration):
                number, source = next(self._sources)
                recording = self.open[number] = str(source.choose())
        self.events += self.claims.events()
        return recording

    def end(self, recording: str, error: Any = None, *, is_final: bool = False) -> None:
        [number] = [number for number, source in self.open.items() if source == recording]
        del self.open[number]
        if error is None:
            self._directory.finished.add(recording)
        self.claims.end(number, error, is_final=is_final)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path) as opened:
        yield opened


@pytest.fixture
def process(ledger: Ledger) -> Callable[..., Process]:
    directory = Directory()

    def start(recordings: list[WorkItem] | None = None) -> Process:
        return Process(ledger.path, directory, items(4) if recordings is None else recordings)

    return start


def test_two_processes_take_different_recordings(process: Callable[..., Process]) -> None:
    one, two = process(), process()
    taken = [one.take(), two.take(), two.take(), one.take()]
    assert taken == ["0.wav", "1.wav", "2.wav", "3.wav"]
    one.end("0.wav")
    two.end("1.wav")
    three = process()
    assert three.take() is None
    assert three.events == [FinishedElsewhere(items(4)[0]), FinishedElsewhere(items(4)[1])]


def test_no_process_takes_more_than_its_share(process: Callable[..., Process]) -> None:
    one, two = process(items(5)), process(items(5))
    one.leases.register()
    assert one.leases.processes() == 1
    two.leases.register()
    assert one.leases.processes() == two.leases.processes() == 2
    assert [one.take() for _ in range(5)] == ["0.wav", "1.wav", "2.wav", None, None]
    one.end("0.wav")
    assert one.take() is None  # four are left, and it has two of them
    one.end("1.wav")
    assert [one.take(), two.take(), two.take()] == ["3.wav", "4.wav", None]
    two.leases.give_up_all()
    assert one.leases.processes() == 1
    assert [one.take(), one.take()] == ["4.wav", None]


def test_recordings_that_cannot_be_shared_are_taken_by_each(
    process: Callable[..., Process],
) -> None:
    url = [WorkItem("https://host/a.mp3", (Path("a.txt"),))]
    assert process(url).take() == process(url).take() == "https://host/a.mp3"


def test_a_recording_that_failed_is_not_tried_again_by_the_others(
    process: Callable[..., Process],
) -> None:
    one, two = process(items(1)), process(items(1))
    assert one.take() == "0.wav"
    one.end("0.wav", AudioError("is not media", source="0.wav"), is_final=True)
    assert two.take() is None
    [failed] = two.events
    assert isinstance(failed, Failed)
    assert str(failed.error) == "0.wav: is not media"
    later = process(items(1))  # a run that starts after the failure tries again
    assert later.take() == "0.wav"
    later.end("0.wav")
    assert later.leases.newest() == {}


def test_an_error_that_may_pass_leaves_the_recording_to_the_others(
    process: Callable[..., Process],
) -> None:
    one, two = process(items(2)), process(items(2))
    assert one.take() == "0.wav"
    one.end("0.wav", EngineError("no memory"))
    assert [two.take(), two.take()] == ["1.wav", "0.wav"]  # it comes last


def test_a_process_that_ends_early_leaves_its_recordings_at_once(
    process: Callable[..., Process],
) -> None:
    one, two = process(items(2)), process(items(2))
    with one.claims.leased():
        assert one.take() == "0.wav"
    assert [two.take(), two.take()] == ["0.wav", "1.wav"]
    three = process(items(2))
    two.leases.give_up_all()  # as after Ctrl-C
    assert {three.take(), three.take()} == {"0.wav", "1.wav"}
    assert three.events == []


def test_the_lease_of_a_process_that_died_after_its_last_output_is_deleted(ledger: Ledger) -> None:
    directory = Directory()
    assert DirectoryLeases(ledger.path, duration=0.0).acquire("0.wav", None)
    one = Process(ledger.path, directory, items(1))
    directory.finished.add("0.wav")
    assert one.take() is None
    assert one.events == [FinishedElsewhere(items(1)[0])]
    assert one.leases.newest() == {}


def test_the_lease_of_a_recording_whose_outputs_are_refused_stays(ledger: Ledger) -> None:
    """The next run takes the recording last: its process died."""

    class Refused(Directory):
        def remaining(self, item: WorkItem) -> WorkItem | Failed | None:
            return Failed(item, WriteError("exists already"))

    assert DirectoryLeases(ledger.path, duration=0.0).acquire("0.wav", None)
    one = Process(ledger.path, Refused(), items(1))
    assert one.take() is None
    assert isinstance(one.events[0], Failed)
    assert one.leases.newest().keys() == {"0.wav"}


class ReadErrors(Directory):
    """The second look at a recording fails."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def remaining(self, item: WorkItem) -> WorkItem | Failed | None:
        self.looks += 1
        if self.looks == 3:  # one for news, one before the lease, one with the lease
            raise OSError("disk error")
        return super().remaining(item)


def test_an_error_after_the_lease_leaves_the_recording(ledger: Ledger) -> None:
    one = Process(ledger.path, ReadErrors(), items(1))
    with pytest.raises(OSError, match="disk error"):
        one.take()
    assert one.leases.newest() == {}
    assert one.take() == "0.wav"


def test_an_error_at_the_begin_leaves_the_recording(ledger: Ledger) -> None:
    def begin(number: int, item: WorkItem) -> None:
        raise OSError("disk error")

    leases = DirectoryLeases(ledger.path)
    claims = Claims(items(1), Directory(), leases, begin)
    with pytest.raises(OSError, match="disk error"):
        next(claims.sources()).choose()
    assert claims.claim(0) is None
    assert leases.newest() == {}


def test_outputs_that_another_process_writes_are_not_checked(ledger: Ledger) -> None:
    """They may look as if somebody had modified them."""

    class Written(Directory):
        def remaining(self, item: WorkItem) -> WorkItem | Failed | None:
            return Failed(item, WriteError("was modified")) if self.finished else item

    directory = Written()
    one, two = (Process(ledger.path, directory, items(1)) for _ in range(2))
    assert one.take() == "0.wav"
    directory.finished.add("0.wav")
    assert two.take() is None
    assert two.events == []


def test_a_process_that_waits_says_so(
    process: Callable[..., Process], caplog: pytest.LogCaptureFixture
) -> None:
    one, two = process(items(1)), process(items(1))
    assert one.take() == "0.wav"
    threading.Timer(0.2, two.claims.stop).start()
    assert list(two.claims.sources()) == []
    [record] = caplog.records
    assert "1 recordings are left, and other processes have them" in record.getMessage()


def test_few_looks_at_many_recordings(ledger: Ledger) -> None:
    """The number of looks at the outputs grows with the recordings, not with their square."""
    count = 300
    looks = 0

    class Counting(Directory):
        def remaining(self, item: WorkItem) -> WorkItem | Failed | None:
            nonlocal looks
            looks += 1
            return super().remaining(item)

    failed = DirectoryLeases(ledger.path)
    for number in range(count // 2):
        assert failed.acquire(f"{number}.wav", None)
        failed.give_up(f"{number}.wav", "is not media")
    one = Process(ledger.path, Counting(), items(count))
    for _ in range(count):
        recording = one.take()
        assert recording
        one.end(recording)
    assert looks <= 4 * count


def test_after_a_stop_nothing_is_taken(process: Callable[..., Process]) -> None:
    one = process()
    number_and_source = next(one._sources)
    one.claims.stop()
    with pytest.raises(NothingFreeError):
        number_and_source[1].choose()
    assert list(one._sources) == []
    assert one.leases.newest() == {}


def test_without_a_ledger_recordings_are_taken_without_leases(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = Process(tmp_path / "missing.db", Directory(), items(2))
    assert [one.take(), one.take()] == ["0.wav", "1.wav"]
    one.end("0.wav")
    one.leases.give_up_all()
    [record] = caplog.records
    assert "other processes may transcribe the same recordings" in record.getMessage()
    assert not (tmp_path / "missing.db").exists()


class Processes:
    """Three processes that share five recordings."""

    def __init__(self, path: Path) -> None:
        self._path, self._directory = path, Directory()
        self._all = [self._start() for _ in range(3)]
        self._taken: dict[int, list[str]] = {0: [], 1: [], 2: []}

    def take(self, index: int) -> None:
        recording = self._all[index].take()
        if recording:
            others = [other for other in self._all if other is not self._all[index]]
            assert not any(recording in other.open.values() for other in others)
            assert recording not in self._directory.finished
            self._taken[index].append(recording)

    def end(self, index: int, error: Exception | None, *, is_final: bool) -> None:
        for recording in sorted(self._all[index].open.values())[:1]:
            self._all[index].end(recording, error, is_final=is_final)

    def replace(self, index: int) -> None:
        """Stop a process, and start another."""
        self._all[index].leases.give_up_all()
        self._all[index], self._taken[index] = self._start(), []

    def check(self) -> None:
        """Work to the end: each process has each recording, or knows that another had it."""
        for _ in range(12):
            for index in self._taken:
                self.take(index)
                self.end(index, None, is_final=False)
        for index, recordings in self._taken.items():
            found = [event.item.source for event in self._all[index].events]
            assert sorted(recordings + found) == [item.source for item in items(5)]

    def _start(self) -> Process:
        return Process(self._path, self._directory, items(5))


STEPS: dict[str, Callable[[Processes, int], None]] = {
    "take": Processes.take,
    "take more": Processes.take,
    "finish": lambda processes, index: processes.end(index, None, is_final=False),
    "fail": lambda processes, index: processes.end(index, AudioError("broken"), is_final=True),
    "leave": lambda processes, index: processes.end(index, WriteError("full"), is_final=False),
    "replace": Processes.replace,
}


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 2)), max_size=50))
def test_no_two_processes_have_one_recording(
    steps: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    with Ledger(tmp_path_factory.mktemp("job")) as ledger:
        processes = Processes(ledger.path)
        for kind, index in steps:
            STEPS[kind](processes, index)
        processes.check()


def test_a_waiting_process_stops_at_once(process: Callable[..., Process]) -> None:
    one, two = process(items(1)), process(items(1))
    assert one.take() == "0.wav"
    ended = threading.Event()

    def wait() -> None:
        list(two._sources)
        ended.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not ended.wait(0.1)
    two.claims.stop()
    assert ended.wait(10)
    thread.join()
