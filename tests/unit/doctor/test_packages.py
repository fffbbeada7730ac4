"""Findings about packages, from metadata and modules in a folder on `sys.path`."""

import sys
from pathlib import Path

import pytest

from whisperbatch.doctor.packages import check_conflicts, check_imports, check_versions


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose packages hide the installed packages."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path[1:]])
    return tmp_path


def install(site: Path, name: str, version: str, *requires: str, modules: str = "") -> None:
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    (folder / "METADATA").write_text("\n".join(lines) + "\n")
    (folder / "top_level.txt").write_text(modules)


def test_a_version_out_of_bounds_is_a_problem(site: Path) -> None:
    install(site, "whisperbatch", "0.1.0", "av>=14.2", "numpy>=1.26")
    install(site, "av", "12.0.0")
    (finding,) = check_versions()
    assert finding.level == "problem"
    assert finding.message == "whisperbatch needs av>=14.2, but av 12.0.0 is installed"
    assert finding.fix == 'pip install "av>=14.2"'


def test_a_missing_requirement_is_a_problem(site: Path) -> None:
    install(site, "whisperbatch", "0.1.0", "no-such-package>=1")
    (finding,) = check_versions()
    assert finding.level == "problem"
    assert "no-such-package is not installed" in finding.message


def test_packages_of_extras_count_if_they_are_installed(site: Path) -> None:
    requires = ('openvino>=2026.4; extra == "openvino"', 'no-such>=1; extra == "cli"')
    install(site, "whisperbatch", "0.1.0", *requires)
    install(site, "openvino", "2024.1.0")
    (finding,) = check_versions()
    assert finding.level == "warning"
    assert finding.message.startswith("whisperbatch[openvino] needs openvino>=2026.4")


def test_requirements_of_requirements_are_warnings(site: Path) -> None:
    install(site, "whisperbatch", "0.1.0", "av>=14.2")
    install(site, "av", "15.0", "pillow-like<2", 'no-such; extra == "x"')
    install(site, "pillow-like", "2.1", "av")  # a cycle
    (finding,) = check_versions()
    assert finding.level == "warning"
    assert finding.message == "av 15.0 needs pillow-like<2, but pillow-like 2.1 is installed"


def test_requirements_of_other_systems_do_not_count(site: Path) -> None:
    install(site, "whisperbatch", "0.1.0", 'no-such; sys_platform == "plan9"')
    (finding,) = check_versions()
    assert (finding.level, finding.subject) == ("ok", "packages")


def test_a_prerelease_meets_a_bound(site: Path) -> None:
    install(site, "whisperbatch", "0.1.0", "av>=14.2")
    install(site, "av", "15.0rc1")
    assert [finding.level for finding in check_versions()] == ["ok"]


def test_without_metadata_versions_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whisperbatch.doctor.packages.PACKAGE", "no-such-package")
    (finding,) = check_versions()
    assert (finding.level, finding.fix) == ("warning", "pip install . in the clone of whisperbatch")


def test_two_packages_with_the_same_module_overwrite_each_other(site: Path) -> None:
    install(site, "onnxruntime", "1.20", modules="onnxruntime")
    install(site, "onnxruntime-gpu", "1.18", modules="onnxruntime")
    (finding,) = check_conflicts()
    assert finding.level == "warning"
    assert "onnxruntime and onnxruntime-gpu both contain" in finding.message
    assert finding.fix.startswith("pip uninstall -y onnxruntime onnxruntime-gpu && pip install")


def test_one_package_for_each_module_is_no_finding() -> None:
    assert list(check_conflicts()) == []


@pytest.mark.parametrize(
    ("code", "message", "fix"),
    [
        (
            "raise ImportError('broken\\nby us')",
            "ImportError: broken by us",
            "--force-reinstall av",
        ),
        ("import os; os.abort()", "SIGABRT", "--force-reinstall av"),
        ("raise SystemExit(3)", "ended with status 3", "--force-reinstall av"),
        (
            "raise ImportError('numpy.core.multiarray failed to import')",
            "multiarray",
            "built for another NumPy",
        ),
        (
            "raise ImportError('libav.so: cannot enable executable stack as required')",
            "executable stack",
            "pip install --upgrade ctranslate2",
        ),
    ],
)
def test_a_required_module_that_does_not_import_is_a_problem(
    site: Path, monkeypatch: pytest.MonkeyPatch, code: str, message: str, fix: str
) -> None:
    monkeypatch.setattr("whisperbatch.doctor.packages.MODULES", {"json": "json", "av": "av"})
    monkeypatch.setattr("whisperbatch.doctor.packages.OPTIONAL_MODULES", {})
    (site / "av.py").write_text(code)
    (finding,) = check_imports(60)
    assert finding.level == "problem"
    assert finding.message.startswith("av does not import: ")
    assert message in finding.message
    assert fix in finding.fix


def test_a_module_that_hangs_is_a_problem(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whisperbatch.doctor.packages.MODULES", {"av": "av"})
    monkeypatch.setattr("whisperbatch.doctor.packages.OPTIONAL_MODULES", {})
    (site / "av.py").write_text("import time; time.sleep(60)")
    (finding,) = check_imports(1)
    assert finding.message == "av does not import: no result within 1 s"


def test_a_torchaudio_for_another_torch_is_a_warning(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whisperbatch.doctor.packages.MODULES", {})
    modules = {"torchaudio": "torchaudio"}
    monkeypatch.setattr("whisperbatch.doctor.packages.OPTIONAL_MODULES", modules)
    (site / "torchaudio.py").write_text("raise OSError('libtorch_cuda.so: cannot open')")
    (finding,) = check_imports(60)
    assert finding.level == "warning"
    assert "same build" in finding.fix
