"""Findings about the model and the engines, from what their trials return."""

from functools import partial
from pathlib import Path

import pytest

from tests.unit.test_machine import tree
from whisperbatch.doctor import clip
from whisperbatch.doctor.clip import (
    MAX_WORD_ERRORS,
    TEXT,
    Devices,
    Trial,
    Weights,
    check_engines,
    check_weights,
    find_devices,
    trials,
    word_errors,
)
from whisperbatch.doctor.findings import Finding
from whisperbatch.doctor.probes import ProbeResult, run_probe

WEIGHTS = Weights("tiny.en", "/weights", ctranslate2=True)


def on_cpu(engine: str, **settings: str) -> Trial:
    return {"engine": engine, "device": "cpu", **settings}


def on_gpu(engine: str, index: int, **settings: str) -> Trial:
    return {"engine": engine, "device": "cuda", "device_index": index, **settings}


GPU = [on_gpu("ctranslate2", 0, compute_type=name) for name in ("float16", "bfloat16")]
CPU = [on_cpu("ctranslate2", compute_type=name) for name in ("int8", "float32")]


def transcribed(*texts: str, speed: float = 20.0) -> ProbeResult:
    return ProbeResult({"texts": texts, "times_real_time": speed, "peak_bytes": 1})


def check(*tried: tuple[Trial, ProbeResult]) -> tuple[list[Finding], list[str]]:
    results = iter(tried)
    shown: list[str] = []

    def probe(name: str, *, directory: str, settings: Trial) -> ProbeResult:
        trial, result = next(results)
        assert (name, directory, settings) == ("transcribe_clip", "/weights", trial)
        return result

    found = check_engines(probe, [[trial for trial, _ in tried]], WEIGHTS, shown.append)
    return list(found), shown


@pytest.mark.parametrize("text", [TEXT, TEXT.upper().replace(".", " ..."), f" {TEXT} "])
def test_the_same_words_are_no_errors(text: str) -> None:
    assert word_errors(text) == 0


@pytest.mark.parametrize(
    "text",
    [
        *("", "...", "Thank you for watching!", "he was he was he was he was he was he was"),
        "! ! ! ! ! ! ! ! ! ! ! !",
        "landland" * 30,
        TEXT + " " + "He was not an ill-disposed young man. " * 3,
        "He was not an ill-disposed young man, unless to be rather cold hearted and rather selfish",
        " ".join(reversed(TEXT.split())),
    ],
)
def test_other_text_is_wrong(text: str) -> None:
    assert word_errors(text) > MAX_WORD_ERRORS


@pytest.mark.parametrize(("old", "new"), [("amiable", "amicable"), ("more respectable ", "")])
def test_a_few_errors_are_not_wrong(old: str, new: str) -> None:
    assert 0 < word_errors(TEXT.replace(old, new)) < MAX_WORD_ERRORS


def test_correct_text_is_fine() -> None:
    (finding,), shown = check((on_cpu("openvino"), transcribed(TEXT, TEXT)))
    assert finding.level == "ok"
    assert finding.message == "openvino on cpu: correct text, 20.0 x real time"
    assert finding.measured["times_real_time"] == 20
    assert shown == ["openvino on cpu, auto"]


def test_empty_text_is_a_problem() -> None:
    (finding,), _ = check((on_cpu("torch"), transcribed(" ")))
    assert finding.level == "problem"
    assert finding.message == "torch on cpu: the text is empty"
    assert "--model tiny.en" in finding.fix


def test_other_text_is_a_problem_even_in_one_row_of_a_batch() -> None:
    wrong = "land" * 100
    (finding,), _ = check((on_cpu("torch"), transcribed(TEXT, TEXT, wrong, TEXT)))
    assert finding.level == "problem"
    assert "the text is wrong (word errors: 100%): 'landland" in finding.message
    assert len(finding.message) < 150


def test_the_fix_names_a_compute_type_that_works() -> None:
    results = (transcribed("!!!!!!"), transcribed(TEXT))
    (float16, bfloat16), _ = check(*zip(GPU, results, strict=True))
    assert (float16.level, bfloat16.level) == ("problem", "ok")
    assert float16.message.startswith("ctranslate2 on cuda 0, float16: the text is wrong")
    assert float16.fix == "give --compute-type bfloat16, which works on this device"


def test_all_compute_types_of_a_gpu_are_tried() -> None:
    found, _ = check(*((trial, transcribed(TEXT)) for trial in GPU))
    assert [finding.level for finding in found] == ["ok", "ok"]


def test_on_the_cpu_a_compute_type_is_tried_after_a_failure() -> None:
    int8, float32 = CPU
    found, _ = check((int8, transcribed(TEXT)), (float32, transcribed(TEXT)))
    assert len(found) == 1
    found, _ = check((int8, transcribed("")), (float32, transcribed(TEXT)))
    assert [finding.level for finding in found] == ["problem", "ok"]


