"""Several processes that assemble the same model, and processes that are killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.models.model_files import BIG, assert_complete, make_packages, write_model
from whisperbatch import files
from whisperbatch.models import packages
from whisperbatch.models.packages import PackagedModel
from whisperbatch.models.registry import find_model

ROOT = Path(__file__).parents[3]


CHILD = """
import os, sys, time
from pathlib import Path
sys.path[:0] = [{root!r}, {site!r}]
from whisperbatch import files
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
    site: Path, cache: Path, packaged: PackagedModel, before: str = ""
) -> "subprocess.Popen[str]":
    """Start a process that waits for a line of input and then calls `find_model`."""
    code = CHILD.format(
        root=str(ROOT),
        site=str(site),
        block=4096,  # bytes: small, so that the processes interleave
        packaged=packaged,
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
@pytest.mark.parametrize("attempt", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_processes_that_assemble_at_the_same_time(tmp_path: Path, state: str, attempt: int) -> None:
    packaged = make_packages(tmp_path / "site")
    cache = tmp_path / "cache"
    directory = cache / f"base-{packaged.digests['model.bin'][:16]}"
    if state == "damaged":
        write_model(directory, model_bin=BIG[:-100], config_json=b"{")
    processes = [child(tmp_path / "site", cache, packaged) for _ in range(3)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out.strip()) == (0, str(directory)), err
    assert_complete(directory)
    assert list(cache.iterdir()) == [directory]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("moment", ["writing", "before the rename", "between files"])
def test_process_killed_while_assembling(
    tmp_path: Path, moment: str, site: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = {
        "writing": "packages.hashlib = type('Slow', (), {'sha256': lambda: Slow(100)})",
        "before the rename": "packages.os.fsync = lambda _: hang()",
        "between files": "files.delete_old = lambda path, *_: hang() if "
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
{patch}
"""
    process = child(site, cache, packages.PACKAGES["base"], before)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    assert [process.stdout.readline() for _ in range(2)] == ["ready\n", "hanging\n"]
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    names = {path.name for path in cache.rglob("*") if path.is_file()}
    assert ("model.bin" in names) == (moment == "between files")
    assert any(name.endswith(".part") for name in names) == (moment != "between files")

    monkeypatch.setattr(files, "MAX_WRITE_AGE", -1)  # as if an hour had passed
    assert_complete(find_model("base"))
