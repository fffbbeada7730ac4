"""Checks of the engines: each transcribes the clip on each device, in a separate process."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

from whisperbatch.doctor.clip import MAX_WORD_ERRORS, word_errors
from whisperbatch.doctor.extras import is_complete
from whisperbatch.doctor.findings import Finding, Level
from whisperbatch.doctor.processes import ProbeResult, run_probe
from whisperbatch.doctor.remedies import remedy_for
from whisperbatch.doctor.weights import Weights
from whisperbatch.machine import onnxruntime_is_fastest

SHOWN: Final = 60  # characters of a wrong transcript
CPU: Final = "cpu"
REINSTALL: Final = "pip install --upgrade --force-reinstall"
INSTALL_OPENVINO: Final = (
    "pip install --upgrade 'whisperbatch[openvino]', for the fastest engine on this CPU"
)


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


@dataclass(frozen=True, slots=True)
class Trial:
    """An engine on a device, to be tried with the clip.

    Attributes:
        engine: name of the engine.
        device: "cpu" or "cuda".
        index: number of the GPU.
        compute_type: type of the weights and of the arithmetic.
    """

    engine: str
    device: str = CPU
    index: int = 0
    compute_type: str = "auto"

    @property
    def place(self) -> str:
        """The engine and the device, such as "ctranslate2 on cuda 1"."""
        return f"{self.engine} on {self.device}" + (f" {self.index}" if self.device != CPU else "")

    def settings(self) -> dict[str, Any]:
        """Return the keywords of `whisperbatch.load`."""
        settings: dict[str, Any] = {"engine": self.engine, "device": self.device}
        if self.device != CPU:
            settings["device_index"] = self.index
        if self.compute_type != "auto":
            settings["compute_type"] = self.compute_type
        return settings


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a trial.

    Attributes:
        trial: the trial.
        failure: why the text is not that of the clip, in one line; "" if it is.
        fix: the fix that the engine or a library states, or "".
        details: the messages of libraries.
        times_real_time: seconds of audio that are transcribed in one second.
        peak_bytes: the largest amount of memory that the process used; 0 if unknown.
    """

    trial: Trial
    failure: str = ""
    fix: str = ""
    details: str = ""
    times_real_time: float = 0.0
    peak_bytes: int = 0


def find_devices(device: str, time_limit: float) -> tuple[Devices, list[Finding]]:
    """Find the devices of the installed engines, and the reasons why an engine cannot run.

    Args:
        device: "auto", "cpu" or "cuda": the devices to look for.
        time_limit: seconds for each engine.
    """
    findings: list[Finding] = []

    def call(probe: str, level: Level, fix: str) -> ProbeResult:
        result = run_probe(probe, time_limit=time_limit)
        if result.failure:
            remedy = remedy_for(f"{result.failure} {result.details}") or fix
            message = result.failure.partition(": pip install")[0]
            findings.append(Finding(level, "engines", message, remedy, result.details))
        return result

    ctranslate2 = call("find_devices", "problem", f"{REINSTALL} ctranslate2").values
    types, gpus = ctranslate2.get("cpu", ()), ctranslate2.get("cuda", ())
    torch_gpus: int | None = None
    if find_spec("torch") is not None and is_complete("torch"):
        torch_gpus = call("find_torch_devices", "warning", f"{REINSTALL} torch").values.get("cuda")
    # "auto" prefers a GPU to OpenVINO
    uses_cpu = device == CPU or (device == "auto" and not gpus)
    openvino = uses_cpu and not call("check_openvino", "warning", INSTALL_OPENVINO).failure
    if onnxruntime_is_fastest() and find_spec("openvino") is None:
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
    torch_gpus = devices.torch_gpus or 0
    if device != CPU:
        if ctranslate2:
            for index, types in enumerate(devices.cuda):
                groups.append([Trial("ctranslate2", "cuda", index, name) for name in types])
        groups += [[Trial("torch", "cuda", index)] for index in range(torch_gpus)]
    if device != "cuda":
        if ctranslate2 and devices.openvino:
            groups.append([Trial("openvino")])
        if ctranslate2:
            groups.append([Trial("onnxruntime")])
            groups.append([Trial("ctranslate2", compute_type=name) for name in devices.cpu])
        if devices.torch_gpus is not None:
            groups.append([Trial("torch")])
    return [group for group in groups if group]


