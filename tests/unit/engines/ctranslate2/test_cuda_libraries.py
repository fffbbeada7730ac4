"""NVIDIA's libraries in pip packages, with fake packages and a fake loader."""

import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from whisperbatch.engines.ctranslate2 import cuda
from whisperbatch.engines.ctranslate2.cuda import (
    LINUX,
    WINDOWS,
    CudaLibraries,
    install_hint,
    other_cublas,
    preload_libraries,
)


class FakeLoader:
    """Stands in for `ctypes`: loads libraries of the system, and files that are not damaged."""

    RTLD_GLOBAL, RTLD_LOCAL = ctypes.RTLD_GLOBAL, ctypes.RTLD_LOCAL

    def __init__(self) -> None:
        self.system: set[str] = set()
        self.damaged: set[str] = set()
        self.loaded: list[str] = []

    def CDLL(self, name: str, mode: int, winmode: int | None = None) -> object:  # noqa: N802 - ctypes'
        # symbols of cuBLAS 12 must not be found by PyTorch for CUDA 13
        assert mode == (ctypes.RTLD_GLOBAL if "cudnn" in Path(name).name else ctypes.RTLD_LOCAL)
        is_path = os.sep in name
        assert winmode == (None if is_path else 0)
        if (is_path and name not in self.damaged) or name in self.system:
            self.loaded.append(name)
            return object()
        raise OSError(f"{name}: cannot open shared object file")


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch) -> FakeLoader:
    fake = FakeLoader()
    monkeypatch.setattr(cuda, "ctypes", fake)
    return fake


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loader: FakeLoader) -> Iterator[Path]:
    """An empty folder in place of site-packages; no installed package is found."""
    site = tmp_path / "site-packages"
    site.mkdir()
    monkeypatch.setattr(sys, "path", [str(site)])
    monkeypatch.setattr(cuda, "version", lambda _: "4.8.5")
    for package in ("nvidia", "torch", "ctranslate2"):
        monkeypatch.delitem(sys.modules, package, raising=False)
    yield site
    imported = {"nvidia", "torch"} & set(sys.modules)
    assert not imported, "packages are located without an import"


def install(site: Path, folder: str, *names: str) -> list[str]:
    """Write empty libraries into a folder of site-packages; return their paths."""
    (site / folder).mkdir(parents=True)
    for name in names:
        (site / folder / name).touch()
    return [str(site / folder / name) for name in names]


