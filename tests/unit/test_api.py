"""The functions and names of the package `whisperbatch`."""

import ast
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

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
        "whisperbatch.CTranslate2Settings(); whisperbatch.OpenVinoSettings(); "
        "whisperbatch.TorchSettings(); "
        f"print([name for name in {large.split()} if name in sys.modules]); "
        "whisperbatch.Options; whisperbatch.transcribe; "
        "print([n for n in ('torch', 'ctranslate2', 'onnxruntime') if n in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n[]\n[]\n"


def test_public_names_are_sorted_and_exist() -> None:
    assert sorted(wb.__all__) == list(wb.__all__)
    for name in wb.__all__:
        assert getattr(wb, name) is not None
    imported = {
        alias.name: import_module(str(node.module))
        for node in ast.walk(ast.parse(Path(wb.__file__).read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("whisperbatch.")
        for alias in node.names
    }
    assert imported.keys() == set(wb.__all__) - {"jobs", "writers"}  # packages
    for name, module in imported.items():  # what type checkers see is what the name is
        assert getattr(wb, name) is getattr(module, name)
    assert set(wb.__all__) <= set(dir(wb))
    with pytest.raises(AttributeError, match="nothing"):
        _ = wb.nothing


def test_the_version_and_the_writers_need_no_import() -> None:
    program = "import whisperbatch as wb; print(wb.__version__, len(wb.writers.FORMATS))"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == [version("whisperbatch"), str(len(wb.writers.FORMATS))]


def test_a_public_name_is_imported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        pytest.fail(f"{name} is imported again")

    monkeypatch.delitem(vars(wb), "Transcript", raising=False)
    first = wb.Transcript
    monkeypatch.setattr(wb, "__getattr__", fail)
    assert wb.Transcript is first


def test_type_checkers_know_the_names_of_fields() -> None:
    segment = wb.Segment(0, 0.0, 1.0, "Yes.", "en", -0.1, 0.0, 1.0)
    transcript = wb.Transcript((segment,), "en", 1.0, 1.0, "a.wav")
    start: float = transcript["segments"][0]["start"]
    text: str = transcript["text"]
    assert (start, text, len(transcript)) == (0.0, "Yes.", 1)
    with pytest.raises(KeyError):
        _ = segment["begin"]  # type: ignore[call-overload]
    with pytest.raises(AttributeError):
        _ = segment.begin  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        _ = transcript.to_srt_vtt  # type: ignore[attr-defined]
    with pytest.raises(wb.OptionError):
        transcript.save("a.srt", max_width=3)  # type: ignore[call-arg]
    with pytest.raises(wb.OptionError):
        wb.transcribe("a.wav", progress="yes")  # type: ignore[arg-type]


def test_type_checkers_refuse_wrong_keywords() -> None:
    """Here the type checker is part of the test: an `ignore` that it does not need is an error."""
    with pytest.raises(wb.OptionError, match="beam_size must be a whole number"):
        wb.transcribe("a.wav", beam_size="x")  # type: ignore[arg-type]
    with pytest.raises(wb.OptionError, match="did you mean beam_size"):
        wb.stream("a.wav", beamsize=1)  # type: ignore[call-arg]
    with pytest.raises(wb.OptionError, match="beam_size has no effect on detect_language"):
        wb.detect_language("a.wav", beam_size=1)  # type: ignore[call-arg]
    with pytest.raises(wb.OptionError, match="compile must be True or False"):
        wb.load("tiny.en", engine="torch", compile=1)  # type: ignore[arg-type]
    with pytest.raises(wb.OptionError, match="inter_threads must be a whole number, not '2'"):
        wb.transcribe("a.wav", inter_threads="2")  # type: ignore[arg-type]
