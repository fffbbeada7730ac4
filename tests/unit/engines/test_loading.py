import sys
from collections.abc import Mapping
from dataclasses import fields
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest

import whisperbatch as wb
from tests.unit.machines import use_machine
from whisperbatch import MissingExtraError, OptionError
from whisperbatch.engines.settings import (
    SETTINGS,
    AutoSettings,
    CTranslate2Settings,
    EngineKeywords,
    EngineSettings,
    OnnxRuntimeSettings,
    OpenVinoSettings,
    TorchSettings,
    choose_settings,
    setting_parameters,
    settings_of,
)


def use(
    monkeypatch: pytest.MonkeyPatch,
    *,
    openvino: str | None,
    cuda: int = 0,
    features: str = "avx2 avx512f",
) -> None:
    """Pretend that this version of OpenVINO is installed, on a machine.

    The machine has a number of CUDA devices, and a processor with some features.
    """
    use_machine(monkeypatch, features, openvino)
    monkeypatch.setattr("ctranslate2.get_cuda_device_count", lambda: cuda)
    monkeypatch.setattr("whisperbatch.engines.ctranslate2.cuda.cuda_problem", lambda _: None)


INT16 = {"compute_type": "int16"}
BFLOAT16 = {"compute_type": "int8_bfloat16"}


@pytest.mark.parametrize(
    ("machine", "device", "given", "expected"),
    [
        (("2026.4.0", 0), "auto", {}, OpenVinoSettings()),
        (("2027.0.0.dev1", 0), "auto", {}, OpenVinoSettings()),
        (("2026.4.0", 0), "cpu", {"intra_threads": 2}, OpenVinoSettings(intra_threads=2)),
        (("2026.4.0", 0), "cpu", {"compute_type": "int8"}, OpenVinoSettings(compute_type="int8")),
        (("2026.4.0", 1), "cpu", {}, OpenVinoSettings()),
        (("2026.4.0", 1), "auto", {}, CTranslate2Settings()),
        (("2026.3.1", 0), "auto", {}, CTranslate2Settings()),
        ((None, 0), "auto", {"inter_threads": 2}, CTranslate2Settings(inter_threads=2)),
        (("2026.4.0", 0), "auto", INT16, CTranslate2Settings(compute_type="int16")),
        (("2026.4.0", 0), "cuda", {}, CTranslate2Settings()),
        (("2026.4.0", 0), "auto", BFLOAT16, OpenVinoSettings(compute_type="int8_bfloat16")),
        ((None, 0), "cpu", BFLOAT16, OpenVinoSettings(compute_type="int8_bfloat16")),
        ((None, 1), "auto", BFLOAT16, CTranslate2Settings(compute_type="int8_bfloat16")),
    ],
)
def test_auto_is_openvino_without_avx2_if_it_is_installed_and_has_the_settings(
    monkeypatch: pytest.MonkeyPatch,
    machine: tuple[str | None, int],
    device: str,
    given: Mapping[str, Any],
    expected: EngineSettings,
) -> None:
    """A machine has a version of OpenVINO and a number of CUDA devices."""
    use(monkeypatch, openvino=machine[0], cuda=machine[1], features="sse4_2")
    assert choose_settings("auto", device, given) == expected


@pytest.mark.parametrize(
    ("features", "given", "expected"),
    [
        ("avx2 fma", {}, OnnxRuntimeSettings()),
        ("avx2 fma", {"compute_type": "int8"}, OnnxRuntimeSettings(compute_type="int8")),
        ("avx2 fma", {"compute_type": "float32"}, CTranslate2Settings(compute_type="float32")),
        ("avx2 fma", INT16, CTranslate2Settings(compute_type="int16")),
        ("avx2 avx512f amx_int8", {}, OnnxRuntimeSettings()),
        (
            "avx2 avx512f amx_int8",
            {"compute_type": "int8_bfloat16"},
            OnnxRuntimeSettings(compute_type="int8_bfloat16"),
        ),
        ("avx2 avx512f avx512_bf16", {}, OnnxRuntimeSettings()),
        ("avx2 avx512f", {}, OnnxRuntimeSettings()),
    ],
)
def test_auto_is_onnxruntime_on_processors_with_avx2(
    monkeypatch: pytest.MonkeyPatch,
    features: str,
    given: Mapping[str, Any],
    expected: EngineSettings,
) -> None:
    use(monkeypatch, openvino="2026.4.0", features=features)
    assert choose_settings("auto", "cpu", given) == expected
    use(monkeypatch, openvino="2026.4.0", cuda=1, features=features)
    assert isinstance(choose_settings("auto", "auto", given), CTranslate2Settings)


