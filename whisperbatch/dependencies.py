"""The packages that whisperbatch calls: the versions that were tested, and changed interfaces.

Nothing here imports another part of whisperbatch, and only `missing_names` imports the packages.
`changed_package` finds the package whose interface has changed, from the exception that a call of
it raised. PyAV 19 removed a parameter of `av.open`: each call raised "TypeError: open() got an
unexpected keyword argument". Such a message names neither the package nor the versions that work.

    exception                      the package is that of
    AttributeError                 the module, class or object that lacks the attribute
    ImportError                    the module that lacks a name or a submodule
    TypeError about an argument    the called function, which the calling frame or the text names

`missing_names` compares the names and keywords that whisperbatch uses with the installed packages.
They are read from the source files of whisperbatch itself, so no list of them becomes outdated:

    import av                        ─► av
    from av.container import X       ─► av.container.X
    av.open(file, mode="r")          ─► av.open, with the keyword mode
    openvino.Core().read_model(x)    ─► openvino.Core; what a call returns is unknown

A keyword is compared only where Python knows the signature: most functions in C have none.
"""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from types import FrameType, MappingProxyType, ModuleType
from typing import Any, Final

PACKAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "av": "av",
        "ctranslate2": "ctranslate2",
        "fastapi": "fastapi",
        "faster_whisper": "faster-whisper",
        "fsspec": "fsspec",
        "h11": "h11",
        "huggingface_hub": "huggingface-hub",
        "matplotlib": "matplotlib",
        "numpy": "numpy",
        "onnx": "onnx",
        "onnxruntime": "onnxruntime",
        "openvino": "openvino",
        "packaging": "packaging",
        "prometheus_client": "prometheus-client",
        "pydantic": "pydantic",
        "pydantic_settings": "pydantic-settings",
        "rich": "rich",
        "safetensors": "safetensors",
        "sounddevice": "sounddevice",
        "starlette": "starlette",
        "tokenizers": "tokenizers",
        "torch": "torch",
        "torchaudio": "torchaudio",
        "tqdm": "tqdm",
        "typer": "typer",
        "typing_extensions": "typing-extensions",
        "uvicorn": "uvicorn",
        "websockets": "websockets",
        "wyoming": "wyoming",
    }
)
"""Module -> package that contains the module."""

NEWEST: Final[Mapping[str, str]] = MappingProxyType(
    {
        "av": "19.0.2",
        "ctranslate2": "4.8.5",
        "fastapi": "0.165.0",
        "faster-whisper": "1.2.1",
        "fsspec": "2026.9.0",
        "h11": "0.16.0",
        "huggingface-hub": "2.4.0",
        "matplotlib": "3.11.2",
        "numpy": "2.5.5",
        "onnx": "1.23.2",
        "onnxruntime": "1.32.0",
        "openvino": "2026.4.1",
        "packaging": "26.4",
        "prometheus-client": "0.26.0",
        "pydantic": "2.14.4",
        "pydantic-settings": "2.16.3",
        "rich": "15.0.0",
        "sounddevice": "0.5.6",
        "starlette": "1.10.0",
        "tokenizers": "0.23.3",
        "tqdm": "4.70.1",
        "typer": "0.29.2",
        "typing-extensions": "4.16.0",
        "uvicorn": "0.54.0",
        "websockets": "17.4",
        "wyoming": "1.10.2",
    }
)
"""Package -> the newest version that `make newest` has passed with; the command says when a version
of this table is no longer the newest."""


_ARGUMENTS: Final = re.compile(
    r"keyword argument|positional argument|required argument|keyword-only argument"
    r"|incompatible (function|constructor) arguments|takes no (keyword )?arguments"
    r"|takes (exactly|at most|at least|from) |multiple values for|missing \d+ required"
)
"""The texts of Python, Cython, pybind11 and PyO3 for a call that does not fit a signature."""
_CALLED: Final = re.compile(r"(\w+)\(\)")
_CONSTRUCTORS: Final = ("__init__", "__cinit__", "__new__")
_OURS: Final = "whisperbatch"

SOURCES: Final = Path(__file__).parent


