"""Tested versions, the names that whisperbatch uses, and packages whose interface has changed."""

import types
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import av
import numpy as np
import onnxruntime
import pytest
import tokenizers
from av.audio.resampler import AudioResampler
from packaging.requirements import Requirement
from packaging.version import Version

import whisperbatch as wb
from whisperbatch import dependencies
from whisperbatch.boundary import as_error, describe
from whisperbatch.dependencies import (
    NEWEST,
    PACKAGES,
    SOURCES,
    Use,
    changed_package,
    import_failure,
    installed_version,
    interface_note,
    missing_names,
    uses_of,
    version_bounds,
)
from whisperbatch.models.files import one_line

REQUIRED = [
    requirement
    for requirement in map(Requirement, requires("whisperbatch") or ())
    if requirement.marker is None
]


@pytest.mark.parametrize("requirement", REQUIRED, ids=str)
def test_a_required_package_has_a_newest_tested_version(requirement: Requirement) -> None:
    assert requirement.name in PACKAGES.values()
    oldest, newest = version_bounds(requirement.name)
    assert requirement.specifier.contains(oldest)
    assert Version(oldest) <= Version(newest)


def test_the_table_has_no_other_packages() -> None:
    assert set(NEWEST) <= set(PACKAGES.values())


def test_unknown_versions_are_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    assert version_bounds("no-such-package") == ("", "")
    assert installed_version("no-such-package") == ""

    def fail(_: str) -> NoReturn:
        raise PackageNotFoundError

    monkeypatch.setattr(dependencies, "requires", fail)
    assert version_bounds("av") == ("", NEWEST["av"])


INSTALLED = [module for module in PACKAGES if find_spec(module) is not None]


def test_the_installed_packages_have_all_names() -> None:
    assert missing_names(INSTALLED) == []


def test_the_names_of_whisperbatch_are_found() -> None:
    uses = {use for path in SOURCES.rglob("*.py") for use in uses_of(path, INSTALLED)}
    names = {use.name for use in uses}
    assert {"av.open", "av.container.InputContainer", "onnxruntime.InferenceSession"} <= names
    assert len(names) > 200


FAKE = """
class Known:
    value = 1

def call(x, /, y, *, z=1): ...
def anything(**keywords): ...
"""


