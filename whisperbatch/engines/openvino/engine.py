"""Whisper on OpenVINO, for CPUs, from CTranslate2's weights. Needs the extra `openvino`.

    features -> encoder -> encoder output -> decoder -> hypotheses with the times of their tokens
                                   '-------> CTranslate2's decoder, for what OpenVINO's lacks

OpenVINO's decoder lacks the repetition penalty, timestamp tokens, and searches with more than
`MAX_BEAMS` beams. An engine on CTranslate2, the fallback, decodes these rows from OpenVINO's
encoder output. The weights of the fallback are loaded when it is first used.
"""

import functools
import logging
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

import ctranslate2
import numpy as np
import numpy.typing as npt

from whisperbatch.engines.calls import Calls
from whisperbatch.engines.ctranslate2 import conversion
from whisperbatch.engines.ctranslate2.engine import CTranslate2Engine
from whisperbatch.engines.devices import share_cores
from whisperbatch.engines.memory import return_freed_memory
from whisperbatch.engines.model_info import ModelInfo
from whisperbatch.engines.openvino.compiler import GraphCompiler
from whisperbatch.engines.openvino.decoder import MAX_BEAMS, OpenVinoDecoder
from whisperbatch.engines.openvino.encoder import OpenVinoEncoder
from whisperbatch.engines.openvino.encoder_output import EncoderOutput
from whisperbatch.engines.openvino.graph import open_core
from whisperbatch.engines.search.alignment import NO_TOKENS
from whisperbatch.engines.settings import CTranslate2Settings, OpenVinoSettings
from whisperbatch.engines.special_tokens import language_tokens
from whisperbatch.errors import EngineError, ModelError
from whisperbatch.models.files import one_line
from whisperbatch.models.model_bin import read_arrays
from whisperbatch.models.packages import default_cache
from whisperbatch.options import SearchOptions
from whisperbatch.protocols import Alignment, AlignRequest, Decoded, DecodeRequest, Encoded

log = logging.getLogger(__name__)


