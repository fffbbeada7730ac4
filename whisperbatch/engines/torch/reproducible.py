"""Matrix products on a CPU whose rows do not depend on the other rows.

PyTorch computes products in float32 with Intel's MKL. MKL chooses between kernels by the number of
rows and of threads, and the kernels round differently. On Intel processors, MKL has a setting that
makes all kernels round alike ("STRICT": Intel, oneMKL Developer Guide, Conditional Numerical
Reproducibility). The product of a full batch then takes about 1.4 times as long. Other processors
do not have the setting; on AMD processors, rows in full groups of `modules.ROW_MULTIPLE` are equal.
"""

import logging
import os
import sys
from pathlib import Path
from typing import Final

import torch

VARIABLE: Final = "MKL_CBWR"
STRICT: Final = "AUTO,STRICT"
ROWS: Final = 64  # of the product that `check_rows` computes
WIDTH: Final = 2048  # its inner size: long sums show the order of their terms

log = logging.getLogger(__name__)


def request_equal_rows(cpu_info: Path = Path("/proc/cpuinfo")) -> None:
    """Set MKL's variable for this process on an Intel processor, unless the variable is set.

    MKL reads the variable before its first product; a later call has no effect.

    Args:
        cpu_info: the file in which Linux describes the processors.
    """
    if sys.platform == "win32":
        processors = os.environ.get("PROCESSOR_IDENTIFIER", "")
    else:
        processors = cpu_info.read_text(encoding="utf-8") if cpu_info.exists() else ""
    if "GenuineIntel" in processors:
        os.environ.setdefault(VARIABLE, STRICT)


def check_rows() -> None:
    """Log a warning if the rows of a product depend on the number of rows."""
    generator = torch.Generator().manual_seed(0)
    rows, weight = (torch.randn(ROWS, WIDTH, generator=generator) for _ in range(2))
    with torch.inference_mode():
        product = torch.nn.functional.linear(rows, weight)
        part = torch.nn.functional.linear(rows[:4], weight)
    if not torch.equal(part, product[:4]):
        log.warning(
            "the last digits of PyTorch's products depend on the number of rows in this process, "
            "so the text may depend on batch_size; set the environment variable %s=%s before the "
            "program starts",
            VARIABLE,
            STRICT,
        )