@pytest.mark.parametrize("version", [None, "2026.3.0"])
def test_openvino_that_is_missing_or_old_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    use(monkeypatch, openvino=version)
    with pytest.raises(MissingExtraError, match=r"'whisperbatch\[openvino\]'"):
        wb.load("tiny.en", engine="openvino")


def test_auto_without_avx2_names_the_extra_that_a_compute_type_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(monkeypatch, openvino=None, features="sse4_2")
    with pytest.raises(MissingExtraError, match=r"'whisperbatch\[openvino\]'"):
        wb.load("tiny.en", device="cpu", compute_type="int8_bfloat16")


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
def test_an_engine_for_cpus_is_refused_on_cuda(engine: Any) -> None:
    with pytest.raises(OptionError, match=f"engine='{engine}' runs on the CPU"):
        wb.load("tiny.en", engine=engine, device="cuda")


@pytest.mark.parametrize(
    ("engine", "given", "expected"),
    [
        ("ctranslate2", {"compile": True}, "compile=True"),
        ("ctranslate2", {"quantization": "int8"}, "quantization='int8'"),
        ("openvino", {"group_size": 32}, "group_size=32"),
        ("openvino", {"draft_model": "tiny.en"}, "draft_model='tiny.en'"),
        ("openvino", {"device_index": 1}, "device_index=1"),
        ("openvino", {"flash_attention": True}, "flash_attention=True"),
        ("torch", {"inter_threads": 2}, "inter_threads=2"),
        ("torch", {"intra_threads": 2}, "intra_threads=2"),
    ],
)
def test_settings_without_effect_on_the_engine_are_refused(
    engine: Any, given: Any, expected: str
) -> None:
    with pytest.raises(OptionError, match=f"{expected} has no effect with engine='{engine}'"):
        wb.load("tiny.en", engine=engine, **given)


@pytest.mark.parametrize("engine", ["ctranslate2", pytest.param("torch", marks=pytest.mark.torch)])
def test_an_engine_that_cannot_merge_frames_says_so(engine: Any) -> None:
    message = f"kept_frames=0.5: engine='{engine}' keeps all frames; give engine='onnxruntime' or "
    with pytest.raises(OptionError, match=message):
        wb.load("tiny.en", engine=engine, device="cpu", kept_frames=0.5)
    with wb.load("tiny.en", engine=engine, device="cpu", kept_frames=1.0) as asr:
        assert "of the frames" not in asr.engine.fingerprint


def test_auto_refuses_to_merge_frames_if_only_ctranslate2_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(monkeypatch, openvino=None, features="sse4_2")
    with pytest.raises(OptionError, match=r"kept_frames=0\.5: engine='ctranslate2' keeps all"):
        wb.load("tiny.en", device="cpu", kept_frames=0.5)
    use(monkeypatch, openvino="2026.4.0", features="sse4_2")
    expected = OpenVinoSettings(kept_frames=0.5)
    assert choose_settings("auto", "cpu", {"kept_frames": np.float32(0.5)}) == expected


def test_auto_merges_frames_with_the_settings_of_the_engine_that_it_chooses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {"kept_frames": 0.5}
    assert settings_of(given) == AutoSettings(kept_frames=0.5)
    use(monkeypatch, openvino="2026.4.0", cuda=1, features="avx2 fma")
    assert choose_settings("auto", "cpu", given) == OnnxRuntimeSettings(kept_frames=0.5)
    with pytest.raises(OptionError, match=r"kept_frames=0\.5: engine='ctranslate2' keeps all"):
        choose_settings("auto", "auto", given)
    assert choose_settings("auto", "auto", {"kept_frames": 1}) == CTranslate2Settings()
    with pytest.raises(OptionError, match="kept_frames must be a number, not 'all'"):
        settings_of({"engine": "torch", "kept_frames": "all"})


