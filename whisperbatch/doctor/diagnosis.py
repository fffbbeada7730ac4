"""All checks, in the order in which a reader can fix their findings."""

import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from whisperbatch.doctor.audio import check_decoder, check_speech_detection
from whisperbatch.doctor.cuda import check_cuda
from whisperbatch.doctor.diarization import check_diarizer
from whisperbatch.doctor.engines import Devices, check_engines, find_devices, trials
from whisperbatch.doctor.findings import Finding
from whisperbatch.doctor.machine import check_machine
from whisperbatch.doctor.packages import (
    check_conflicts,
    check_imports,
    check_interfaces,
    check_versions,
)
from whisperbatch.doctor.storage import check_storage
from whisperbatch.doctor.weights import Weights, check_weights

TIME_LIMIT: Final = 300.0  # seconds for each check
Check = Callable[[], Iterable[Finding]]


class Diagnosis:
    """The checks of an installation. They only change caches: weights are downloaded, converted.

    Args:
        model: the model to transcribe with; "" is the default model or another local model.
        revision: of the model on the hub; None for the cached or the newest one.
        device: "auto", "cpu" or "cuda": the devices to check.
        time_limit: seconds for each check that runs in a separate process.
        root: folder that contains `dev`, `proc`, `sys` and `usr`.
        show_status: is called with the name of each check before the check.
    """

    def __init__(
        self,
        *,
        model: str = "",
        revision: str | None = None,
        device: str = "auto",
        time_limit: float = TIME_LIMIT,
        root: Path = Path("/"),
        show_status: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._model, self._revision, self._device = model, revision, device
        self._time_limit, self._root = time_limit, root
        self._show_status = show_status

    def findings(self) -> Iterator[Finding]:
        """Yield the findings of all checks, each as soon as its check ends."""
        yield from self._run("packages", check_versions)
        yield from self._run("packages", check_conflicts)
        imports = list(self._run("imports", partial(check_imports, self._time_limit)))
        yield from imports
        yield from self._run("machine", partial(check_machine, self._root))
        if any(finding.level == "problem" for finding in imports):
            yield Finding(
                "warning",
                "doctor",
                "storage, audio, weights and engines were not checked, because they need the "
                "packages that do not import",
                "repair the packages, then run doctor again",
            )
            return
        for name, check in (
            ("interfaces", check_interfaces),
            ("storage", check_storage),
            ("audio", check_decoder),
            ("speech detection", check_speech_detection),
            ("diarization", check_diarizer),
        ):
            yield from self._run(name, partial(check, self._time_limit))
        yield from self._run("weights and engines", self._check_model)

    def _check_model(self) -> Iterator[Finding]:
        """Check the weights, the devices and the engines."""
        weights, findings = check_weights(
            self._model,
            revision=self._revision,
            root=self._root,
            time_limit=self._time_limit,
        )
        yield from findings
        self._show_status("devices")
        devices, findings = find_devices(self._device, self._time_limit)
        yield from findings
        yield from check_cuda(
            self._device, len(devices.cuda), root=self._root, time_limit=self._time_limit
        )
        if weights is None:
            yield Finding(
                "warning", "engines", "were not checked, without weights", "repair the weights"
            )
        else:
            yield from self._check_engines(weights, devices)

    def _check_engines(self, weights: Weights, devices: Devices) -> Iterator[Finding]:
        groups = trials(devices, self._device, ctranslate2=weights.ctranslate2)
        if not groups:
            needs_torch = not weights.ctranslate2 and devices.torch_gpus is None
            yield Finding(
                "problem",
                "engines",
                f"no engine can run {weights.name} with device {self._device}",
                "pip install 'whisperbatch[torch]': only PyTorch reads the format of these weights"
                if needs_torch
                else "use --device cpu",
            )
        yield from check_engines(
            groups, weights, time_limit=self._time_limit, show_status=self._show_status
        )

    def _run(self, name: str, check: Check) -> Iterator[Finding]:
        """Yield the findings of a check; its exception becomes a finding."""
        self._show_status(name)
        try:
            yield from check()
        except Exception as error:  # noqa: BLE001 - the other checks must run
            yield Finding(
                "problem",
                "doctor",
                f"the check of {name} failed: {type(error).__name__}: {error}",
                "report this line and the output of doctor -v as a bug of whisperbatch",
                traceback.format_exc(),
            )
