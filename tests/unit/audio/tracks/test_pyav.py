"""Recordings are read whatever the version of PyAV, and whatever their metadata.

PyAV 19 has no `metadata_errors`; older versions raise UnicodeDecodeError without it.
"""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import av
import numpy as np
import pytest

import whisperbatch as wb
from tests.unit.media_files import encode, tone
from whisperbatch.audio.track import open_ignoring_metadata, tags_of
from whisperbatch.compat.faster_whisper import decode_audio

MARKED = "MARKED--"
SAMPLES = tone(440, 1.0)
REAL_OPEN: Any = av.open

TITLES = [
    # (bytes, where people met them)
    (b"\xff" + b"x" * 7, "PyAV-Org/PyAV pull request 668: AVI-Mux GUI's tag ends with 0xff"),
    (b"\xffbinary\0", "PyAV-Org/PyAV issue 629: binary artwork in .mov"),
    (b"\x83e\x83X\x83g\x93\xae", "nagadomi/nunif pull request 570: a title in Shift-JIS"),
    (b"Gr\xfc\xdfe  \xe9", "imageio/imageio issue 1059: an old encoding in AVI files"),
    (b"quot\x92ed\x92", "Zulko/moviepy issue 140: quotes of Windows-1252 in .mov"),
    (b"\xd0\xd0\xd0\xd0\xe2\xe2\xe2\xe2", "PyAV-Org/PyAV issues 59 and 197: other scripts, cut"),
    (b"\xed\xb2\x80abcde", "a surrogate that was encoded as UTF-8"),
]
CONTAINERS = [("wav", "pcm_s16le"), ("avi", "pcm_s16le"), ("matroska", "pcm_s16le")]
CONTAINERS += [("mov", "pcm_s16le"), ("flac", "flac")]


def with_title(container: str, codec: str, title: bytes) -> bytes:
    media = encode([SAMPLES], container, codec, rate=16_000, metadata={"title": MARKED})
    assert media.count(MARKED.encode()) == 1
    assert len(title) == len(MARKED)
    return media.replace(MARKED.encode(), title)


def without_the_parameter(file: object, *positional: object, **keywords: Any) -> Any:
    """`open` of PyAV 19: it keeps undecodable bytes as surrogates."""
    if "metadata_errors" in keywords:
        raise TypeError("open() got an unexpected keyword argument 'metadata_errors'")
    try:
        return REAL_OPEN(file, *positional, metadata_errors="surrogateescape", **keywords)
    except TypeError:  # this is PyAV 19
        return REAL_OPEN(file, *positional, **keywords)


@pytest.fixture(params=["as installed", "without metadata_errors"])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without metadata_errors":
        monkeypatch.setattr(av, "open", without_the_parameter)


@pytest.mark.usefixtures("version")
@pytest.mark.parametrize(("container", "codec"), CONTAINERS)
@pytest.mark.parametrize(("title", "_source"), TITLES)
def test_metadata_of_any_encoding_changes_no_sample(
    tmp_path: Path, container: str, codec: str, title: bytes, _source: str
) -> None:
    media = with_title(container, codec, title)
    (path := tmp_path / "talk").write_bytes(media)
    for source in (path, media, io.BytesIO(media)):
        with wb.open_audio(source) as reader:
            samples = np.concatenate(list(reader.blocks()))
        np.testing.assert_array_equal(samples, np.round(SAMPLES * 32768) / 32768, strict=False)
    np.testing.assert_array_equal(decode_audio(str(path)), samples)


@pytest.mark.parametrize("surrogates", ["\udcff\udcfe caf\udce9", " caf"])
def test_tags_can_be_written(surrogates: str) -> None:
    class Stream:
        metadata: ClassVar = {"LANGUAGE": "fra", "title": surrogates, "duration": "00:00:01"}

    tags = tags_of(Stream())  # type: ignore[arg-type]
    assert tags == {"language": "fra", "title": " caf", "duration": "00:00:01"}


Failing = Callable[..., Any]


def failing(message: str) -> Failing:
    def fail(*_: object, **__: object) -> Any:
        raise TypeError(message)

    return fail


def test_another_error_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    def fail(*_: object, **keywords: object) -> Any:
        calls.append(keywords)
        raise TypeError("read() takes 1 positional argument but 2 were given")

    monkeypatch.setattr(av, "open", fail)
    with pytest.raises(TypeError, match="read"):
        open_ignoring_metadata(io.BytesIO(), {})
    assert len(calls) == 1


@pytest.mark.parametrize(
    "message",
    [
        "open() got an unexpected keyword argument 'container_options'",
        "open() takes exactly 1 positional argument (2 given)",
        "open() missing 1 required positional argument: 'context'",
    ],
)
def test_a_changed_interface_is_named_with_the_versions_that_work(
    tmp_path: Path, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path := tmp_path / "talk.wav").write_bytes(b"RIFF")
    monkeypatch.setattr(av, "open", failing(message))
    with pytest.raises(wb.AudioError) as caught, wb.open_audio(path):
        pass
    text = str(caught.value)
    assert f"talk.wav: cannot be opened: {message}; av {av.__version__} " in text
    assert "(tested: 14.2 to " in text
    assert "; pip install --force-reinstall 'av>=14.2,<=" in text
