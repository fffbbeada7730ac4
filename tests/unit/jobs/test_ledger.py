import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from whisperbatch.errors import WriteError
from whisperbatch.jobs.inputs import LEDGER_NAME
from whisperbatch.jobs.ledger import Entry, Ledger


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def output(directory: Path) -> Path:
    path = directory / "a.srt"
    path.write_text("text")
    return path


def test_a_finished_output_stays_listed(directory: Path, output: Path) -> None:
    with Ledger(directory) as ledger:
        assert ledger.entry(output) is None
        ledger.finish(output, "one")
        ledger.finish(output, "two")
    with Ledger(directory) as ledger:
        assert ledger.entry(output) == Entry("two", unmodified=True)
        assert ledger.entry(directory / "b.srt") is None


def test_an_entry_shows_a_modified_file_and_a_file_that_was_being_written(
    directory: Path, output: Path
) -> None:
    with Ledger(directory) as ledger:
        ledger.finish(output, "one")
        output.write_text("edited")
        assert ledger.entry(output) == Entry("one", unmodified=False)
        ledger.begin(output)
        output.write_text("written, and then the process was killed")
        assert ledger.entry(output) == Entry("", unmodified=True)
        ledger.finish(output, None)
        assert ledger.entry(output) is None


def test_relative_and_absolute_paths_name_the_same_entry(
    directory: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory)
    with Ledger(Path()) as ledger:
        ledger.finish(Path("a.srt"), "one")
        assert ledger.entry(output) == Entry("one", unmodified=True)


def test_a_file_name_may_contain_any_bytes(directory: Path) -> None:
    path = directory / os.fsdecode(b"caf\xe9.srt")
    path.write_text("text")
    with Ledger(directory) as ledger:
        ledger.finish(path, "one")
        assert ledger.entry(path) == Entry("one", unmodified=True)


def test_a_directory_may_be_moved_with_its_ledger(directory: Path) -> None:
    old, new = directory / "old", directory / "new"
    old.mkdir()
    (old / "a.srt").write_text("")
    with Ledger(old) as ledger:
        ledger.finish(old / "a.srt", "inside")
        ledger.finish(directory / "b.srt", "outside")
    shutil.move(old, new)
    with Ledger(new) as ledger:
        assert ledger.entry(new / "a.srt") == Entry("inside", unmodified=True)
        assert ledger.entry(directory / "b.srt") == Entry(
            "outside", unmodified=True
        )  # the file does not exist


