"""Messages for clients: they have values as a form and JSON write them, and no words of Python."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import whisperbatch as wb
from tests.unit.server.test_fields import refused
from whisperbatch.huggingface import parse_object, parse_parameters
from whisperbatch.server.errors import as_api_error, message_for_clients

PACKAGE: Final = Path(wb.__file__).parent
REACHED: Final = ("audio", "decoding", "diarization", "features", "huggingface", "language")
MORE: Final = ("options", "pipeline_run.py", "sections", "segmentation", "server", "text", "vad")
NOT_REACHED: Final = {
    "audio/sources.py",  # arrays, paths, and several sources
    "options/keywords.py",  # keyword arguments
    "server/settings.py",  # of the user who starts the server
}
NOT_SENT: Final = (
    "call seek(0) first",  # an upload is read from its start
    "is not a recording; give a path",  # the voices of known speakers are bytes
)
ERRORS: Final = ("OptionError", "AudioError")
PYTHON: Final = re.compile(
    r"\b(True|False|None|tuple|dict|seek|sys\.\w+|Options|Python|array|float32|astype)\b|\w\(\)|=\("
)


def raised() -> Iterator[tuple[str, str]]:
    """Each message that the reached files raise, with X for its values, and its place."""
    for name in (*REACHED, *MORE):
        path = PACKAGE / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            place = file.relative_to(PACKAGE).as_posix()
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if place not in NOT_REACHED and isinstance(node, ast.Call) and node.args:
                    called = getattr(node.func, "id", getattr(node.func, "attr", ""))
                    if called in ERRORS:
                        yield f"{place}:{node.lineno}", text_of(node.args[0])


def text_of(node: ast.expr) -> str:
    """The text of a literal, of an f-string or of their sum."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    if isinstance(node, ast.BinOp):
        return text_of(node.left) + text_of(node.right)
    return "X"


def test_no_message_of_the_library_speaks_python_to_clients() -> None:
    messages = list(raised())
    assert len(messages) > 80
    wrong = [
        f"{place}: {text}"
        for place, message in messages
        if PYTHON.search(text := message_for_clients(wb.OptionError(message)))
    ]
    assert [text for text in wrong if not any(known in text for known in NOT_SENT)] == []


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("vad must be True or False, not 'False'", "vad must be true or false, not 'False'"),
        ("`x=(0.0, 0.2)`: in order", "x=0.0,0.2: in order"),
        ("`x`[1]=(4.0, 2.0): in order", "x[1]=4.0,2.0: in order"),
        ("`x=((0.0, 4.0), (5.0, None))`: y", "x=0.0,4.0,5.0: y"),
        ("must be a number, not (1,)", "must be a number, not 1"),
        ("give a tuple such as (0.0, 0.2)", "give a list such as 0.0,0.2"),
        ("give `languages=('de', 'en')` or `vad=False`", "give languages=de,en or vad=false"),
        ("`task='translate'` has \"None\"", 'task=translate has "None"'),
        ("file has 2 tracks (0, 1)", "file has 2 tracks (0, 1)"),
        ("f(1, 2) stays, and text (so)", "f(1, 2) stays, and text (so)"),
        ("must be a tuple of token ids, not None", "must be a list of token ids, not none"),
        ("'it''s None'", "'it''s None'"),
    ],
)
def test_values(message: str, text: str) -> None:
    assert message_for_clients(wb.OptionError(message)) == text


@pytest.mark.parametrize(
    "form",
    [
        {"language": "en", "multilingual": "true"},
        {"multilingual": "true", "condition_on_previous_text": "true"},
        {"vad": "false", "vad_onset": "0.4"},
        {"language": "mul"},
        {"language": "en,de"},
        {"diarize": "true", "num_speakers": "2"},
        {"num_speakers": "2", "response_format": "text"},
        {"latin_names": "true"},
        {"clip_timestamps": "5,4"},
        {"clip_timestamps": "5,4,3,2"},
        {"temperature": "0.4,0.2"},
        {"temperature": ",".join(map(str, range(30)))},
        {"suppress_tokens": "100000"},
        {"timestamps": "x"},
        {"seed": "1"},
    ],
    ids=str,
)
def test_messages_about_fields(form: Any) -> None:
    assert not PYTHON.search(refused(form).message)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": ' + "1" * 5000 + "}",
        "[" * 100_000,
        "{",
        '{"a": NaN}',
        '{"vad": 5}',
        '{"languages": 5}',
    ],
    ids=lambda text: text[:20],
)
def test_messages_about_parameters(text: str) -> None:
    with pytest.raises(wb.OptionError) as caught:
        parse_parameters(parse_object(text))
    message = as_api_error(caught.value).message
    assert not PYTHON.search(message)
    assert "recursion" not in message
