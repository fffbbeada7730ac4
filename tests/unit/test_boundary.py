"""An unexpected exception in any stage ends its recording only, as an InternalError."""

import io
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import whisperbatch as wb
from tests.unit.fakes import FakeEngine, noise
from tests.unit.media_files import encode
from whisperbatch import Transcriber, Transcript
from whisperbatch.boundary import MAX_REASON, as_error, boundary, describe
from whisperbatch.decoding.chunk_decoder import ChunkDecoder
from whisperbatch.language import code_switching, detection
from whisperbatch.recording import RecordingState, Row
from whisperbatch.scheduling.call_queue import CallQueue, RunShare, WaitingRow
from whisperbatch.segmentation import Segmentation
from whisperbatch.types import Chunk

pytestmark = pytest.mark.usefixtures("no_threads_left")

COUNT = 5  # recordings; number 2 fails
FAILS = 2
SECONDS = 7 + FAILS  # of the recording that fails: the other recordings have other lengths

Patch = Callable[[pytest.MonkeyPatch], None]


def fails(chunk: Chunk) -> bool:
    return chunk.recording == FAILS


def failing(function: Callable[..., Any], row: Callable[[Any], Chunk]) -> Callable[..., Any]:
    """The function, which raises IndexError for the chunks of one recording."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        if fails(row(arguments)):
            raise IndexError("a hole in the list")
        return function(*arguments, **keywords)

    return call


def vad_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    class Vad:
        hop = 512

        def __call__(self, blocks: Iterator[Any]) -> Iterator[Any]:
            from whisperbatch.vad import NoVad  # noqa: PLC0415

            samples = list(blocks)
            if sum(map(len, samples)) == SECONDS * 16_000:
                raise IndexError("a hole in the list")
            return NoVad()(samples)

    monkeypatch.setattr("whisperbatch.pipeline_run.open_vad", lambda _: Vad())


def features_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Row, "of", failing(Row.of, lambda arguments: arguments[0]))


def decisions_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    original = detection.decision_for

    def decision_for(recording: Any, *arguments: Any) -> Any:
        if recording.number == FAILS:
            raise IndexError("a hole in the list")
        return original(recording, *arguments)

    monkeypatch.setattr(detection, "decision_for", decision_for)


def scores_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    original = detection.score_languages

    def score(model: Any, rows: Sequence[Row]) -> Any:
        if any(fails(row.chunk) for row in rows):
            raise IndexError("a hole in the list")
        return original(model, rows)

    monkeypatch.setattr(detection, "score_languages", score)


def switching_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    release = code_switching.CodeSwitching._release
    patched = failing(release, lambda arguments: arguments[1].chunk)
    monkeypatch.setattr(code_switching.CodeSwitching, "_release", patched)


def text_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    patched = failing(ChunkDecoder._result, lambda arguments: arguments[1].chunk)
    monkeypatch.setattr(ChunkDecoder, "_result", patched)


def segments_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    add = Segmentation._add

    def patched(stage: Segmentation, recording: RecordingState, *arguments: Any) -> Any:
        if recording.number == FAILS:
            raise IndexError("a hole in the list")
        return add(stage, recording, *arguments)

    monkeypatch.setattr(Segmentation, "_add", patched)


STAGES: dict[str, tuple[Patch, dict[str, Any]]] = {
    "vad": (vad_fails, {"language": "fr"}),
    "features": (features_fail, {"language": "fr"}),
    "features, language not given": (features_fail, {}),
    "language scores": (scores_fail, {}),
    "language decision": (decisions_fail, {}),
    "code-switching": (switching_fails, {"multilingual": True}),
    "text": (text_fails, {"language": "fr"}),
    "segments": (segments_fail, {"language": "fr"}),
}


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize(("patch", "options"), STAGES.values(), ids=STAGES)
def test_a_failing_stage_ends_only_its_recording(
    patch: Patch,
    options: dict[str, Any],
    ordered: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    sources = [noise(7 + number, number) for number in range(COUNT)]
    options = {"vad": False, "chunk_length": 4.0, **options}
    with Transcriber(FakeEngine(workers=2)) as asr:
        expected = [asr.transcribe(source, **options) for source in sources]
        patch(monkeypatch)
        # the last item of a recording is its transcript or error
        results = dict(asr.stream_many(sources, ordered=ordered, **options))
    error = results.pop(FAILS)
    assert isinstance(error, wb.InternalError)
    assert error.source == "<array>"
    assert isinstance(error.__cause__, IndexError)
    assert str(error).startswith("<array>: unexpected IndexError: a hole in the list; ")
    assert "report" in str(error)
    assert "\n" not in str(error)
    for number, result in results.items():
        assert isinstance(result, Transcript)
        assert len(result.segments) == len(expected[number].segments)
        assert result.language == "fr"
    logged = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(logged) == 1
    assert logged[0].exc_info
    assert logged[0].exc_info[0] is IndexError


def test_one_recording_raises_the_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        n_mels = 80

        def __call__(self, samples: object) -> Any:
            raise AttributeError

        def pad_value(self, features: object) -> float:
            return 0.0

    monkeypatch.setattr("whisperbatch.pipeline_run.feature_extractor", lambda *_: Broken())
    with Transcriber(FakeEngine()) as asr:
        with pytest.raises(wb.InternalError, match="<array>: unexpected AttributeError; this is"):
            asr.transcribe(noise(3), vad=False)
        with pytest.raises(wb.InternalError, match="<array>"):
            asr.detect_language(noise(3), vad=False)


def test_an_exception_while_a_recording_is_opened_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr("whisperbatch.audio.reader.check_array", refuse)
    wav = encode([noise(3)], "wav", "pcm_s16le", rate=16_000)
    with Transcriber(FakeEngine()) as asr:
        results = list(asr.transcribe_many([wav, noise(3), wav], on_error="yield", vad=False))
    assert [type(result) for result in results] == [Transcript, wb.InternalError, Transcript]
    assert results[1].source == "<array>"


def test_chunks_without_a_model_have_the_boundary_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("whisperbatch.sections.division.clips", fail)
    with pytest.raises(wb.InternalError, match="<array>: unexpected ZeroDivisionError"):
        list(wb.chunk_audio(noise(3), vad=False))


class Raising(io.BytesIO):
    """A recording that raises an exception when more than its beginning is read."""

    def __init__(self, media: bytes, error: BaseException) -> None:
        super().__init__(media)
        self._error = error

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() > 200_000:
            raise self._error
        return super().read(size)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_a_request_to_stop_is_not_an_error_of_the_recording(stop: type[BaseException]) -> None:
    wav = encode([noise(60)], "wav", "pcm_s16le", rate=16_000)
    sources: list[Any] = [wav, Raising(wav, stop("now")), wav]
    options: dict[str, Any] = {"vad": False, "language": "fr"}
    with Transcriber(FakeEngine()) as asr:
        with pytest.raises(stop, match="now"):
            list(asr.transcribe_many(sources, on_error="yield", **options))
        with pytest.raises(stop, match="now"):
            asr.transcribe(Raising(wav, stop("now")), **options)


def test_memory_errors_are_known() -> None:
    error = as_error(MemoryError(), "talk.mp3")
    assert type(error) is wb.EngineError
    assert error.source == "talk.mp3"
    assert str(error).startswith("talk.mp3: there is not enough memory; use a smaller batch_size")


def test_known_errors_are_unchanged() -> None:
    known = wb.AudioError("is empty", source="talk.mp3")
    assert as_error(known, "other.mp3") is known
    with pytest.raises(wb.AudioError) as caught, boundary("other.mp3"):
        raise known
    assert caught.value is known


class Unprintable(Exception):  # noqa: N818 - a name of another library
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError(), "ValueError"),
        (ValueError(" \n "), "ValueError"),
        (ValueError("two\nlines"), "two lines"),
        (OSError(5, "Input/output error"), "Input/output error"),
        (ValueError("x" * 10_000), "x" * MAX_REASON + "..."),
        (Unprintable(), "Unprintable"),
    ],
)
def test_an_exception_is_described_on_one_line(error: Exception, text: str) -> None:
    assert describe(error) == text
    assert "\n" not in str(as_error(error, "a\nname"))


class FullCalls(CallQueue):
    """A queue from which no call is taken before the rows of four recordings wait."""

    def ready(self) -> Mapping[RunShare, Sequence[WaitingRow]]:
        ready = super().ready()
        return ready if sum(map(len, ready.values())) == 4 else {}


def test_rows_that_share_a_call_with_a_failing_row_keep_their_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a failure, the rows of each thread are decoded alone, with the same text."""
    monkeypatch.setattr("whisperbatch.scheduling.scheduler.CallQueue", FullCalls)
    sources = [noise(7, number) for number in range(4)]
    levels = {np.float32(source.mean()) for source in sources}
    assert len(levels) == 4

    def text(call: Any) -> str:
        return f" Level {call.row.level:.6f}."

    def broken(call: Any) -> str:
        if abs(call.row.level - bad) < 1e-9:
            raise TypeError("no such row")
        return text(call)

    options: dict[str, Any] = {"vad": False, "language": "fr", "batch_size": 8}
    with Transcriber(engine := FakeEngine(decode=text)) as asr:
        expected = list(asr.transcribe_many(sources, **options))
    assert engine.batches == [4]
    bad = engine.calls[1].row.level  # the rows of a call are in the order of the recordings
    with Transcriber(engine := FakeEngine(decode=broken)) as asr:
        results = list(asr.transcribe_many(sources, on_error="yield", **options))
    assert engine.batches == [4, 1, 1, 1, 1]
    assert isinstance(results.pop(1), wb.InternalError)
    assert results == [transcript for number, transcript in enumerate(expected) if number != 1]
