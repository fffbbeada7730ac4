"""A row's result does not depend on the other rows, under every instruction set available here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLAGS = Path("/proc/cpuinfo").read_text(encoding="utf-8") if sys.platform == "linux" else ""
LIMITS = {
    # oneDNN's limit: the processor's flag that it needs, and whether it includes bfloat16
    "AVX2": ("avx2", False),
    "AVX512_CORE": ("avx512bw", False),
    "AVX512_CORE_VNNI": ("avx512_vnni", False),
    "AVX512_CORE_BF16": ("avx512_bf16", True),
    "AVX512_CORE_AMX": ("amx_bf16", True),
}


def check(engine: str, compute_type: str, **limits: str) -> None:
    program = str(Path(__file__).with_name("row_independence.py"))
    environment = os.environ | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, program, engine, compute_type],
        env=environment | limits,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


@pytest.mark.parametrize(
    "engine", ["openvino", pytest.param("ctranslate2", marks=pytest.mark.slow)]
)
def test_rows_are_independent(engine: str) -> None:
    check(engine, "int8")


@pytest.mark.slow
@pytest.mark.parametrize("compute_type", ["int8", "float32"])
@pytest.mark.parametrize("limit", LIMITS)
def test_rows_are_independent_with_fewer_instructions(limit: str, compute_type: str) -> None:
    flag, bfloat16 = LIMITS[limit]
    if flag not in FLAGS:
        pytest.skip(f"this processor has no {flag}")
    if (limit, compute_type) == ("AVX2", "int8"):
        pytest.skip("OpenVINO selects 8-bit kernels by the processor and fails with this limit")
    if not bfloat16 and compute_type == "int8":
        compute_type = "int8_float32"
    check("openvino", compute_type, ONEDNN_MAX_CPU_ISA=limit)
