"""Rows of matrix products are equal on Intel processors, too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch

PROGRAM = """
import os, sys, torch
from whisperbatch.engines.torch.modules import check_rows, request_equal_rows
if "before" in sys.argv:
    request_equal_rows()
torch.nn.functional.linear(torch.ones(4, 64), torch.ones(64, 64))
request_equal_rows()
check_rows()
"""


def run(argument: str) -> str:
    """Return what the program writes to stderr."""
    environment = {name: value for name, value in os.environ.items() if name != "MKL_CBWR"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, argument], env=environment, capture_output=True, check=True
    )
    return done.stderr.decode()


def test_rows_are_equal_if_the_variable_is_set_before_the_first_product() -> None:
    assert run("before") == ""


@pytest.mark.parametrize(
    ("vendor", "before", "after"),
    [
        ("GenuineIntel", None, "AUTO,STRICT"),
        ("GenuineIntel", "COMPATIBLE", "COMPATIBLE"),
        ("AuthenticAMD", None, None),
        (None, None, None),
    ],
)
def test_the_variable_is_set_on_intel_processors(
    vendor: str | None,
    before: str | None,
    after: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from whisperbatch.engines.torch.modules import (  # noqa: PLC0415 - not always installed
        request_equal_rows,
    )

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("MKL_CBWR", raising=False)
    if before:
        monkeypatch.setenv("MKL_CBWR", before)
    cpu_info = tmp_path / "cpuinfo"
    if vendor:
        cpu_info.write_text(f"processor : 0\nvendor_id : {vendor}\n", encoding="utf-8")
    request_equal_rows(cpu_info)
    assert os.environ.get("MKL_CBWR") == after


def test_a_product_whose_rows_differ_is_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import torch  # noqa: PLC0415 - not always installed

    from whisperbatch.engines.torch.modules import check_rows  # noqa: PLC0415

    check_rows()
    assert not caplog.messages
    linear = torch.nn.functional.linear
    monkeypatch.setattr(
        torch.nn.functional, "linear", lambda rows, weight: linear(rows, weight) + len(rows)
    )
    check_rows()
    assert "MKL_CBWR=AUTO,STRICT" in caplog.text
