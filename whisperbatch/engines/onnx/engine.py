"""Whisper on CPUs, from CTranslate2's weights. CTranslate2 is the fallback.

    features -> encoder, on ONNX Runtime or OpenVINO -> encoder output
    encoder output -> decoder, on ONNX Runtime -> hypotheses with the times of their tokens
           '--------> CTranslate2's decoder, for what this decoder lacks

On processors that multiply in bfloat16, OpenVINO computes the encoder: ONNX Runtime computes the
convolutions, the attention and GELU in float32.

The decoder lacks the repetition penalty, timestamp tokens, and searches with more than `MAX_BEAMS`
beams. An engine on CTranslate2, the fallback, decodes these rows from the encoder output. The
weights of the fallback are loaded when it is first used.
"""

import logging
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Final

import ctranslate2
import numpy as np
import numpy.typing as npt
import onnxruntime

from whisperbatch.engines.alignment import NO_TOKENS
from whisperbatch.engines.calls import Calls, check_encoded
from whisperbatch.engines.ctranslate2.engine import CTranslate2Engine, EncodedView
from whisperbatch.engines.devices import share_cores
from whisperbatch.engines.memory import return_freed_memory
from whisperbatch.engines.model_info import ModelInfo, language_tokens
from whisperbatch.engines.onnx.decoder import Decoder
from whisperbatch.engines.onnx.decoder_layers import MAX_BEAMS, DecoderSessions
from whisperbatch.engines.onnx.encoder import Encoder, EncoderOutput, EncoderRunner, OnnxEncoder
from whisperbatch.engines.onnx.graph import SHORT_LEVELS, second_levels
from whisperbatch.engines.onnx.openvino_encoder import OpenVinoEncoder, load_encoder
from whisperbatch.engines.settings import (
    CTranslate2Settings,
    OnnxRuntimeSettings,
    OpenVinoSettings,
)
from whisperbatch.errors import MissingExtraError, ModelError
from whisperbatch.models.files import one_line
from whisperbatch.models.model_bin import read_arrays
from whisperbatch.options import DEFAULT_BATCH_SIZE, SearchOptions
from whisperbatch.protocols import Alignment, AlignRequest, Decoded, DecodeRequest, Encoded
from whisperbatch.runtimes.machine import multiplies_bfloat16
from whisperbatch.runtimes.openvino_package import Precision, check_openvino, openvino_is_installed
from whisperbatch.text.messages import description, shown
from whisperbatch.threads import cached_property, keep_in_children

log = logging.getLogger(__name__)

WORKERS: Final = 2
"""Batches at a time, if the number is not given. A batch on half of the cores waits less for the
threads of each operator: ten minutes take 0.8 of the time on two cores."""

ROWS_OF_A_THREAD: Final = 4
"""Rows of a call, if the number is not given and a call has one thread: more rows are no faster."""


