"""No door shows a password or a signature of a URL: errors, logs, results, files, command line."""

import io
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import whisperbatch as wb
from tests.unit.fakes import FakeEngine, noise
from tests.unit.signed_urls import SECRET, SIGNATURE, check, serving, texts_of
from whisperbatch.audio.sources import name_of
from whisperbatch.boundary import as_error, describe, hide_secrets, with_type
from whisperbatch.errors import AudioError, WhisperBatchError, of_recording
from whisperbatch.jobs.inputs import WorkItem, find_inputs, plan_outputs
from whisperbatch.jobs.names import name_of_url
from whisperbatch.jobs.workers.results import crash_failure
from whisperbatch.server.errors import ApiError, as_api_error
from whisperbatch.text.messages import shown
from whisperbatch.transcriber import Transcriber
from whisperbatch.writers import render

ROOT: Final = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """The address of a server, with a user and a password."""
    with serving() as address:
        yield address


@pytest.fixture
def url(base: str) -> str:
    """A recording."""
    return f"{base}/a.wav?{SIGNATURE}"


@pytest.fixture
def asr() -> Iterator[Transcriber]:
    """A model without weights."""
    with Transcriber(FakeEngine()) as made:
        yield made


def test_results_show_no_secret(
    asr: Transcriber, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "whisperbatch")
    for transcript in (
        asr.transcribe(url, vad=False, language="en"),
        *asr.transcribe_many([url, url], vad=False, language="en"),
        asr.submit(url, vad=False, language="en").result(),
        wb.Transcript(**{**vars_of(asr.transcribe(url, vad=False, language="en")), "source": url}),
    ):
        assert transcript.source in {
            url,
            url.replace(f"me:{SECRET}", "***").partition("X")[0] + "***",
        }
        assert transcript.segments
        for name in ("json", "txt", "srt", "vtt", "tsv"):
            assert SECRET not in render(transcript, name)
        assert "127.0.0.1" in json.loads(render(transcript, "json"))["source"]
    assert SECRET not in caplog.text
    with asr.stream(url, vad=False, language="en") as stream:
        assert SECRET not in stream.source
    with wb.open_audio(url) as reader:
        assert SECRET not in reader.name
        assert sum(map(len, reader.blocks())) == 48_000


def vars_of(transcript: wb.Transcript) -> dict[str, Any]:
    """The fields of a transcript."""
    return {name: getattr(transcript, name) for name in transcript.__dataclass_fields__}


