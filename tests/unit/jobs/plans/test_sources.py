import gzip
import json
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

import fsspec
import pytest

from tests.unit.fakes import write_noise
from whisperbatch.errors import MissingExtraError, OptionError
from whisperbatch.jobs.plans.sources import (
    ManifestRow,
    find_recordings,
    output_names,
    read_manifest,
)


def write(path: Path, data: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def names(*sources: object) -> dict[str, str]:
    """Return the path of each transcript, by URI."""
    found = find_recordings(map(str, sources))
    return dict(zip((r.uri for r in found), output_names(found), strict=True))


def test_a_folder_has_its_recordings_and_their_subfolders(tmp_path: Path) -> None:
    for name in ("a.mp3", "monday/b.wav", "monday/b.mp3", "notes.txt", ".hidden.mp3"):
        write(tmp_path / name)
    assert names(tmp_path) == {
        str(tmp_path / "a.mp3"): "a",
        str(tmp_path / "monday/b.mp3"): "monday/b.mp3",
        str(tmp_path / "monday/b.wav"): "monday/b.wav",
    }


def test_a_relative_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.mp3")
    monkeypatch.chdir(tmp_path)
    assert names("a.mp3", str(tmp_path / "a.mp3")) == {str(tmp_path / "a.mp3"): "a"}


def test_equal_names_of_different_folders_get_a_hash(tmp_path: Path) -> None:
    first, second = (write(tmp_path / folder / "a.mp3") for folder in "xy")
    found = names(first, second)
    assert all(name.startswith("a.mp3~") for name in found.values())
    assert len(set(found.values())) == 2
    assert names(first, second) == found  # the names stay the same


def test_keys_of_a_store_are_no_web_addresses() -> None:
    bucket = f"memory:///{secrets.token_hex()}"
    system = fsspec.filesystem("memory")
    for name in ("über #1 100%.wav", "日本 %41?.mp3", "a::b.flac"):
        system.pipe_file(f"/{bucket.removeprefix('memory:///')}/{name}", b"x")
    assert set(names(bucket).values()) == {"über #1 100%", "日本 %41?", "a::b"}


def test_folders_and_patterns_of_a_store() -> None:
    bucket = f"memory:///{secrets.token_hex()}"
    system = fsspec.filesystem("memory")
    for name in ("a.mp3", "monday/b.flac", "notes.txt", ".tmp/c.mp3"):
        system.pipe_file(f"{bucket}/{name}", b"x")
    assert names(bucket) == {f"{bucket}/a.mp3": "a", f"{bucket}/monday/b.flac": "monday/b"}
    assert names(f"{bucket}/*.mp3") == {f"{bucket}/a.mp3": "a"}
    assert names(f"{bucket}/monday/b.flac") == {f"{bucket}/monday/b.flac": "b"}
    assert names(f"{bucket}/a.mp3", bucket.replace(":///", "://")) == names(bucket)


def test_a_folder_that_cannot_be_listed_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(fsspec.filesystem("memory"), "isdir", fail)
    [found] = find_recordings(["memory://bucket/talks"])
    assert str(found.failure) == "memory://bucket/talks: cannot be listed: no route to host"


@pytest.mark.parametrize("sources", [(), ("-",), ("",)])
def test_without_recordings_there_is_no_plan(sources: tuple[str, ...]) -> None:
    with pytest.raises(OptionError):
        find_recordings(sources)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no recordings in"):
        find_recordings([str(tmp_path)])


def manifest(path: Path, *rows: object) -> str:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    data = gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode()
    path.write_bytes(data)
    return str(path)


def recording(**changes: object) -> Mapping[str, object]:
    """Return a recording as lhotse writes it."""
    return {
        "id": "a",
        "sources": [{"type": "file", "channels": [0], "source": "/data/a.wav"}],
        "sampling_rate": 16000,
        "num_samples": 160000,
        "duration": 10.0,
        **changes,
    }


def test_rows_of_a_manifest(tmp_path: Path) -> None:
    path = manifest(
        tmp_path / "m.jsonl",
        {"uri": "s3://talks/a.mp3", "duration": 61.5, "language": "english", "etag": "17ab"},
        {"audio_filepath": "b.wav", "text": "of another program"},
    )
    assert list(read_manifest(path)) == [
        ManifestRow("s3://talks/a.mp3", 61.5, "en", "17ab"),
        ManifestRow(f"{tmp_path}/b.wav"),
    ]


def test_manifests_of_lhotse(tmp_path: Path) -> None:
    recordings = manifest(tmp_path / "recordings.jsonl.gz", recording())
    cut = {"id": "a-0", "start": 0, "duration": 10.0, "channel": 0, "type": "MonoCut"}
    cuts = manifest(tmp_path / "cuts.jsonl.gz", {**cut, "recording": recording()})
    expected = [ManifestRow("/data/a.wav", 10.0)]
    assert list(read_manifest(recordings)) == list(read_manifest(cuts)) == expected


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "x"}, "row 1 names no recording"),
        ({"uri": 7}, "row 1 names no recording"),
        ([1], "row 1 is not a JSON object"),
        ({"uri": "a", "duration": "long"}, "row 1: duration must be a number"),
        ({"uri": "a", "duration": -1}, "row 1: duration=-1 is out of range"),
        ({"uri": "a", "language": "xx"}, "row 1: language='xx' is not a language"),
        (recording(sources=[]), "row 1 has 0 files"),
        (recording(sources=[{"type": "command", "source": "rm"}]), "only sources of the type"),
        ({"id": "c", "start": 5, "duration": 5, "recording": recording()}, "is a part of a rec"),
        ({"id": "c", "start": 0, "duration": 5, "recording": recording()}, "is a part of a rec"),
        ({"id": "c", "recording": "a"}, "row 1 names no recording"),
    ],
    ids=str,
)
def test_a_wrong_row_is_refused_with_its_number(tmp_path: Path, row: object, message: str) -> None:
    path = manifest(tmp_path / "m.jsonl", row)
    with pytest.raises(OptionError, match=message):
        list(read_manifest(path))


def test_a_manifest_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="the manifest cannot be read"):
        list(read_manifest(str(tmp_path / "m.jsonl")))
    (tmp_path / "m.jsonl").write_text("{")
    with pytest.raises(OptionError, match="line 1 is not JSON"):
        list(read_manifest(str(tmp_path / "m.jsonl")))


def test_parquet_needs_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match="pip install pyarrow"):
        list(read_manifest(str(tmp_path / "m.parquet")))


def test_rows_of_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"uri": "s3://talks/a.mp3", "duration": 61.5}, {"uri": "b.wav", "duration": None}]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "m.parquet")
    assert list(read_manifest(str(tmp_path / "m.parquet"))) == [
        ManifestRow("s3://talks/a.mp3", 61.5),
        ManifestRow(f"{tmp_path}/b.wav"),
    ]
    (tmp_path / "n.parquet").write_bytes(b"no parquet")
    with pytest.raises(OptionError, match="is not a parquet file"):
        list(read_manifest(str(tmp_path / "n.parquet")))


def test_a_manifest_gives_recordings(tmp_path: Path) -> None:
    write_noise(tmp_path / "a.wav")
    path = manifest(tmp_path / "m.jsonl", {"uri": "a.wav", "language": "fr"})
    [found] = find_recordings([path])
    assert found.uri == str(tmp_path / "a.wav")
    assert found.row
    assert found.row.language == "fr"
