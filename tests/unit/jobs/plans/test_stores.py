import io
import os
import secrets
import threading
import zipfile
from collections.abc import Callable, Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.implementations.zip import ZipFileSystem

from whisperbatch.errors import MissingExtraError, OptionError, WriteError
from whisperbatch.jobs.plans import stores
from whisperbatch.jobs.plans.stores import Store


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    folder = (
        tmp_path / "a folder" if request.param == "local" else f"memory://{secrets.token_hex()}"
    )
    opened = Store(str(folder))
    yield opened
    for name in opened.names(""):
        opened.delete(name)


def test_an_object_is_created_once(store: Store) -> None:
    assert store.create("results/ab/abcd.json", b"first")
    assert not store.create("results/ab/abcd.json", b"second")
    assert store.read("results/ab/abcd.json") == b"first"


def test_of_many_threads_that_create_an_object_one_succeeds(store: Store) -> None:
    start = threading.Barrier(16)

    def create(number: int) -> bool:
        start.wait()
        return store.create("lease", b"%d" % number)

    with ThreadPoolExecutor(16) as pool:
        created = list(pool.map(create, range(16)))
    assert sum(created) == 1
    assert store.read("lease") == b"%d" % created.index(True)


def test_write_replaces_and_delete_deletes(store: Store) -> None:
    store.write("lease", b"one")
    store.write("lease", b"two")
    assert store.read("lease") == b"two"
    assert store.exists("lease")
    store.delete("lease")
    store.delete("lease")
    assert not store.exists("lease")
    assert store.read("lease") is None


def test_names_are_those_of_a_folder_and_its_subfolders(store: Store) -> None:
    assert store.names("results") == frozenset()
    for name in ("results/ab/1.json", "results/cd/2.json", "results2/3.json", "4.json"):
        store.write(name, b"x")
    assert store.names("results") == {"ab/1.json", "cd/2.json"}
    assert "4.json" in store.names("")


def test_a_file_that_is_being_written_has_no_name(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.write("a.json", b"x")
    (tmp_path / ".b.json-77-ab.tmp").write_bytes(b"half")
    assert store.names("") == {"a.json"}
    assert len(list(tmp_path.iterdir())) == 2  # `a.json` left no temporary file


def test_temporary_files_of_processes_that_died_are_deleted(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for name in ("leases/77aa.0.json", "results/ab/abcd.json"):
        store.write(name, b"x")
    old, new, foreign = (
        tmp_path / "leases/.77aa.0.json-4711-00c0ffee.tmp",
        tmp_path / "results/ab/.abcd.json-4711-00c0ffee.tmp",
        tmp_path / "results/.notes.tmp",
    )
    for path in (old, new, foreign):
        path.write_bytes(b"half")
        os.utime(path, (1, 1))
    os.utime(new)
    store.delete_abandoned()
    assert (old.exists(), new.exists(), foreign.exists()) == (False, True, True)
    assert len(store.names("")) == 2
    Store(f"memory://{secrets.token_hex()}").delete_abandoned()  # there are none
    Store(str(tmp_path / "nowhere")).delete_abandoned()


def test_without_hard_links_an_object_is_created_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", fail)
    store = Store(str(tmp_path))
    assert store.create("a", b"first")
    assert not store.create("a", b"second")
    assert store.read("a") == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


class Unconditional:
    """A server of S3 that ignores the condition of a creation, and replaces the object."""

    def __init__(self, system: Any) -> None:
        self._system = system

    def __getattr__(self, name: str) -> Any:
        return getattr(self._system, name)

    def pipe_file(self, path: str, data: bytes, mode: str = "overwrite") -> None:
        self._system.pipe_file(path, data)


def test_an_object_stays_although_the_store_ignores_conditions() -> None:
    store = Store(f"memory://{secrets.token_hex()}")
    store._system = Unconditional(store._system)
    assert store.create("results/ab/abcd.json", b"transcript")
    assert not store.create("results/ab/abcd.json", b"failure")
    assert store.read("results/ab/abcd.json") == b"transcript"
    store.write("results/ab/abcd.json", b"new")
    assert store.read("results/ab/abcd.json") == b"new"


class Flaky:
    """A file system of which some requests, by their number, fail before or after their effect."""

    def __init__(self, system: Any, failing: Container[int], *, after: bool) -> None:
        self._system, self._failing, self._after = system, failing, after
        self.requests: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._system, name)

        def call(*args: Any, **keywords: Any) -> Any:
            if name not in {"pipe_file", "cat_file", "find", "rm_file", "exists"}:
                return method(*args, **keywords)
            fails = len(self.requests) in self._failing
            self.requests.append(name)
            if fails and not self._after:
                raise ConnectionError("reset by peer")
            result = method(*args, **keywords)
            if fails:
                raise ConnectionError("reset by peer")
            return result

        return call


def flaky_store(failing: Container[int], *, after: bool = False) -> Store:
    store = Store(f"memory://{secrets.token_hex()}")
    store._system = Flaky(store._system, failing, after=after)
    store._sleep = lambda _: None
    return store


@pytest.mark.parametrize("after", [False, True])
def test_a_request_that_fails_is_sent_again(*, after: bool) -> None:
    store = flaky_store(range(3), after=after)
    assert store.create("lease", b"mine")  # with `after`, the first request had created it
    assert store.read("lease") == b"mine"


def test_the_read_after_a_failed_creation_is_sent_again_alone() -> None:
    store = flaky_store([1, 3], after=True)
    assert store.create("lease", b"mine")
    assert store._system.requests == ["exists", "pipe_file", "exists", "cat_file", "cat_file"]


def test_a_store_that_fails_for_long_is_an_error() -> None:
    store = flaky_store(range(len(stores.PAUSES) + 1))
    with pytest.raises(WriteError, match=r"^memory://.*/lease: cannot be written: reset by peer$"):
        store.create("lease", b"mine")


def test_an_error_that_stays_is_raised_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    store = Store(str(tmp_path / "file"))
    with pytest.raises(WriteError, match="cannot be written"):
        store.create("a", b"x")


def test_an_unknown_kind_of_url_is_refused() -> None:
    with pytest.raises(OptionError, match="nowhere"):
        Store("nowhere://bucket")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", fail)
    with pytest.raises(MissingExtraError, match=r"s3://b: .* is missing: pip install s3fs"):
        Store("s3://b")


@pytest.mark.parametrize(
    ("uri", "kind", "path"),
    [
        ("/talks/a::b.wav", LocalFileSystem, "/talks/a::b.wav"),
        ("/talks/zip::b", LocalFileSystem, "/talks/zip::b"),
        ("file:///talks/a::b.wav", LocalFileSystem, "/talks/a::b.wav"),
        ("memory:///talks/a::b #1 100%.wav", MemoryFileSystem, "/talks/a::b #1 100%.wav"),
        ("zip://a.wav::memory://talks/x.zip", ZipFileSystem, "a.wav"),
    ],
)
def test_names_may_contain_what_fsspec_has_between_two_urls(
    uri: str, kind: type, path: str
) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("a.wav", b"x")
    MemoryFileSystem().pipe_file("/talks/x.zip", data.getvalue())
    system, found = stores.file_system(uri)
    assert isinstance(system, kind)
    assert found == path
