"""Imports between packages point in one direction; docs/explanation/architecture.md draws them."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "whisperbatch"

ALLOWED: Final = {
    "addresses": set[str](),
    "limits": set[str](),
    "errors": {"addresses"},
    "files": {"errors"},
    "dependencies": set[str](),
    "boundary": {"addresses", "dependencies", "errors"},
    "runtimes": {"errors", "files", "models", "threads"},
    "text": {"addresses", "errors"},
    "models": {"addresses", "boundary", "dependencies", "errors", "files", "progress", "text"},
    "options": {"errors", "limits", "text", "types"},
    "types": {"errors", "limits", "text"},
    "protocols": {"options", "types"},
    "progress": {"errors", "text", "types"},
    "recording": {"errors", "features", "protocols", "types"},
    "segmentation": {"options", "recording", "text", "types"},
    "threads": {"errors"},
    "apart": {"errors", "threads"},
    "prefetch": {"errors", "threads"},
    "audio": {
        *("addresses", "apart", "boundary", "errors", "options", "subprocesses", "text"),
        *("threads", "types", "vad"),
    },
    "subprocesses": {"boundary", "errors", "runtimes", "threads"},
    "vad": {
        *("dependencies", "errors", "files", "options", "protocols", "runtimes", "subprocesses"),
        "types",
    },
    "sections": {
        *("audio", "chunking", "options", "prefetch", "protocols", "runtimes", "types", "vad")
    },
    "features": {"errors", "options", "protocols", "types", "vad"},
    "chunking": {"options", "types"},
    "diarization": {
        *("apart", "audio", "boundary", "chunking", "dependencies", "errors", "features", "files"),
        *("models", "options", "prefetch", "progress", "recording", "runtimes", "text", "threads"),
        *("types", "vad"),
    },
    "engines": {
        *("dependencies", "errors", "features", "models", "options", "protocols", "runtimes"),
        *("text", "threads"),
    },
    "language": {"audio", "chunking", "options", "protocols", "recording", "scheduling", "types"},
    "decoding": {
        *("chunking", "errors", "features", "language", "options", "protocols", "recording"),
        *("runtimes", "scheduling", "segmentation", "text", "threads", "types"),
    },
    "scheduling": {
        *(
            "errors",
            "options",
            "prefetch",
            "protocols",
            "recording",
            "runtimes",
            "threads",
            "types",
        ),
    },
    "second_opinion": {
        *("chunking", "decoding", "language", "options", "protocols", "recording", "scheduling"),
        *("text", "types", "vad"),
    },
    "pipeline_run": {
        *("apart", "audio", "boundary", "decoding", "diarization", "errors", "features"),
        *("language", "options", "prefetch", "protocols", "recording", "runtimes"),
        *("scheduling", "second_opinion", "sections", "segmentation", "subprocesses"),
        *("types", "vad"),
    },
    "streams": {"apart", "errors", "pipeline_run", "progress", "recording", "text", "types"},
    "submissions": {
        *("apart", "boundary", "errors", "pipeline_run", "runtimes", "streams", "text", "threads"),
        "types",
    },
    "live": {
        *("audio", "boundary", "chunking", "decoding", "errors", "features", "language"),
        *("options", "recording", "scheduling", "segmentation", "text", "threads", "types", "vad"),
    },
    "transcriber": {
        "live",
        *(
            "apart",
            "audio",
            "boundary",
            "errors",
            "options",
            "pipeline_run",
            "progress",
            "protocols",
        ),
        *("scheduling", "streams", "submissions", "subprocesses", "text", "threads", "types"),
    },
    "api": {
        *(
            "apart",
            "audio",
            "boundary",
            "diarization",
            "engines",
            "errors",
            "options",
            "pipeline_run",
        ),
        *("progress", "sections", "streams", "text", "transcriber", "types"),
    },
    "writers": {"addresses", "errors", "files", "options", "text", "types"},
    "jobs": {
        *("addresses", "api", "audio", "boundary", "engines", "errors", "files", "limits"),
        *("models", "options", "prefetch", "protocols", "recording", "scheduling", "sections"),
        *("text", "threads", "transcriber", "types", "vad", "writers"),
    },
}
"""The packages and root modules that each may import.

