"""The parser of JSON bodies, against the json module, for any division into pieces."""

import base64
import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import whisperbatch as wb
from whisperbatch.huggingface import JsonBody
from whisperbatch.huggingface.inputs import MAX_DEPTH, MAX_VALUES

SPACES = st.text(" \t\n\r", max_size=3)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=8,
)
CUTS = st.lists(st.integers(0, 10_000), max_size=8)


def pieces(body: bytes, cuts: Sequence[int]) -> list[bytes]:
    """Divide a body; an empty piece is possible."""
    positions = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    return [body[start:end] for start, end in itertools.pairwise(positions)]


def read(parts: Sequence[bytes]) -> tuple[JsonBody, bytes]:
    """Parse a body that arrives in pieces; return the parser and the recording."""
    recording = bytearray()
    parser = JsonBody(recording.extend)
    for part in parts:
        parser.feed(part)
    parser.finish()
    return parser, bytes(recording)


@st.composite
def escaped_texts(draw: st.DrawFn, text: str) -> str:
    """Write a text as JSON, with some characters as escapes."""
    letters = [
        (f"\\u{ord(letter):04x}", f"\\u{ord(letter):04X}", "\\/" if letter == "/" else letter)[kind]
        for letter in text
        for kind in [draw(st.sampled_from((0, 1, 2, 2, 2)))]
    ]
    return f'"{"".join(letters)}"'


@st.composite
def bodies(draw: st.DrawFn) -> tuple[bytes, dict[str, Any], bytes]:
    """A body, its values without `inputs`, and its recording."""
    values = draw(st.dictionaries(st.text().filter(lambda key: key != "inputs"), VALUES))
    recording = draw(st.binary(max_size=40))
    text = draw(st.sampled_from(("", "data:audio/wav;base64,", "DATA:;base64,")))
    text += base64.b64encode(recording).decode()
    ascii_only = draw(st.booleans())
    try:
        members = [
            (
                json.dumps(key, ensure_ascii=ascii_only),
                json.dumps(value, ensure_ascii=ascii_only, indent=draw(st.sampled_from((None, 1)))),
            )
            for key, value in values.items()
        ]
        key = draw(st.sampled_from(('"inputs"', '"\\u0069nputs"')))
        members.append((key, draw(escaped_texts(text))))
        order = draw(st.permutations(members))
        body = ",".join(
            f"{draw(SPACES)}{key}{draw(SPACES)}:{draw(SPACES)}{value}{draw(SPACES)}"
            for key, value in order
        )
        encoded = f"{draw(SPACES)}{{{body}}}{draw(SPACES)}".encode()
    except UnicodeEncodeError:  # half of a surrogate pair, not as an escape
        return b'{"inputs":""}', {}, b""
    return encoded, values, recording


@given(bodies(), CUTS)
def test_any_object_in_any_pieces(
    case: tuple[bytes, dict[str, Any], bytes], cuts: Sequence[int]
) -> None:
    body, values, recording = case
    parser, received = read(pieces(body, cuts))
    assert parser.has_inputs
    assert received == recording
    assert parser.values == values


@given(bodies())
def test_single_bytes(case: tuple[bytes, dict[str, Any], bytes]) -> None:
    body, values, recording = case
    parser, received = read([body[index : index + 1] for index in range(len(body))])
    assert (parser.values, received) == (values, recording)


@given(st.text('{}[]:,"\\ \tu0a1-.enrtfalsinpu', max_size=30).map(str.encode), CUTS)
@example(b'{"a":1,}', [])
@example(b'{"a":01}', [])
@example(b"{} {}", [])
@example(b'{"a":tru}', [4])
def test_what_json_refuses_is_refused(body: bytes, cuts: Sequence[int]) -> None:
    expected = strict_values(body)
    if expected is None or "inputs" in expected:
        with pytest.raises(wb.OptionError):
            read(pieces(body, cuts))
    else:
        assert read(pieces(body, cuts))[0].values == expected


