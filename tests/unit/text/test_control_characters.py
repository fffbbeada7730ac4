import json

import pytest

from whisperbatch.text import escape_controls, escape_controls_in_json


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07.mp3", "\\x1b]0;title\\x07.mp3"),
        ("two\nlines\r\t", "two\\nlines\\r\\t"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("a\u2028b", "a\\u2028b"),
        ("שלום\u200f! \u200d 👍🏽 \u00a0é \\x1b", "שלום\u200f! \u200d 👍🏽 \u00a0é \\x1b"),
        ("caf\udce9", "caf\udce9"),
    ],
)
def test_control_characters_are_shown_escaped(text: str, shown: str) -> None:
    assert escape_controls(text) == shown


def test_json_has_the_same_value_and_no_control_characters() -> None:
    value = {"text": "".join(map(chr, range(0x3000))), "other": ["\u2028", "é"]}
    text = escape_controls_in_json(json.dumps(value, ensure_ascii=False, indent=1))
    assert json.loads(text) == value
    assert escape_controls(text.replace("\n", "")) == text.replace("\n", "")
