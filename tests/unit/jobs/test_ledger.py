import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from whisperbatch.errors import WriteError
from whisperbatch.jobs.ledger import NAME, Entry, Ledger


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def output(directory: Path) -> Path:
    path = directory / "a.srt"
    path.write_text("text")
    return path


def test_what_is_finished_stays_so(directory: Path, output: Path) -> None:
    with Ledger(directory) as ledger:
        assert ledger.entry(output) is None
        ledger.finish(output, "one")
        ledger.finish(output, "two")
    with Ledger(directory) as ledger:
        assert ledger.entry(output) == Entry("two", untouched=True)
        assert ledger.entry(directory / "b.srt") is None


def test_until_it_is_begun_anew_and_it_knows_whether_it_was_changed(
    directory: Path, output: Path
) -> None:
    with Ledger(directory) as ledger:
        ledger.finish(output, "one")
        output.write_text("edited")
        assert ledger.entry(output) == Entry("one", untouched=False)
        ledger.begin(output)
        assert ledger.entry(output) is None


def test_a_file_is_the_same_however_its_path_is_given(
    directory: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory)
    with Ledger(Path()) as ledger:
        ledger.finish(Path("a.srt"), "one")
        assert ledger.entry(output) == Entry("one", untouched=True)


def test_a_name_may_be_any_bytes(directory: Path) -> None:
    path = directory / os.fsdecode(b"caf\xe9.srt")
    path.write_text("text")
    with Ledger(directory) as ledger:
        ledger.finish(path, "one")
        assert ledger.entry(path) == Entry("one", untouched=True)


def test_a_directory_may_be_moved_with_what_is_in_it(directory: Path) -> None:
    old, new = directory / "old", directory / "new"
    old.mkdir()
    (old / "a.srt").write_text("")
    with Ledger(old) as ledger:
        ledger.finish(old / "a.srt", "inside")
        ledger.finish(directory / "b.srt", "outside")
    shutil.move(old, new)
    with Ledger(new) as ledger:
        assert ledger.entry(new / "a.srt") == Entry("inside", untouched=True)
        assert ledger.entry(directory / "b.srt") == Entry("outside", untouched=True)  # not there


def test_the_journal_gives_what_was_kept(directory: Path) -> None:
    values = {bytes([n % 256, n // 256]): str(n).encode() for n in range(1200)}
    with Ledger(directory) as ledger:
        ledger.keep(values)
        ledger.keep({b"\0\0": b"another"})
    with Ledger(directory) as ledger:
        found = ledger.find([*values, b"unknown"])
    assert found == values  # the first value of a key stays


def test_the_journal_is_forgotten_from_mark_to_mark(directory: Path) -> None:
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
        assert ledger.mark() == second + 1  # numbers are not given twice


def test_a_run_forgets_what_it_has_written_or_asked_for_and_no_other(directory: Path) -> None:
    with Ledger(directory) as one, Ledger(directory) as other:
        one.keep({b"1": b"", b"2": b""})
        other.keep({b"3": b""})
        other.find([b"1"])
        other.forget()
        assert set(one.find([b"1", b"2", b"3"])) == {b"2"}


def test_where_it_cannot_be_written_any_more_the_job_goes_on(
    directory: Path, output: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Ledger(directory) as ledger:
        ledger.keep({b"1": b""})
        base = sqlite3.connect(ledger.path)
        base.execute("DROP TABLE finished")
        base.close()
        ledger.finish(output, "one")
        ledger.keep({b"2": b""})
        ledger.forget()
        assert set(ledger.find([b"1", b"2"])) == {b"1"}
    assert len(caplog.records) == 1
    assert "nothing is kept" in caplog.text


def test_threads_may_share_it(directory: Path) -> None:
    with Ledger(directory) as ledger, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: ledger.keep({b"%d" % n: b"%d" % n}), range(200)))
        assert len(ledger.find([b"%d" % n for n in range(200)])) == 200


def test_so_may_processes(directory: Path) -> None:
    with Ledger(directory) as one, Ledger(directory) as other:
        one.keep({b"1": b""})
        other.keep({b"2": b""})
        assert set(one.find([b"1", b"2"])) == {b"1", b"2"}


def test_a_killed_process_leaves_whole_entries(directory: Path) -> None:
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
            both = ledger.find([b"%d a" % n, b"%d b" % n])
            assert len(both) in (0, 2)
            assert len(both) == 2 or n > 50


def test_what_is_no_ledger_is_refused_by_name(directory: Path) -> None:
    (directory / NAME).write_bytes(b"something else, and long enough to be looked at" * 100)
    with pytest.raises(WriteError, match=r"\.whisperbatch\.db: the ledger .* cannot be used"):
        Ledger(directory)


def test_so_is_that_of_another_version(directory: Path) -> None:
    base = sqlite3.connect(directory / NAME)
    base.execute("PRAGMA user_version=99")
    base.close()
    with pytest.raises(WriteError, match="another version"):
        Ledger(directory)


def test_a_directory_that_is_not_there_is_named(directory: Path) -> None:
    with pytest.raises(WriteError, match="nowhere"):
        Ledger(directory / "nowhere")