def version_bounds(package: str) -> tuple[str, str]:
    """Return the oldest and the newest tested version of a package; "" if unknown.

    The oldest version is the lower bound that whisperbatch declares, which `make oldest` tests.
    """
    try:
        declared = requires("whisperbatch") or []
    except PackageNotFoundError:  # a clone that was not installed
        declared = []
    pattern = re.compile(rf"{re.escape(package)}\s*>=\s*([\w.]+)")
    oldest = next((match[1] for line in declared if (match := pattern.match(line))), "")
    return oldest, NEWEST.get(package, "")


def installed_version(package: str) -> str:
    """Return the installed version of a package; "" if unknown, as for another build's name."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def interface_note(error: BaseException) -> str:
    """Return which package has another interface than expected, and how to fix that; "" if none.

    The note is for the end of a message of one line: it begins with a semicolon.
    """
    package = changed_package(error)
    return "" if package is None else f"; {interface_text(package)}"


def interface_text(package: str) -> str:
    """Return that a package has another interface than expected; a semicolon; the fix."""
    package = PACKAGES.get(package, package)
    installed = installed_version(package)
    oldest, newest = version_bounds(package)
    limits = ((">=", oldest), ("<=", newest))
    bounds = ",".join(f"{sign}{number}" for sign, number in limits if number)
    tested = " to ".join(dict.fromkeys(number for number in (oldest, newest) if number))
    known = f" (tested: {tested})" if tested else ""
    # a tested version that lacks a name is damaged, or files of another version are beside it
    return (
        f"{package}{installed and ' '}{installed} has another interface than expected{known}; "
        f"pip install --force-reinstall '{package}{bounds}'"
    )


def import_failure(error: ImportError, remedy: str) -> str:
    """Return why a package of an extra does not import, and what to install."""
    if note := interface_note(error):
        return f"{error}{note}"
    return f"{error.name} is not installed: {remedy}"


def changed_package(error: BaseException) -> str | None:
    """Return the package whose interface an exception shows to be another; None if none."""
    try:
        if isinstance(error, AttributeError):
            root = _root(error.obj) if _calling_frames(error)[:1] == _frames(error)[:1] else ""
        elif isinstance(error, ImportError):
            root = _incomplete_module(error)
        elif isinstance(error, TypeError) and _ARGUMENTS.search(str(error)):
            root = _called_module(error)
        else:
            return None
    except Exception:  # noqa: BLE001 - objects of other packages may raise anything when looked at
        return None
    return PACKAGES.get(root)


def _incomplete_module(error: ImportError) -> str:
    """Return the top module of a missing name or submodule; "" if the package itself is missing."""
    name = error.name or ""
    incomplete = "." in name if isinstance(error, ModuleNotFoundError) else True
    if isinstance(error, ModuleNotFoundError) or "cannot import name" in str(error):
        return name.partition(".")[0] if incomplete else ""
    return ""


def _called_module(error: TypeError) -> str:
    """Return the top module of the function that a call did not fit."""
    text = str(error)
    for module in PACKAGES:  # pybind11 lists the signatures with the names of their classes
        if re.search(rf"\b{module}\.\w", text):
            return module
    frames = _calling_frames(error)
    names = _CALLED.findall(text)
    if not frames or not names:
        return ""
    for frame in frames:
        if names[0] not in frame.f_code.co_names and names[0] not in _CONSTRUCTORS:
            continue
        for value in _values(frame):
            if _is_called(value, names[0]):
                return _root(value)
    # the called function is not visible: a package that calls itself or another package
    return _module(frames[0])


def _calling_frames(error: BaseException) -> list[FrameType]:
    """Return the frames of an exception from the innermost to the first of whisperbatch.

    Functions in C have no frame. Those of Cython have one without the globals of their module. The
    frames of other code do not count: a caller's diarizer may call a package in a wrong way.
    """
    frames = _frames(error)
    ours = [number for number, frame in enumerate(frames) if _module(frame) == _OURS]
    frames = frames[: ours[0] + 1] if ours else frames[:1]
    return [frame for frame in frames if _module(frame) in {*PACKAGES, _OURS}]


def _frames(error: BaseException) -> list[FrameType]:
    """Return the frames of Python code of an exception, the innermost first."""
    frames: list[FrameType] = []
    trace = error.__traceback__
    while trace is not None:
        if "__name__" in trace.tb_frame.f_globals:
            frames.insert(0, trace.tb_frame)
        trace = trace.tb_next
    return frames


def _module(frame: FrameType) -> str:
    return str(frame.f_globals["__name__"]).partition(".")[0]


def _values(frame: FrameType) -> Iterator[Any]:
    """Yield the objects that the code of a frame names: variables, and attributes of variables."""
    code = frame.f_code
    for name in (*code.co_varnames, *code.co_names, *code.co_freevars, *code.co_cellvars):
        for variables in (frame.f_locals, frame.f_globals):
            if name not in variables:
                continue
            value = variables[name]
            yield value
            yield from _attributes(value, code.co_names)
            break


def _attributes(value: Any, names: tuple[str, ...]) -> Iterator[Any]:  # noqa: ANN401 - any object
    """Yield the named attributes that a module or object stores; properties are not computed."""
    if _root(value) not in {*PACKAGES, _OURS}:
        return
    stored = getattr(value, "__dict__", {})
    slots = {slot for kind in type(value).__mro__ for slot in getattr(kind, "__slots__", ())}
    for name in names:
        if name in stored or name in slots:
            yield getattr(value, name, None)


def _is_called(value: Any, name: str) -> bool:  # noqa: ANN401 - any object
    """Return whether the function `name` is an object, or one of its methods or functions."""
    if _root(value) not in {*PACKAGES, _OURS}:
        return False
    if name in _CONSTRUCTORS:
        return isinstance(value, type)
    if isinstance(value, ModuleType):
        return name in vars(value)
    owner = value if isinstance(value, type) else type(value)
    return getattr(value, "__name__", None) == name or hasattr(owner, name)


def _root(value: Any) -> str:  # noqa: ANN401 - any object
    """Return the name of the top module of a module, class, function or other object."""
    if isinstance(value, ModuleType):
        name: object = value.__name__
    else:
        name = getattr(value, "__module__", None) or type(value).__module__
    return str(name).partition(".")[0]


@dataclass(frozen=True, slots=True)
class Use:
    """A name of a package that whisperbatch uses.

    Attributes:
        name: the name with its modules, such as "av.container.InputContainer".
        keywords: keywords of the call; empty if the name is not called.
    """

    name: str
    keywords: frozenset[str] = frozenset()


def missing_names(modules: Sequence[str], sources: Path = SOURCES) -> list[str]:
    """Return the names and keywords that whisperbatch uses and that installed modules lack.

    Returns:
        Sorted texts, such as "av.open" or "av.open(metadata_errors=)".
    """
    uses = {use for path in sorted(sources.rglob("*.py")) for use in uses_of(path, modules)}
    return sorted({lack for use in uses for lack in _lacks(use)})


def uses_of(path: Path, modules: Sequence[str]) -> Iterator[Use]:
    """Yield the names of modules that a source file uses."""
    tree = ast.parse(path.read_bytes())
    names = dict(_imports(tree, modules))  # the name in the file -> the full name
    yield from map(Use, names.values())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (name := _full_name(node.func, names)):
            yield Use(name, frozenset(item.arg for item in node.keywords if item.arg))
        elif isinstance(node, ast.Attribute) and (name := _full_name(node, names)):
            yield Use(name)


def _imports(tree: ast.AST, modules: Sequence[str]) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            source = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            name = f"{source}{alias.name}"
            top = name.partition(".")[0]
            if top not in modules:
                continue
            if alias.asname or source:
                yield alias.asname or alias.name, name
            else:  # `import a.b` gives the name `a`
                yield top, top


def _full_name(node: ast.expr, names: dict[str, str]) -> str:
    """Return the full name of an expression of names and dots; "" if it is another expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in names:
        return ""
    return ".".join([names[node.id], *reversed(parts)])


def _lacks(use: Use) -> Iterator[str]:
    try:
        value = _resolve(use.name)
    except (AttributeError, ImportError):
        yield use.name
        return
    if not use.keywords:
        return
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):  # a function in C
        return
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    known = {item.name for item in parameters if item.kind is not item.POSITIONAL_ONLY}
    for keyword in use.keywords - known:
        yield f"{use.name}({keyword}=)"


def _resolve(name: str) -> Any:  # noqa: ANN401 - any object
    """Return the object of a full name; a part of the name is an attribute or a submodule.

    Raises:
        AttributeError: there is no such attribute.
        ImportError: there is no such module.
    """
    top, *parts = name.split(".")
    value: Any = import_module(top)
    path = top
    for part in parts:
        path = f"{path}.{part}"
        try:
            value = getattr(value, part)
        except AttributeError:
            if not inspect.ismodule(value):
                raise
            value = import_module(path)
    return value
