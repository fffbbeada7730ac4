import logging
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest

from whisperbatch.engines.openvino.compiler import UNUSED, GraphCompiler

CORE = openvino.Core()


class Build:
    """A graph that doubles, and how often it was built."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> Any:
        self.times += 1
        ops = openvino.opset13
        given = ops.parameter([2], np.float32)
        return openvino.Model([ops.result(ops.multiply(given, np.float32(2)))], [given], "double")


def compiler(folder: Path | None, **changes: Any) -> GraphCompiler:
    settings: dict[str, Any] = {"origin": "weights", "workers": 1, "threads": 1} | changes
    return GraphCompiler(core=CORE, folder=folder, **settings)


def doubled(made: Any) -> list[float]:
    found: list[float] = (
        made.create_infer_request().infer({0: np.array([1, 3], np.float32)})[0].tolist()
    )
    return found


def test_a_graph_is_built_once(tmp_path: Path) -> None:
    build = Build()
    for _ in range(3):
        assert doubled(compiler(tmp_path / "made")("double", build, "f32")) == [2, 6]
    assert build.times == 1
    assert len(list((tmp_path / "made").iterdir())) == 1


@pytest.mark.parametrize(
    ("changes", "name", "precision"),
    [
        ({"origin": "others"}, "double", "f32"),
        ({"threads": 2}, "double", "f32"),
        ({}, "other", "f32"),
        ({}, "double", "bf16"),
    ],
)
def test_what_is_made_of_something_else_is_another(
    tmp_path: Path, changes: dict[str, Any], name: str, precision: str
) -> None:
    build = Build()
    compiler(tmp_path)("double", build, "f32")
    compiler(tmp_path, **changes)(name, build, precision)
    assert build.times == 2


def test_a_damaged_file_is_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    build = Build()
    compiler(tmp_path)("double", build, "f32")
    [path] = tmp_path.iterdir()
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1]), b""):
        path.write_bytes(damaged)
        with caplog.at_level(logging.WARNING):
            assert doubled(compiler(tmp_path)("double", build, "f32")) == [2, 6]
        assert "is damaged" in caplog.text
        assert abs(len(path.read_bytes()) - len(whole)) < 100  # names in it differ
        caplog.clear()
    assert build.times == 4


def test_without_a_cache_it_is_built_each_time(tmp_path: Path) -> None:
    blocked = tmp_path / "a file"
    blocked.write_text("")
    build = Build()
    for folder in (None, blocked / "made"):
        assert doubled(compiler(folder)("double", build, "f32")) == [2, 6]
    assert build.times == 2


def test_what_is_not_used_for_long_goes(tmp_path: Path) -> None:
    compiler(tmp_path)("old", Build(), "f32")
    [old] = tmp_path.iterdir()
    left = tmp_path / ".killed.blob.12345678.part"
    left.write_bytes(b"")
    going = tmp_path / ".going.blob.12345678.part"
    going.write_bytes(b"")
    for path in (old, left):
        before = time.time() - UNUSED - 60
        os.utime(path, (before, before))
    compiler(tmp_path)("new", Build(), "f32")
    assert not old.exists()
    assert not left.exists()
    assert going.exists()
    assert len(list(tmp_path.glob("*.blob"))) == 1
