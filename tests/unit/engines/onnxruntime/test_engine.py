from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest

from whisperbatch import MissingExtraError, machine, openvino_package
from whisperbatch.engines.onnxruntime.engine import uses_openvino

AMX, NO_AMX = "avx2 avx512f amx_int8", "avx2 avx512f avx512_bf16"


def use(monkeypatch: pytest.MonkeyPatch, features: str, openvino: str | None) -> None:
    """Pretend that the processor has some features, and that a version of OpenVINO is installed."""

    def version(name: str) -> str:
        if openvino is None:
            raise PackageNotFoundError(name)
        return openvino

    monkeypatch.setattr(machine, "processor_features", lambda _: set(features.split()))
    monkeypatch.setattr(openvino_package, "version", version)


@pytest.mark.parametrize(
    ("features", "openvino", "compute_type", "expected"),
    [
        (AMX, "2026.4.0", "auto", True),
        (AMX, "2026.4.0", "int8", False),
        (AMX, "2026.3.0", "auto", False),
        (AMX, None, "auto", False),
        (NO_AMX, "2026.4.0", "auto", False),
        (NO_AMX, "2026.4.0", "int8_bfloat16", True),
    ],
)
def test_openvino_computes_the_encoder_on_processors_with_amx(
    monkeypatch: pytest.MonkeyPatch,
    features: str,
    openvino: str | None,
    compute_type: Any,
    expected: bool,
) -> None:
    use(monkeypatch, features, openvino)
    assert uses_openvino(compute_type) == expected


def test_openvino_is_needed_if_the_compute_type_asks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(monkeypatch, AMX, None)
    with pytest.raises(MissingExtraError, match=r"'whisperbatch\[openvino\]'"):
        uses_openvino("int8_bfloat16")
