"""A batch is divided if its number of rows would change the rounding of a product."""

import sys

import numpy as np
import pytest

from whisperbatch.engines.cpu.decoder import Decoder
from whisperbatch.engines.cpu.encoder_output import EncoderOutput
from whisperbatch.engines.openvino import decoder as openvino_decoder


@pytest.mark.parametrize(
    ("prompt_length", "beams", "rows"),
    [(4, 1, 20), (4, 5, 16), (41, 5, 1), (80, 1, 1), (120, 5, 16), (1, 1, 80), (4, 100, 1)],
)
def test_openvino_computes_at_most_80_vectors_together_without_avx512(
    monkeypatch: pytest.MonkeyPatch, prompt_length: int, beams: int, rows: int
) -> None:
    runner = object.__new__(openvino_decoder.OpenVinoDecoder)
    monkeypatch.setattr(openvino_decoder, "rounding_depends_on_vectors", lambda: True)
    assert runner.rows_together(prompt_length, beams) == rows
    monkeypatch.setattr(openvino_decoder, "rounding_depends_on_vectors", lambda: False)
    assert runner.rows_together(prompt_length, beams) == sys.maxsize


def test_rows_keep_their_order_in_the_parts_of_a_batch() -> None:
    decoder = object.__new__(Decoder)
    decoder._rows_together = lambda prompt_length, beams: 2 * prompt_length * beams
    lengths = (6, 6, 4, 6, 4, 6)
    output = EncoderOutput(tuple(np.zeros((length, 8), np.float32) for length in lengths))
    parts = list(decoder._batches(output, prompt_length=1, beams=1))
    assert parts == [[0, 1], [3, 5], [2, 4]]
