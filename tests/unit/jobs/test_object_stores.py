"""An S3 server and an HTTP server. They need the extra `test-stores`; `make oldest` lacks it."""

import functools
import http.server
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import pytest

from tests.unit.fakes import FakeEngine, noise
from tests.unit.jobs.planned_jobs import write_plan
from tests.unit.media_files import encode
from whisperbatch import jobs
from whisperbatch.jobs.plans import stores
from whisperbatch.jobs.plans.recordings import probe_duration
from whisperbatch.jobs.plans.stores import Store
from whisperbatch.transcriber import Transcriber

pytestmark = pytest.mark.filterwarnings("ignore")  # of botocore and moto

RECORDINGS = 10


def recording(number: int) -> bytes:
    return encode([noise(2 + number, seed=number)], "flac", "flac", rate=16000)


class S3Server:
    """A server whose objects stay when it is stopped and started again."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._server: Any = None

    def start(self) -> None:
        from moto.server import ThreadedMotoServer  # noqa: PLC0415 - may be missing

        self._server = ThreadedMotoServer("127.0.0.1", self.port, verbose=False)
        self._server.start()

    def stop(self) -> None:
        self._server.stop()


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """A server with ten recordings in s3://talks, and an empty s3://jobs."""
    pytest.importorskip("s3fs")
    pytest.importorskip("moto.server")
    server = S3Server()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.port}",
    }.items():
        monkeypatch.setenv(name, value)
    server.start()
    fsspec.filesystem("s3").clear_instance_cache()
    system = fsspec.filesystem("s3")
    for bucket in ("jobs", "talks"):
        system.mkdir(bucket)
    for number in range(RECORDINGS):
        system.pipe_file(f"talks/{number}.flac", recording(number))
    yield server
    system.rm("jobs", recursive=True)
    system.rm("talks", recursive=True)
    server.stop()
    system.clear_instance_cache()


def run_work(**keywords: Any) -> jobs.WorkReport:
    engine = FakeEngine(decode=lambda call: f" Level {call.row.level:.6f}.", delay={"decode": 0.05})
    with Transcriber(engine) as asr:
        return jobs.work("s3://jobs/talks.plan", asr=asr, **{"lease_duration": 60.0, **keywords})


def check_results() -> None:
    status = jobs.status("s3://jobs/talks.plan")
    assert (status.transcribed, status.missing, status.running) == (RECORDINGS, 0, ())
    report = jobs.join("s3://jobs/talks.plan", "s3://jobs/texts", formats=("txt",))
    assert report.joined == RECORDINGS
    texts = [fsspec.filesystem("s3").cat_file(f"jobs/texts/{n}.txt") for n in range(RECORDINGS)]
    assert len(set(texts)) == RECORDINGS


@pytest.mark.usefixtures("s3")
def test_s3_creates_an_object_once() -> None:
    store = Store("s3://jobs/a")
    with ThreadPoolExecutor(16) as pool:
        created = list(pool.map(lambda number: store.create("lease", b"%d" % number), range(16)))
    assert sum(created) == 1
    assert store.read("lease") == b"%d" % created.index(True)
    assert store.names("") == {"lease"}
    store.delete("lease")
    store.delete("lease")
    assert store.read("lease") is None
    assert not store.exists("lease")
    assert store.names("") == frozenset()


@pytest.mark.usefixtures("s3")
def test_two_workers_share_a_plan_in_s3() -> None:
    plan = write_plan("s3://jobs/talks.plan", ["s3://talks"])
    assert not plan.failures
    assert plan.recordings[0].version.startswith("etag ")
    with ThreadPoolExecutor(2) as pool:
        reports = [pool.submit(run_work) for _ in range(2)]
    assert sum(report.result().transcribed for report in reports) == RECORDINGS
    check_results()


