import sys

import pytest

from whisperbatch import MissingExtraError, OptionError
from whisperbatch.engines import devices
from whisperbatch.engines.ctranslate2.engine import CTranslate2Engine
from whisperbatch.models.registry import find_model


@pytest.mark.parametrize("installed", [True, False])
def test_auto_is_openvino_if_it_is_installed_and_fits(
    monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    monkeypatch.setattr(devices, "find_spec", lambda _: object() if installed else None)
    expected = "openvino" if installed else "ctranslate2"
    for compute_type in devices.FLOAT32_INPUT_COMPUTE_TYPES:
        assert devices.choose_backend("decoder", "auto", "cpu", compute_type) == expected
    assert devices.choose_backend("decoder", "auto", "cuda", "float16") == "ctranslate2"
    assert devices.choose_backend("decoder", "auto", "cpu", "int8_bfloat16") == "ctranslate2"
    assert devices.choose_backend("decoder", "ctranslate2", "cpu", "int8") == "ctranslate2"
    assert devices.choose_backend("decoder", "openvino", "cpu", "int8") == "openvino"


def test_an_unknown_or_unsuitable_decoder_is_refused() -> None:
    with pytest.raises(OptionError, match="decoder='torch' is none of auto, ctranslate2"):
        devices.choose_backend("decoder", "torch", "cpu", "int8")
    for device, compute_type in (("cuda", "int8"), ("cpu", "int8_bfloat16")):
        with pytest.raises(OptionError, match=f"this is {compute_type} on {device}"):
            devices.choose_backend("decoder", "openvino", device, compute_type)  # type: ignore[arg-type]


def test_the_error_names_openvinos_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'whisperbatch\[openvino\]'"):
        CTranslate2Engine(find_model("tiny.en"), name="tiny.en", device="cpu", encoder="openvino")
