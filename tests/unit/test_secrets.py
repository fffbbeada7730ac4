"""No door shows a password or a signature of a URL: errors, logs, results, files, command line."""

import http.server
import io
import json
import logging
import stat
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import whisperbatch as wb
from tests.unit.fakes import FakeEngine, noise
from tests.unit.jobs.planned_jobs import write_plan
from tests.unit.media_files import encode
from whisperbatch import jobs
from whisperbatch.audio.sources import name_of
from whisperbatch.boundary import as_error, describe, hide_secrets, with_type
from whisperbatch.cli.plans import run as plan_commands
from whisperbatch.errors import AudioError, WhisperBatchError, of_recording
from whisperbatch.jobs.file_names import name_of_url
from whisperbatch.jobs.inputs import WorkItem, find_inputs, plan_outputs
from whisperbatch.jobs.plans import stores
from whisperbatch.jobs.plans.files import PlanFiles
from whisperbatch.jobs.plans.stores import Store, file_system
from whisperbatch.jobs.workers.failures import crashed
from whisperbatch.server.errors import ApiError, as_api_error
from whisperbatch.text.messages import shown
from whisperbatch.transcriber import Transcriber
from whisperbatch.writers import render

ROOT: Final = Path(__file__).parents[2]
SECRET: Final = "hush"  # noqa: S105 - of no account
SIGNATURE: Final = f"v=1&X-Amz-Credential={SECRET}&X-Amz-Signature={SECRET}"


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves a recording as /a.wav and as /b.wav, no media as /no.mp3, and nothing else."""

    sound = encode([noise(3)], "wav", "pcm_s16le", rate=16_000)

    def do_GET(self) -> None:
        """Answer with the file."""
        path = self.path.partition("?")[0]
        known = {"/a.wav": self.sound, "/b.wav": self.sound, "/no.mp3": b"no media" * 99}
        if path not in known:
            self.send_error(403)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(known[path])))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(known[path])

    do_HEAD = do_GET  # noqa: N815 - the base class's name

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """The address of a server, with a user and a password."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://me:{SECRET}@127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def url(base: str) -> str:
    """A recording."""
    return f"{base}/a.wav?{SIGNATURE}"


@pytest.fixture
def asr() -> Iterator[Transcriber]:
    """A model without weights."""
    with Transcriber(FakeEngine()) as made:
        yield made


def texts_of(error: BaseException | None) -> Iterator[str]:
    """Everything that a user may see of an exception and those that it is chained to."""
    if error is None:
        return
    yield "".join(traceback.format_exception(error))
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        link = pending.pop()
        if link is not None and id(link) not in seen:
            seen.add(id(link))
            yield f"{link} {link!r} {link.args}"
            pending += [link.__cause__, link.__context__]


def check(error: BaseException) -> None:
    """Check that an exception shows no secret."""
    for text in texts_of(error):
        assert SECRET not in text
    assert SECRET not in str(getattr(error, "source", ""))


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
        *(WorkItem(url, ()).name, crashed(url, 3).message, str(WhisperBatchError(url))),
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


