"""Checks with the clip: decoder, speech detection, diarizer, model, each engine on each device."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeAlias

from whisperbatch.doctor.findings import Finding, Level, known_fix
from whisperbatch.doctor.packages import is_complete
from whisperbatch.doctor.probes import SECONDS, Probe, ProbeResult
from whisperbatch.runtimes.machine import available_memory, has_avx2, multiplies_bfloat16

CODECS: Final = ("mp3", "aac", "opus", "vorbis", "flac", "alac", "wmav2", "pcm_s16le")
"""Codecs of most audio and video files, as FFmpeg calls them."""
MIN_SPEECH: Final = 0.5
"""Fraction of the clip. Silero finds 95 % of the clip to be speech, with the pauses inside."""


BASE_MEMORY: Final = 450e6  # bytes; a process with base takes 650 MB at beam 5
MEMORY_PER_BYTE: Final = 1.3
"""Bytes of memory for each byte of the weights in float16. The clip takes 329 MB with tiny.en
(76 MB) and 435 MB with base (145 MB) on OpenVINO, and 267 and 379 MB on CTranslate2 in int8."""
TEXT: Final = (
    "Had he married a more amiable woman, he might have been made still more respectable than he "
    "was. He might even have been made amiable himself."
)
"""The exact text of the clip."""
MAX_WORD_ERRORS: Final = 0.35
"""A transcript with a larger fraction of wrong words is wrong.