@pytest.mark.parametrize(
    ("result", "fix"),
    [
        (ProbeResult({}, "its process was ended by SIGABRT: libcudnn_ops.so.9"), "one cuDNN 9"),
        (ProbeResult({}, "its process was ended by SIGKILL"), "free memory"),
        (ProbeResult({}, "its process was ended by SIGSEGV"), "--force-reinstall torch"),
        (ProbeResult({}, "no result within 60 s"), "--force-reinstall torch"),
        (ProbeResult({}, "RuntimeError: CUDA failed with out of memory"), "smaller model"),
        (ProbeResult({}, "x", "do this"), "do this"),
    ],
)
def test_a_trial_without_result_is_a_problem(result: ProbeResult, fix: str) -> None:
    (finding,), _ = check((on_cpu("torch"), result))
    assert finding.level == "problem"
    assert finding.message == f"torch on cpu: {result.failure}"
    assert fix in finding.fix


def test_slower_than_real_time_is_a_warning() -> None:
    (finding,), _ = check((on_cpu("torch"), transcribed(TEXT, speed=0.5)))
    assert finding.level == "warning"
    assert "slower than real time (0.50 x)" in finding.message


def test_every_engine_and_device_is_tried() -> None:
    devices = Devices(("int8", "float32"), (("float16",), ("float32",)), 1, openvino=True)
    gpus = [
        [on_gpu("ctranslate2", 0, compute_type="float16")],
        [on_gpu("ctranslate2", 1, compute_type="float32")],
        [on_gpu("torch", 0)],
    ]
    cpu = [[on_cpu("openvino")], [on_cpu("onnxruntime")], CPU, [on_cpu("torch")]]
    assert trials(devices, "auto") == gpus + cpu
    assert trials(devices, "cuda") == gpus
    assert trials(devices, "cpu") == cpu
    assert trials(devices, "cpu", ctranslate2=False) == [[on_cpu("torch")]]
    assert trials(Devices(), "auto", ctranslate2=False) == []


def probes(gpus: int, openvino: ProbeResult) -> dict[str, ProbeResult]:
    return {
        "find_devices": ProbeResult({"cpu": ["int8"], "cuda": [["float16"]] * gpus}),
        "find_torch_devices": ProbeResult({"cuda": gpus}),
        "check_openvino": openvino,
    }


def test_a_missing_openvino_is_a_warning_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = ProbeResult({}, "OpenVINO is not installed: pip install X")
    monkeypatch.setattr(clip, "multiplies_bfloat16", lambda: True)
    for gpus, device, levels in ((0, "auto", ["warning"]), (1, "auto", []), (1, "cuda", [])):
        devices, found = find_devices(probes(gpus, missing).__getitem__, device)
        assert [finding.level for finding in found] == levels
        assert not devices.openvino
        assert all(finding.message == "OpenVINO is not installed" for finding in found)
        assert all("pip install --upgrade 'whisperbatch[openvino]'" in f.fix for f in found)
    monkeypatch.setattr(clip, "multiplies_bfloat16", lambda: False)
    monkeypatch.setattr(clip, "has_avx2", lambda: True)
    assert [
        finding.level for finding in find_devices(probes(0, missing).__getitem__, "cpu")[1]
    ] == ["warning"]  # too old
    monkeypatch.setattr(clip, "find_spec", lambda _: None)
    assert find_devices(probes(0, missing).__getitem__, "cpu")[1] == []


def test_an_engine_whose_devices_are_unknown_is_a_problem() -> None:
    results = probes(0, ProbeResult({}))
    results["find_devices"] = ProbeResult({}, "its process was ended by SIGSEGV")
    devices, (finding,) = find_devices(results.__getitem__, "auto")
    assert finding.level == "problem"
    assert finding.fix == "pip install --upgrade --force-reinstall ctranslate2"
    assert devices.cpu == ()


def test_weights_that_are_not_found_are_a_problem(tmp_path: Path) -> None:
    found, (only,) = check_weights(partial(run_probe, time_limit=60), str(tmp_path), root=tmp_path)
    assert found is None
    assert only.level == "problem"
    assert only.message == f"{tmp_path / 'model.bin'}: is missing"
    assert only.fix == "give a directory of CTranslate2 weights"


@pytest.mark.parametrize(("kilobytes", "level"), [(1_000_000, "ok"), (400_000, "warning")])
def test_weights_need_memory(tmp_path: Path, kilobytes: int, level: str) -> None:
    values = {"model": "x", "directory": "/x", "bytes": 200_000_000, "ctranslate2": True}
    root = tree(tmp_path, {"proc/meminfo": f"MemAvailable: {kilobytes} kB\n"})
    found, (complete, memory) = check_weights(lambda *_, **__: ProbeResult(values), "x", root=root)
    assert found == Weights("x", "/x", ctranslate2=True)
    assert complete.level == "ok"
    assert (memory.subject, memory.level) == ("memory", level)
    assert "x needs about 0.5 GB" in memory.message