def strict_values(body: bytes) -> dict[str, Any] | None:
    """The object in a JSON text; None if there is none, or an object has a key twice."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a key is given twice")
        return dict(pairs)

    try:
        value = json.loads(body, object_pairs_hook=unique)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


@given(bodies(), st.data())
def test_a_body_that_is_cut_off(
    case: tuple[bytes, dict[str, Any], bytes], data: st.DataObject
) -> None:
    body = case[0].rstrip()
    length = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(wb.OptionError):
        read([body[:length]])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "not a complete JSON object"),
        (b"[]", "the body is not a JSON object"),
        (b'\xef\xbb\xbf{"inputs": ""}', "is not JSON: Unexpected UTF-8 BOM"),
        (b'{"inputs": "YQ==", "inputs": "YQ=="}', "'inputs' more than once"),
        (b'{"a": 1, "a": 2}', "'a' is given more than once"),
        (b'{"a": {"b": 1, "b": 2}}', "'b' is given more than once"),
        (b'{"a": NaN}', "NaN is not a JSON value"),
        (b'{"a": "\xff"}', "the body is not JSON"),
        (b'{"a": "\n"}', "the body is not JSON"),
        (b'{"inputs": null}', "inputs must be a text"),
        (b'{"inputs": {"a": 1}}', "inputs must be a text"),
        (b'{"inputs": "YQ"}', "inputs is not base64"),
        (b'{"inputs": "YQ=="YQ==}', "the body, without the text of inputs, is not JSON"),
        (b'{"inputs": "YQ==YQ=="}', "inputs is not base64"),
        (b'{"inputs": "YW\\n=="}', "inputs is not base64"),
        (b'{"inputs": "YW\\x00"}', "inputs is not base64"),
        (b'{"inputs": "YW\\u00g0"}', "inputs is not base64"),
        (b'{"inputs": "YW\\ud83d\\ude00"}', "inputs is not base64"),
        (b'{"inputs": "\xc3\xa9\xc3\xa9"}', "inputs is not base64"),
        (b'{"inputs": "https://example.com/a.wav"}', "other URLs are not opened"),
        (b'{"inputs": "data:audio/wav,abcd"}', "inputs is not base64"),
        (b'{"inputs": "data:audio/wav;base64"}', "inputs is not base64"),
        (b'{"a": ]}', "the body is not JSON"),
        (b'{"a": [}', "not a complete JSON object"),
        (b'{"a": ' + b"[" * (MAX_DEPTH + 1), f"more than {MAX_DEPTH} levels"),
        (b'{"a": "' + b"x" * MAX_VALUES + b'"}', "bytes beside inputs"),
        (b'{"' + b"x" * MAX_VALUES + b'": 1}', "bytes beside inputs"),
        (b'{"inputs": ""' + b" " * MAX_VALUES + b"}", "bytes beside inputs"),
        (b'{"a": ' + b"1" * 5_000 + b"}", "the body is not JSON"),
    ],
)
def test_messages(body: bytes, message: str) -> None:
    for parts in ([body], pieces(body, range(0, len(body), 7))):
        with pytest.raises(wb.OptionError, match=message.replace("[", r"\[")) as caught:
            read(parts)
        assert len(str(caught.value)) < 200
        assert "\n" not in str(caught.value)


def test_a_recording_is_not_held_in_memory() -> None:
    largest = 0

    def sink(data: bytes) -> None:
        nonlocal largest
        largest = max(largest, len(data))

    parser = JsonBody(sink)
    parser.feed(b'{"inputs": "')
    for _ in range(100):
        parser.feed(b"YWJj" * 1_000)
    assert largest == 3_000
    parser.feed(b'"}')
    parser.finish()


def test_megabytes_of_escapes() -> None:
    recording = bytes(range(256)) * 4_000
    text = base64.b64encode(recording).decode()
    body = ('{"inputs": "' + "".join(f"\\u{ord(letter):04x}" for letter in text) + '"}').encode()
    assert read(pieces(body, range(0, len(body), 65_536)))[1] == recording
