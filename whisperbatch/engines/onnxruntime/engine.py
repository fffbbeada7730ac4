"""Whisper on ONNX Runtime, for CPUs, from CTranslate2's weights.

On processors that multiply in bfloat16, OpenVINO computes the encoder: ONNX Runtime computes the
convolutions, the attention and GELU in float32.
"""

from importlib.metadata import version
from typing import Final

import onnxruntime

from whisperbatch.engines.cpu.engine import CpuEngine
from whisperbatch.engines.devices import share_cores
from whisperbatch.engines.model_info import ModelInfo
from whisperbatch.engines.onnxruntime.decoder import DecoderSessions, OnnxDecoder
from whisperbatch.engines.onnxruntime.encoder import OnnxEncoder
from whisperbatch.engines.onnxruntime.products import SHORT_LEVELS, second_levels
from whisperbatch.engines.openvino.encoder import OpenVinoEncoder, load_encoder
from whisperbatch.engines.settings import OnnxRuntimeSettings, OpenVinoSettings
from whisperbatch.errors import ModelError
from whisperbatch.machine import multiplies_bfloat16
from whisperbatch.models.files import one_line
from whisperbatch.models.model_bin import read_arrays
from whisperbatch.options import DEFAULT_BATCH_SIZE
from whisperbatch.runtimes.openvino_package import check_openvino, openvino_is_installed

WORKERS: Final = 2
"""Batches at a time, if the number is not given. A batch on half of the cores waits less for the
threads of each operator: ten minutes take 0.8 of the time on two cores."""

ROWS_OF_A_THREAD: Final = 4
"""Rows of a call, if the number is not given and a call has one thread: more rows are no faster."""


class OnnxRuntimeEngine(CpuEngine):
    """A Whisper model on ONNX Runtime. See `protocols.Engine`.

    Args:
        model: the model.
        settings: see `OnnxRuntimeSettings`.

    Raises:
        MissingExtraError: the package onnx is not installed, or OpenVINO is needed and not
            installed.
        ModelError: a library cannot use the weights, or OpenVINO does not work on this machine.
    """

    def __init__(self, model: ModelInfo, *, settings: OnnxRuntimeSettings | None = None) -> None:
        settings = settings or OnnxRuntimeSettings()
        kept_frames = model.frames_to_keep(settings.kept_frames)
        levels = second_levels()
        workers, each = share_cores(settings.inter_threads, settings.intra_threads, most=WORKERS)
        self._rows = DEFAULT_BATCH_SIZE if each > 1 else ROWS_OF_A_THREAD
        threads = workers * (each - 1) + 1  # of a graph, with the thread that calls
        library = f"onnxruntime {onnxruntime.__version__}"
        parts = ["cpu", "8-bit weights", "8-bit products"]
        parts += ["added in 16 bits"] if levels == SHORT_LEVELS else []
        merged = kept_frames < 1
        path = model.directory / "model.bin"
        model.check_projection()
        encoders: list[OnnxEncoder] | list[OpenVinoEncoder]
        on_openvino = uses_openvino(settings)
        try:
            if on_openvino:
                encoders, precision = load_encoder(model, workers, each, merged=merged)
                library += f", openvino {version('openvino')}"
                parts += [f"encoder in {precision}"]
            else:
                arrays = read_arrays(path, "encoder/")
                encoder = OnnxEncoder(arrays, levels=levels, threads=threads, merged=merged)
                encoders = [encoder] * workers
            arrays = read_arrays(path, "decoder/")
            sessions = DecoderSessions(arrays, model.config, levels=levels, threads=threads)
            super().__init__(
                model,
                encoders,
                [OnnxDecoder(sessions) for _ in range(workers)],
                arrays,
                kept_frames=kept_frames,
                library=library,
                description=", ".join(parts),
                threads=settings.intra_threads,
                int8_weights=True,
                reload=lambda: OnnxRuntimeEngine(model, settings=settings),
                shares_idle_threads=not on_openvino,
            )
        except (RuntimeError, LookupError, ValueError) as error:
            raise ModelError(
                f"{model.directory}: {library} cannot use the weights: {one_line(error)}"
            ) from error

    def default_batch_size(self, hypotheses: int) -> int:  # noqa: ARG002 - memory does not decide
        """See `protocols.Engine`."""
        return self._rows


def uses_openvino(settings: OnnxRuntimeSettings) -> bool:
    """Return whether OpenVINO computes the encoder.

    Raises:
        MissingExtraError: OpenVINO is needed, but is missing or too old.
    """
    if isinstance(settings, OpenVinoSettings) or settings.compute_type == "int8_bfloat16":
        check_openvino()
        return True
    if settings.compute_type == "int8":
        return False
    return multiplies_bfloat16() and openvino_is_installed("the encoder")