@pytest.mark.slow
def test_the_store_goes_away_for_some_seconds(s3: S3Server) -> None:
    write_plan("s3://jobs/talks.plan", ["s3://talks"])
    with ThreadPoolExecutor(2) as pool:
        reports = [pool.submit(run_work) for _ in range(2)]
        while not jobs.status("s3://jobs/talks.plan").transcribed:
            time.sleep(0.05)
        s3.stop()
        time.sleep(5)
        s3.start()
    assert all(report.result().failed == 0 for report in reports)
    run_work()  # the rest, if the store was away for longer than the workers' attempts
    check_results()


def test_a_store_that_fails_now_and_then_loses_nothing(
    s3: S3Server,
) -> None:
    write_plan("s3://jobs/talks.plan", ["s3://talks"])
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(stores, "PAUSES", (0.01,) * 5)
    calls = 0
    lock = threading.Lock()
    for name in ("cat_file", "pipe_file", "find", "rm_file"):
        original = getattr(fsspec.filesystem("s3").__class__, name)

        def flaky(*arguments: Any, original: Any = original, **keywords: Any) -> Any:
            nonlocal calls
            with lock:
                calls += 1
                number = calls
            if number % 5 == 0:
                raise ConnectionError("reset by peer")
            result = original(*arguments, **keywords)
            if number % 5 == 3:
                raise ConnectionError("reset by peer, after the request was served")
            return result

        monkeypatch.setattr(
            fsspec.filesystem("s3"), name, functools.partial(flaky, fsspec.filesystem("s3"))
        )
    report = run_work()
    monkeypatch.undo()
    assert report.transcribed == RECORDINGS
    check_results()
    assert calls > 50


@pytest.mark.slow
@pytest.mark.usefixtures("s3")
def test_a_slow_store_loses_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request takes a tenth of the time until a lease expires."""
    write_plan("s3://jobs/talks.plan", ["s3://talks"])
    system = fsspec.filesystem("s3")
    for name in ("cat_file", "pipe_file", "find", "exists", "rm_file"):
        original = getattr(system, name)

        def slow(*arguments: Any, original: Any = original, **keywords: Any) -> Any:
            time.sleep(0.2)
            return original(*arguments, **keywords)

        monkeypatch.setattr(system, name, slow)
    with ThreadPoolExecutor(2) as pool:
        reports = [pool.submit(run_work, lease_duration=2.0) for _ in range(2)]
    done = [report.result() for report in reports]
    monkeypatch.undo()
    assert sum(report.transcribed for report in done) == RECORDINGS
    assert sum(report.left + report.failed for report in done) == 0
    check_results()


class RangeHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files; single ranges, too."""

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not match:
            super().do_GET()
            return
        data = Path(self.translate_path(self.path)).read_bytes()
        part = data[int(match[1]) : int(match[2]) + 1]
        self.send_response(206)
        self.send_header("Content-Length", str(len(part)))
        end = int(match[1]) + len(part) - 1
        self.send_header("Content-Range", f"bytes {match[1]}-{end}/{len(data)}")
        self.end_headers()
        self.wfile.write(part)

    def end_headers(self) -> None:
        self.send_header("Accept-Ranges", "bytes")
        super().end_headers()


class PlainHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files without ranges."""

    protocol_version = "HTTP/1.0"

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.mark.parametrize("handler", [RangeHandler, PlainHandler])
def test_recordings_on_a_web_server(handler: Any, tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    (tmp_path / "talk.flac").write_bytes(recording(3))
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(handler, directory=str(tmp_path))
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/talk.flac"
        assert probe_duration(url, 0) == pytest.approx(5.0)
        plan = write_plan(tmp_path / "a.plan", [url, url.replace("talk", "nowhere")])
        [failed] = plan.failures
        assert failed.failure
        assert "there is no such file" in failed.failure.message
        with Transcriber(FakeEngine()) as asr:
            assert jobs.work(tmp_path / "a.plan", asr=asr).transcribed == 1
        assert jobs.join(tmp_path / "a.plan", tmp_path / "out").joined == 1
        assert (tmp_path / "out/talk.txt").read_text()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
