"""Progress: values for programs, bars for people, from transcriptions, diarizations, downloads."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import whisperbatch as wb
from tests.unit.fake_diarizer import use_fake_diarizer
from tests.unit.fakes import LOUD, FakeEngine, fails_on_loud_rows, noise, write_noise
from whisperbatch import Progress, Transcriber
from whisperbatch.models import registry
from whisperbatch.progress import Bars, Meter, downloading, shown_by, shows_downloads

pytestmark = pytest.mark.usefixtures("no_threads_left")


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that is a second later at each call."""
    ticks = itertools.count(100.0)
    monkeypatch.setattr("time.monotonic", lambda: next(ticks))


@pytest.mark.usefixtures("seconds")
def test_a_meter_never_goes_back_and_never_passes_its_total() -> None:
    found: list[Progress] = []
    measured = Meter("transcribe", "a.wav", 60.0, found.append)
    for position in (0.0, 20.0, 10.0, 66.0):
        measured.advance(position)
    measured.end(65.0)
    measured.end(70.0)
    measured.advance(70.0)
    assert [(p.position, p.total, p.elapsed, p.done) for p in found] == [
        (0.0, 60.0, 1.0, False),
        (20.0, 60.0, 2.0, False),
        (20.0, 60.0, 3.0, False),
        (66.0, 66.0, 4.0, False),
        (65.0, 65.0, 5.0, True),
    ]
    assert [p.speed for p in found] == [None, 10.0, pytest.approx(20 / 3), 16.5, 13.0]
    assert [p.remaining for p in found[:2]] == [None, 4.0]


def test_without_a_total_the_rest_is_unknown() -> None:
    assert Progress("transcribe", "-", 20.0, None, 2.0).remaining is None
    assert Progress("transcribe", "-", 20.0, None, 2.0).speed == 10.0
    assert Progress("transcribe", "-", 20.0, 30.0, 0.0).speed is None


@pytest.mark.parametrize("source", ["array", "file"])
def test_a_transcription_reports_each_segment_and_its_end(source: str, tmp_path: Path) -> None:
    found: list[Progress] = []
    samples = noise(100)
    given: Any = samples if source == "array" else write_noise(tmp_path / "a.wav", 100)
    with Transcriber(FakeEngine()) as asr:
        transcript = asr.transcribe(given, vad=False, progress=found.append)
    ends = [segment.end for segment in transcript.segments]
    assert len(ends) > 2
    assert [p.position for p in found] == [0.0, *ends, 100.0]
    assert {(p.stage, p.source) for p in found} == {("transcribe", transcript.source)}
    assert {p.total for p in found} == {100.0}
    assert [p.done for p in found] == [False] * (1 + len(ends)) + [True]


def test_a_stream_has_its_position_and_its_length_from_the_start(tmp_path: Path) -> None:
    path = write_noise(tmp_path / "a.wav", 70)
    with Transcriber(FakeEngine()) as asr, asr.stream(path, vad=False) as stream:
        assert (stream.position, stream.total, stream.duration) == (0.0, 70.0, None)
        for segment in stream:
            assert stream.position == segment.end
        assert stream.position == stream.duration == 70
    with path.open("rb") as file, wb.open_audio(file) as reader:
        assert reader.duration == pytest.approx(70)


def test_each_of_many_recordings_is_reported() -> None:
    found: list[Progress] = []
    with Transcriber(FakeEngine(decode=fails_on_loud_rows())) as asr:
        sources = [noise(40, 1), noise(40, 2) * LOUD, noise(70, 3)]
        results = list(
            asr.transcribe_many(sources, on_error="yield", vad=False, progress=found.append)
        )
    assert [type(result).__name__ for result in results] == [
        "Transcript",
        "EngineError",
        "Transcript",
    ]
    assert [p.position for p in found if p.done] == [40.0, 40.0, 70.0]
    assert {p.total for p in found if not p.done} == {40.0, 70.0}


def test_a_function_that_fails_ends_the_work() -> None:
    def fail(progress: Progress) -> None:
        raise LookupError(f"{progress.position:g} s")

    with Transcriber(FakeEngine()) as asr:
        with pytest.raises(LookupError):
            asr.transcribe(noise(40), vad=False, progress=fail)
        with pytest.raises(LookupError):
            list(asr.transcribe_many([noise(40)] * 2, vad=False, progress=fail))


