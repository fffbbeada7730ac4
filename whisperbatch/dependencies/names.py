"""Compares the names and keywords that whisperbatch uses with those of the installed packages.

The names are read from the source files of whisperbatch itself, so that no list of them can become
outdated:

    import av                        ─► av
    from av.container import X       ─► av.container.X
    av.open(file, mode="r")          ─► av.open, with the keyword mode
    openvino.Core().read_model(x)    ─► openvino.Core; what a call returns is unknown

A keyword is compared only where Python knows the signature: most functions in C have none.
"""

import ast
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

SOURCES: Final = Path(__file__).parents[1]


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

    Args:
        modules: top modules; they are imported.
        sources: the folder of the source files to read.

    Returns:
        Sorted texts, such as "av.open" or "av.open(metadata_errors=)".
    """
    uses = {use for path in sorted(sources.rglob("*.py")) for use in uses_of(path, modules)}
    return sorted({lack for use in uses for lack in _lacks(use)})


def uses_of(path: Path, modules: Sequence[str]) -> Iterator[Use]:
    """Yield the names of modules that a source file uses.

    Args:
        path: the source file.
        modules: top modules.
    """
    tree = ast.parse(path.read_bytes())
    names = dict(_imports(tree, modules))  # the name in the file -> the full name
    yield from map(Use, names.values())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (name := _full_name(node.func, names)):
            yield Use(name, frozenset(item.arg for item in node.keywords if item.arg))
        elif isinstance(node, ast.Attribute) and (name := _full_name(node, names)):
            yield Use(name)


def _imports(tree: ast.AST, modules: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each imported name of the modules: the name in the file, and the full name."""
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
    """Yield the name, or the keywords, that the installed package lacks."""
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