tiny.en and base, the smallest models, make no error in the clip on any engine, in any compute type.
Text of a broken engine (random tokens, loops, a stock phrase) shares hardly a word with the clip.
"""
SHOWN: Final = 60  # characters of a wrong transcript
CPU: Final = "cpu"
REINSTALL: Final = "pip install --upgrade --force-reinstall"
INSTALL_OPENVINO: Final = (
    "pip install --upgrade 'whisperbatch[openvino]', for the fastest encoder on this CPU"
)

Trial: TypeAlias = dict[str, Any]
"""An engine on a device, to be tried with the clip: the keywords of `whisperbatch.load`."""


def check_decoder(probe: Probe) -> Iterator[Finding]:
    """Decode the clip, and look for the decoders of common codecs."""
    result, fix = probe("decode_audio", codecs=CODECS), f"{REINSTALL} av"
    if result.failure:
        message = f"a recording cannot be decoded: {result.failure}"
        yield Finding("problem", "audio", message, result.fix_or(fix), result.details)
        return
    seconds, missing = result.values["seconds"], result.values["missing"]
    if abs(seconds - SECONDS) > 0.1:  # noqa: PLR2004 - a tenth of a second
        message = f"{seconds:.1f} s were decoded of a recording of {SECONDS:.1f} s"
        yield Finding("problem", "audio", message, fix)
    elif missing:
        message = f"PyAV cannot decode {', '.join(missing)}: its FFmpeg was built without them"
        fix += "; a build of PyAV from source has the codecs of the system's FFmpeg"
        yield Finding("warning", "audio", message, fix)
    else:
        yield Finding("ok", "audio", f"decodes {', '.join(CODECS)}")


def check_speech_detection(probe: Probe) -> Iterator[Finding]:
    """Detect the speech in the clip."""
    subject, fix = "speech detection", f"{REINSTALL} onnxruntime faster-whisper"
    result = probe("detect_speech")
    if result.failure:
        message = f"fails: {result.failure}"
        yield Finding("problem", subject, message, result.fix_or(fix), result.details)
    elif (found := result.values["seconds"]) < MIN_SPEECH * SECONDS:
        message = f"finds {found:.1f} s of speech in {SECONDS:.1f} s of speech"
        yield Finding("problem", subject, message, f"{fix}; until then, transcribe with vad=False")
    else:
        yield Finding("ok", subject, "finds the speech of the test recording")


def check_diarizer(probe: Probe) -> Iterator[Finding]:
    """Find the weights of the diarizer, and the speaker of the clip.

    Weights that are installed but not converted yet are converted.
    """
    subject, reinstall = "diarization", f"{REINSTALL} onnxruntime"

    def failed(result: ProbeResult) -> Finding:
        """Return the finding of a failure, whose message may end with a command."""
        message, _, command = result.failure.partition(": pip install")
        stated = result.fix or (f"pip install{command}" if command else "")
        fix = stated or known_fix(result.details) or reinstall
        return Finding("warning", subject, f"diarize fails: {message}", fix, result.details)

    weights = probe("diarizer_state")
    if weights.failure:
        yield failed(weights)
        return
    state, place = weights.values["state"], weights.values["place"]
    if state == "missing":
        yield Finding("ok", subject, f"is not installed; diarize needs it: {place}")
        return
    if state == "damaged":
        message = f"a converted network in {place} is damaged"
        fix = "it is made again now; if this line comes back, check the disk"
        yield Finding("warning", subject, message, fix)
    result = probe("diarize_clip")
    if result.failure:
        yield failed(result)
    elif (speakers := result.values["speakers"]) != 1:
        message = f"finds {speakers} speakers in a recording of one speaker"
        yield Finding("warning", subject, message, reinstall)
    else:
        speed, place = SECONDS / result.values["seconds"], result.values["place"]
        yield Finding(
            "ok",
            subject,
            f"finds the speaker of the test recording, {speed:.1f} x real time; "
            f"the weights are in {place}",
            measured={"times_real_time": round(speed, 1)},
        )


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a model that were found.

    Attributes:
        name: name of the model.
        directory: contains the weights.
        ctranslate2: whether they are in CTranslate2's format, not in that of transformers.
    """

    name: str
    directory: str
    ctranslate2: bool


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices of the installed engines.

    Attributes:
        cpu: compute types that CTranslate2 may choose on the CPU, best first.
        cuda: for each GPU, the compute types that CTranslate2 may choose, best first.
        torch_gpus: number of GPUs that PyTorch finds; None if the extra `torch` is not installed.
        openvino: whether OpenVINO is installed in a usable version.
    """

    cpu: Sequence[str] = ()
    cuda: Sequence[Sequence[str]] = ()
    torch_gpus: int | None = None
    openvino: bool = False


def check_weights(
    probe: Probe, model: str, *, revision: str | None = None, root: Path
) -> tuple[Weights | None, list[Finding]]:
    """Find the weights, check their files, and compare their size with the memory.

    Args:
        probe: finds the weights, or downloads them.
        model: a name, directory or repository; "" is the default model or another local model.
        revision: of the model on the hub; None for the cached or the newest one.
        root: folder that contains `proc` and `sys`.

    Returns:
        The weights, None if they cannot be used; and the findings.
    """
    transformers = is_complete("torch")
    result = probe("find_weights", model=model, revision=revision, transformers=transformers)
    if result.failure:
        fix = result.fix_or("choose another model with --model")
        return None, [Finding("problem", "weights", result.failure, fix, result.details)]
    name, folder, size = (result.values[key] for key in ("model", "directory", "bytes"))
    message = f"{name}: {size / 1e6:.0f} MB, complete, in {folder}"
    findings = [Finding("ok", "weights", message), *_check_memory(name, size, root)]
    return Weights(name, folder, result.values["ctranslate2"]), findings


def _check_memory(name: str, size: int, root: Path) -> Iterator[Finding]:
    """Compare the memory that weights of `size` bytes need with the available memory."""
    memory, needed = available_memory(root), BASE_MEMORY + MEMORY_PER_BYTE * size
    if memory is None:  # macOS and Windows
        return
    message = f"{memory / 1e9:.1f} GB are available, and {name} needs about {needed / 1e9:.1f} GB"
    level: Level = "ok" if memory >= needed else "warning"
    fix = "stop other programs, raise the memory limit of the container, or use a smaller model"
    measured = {"available_bytes": float(memory), "needed_bytes": needed}
    yield Finding(level, "memory", message, "" if level == "ok" else fix, measured=measured)


def find_devices(probe: Probe, device: str) -> tuple[Devices, list[Finding]]:
    """Find the devices of the installed engines, and the reasons why an engine cannot run."""
    findings: list[Finding] = []

    def call(name: str, level: Level, fix: str) -> ProbeResult:
        result = probe(name)
        if result.failure:
            known = known_fix(f"{result.failure} {result.details}")
            message = result.failure.partition(": pip install")[0]
            findings.append(Finding(level, "engines", message, known or fix, result.details))
        return result

    ctranslate2 = call("find_devices", "problem", f"{REINSTALL} ctranslate2").values
    types, gpus = ctranslate2.get("cpu", ()), ctranslate2.get("cuda", ())
    torch_gpus: int | None = None
    if find_spec("torch") is not None and is_complete("torch"):
        torch_gpus = call("find_torch_devices", "warning", f"{REINSTALL} torch").values.get("cuda")
    # "auto" prefers a GPU to OpenVINO
    uses_cpu = device == CPU or (device == "auto" and not gpus)
    openvino = uses_cpu and not call("check_openvino", "warning", INSTALL_OPENVINO).failure
    if has_avx2() and not multiplies_bfloat16() and find_spec("openvino") is None:
        findings = [finding for finding in findings if finding.fix != INSTALL_OPENVINO]
    return Devices(types, gpus, torch_gpus, openvino), findings


def trials(devices: Devices, device: str, *, ctranslate2: bool = True) -> list[list[Trial]]:
    """Return groups of trials; the trials of a group differ in their compute type only.

    Args:
        devices: the devices of the engines.
        device: "auto", "cpu" or "cuda": the devices to try.
        ctranslate2: whether the weights are in CTranslate2's format, which all engines read.
    """
    groups: list[list[Trial]] = []
    if device != CPU:
        gpu = {"device": "cuda"}
        for index, types in enumerate(devices.cuda if ctranslate2 else ()):
            trial = {"engine": "ctranslate2", **gpu, "device_index": index}
            groups.append([{**trial, "compute_type": name} for name in types])
        gpus = range(devices.torch_gpus or 0)
        groups += [[{"engine": "torch", **gpu, "device_index": index}] for index in gpus]
    if device != "cuda":
        engines = ["openvino"] if ctranslate2 and devices.openvino else []
        engines += ["onnxruntime"] if ctranslate2 else []
        groups += [[{"engine": name, "device": CPU}] for name in engines]
        if ctranslate2:
            trial = {"engine": "ctranslate2", "device": CPU}
            groups.append([{**trial, "compute_type": name} for name in devices.cpu])
        if devices.torch_gpus is not None:
            groups.append([{"engine": "torch", "device": CPU}])
    return [group for group in groups if group]


def check_engines(
    probe: Probe,
    groups: Sequence[Sequence[Trial]],
    weights: Weights,
    show_status: Callable[[str], None],
) -> Iterator[Finding]:
    """Transcribe the clip with each engine, on each device.

    On a GPU, all compute types are tried. On the CPU, a compute type is tried only if the types
    before it failed: base in float32 takes 13 s for the clip on two cores.
    """
    for group in groups:
        ended: list[tuple[Trial, ProbeResult, str]] = []
        for trial in group:
            show_status(f"{_place(trial)}, {trial.get('compute_type', 'auto')}")
            result = probe("transcribe_clip", directory=weights.directory, settings=trial)
            fault = result.failure or _wrong_text(result.values["texts"])
            ended.append((trial, result, fault))
            if trial["device"] == CPU and not fault:
                break
        working = [trial.get("compute_type") for trial, _, fault in ended if not fault]
        for trial, result, fault in ended:
            yield _finding(trial, result, fault, working)


def _wrong_text(texts: Sequence[str]) -> str:
    """Return the fault of the worst transcript of the clip; "" if all are correct."""
    text = max(texts, key=word_errors).strip()
    if not text:
        return "the text is empty"
    if (errors := word_errors(text)) <= MAX_WORD_ERRORS:
        return ""
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
    return f"the text is wrong (word errors: {errors:.0%}): {shown!r}"


def word_errors(text: str) -> float:
    """Return the fraction of words that differ from the clip's text: 0 is the same text.

    Letter case and punctuation do not count.
    """
    spoken, written = (re.findall(r"[^\W_]+", words.lower()) for words in (TEXT, text))
    matcher = SequenceMatcher(None, spoken, written, autojunk=False)
    equal = sum(block.size for block in matcher.get_matching_blocks())
    return (max(len(spoken), len(written)) - equal) / len(spoken)


def _place(trial: Trial) -> str:
    """Return the engine and the device, such as "ctranslate2 on cuda 1"."""
    return f"{trial['engine']} on {trial['device']} {trial.get('device_index', '')}".rstrip()


def _finding(
    trial: Trial, result: ProbeResult, fault: str, working: Sequence[str | None]
) -> Finding:
    """Return the finding of a trial.

    Args:
        trial: engine and device.
        result: of the probe.
        fault: why the text is not that of the clip; "" if it is.
        working: the compute types that work with this engine on this device.
    """
    place = ", ".join(filter(None, (_place(trial), trial.get("compute_type"))))
    if fault:
        fix = result.fix_or("") if result.failure else ""
        if not fix and working:
            fix = f"give --compute-type {working[0]}, which works on this device"
        elif not fix and result.failure:
            fix = f"{REINSTALL} {trial['engine']}, or use another engine"
        elif not fix:
            fix = (
                "if all engines fail, the weights are damaged or do not transcribe English: try "
                f"--model tiny.en; otherwise update {trial['engine']}, or use another engine"
            )
        return Finding("problem", "engines", f"{place}: {fault}", fix, result.details)
    speed, memory = result.values["times_real_time"], result.values["peak_bytes"]
    measured = {"times_real_time": round(speed, 1), "peak_memory_bytes": memory}
    if speed < 1:
        message = f"{place}: correct text, but slower than real time ({speed:.2f} x)"
        fix = "use a smaller model, or another engine or device of this list"
        return Finding("warning", "engines", message, fix, result.details, measured)
    message = f"{place}: correct text, {speed:.1f} x real time"
    return Finding("ok", "engines", message, details=result.details, measured=measured)