class OpenVinoEngine:
    """A Whisper model on OpenVINO. See `protocols.Engine`.

    Args:
        model: the model.
        settings: see `OpenVinoSettings`.

    Attributes:
        fallback: decodes the rows that OpenVINO's decoder cannot decode.
        encodes_rows_alone: the encoder takes as long for several rows as for each row alone, so
            the scheduler may compute urgent rows of other recordings between two rows.

    Raises:
        MissingExtraError: OpenVINO is not installed.
        ModelError: OpenVINO cannot use the weights.
    """

    encodes_rows_alone: Final = True

    def __init__(self, model: ModelInfo, *, settings: OpenVinoSettings | None = None) -> None:
        settings = settings or OpenVinoSettings()
        compute_type = "int8" if settings.compute_type == "auto" else settings.compute_type
        int8_weights = compute_type.startswith("int8")
        try:
            core, precision = open_core(exact=compute_type.endswith("float32"))
        except RuntimeError as error:
            raise ModelError(
                f"OpenVINO does not work on this machine: {one_line(error)}"
            ) from error
        self._model = model
        kept_frames = model.kept_frames if settings.kept_frames is None else settings.kept_frames
        parts = ["cpu", *(["8-bit weights"] * int8_weights), precision]
        parts += [f"{kept_frames:.12g} of the frames of clear rows"] if kept_frames < 1 else []
        self._description = ", ".join(parts)
        self.name, self.tokenizer = model.name, model.tokenizer
        self.is_multilingual, self.n_mels = model.is_multilingual, model.n_mels
        self.can_translate = model.can_translate
        self.workers = settings.inter_threads
        compiler = GraphCompiler(
            core=core,
            origin=f"{model.fingerprint} {int8_weights}",
            workers=settings.inter_threads,
            threads=share_cores(settings.inter_threads, settings.intra_threads),
            folder=_cache_folder(),
        )
        path = model.directory / "model.bin"
        model.check_projection()
        try:
            self._encoder = OpenVinoEncoder(
                compiler,
                read_arrays(path, "encoder/"),
                precision=precision,
                int8_weights=int8_weights,
                kept_frames=kept_frames,
            )
            self._decoder = OpenVinoDecoder(
                compiler,
                read_arrays(path, "decoder/"),
                model.config,
                model.special,
                precision=precision,
                int8_weights=int8_weights,
                merged=kept_frames < 1,
            )
        except (RuntimeError, LookupError, ValueError) as error:
            raise ModelError(
                f"{model.directory}: OpenVINO cannot use the weights: {one_line(error)}"
            ) from error
        return_freed_memory()
        self.fallback = CTranslate2Engine(
            model,
            device="cpu",
            settings=_fallback_settings(settings, int8_weights=int8_weights),
            load_weights=False,
        )
        self._calls = Calls(model.name)
        log.info("model %s on OpenVINO (%s), %d worker(s)", model.name, precision, self.workers)

    @functools.cached_property
    def fingerprint(self) -> str:
        """See `protocols.Engine`."""
        library = f"openvino {version('openvino')}"
        fallback = f"fallback on {self.fallback.description}"
        return f"{self._model.fingerprint}, {self._description}, {library}, {fallback}"

    def check(self, options: SearchOptions) -> None:
        """See `protocols.Engine`: the engine and its fallback together honour all options."""

    def encode(self, features: npt.NDArray[np.float32]) -> Encoded:
        """See `protocols.Engine`."""
        with self._calls():
            return self._encoder(np.ascontiguousarray(features))

    def split(self, encoded: Encoded) -> list[Encoded]:
        """See `protocols.Engine`."""
        return list(_output(encoded).split())

    def join(self, rows: Sequence[Encoded]) -> Encoded:
        """See `protocols.Engine`."""
        return EncoderOutput.join([_output(row) for row in rows])

    def detect_language(self, encoded: Encoded) -> list[dict[str, float]]:
        """See `protocols.Engine`."""
        self._model.check_multilingual()
        tokens = language_tokens(self.tokenizer)
        with self._calls():
            probabilities = self._decoder.languages(_output(encoded), list(tokens.values()))
        return [dict(zip(tokens, row.tolist(), strict=True)) for row in probabilities]

    def decode(
        self, encoded: Encoded, requests: Sequence[DecodeRequest], options: SearchOptions
    ) -> list[Decoded]:
        """See `protocols.Engine`."""
        output = _output(encoded)
        if reason := self._unsupported(requests, options):
            log.debug("%d row(s) are decoded by CTranslate2: %s", len(requests), reason)
            by_position = conversion.EncoderOutput.from_array(output.by_position())
            return self.fallback.decode(by_position, requests, options)
        with self._calls():
            decoded = self._decoder.decode(output, requests, options)
        return_freed_memory()
        return decoded

    def align(self, encoded: Encoded, texts: Sequence[AlignRequest]) -> list[Alignment]:
        """See `protocols.Engine`. Each row is aligned in a separate call."""
        output = _output(encoded)
        with self._calls():
            return [
                self._decoder.align(row, text) if text.tokens else NO_TOKENS
                for row, text in zip(output.split(), texts, strict=True)
            ]

    def close(self) -> None:
        """See `protocols.Engine`. Waits for calls in progress."""
        self._calls.close(self._free)

    def _unsupported(self, requests: Sequence[DecodeRequest], options: SearchOptions) -> str:
        """Return why OpenVINO's decoder cannot decode these rows; empty if it can."""
        sampled = requests[0].sampling is not None
        if options.beam_size > MAX_BEAMS and not sampled:
            return f"beam_size={options.beam_size}"
        if options.repetition_penalty != 1:
            return f"repetition_penalty={options.repetition_penalty}"
        if not all(self._model.special.no_timestamps in request.prompt for request in requests):
            return "timestamp tokens"
        return ""

    def _free(self) -> None:
        del self._encoder, self._decoder
        self.fallback.close()
        return_freed_memory()


def _fallback_settings(settings: OpenVinoSettings, *, int8_weights: bool) -> CTranslate2Settings:
    """Return settings with which CTranslate2's decoder accepts encoder output in float32."""
    int8 = int8_weights and "int8" in ctranslate2.get_supported_compute_types("cpu")
    return CTranslate2Settings(
        compute_type="int8" if int8 else "float32",
        inter_threads=settings.inter_threads,
        intra_threads=settings.intra_threads,
    )


def _output(encoded: Encoded) -> EncoderOutput:
    """Return `encoded`, checked to be this engine's.

    Raises:
        EngineError: another engine made the encoder output.
    """
    if not isinstance(encoded, EncoderOutput):
        raise EngineError("the encoder output comes from another engine")
    return encoded


def _cache_folder() -> Path | None:
    """Return the folder of compiled graphs; None if the user has no home directory."""
    try:
        return default_cache() / "openvino"
    except ModelError:
        return None
