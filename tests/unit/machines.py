"""Pretends that a test runs on another machine."""

from importlib.metadata import PackageNotFoundError

import pytest

from whisperbatch.runtimes import machine, openvino_package

AMX = "avx2 avx512f amx_int8"
NO_AMX = "avx2 avx512f avx512_bf16"
NO_BFLOAT16 = "avx2 avx512f avx512_vnni"


def use_machine(monkeypatch: pytest.MonkeyPatch, features: str, openvino: str | None) -> None:
    """Pretend that the processor has some features, and that a version of OpenVINO is installed."""

    def version(name: str) -> str:
        if openvino is None:
            raise PackageNotFoundError(name)
        return openvino

    monkeypatch.setattr(openvino_package, "version", version)
    monkeypatch.setattr(machine, "processor_features", lambda _: set(features.split()))
