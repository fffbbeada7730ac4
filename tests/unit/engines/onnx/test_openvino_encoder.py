import logging
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest

from tests.unit.test_imports import imports, modules
from whisperbatch.engines.memory import return_freed_memory
from whisperbatch.engines.onnx.openvino_encoder import GraphCompiler, graph_sources
from whisperbatch.runtimes import openvino_cache
from whisperbatch.runtimes.openvino_cache import MAX_UNUSED_SECONDS

CORE = openvino.Core()


class DoubleBuilder:
    """Builds a graph that doubles its input, and counts how often."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        ops = openvino.opset13
        parameter = ops.parameter([2], np.float32)
        doubled = ops.multiply(parameter, np.float32(2))
        return openvino.Model([ops.result(doubled)], [parameter], "double")


def compiler(folder: Path | None, **changes: Any) -> GraphCompiler:
    settings: dict[str, Any] = {"origin": "weights", "workers": 1, "threads": 1} | changes
    return GraphCompiler(core=CORE, folder=folder, **settings)


def run(compiled: Any) -> list[float]:
    request = compiled.create_infer_request()
    outputs: list[float] = request.infer({0: np.array([1, 3], np.float32)})[0].tolist()
    return outputs


def test_a_graph_is_built_once(tmp_path: Path) -> None:
    build = DoubleBuilder()
    for _ in range(3):
        assert run(compiler(tmp_path / "cache")("double", build, "f32")) == [2, 6]
    assert build.calls == 1
    assert len(list((tmp_path / "cache").iterdir())) == 1


@pytest.mark.parametrize(
    ("changes", "name", "precision"),
    [
        ({"origin": "other weights"}, "double", "f32"),
        ({"threads": 2}, "double", "f32"),
        ({}, "other", "f32"),
        ({}, "double", "bf16"),
    ],
)
def test_another_origin_name_or_setting_is_another_graph(
    tmp_path: Path, changes: dict[str, Any], name: str, precision: str
) -> None:
    build = DoubleBuilder()
    compiler(tmp_path)("double", build, "f32")
    compiler(tmp_path, **changes)(name, build, precision)
    assert build.calls == 2


def test_the_cache_depends_on_all_sources_of_graphs() -> None:
    imported = {"engines.onnx.openvino_graphs"}
    files = {name: path for name, path in modules() if name.startswith("engines.")}
    while new := {
        module
        for name in imported
        for module, _ in imports(files[name])
        if module in files and module not in imported
    }:
        imported |= new
    assert "engines.arrays" in imported
    assert {files[name] for name in imported} <= set(graph_sources())


def test_a_graph_computes_with_a_mapped_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 256
    matrix = np.random.default_rng(0).normal(0, 1, (size, size)).astype(np.float32)
    rows = np.random.default_rng(1).normal(0, 1, (2, size)).astype(np.float32)

    def build() -> Any:
        ops = openvino.opset13
        parameter = ops.parameter([-1, size], np.float32)
        product = ops.matmul(parameter, ops.constant(matrix), False, False)  # noqa: FBT003 - OpenVINO's
        return openvino.Model([ops.result(product)], [parameter], "product")

    mapped_files: dict[object, Any] = {}
    monkeypatch.setattr(openvino_cache, "_MAPPED", mapped_files)
    requests = [
        compiler(tmp_path)("product", build, "f32").create_infer_request() for _ in range(3)
    ]
    assert [mapped.path for mapped in mapped_files.values()] == list(tmp_path.iterdir())
    for request in requests:
        for count in (1, 2):
            found = request.infer({0: rows[:count]})[0]
            np.testing.assert_allclose(found, rows[:count] @ matrix, atol=1e-3)
            return_freed_memory()


def test_a_file_in_use_is_marked_as_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So other processes do not delete it."""
    monkeypatch.setattr(openvino_cache, "_MAPPED", {})
    compiler(tmp_path)("double", DoubleBuilder(), "f32")
    [path] = tmp_path.iterdir()
    used = path.stat().st_mtime
    os.utime(path, (used - 5, used - 5))
    return_freed_memory()
    assert path.stat().st_mtime == pytest.approx(used - 5, abs=0.01)
    monkeypatch.setattr(openvino_cache, "TOUCH_SECONDS", -1)
    return_freed_memory()
    assert path.stat().st_mtime >= used - 1


def test_a_file_that_openvino_cannot_read_is_replaced(tmp_path: Path) -> None:
    build = DoubleBuilder()
    compiler(tmp_path)("double", build, "f32")
    [path] = tmp_path.iterdir()
    garbage = bytes(1000)
    path.unlink()
    path.write_bytes(garbage + openvino_cache._checksum(garbage))
    for _ in range(2):
        assert run(compiler(tmp_path)("double", build, "f32")) == [2, 6]
    assert build.calls == 2


def test_a_damaged_file_is_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    build = DoubleBuilder()
    compiler(tmp_path)("double", build, "f32")
    [path] = tmp_path.iterdir()
    content = path.read_bytes()
    for damaged in (content[:-1], content[:-1] + bytes([content[-1] ^ 1]), b""):
        path.unlink()  # it is mapped
        path.write_bytes(damaged)
        with caplog.at_level(logging.WARNING):
            assert run(compiler(tmp_path)("double", build, "f32")) == [2, 6]
        assert "is damaged" in caplog.text
        assert abs(len(path.read_bytes()) - len(content)) < 100  # the names of nodes differ
        caplog.clear()
    assert build.calls == 4


def test_a_file_of_another_process_is_not_replaced(tmp_path: Path) -> None:
    """It may be mapped there."""

    class Slow(DoubleBuilder):
        def __call__(self) -> Any:
            compiler(tmp_path)("double", DoubleBuilder(), "f32")
            [self.file] = [each.stat() for each in tmp_path.iterdir()]
            return super().__call__()

    build = Slow()
    assert run(compiler(tmp_path)("double", build, "f32")) == [2, 6]
    [path] = tmp_path.iterdir()
    assert path.stat().st_ino == build.file.st_ino


def test_without_links_a_graph_is_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(Path, "hardlink_to", fail)
    build = DoubleBuilder()
    for _ in range(2):
        assert run(compiler(tmp_path)("double", build, "f32")) == [2, 6]
    assert build.calls == 1
    assert len(list(tmp_path.iterdir())) == 1


def test_without_a_writable_cache_a_graph_is_built_each_time(tmp_path: Path) -> None:
    not_a_folder = tmp_path / "file"
    not_a_folder.write_text("")
    build = DoubleBuilder()
    for folder in (None, not_a_folder / "cache"):
        assert run(compiler(folder)("double", build, "f32")) == [2, 6]
    assert build.calls == 2


def test_unused_graphs_and_unfinished_files_are_deleted(tmp_path: Path) -> None:
    compiler(tmp_path)("old", DoubleBuilder(), "f32")
    [old] = tmp_path.iterdir()
    unfinished = tmp_path / ".killed.blob.12345678.part"
    unfinished.write_bytes(b"")
    in_progress = tmp_path / ".writing.blob.12345678.part"
    in_progress.write_bytes(b"")
    for path in (old, unfinished):
        modified = time.time() - MAX_UNUSED_SECONDS - 60
        os.utime(path, (modified, modified))
    compiler(tmp_path)("new", DoubleBuilder(), "f32")
    assert not old.exists()
    assert not unfinished.exists()
    assert in_progress.exists()
    assert len(list(tmp_path.glob("*.blob"))) == 1
