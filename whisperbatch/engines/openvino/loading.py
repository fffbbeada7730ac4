"""Loads Whisper's encoder and decoder into OpenVINO, from CTranslate2's weights."""

import json
import logging
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from whisperbatch.engines.openvino.compiler import GraphCompiler
from whisperbatch.engines.openvino.decoder import OpenVinoDecoder
from whisperbatch.engines.openvino.encoder import OpenVinoEncoder
from whisperbatch.engines.openvino.graph import open_core
from whisperbatch.engines.special_tokens import SpecialTokens
from whisperbatch.errors import ModelError
from whisperbatch.models.model_bin import fingerprint, read_arrays
from whisperbatch.models.packages import default_cache

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenVinoParts:
    """The parts of a model that OpenVINO runs; CTranslate2 runs a part that is None.

    Attributes:
        encoder: the encoder, or None.
        decoder: the decoder, or None.
    """

    encoder: OpenVinoEncoder | None = None
    decoder: OpenVinoDecoder | None = None


def load_openvino(
    directory: Path,
    tokenizer: Tokenizer,
    *,
    encoder: bool,
    decoder: bool,
    compute_type: str,
    workers: int,
    threads: int,
) -> OpenVinoParts:
    """Load a model's encoder, decoder or both.

    Args:
        directory: of the weights, in CTranslate2's format.
        tokenizer: of the model.
        encoder: load the encoder.
        decoder: load the decoder.
        compute_type: "float32" computes in float32. All other types compute in bfloat16 if the
            processor supports bfloat16; "int8" types also store the matrices in 8 bits.
        workers: number of batches in progress at a time.
        threads: number of threads for each batch.

    Raises:
        MissingExtraError: OpenVINO is not installed.
        ModelError: OpenVINO cannot use the weights.
    """
    core, precision = open_core(exact=compute_type == "float32")
    path = directory / "model.bin"
    int8_weights = compute_type.startswith("int8")
    compiler = GraphCompiler(
        core=core,
        origin=f"{fingerprint(directory)} {int8_weights}",
        workers=workers,
        threads=threads,
        folder=_cache_folder(),
    )
    try:
        parts = OpenVinoParts(
            OpenVinoEncoder(
                compiler,
                read_arrays(path, "encoder/"),
                precision=precision,
                int8_weights=int8_weights,
            )
            if encoder
            else None,
            OpenVinoDecoder(
                compiler,
                read_arrays(path, "decoder/"),
                json.loads((directory / "config.json").read_text(encoding="utf-8")),
                SpecialTokens.from_tokenizer(tokenizer),
                precision=precision,
                int8_weights=int8_weights,
            )
            if decoder
            else None,
        )
    except (RuntimeError, LookupError, ValueError) as error:
        raise ModelError(f"{directory}: OpenVINO cannot use the weights: {error}") from error
    for name, loaded in (("encoder", encoder), ("decoder", decoder)):
        if loaded:
            log.info("%s on OpenVINO (%s)", name, precision)
    return parts


def _cache_folder() -> Path | None:
    try:
        return default_cache() / "openvino"
    except ModelError:  # the user has no home directory
        return None
