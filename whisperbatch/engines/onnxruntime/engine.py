"""Whisper on ONNX Runtime, for CPUs, from CTranslate2's weights."""

import onnxruntime

from whisperbatch.engines.cpu.engine import CpuEngine
from whisperbatch.engines.devices import share_cores
from whisperbatch.engines.model_info import ModelInfo
from whisperbatch.engines.onnxruntime.decoder import DecoderSessions, OnnxDecoder
from whisperbatch.engines.onnxruntime.encoder import OnnxEncoder
from whisperbatch.engines.onnxruntime.products import SHORT_LEVELS, second_levels
from whisperbatch.engines.settings import OnnxRuntimeSettings
from whisperbatch.errors import ModelError
from whisperbatch.models.files import one_line
from whisperbatch.models.model_bin import read_arrays


class OnnxRuntimeEngine(CpuEngine):
    """A Whisper model on ONNX Runtime. See `protocols.Engine`.

    Args:
        model: the model.
        settings: see `OnnxRuntimeSettings`.

    Raises:
        MissingExtraError: the package onnx is not installed.
        ModelError: ONNX Runtime cannot use the weights.
    """

    def __init__(self, model: ModelInfo, *, settings: OnnxRuntimeSettings | None = None) -> None:
        settings = settings or OnnxRuntimeSettings()
        kept_frames = model.frames_to_keep(settings.kept_frames)
        parts = ["cpu", "8-bit weights", "8-bit products"]
        levels = second_levels()
        parts += ["added in 16 bits"] if levels == SHORT_LEVELS else []
        workers = settings.inter_threads
        # of a graph, with the thread that calls: one for each worker
        threads = workers * (share_cores(workers, settings.intra_threads) - 1) + 1
        path = model.directory / "model.bin"
        model.check_projection()
        try:
            encoder = OnnxEncoder(
                read_arrays(path, "encoder/"),
                levels=levels,
                threads=threads,
                merged=kept_frames < 1,
            )
            arrays = read_arrays(path, "decoder/")
            sessions = DecoderSessions(arrays, model.config, levels=levels, threads=threads)
            super().__init__(
                model,
                [encoder] * workers,
                [OnnxDecoder(sessions) for _ in range(workers)],
                arrays,
                kept_frames=kept_frames,
                library=f"onnxruntime {onnxruntime.__version__}",
                description=", ".join(parts),
                threads=settings.intra_threads,
                int8_weights=True,
            )
        except (RuntimeError, LookupError, ValueError) as error:
            raise ModelError(
                f"{model.directory}: ONNX Runtime cannot use the weights: {one_line(error)}"
            ) from error