def test_the_error_names_the_engines_that_have_the_setting() -> None:
    with pytest.raises(OptionError, match=r"; give engine='torch'$"):
        wb.load("tiny.en", quantization="int8")
    with pytest.raises(OptionError, match=r"='ctranslate2' or 'onnxruntime' or 'openvino'$"):
        wb.load("tiny.en", engine="torch", inter_threads=2)


@pytest.mark.parametrize("engine", ["jax", 3, None])
def test_an_unknown_engine_is_refused(engine: Any) -> None:
    with pytest.raises(
        OptionError, match="none of auto, ctranslate2, onnxruntime, openvino, torch"
    ):
        wb.load("tiny.en", engine=engine)


def test_keywords_beside_a_settings_object_are_refused() -> None:
    with pytest.raises(OptionError, match="inter_threads: give this setting in the settings obj"):
        wb.load("tiny.en", engine=CTranslate2Settings(), inter_threads=2)


def test_a_settings_object_is_used_as_it_is() -> None:
    settings = TorchSettings(compute_type="float32")
    assert choose_settings(settings, "auto", {}) is settings


@pytest.mark.parametrize(
    ("engine", "given", "message"),
    [
        (CTranslate2Settings, {"device_index": ()}, "must be a device number, or several"),
        (CTranslate2Settings, {"device_index": "0"}, "device_index must be a whole number"),
        (CTranslate2Settings, {"device_index": (0, 0)}, "must be a device number, or several"),
        (CTranslate2Settings, {"compute_type": ["int8"]}, "must be a name such as 'int8'"),
        (TorchSettings, {"draft_model": 5}, "draft_model=5 must be a name or a path"),
        (CTranslate2Settings, {"inter_threads": -1}, "inter_threads=-1 is out of range"),
        (
            CTranslate2Settings,
            {"intra_threads": True},
            "intra_threads must be a whole number, not True",
        ),
        (CTranslate2Settings, {"flash_attention": 1}, "flash_attention must be True or False"),
        (OpenVinoSettings, {"compute_type": "int16"}, "compute_type='int16' is none of auto, int8"),
        (OpenVinoSettings, {"compute_type": ["int8"]}, "is none of auto, int8"),
        (OpenVinoSettings, {"compute_type": "int8_float32"}, r"8 bits; give engine='ctranslate2',"),
        (OpenVinoSettings, {"compute_type": "bfloat16"}, r"8 bits; give engine='torch',"),
        (
            OpenVinoSettings,
            {"compute_type": "float32"},
            "8 bits; give engine='ctranslate2' or 'torch', or leave out compute_type",
        ),
        (OpenVinoSettings, {"intra_threads": -1}, "intra_threads=-1 is out of range"),
        (OpenVinoSettings, {"kept_frames": 0.2}, "kept_frames=0.2 is out of range: from 0.25 to 1"),
        (OpenVinoSettings, {"kept_frames": True}, "kept_frames must be a number, not True"),
        (AutoSettings, {"kept_frames": 1.5}, "kept_frames=1.5 is out of range"),
        (TorchSettings, {"device_index": (0, 1)}, r"device_index=\(0, 1\): engine='torch' runs on"),
        (TorchSettings, {"compute_type": "int8"}, "compute_type='int8' is none of auto, float32"),
        (TorchSettings, {"quantization": "int2"}, "quantization='int2' is none of hqq4, int8"),
        (TorchSettings, {"quantization": "hqq4", "group_size": 48}, "group_size=48 is none of 32"),
        (TorchSettings, {"group_size": 32}, "group_size=32 has no effect without"),
        (TorchSettings, {"quantization": "int8", "group_size": 128}, "group_size=128 has no eff"),
        (TorchSettings, {"compile": 1}, "compile must be True or False"),
    ],
)
def test_wrong_values_are_refused(engine: Any, given: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        engine(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"device": "tpu"}, "device='tpu' is none of auto, cpu, cuda"),
        ({"device": "cpu", "device_index": 1}, "device_index=1 needs CUDA"),
        ({"device": "cpu", "flash_attention": True}, "flash_attention=True needs CUDA"),
        ({"device": "cuda"}, "CTranslate2 finds no CUDA device"),
        ({"compute_type": "int3"}, "compute_type='int3' is not supported by this machine's cpu"),
        ({"compute_type": "bfloat16"}, r"device; use auto, .*, or give engine='torch'$"),
        ({"compute_type": "int8_bfloat16"}, "or give engine='onnxruntime' or 'openvino'$"),
    ],
)
def test_settings_that_this_machine_lacks_are_refused(
    monkeypatch: pytest.MonkeyPatch, given: Any, message: str
) -> None:
    use(monkeypatch, openvino=None)
    with pytest.raises(OptionError, match=message):
        wb.load("tiny.en", engine="ctranslate2", **given)


