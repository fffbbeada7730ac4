"""Forms that no ordinary client sends."""

from collections.abc import Callable

import pytest

import whisperbatch as wb
from whisperbatch.server.errors import ApiError
from whisperbatch.server.fields import parse_request
from whisperbatch.server.uploads import FORM_BYTES, Form, Spool, boundary_of

END = b"--x--\r\n"


def part(disposition: str, value: bytes) -> bytes:
    head = f"--x\r\nContent-Disposition: form-data; {disposition}\r\n\r\n"
    return head.encode() + value + b"\r\n"


def form_of(body: bytes, max_bytes: int = 1000) -> Form:
    form = Form(b"x", Spool, max_bytes)
    try:
        form.feed(body)
    except ApiError:
        form.close()
        raise
    return form


def status_of(function: Callable[[], object]) -> int:
    with pytest.raises(ApiError) as caught:
        function()
    return caught.value.status


def test_a_long_boundary_is_refused() -> None:
    headers = {"content-type": f"multipart/form-data; boundary={'b' * 300}"}
    assert status_of(lambda: boundary_of(headers)) == 400


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, "[]", "1", "{", "\ufeff{}"])
def test_a_strange_chunking_strategy_is_a_wrong_value(text: str) -> None:
    form = {"model": ["base"], "chunking_strategy": [text]}
    assert status_of(lambda: parse_request(form, "transcribe", wb.Options())) == 400


def test_data_after_the_end_of_the_form_counts() -> None:
    form = form_of(part('name="file"; filename="a"', b"abc") + END)
    piece = bytes(FORM_BYTES // 2)
    form.feed(piece)
    form.feed(piece)
    with pytest.raises(ApiError, match="larger than 1000 bytes"):
        form.feed(piece)
    form.close()


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ("filename*=UTF-8''%C3%A9.wav", "é.wav"),
        ("filename*=utf-8'en'a%2F..%2Fb.wav", "b.wav"),
        ("filename=\"c.wav\"; filename*=UTF-8''d.wav", "c.wav"),
        ('filename="../../etc/passwd"', "passwd"),
        ('filename="..\\\\a.wav"', "a.wav"),
        ('filename=""', "audio"),
    ],
)
def test_names_of_files(disposition: str, name: str) -> None:
    form = form_of(part(f'name="file"; {disposition}', b"abc") + END)
    assert form.file
    assert form.file.name == name
    form.close()


def test_a_file_name_that_is_not_text_is_refused() -> None:
    body = part("name=\"file\"; filename*=UTF-8''%FF%FE.wav", b"abc") + END
    assert status_of(lambda: form_of(body)) == 400
