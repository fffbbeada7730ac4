"""Findings about engines, from what their trials return."""

from collections.abc import Mapping
from typing import Any

import pytest

from whisperbatch.doctor import engines
from whisperbatch.doctor.clip import MAX_WORD_ERRORS, TEXT, word_errors
from whisperbatch.doctor.engines import Devices, Trial, check_engines, find_devices, trials
from whisperbatch.doctor.findings import Finding
from whisperbatch.doctor.processes import ProbeResult
from whisperbatch.doctor.weights import Weights

WEIGHTS = Weights("tiny.en", "/weights", ctranslate2=True)
GPU = (Trial("ctranslate2", "cuda", 0, "float16"), Trial("ctranslate2", "cuda", 0, "bfloat16"))


def transcribed(*texts: str, speed: float = 20.0) -> ProbeResult:
    return ProbeResult({"texts": texts, "times_real_time": speed, "peak_bytes": 1})


def check(
    monkeypatch: pytest.MonkeyPatch, group: Mapping[Trial, ProbeResult]
) -> tuple[list[Finding], list[str]]:
    results = iter(group.values())
    settings: list[Any] = []

    def run_probe(name: str, **arguments: object) -> ProbeResult:
        assert name == "transcribe_clip"
        settings.append(arguments["settings"])
        return next(results)

    monkeypatch.setattr(engines, "run_probe", run_probe)
    shown: list[str] = []
    found = check_engines([list(group)], WEIGHTS, time_limit=60, show_status=shown.append)
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


def test_correct_text_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    (finding,), shown = check(monkeypatch, {Trial("openvino"): transcribed(TEXT, TEXT)})
    assert finding.level == "ok"
    assert finding.message == "openvino on cpu: correct text, 20.0 x real time"
    assert finding.measured["times_real_time"] == 20
    assert shown == ["openvino on cpu, auto"]


def test_empty_text_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    (finding,), _ = check(monkeypatch, {Trial("torch"): transcribed(" ")})
    assert finding.level == "problem"
    assert finding.message == "torch on cpu: the text is empty"
    assert "--model tiny.en" in finding.fix


def test_other_text_is_a_problem_even_in_one_row_of_a_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong = "land" * 100
    (finding,), _ = check(monkeypatch, {Trial("torch"): transcribed(TEXT, TEXT, wrong, TEXT)})
    assert finding.level == "problem"
    assert "the text is wrong (word errors: 100%): 'landland" in finding.message
    assert len(finding.message) < 150


def test_the_fix_names_a_compute_type_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    results = dict(zip(GPU, (transcribed("!!!!!!"), transcribed(TEXT)), strict=True))
    (float16, bfloat16), _ = check(monkeypatch, results)
    assert (float16.level, bfloat16.level) == ("problem", "ok")
    assert float16.message.startswith("ctranslate2 on cuda 0, float16: the text is wrong")
    assert float16.fix == "give --compute-type bfloat16, which works on this device"


def test_all_compute_types_of_a_gpu_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    results = dict.fromkeys(GPU, transcribed(TEXT))
    assert [finding.level for finding in check(monkeypatch, results)[0]] == ["ok", "ok"]


def test_on_the_cpu_a_compute_type_is_tried_after_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    int8, float32 = (Trial("ctranslate2", compute_type=name) for name in ("int8", "float32"))
    found, _ = check(monkeypatch, {int8: transcribed(TEXT), float32: transcribed(TEXT)})
    assert len(found) == 1
    found, _ = check(monkeypatch, {int8: transcribed(""), float32: transcribed(TEXT)})
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
def test_a_trial_without_result_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, result: ProbeResult, fix: str
) -> None:
    (finding,), _ = check(monkeypatch, {Trial("torch"): result})
    assert finding.level == "problem"
    assert finding.message == f"torch on cpu: {result.failure}"
    assert fix in finding.fix


def test_slower_than_real_time_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    (finding,), _ = check(monkeypatch, {Trial("torch"): transcribed(TEXT, speed=0.5)})
    assert finding.level == "warning"
    assert "slower than real time (0.50 x)" in finding.message


def test_every_engine_and_device_is_tried() -> None:
    devices = Devices(("int8", "float32"), (("float16",), ("float32",)), 1, openvino=True)
    gpus = [
        [Trial("ctranslate2", "cuda", 0, "float16")],
        [Trial("ctranslate2", "cuda", 1, "float32")],
        [Trial("torch", "cuda", 0)],
    ]
    int8, float32 = (Trial("ctranslate2", compute_type=name) for name in ("int8", "float32"))
    cpu = [[Trial("openvino")], [Trial("onnxruntime")], [int8, float32], [Trial("torch")]]
    assert trials(devices, "auto") == gpus + cpu
    assert trials(devices, "cuda") == gpus
    assert trials(devices, "cpu") == cpu
    assert trials(devices, "cpu", ctranslate2=False) == [[Trial("torch")]]
    assert trials(Devices(), "auto", ctranslate2=False) == []


def test_settings_are_keywords_of_load() -> None:
    assert Trial("openvino").settings() == {"engine": "openvino", "device": "cpu"}
    settings = Trial("ctranslate2", "cuda", 1, "float16").settings()
    assert settings == {
        "engine": "ctranslate2",
        "device": "cuda",
        "device_index": 1,
        "compute_type": "float16",
    }


def probes(gpus: int, openvino: ProbeResult) -> dict[str, ProbeResult]:
    return {
        "find_devices": ProbeResult({"cpu": ["int8"], "cuda": [["float16"]] * gpus}),
        "find_torch_devices": ProbeResult({"cuda": gpus}),
        "check_openvino": openvino,
    }


def test_a_missing_openvino_is_a_warning_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = ProbeResult({}, "OpenVINO is not installed: pip install X")
    monkeypatch.setattr(engines, "onnxruntime_is_fastest", lambda: False)
    for gpus, device, levels in ((0, "auto", ["warning"]), (1, "auto", []), (1, "cuda", [])):
        results = probes(gpus, missing)
        monkeypatch.setattr(engines, "run_probe", lambda name, r=results, **_: r[name])
        devices, found = find_devices(device, 60)
        assert [finding.level for finding in found] == levels
        assert not devices.openvino
        assert all(finding.message == "OpenVINO is not installed" for finding in found)
        assert all("pip install --upgrade 'whisperbatch[openvino]'" in f.fix for f in found)
    monkeypatch.setattr(engines, "onnxruntime_is_fastest", lambda: True)
    assert [finding.level for finding in find_devices("cpu", 60)[1]] == ["warning"]  # too old
    monkeypatch.setattr(engines, "find_spec", lambda _: None)
    assert find_devices("cpu", 60)[1] == []


def test_an_engine_whose_devices_are_unknown_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    results = probes(0, ProbeResult({}))
    results["find_devices"] = ProbeResult({}, "its process was ended by SIGSEGV")
    monkeypatch.setattr(engines, "run_probe", lambda name, **_: results[name])
    devices, (finding,) = find_devices("auto", 60)
    assert finding.level == "problem"
    assert finding.fix == "pip install --upgrade --force-reinstall ctranslate2"
    assert devices.cpu == ()
