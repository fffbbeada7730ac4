"""CTranslate2 on one and on several fake GPUs: devices, encoder outputs, broken GPUs."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whisperbatch as wb
from tests.contract.tiny_model import TOKEN_IDS, tiny_model
from tests.unit.engines.ctranslate2.fake_gpus import TEXT, FakeGpus, GpuCall
from tests.unit.fakes import noise
from whisperbatch.engines.ctranslate2 import cuda
from whisperbatch.engines.ctranslate2 import engine as engine_module
from whisperbatch.engines.ctranslate2.engine import CTranslate2Engine
from whisperbatch.engines.model_info import ModelInfo
from whisperbatch.errors import BrokenDeviceError, ClosedError, EngineError, OptionError
from whisperbatch.options import SearchOptions
from whisperbatch.protocols import (
    AlignRequest,
    Decoded,
    DecodeRequest,
    Encoded,
    EngineTraits,
    Sampling,
)
from whisperbatch.threads import in_new_thread

OPTIONS = SearchOptions(beam_size=2)
ILLEGAL = "CUDA failed with error an illegal memory access was encountered"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tiny_model(tmp_path / "model")


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> FakeGpus:
    fake = FakeGpus(count=2)
    fake.install(monkeypatch)
    return fake


def features(rows: int) -> np.ndarray[Any, Any]:
    return np.zeros((rows, 80, 200), np.float16)


def start(language: str = "en") -> tuple[int, ...]:
    return tuple(TOKEN_IDS[f"<|{name}|>"] for name in ("startoftranscript", language, "transcribe"))


def request(language: str = "en", sampling: Sampling | None = None) -> DecodeRequest:
    begin = start(language)
    return DecodeRequest((*begin, TOKEN_IDS["<|notimestamps|>"]), begin, (), 200, sampling)


def decode(engine: CTranslate2Engine, encoded: Encoded) -> list[Decoded]:
    return engine.decode(encoded, [request()] * encoded.rows, OPTIONS)


def test_each_gpu_has_a_model_and_two_batches(gpus: FakeGpus, directory: Path) -> None:
    engine = gpus.engine(directory, device_index=(0, 1))
    assert [settings["device_index"] for settings in gpus.loaded] == [[0], [1]]
    assert [settings["inter_threads"] for settings in gpus.loaded] == [2, 2]
    assert engine.workers == 4
    assert gpus.kept == [0, 1]
    loading = {call.thread for call in gpus.of("load")}
    assert len(loading) == 2
    assert threading.current_thread() not in loading
    engine.close()
    assert [call.gpu for call in gpus.of("unload_model")] == [0, 1]
    assert gpus.returned == [0, 1]


def test_a_given_number_of_batches_is_kept(gpus: FakeGpus, directory: Path) -> None:
    assert gpus.engine(directory, inter_threads=1).workers == 1
    assert gpus.engine(directory, inter_threads=3).workers == 3


def test_all_calls_with_an_encoder_output_run_on_its_gpu(gpus: FakeGpus, directory: Path) -> None:
    engine = gpus.engine(directory, device_index=(0, 1))

    def compute() -> int:
        before = len(gpus.calls)
        encoded = engine.encode(features(3))
        engine.detect_language(encoded)
        decode(engine, encoded)
        engine.align(encoded, [AlignRequest(start(), TEXT, 200)] * 3)
        [gpu] = {call.gpu for call in gpus.calls[before:]}
        return gpu

    ready, go_on, used = threading.Barrier(4), threading.Event(), list[int]()

    def work() -> None:
        used.append(compute())
        ready.wait()
        go_on.wait()  # the threads live at the same time, as those of a run

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
        while len(used) <= threads.index(thread):
            go_on.wait(0.001)
    go_on.set()
    assert sorted(used) == [0, 0, 1, 1]
    for thread in threads:
        thread.join()
    assert {compute() for _ in range(5)} <= {0, 1}  # the same in one thread


def test_threads_that_ended_leave_their_place(gpus: FakeGpus, directory: Path) -> None:
    engine = gpus.engine(directory, device_index=(0, 1))
    for _ in range(5):
        in_new_thread(lambda: engine.encode(features(1)))
    assert {call.gpu for call in gpus.of("encode")} == {0}


def test_an_encoder_output_of_another_threads_gpu_is_decoded_on_its_own(
    gpus: FakeGpus, directory: Path
) -> None:
    engine = gpus.engine(directory, device_index=(0, 1))
    engine.encode(features(1))  # binds this thread to GPU 0
    encoded = in_new_thread(lambda: engine.encode(features(2)))
    assert [call.gpu for call in gpus.of("encode")] == [0, 1]
    assert len(decode(engine, encoded)) == 2
    assert [call.gpu for call in gpus.of("generate")] == [1]


@pytest.mark.parametrize(
    "options",
    [
        {"multilingual": True},
        {},  # unknown language: chunks vote for it
        {"language": "en", "condition_on_previous_text": True},
        {"language": "en", "temperature": (0.0, 0.4), "log_prob_threshold": -0.001},
        {"beam_size": 1, "best_of": 2, "temperature": 0.3},
    ],
    ids=str,
)
@pytest.mark.parametrize("indexes", [(0,), (0, 1)])
def test_encoder_outputs_never_go_to_the_cpu(
    gpus: FakeGpus, directory: Path, options: dict[str, Any], indexes: tuple[int, ...]
) -> None:
    """`FakeView` raises an error if they do."""
    engine = gpus.engine(directory, device_index=indexes)
    clips = [noise(seconds) for seconds in (4, 9, 40, 70)]
    with wb.Transcriber(engine) as asr:
        transcripts = [*asr.transcribe_many(clips, vad=False, **options)]
    assert all(transcript.chunks for transcript in transcripts)
    assert bool(gpus.of("detect_language")) is ("language" not in options)
    assert sum(call.rows for call in gpus.of("encode")) >= sum(
        call.rows for method in ("detect_language", "generate") for call in gpus.of(method)
    )


def test_only_a_gpu_encodes_again(gpus: FakeGpus, directory: Path) -> None:
    assert EngineTraits.of(gpus.engine(directory)).encodes_again


def test_rows_are_sampled_in_one_call_of_the_loaded_model(gpus: FakeGpus, directory: Path) -> None:
    engine = gpus.engine(directory)
    rows = [request("en", Sampling(0.7, 3, seed)) for seed in (5, 6)]
    decoded = engine.decode(engine.encode(features(2)), rows, OPTIONS)
    assert [row.hypothesis.tokens for row in decoded] == [TEXT, TEXT]
    [call] = gpus.of("generate")
    expected = {"num_hypotheses": 3, "sampling_topk": 0, "sampling_temperature": 0.7}
    assert expected.items() <= call.arguments.items()
    assert len(gpus.loaded) == 1
    assert gpus.seeds == [5]
    with pytest.raises(OptionError, match="all sampled, or none"):
        engine.decode(engine.encode(features(2)), [rows[0], request()], OPTIONS)


def test_alignment_has_a_call_for_each_start_sequence(gpus: FakeGpus, directory: Path) -> None:
    engine = gpus.engine(directory)
    texts = [AlignRequest(start(name), TEXT, 200) for name in ("en", "fr", "en")]
    texts.append(AlignRequest(start("fr"), (), 200))
    alignments = engine.align(engine.encode(features(4)), texts)
    assert [len(alignment.starts) for alignment in alignments] == [2, 2, 2, 0]
    tokens = {call.arguments["start"]: call.arguments["tokens"] for call in gpus.of("align")}
    assert tokens == {
        start("en"): [[*TEXT], [], [*TEXT], []],
        start("fr"): [[], [*TEXT], [], []],
    }


def fail_on(gpu: int, text: str, method: str = "generate") -> Callable[[GpuCall], None]:
    def fail(call: GpuCall) -> None:
        if (call.gpu, call.method) == (gpu, method):
            raise RuntimeError(text)

    return fail


UNKNOWN = "CUDA failed with error unknown error"
NO_EXECUTION = "cuBLAS failed with status CUBLAS_STATUS_EXECUTION_FAILED"
BREAKING = [
    (ILLEGAL, False),
    ("CUDA failed with error unspecified launch failure", False),
    ("CUDA failed with error device-side assert triggered", False),
    ("CUDA failed with error uncorrectable ECC error encountered", False),
    (UNKNOWN, True),
    (NO_EXECUTION, True),
]
"""Errors after which the GPU is broken, and whether the driver must say so."""

METHODS = ("encode", "detect_language", "generate", "align")


def compute(engine: CTranslate2Engine) -> None:
    encoded = engine.encode(features(1))
    engine.detect_language(encoded)
    decode(engine, encoded)


@pytest.mark.parametrize(("text", "driver_fails"), BREAKING)
@pytest.mark.parametrize("method", METHODS)
def test_errors_that_cuda_repeats_break_the_engine(
    gpus: FakeGpus,
    directory: Path,
    caplog: pytest.LogCaptureFixture,
    *,
    text: str,
    method: str,
    driver_fails: bool,
) -> None:
    engine = gpus.engine(directory)
    gpus.failing = {0} if driver_fails else set()
    gpus.fail = fail_on(0, text, method)
    with pytest.raises(BrokenDeviceError, match="GPU 0 cannot be used"):
        compute(engine)
    gpus.fail = lambda call: None
    gpus.calls.clear()
    for _ in range(2):
        with pytest.raises(BrokenDeviceError) as caught:
            engine.encode(features(1))
        assert not caught.value.has_others
        begin = f"model small: GPU 0 cannot be used any more in this process ({text}"
        assert str(caught.value).startswith(begin)
        assert "; restart the process" in str(caught.value)
    assert gpus.calls == []
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    engine.close()
    assert gpus.calls == []  # CTranslate2 would end the process
    with pytest.raises(ClosedError):
        engine.encode(features(1))


@pytest.mark.parametrize(
    ("text", "driver_fails"),
    [
        (UNKNOWN, False),
        (NO_EXECUTION, False),
        ("CUDA failed with error out of memory", True),
        ("cuBLAS failed with status CUBLAS_STATUS_ALLOC_FAILED", True),
        ("The input is wrong", True),
    ],
)
@pytest.mark.parametrize("method", METHODS)
def test_other_errors_concern_one_call(
    gpus: FakeGpus, directory: Path, text: str, method: str, *, driver_fails: bool
) -> None:
    engine = gpus.engine(directory)
    gpus.failing = {0} if driver_fails else set()
    gpus.fail = fail_on(0, text, method)
    with pytest.raises(EngineError, match=text) as caught:
        compute(engine)
    assert not isinstance(caught.value, BrokenDeviceError)
    gpus.fail = lambda call: None
    compute(engine)


def test_a_broken_engine_fails_each_recording_at_once(
    gpus: FakeGpus, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = gpus.engine(directory, inter_threads=1)
    gpus.fail = fail_on(0, ILLEGAL)
    with wb.Transcriber(engine) as asr, caplog.at_level(logging.WARNING):
        for _ in range(2):
            with pytest.raises(wb.EngineError, match="restart the process"):
                [*asr.transcribe_many([noise(30)] * 20, vad=False, language="en")]
    assert len(gpus.of("generate")) == 1  # no row was computed again
    assert [record.levelname for record in caplog.records].count("ERROR") == 1


def test_the_rows_of_a_broken_gpu_are_computed_on_the_other(
    gpus: FakeGpus, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = gpus.engine(directory, device_index=(0, 1))
    gpus.fail = fail_on(1, ILLEGAL)
    with wb.Transcriber(engine) as asr, caplog.at_level(logging.WARNING):
        for _ in range(2):
            transcripts = [
                *asr.transcribe_many([noise(100)] * 6, vad=False, language="en", batch_size=2)
            ]
            assert [bool(transcript.segments) for transcript in transcripts] == [True] * 6
    failed = [call for call in gpus.of("generate") if call.gpu == 1]
    assert 1 <= len(failed) <= 2  # two workers
    assert "the other GPUs go on" in caplog.text
    engine.close()
    assert [call.gpu for call in gpus.of("unload_model")] == [0]


def test_rows_that_break_every_gpu_fail(gpus: FakeGpus, directory: Path) -> None:
    """A row is tried on two GPUs only."""
    engine = gpus.engine(directory, device_index=(0, 1, 2), inter_threads=1)

    def fail(call: GpuCall) -> None:
        if call.method == "generate":
            raise RuntimeError(ILLEGAL)

    gpus.fail = fail
    with wb.Transcriber(engine) as asr, pytest.raises(wb.EngineError, match="cannot be used"):
        asr.transcribe(noise(20), vad=False, language="en")
    assert len(gpus.of("generate")) == 2


@pytest.mark.parametrize(
    ("version", "warnings"), [("4.5.0", 1), ("4.8.0", 1), ("4.8.1", 0), ("5.0", 0)]
)
def test_old_versions_are_reported_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, version: str, warnings: int
) -> None:
    cuda.warn_of_old_version.cache_clear()
    monkeypatch.setattr(cuda, "version", lambda _: version)
    for _ in range(2):
        cuda.warn_of_old_version()
    cuda.warn_of_old_version.cache_clear()
    assert len(caplog.messages) == warnings
    assert all('pip install "ctranslate2>=4.8.1"' in message for message in caplog.messages)


def test_a_gpu_asks_for_the_version_and_a_cpu_does_not(
    gpus: FakeGpus, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(engine_module, "warn_of_old_version", lambda: asked.append(True))
    gpus.engine(directory)
    assert len(asked) == 1
    model = ModelInfo.read(directory, "small")
    CTranslate2Engine(model, device="cpu", load_weights=False).close()
    assert len(asked) == 1


def test_old_versions_need_more_memory(
    gpus: FakeGpus, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uses = []
    for version in ("4.8.0", "4.8.1"):
        monkeypatch.setattr(cuda, "version", lambda _, version=version: version)
        uses.append(gpus.engine(directory)._memory_use())
    old, new = uses
    assert old.row - new.row == 2 * 2 * 1500 * 1500  # bytes, heads, scores
    assert (old.weights, old.hypothesis) == (new.weights, new.hypothesis)
