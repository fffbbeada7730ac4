"""Whisper on OpenVINO, for CPUs, from CTranslate2's weights. Needs the extra `openvino`."""

from importlib.metadata import version

from whisperbatch.engines.cpu.engine import CpuEngine
from whisperbatch.engines.devices import share_cores
from whisperbatch.engines.model_info import ModelInfo
from whisperbatch.engines.openvino.compiler import model_compiler
from whisperbatch.engines.openvino.decoder import compile_decoder
from whisperbatch.engines.openvino.encoder import compile_encoder
from whisperbatch.engines.openvino.graph import core_and_precision
from whisperbatch.engines.settings import OpenVinoSettings
from whisperbatch.errors import ModelError
from whisperbatch.models.files import one_line
from whisperbatch.models.model_bin import read_arrays


class OpenVinoEngine(CpuEngine):
    """A Whisper model on OpenVINO. See `protocols.Engine`.

    Args:
        model: the model.
        settings: see `OpenVinoSettings`.

    Raises:
        MissingExtraError: OpenVINO is not installed.
        ModelError: OpenVINO cannot use the weights.
    """

    def __init__(self, model: ModelInfo, *, settings: OpenVinoSettings | None = None) -> None:
        settings = settings or OpenVinoSettings()
        compute_type = "int8" if settings.compute_type == "auto" else settings.compute_type
        int8_weights = compute_type.startswith("int8")
        try:
            core, precision = core_and_precision(exact=compute_type.endswith("float32"))
        except RuntimeError as error:
            raise ModelError(
                f"OpenVINO does not work on this machine: {one_line(error)}"
            ) from error
        kept_frames = model.frames_to_keep(settings.kept_frames)
        parts = ["cpu", *(["8-bit weights"] * int8_weights), precision]
        workers, threads = share_cores(settings.inter_threads, settings.intra_threads)
        compiler = model_compiler(
            core, model, int8_weights=int8_weights, workers=workers, threads=threads
        )
        path = model.directory / "model.bin"
        model.check_projection()
        try:
            encoders = compile_encoder(
                compiler,
                read_arrays(path, "encoder/"),
                precision=precision,
                int8_weights=int8_weights,
                merged=kept_frames < 1,
            )
            arrays = read_arrays(path, "decoder/")
            decoders = compile_decoder(
                compiler,
                arrays,
                model.config,
                precision=precision,
                int8_weights=int8_weights,
                merged=kept_frames < 1,
            )
            super().__init__(
                model,
                encoders,
                decoders,
                arrays,
                kept_frames=kept_frames,
                library=f"openvino {version('openvino')}",
                description=", ".join(parts),
                threads=settings.intra_threads,
                int8_weights=int8_weights,
                reload=lambda: OpenVinoEngine(model, settings=settings),
                shares_idle_threads=False,
            )
        except (RuntimeError, LookupError, ValueError) as error:
            raise ModelError(
                f"{model.directory}: OpenVINO cannot use the weights: {one_line(error)}"
            ) from error