def manifest(folder: Path, *urls: str) -> Path:
    """A manifest, which needs no probing."""
    path = folder / "talks.jsonl"
    rows = [{"uri": url, "duration": 3.0, "etag": "1", "language": "en"} for url in urls]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_plan_keeps_the_url_for_the_user_alone(
    tmp_path: Path,
    url: str,
    base: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "talks.plan"
    path.write_text('{"type": "plan"}')  # an older file with the usual mode
    path.unlink()
    write_plan(path, [manifest(tmp_path, url, f"{base}/b.wav")])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert PlanFiles.at(str(path)).read().recordings[0].uri == url
    write_plan(path, [manifest(tmp_path, "https://h/a.wav")])
    assert stat.S_IMODE(path.stat().st_mode) != 0o600
    monkeypatch.setattr(jobs, "plan", lambda sources, output: write_plan(output, list(sources)))
    plan_commands.make_plan([str(manifest(tmp_path, url))], str(path), quiet=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    printed = capsys.readouterr().err
    assert "passwords or signatures of 1 URLs" in printed
    assert "mode 0600" in printed
    assert SECRET not in printed
    plan_commands.make_plan([str(manifest(tmp_path, "https://h/a"))], str(path), quiet=False)
    assert "passwords" not in capsys.readouterr().err


def test_a_new_signature_leaves_the_results_of_a_plan_valid(tmp_path: Path, url: str) -> None:
    plans = [
        write_plan(tmp_path / "talks.plan", [manifest(tmp_path, url.replace(SECRET, text))])
        for text in (SECRET, SECRET)
    ]
    renewed = manifest(tmp_path, url.replace(f"Signature={SECRET}", "Signature=new"))
    plans.append(write_plan(tmp_path / "talks.plan", [renewed]))
    assert len({plan.recordings[0].id for plan in plans}) == 1
    assert plans[2].recordings[0].uri.endswith("=new")


def test_the_files_of_a_plan_show_no_secret(
    tmp_path: Path, url: str, base: str, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("aiohttp")
    caplog.set_level(logging.DEBUG, "whisperbatch")
    path = tmp_path / "talks.plan"
    signed = [url, f"{base}/forbidden.wav?{SIGNATURE}", f"{base}/no.mp3?{SIGNATURE}"]
    plan = write_plan(path, signed)  # probed
    assert [bool(recording.failure) for recording in plan.recordings] == [False, True, True]
    with Transcriber(FakeEngine()) as asr:
        events: list[Any] = []
        work = jobs.work(path, asr=asr, on_span=events.append)
        assert (work.transcribed, work.failed) == (1, 0)
        later = tmp_path / "later.plan"
        write_plan(later, [manifest(tmp_path, *signed[1:], f"{base}/forbidden.wav?token={SECRET}")])
        jobs.work(later, asr=asr)
    texts = [jobs.join(each, tmp_path / "out", formats=("json", "txt")) for each in (path, later)]
    assert SECRET not in repr(texts)
    written = [file for file in tmp_path.rglob("*") if file.is_file()]
    shown_in = [file for file in written if SECRET in file.read_text(encoding="utf-8")]
    assert {file.suffix for file in shown_in} == {".plan", ".jsonl"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in shown_in if file.suffix == ".plan"} == {
        0o600
    }
    assert any("127.0.0.1" in file.read_text() for file in written if ".work" in str(file))
    assert SECRET not in "".join(str(file) for file in written)
    assert SECRET not in caplog.text


def test_failures_that_differ_only_in_secrets_are_all_listed() -> None:
    from whisperbatch.jobs.plans.format import Failure, Recording  # noqa: PLC0415 - see the name
    from whisperbatch.jobs.plans.joining import JoinedRecording  # noqa: PLC0415
    from whisperbatch.jobs.plans.report import ReportBuilder  # noqa: PLC0415

    builder = ReportBuilder()
    for token in ("hush", "hush2"):
        recording = Recording(token, f"https://h/get?token={token}", "", 1.0, None, "get")
        builder.add(JoinedRecording(recording, "failed", failure=Failure("audio", "no")))
    assert list(builder.report().failed) == ["https://h/get?***", "https://h/get?*** (2)"]


def test_errors_of_stores_show_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("aiohttp")
    monkeypatch.setattr(stores, "PAUSES", ())
    place = f"http://me:{SECRET}@127.0.0.1:1/jobs?token={SECRET}"
    doors: tuple[Callable[[], object], ...] = (
        lambda: Store(place).read("a"),
        lambda: file_system(f"nosuch://me:{SECRET}@h/a"),
        lambda: jobs.status(f"{place[:-11]}/talks.plan?token={SECRET}"),
        lambda: jobs.plan(f"{place}.jsonl", "a.plan"),
    )
    for door in doors:
        with pytest.raises(WhisperBatchError) as caught:
            door()
        check(caught.value)


def test_rows_of_ray_show_no_secret(url: str) -> None:
    pytest.importorskip("pyarrow")
    from whisperbatch.jobs import PlannedSpan  # noqa: PLC0415
    from whisperbatch.jobs.plans.format import Failure  # noqa: PLC0415
    from whisperbatch.jobs.workers.outcomes import SpanOutcome  # noqa: PLC0415
    from whisperbatch.ray.rows import recording_row, span_row  # noqa: PLC0415 - needs pyarrow

    outcome = SpanOutcome(
        PlannedSpan("1", "1", url, "", 0, None, 3.0), None, Failure("audio", "no")
    )
    assert SECRET not in f"{span_row(outcome)} {recording_row(outcome)}"


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
    assert name_of(tmp_path / "a@b:c?token=1.wav") == str(tmp_path / "a@b:c?token=1.wav")