def install_old_ctranslate2(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CTranslate2 as it was before 4.6.3, with cuDNN's dispatch library."""
    monkeypatch.setattr(cuda, "version", lambda _: "4.6.2")
    install(site, "ctranslate2", "__init__.py", "cudnn64_9.dll")
    install(site, "ctranslate2.libs", "libcudnn-74a4c495.so.9.1.0")


def test_libraries_of_the_system_are_used(site: Path, loader: FakeLoader) -> None:
    install(site, "nvidia/cublas/lib", *LINUX.cublas)
    loader.system |= {*LINUX.cublas}
    assert preload_libraries(LINUX) == []
    assert loader.loaded == [*LINUX.cublas]


@pytest.mark.parametrize("folder", ["nvidia/cublas/lib", "nvidia/cu12/lib", "torch/lib"])
def test_libraries_of_packages_are_loaded_by_their_paths(
    site: Path, loader: FakeLoader, folder: str
) -> None:
    if folder == "torch/lib":
        install(site, "torch", "__init__.py")
        (site / "torch" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    paths = install(site, folder, *LINUX.cublas)
    assert preload_libraries(LINUX) == []
    assert loader.loaded == paths


def test_cublas_of_cuda_13_does_not_serve(site: Path, loader: FakeLoader) -> None:
    assert other_cublas(LINUX) is None
    install(site, "nvidia/cu13/lib", "libcublasLt.so.13", "libcublas.so.13")
    assert preload_libraries(LINUX) == [*LINUX.cublas]
    assert loader.loaded == []
    assert str(other_cublas(LINUX)) == str(site / "nvidia/cu13/lib/libcublas.so.13")


def test_cublas_of_cuda_13_is_named_beside_the_package_that_is_missing(
    site: Path, loader: FakeLoader, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site, "nvidia/cu13/lib", "libcublasLt.so.13", "libcublas.so.13")

    def fail(*_: object) -> None:
        raise RuntimeError("Library libcublas.so.12 is not found or cannot be loaded")

    monkeypatch.setattr(cuda, "LIBRARIES", LINUX)
    monkeypatch.setattr(cuda, "encode_silence", fail)
    monkeypatch.setattr(cuda, "preload_libraries", lambda: preload_libraries(LINUX))
    monkeypatch.setattr(cuda, "_problems", {})
    problem = cuda.cuda_problem(0)
    assert problem is not None
    assert "pip install nvidia-cublas-cu12 (libcublas.so.13 of another CUDA version" in problem


def test_a_damaged_file_is_skipped(
    site: Path, loader: FakeLoader, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "whisperbatch")
    damaged = install(site, "nvidia/cublas/lib", *LINUX.cublas)
    install(site, "torch", "__init__.py")
    paths = install(site, "torch/lib", LINUX.cublas[0])
    loader.damaged |= {*damaged}
    assert preload_libraries(LINUX) == [LINUX.cublas[1]]
    assert loader.loaded == paths
    assert f"{damaged[0]} does not load" in caplog.text


def test_missing_libraries_are_returned(site: Path, loader: FakeLoader) -> None:
    assert preload_libraries(LINUX) == ["libcublasLt.so.12", "libcublas.so.12"]


def test_cudnn_is_loaded_for_an_old_ctranslate2_only(
    site: Path, loader: FakeLoader, monkeypatch: pytest.MonkeyPatch
) -> None:
    cublas = install(site, "nvidia/cublas/lib", *LINUX.cublas)
    cudnn = install(site, "nvidia/cudnn/lib", *LINUX.cudnn)
    install_old_ctranslate2(site, monkeypatch)
    assert preload_libraries(LINUX) == []
    assert loader.loaded == [*cublas, *cudnn]
    loader.loaded.clear()
    monkeypatch.setattr(cuda, "version", lambda _: "4.6.3")
    assert preload_libraries(LINUX) == []
    assert loader.loaded == cublas


def test_missing_parts_of_cudnn_are_returned(
    site: Path, loader: FakeLoader, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site, "nvidia/cublas/lib", *LINUX.cublas)
    install(site, "nvidia/cudnn/lib", *LINUX.cudnn[:-1])
    install_old_ctranslate2(site, monkeypatch)
    assert preload_libraries(LINUX) == ["libcudnn_cnn.so.9"]


def test_a_ctranslate2_without_a_copy_of_cudnn_finds_it_without_help(
    site: Path, loader: FakeLoader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "version", lambda _: "4.5.0")  # a build of conda-forge
    install(site, "ctranslate2", "__init__.py")
    loader.system |= {*LINUX.cublas}
    assert preload_libraries(LINUX) == []


def test_windows(site: Path, loader: FakeLoader, monkeypatch: pytest.MonkeyPatch) -> None:
    folders: list[str] = []
    monkeypatch.setattr(os, "add_dll_directory", folders.append, raising=False)
    install_old_ctranslate2(site, monkeypatch)
    cublas = install(site, "nvidia/cublas/bin", *WINDOWS.cublas)
    cudnn = install(site, "nvidia/cudnn/bin", *WINDOWS.cudnn)
    assert preload_libraries(WINDOWS) == []
    assert loader.loaded == [*cublas, *cudnn]
    assert set(folders) == {str(site / f"nvidia/{name}/bin") for name in ("cublas", "cudnn")}


def test_a_module_without_specification_is_no_package(
    site: Path, loader: FakeLoader, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = type(sys)("nvidia")
    module.__spec__ = None
    monkeypatch.setitem(sys.modules, "nvidia", module)
    assert preload_libraries(LINUX) == [*LINUX.cublas]
    monkeypatch.delitem(sys.modules, "nvidia")


@pytest.mark.parametrize("libraries", [LINUX, WINDOWS])
def test_each_library_has_an_installation_hint(libraries: CudaLibraries) -> None:
    for name in libraries.cublas:
        assert install_hint(name) == "pip install nvidia-cublas-cu12"
    for name in libraries.cudnn:
        assert "nvidia-cudnn-cu12" in install_hint(name)
        assert '"ctranslate2>=4.6.3"' in install_hint(name)