The `PROGRAMS` have a rule below.
"""

UPWARDS: Final = {("types", "options"), ("types", "writers")}
"""Imports against the direction. A method of a result imports the maker of its file or hint when it
is called: the makers need the results' types.
"""

PROGRAMS: Final = ("cli", "compat", "doctor", "huggingface", "ray", "server")

PUBLIC: Final = {
    *("addresses", "boundary", "dependencies", "limits"),
    *("apart", "audio", "errors", "engines.devices", "engines.settings"),
    *("engines.memory", "runtimes.openvino_package"),
    *(
        "features",
        "jobs",
        "language",
        "models",
        "options",
        "progress",
        "protocols",
        "runtimes.machine",
    ),
    *("live", "submissions", "text", "types", "vad", "writers"),
    # of the doctor only
    *(
        "diarization",
        "doctor",
        "engines.ctranslate2.cuda",
        "models.packages",
        "runtimes.interpreter",
    ),
    # of the drop-in and the command line only
    *("engines.ctranslate2.engine", "threads"),
    # of the command line only
    *("diarization.stage", "live.settings", "server.serve"),
    *("writers.breaks", "writers.formatting", "writers.timeline"),
    # of the server only
    *("decoding.prompts", "huggingface", "live"),
}
"""What these programs may import beside `whisperbatch` itself."""

STAGES: Final = {"audio", "vad", "sections", "features", "language", "decoding"}


def modules(folder: Path = PACKAGE) -> Iterator[tuple[str, Path]]:
    """Each file with its dotted name below `whisperbatch`."""
    for path in sorted(folder.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        yield name.removesuffix("__init__").removesuffix("."), path


def imports(path: Path, *, at_start: bool = False) -> Iterator[tuple[str, str]]:
    """Each import of `whisperbatch` in a file: the module below `whisperbatch`, and the name.

    With `at_start`, only those that are made when the file is imported.
    """
    source = ast.parse(path.read_text(encoding="utf-8"))
    for node in source.body if at_start else ast.walk(source):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "whisperbatch":
                    yield alias.name.partition(".")[2], ""
        elif isinstance(node, ast.ImportFrom) and node.level:
            pytest.fail(f"{path}: imports are absolute here")
        elif isinstance(node, ast.ImportFrom):
            package, _, module = (node.module or "").partition(".")
            if package == "whisperbatch":
                for alias in node.names:
                    yield module, alias.name


def edges() -> Iterator[tuple[str, str, str]]:
    """(file, package of the file, package that it imports), where the two differ."""
    packages = {name.partition(".")[0] for name, _ in modules()} - {""}
    for name, path in modules():
        importer = name.partition(".")[0]
        for module, symbol in imports(path):
            imported = module.partition(".")[0] or (symbol if symbol in packages else "")
            if imported != importer:
                yield name, importer, imported


def test_the_rules_name_every_package_and_have_no_cycle() -> None:
    packages = {name.partition(".")[0] for name, _ in modules()}
    assert packages - {"", "__main__", *PROGRAMS} == set(ALLOWED)
    assert list(TopologicalSorter(ALLOWED).static_order())


def test_imports_point_in_one_direction() -> None:
    checked = [edge for edge in edges() if edge[1] in ALLOWED and edge[1:] not in UPWARDS]
    wrong = [
        f"{name} imports {imported or 'whisperbatch'}"
        for name, importer, imported in checked
        if imported not in ALLOWED[importer]
    ]
    assert wrong == []
    used = {(importer, imported) for _, importer, imported in checked}
    allowed = {(importer, imported) for importer in ALLOWED for imported in ALLOWED[importer]}
    assert allowed - used == set(), "rules that no import needs"


def test_imports_upwards_are_made_in_calls() -> None:
    above = {imported for _, imported in UPWARDS}
    found = {
        at_start: {
            module.partition(".")[0]
            for _, path in modules(PACKAGE / "types")
            for module, _ in imports(path, at_start=at_start)
        }
        & above
        for at_start in (True, False)
    }
    assert found == {True: set(), False: above}


@pytest.mark.parametrize("package", PROGRAMS)
def test_programs_use_the_public_api(package: str) -> None:
    for name, path in modules(PACKAGE / package):
        for module, symbol in imports(path):
            if module.partition(".")[0] == package:
                continue
            assert module in {"", *PUBLIC}, f"{name} imports {symbol} from {module}"
            public = import_module(f"whisperbatch.{module}".rstrip("."))
            known = getattr(public, "__all__", None) or vars(public)
            assert symbol in {*known, *PUBLIC, ""}, f"{name}: {module}.{symbol} is not public"


def test_only_the_pipeline_knows_all_stages() -> None:
    stages = {name: set[str]() for name, _ in modules()}
    for name, _, imported in edges():
        stages[name] |= {imported} & STAGES
    assert stages["pipeline_run"] == STAGES
    assert [name for name, known in stages.items() if len(known) > 3] == ["pipeline_run"]


def test_only_one_file_starts_threads() -> None:
    starting = ("Thread(", "ThreadPoolExecutor(", "ProcessPoolExecutor(")
    found = [
        name
        for name, path in modules()
        if any(call in path.read_text(encoding="utf-8") for call in starting)
    ]
    assert found == ["threads"]
