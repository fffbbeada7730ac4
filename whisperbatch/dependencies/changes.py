"""Finds the package whose interface has changed, from the exception that a call of it raised.

PyAV 19 removed a parameter of `av.open`: each call raised "TypeError: open() got an unexpected
keyword argument". Such a message names neither the package nor the versions that work.

    exception                      the package is that of
    AttributeError                 the module, class or object that lacks the attribute
    ImportError                    the module that lacks a name or a submodule
    TypeError about an argument    the called function, which the calling frame or the text names
"""

import re
from collections.abc import Iterator
from types import FrameType, ModuleType
from typing import Any, Final

from whisperbatch.dependencies.tested import PACKAGES, installed_version, version_bounds

_ARGUMENTS: Final = re.compile(
    r"keyword argument|positional argument|required argument|keyword-only argument"
    r"|incompatible (function|constructor) arguments|takes no (keyword )?arguments"
    r"|takes (exactly|at most|at least|from) |multiple values for|missing \d+ required"
)
"""The texts of Python, Cython, pybind11 and PyO3 for a call that does not fit a signature."""
_CALLED: Final = re.compile(r"(\w+)\(\)")
_CONSTRUCTORS: Final = ("__init__", "__cinit__", "__new__")
_OURS: Final = "whisperbatch"


def interface_note(error: BaseException) -> str:
    """Return which package has another interface than expected, and how to fix that; "" if none.

    The note is for the end of a message of one line: it begins with a semicolon.

    Args:
        error: the exception that a call of a package raised.
    """
    package = changed_package(error)
    return "" if package is None else f"; {interface_text(package)}"


def interface_text(package: str) -> str:
    """Return that a package has another interface than expected; a semicolon; the fix.

    Args:
        package: its name on the package index, or the name of its module.
    """
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
    """Return why a package of an extra does not import, and what to install.

    Args:
        error: the exception of the import.
        remedy: the command that installs the extra, if the package is missing.
    """
    if note := interface_note(error):
        return f"{error}{note}"
    return f"{error.name} is not installed: {remedy}"


def changed_package(error: BaseException) -> str | None:
    """Return the package whose interface an exception shows to be another; None if there is none.

    Args:
        error: the exception that a call of a package raised.
    """
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
    """Return the name of the top module of the code of a frame."""
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