@pytest.mark.parametrize("progress", ["yes", 1, None])
@pytest.mark.parametrize("name", ["transcribe", "stream", "transcribe_many", "stream_many"])
def test_other_values_are_refused(name: str, progress: Any) -> None:
    with Transcriber(FakeEngine()) as asr:
        call = getattr(asr, name)
        source = [noise(1)] if "many" in name else noise(1)
        with pytest.raises(wb.OptionError, match="progress must be a bool or a function, not "):
            call(source, progress=progress)


@pytest.mark.parametrize("call", [wb.chunk_audio, wb.detect_language])
def test_calls_without_progress_refuse_it_by_name(call: Callable[..., Any]) -> None:
    with pytest.raises(wb.OptionError, match="progress is not an option"):
        call(noise(1), progress=True)
    with Transcriber(FakeEngine()) as asr, pytest.raises(wb.OptionError, match="progress is not"):
        asr.submit(noise(1), progress=True)  # type: ignore[call-arg]


def test_a_diarization_reports_what_it_has_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    use_fake_diarizer(monkeypatch)
    found: list[Progress] = []
    wb.diarize(noise(65), progress=found.append)
    assert found[-1].position == 65.0
    assert [p.done for p in found] == [False] * (len(found) - 1) + [True]
    assert {(p.stage, p.source, p.total) for p in found} == {("diarize", "<array>", 65.0)}
    positions = [p.position for p in found]
    assert positions == sorted(positions)


def test_bars_are_shown_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with Transcriber(FakeEngine()) as asr:
        asr.transcribe(noise(70), vad=False, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "<array>" in shown.err
    assert "0.0/70.0" in shown.err
    assert "70.0/70.0" in shown.err


def test_a_bar_for_each_work_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    bars = Bars()
    for position in (1.0, 2.0):
        for source in ("a.wav", "b.wav"):
            bars(Progress("transcribe", source, position, 2.0, position, done=position == 2))
    bars(Progress("download", "org/model", 3e6, None, 1.0))
    bars(Progress("download", "org/model", 5e6, 5e6, 2.0, done=True))
    error = capsys.readouterr().err
    assert all(text in error for text in ("a.wav", "b.wav", "downloading org/model", "5.00M"))
    assert not bars._bars


def snapshot_download(repository: str, **keywords: Any) -> str:
    """As the hub's package: a bar that counts files, and a bar for all bytes, which grows."""
    bar_class = keywords.get("tqdm_class")
    if keywords["local_files_only"] or bar_class is None:
        return "nowhere"
    files = bar_class(total=2, desc="Fetching 2 files")
    bar = bar_class(total=0, unit="B", unit_scale=True, desc="Downloading", initial=0)
    for size in (1000, 3000):
        bar.total += size
        bar.refresh()
        bar.update(size)
        bar.refresh()
        files.update()
    bar.close()
    files.close()
    return "nowhere"


def test_a_download_reports_its_bytes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    found: list[Progress] = []
    for local in (True, False):
        with shows_downloads(found.append):
            registry._snapshot("org/model", None, transformers=False, local=local)
    registry._snapshot("org/model", None, transformers=False, local=False)  # nobody asks
    assert {(p.stage, p.source) for p in found} == {("download", "org/model")}
    steps = [(p.position, p.total) for p in found]
    assert (1000, 1000) in steps
    assert steps[-1] == (4000, 4000)
    assert [p.done for p in found] == [False] * (len(found) - 1) + [True]
    assert capsys.readouterr().err == ""


def test_load_passes_the_function_to_the_download(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Progress] = []

    def load_engine(*_: object, **__: object) -> FakeEngine:
        with downloading("org/model") as keywords:
            assert keywords
        return FakeEngine()

    monkeypatch.setattr("whisperbatch.engines.loading.load_engine", load_engine)
    wb.load("org/model", progress=found.append).close()
    assert [p.done for p in found] == [True]
    wb.transcribe(noise(3), model="org/model", vad=False, progress=found.append)
    assert [p.stage for p in found[1:]][:2] == ["download", "transcribe"]
    with shows_downloads(None), downloading("org/model") as keywords:
        assert keywords == {}


def test_true_is_bars_and_false_is_nothing() -> None:
    assert isinstance(shown_by(progress=True), Bars)
    assert shown_by(progress=False) is None
    assert shown_by(print) is print


def test_a_plan_refuses_progress_by_name(tmp_path: Path) -> None:
    with pytest.raises(wb.OptionError, match="progress is not an option"):
        wb.jobs.plan(["a.wav"], tmp_path / "plan", model="base", progress=True)
