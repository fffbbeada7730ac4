"""Other packages report nothing to their makers: `switch_off` precedes their import.

    onnxruntime      events to Microsoft; an identifier and a queue in ~/.cache/Microsoft
    openvino         events to Google Analytics; an identifier of the user in ~/intel
    huggingface_hub  installed packages and the calling agent, with requests; hf_xet: transfers
    pyannote.audio   durations of recordings and numbers of speakers to pyannote.ai
    ray              the size and the use of a cluster

The variables are set when `whisperbatch` is imported, because these packages read them when they
are imported or first used. Worker processes inherit them. A value that the user set stays. OpenVINO
has no variable, so `openvino_package.import_openvino` uses `hidden`.
"""

import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

log = logging.getLogger(__name__)

VARIABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ORT_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "PYANNOTE_METRICS_ENABLED": "false",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
)
"""The variables of other packages, and the values that switch telemetry off."""

OPENVINO_TELEMETRY: Final = "openvino_telemetry"


def switch_off() -> None:
    """Set each variable that the user has not set.

    One warning names the packages that were imported before and already report.
    """
    late: dict[str, str] = {}  # each package, and what stops its reports
    for name, value in VARIABLES.items():
        if name in os.environ or (name == "RAY_USAGE_STATS_ENABLED" and _ray_is_allowed()):
            continue
        os.environ[name] = value
        if name == "ORT_DISABLE_TELEMETRY" and "onnxruntime" in sys.modules:
            late["onnxruntime (to Microsoft)"] = "set ORT_DISABLE_TELEMETRY=1"
        hub = sys.modules.get("huggingface_hub.constants")
        if name == "HF_HUB_DISABLE_TELEMETRY" and hub is not None:
            vars(hub)["HF_HUB_DISABLE_TELEMETRY"] = True  # read with each request
    if {"openvino", OPENVINO_TELEMETRY} <= sys.modules.keys() and _consent() not in {"0", "1"}:
        late["openvino (to Intel)"] = "run opt_in_out --opt_out"
    if late:
        log.warning(
            "%s may report its use, because it was imported before whisperbatch; import "
            "whisperbatch first, or %s",
            " and ".join(late),
            " and ".join(late.values()),
        )


@contextmanager
def hidden() -> Iterator[None]:
    """Hide the package with which OpenVINO reports, for the time of a `with` block.

    OpenVINO then uses its own stub. The package stays if the user has consented (`opt_in_out
    --opt_in`), and if OpenVINO was imported before.
    """
    if OPENVINO_TELEMETRY in sys.modules or _consent() == "1":
        yield
        return
    sys.modules[OPENVINO_TELEMETRY] = None  # type: ignore[assignment]  # its import then fails
    try:
        yield
    finally:
        if sys.modules.get(OPENVINO_TELEMETRY, ...) is None:
            del sys.modules[OPENVINO_TELEMETRY]


def _consent() -> str:
    """Return the user's choice, which the program `opt_in_out` of OpenVINO has stored."""
    windows = os.environ.get("LOCALAPPDATA", "")
    folder = Path(windows, "Intel Corporation") if os.name == "nt" else _home("intel")
    try:
        return (folder / OPENVINO_TELEMETRY).read_text(encoding="utf-8").partition("\n")[0].strip()
    except (OSError, UnicodeError):
        return ""


def _ray_is_allowed() -> bool:
    """Return whether the user has run `ray enable-usage-stats`."""
    path = os.environ.get("RAY_USAGE_STATS_CONFIG_PATH") or _home(".ray", "config.json")
    try:
        settings = json.loads(Path(path).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(settings, dict) and settings.get("usage_stats") is True


def _home(*parts: str) -> Path:
    """Return a path in the home folder; a path that does not exist if there is no home folder."""
    return Path(os.path.expanduser("~"), *parts)  # noqa: PTH111 - Path.home() may raise