@pytest.mark.parametrize("path", ["no.mp3", "forbidden.wav", "a.wav", "bad port"])
def test_errors_show_no_secret(
    asr: Transcriber, base: str, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    caplog.set_level(logging.DEBUG, "whisperbatch")
    options: dict[str, Any] = {"vad": False, "language": "en"}
    place = f"{base}/{path}?{SIGNATURE}"
    if path == "bad port":
        place = f"http://me:{SECRET}@127.0.0.1:1/a.wav?{SIGNATURE}"
    elif path == "a.wav":
        options["max_duration"] = 1.0
    doors: tuple[Callable[[], object], ...] = (
        lambda: asr.transcribe(place, **options),
        lambda: list(asr.transcribe_many([place], **options)),
        lambda: asr.submit(place, **options).result(),
        lambda: asr.transcribe(noise(2), known_speakers={"me": place}, diarize=True, **options),
    )
    if path != "a.wav":
        doors += (lambda: wb.open_audio(place), lambda: asr.detect_language(place))
    for door in doors:
        with pytest.raises(WhisperBatchError) as caught:
            door()
        check(caught.value)
    assert SECRET not in caplog.text


class AnswerError(Exception):
    """An exception whose text comes from an attribute, as that of aiohttp."""

    def __init__(self, address: str) -> None:
        super().__init__(403)
        self.address = address

    def __str__(self) -> str:
        return f"403, url='{self.address}'"


def errors(url: str) -> list[Exception]:
    """Exceptions of several libraries whose texts contain a URL."""
    chained = ValueError("unclear")
    chained.__cause__ = AnswerError(url)
    chained.__cause__.__context__ = FileNotFoundError(2, f"No such file: {url}", url)
    noted = ValueError("unclear")
    vars(noted)["__notes__"] = [f"while reading {url}"]  # add_note of Python 3.11
    return [
        noted,
        *(ValueError(url), OSError(5, "Input/output error", url), OSError(f"cannot open {url}!")),
        *(
            AnswerError(url),
            KeyError(url),
            RuntimeError(1, url),
            PermissionError(13, "no", url, None, url),
        ),
        UnicodeDecodeError("utf-8", b"a", 0, 1, f"of {url}"),
        chained,
    ]


def test_texts_of_exceptions_show_no_secret(url: str, caplog: pytest.LogCaptureFixture) -> None:
    for error in errors(url):
        assert SECRET in " ".join(texts_of(error))
        kind = type(error)
        assert SECRET not in describe(error)
        assert SECRET not in with_type(error)
        made = as_error(error, url)
        check(made)
        assert made.__cause__ is error
        assert isinstance(error, kind)
        check(as_api_error(error))
    for error in errors(url):
        hide_secrets(error)
        before = str(error)
        hide_secrets(error)
        assert str(error) == before
        check(error)
    assert SECRET not in caplog.text


def test_a_file_object_that_fails_shows_no_secret(asr: Transcriber, url: str) -> None:
    class Remote(io.RawIOBase):
        name = url

        def read(self, _: int = -1) -> bytes:
            raise AnswerError(url)

    with pytest.raises(AudioError, match=r"127\.0\.0\.1") as caught:
        asr.transcribe(Remote(), vad=False)  # type: ignore[arg-type]  # has the method that is needed
    check(caught.value)


def test_names_show_no_secret(url: str, base: str) -> None:
    texts = (
        *(name_of(url), shown(url), shown((url, [url])), name_of_url(url), name_of_url(base)),
        *(WorkItem(url, ()).name, crash_failure(url, 3).message, str(WhisperBatchError(url))),
        *(str(of_recording(AudioError("no"), url)), str(AudioError("no", source=url))),
        *(
            str(ApiError(500, f"unexpected {url}")),
            repr(wb.Options(diarize=True, known_speakers={"a": url})),
        ),
        *(file.name for file in find_inputs([url])),
        *(
            str(path)
            for item in plan_outputs(list(find_inputs([url])), ["srt"], None)
            for path in item.outputs
        ),
    )
    for text in texts:
        assert SECRET not in text
    assert name_of_url(url) == "a.wav"
    assert name_of_url(base) == base.partition("@")[2]


def test_a_long_url_shows_no_secret_where_it_is_cut() -> None:
    for length in range(60, 110):
        padding = "x" * length
        for url in (f"https://{padding}:hush@host/a", f"https://h/{padding}?token=hush{padding}"):
            assert SECRET not in shown(url)
            assert SECRET not in describe(ValueError(f"{padding * 4}{url}"))


def test_urls_that_differ_only_in_their_signature_are_read_once(base: str) -> None:
    again = SIGNATURE.replace(SECRET, "other")
    urls = [f"{base}/a.wav?{text}" for text in (SIGNATURE, again, SIGNATURE.replace("v=1", "v=2"))]
    assert [file.source for file in find_inputs(urls)] == [urls[0], urls[2]]


PROGRAM = """
import sys
from pathlib import Path
from tests.unit.fakes import FakeEngine
from whisperbatch import Transcriber
from whisperbatch.cli import app, transcribe
transcribe.wb.load = lambda *_, **__: Transcriber(FakeEngine())
transcribe.find_model = lambda *_, **__: Path("fake")
transcribe.fingerprint = lambda *_: "fake"
transcribe.measured_kept_frames = lambda *_: 1.0
app.run()
"""


@pytest.mark.parametrize("flags", [(), ("--json-lines",), ("-o", "texts", "-f", "json"), ("-v",)])
def test_the_command_line_shows_no_secret(
    tmp_path: Path, url: str, base: str, flags: tuple[str, ...]
) -> None:
    options = ("--no-vad", "--language", "en", *flags)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "transcribe", url, f"{base}/no.mp3?{SIGNATURE}", *options],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        text=True,
        env={"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "HOME": str(tmp_path)},
    )
    assert done.returncode == 1, done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert "127.0.0.1" in done.stderr
    for path in tmp_path.rglob("*"):
        assert SECRET not in path.name
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()
    if "json" in flags:
        assert (tmp_path / "texts/a.json").is_file()


def test_samples_and_paths_keep_their_names(tmp_path: Path) -> None:
    assert name_of(np.zeros(1, np.float32)) == "<array>"
    for name in ("a@b:c?token=1.wav", "https:/me@host/a.wav", "a:/b@c/d"):
        assert name_of(tmp_path / name) == str(tmp_path / name)
    assert SECRET not in name_of(Path(f"https://me:{SECRET}@host/a.wav"))
