"""An engine for CPUs. A library computes its graphs; CTranslate2 is its fallback.

The decoder lacks the repetition penalty, timestamp tokens, and searches with more than `MAX_BEAMS`
beams. An engine on CTranslate2, the fallback, decodes these rows from the encoder output. The
weights of the fallback are loaded when it is first used.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

import ctranslate2
import numpy as np
import numpy.typing as npt

from whisperbatch.caching import cached_property
from whisperbatch.engines.calls import Calls
from whisperbatch.engines.cpu.decoder import Decoder
from whisperbatch.engines.cpu.encoder import Encoder
from whisperbatch.engines.cpu.encoder_output import EncoderOutput
from whisperbatch.engines.cpu.runners import MAX_BEAMS, DecoderRunner, EncoderRunner
from whisperbatch.engines.ctranslate2 import conversion
from whisperbatch.engines.ctranslate2.engine import CTranslate2Engine
from whisperbatch.engines.layout import Arrays
from whisperbatch.engines.memory import return_freed_memory
from whisperbatch.engines.model_info import ModelInfo
from whisperbatch.engines.search.alignment import NO_TOKENS
from whisperbatch.engines.settings import CTranslate2Settings
from whisperbatch.engines.special_tokens import language_tokens
from whisperbatch.errors import EngineError
from whisperbatch.options import SearchOptions
from whisperbatch.protocols import Alignment, AlignRequest, Decoded, DecodeRequest, Encoded
from whisperbatch.threads import keep_in_children

log = logging.getLogger(__name__)


class CpuEngine:
    """A Whisper model on a CPU. See `protocols.Engine`.

    Args:
        model: the model.
        encoders: compute the encoder; one for each worker.
        decoders: compute the decoder; one for each worker.
        arrays: the arrays "decoder/..." of model.bin, as stored.
        kept_frames: the share of the positions of a clear row that are left after similar
            positions are merged.
        library: the package that computes the graphs, with its version.
        description: how the graphs are computed.
        threads: CPU threads for each batch; 0 divides the cores between the batches.
        int8_weights: the matrices of the model and of the fallback are stored in 8 bits.
        reload: loads the same engine again.
        shares_idle_threads: whether the library works in a child of a fork if none of its calls was
            in progress. Otherwise the child loads the engine again at its first call.

    Attributes:
        fallback: decodes the rows that the decoder cannot decode.
        encodes_rows_alone: the encoder takes as long for several rows as for each row alone, so
            the scheduler may compute urgent rows of other recordings between two rows.
    """

    encodes_rows_alone: Final = True

    def __init__(
        self,
        model: ModelInfo,
        encoders: Sequence[EncoderRunner],
        decoders: Sequence[DecoderRunner],
        arrays: Arrays,
        *,
        kept_frames: float,
        library: str,
        description: str,
        threads: int,
        int8_weights: bool,
        reload: "Callable[[], CpuEngine]",
        shares_idle_threads: bool,
    ) -> None:
        if kept_frames < 1:
            description += f", about {kept_frames:.12g} of the frames of clear rows"
        self._encoder = Encoder(encoders, kept_frames)
        self._decoder = Decoder(decoders, arrays, model.config, model.special)
        self._model, self._library, self._description = model, library, description
        self.name, self.tokenizer = model.name, model.tokenizer
        self.is_multilingual, self.n_mels = model.is_multilingual, model.n_mels
        self.can_translate = model.can_translate
        self.workers = len(decoders)
        return_freed_memory()
        int8 = int8_weights and "int8" in ctranslate2.get_supported_compute_types("cpu")
        # settings with which CTranslate2's decoder accepts encoder output in float32
        fallback = CTranslate2Settings(
            compute_type="int8" if int8 else "float32",
            inter_threads=self.workers,
            intra_threads=threads,
        )
        self.fallback = CTranslate2Engine(
            model, device="cpu", settings=fallback, load_weights=False
        )
        self._reload, self._shares_idle_threads = reload, shares_idle_threads
        self._calls = Calls(model.name, self._renew)
        keep_in_children(self._encoder, self._decoder)
        details = (model.name, library, description, self.workers)
        log.info("model %s on %s (%s), %d worker(s)", *details)

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
        """Load the graphs again in a child of a fork, if the library needs its threads."""
        if was_busy or not self._shares_idle_threads:
            log.info("model %s was loaded before a fork; it is loaded again", self.name)
            fresh = self._reload()
            self._encoder, self._decoder = fresh._encoder, fresh._decoder  # noqa: SLF001 - own class

    def _free(self) -> None:
        del self._encoder, self._decoder
        self.fallback.close()
        return_freed_memory()


def _output(encoded: Encoded) -> EncoderOutput:
    """Return `encoded`, checked to be this engine's.

    Raises:
        EngineError: another engine made the encoder output.
    """
    if not isinstance(encoded, EncoderOutput):
        raise EngineError("the encoder output comes from another engine")
    return encoded
