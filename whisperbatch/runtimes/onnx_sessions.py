"""Opens sessions of onnxruntime."""

import os
from pathlib import Path

import onnxruntime

from whisperbatch.threads import keep_in_children

if os.environ.get("ORT_DISABLE_TELEMETRY") == "1":  # Windows does not read the variable
    onnxruntime.disable_telemetry_events()


def open_session(
    model: Path | bytes, threads: int, *, keep_memory: bool = False
) -> onnxruntime.InferenceSession:
    """Return a session on the CPU. The errors of onnxruntime have no common public base class.

    Args:
        model: an .onnx file, or its content.
        threads: number of threads that compute a call, with the calling thread.
        keep_memory: keep the memory of intermediate results for the next call.
    """
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.inter_op_num_threads = 1
    settings.enable_cpu_mem_arena = keep_memory  # the arena never frees its largest block
    settings.enable_mem_pattern = False  # keeps a plan for every shape that it has seen
    settings.log_severity_level = 4
    # waiting threads would take processor time from the other stages
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(
        model if isinstance(model, bytes) else str(model),
        sess_options=settings,
        providers=["CPUExecutionProvider"],
    )
    # onnxruntime keeps the content to open the session again with other providers: 49 MB for the
    # decoder of base
    session._model_bytes = None  # noqa: SLF001 - there is no setting
    keep_in_children(session)
    return session
