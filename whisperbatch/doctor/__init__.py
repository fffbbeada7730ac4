"""Checks of an installation, and the fix of each problem: the command `whisperbatch doctor`.

    packages.py     versions, conflicts, imports, interfaces, extras
    machine.py      processor, CPU quota, rights and space in caches, GPUs
    clip.py         decoder, speech detection, diarizer; each engine transcribes the clip
    probes.py       functions that call libraries, each in a separate process
    findings.py     the results of checks, as lines or as JSON; fixes for messages of libraries

The command must run even if a library is missing, damaged, or crashes. Therefore only probes
import libraries or the rest of whisperbatch (except `dependencies`, `errors` and
`runtimes.machine`, which import no library), and run in another process.
"""

import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from whisperbatch.doctor.clip import (
    check_decoder,
    check_diarizer,
    check_engines,
    check_speech_detection,
    check_weights,
    find_devices,
    trials,
)
from whisperbatch.doctor.findings import Finding, has_problems, line, summary, to_json
from whisperbatch.doctor.machine import check_gpus, check_machine, check_storage
from whisperbatch.doctor.packages import (
    check_conflicts,
    check_imports,
    check_interfaces,
    check_versions,
)
from whisperbatch.doctor.probes import Probe, run_probe

__all__ = ["TIME_LIMIT", "Finding", "diagnose", "has_problems", "line", "summary", "to_json"]


TIME_LIMIT: Final = 300.0  # seconds for each check


def diagnose(
    *,
    model: str = "",
    revision: str | None = None,
    device: str = "auto",
    time_limit: float = TIME_LIMIT,
    root: Path = Path("/"),
    show_status: Callable[[str], None] = lambda _: None,
) -> Iterator[Finding]:
    """Check an installation. The checks only change caches: weights are downloaded, converted.

    Args:
        model: the model to transcribe with; "" is the default model or another local model.
        revision: of the model on the hub; None for the cached or the newest one.
        device: "auto", "cpu" or "cuda": the devices to check.
        time_limit: seconds for each check that runs in a separate process.
        root: folder that contains `dev`, `proc`, `sys` and `usr`.
        show_status: is called with the name of each check before the check.

    Yields:
        The findings of all checks, each as soon as its check ends.
    """
    probe = partial(run_probe, time_limit=time_limit)
    run = partial(_run, show_status)
    yield from run("packages", check_versions)
    yield from run("packages", check_conflicts)
    imports = list(run("imports", partial(check_imports, probe)))
    yield from imports
    yield from run("machine", partial(check_machine, root))
    if any(finding.level == "problem" for finding in imports):
        message = (
            "storage, audio, weights and engines were not checked, because they need the "
            "packages that do not import"
        )
        yield Finding("warning", "doctor", message, "repair the packages, then run doctor again")
        return
    for name, check in (
        ("interfaces", check_interfaces),
        ("storage", check_storage),
        ("audio", check_decoder),
        ("speech detection", check_speech_detection),
        ("diarization", check_diarizer),
    ):
        yield from run(name, partial(check, probe))
    check_model = partial(_check_model, probe, model, revision, device, root, show_status)
    yield from run("weights and engines", check_model)


def _run(
    show_status: Callable[[str], None], name: str, check: Callable[[], Iterable[Finding]]
) -> Iterator[Finding]:
    """Yield the findings of a check; its exception becomes a finding."""
    show_status(name)
    try:
        yield from check()
    except Exception as error:  # noqa: BLE001 - the other checks must run
        message = f"the check of {name} failed: {type(error).__name__}: {error}"
        fix = "report this line and the output of doctor -v as a bug of whisperbatch"
        yield Finding("problem", "doctor", message, fix, traceback.format_exc())


def _check_model(  # noqa: PLR0917 - those of `diagnose`
    probe: Probe,
    model: str,
    revision: str | None,
    device: str,
    root: Path,
    show_status: Callable[[str], None],
) -> Iterator[Finding]:
    weights, findings = check_weights(probe, model, revision=revision, root=root)
    yield from findings
    show_status("devices")
    devices, findings = find_devices(probe, device)
    yield from findings
    yield from check_gpus(probe, device, len(devices.cuda), root)
    if weights is None:
        message = "were not checked, without weights"
        yield Finding("warning", "engines", message, "repair the weights")
        return
    groups = trials(devices, device, ctranslate2=weights.ctranslate2)
    if not groups:
        fix = "use --device cpu"
        if not weights.ctranslate2 and devices.torch_gpus is None:
            extra = "pip install 'whisperbatch[torch]'"
            fix = f"{extra}: only PyTorch reads the format of these weights"
        message = f"no engine can run {weights.name} with device {device}"
        yield Finding("problem", "engines", message, fix)
    yield from check_engines(probe, groups, weights, show_status)