def members(annotation: object) -> tuple[object, ...]:
    """Return the members of a union."""
    is_union = get_origin(annotation) in (Union, UnionType)
    return get_args(annotation) if is_union else (annotation,)


@pytest.mark.parametrize("engine", ["auto", "ctranslate2", "onnxruntime", "openvino", "torch"])
def test_the_default_compute_type_is_auto(engine: str) -> None:
    given = {"engine": engine, "compute_type": np.str_("default")}
    assert settings_of(given) == settings_of({"engine": engine})


def test_the_keywords_are_the_settings_of_all_engines() -> None:
    hints = get_type_hints(EngineKeywords)
    names = {field.name for settings in SETTINGS.values() for field in fields(settings)}
    assert names == set(hints) == set(setting_parameters())
    assert {name: p.annotation for name, p in setting_parameters().items()} == hints
    for settings in SETTINGS.values():
        for name, annotation in get_type_hints(settings).items():
            if name in names:
                wider = members(hints[name])
                for member in members(annotation):  # a choice of texts is a kind of text
                    assert member in wider or (get_origin(member) is Literal and str in wider)


def test_the_error_names_pytorchs_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "whisperbatch.engines.torch.engine", raising=False)
    with pytest.raises(MissingExtraError, match=r'pip install "whisperbatch\[torch\]"'):
        wb.load("tiny.en", engine="torch")


@pytest.mark.torch
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"device_index": 3, "device": "cpu"}, "device_index=3 needs CUDA"),
        ({"device": "cuda", "device_index": 99}, "PyTorch finds no CUDA device"),
        ({"compile": True, "device": "cpu"}, "compile=True needs CUDA"),
    ],
)
def test_settings_that_pytorch_cannot_honour_are_refused(given: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        wb.load("tiny.en", engine="torch", **given)


@pytest.mark.parametrize(
    ("engine", "given", "expected"),
    [
        ("auto", {"device_index": 0, "quantization": None}, OnnxRuntimeSettings()),
        ("torch", {"inter_threads": 0}, TorchSettings()),
        ("torch", {"inter_threads": 1}, TorchSettings(inter_threads=1)),
        ("ctranslate2", {"device_index": [1, 0]}, CTranslate2Settings(device_index=(1, 0))),
    ],
)
def test_keywords_at_their_defaults_have_no_effect_and_lists_are_tuples(
    monkeypatch: pytest.MonkeyPatch, engine: str, given: Any, expected: EngineSettings
) -> None:
    use(monkeypatch, openvino="2026.4.0")
    assert choose_settings(engine, "auto", given) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"compute_typ": "int8"},
            r"compute_typ is not a keyword of load; did you mean compute_type",
        ),
        ({"beam_size": 1}, "beam_size is not a keyword of load; give beam_size to transcribe"),
        ({"encoder": "openvino"}, "encoder is not a keyword of load; use engine"),
        ({"cpu_threads": 4}, "cpu_threads is not a keyword of load; use intra_threads"),
        ({"xyzzy": 4}, r"help\(whisperbatch.load\) lists all keywords"),
    ],
)
def test_the_error_of_an_unknown_keyword_says_how_to_correct_it(given: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        wb.load("tiny.en", **given)
    if "beam_size" not in given:
        with pytest.raises(
            OptionError, match=message.split(" ", maxsplit=1)[0] if "xyzzy" not in given else "x"
        ):
            wb.transcribe("missing.wav", **given)


def test_a_settings_class_without_parentheses_is_refused() -> None:
    with pytest.raises(OptionError, match="a settings class needs parentheses"):
        wb.load("tiny.en", engine=TorchSettings)  # type: ignore[arg-type]


def test_a_missing_model_is_looked_for_only_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    use(monkeypatch, openvino="2026.4.0")
    with caplog.at_level("INFO"), pytest.raises(wb.ModelError, match="'bas'"):
        wb.load("bas")
    assert "CTranslate2 runs it" not in caplog.text
