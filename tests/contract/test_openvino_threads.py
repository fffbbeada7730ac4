"""OpenVINO's first calls in two threads end."""

import subprocess
import sys

import pytest

pytest.importorskip("openvino")

PROGRAM = """
import threading
import numpy as np
import openvino
import openvino.opset13 as ops
from whisperbatch.runtimes.openvino_package import open_core

core = open_core()
rows = ops.parameter([1, 4], np.float32)
compiled = core.compile_model(openvino.Model([ops.relu(rows)], [rows]), "CPU", {"NUM_STREAMS": 2})
together = threading.Barrier(2)

def call(request):
    together.wait()
    request.infer({0: np.ones((1, 4), np.float32)}, share_outputs=True)

threads = [
    threading.Thread(target=call, args=(compiled.create_infer_request(),)) for _ in range(2)
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(20))
def test_the_first_calls_of_two_threads_do_not_wait_for_each_other(attempt: int) -> None:
    """Without the first access in `open_core`, about one of seven processes never ends."""
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)
