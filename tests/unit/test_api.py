"""The functions and names of the package `whisperbatch`."""

import subprocess
import sys

import pytest

import whisperbatch as wb
from tests.unit.fakes import noise


def test_arguments_are_checked_before_the_model_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: object, **__: object) -> None:
        pytest.fail("a model was loaded")

    monkeypatch.setattr("whisperbatch.api.load", load)
    with pytest.raises(wb.AudioError):
        wb.transcribe("missing.wav")
    with pytest.raises(wb.OptionError):
        wb.stream(noise(1), beam_size=0)
    with pytest.raises(wb.OptionError):
        wb.transcribe_many([], beam_size=0)


def test_import_loads_no_large_package() -> None:
    large = "torch ctranslate2 onnxruntime av faster_whisper numpy huggingface_hub tokenizers"
    program = (
        "import sys, whisperbatch; "
        f"print([name for name in {large.split()} if name in sys.modules]); "
        "whisperbatch.Options; whisperbatch.transcribe; "
        "print([n for n in ('torch', 'ctranslate2', 'onnxruntime') if n in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n[]\n"


def test_public_names_are_sorted_and_exist() -> None:
    assert sorted(wb.__all__) == list(wb.__all__)
    for name in wb.__all__:
        assert getattr(wb, name) is not None
    assert set(wb.__all__) <= set(dir(wb))
    with pytest.raises(AttributeError, match="nothing"):
        _ = wb.nothing
