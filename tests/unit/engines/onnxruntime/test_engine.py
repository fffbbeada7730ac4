from typing import Any

import pytest

from tests.unit.machines import AMX, NO_AMX, use_machine
from whisperbatch import MissingExtraError
from whisperbatch.engines.onnxruntime.engine import uses_openvino


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
    use_machine(monkeypatch, features, openvino)
    assert uses_openvino(compute_type) == expected


def test_openvino_is_needed_if_the_compute_type_asks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_machine(monkeypatch, AMX, None)
    with pytest.raises(MissingExtraError, match=r"'whisperbatch\[openvino\]'"):
        uses_openvino("int8_bfloat16")