@pytest.mark.parametrize(
    ("code", "missing"),
    [
        ("import fake\nfake.Known.value", []),
        ("import fake as f\nf.Known.other", ["fake.Known.other"]),
        ("from fake import Known, Gone", ["fake.Gone"]),
        ("import fake.sub\nfake.sub.here", []),
        ("import fake.sub\nfake.sub.gone", ["fake.sub.gone"]),
        ("from fake.gone import x", ["fake.gone.x"]),
        ("from fake.sub import here as y\ny.z", ["fake.sub.here.z"]),
        ("from fake import call\ncall(1, y=2, z=3)", []),
        ("from fake import call\ncall(x=1, w=2)", ["fake.call(w=)", "fake.call(x=)"]),
        ("import fake\nfake.anything(w=2)", []),
        ("import fake\nfake.call(1, **options)", []),
        ("import fake\nfake.gone(1).other", ["fake.gone"]),
        ("import other\nother.gone", []),
        ("def f():\n    import fake\n    return fake.gone", ["fake.gone"]),
    ],
)
def test_missing_names_and_keywords(
    code: str, missing: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (package := tmp_path / "site/fake").mkdir(parents=True)
    (package / "__init__.py").write_text(FAKE)
    (package / "sub.py").write_text("here = 1")
    (sources := tmp_path / "sources").mkdir()
    (sources / "file.py").write_text(code)
    monkeypatch.syspath_prepend(str(package.parent))
    assert missing_names(["fake"], sources) == missing


def test_a_use_without_a_call_has_no_keywords() -> None:
    assert Use("av.open") == Use("av.open", frozenset())


GLOBALS: dict[str, Any] = {
    "av": av,
    "np": np,
    "onnxruntime": onnxruntime,
    "tokenizers": tokenizers,
    "AudioResampler": AudioResampler,
}


def raised(code: str, module: str = "whisperbatch.test", **names: object) -> Exception:
    """Return the exception of code, as if it were in a module."""
    space = {"__name__": module, **GLOBALS, **names}
    try:
        exec(f"def run():\n    {code}\nrun()", space)  # noqa: S102 - of this file
    except Exception as error:  # noqa: BLE001 - the one to look at
        return error
    raise AssertionError(code)


def old_signature(path: object) -> None:
    """A function of a package, as another version may define it."""


for_av = types.FunctionType(old_signature.__code__, {"__name__": "av.container"}, "open")
for_av.__module__, for_av.__qualname__ = "av.container.core", "open"

CHANGED = [
    # the code, and the package
    ("av.open('x', metadata_errorz='ignore')", "av"),
    ("av.no_such_function('x')", "av"),
    ("av.audio.no_such_module", "av"),
    ("from av import no_such_name", "av"),
    ("from av.audio.no_such_module import X", "av"),
    ("import onnxruntime.no_such_module", "onnxruntime"),
    ("AudioResampler(formatt='flt')", "av"),
    ("AudioResampler(format='flt').resample(1, 2, 3)", "av"),
    ("AudioResampler(format='flt').no_such_method()", "av"),
    ("onnxruntime.InferenceSession(model=b'')", "onnxruntime"),
    ("onnxruntime.SessionOptions().no_such_method()", "onnxruntime"),
    ("onnxruntime.SessionOptions().add_session_config_entry(1, 2, 3)", "onnxruntime"),
    ("np.zeros(3, no_such=1)", "numpy"),
    ("np.no_such_function", "numpy"),
    ("tokenizers.Tokenizer.from_file('x', 1, 2)", "tokenizers"),
    ("tokenizers.Tokenizer.no_such_function('x')", "tokenizers"),
]
OTHER = [
    # a bug of whisperbatch, wrong data, or a package that is not installed
    "None.no_such",
    "own(1)",
    "[].append()",
    "'a' + 1",
    "np.zeros('three')",
    "av.open('no-such-file')",
    "import no_such_package",
    "from json import no_such_name",
    "raise TypeError('no such row')",
    "raise AttributeError",
    "raise ImportError('libtorch_cuda.so: cannot open shared object file', name='av')",
    "raise ModuleNotFoundError(\"No module named 'av'\", name='av')",
    "raise ValueError('open() got an unexpected keyword argument')",
]


def own() -> None:
    """A function of whisperbatch, called with an argument that it does not have."""


own.__module__ = "whisperbatch.test"


@pytest.mark.parametrize(("code", "package"), CHANGED)
def test_a_changed_interface_has_a_package(code: str, package: str) -> None:
    assert changed_package(raised(code)) == package


@pytest.mark.parametrize("code", OTHER)
def test_other_exceptions_have_no_note(code: str) -> None:
    assert interface_note(raised(code, own=own)) == ""


@pytest.mark.parametrize("code", ["np.zeros(3, no_such=1)", "np.zeros(3).no_such", "av.no_such()"])
def test_code_of_a_caller_has_no_note(code: str) -> None:
    assert interface_note(raised(code, module="my_diarizer")) == ""


def test_attributes_of_own_objects_are_looked_at() -> None:
    class Reader:
        def __init__(self) -> None:
            self.resampler = AudioResampler(format="flt")

    Reader.__module__ = "whisperbatch.test"
    error = raised("reader.resampler.resample(1, 2, 3)", reader=Reader())
    assert changed_package(error) == "av"


def test_a_package_that_calls_another_names_the_other() -> None:
    """faster-whisper 1.2.1 passes `metadata_errors` to PyAV 19."""
    error = raised("av.open('x', metadata_errorz=1)", module="faster_whisper.audio")
    assert changed_package(error) == "av"


def test_a_python_function_with_another_signature_is_found() -> None:
    fake = types.ModuleType("av")
    fake.open = for_av  # type: ignore[attr-defined]
    assert changed_package(raised("av.open('x', mode='r')", av=fake)) == "av"


def test_the_note_names_the_versions() -> None:
    note = interface_note(raised("av.no_such()"))
    oldest, newest = version_bounds("av")
    assert oldest == "14.2"
    assert newest == NEWEST["av"]
    assert note == (
        f"; av {av.__version__} has another interface than expected (tested: {oldest} to "
        f"{newest}); pip install --force-reinstall 'av>={oldest},<={newest}'"
    )


def test_messages_end_with_the_note() -> None:
    error = raised("av.no_such()")
    note = interface_note(error)
    assert describe(error) == f"module 'av' has no attribute 'no_such'{note}"
    assert one_line(error).endswith(note)
    result = as_error(error, "talk.mp3")
    assert type(result) is wb.InternalError
    assert str(result).startswith("talk.mp3: unexpected AttributeError: module 'av' has no")
    assert str(result).endswith(note)
    assert "bug" not in str(result)


def test_an_import_that_fails_names_what_to_install() -> None:
    missing = ModuleNotFoundError("No module named 'torch'", name="torch")
    assert import_failure(missing, "pip install X") == "torch is not installed: pip install X"
    changed = raised("from av import no_such_name")
    assert isinstance(changed, ImportError)
    assert import_failure(changed, "pip install X").endswith(interface_note(changed))
