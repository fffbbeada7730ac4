"""The package whose interface has changed, found from the exception of a call."""

import types
from typing import Any

import av
import numpy as np
import onnxruntime
import pytest
import tokenizers
from av.audio.resampler import AudioResampler

import whisperbatch as wb
from whisperbatch.boundary import as_error, describe
from whisperbatch.dependencies import (
    NEWEST,
    changed_package,
    import_failure,
    interface_note,
    version_bounds,
)
from whisperbatch.models.files import one_line

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