def test_the_journal_returns_the_stored_values(directory: Path) -> None:
    values = {bytes([n % 256, n // 256]): str(n).encode() for n in range(1200)}
    with Ledger(directory) as ledger:
        ledger.keep(values)
        ledger.keep({b"\0\0": b"another"})
    values[b"\0\0"] = b"another"
    with Ledger(directory) as ledger:
        stored = ledger.find([*values, b"unknown"])
    assert stored == values


def test_entries_between_two_marks_are_deleted(directory: Path) -> None:
    with Ledger(directory) as ledger:
        ledger.keep({b"before": b""})
        first = ledger.mark()
        ledger.keep({b"a": b"", b"b": b""})
        second = ledger.mark()
        ledger.keep({b"after": b""})
        ledger.forget(first, second)
        assert set(ledger.find([b"before", b"a", b"b", b"after"])) == {b"before", b"after"}
        assert ledger.mark() == second + 1
        ledger.forget()
        assert ledger.find([b"before", b"after"]) == {}
        assert ledger.mark() == second + 1  # numbers are not reused


def test_a_run_deletes_only_entries_that_it_wrote_or_read(directory: Path) -> None:
    with Ledger(directory) as first, Ledger(directory) as second:
        first.keep({b"1": b"", b"2": b""})
        second.keep({b"3": b""})
        second.find([b"1"])
        second.forget()
        assert set(first.find([b"1", b"2", b"3"])) == {b"2"}


def test_a_failed_write_is_logged_once_and_raises_nothing(
    directory: Path, output: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Ledger(directory) as ledger:
        ledger.keep({b"1": b""})
        database = sqlite3.connect(ledger.path)
        database.execute("DROP TABLE finished")
        database.close()
        ledger.finish(output, "one")
        ledger.finish(output, "two")
        assert set(ledger.find([b"1", b"2"])) == {b"1"}
    [message] = [record.getMessage() for record in caplog.records]
    assert "no such table: finished; the job continues, but its progress is not saved" in message


def fill(ledger: Ledger) -> None:
    """Let the ledger grow no further, as on a full disk: SQLite then reports SQLITE_FULL."""
    [(pages,)] = ledger._database.execute("PRAGMA page_count")
    ledger._database.execute(f"PRAGMA max_page_count={pages}")
    for size in (2000, 200, 20):
        for n in range(100):
            ledger.keep({f"{size} {n}".encode(): bytes(size)})


def test_an_output_that_a_full_disk_cannot_list_is_refused_until_there_is_space(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths = [directory / f"{number:0200}.srt" for number in range(50)]
    with Ledger(directory) as ledger:
        fill(ledger)
        with pytest.raises(WriteError) as caught:
            list(map(ledger.begin, paths))
        assert "database or disk is full" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert len(caplog.records) == 1  # of the journal
        assert ledger.entry(paths[-1]) is None
        assert ledger.mark() > 0
        ledger._database.execute("PRAGMA max_page_count=100000")  # the disk has space again
        for path in paths:
            ledger.begin(path)
            ledger.finish(path, "one")
    with Ledger(directory) as ledger:
        assert all(ledger.entry(path) == Entry("one", unmodified=True) for path in paths)


def test_a_ledger_that_cannot_be_read_does_not_stop_the_job(
    directory: Path, output: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Ledger(directory) as ledger:
        ledger.keep({b"1": b""})
        ledger._database.close()  # every statement now fails
        assert ledger.find([b"1"]) == {}
        assert ledger.mark() == 0
        ledger.forget()
        with pytest.raises(WriteError, match="cannot be read"):
            ledger.entry(output)
    assert len(caplog.records) == 1


def test_a_deleted_ledger_is_created_again(directory: Path) -> None:
    job = directory / "job"
    job.mkdir()
    with Ledger(job) as ledger:
        ledger.finish(job / "a.srt", "one")
        shutil.rmtree(job)
        ledger.keep({b"1": b""})
        job.mkdir()
        ledger.begin(job / "b.srt")
        ledger.finish(job / "b.srt", "two")
    with Ledger(job) as ledger:
        assert ledger.entry(job / "a.srt") is None
        assert ledger.entry(job / "b.srt") == Entry("two", unmodified=True)


def test_threads_may_share_a_ledger(directory: Path) -> None:
    with Ledger(directory) as ledger, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: ledger.keep({b"%d" % n: b"%d" % n}), range(200)))
        assert len(ledger.find([b"%d" % n for n in range(200)])) == 200


def test_processes_may_share_a_ledger(directory: Path) -> None:
    with Ledger(directory) as first, Ledger(directory) as second:
        first.keep({b"1": b""})
        second.keep({b"2": b""})
        assert set(first.find([b"1", b"2"])) == {b"1", b"2"}


def test_a_killed_process_leaves_complete_entries(directory: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from whisperbatch.jobs.ledger import Ledger\n"
        "ledger = Ledger(Path(sys.argv[1]))\n"
        "for n in range(10**9):\n"
        "    ledger.keep({b'%d a' % n: b'x' * 1000, b'%d b' % n: b'x' * 1000})\n"
        "    print(n, flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(directory)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        for line in process.stdout:
            if int(line) >= 50:
                os.kill(process.pid, signal.SIGKILL)
                break
    with Ledger(directory) as ledger:
        for n in range(60):
            entries = ledger.find([b"%d a" % n, b"%d b" % n])
            assert len(entries) in (0, 2)
            assert len(entries) == 2 or n > 50


def test_a_file_that_is_no_ledger_is_refused_by_name(directory: Path) -> None:
    (directory / LEDGER_NAME).write_bytes(
        b"not a database, but longer than the header of one" * 100
    )
    with pytest.raises(WriteError, match=r"\.whisperbatch\.db: the ledger .* cannot be used"):
        Ledger(directory)


def test_a_ledger_of_another_version_is_refused(directory: Path) -> None:
    database = sqlite3.connect(directory / LEDGER_NAME)
    database.execute("PRAGMA user_version=99")
    database.close()
    with pytest.raises(WriteError, match="another version"):
        Ledger(directory)


def test_a_missing_directory_is_named(directory: Path) -> None:
    with pytest.raises(WriteError, match="nowhere"):
        Ledger(directory / "nowhere")


def test_processes_may_create_a_ledger_at_the_same_time(tmp_path: Path) -> None:
    def create(number: int) -> None:
        Ledger(tmp_path / str(number // 8)).close()

    for number in range(10):
        (tmp_path / str(number)).mkdir()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create, range(80)))


@pytest.mark.parametrize("damage", ["garbage", "half", "empty", "version"])
def test_a_lost_ledger_is_made_again_if_all_files_are(directory: Path, damage: str) -> None:
    with Ledger(directory) as ledger:
        ledger.keep({bytes([number]) * 20: b"x" * 5000 for number in range(100)})
    path = directory / LEDGER_NAME
    if damage == "version":
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA user_version = 99")
    else:
        size = path.stat().st_size
        path.write_bytes(
            {"garbage": b"no ledger" * 1000, "half": path.read_bytes()[: size // 2], "empty": b""}[
                damage
            ]
        )
    if damage != "empty":
        with pytest.raises(WriteError, match="run once with --no-resume"):
            Ledger(directory).count()
    output = directory / "a.txt"
    with Ledger(directory, start_again=True) as ledger:
        ledger.begin(output)
        output.write_text("a")
        ledger.finish(output, "made")
    with Ledger(directory) as ledger:
        assert ledger.entry(output) == Entry("made", unmodified=True)
