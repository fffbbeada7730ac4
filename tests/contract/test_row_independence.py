"""A row's result does not depend on the other rows, under every instruction set available here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLAGS = Path("/proc/cpuinfo").read_text(encoding="utf-8") if sys.platform == "linux" else ""

ONEDNN = {"AVX512_CORE_BF16": "avx512_bf16", "AVX512_CORE_AMX": "amx_bf16"}
"""oneDNN's limits with bfloat16, each with the processor's flag that it needs.

OpenVINO selects its precision by the processor, and fails with lower limits on such a processor.
"""

TORCH = "bfloat16" if "avx512_bf16" in FLAGS else "float32"
"""PyTorch's type for "auto". Other processors compute bfloat16 slowly: all batches take an hour."""

# (engine, compute type, variable, limit, the processor's flag that the limit needs)
CASES = (
    *(("openvino", "int8", "ONEDNN_MAX_CPU_ISA", limit, flag) for limit, flag in ONEDNN.items()),
    # in float32, CTranslate2's matrix products depend on the number of rows in the seventh digit
    *(
        ("ctranslate2", "int8", "CT2_FORCE_CPU_ISA", limit, flag)
        for limit, flag in (("GENERIC", ""), ("AVX2", "avx2"), ("AVX512", "avx512bw"))
    ),
    ("ctranslate2", "int8", "MKL_ENABLE_INSTRUCTIONS", "AVX2", "avx2"),
    *(
        ("torch", compute_type, "ATEN_CPU_CAPABILITY", limit, flag)
        for limit, flag in (("default", ""), ("avx2", "avx2"))
        # with AMX, PyTorch's attention in bfloat16 raises an error under these limits
        for compute_type in ("float32", *(["bfloat16"] if "amx_bf16" not in FLAGS else []))
    ),
    *(
        ("torch", "bfloat16", "ONEDNN_MAX_CPU_ISA", limit, flag)
        for limit, flag in ({"AVX2": "avx2"} | ONEDNN).items()
    ),
)


def check(engine: str, compute_type: str, *arguments: str, **limits: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.contract.row_independence", engine, compute_type, *arguments],
        cwd=ROOT,
        env=os.environ | {"HF_HUB_OFFLINE": "1"} | limits,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


@pytest.mark.slow
def test_some_batches_give_equal_rows() -> None:
    check("openvino", "int8", "few")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "compute_type"),
    [
        ("openvino", "int8"),
        ("onnxruntime", "int8"),
        ("ctranslate2", "int8"),
        pytest.param("torch", TORCH, marks=pytest.mark.torch),
    ],
)
def test_rows_are_independent(engine: str, compute_type: str) -> None:
    check(engine, compute_type)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "compute_type", "variable", "limit", "flag"),
    [
        pytest.param(*case, marks=[pytest.mark.torch] if case[0] == "torch" else [])
        for case in CASES
    ],
)
def test_rows_are_independent_with_fewer_instructions(
    engine: str, compute_type: str, variable: str, limit: str, flag: str
) -> None:
    if flag not in FLAGS:
        pytest.skip(f"this processor has no {flag}")
    # all batches and the transcripts take a minute, with PyTorch several minutes
    extent = ["quick"] if engine == "torch" else []
    if (engine, compute_type) == ("torch", "bfloat16") and TORCH != "bfloat16":
        extent = ["few"]
    check(engine, compute_type, *extent, **{variable: limit})
