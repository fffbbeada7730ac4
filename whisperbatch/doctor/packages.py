"""Checks of the installed packages: versions, conflicts, imports, and interfaces."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from whisperbatch.dependencies import installed_version, interface_text
from whisperbatch.doctor.extras import (
    EXTRAS,
    MODULES_OF,
    NECESSARY,
    blocking_package,
    is_complete,
    requirements,
    version_of,
)
from whisperbatch.doctor.findings import Finding, Level
from whisperbatch.doctor.processes import run_probe
from whisperbatch.doctor.remedies import remedy_for

if TYPE_CHECKING:
    from packaging.requirements import Requirement

PACKAGE: Final = "whisperbatch"
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
        needs, incomplete = _needs(declared or [])
    except ImportError as error:
        yield Finding("problem", "packages", str(error), "pip install packaging")
        return
    findings: dict[str, Finding] = {}  # the first finding of each package
    for need in needs:
        if (finding := need.finding(needs)) is not None:
            findings.setdefault(need.requirement.name, finding)
    yield from findings.values()
    if not findings:
        count = len({need.requirement.name for need in needs})
        yield Finding("ok", "packages", f"{count} required packages have supported versions")
    if incomplete:
        listed = ", ".join(
            f"{extra} ({' and '.join(names)})" for extra, names in incomplete.items()
        )
        yield Finding(
            "ok",
            "packages",
            f"extras that are not installed, with the packages that they lack: {listed}; "
            "pip install 'whisperbatch[NAME]' installs one",
        )


@dataclass(frozen=True, slots=True)
class _Need:
    """A requirement.

    Attributes:
        requirement: name and bounds of the required package.
        user: the package that requires it.
        level: of the finding if the requirement is not met.
        extra: the extra of whisperbatch; "" if there is none.
    """

    requirement: "Requirement"
    user: str
    level: Level
    extra: str = ""

    def finding(self, needs: "Sequence[_Need]") -> Finding | None:
        """Return a finding about the installed version; None if it meets the requirement.

        Args:
            needs: all requirements; the version to install must meet those of the same package.
        """
        need = self.requirement
        installed = version_of(need.name)
        if installed is None:
            state = "is not installed"
        elif not need.specifier.contains(installed, prereleases=True):
            state = f"{installed} is installed"
        else:
            return None
        message = f"{self.user} needs {need.name}{need.specifier}, but {need.name} {state}"
        if self.extra and (other := blocking_package(need)):
            if self.extra not in NECESSARY:
                return Finding("ok", "packages", f"{message} for {other}; this extra is not used")
            fix = f"install whisperbatch in an environment of its own, as {other} is in this one"
            return Finding(self.level, "packages", message, fix)
        same = [
            other.requirement.specifier for other in needs if other.requirement.name == need.name
        ]
        bounds = ",".join(dict.fromkeys(str(specifier) for specifier in same if specifier))
        return Finding(self.level, "packages", message, f'pip install "{need.name}{bounds}"')


def _needs(declared: list[str]) -> tuple[list[_Need], dict[str, list[str]]]:
    """Return the requirements of whisperbatch, of its extras, and of the required packages.

    An extra counts only if all of its packages are installed.

    Args:
        declared: whisperbatch's requirements.

    Returns:
        The requirements; and for each extra that is installed in part, the missing packages.

    Raises:
        ImportError: the package `packaging` does not import.
    """
    required = requirements(declared)
    needs = [_Need(item, PACKAGE, "problem") for item in required]
    incomplete: dict[str, list[str]] = {}
    for extra in EXTRAS:
        own = [item for item in requirements(declared, extra) if item not in required]
        own = [item for item in own if item.name != PACKAGE]
        missing = [item.name for item in own if version_of(item.name) is None]
        if not missing:
            needs += [_Need(item, f"{PACKAGE}[{extra}]", "warning", extra) for item in own]
        elif len(missing) < len(own):
            incomplete[extra] = missing
    names, checked = [item.name for item in required], {PACKAGE}
    while names:
        name = names.pop(0)
        if name in checked or (installed := _version(name)) is None:
            continue
        checked.add(name)
        for item in requirements(requires(name) or []):
            needs.append(_Need(item, f"{name} {installed}", "warning"))
            names.append(item.name)
    return needs, incomplete


def _version(name: str) -> str | None:
    """Return the installed version of a package; None if it is not installed under this name."""
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
    """Import each required module, and each module of a complete extra, in another process.

    PyTorch alone may be there for another program, in the version that this program needs.

    Args:
        time_limit: seconds for the imports.
    """
    optional = [module for module in OPTIONAL_MODULES if _is_used(module)]
    modules = [*MODULES, *optional]
    failures = import_failures(modules, time_limit)
    for module, message in failures.items():
        package = {**MODULES, **OPTIONAL_MODULES}[module]
        fix = remedy_for(message) or _reinstall(package, keep=module in OPTIONAL_MODULES)
        if module == "torchaudio":
            fix = TORCH_BUILDS
        level: Level = "problem" if module in MODULES else "warning"
        yield Finding(level, "packages", f"{module} does not import: {message}", fix)
    if not failures:
        yield Finding("ok", "packages", f"{', '.join(modules)} import")


def _is_used(module: str) -> bool:
    """Return whether a module of an extra is installed, and a complete extra needs it."""
    if find_spec(module) is None:
        return False
    extras = [extra for extra, modules in MODULES_OF.items() if module in modules]
    return not installed_version(module) or any(map(is_complete, extras))


def _reinstall(package: str, *, keep: bool) -> str:
    """Return the command that installs a package again.

    Args:
        package: the package.
        keep: keep its version, which another program may need.
    """
    installed = installed_version(package)
    if keep and installed:
        return f'pip install --force-reinstall "{package}=={installed}"'
    return f"pip install --upgrade --force-reinstall {package}"


def check_interfaces(time_limit: float) -> Iterator[Finding]:
    """Compare the names that whisperbatch uses with those of the installed packages.

    A version may be within the declared bounds, and lack a function all the same.

    Args:
        time_limit: seconds.
    """
    optional = [module for module in OPTIONAL_MODULES if _is_used(module)]
    result = run_probe("compare_names", time_limit=time_limit, modules=[*MODULES, *optional])
    if result.failure:
        yield Finding(
            "warning",
            "packages",
            f"the interfaces of the packages were not compared: {result.failure}",
            "report this line and the output of doctor -v as a bug of whisperbatch",
            result.details,
        )
        return
    missing: dict[str, list[str]] = result.values["missing"]
    for module, names in missing.items():
        message, _, fix = interface_text(module).rpartition("; ")
        level: Level = "problem" if module in MODULES else "warning"
        yield Finding(level, "packages", f"{message}: it lacks {', '.join(names)}", fix)
    if not missing:
        yield Finding("ok", "packages", "the packages have the names that whisperbatch uses")


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
