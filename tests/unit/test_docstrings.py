"""Docstrings of the public API: every function lists its arguments, results and errors."""

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, Final

import pytest

import whisperbatch as wb
from whisperbatch.errors import __all__ as error_names
from whisperbatch.options import documented_fields

NO_ERRORS: Final = {
    *("available_models", "AudioReader.close", "AudioReader.decode_in"),
    "AudioReader.random_access",
    *("Chunk.chunk_time", "Chunk.recording_time", "SegmentStream.call_on_close"),
    *("LiveSession.cancel", "SegmentStream.close", "Submission.cancel", "Transcriber.close"),
    *("Transcriber.submitted_beside", "SubtitleOptions.rules", "WhisperBatchError.spelled"),
}
"""Functions that raise no error of whisperbatch."""


def public_functions() -> Iterator[Callable[..., Any]]:
    """Yield the public functions, and the public methods of public classes."""
    for name in wb.__all__:
        value = getattr(wb, name)
        if inspect.isfunction(value):
            yield value
        elif inspect.isclass(value) and value.__module__.startswith("whisperbatch."):
            for method_name, method in vars(value).items():
                if inspect.isfunction(method) and not method_name.startswith("_"):
                    yield method


def section(function: Callable[..., Any], heading: str) -> str:
    """Return a section of a docstring; "" if there is none."""
    text = inspect.getdoc(function) or ""
    found = re.search(rf"^{heading}:\n((?:    .*\n?|\n)+)", text, re.MULTILINE)
    return found[1] if found else ""


FUNCTIONS: Final = [
    pytest.param(function, id=function.__qualname__) for function in public_functions()
]


def test_functions_and_methods_are_found() -> None:
    names = {parameter.id for parameter in FUNCTIONS}
    assert {"transcribe", "load", "write", "Transcriber.stream", "AudioReader.blocks"} <= names
    assert names > NO_ERRORS


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_parameter_is_described(function: Callable[..., Any]) -> None:
    declared = {name for name in function.__annotations__ if name != "return"}
    described = re.findall(r"^    \*{0,2}(\w+): ", section(function, "Args"), re.MULTILINE)
    assert declared <= set(described)
    assert set(described) <= declared | inspect.signature(function).parameters.keys()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_result_is_described(function: Callable[..., Any]) -> None:
    text = section(function, "Returns") or section(function, "Yields")
    assert bool(text) == (function.__annotations__["return"] is not None)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_errors_are_listed(function: Callable[..., Any]) -> None:
    names = re.findall(r"^    (\w+): ", section(function, "Raises"), re.MULTILINE)
    assert set(names) <= {*error_names, "TimeoutError"} - {"WhisperBatchError"}
    assert bool(names) == (function.__qualname__ not in NO_ERRORS)


@pytest.mark.parametrize(
    "function",
    [
        *(wb.transcribe, wb.stream, wb.transcribe_many, wb.chunk_audio),
        *(wb.Transcriber.transcribe, wb.Transcriber.stream, wb.Transcriber.transcribe_many),
    ],
    ids=lambda function: function.__qualname__,
)
def test_help_shows_every_option_and_where_it_is_described(function: Callable[..., Any]) -> None:
    assert "any field of `Options`" in section(function, "Args")
    shown = str(inspect.signature(function))
    assert all(f" {field.name}: " in shown for field in fields(wb.Options))


@pytest.mark.parametrize("owner", [wb.Options, wb.SubtitleOptions, wb.TableOptions])
def test_classes_of_options_describe_every_field(owner: type[Any]) -> None:
    assert documented_fields(owner).keys() == {field.name for field in fields(owner)}


def test_load_describes_every_setting() -> None:
    assert documented_fields(wb.load).keys() == inspect.signature(wb.load).parameters.keys()
