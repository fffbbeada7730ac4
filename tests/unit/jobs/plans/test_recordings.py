import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.unit.fakes import noise
from tests.unit.media_files import encode
from whisperbatch.audio import open_audio
from whisperbatch.audio.track import Track
from whisperbatch.errors import AudioError
from whisperbatch.jobs.plans import recordings
from whisperbatch.jobs.plans.recordings import (
    READ_RANGE,
    StoredFile,
    StoreError,
    open_recording,
    probe_duration,
    version_of,
)

SECONDS = 90
FORMATS = {
    "wav": ("wav", "pcm_s16le", 16000),
    "flac": ("flac", "flac", 16000),
    "mp3": ("mp3", "mp3", 16000),
    "m4a": ("ipod", "aac", 16000),
    "ogg": ("ogg", "libopus", 48000),
    "mka": ("matroska", "aac", 16000),
}


@pytest.fixture(scope="module")
def media() -> dict[str, bytes]:
    samples = {rate: np.resize(noise(20), SECONDS * rate) for rate in (16000, 48000)}
    return {
        suffix: encode([samples[rate]], container, codec, rate=rate)
        for suffix, (container, codec, rate) in FORMATS.items()
    }


@pytest.fixture
def bucket() -> Iterator[str]:
    uri = f"memory://{secrets.token_hex()}"
    system = fsspec.filesystem("memory")
    system.pipe_file(f"{uri}/other", b"x")
    yield uri
    system.rm(uri, recursive=True)


def stored(bucket: str, name: str, data: bytes) -> str:
    fsspec.filesystem("memory").pipe_file(f"{bucket}/{name}", data)
    return f"{bucket}/{name}"


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all reads."""
    sizes: list[int] = []
    read = StoredFile.read

    def counted(self: StoredFile, size: int) -> bytes:
        data = read(self, size)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(StoredFile, "read", counted)
    return sizes


@pytest.mark.parametrize("suffix", FORMATS)
def test_the_duration_comes_from_the_header(
    suffix: str, media: dict[str, bytes], bucket: str, bytes_read: list[int]
) -> None:
    uri = stored(bucket, f"a.{suffix}", media[suffix])
    assert probe_duration(uri, 0) == pytest.approx(SECONDS, abs=0.2)
    assert sum(bytes_read) < max(len(media[suffix]) / 4, 2**19)


def test_without_a_stated_duration_the_packets_tell_it(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = stored(bucket, "a.wav", encode([noise(3)], "wav", "pcm_s16le", rate=16000))
    init = Track.__init__

    def without_duration(self: Any, *arguments: Any) -> None:
        init(self, *arguments)
        self.duration = 0.0

    monkeypatch.setattr(Track, "__init__", without_duration)
    assert probe_duration(uri, 0) == pytest.approx(3.0)


def test_a_stored_recording_is_read_as_a_local_one(
    media: dict[str, bytes], bucket: str, tmp_path: Path
) -> None:
    (tmp_path / "a.flac").write_bytes(media["flac"])
    uri = stored(bucket, "a.flac", media["flac"])
    with (
        open_recording(uri, version_of(uri), read_range=READ_RANGE) as source,
        open_audio(source) as reader,  # type: ignore[arg-type]  # has the methods of a file
        open_audio(tmp_path / "a.flac") as local,
    ):
        assert reader.name == uri
        for block, expected in zip(reader.blocks(), local.blocks(), strict=True):
            np.testing.assert_array_equal(block, expected)


def test_readers_of_one_object_do_not_share_a_position(
    media: dict[str, bytes], bucket: str
) -> None:
    uri = stored(bucket, "a.wav", media["wav"])
    with (
        open_recording(uri, None, read_range=10) as one,
        open_recording(uri, None, read_range=10) as two,
    ):
        assert isinstance(one, StoredFile)
        assert isinstance(two, StoredFile)
        assert one.read(4) == two.read(4) == b"RIFF"
        two.seek(-2, 2)
        assert one.tell() == 4
        assert len(two.read(10)) == 2


def test_the_version_changes_with_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(b"one")
    os.utime(path, (1, 1))
    first = version_of(str(path))
    assert first == "size 3, time 1.0"
    os.utime(path, (2, 2))
    assert version_of(str(path)) != first


@pytest.mark.parametrize(
    ("info", "version"),
    [
        ({"ETag": '"17ab"', "size": 5, "LastModified": 1}, "etag 17ab"),
        ({"etag": "17ab", "size": 5}, "etag 17ab"),
        ({"size": 5, "Last-Modified": "Tue"}, "size 5, time Tue"),
        ({"size": 5}, "size 5, time unknown"),
    ],
)
def test_an_etag_is_the_version(info: dict[str, object], version: str) -> None:
    assert recordings._version(info) == version


def test_a_recording_that_changed_since_the_plan_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(b"one")
    version = version_of(str(path))
    path.write_bytes(b"other")
    with (
        pytest.raises(AudioError, match="has changed since the plan was made"),
        open_recording(str(path), version, read_range=READ_RANGE),
    ):
        pass


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_a_recording_that_changes_while_it_is_read_is_refused(
    kind: str, tmp_path: Path, bucket: str
) -> None:
    uri = f"{tmp_path if kind == 'local' else bucket}/a.wav"
    with fsspec.open(uri, "wb") as file:
        file.write(b"one")
    version = version_of(uri)
    with (
        pytest.raises(AudioError, match="has changed since the plan was made"),
        open_recording(uri, version, read_range=READ_RANGE),
        fsspec.open(uri, "wb") as file,
    ):
        file.write(b"other")
    with pytest.raises(KeyError), open_recording(uri, version_of(uri), read_range=READ_RANGE):
        raise KeyError(fsspec.open(uri, "wb").open().close())  # the error of the reader counts


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_recordings_that_cannot_be_opened(kind: str, tmp_path: Path, bucket: str) -> None:
    base = str(tmp_path) if kind == "local" else bucket
    system, folder = fsspec.core.url_to_fs(base)
    system.pipe_file(f"{folder}/empty.wav", b"")
    system.pipe_file(f"{folder}/text.wav", b"no media")
    for name, message in (
        ("nowhere.wav", "there is no such file"),
        ("empty.wav", "is empty"),
        ("", "is a directory"),
        ("text.wav", "is not media"),
    ):
        with pytest.raises(AudioError, match=message) as raised:
            probe_duration(f"{base}/{name}".rstrip("/"), 0)
        assert not isinstance(raised.value, StoreError)


def test_a_store_that_fails_may_work_again_later(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = stored(bucket, "a.wav", encode([noise(30)], "wav", "pcm_s16le", rate=16000))

    class BrokenFile:
        def seek(self, offset: int) -> None:
            pass

        def read(self, size: int) -> bytes:
            raise TimeoutError("the store does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "open", lambda *_, **__: BrokenFile())
        with pytest.raises(StoreError, match="cannot be read now: the store does not answer"):
            probe_duration(uri, 0)
    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "info", lambda *_, **__: BrokenFile().read(1))
        with pytest.raises(StoreError, match="cannot be read now"):
            version_of(uri)
    assert probe_duration(uri, 0) == 30.0
