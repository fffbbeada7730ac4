"""Write the texts that repeat the declaration of an option or of an engine's setting.

    python -m tests.declarations            write the files that are out of date
    python -m tests.declarations --check    exit with an error if a file is out of date

The declaration is a field of a class: name, type, default, and an entry under "Attributes".

    class ──┬─ options/keyword_types.py, engines/keyword_types.py    for type checkers
            ├─ docstrings of Options and load                        for help() and editors
            └─ tables in docs/reference/                             for readers
"""

import ast
import builtins
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Final

from pydantic import ByteSize

from whisperbatch.engines.settings import SETTINGS
from whisperbatch.options import DETECTION_OPTIONS, Options, documented_fields
from whisperbatch.server.settings import ServerSettings
from whisperbatch.writers import SubtitleOptions, TableOptions

ROOT: Final = Path(__file__).parents[1]
GROUPS: Final = Options.__bases__

FIRST_LINE: Final = '"""The types of keywords. Written by `make declarations`: do not edit."""\n'
LINE_LENGTH: Final = 100

TABLE: Final = re.compile(r"(<!-- Written by make declarations: (\w+) -->\n\n)(?:\|.*\n)*")
"""A table in Markdown, after the name of its class or function."""

OPTIONS_DOCSTRING: Final = r"class Options\((?:.*\n)*?    Attributes:\n"
LOAD_DOCSTRING: Final = r"def load\((?:.*\n)*?        \*\*settings: .*\n(?: {12}.*\n)*"
"""The text before the entries in a docstring."""


def entries(owner: type) -> dict[str, str]:
    """Return the entries of a class's fields: what each option or setting does."""
    documented = documented_fields(owner)
    names = [field.name for field in fields(owner)]
    if sorted(documented) != sorted(names):
        different = ", ".join(sorted(documented.keys() ^ set(names)))
        sys.exit(f'{owner.__name__}: {different} must be a field, and an entry under "Attributes"')
    return {name: documented[name] for name in names}


def setting_entries() -> dict[str, str]:
    """Return the entries of all engines' settings, each with the engines that have the setting."""
    engines: dict[str, dict[str, list[str]]] = {}
    for engine, settings in SETTINGS.items():
        for name, text in entries(settings).items():
            engines.setdefault(name, {}).setdefault(text, []).append(engine)
    return {
        name: " ".join(
            text
            if len(names) == len(SETTINGS)
            else f"{text} Only for {' and '.join(names)}."
            if len(texts) == 1
            else f"For {' and '.join(names)}: {text}"
            for text, names in texts.items()
        )
        for name, texts in engines.items()
    }


def field_types(owner: type) -> dict[str, str]:
    """Return the type of each field of a class, as written in the source."""
    source = textwrap.dedent(inspect.getsource(owner))
    declared = {
        ast.unparse(node.target): ast.get_source_segment(source, node.annotation) or ""
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.AnnAssign)
    }
    return {field.name: declared[field.name] for field in fields(owner)}


def imports(owner: type) -> Iterator[str]:
    """Yield the imports that the types of a class's fields need."""
    module = import_module(owner.__module__)
    imported = {
        alias.name: node.module
        for node in ast.parse(inspect.getsource(module)).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for annotation in field_types(owner).values():
        for node in ast.walk(ast.parse(annotation)):
            if isinstance(node, ast.Name) and not hasattr(builtins, node.id):
                yield f"from {imported.get(node.id, owner.__module__)} import {node.id}"


def typed_dict(name: str, base: str, promise: str, types: Mapping[str, str]) -> str:
    """Return the source of a TypedDict."""
    lines = [f"    {field}: {annotation}" for field, annotation in types.items()]
    return "\n".join((f"class {name}({base}, total=False):", f'    """{promise}"""', "", *lines))


def module(owners: Iterable[type], *classes: str) -> str:
    """Return the source of a module of TypedDicts with the types of these classes' fields."""
    needed = sorted({line for owner in owners for line in imports(owner)})
    source = "\n\n".join((FIRST_LINE, "from typing import TypedDict", "\n".join(needed), *classes))
    rules = ("--select=F401", "--select=I")
    for command in (*(("check", "--fix", rule) for rule in rules), ("format",)):
        source = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename=types.py", "-"],
            input=source,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        ).stdout
    return source


def option_types(_: str) -> str:
    """Return the module with the types of all options."""
    types = {name: text for group in GROUPS for name, text in field_types(group).items()}
    detection = {name: text for name, text in types.items() if name in DETECTION_OPTIONS}
    others = {name: text for name, text in types.items() if name not in DETECTION_OPTIONS}
    promise = "The options that have an effect on `detect_language`."
    return module(
        GROUPS,
        typed_dict("DetectionKeywords", "TypedDict", promise, detection),
        typed_dict("OptionKeywords", "DetectionKeywords", "All options.", others),
    )


