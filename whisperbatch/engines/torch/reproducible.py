"""Matrix products on a CPU whose rows do not depend on the other rows.

PyTorch computes products in float32 with Intel's MKL. MKL chooses between kernels by the number of
rows and of threads, and the kernels round differently. On Intel processors, MKL has a setting that
makes all kernels round alike ("STRICT": Intel, oneMKL Developer Guide, Conditional Numerical
Reproducibility). The product of a full batch then takes about 1.4 times as long. Other processors
do not have the setting. On AMD processors, MKL computes products in groups of four rows. The rows
left over after the last full group, and the left-over queries of attention, use other code that
rounds differently. The rows of full groups are equal to the last bit, whatever the number of rows
(tests/unit/engines/torch/test_modules.py). Therefore rows and queries are padded to a multiple of
`ROW_MULTIPLE`.

Products in bfloat16 are computed with oneDNN. With AMX, the rows of products of at most `AMX_ROWS`
rows are equal, but products of more rows are rounded otherwise. Therefore no product has more rows
because of other rows of the batch.
"""

import logging
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

import torch
from torch.nn import functional

from whisperbatch.runtimes.machine import has_amx

ROW_MULTIPLE: Final = 4
AMX_ROWS: Final = 32
VARIABLE: Final = "MKL_CBWR"
STRICT: Final = "AUTO,STRICT"
ROWS: Final = 64  # of the product that `check_rows` computes
WIDTH: Final = 2048  # its inner size: long sums show the order of their terms

Tensor: TypeAlias = torch.Tensor

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


def with_padded_rows(product: Callable[[Tensor], Tensor], hidden: Tensor) -> Tensor:
    """Apply `product`, (n, in) to (n, out), so that no row depends on the other rows of the batch.

    Args:
        product: of a matrix.
        hidden: shape (rows, in) or (rows, length, in).
    """
    flat = hidden.reshape(-1, hidden.shape[-1])
    if len(flat) > AMX_ROWS and hidden.device.type == "cpu" and _rounds_by_rows(hidden.dtype):
        length = hidden.shape[1] if hidden.ndim > 2 else 1  # noqa: PLR2004 - see above
        parts = flat.split(max(AMX_ROWS, length))
        products = torch.cat([_padded(product, part) for part in parts])
    else:
        products = _padded(product, flat)
    return products.reshape(*hidden.shape[:-1], -1)


def padding(tensor: Tensor, count: int) -> int:
    """Return how many rows to add to `count` rows of a tensor on a CPU; 0 on a GPU."""
    return -count % ROW_MULTIPLE if tensor.device.type == "cpu" else 0


def _padded(product: Callable[[Tensor], Tensor], flat: Tensor) -> Tensor:
    count = len(flat)
    if added := padding(flat, count):
        flat = functional.pad(flat, (0, 0, 0, added))
    return product(flat)[:count]


@cache
def _rounds_by_rows(dtype: torch.dtype) -> bool:
    """Return whether a product of this type with more than `AMX_ROWS` rows is rounded otherwise."""
    return dtype == torch.bfloat16 and has_amx()
