import pytest

import whisperbatch as wb
from tests.unit.machines import AMX, NO_AMX, NO_BFLOAT16, use_machine
from whisperbatch import MissingExtraError
from whisperbatch.engines.onnx import openvino_encoder
from whisperbatch.engines.onnx.engine import uses_openvino
from whisperbatch.engines.settings import OnnxRuntimeSettings, OpenVinoSettings
from whisperbatch.models import find_model, fingerprint

AUTO = OnnxRuntimeSettings()
INT8 = OnnxRuntimeSettings(compute_type="int8")
INT8_BFLOAT16 = OnnxRuntimeSettings(compute_type="int8_bfloat16")


@pytest.mark.parametrize(
    ("features", "openvino", "settings", "expected"),
    [
        (AMX, "2026.4.0", AUTO, True),
        (AMX, "2026.4.0", INT8, False),
        (AMX, "2026.3.0", AUTO, False),
        (AMX, None, AUTO, False),
        (NO_AMX, "2026.4.0", AUTO, True),
        (NO_BFLOAT16, "2026.4.0", AUTO, False),
        (NO_BFLOAT16, "2026.4.0", INT8_BFLOAT16, True),
        (NO_BFLOAT16, "2026.4.0", OpenVinoSettings(), True),
        (NO_BFLOAT16, "2026.4.0", OpenVinoSettings(compute_type="int8"), True),
        ("sse4_2", "2026.4.0", AUTO, False),
    ],
)
def test_openvino_computes_the_encoder_on_processors_that_multiply_in_bfloat16(
    monkeypatch: pytest.MonkeyPatch,
    features: str,
    openvino: str | None,
    settings: OnnxRuntimeSettings,
    expected: bool,
) -> None:
    use_machine(monkeypatch, features, openvino)
    assert uses_openvino(settings) == expected


@pytest.mark.parametrize("settings", [INT8_BFLOAT16, OpenVinoSettings()])
def test_openvino_is_needed_if_the_settings_ask_for_it(
    monkeypatch: pytest.MonkeyPatch, settings: OnnxRuntimeSettings
) -> None:
    use_machine(monkeypatch, AMX, None)
    with pytest.raises(MissingExtraError, match=r"'whisperbatch\[openvino\]'"):
        uses_openvino(settings)


def test_an_openvino_that_does_not_work_is_used_only_if_the_settings_ask_for_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise ImportError("libopenvino.so: cannot open shared object file")

    use_machine(monkeypatch, NO_AMX, "2026.4.0")
    monkeypatch.setattr(openvino_encoder, "open_core", broken)
    with wb.load("tiny.en", device="cpu") as asr:
        assert "openvino" not in asr.engine.fingerprint
        assert asr.engine.fingerprint.startswith(fingerprint(find_model("tiny.en")))
    assert "onnxruntime computes the encoder, because" in caplog.text
    for settings in (OpenVinoSettings(), INT8_BFLOAT16):
        with pytest.raises(MissingExtraError, match=r"cannot be imported: libopenvino\.so"):
            wb.load("tiny.en", device="cpu", engine=settings)
