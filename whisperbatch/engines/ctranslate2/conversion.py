"""Encoder output on CTranslate2, and conversion of CTranslate2's types to ours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ctranslate2
import numpy as np
import numpy.typing as npt

from whisperbatch.engines.search.alignment import SECONDS_PER_POSITION
from whisperbatch.errors import EngineError
from whisperbatch.options import MAX_NEW_TOKENS, SearchOptions
from whisperbatch.protocols import Alignment, Encoded, Hypothesis


@dataclass(frozen=True, slots=True, eq=False)
class EncoderOutput:
    """The encoder output of a batch. See `protocols.Encoded`.

    Attributes:
        rows: number of rows.
        view: shape (rows, positions, d_model).
    """

    rows: int
    view: ctranslate2.StorageView

    @classmethod
    def from_array(cls, output: npt.NDArray[np.float32]) -> "EncoderOutput":
        """Return encoder output of another engine, shape (rows, positions, d_model)."""
        view = ctranslate2.StorageView.from_array(np.ascontiguousarray(output))
        return cls(len(output), view)


def check_output(encoded: Encoded) -> EncoderOutput:
    """Return `encoded`, checked to be this engine's.

    Raises:
        EngineError: another engine made the encoder output.
    """
    if not isinstance(encoded, EncoderOutput):
        raise EngineError("the encoder output comes from another engine")
    return encoded


def to_array(view: ctranslate2.StorageView) -> npt.NDArray[np.float32]:
    """Return encoder output as an array in float32, because NumPy has no bfloat16."""
    on_cpu = view.to_device(ctranslate2.Device.cpu)
    float32 = ctranslate2.DataType.float32
    return np.asarray(on_cpu if view.dtype == float32 else on_cpu.to(float32))


def split_rows(view: ctranslate2.StorageView) -> list[ctranslate2.StorageView]:
    """Return each row of encoder output as a view on the CPU, in the type of `view`."""
    rows = [
        ctranslate2.StorageView.from_array(np.ascontiguousarray(row[None]))
        for row in to_array(view)
    ]
    if view.dtype == ctranslate2.DataType.float32:
        return rows
    return [row.to(view.dtype) for row in rows]


def join_rows(views: Sequence[ctranslate2.StorageView]) -> ctranslate2.StorageView:
    """Return several encoder outputs as one batch on the CPU, in the type of the first."""
    joined = ctranslate2.StorageView.from_array(np.concatenate([to_array(view) for view in views]))
    dtype = views[0].dtype
    return joined if dtype == joined.dtype else joined.to(dtype)


def generation_settings(options: SearchOptions, prompt_length: int) -> dict[str, Any]:
    """Return the arguments of CTranslate2's `generate` that search and sampling share."""
    return {
        "repetition_penalty": options.repetition_penalty,
        "no_repeat_ngram_size": options.no_repeat_ngram_size,
        "suppress_blank": options.suppress_blank,
        "suppress_tokens": list(options.suppress_tokens),
        "max_initial_timestamp_index": round(options.max_initial_timestamp / SECONDS_PER_POSITION),
        "max_length": _max_length(options.max_new_tokens, prompt_length),
        "return_scores": True,
        "return_no_speech_prob": True,
    }


def _max_length(max_new_tokens: int | None, prompt_length: int) -> int:
    """Return the `max_length` with which CTranslate2 decodes `max_new_tokens` tokens.

    CTranslate2 decodes min(max_length / 2, max_length - prompt_length) tokens, where the prompt is
    counted without its last token.
    """
    new_tokens = max_new_tokens or MAX_NEW_TOKENS
    return max(2 * new_tokens, new_tokens + prompt_length - 1)


def to_hypothesis(result: Any, length_penalty: float, prefix: Sequence[int] = ()) -> Hypothesis:  # noqa: ANN401 - untyped
    """Return the best hypothesis of a row.

    Args:
        result: from CTranslate2's `generate`; its score is divided by the length penalty.
        length_penalty: exponent of the length by which the score was divided.
        prefix: the last tokens of the prompt that belong to the text. CTranslate2 returns them as
            part of the text, with a log-probability of 0.
    """
    text = tuple(result.sequences_ids[0])
    total_logprob = result.scores[0] * max(len(text), 1) ** length_penalty
    tokens = text[len(prefix) :] if text[: len(prefix)] == tuple(prefix) else text
    return Hypothesis(tokens, total_logprob / (len(tokens) + 1), result.no_speech_prob)


def to_alignment(result: Any) -> Alignment:  # noqa: ANN401 - untyped
    """Return the times of a row's tokens.

    A token begins where the DTW path enters the token, and ends where the path enters the next.

    Args:
        result: from CTranslate2's `align`.
    """
    path = np.array(result.alignments)  # (steps, 2): token, position; the end of text is last
    entries = np.concatenate(([True], np.diff(path[:, 0]) > 0))
    times = path[entries, 1] * SECONDS_PER_POSITION
    probabilities = np.array(result.text_token_probs)
    count = len(probabilities)
    return Alignment(times[:count], times[1 : count + 1], probabilities)