class OnnxRuntimeEngine:
    """A Whisper model on ONNX Runtime. See `protocols.Engine`.

    Args:
        model: the model.
        settings: see `OnnxRuntimeSettings`. With `OpenVinoSettings`, OpenVINO computes the encoder.

    Attributes:
        fallback: decodes the rows that the decoder cannot decode.
        encodes_rows_alone: a batch saves no time in the encoder, which computes row by row, so
            the scheduler may compute urgent rows of other recordings between two rows.

    Raises:
        MissingExtraError: the package onnx is not installed, or OpenVINO is needed and not
            installed.
        ModelError: a library cannot use the weights, or OpenVINO does not work on this machine.
    """

    encodes_rows_alone: Final = True

    def __init__(self, model: ModelInfo, *, settings: OnnxRuntimeSettings | None = None) -> None:
        self._model, self._settings = model, settings or OnnxRuntimeSettings()
        self._on_openvino = uses_openvino(self._settings)
        given = self._settings.inter_threads, self._settings.intra_threads
        self.workers, self._threads = share_cores(*given, most=WORKERS)
        self.name, self.tokenizer = model.name, model.tokenizer
        self.is_multilingual, self.n_mels = model.is_multilingual, model.n_mels
        self.can_translate = model.can_translate
        model.check_projection()
        self._load()
        return_freed_memory()
        int8 = "int8" in ctranslate2.get_supported_compute_types("cpu")
        # settings with which CTranslate2's decoder accepts encoder output in float32
        fallback = CTranslate2Settings(
            compute_type="int8" if int8 else "float32",
            inter_threads=self.workers,
            intra_threads=self._settings.intra_threads,
        )
        self.fallback = CTranslate2Engine(
            model, device="cpu", settings=fallback, load_weights=False
        )
        self._calls = Calls(model.name, self._renew)
        details = (model.name, self._library, self._description, self.workers)
        log.info("model %s on %s (%s), %d worker(s)", *details)

    def __repr__(self) -> str:
        return description(self, shown(self.name), self._description)

    def _load(self) -> None:
        kept_frames = self._model.frames_to_keep(self._settings.kept_frames)
        levels, merged = second_levels(), kept_frames < 1
        threads = self.workers * (self._threads - 1) + 1  # of a graph, with the thread that calls
        parts = ["cpu", "8-bit weights", "8-bit products"]
        parts += ["added in 16 bits"] if levels == SHORT_LEVELS else []
        path = self._model.directory / "model.bin"
        self._library = f"onnxruntime {onnxruntime.__version__}"
        encoders: Sequence[EncoderRunner]
        try:
            if on_openvino := self._openvino_encoders(merged=merged):
                encoders, precision = on_openvino
                self._library += f", openvino {version('openvino')}"
                parts += [f"encoder in {precision}"]
            else:
                arrays = read_arrays(path, "encoder/")
                encoder = OnnxEncoder(arrays, levels=levels, threads=threads, merged=merged)
                encoders = [encoder] * self.workers
            arrays = read_arrays(path, "decoder/")
            sessions = DecoderSessions(arrays, self._model.config, levels=levels, threads=threads)
            self._encoder = Encoder(encoders, kept_frames)
            self._decoder = Decoder(
                sessions, self.workers, arrays, self._model.config, self._model.special
            )
        except (RuntimeError, LookupError, ValueError) as error:
            raise ModelError(
                f"{self._model.directory}: {self._library} cannot use the weights: "
                f"{one_line(error)}"
            ) from error
        # a part of the fingerprint: with another text, finished outputs would be made again
        parts += [f"about {kept_frames:.12g} of the frames of clear rows"] if merged else []
        self._description = ", ".join(parts)
        keep_in_children(self._encoder, self._decoder)

    def _openvino_encoders(self, *, merged: bool) -> tuple[list[OpenVinoEncoder], Precision] | None:
        """Return OpenVINO's encoders; None if onnxruntime computes the encoder.

        An installed OpenVINO may not work. Without settings that ask for OpenVINO, onnxruntime
        then computes the encoder.
        """
        if not self._on_openvino:
            return None
        try:
            return load_encoder(self._model, self.workers, self._threads, merged=merged)
        except (MissingExtraError, ModelError, RuntimeError) as error:
            if needs_openvino(self._settings):
                raise
            log.warning("onnxruntime computes the encoder, because of an error: %s", error)
            self._on_openvino = False
            return None

    def default_batch_size(self, hypotheses: int) -> int:  # noqa: ARG002 - memory does not decide
        """See `protocols.Engine`."""
        return DEFAULT_BATCH_SIZE if self._threads > 1 else ROWS_OF_A_THREAD

    @cached_property
    def fingerprint(self) -> str:
        """See `protocols.Engine`."""
        fallback = f"fallback on {self.fallback.description}"
        parts = (self._model.fingerprint, self._description, self._library, fallback)
        return ", ".join(parts) + self._model.origin

    def check(self, options: SearchOptions) -> None:
        """See `protocols.Engine`: the engine and its fallback together honour all options."""

    def encode(self, features: npt.NDArray[np.float32]) -> Encoded:
        """See `protocols.Engine`."""
        with self._calls():
            return self._encoder(np.ascontiguousarray(features))

    def split(self, encoded: Encoded) -> list[Encoded]:
        """See `protocols.Engine`."""
        return list(check_encoded(encoded, EncoderOutput).split())

    def join(self, rows: Sequence[Encoded]) -> Encoded:
        """See `protocols.Engine`."""
        return EncoderOutput.join([check_encoded(row, EncoderOutput) for row in rows])

    def detect_language(self, encoded: Encoded) -> list[dict[str, float]]:
        """See `protocols.Engine`."""
        self._model.check_multilingual()
        tokens = language_tokens(self.tokenizer)
        with self._calls():
            probabilities = self._decoder.languages(
                check_encoded(encoded, EncoderOutput), list(tokens.values())
            )
        return [dict(zip(tokens, row.tolist(), strict=True)) for row in probabilities]

    def decode(
        self, encoded: Encoded, requests: Sequence[DecodeRequest], options: SearchOptions
    ) -> list[Decoded]:
        """See `protocols.Engine`."""
        return self.decode_with_pauses(encoded, requests, options, None)

    def decode_with_pauses(
        self,
        encoded: Encoded,
        requests: Sequence[DecodeRequest],
        options: SearchOptions,
        pause: Callable[[], None] | None,
    ) -> list[Decoded]:
        """See `protocols.EngineTraits`. CTranslate2 decodes without pauses."""
        output = check_encoded(encoded, EncoderOutput)
        if reason := self._unsupported(requests, options):
            log.debug("%d row(s) are decoded by CTranslate2: %s", len(requests), reason)
            by_position = EncodedView.from_array(output.by_position())
            return self.fallback.decode(by_position, requests, options)
        with self._calls():
            decoded = self._decoder.decode(output, requests, options, pause)
        return_freed_memory()
        return decoded

    def align(self, encoded: Encoded, texts: Sequence[AlignRequest]) -> list[Alignment]:
        """See `protocols.Engine`. Each row is aligned in a separate call."""
        output = check_encoded(encoded, EncoderOutput)
        with self._calls():
            return [
                self._decoder.align(row, text) if text.tokens else NO_TOKENS
                for row, text in zip(output.split(), texts, strict=True)
            ]

    def close(self) -> None:
        """See `protocols.Engine`. Waits for calls in progress."""
        self._calls.close(self._free)

    def _unsupported(self, requests: Sequence[DecodeRequest], options: SearchOptions) -> str:
        """Return why the decoder cannot decode these rows; empty if it can."""
        sampled = requests[0].sampling is not None
        if options.beam_size > MAX_BEAMS and not sampled:
            return f"beam_size={options.beam_size}"
        if options.repetition_penalty != 1:
            return f"repetition_penalty={options.repetition_penalty}"
        if not all(self._model.special.no_timestamps in request.prompt for request in requests):
            return "timestamp tokens"
        return ""

    def _renew(self, was_busy: bool) -> None:
        """Load the graphs again in a child of a fork, if they need the threads of the parent.

        ONNX Runtime works in the child if none of its calls was in progress; OpenVINO does not.
        """
        if was_busy or self._on_openvino:
            log.info("model %s was loaded before a fork; it is loaded again", self.name)
            self._load()

    def _free(self) -> None:
        del self._encoder, self._decoder
        self.fallback.close()
        return_freed_memory()


def uses_openvino(settings: OnnxRuntimeSettings) -> bool:
    """Return whether OpenVINO computes the encoder.

    Raises:
        MissingExtraError: OpenVINO is needed, but is missing or too old.
    """
    if needs_openvino(settings):
        check_openvino()
        return True
    if settings.compute_type == "int8":
        return False
    return multiplies_bfloat16() and openvino_is_installed("the encoder")


def needs_openvino(settings: OnnxRuntimeSettings) -> bool:
    """Return whether the settings ask for OpenVINO's encoder."""
    return isinstance(settings, OpenVinoSettings) or settings.compute_type == "int8_bfloat16"
