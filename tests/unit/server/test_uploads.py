"""Forms that arrive piece by piece."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whisperbatch.server.errors import ApiError
from whisperbatch.server.uploads import (
    MAX_FIELD_BYTES,
    MAX_VOICE_BYTES,
    Form,
    Spool,
    base_name,
    boundary_of,
)

BOUNDARY = b"----between"


def part(name: str, value: bytes, file_name: str | None = None) -> bytes:
    file = f'; filename="{file_name}"' if file_name is not None else ""
    header = f'Content-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode()
    return b"--" + BOUNDARY + b"\r\n" + header + value + b"\r\n"


END = b"--" + BOUNDARY + b"--\r\n"


def form(max_bytes: int = 10_000_000) -> Form:
    return Form(BOUNDARY, Spool, max_bytes)


def received(*pieces: bytes) -> Form:
    result = form()
    for piece in pieces:
        result.feed(piece)
    result.finish()
    return result


def contents(form: Form) -> bytes:
    assert form.file is not None
    return form.file.open().read(form.file.size + 1) if form.file.size else b""


@given(st.binary(max_size=3000), st.lists(st.integers(0, 4000), max_size=8))
def test_any_split_of_the_body_gives_the_same_form(data: bytes, cuts: list[int]) -> None:
    if b"\r\n--" + BOUNDARY in b"\r\n" + data:
        return
    body = (
        part("model", b"base")
        + part("keywords[]", b"Ada")
        + part("keywords[]", "Gräfin".encode())
        + part("file", data, "talk.wav")
        + END
    )
    places = sorted({0, *(cut for cut in cuts if cut < len(body)), len(body)})
    result = received(*(body[a:b] for a, b in pairwise(places)))
    assert result.fields == {"model": ["base"], "keywords[]": ["Ada", "Gräfin"]}
    assert contents(result) == data
    assert result.file is not None
    assert (result.file.name, result.file.complete) == ("talk.wav", True)
    result.close()


def test_a_file_before_the_fields() -> None:
    result = received(part("file", b"abc", "a.wav"), part("model", b"base"), END)
    assert (contents(result), result.fields) == (b"abc", {"model": ["base"]})


def test_a_body_that_ends_early() -> None:
    result = form()
    result.feed(part("file", b"abc", "a.wav")[:-2])
    assert result.file is not None
    assert not result.file.complete
    with pytest.raises(ApiError, match="cut off") as caught:
        result.finish()
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"no form at all, but a text", 400, "cannot be read"),
        (b"--" + BOUNDARY + b"\r\n\r\nabc", 400, "has no name"),
        (part("model", b"\xff") + END, 400, "not UTF-8"),
        (part("image", b"abc", "a.png"), 400, "must not be a file"),
        (part("file", b"a", "a.wav") + part("file", b"b", "b.wav"), 400, "more than one file"),
        (part("file", bytes(101), "a.wav"), 413, "larger than 100 bytes"),
        (part("prompt", bytes(MAX_FIELD_BYTES + 1)), 413, "the fields of the form"),
        (
            part("known_speaker_references[]", bytes(MAX_VOICE_BYTES // 2)) * 2
            + part("known_speaker_references", b"x"),
            413,
            "known_speaker_references have more than",
        ),
        (part("a", b"") * 201, 400, "more than 200 parts"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_wrong_forms(body: bytes, status: int, message: str) -> None:
    with pytest.raises(ApiError, match=message) as caught:
        form(100).feed(body)
    assert caught.value.status == status


def test_voices_have_a_limit_of_their_own() -> None:
    for ending in ("", "[]", "[0]"):
        voice = part(f"known_speaker_references{ending}", bytes(MAX_FIELD_BYTES + 1))
        assert list(received(voice, END).fields) == [f"known_speaker_references{ending}"]


def test_a_file_without_a_name() -> None:
    """The recording is the part `file`: some clients give no file name."""
    result = received(part("file", b"RIFF\x24\x00\x00\x00WAVE"), part("model", b"base"), END)
    assert (contents(result), result.fields) == (b"RIFF\x24\x00\x00\x00WAVE", {"model": ["base"]})
    assert result.file is not None
    assert result.file.name == "audio"


@pytest.mark.parametrize(
    "text", [b"talk.mp3", b"@talk.mp3", b"https://example.com/a", b"QUJD" * 999]
)
def test_a_file_that_is_text(text: bytes) -> None:
    with pytest.raises(ApiError, match="no recording; send the contents") as caught:
        received(part("file", text), END)
    assert (caught.value.status, caught.value.param) == (400, "file")


@pytest.mark.parametrize(
    ("given_name", "name"),
    [
        ("talk.mp3", "talk.mp3"),
        ("/etc/passwd", "passwd"),
        ("..\\..\\talk.mp3", "talk.mp3"),
        ("a\0b\n.wav", "ab.wav"),
        ("", "audio"),
        ("x/", "audio"),
        ("a" * 300, "a" * 255),
    ],
)
def test_base_name(given_name: str, name: str) -> None:
    assert base_name(given_name) == name


@pytest.mark.parametrize("kind", ["", "application/json", "multipart/form-data", "text/plain"])
def test_a_body_that_is_no_form(kind: str) -> None:
    with pytest.raises(ApiError) as caught:
        boundary_of({"content-type": kind})
    assert caught.value.status == 415


def test_boundary() -> None:
    assert boundary_of({"content-type": 'multipart/form-data; boundary="a b"'}) == b"a b"