def check_engines(
    groups: Sequence[Sequence[Trial]],
    weights: Weights,
    *,
    time_limit: float,
    show_status: Callable[[str], None],
) -> Iterator[Finding]:
    """Transcribe the clip with each engine, on each device.

    On a GPU, all compute types are tried. On the CPU, a compute type is tried only if the types
    before it failed: base in float32 takes 13 s for the clip on two cores.

    Args:
        groups: from `trials`.
        weights: the model.
        time_limit: seconds for each trial.
        show_status: shows the name of the trial.
    """
    for group in groups:
        outcomes: list[Outcome] = []
        for trial in group:
            show_status(f"{trial.place}, {trial.compute_type}")
            outcomes.append(run_trial(trial, weights, time_limit))
            if trial.device == CPU and not outcomes[-1].failure:
                break
        for outcome in outcomes:
            yield _finding(outcome, outcomes)


def run_trial(trial: Trial, weights: Weights, time_limit: float) -> Outcome:
    """Transcribe the clip in a new process, and compare the text with that of the clip.

    Args:
        trial: engine and device.
        weights: the model.
        time_limit: seconds.
    """
    result = run_probe(
        "transcribe_clip",
        time_limit=time_limit,
        directory=weights.directory,
        settings=trial.settings(),
    )
    if result.failure:
        fix = result.fix or remedy_for(f"{result.failure} {result.details}") or ""
        return Outcome(trial, result.failure, fix, result.details)
    return Outcome(
        trial,
        _wrong_text(result.values["texts"]),
        details=result.details,
        times_real_time=result.values["times_real_time"],
        peak_bytes=result.values["peak_bytes"],
    )


def _wrong_text(texts: Sequence[str]) -> str:
    """Return the fault of the worst transcript of the clip; "" if all are correct."""
    text = max(texts, key=word_errors).strip()
    if not text:
        return "the text is empty"
    if (errors := word_errors(text)) <= MAX_WORD_ERRORS:
        return ""
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
    return f"the text is wrong (word errors: {errors:.0%}): {shown!r}"


def _finding(outcome: Outcome, group: Sequence[Outcome]) -> Finding:
    """Return the finding of a trial.

    Args:
        outcome: of the trial.
        group: outcomes of the same engine and device with other compute types.
    """
    trial, speed = outcome.trial, outcome.times_real_time
    place = trial.place
    if trial.compute_type != "auto":
        place += f", {trial.compute_type}"
    if outcome.failure:
        return Finding(
            "problem",
            "engines",
            f"{place}: {outcome.failure}",
            _fix(outcome, group),
            outcome.details,
        )
    measured = {"times_real_time": round(speed, 1), "peak_memory_bytes": outcome.peak_bytes}
    if speed < 1:
        return Finding(
            "warning",
            "engines",
            f"{place}: correct text, but slower than real time ({speed:.2f} x)",
            "use a smaller model, or another engine or device of this list",
            outcome.details,
            measured,
        )
    message = f"{place}: correct text, {speed:.1f} x real time"
    return Finding("ok", "engines", message, details=outcome.details, measured=measured)


def _fix(outcome: Outcome, group: Sequence[Outcome]) -> str:
    """Return how to avoid the failure of a trial."""
    working = [other.trial.compute_type for other in group if not other.failure]
    if outcome.fix:
        return outcome.fix
    if working:
        return f"give --compute-type {working[0]}, which works on this device"
    if outcome.failure.startswith("the text is"):
        return (
            "if all engines fail, the weights are damaged or do not transcribe English: try "
            f"--model tiny.en; otherwise update {outcome.trial.engine}, or use another engine"
        )
    return f"{REINSTALL} {outcome.trial.engine}, or use another engine"
