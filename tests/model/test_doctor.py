"""`whisperbatch doctor` on this machine, and on installations that are really broken."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whisperbatch
from tests.model.command_line import command
from whisperbatch.models import find_model
from whisperbatch.models.model_bin import read_arrays, variables

Findings = list[dict[str, Any]]

OPENVINO = """
import os, sys, time
class Core:
    def __init__(self):
        {code}
class Tensor:
    def __init__(self, array):
        self.data = array
def __getattr__(name):
    return Core
"""
"""A package openvino whose engine does not work."""


def doctor(
    *arguments: str,
    path: Path | None = None,
    environment: Mapping[str, str] | None = None,
    status: int,
) -> Findings:
    """Run the command; `path` is a folder with modules that hide the installed modules."""
    variables = {**os.environ, **(environment or {})}
    if path is not None:
        variables["PYTHONPATH"] = os.pathsep.join((str(path), os.environ.get("PYTHONPATH", "")))
    process = subprocess.run(
        command("doctor", "--json", *arguments),
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.stderr == ""
    assert process.returncode == status, process.stdout
    report = json.loads(process.stdout)
    assert report["ok"] is (status == 0)
    findings: Findings = report["findings"]
    assert all(finding["fix"] for finding in findings if finding["level"] != "ok")
    return findings


def problems(findings: Findings, level: str = "problem") -> list[str]:
    return [f"{f['subject']}: {f['message']}" for f in findings if f["level"] == level]


@pytest.fixture
def weights(tiny_model: str, tmp_path: Path) -> Path:
    """A copy of tiny.en, to be damaged."""
    return Path(shutil.copytree(find_model(tiny_model), tmp_path / "weights"))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    return folder


def install(site: Path, name: str, version: str, code: str = "") -> Path:
    """Write a package and its metadata."""
    (site / name).mkdir()
    (site / name / "__init__.py").write_text(code)
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (folder / "METADATA").write_text(metadata)
    return site


@pytest.mark.slow
def test_a_good_machine_has_no_problem(tiny_model: str) -> None:
    findings = doctor("--model", tiny_model, "--device", "cpu", status=0)
    engines = [f for f in findings if f["subject"] == "engines" and f["level"] != "warning"]
    assert {"openvino", "ctranslate2"} <= {f["message"].split()[0] for f in engines}
    assert all("correct text" in f["message"] for f in engines)
    assert all(f["measured"]["times_real_time"] > 0 for f in engines)
    subjects = {f["subject"] for f in findings}
    assert subjects >= {"packages", "machine", "storage", "audio", "speech detection", "weights"}


def test_weights_that_are_cut_short(weights: Path) -> None:
    with (weights / "model.bin").open("r+b") as file:
        file.truncate(30_000_000)
    findings = doctor("--model", str(weights), "--device", "cpu", status=1)
    (problem,) = problems(findings)
    assert problem.startswith(f"weights: {weights / 'model.bin'}")


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["noise", "zeros"])
def test_weights_with_wrong_values(weights: Path, damage: str) -> None:
    """An engine that returns other text, or none: nothing but the text shows the damage."""
    path = weights / "model.bin"
    with path.open("rb") as file:
        headers = [h for h in variables(file, path) if h.name.startswith("encoder/layer")]
    noise = np.random.default_rng(0)
    with path.open("r+b") as file:
        for header in headers:
            values = np.zeros(header.size // 2, np.float16)
            if damage == "noise":
                values = noise.normal(0, 0.05, len(values)).astype(np.float16)
            file.seek(header.offset)
            file.write(values.tobytes())
    assert read_arrays(path, "encoder/layer")
    findings = doctor("--model", str(weights), "--device", "cpu", status=1)
    assert len(problems(findings)) >= 2
    for problem in problems(findings):
        assert problem.startswith("engines: ")
        assert "the text is" in problem
    fixes = [f["fix"] for f in findings if f["level"] == "problem"]
    assert all("--model tiny.en" in fix for fix in fixes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("print('Cannot load libcudnn', file=sys.stderr); os.abort()", "SIGABRT: Cannot load"),
        ("os.kill(os.getpid(), 11)", "SIGSEGV"),
        ("raise MemoryError('none')", "MemoryError"),
    ],
)
def test_an_engine_that_crashes(site: Path, tiny_model: str, code: str, message: str) -> None:
    install(site, "openvino", "2026.9.0", OPENVINO.format(code=code))
    findings = doctor("--model", tiny_model, "--device", "cpu", path=site, status=1)
    crashed = [p for p in problems(findings) if p.startswith("engines: openvino on cpu: ")]
    assert len(crashed) == 1
    assert message in crashed[0]
    correct = [f["message"] for f in findings if "correct text" in f["message"]]
    assert correct, "the other engines are tried"


@pytest.mark.slow
def test_an_engine_that_hangs(site: Path, tiny_model: str) -> None:
    install(site, "openvino", "2026.9.0", OPENVINO.format(code="time.sleep(600)"))
    arguments = ("--model", tiny_model, "--device", "cpu", "--time-limit", "40")
    findings = doctor(*arguments, path=site, status=1)
    assert "engines: openvino on cpu: no result within 40 s" in problems(findings)


@pytest.mark.parametrize(
    ("module", "code", "message"),
    [
        ("ctranslate2", "raise ImportError('libctranslate2.so: cannot open')", "libctranslate2.so"),
        pytest.param(
            "av", "raise ImportError('DLL load failed')", "DLL load failed", marks=pytest.mark.slow
        ),
        pytest.param("onnxruntime", "import os; os.abort()", "SIGABRT", marks=pytest.mark.slow),
        ("numpy", "raise ImportError('numpy.core.multiarray failed')", "multiarray"),
        pytest.param("tokenizers", "raise SystemExit(7)", "status 7", marks=pytest.mark.slow),
    ],
)
def test_a_required_package_that_does_not_import(
    site: Path, module: str, code: str, message: str
) -> None:
    install(site, module, "99.0", code)
    findings = doctor(path=site, status=1)
    assert any(
        problem.startswith(f"packages: {module} does not import") and message in problem
        for problem in problems(findings)
    )


def test_without_any_package(tmp_path: Path) -> None:
    """The command needs no library, not even those of the command line."""
    (tmp_path / "whisperbatch").symlink_to(Path(whisperbatch.__file__).parent)
    process = subprocess.run(
        [sys.executable, "-S", "-m", "whisperbatch", "doctor", "--json"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert (process.returncode, process.stderr) == (1, b"")
    found = problems(json.loads(process.stdout)["findings"])
    for module in ("numpy", "ctranslate2", "av", "onnxruntime", "tokenizers", "huggingface_hub"):
        assert f"packages: {module} does not import: ModuleNotFoundError" in "\n".join(found)


@pytest.mark.slow
def test_old_packages(site: Path, tiny_model: str) -> None:
    install(site, "openvino", "2025.1.0")
    folder = site / "av-12.3.0.dist-info"  # only the version is wrong
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: av\nVersion: 12.3.0\n")
    findings = doctor("--model", tiny_model, "--device", "cpu", path=site, status=1)
    (problem,) = problems(findings)
    assert problem.startswith("packages: whisperbatch needs av")
    assert problem.endswith("but av 12.3.0 is installed")
    warnings = problems(findings, "warning")
    assert any("whisperbatch[openvino] needs openvino" in warning for warning in warnings)
    assert any("OpenVINO 2025.1.0 is older than" in warning for warning in warnings)
    assert not any("openvino on cpu" in finding["message"] for finding in findings)


@pytest.mark.slow
def test_pytorch_of_another_program(site: Path, tiny_model: str) -> None:
    """WhisperX brings PyTorch, but not safetensors in the version of the extra `torch`."""
    install(site, "torch", "2.8.0", "raise OSError('libtorch_cuda.so: cannot open')")
    findings = doctor("--model", tiny_model, "--device", "cpu", path=site, status=0)
    assert not problems(findings)
    assert not any("torch" in warning for warning in problems(findings, "warning"))
    assert any("torch (safetensors)" in message for message in problems(findings, "ok"))


def on_a_missing_gpu(model: str, **environment: str) -> Findings:
    hidden = {"CUDA_VISIBLE_DEVICES": "", **environment}
    return doctor("--model", model, "--device", "cuda", environment=hidden, status=1)


@pytest.mark.slow
def test_a_missing_gpu(tiny_model: str) -> None:
    findings = on_a_missing_gpu(tiny_model)
    assert any("no engine can run" in problem for problem in problems(findings))
    assert any(problem.startswith("gpu: ") for problem in problems(findings))


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/sys/kernel").is_dir(), reason="Linux: no file can be created in /sys"
)
def test_read_only_caches(tiny_model: str) -> None:
    caches = {"HF_HUB_CACHE": "/sys/hub", "WHISPERBATCH_CACHE": "/sys/cache"}
    findings = on_a_missing_gpu(tiny_model, **caches)
    warnings = [w for w in problems(findings, "warning") if w.startswith("storage")]
    assert len(warnings) == 2
    assert all("cannot be written" in warning for warning in warnings)
    fixes = [f["fix"] for f in findings if f["subject"] == "storage" and f["fix"]]
    assert "HF_HUB_CACHE" in fixes[0]
    assert "WHISPERBATCH_CACHE" in fixes[1]


@pytest.mark.slow
def test_a_cache_without_space_for_the_weights() -> None:
    """base is joined from two packages in the cache; here this is impossible."""
    if not Path("/sys/kernel").is_dir():
        pytest.skip("Linux: no file can be created in /sys")
    findings = on_a_missing_gpu("base", WHISPERBATCH_CACHE="/sys/cache")
    weights = [problem for problem in problems(findings) if problem.startswith("weights")]
    assert "cannot be written" in weights[0]