def setting_types(_: str) -> str:
    """Return the module with the types of all engines' settings."""
    types: dict[str, str] = {}
    for settings in SETTINGS.values():
        types = field_types(settings) | types  # the first engine has the widest type
    ordered = {name: types[name] for name in setting_entries()}
    promise = "The settings of all engines."
    return module(SETTINGS.values(), typed_dict("EngineKeywords", "TypedDict", promise, ordered))


def with_entries(source: str, before: str, lines: Iterable[str]) -> str:
    """Return a source in which these lines replace the entries of a docstring.

    Args:
        source: text of the file.
        before: pattern of the text before the entries.
        lines: the entries, without indentation.
    """
    indented = [
        textwrap.fill(
            line,
            LINE_LENGTH,
            initial_indent=" " * 8,
            subsequent_indent=" " * 12,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in lines
    ]
    pattern = re.compile(rf"({before})(?:\n| {{8}}.*\n)*(?= {{4}}\S)")
    text, count = pattern.subn(lambda match: "\n".join((match[1][:-1], *indented, "\n")), source)
    if count != 1:
        sys.exit(f"the docstring is not of the form {before}")
    return text


def options_docstring(source: str) -> str:
    """Return options.py with the entries of all groups, each group below its promise."""
    lines: list[str] = []
    for group in GROUPS:
        promise = (inspect.getdoc(group) or "").splitlines()[0]
        texts = [f"{name}: {text}" for name, text in entries(group).items()]
        lines += [*([""] if lines else []), f"{promise.rstrip('.')}:", "", *texts]
    return with_entries(source, OPTIONS_DOCSTRING, lines)


def load_docstring(source: str) -> str:
    """Return loading.py with the entries of all settings in the docstring of `load`."""
    texts = [f"{name}: {text}" for name, text in setting_entries().items()]
    return with_entries(source, LOAD_DOCSTRING, texts)


def load_rows() -> Iterator[tuple[str, object, str]]:
    """Yield the name, default and entry of each keyword of `load`."""
    load = import_module("whisperbatch.loading").load  # after its docstring is written
    documented = documented_fields(load)
    for parameter in inspect.signature(load).parameters.values():
        yield parameter.name, parameter.default, documented[parameter.name]


def class_rows(owner: type) -> Iterator[tuple[str, object, str]]:
    """Yield the name, default and entry of each field."""
    texts = entries(owner)
    for field in fields(owner):
        yield field.name, field.default, texts[field.name]


def server_rows() -> Iterator[tuple[str, object, str]]:
    """Yield the settings of the server: name, default, meaning."""
    texts = documented_fields(ServerSettings)
    for name, field in ServerSettings.model_fields.items():
        default = field.default
        yield name, int(default) if isinstance(default, ByteSize) else default, texts[name]


def with_tables(page: str) -> str:
    """Return a page with the tables of the classes that its comments name."""
    owners = {owner.__name__: owner for owner in (*GROUPS, SubtitleOptions, TableOptions)}

    def table(match: re.Match[str]) -> str:
        name = match[2]
        heading = {"load": "keyword", "ServerSettings": "setting"}.get(name, "option")
        if name == "load":
            rows = load_rows()
        else:
            rows = server_rows() if name == "ServerSettings" else class_rows(owners[name])
        lines = [f"| `{name}` | `{default!r}` | {text} |" for name, default, text in rows]
        return "\n".join(
            (f"{match[1]}| {heading} | default | meaning |", "|---|---|---|", *lines, "")
        )

    return TABLE.sub(table, page)


DERIVED: Final[Mapping[str, Callable[[str], str]]] = {
    "whisperbatch/options/keyword_types.py": option_types,
    "whisperbatch/engines/keyword_types.py": setting_types,
    "whisperbatch/options/options.py": options_docstring,
    "whisperbatch/loading.py": load_docstring,
    "docs/reference/options.md": with_tables,
    "docs/reference/writers.md": with_tables,
    "docs/reference/server.md": with_tables,
}
"""Each file with the function that makes its new text from its old text."""


def main() -> None:
    """Write each derived file, or check it."""
    check = sys.argv[1:] == ["--check"]
    for name, derive in DERIVED.items():
        path = ROOT / name
        old = path.read_text(encoding="utf-8")
        new = derive(old)
        if new != old and check:
            sys.exit(f"{name} is out of date; run: make declarations")
        if new != old:
            path.write_text(new, encoding="utf-8")
            print(name)  # noqa: T201 - a program's output


if __name__ == "__main__":
    main()
