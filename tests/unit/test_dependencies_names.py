"""The installed packages have all names and keywords that whisperbatch uses."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from whisperbatch.dependencies import PACKAGES, SOURCES, Use, missing_names, uses_of

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
