"""Whisper's encoder and decoder on OpenVINO, from CTranslate2's weights: the extra `openvino`."""

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
class OpenVino:
    """What OpenVINO does for an engine; None is left to CTranslate2.

    Attributes:
        encoder: or None.
        decoder: likewise.
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
) -> OpenVino:
    """The parts that are asked for.

    Args:
        directory: of CTranslate2 weights.
        tokenizer: of theirs.
        encoder: whether to load it.
        decoder: likewise.
        compute_type: "float32" is kept to; "int8" keeps the matrices so. They are multiplied in
            bfloat16 where the processor has it.
        workers: how many batches are worked on at a time.
        threads: for each of them.

    Raises:
        MissingExtraError: OpenVINO is not installed.
        ModelError: the weights are not to be used.
    """
    core, precision = open_core(exact=compute_type == "float32")
    path = directory / "model.bin"
    small = compute_type.startswith("int8")
    compiler = GraphCompiler(
        core=core,
        origin=f"{fingerprint(directory)} {small}",
        workers=workers,
        threads=threads,
        folder=_folder(),
    )
    try:
        found = OpenVino(
            OpenVinoEncoder(
                compiler,
                read_arrays(path, "encoder/"),
                precision=precision,
                small=small,
            )
            if encoder
            else None,
            OpenVinoDecoder(
                compiler,
                read_arrays(path, "decoder/"),
                json.loads((directory / "config.json").read_text(encoding="utf-8")),
                SpecialTokens.of(tokenizer),
                precision=precision,
                small=small,
            )
            if decoder
            else None,
        )
    except (RuntimeError, LookupError, ValueError) as error:
        raise ModelError(f"{directory}: OpenVINO cannot use the weights: {error}") from error
    for part, wanted in (("encoder", encoder), ("decoder", decoder)):
        if wanted:
            log.info("%s on OpenVINO (%s)", part, precision)
    return found


def _folder() -> Path | None:
    try:
        return default_cache() / "openvino"
    except ModelError:  # nobody is at home
        return None
