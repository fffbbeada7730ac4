"""A soft voice after a loud voice in the same chunk keeps its words: real weights, no retries."""

import numpy as np
import pytest

import whisperbatch as wb
from benchmarks import corpora, scoring


@pytest.mark.parametrize(
    "names",
    [
        ("quieter:it:60:0",),
        pytest.param(("quieter:ru:60:0", "quieter:ru:60:1"), marks=pytest.mark.slow),
    ],
    ids=["it", "ru"],
)
def test_soft_voices_between_loud_voices_keep_their_words(
    base: wb.Transcriber, names: tuple[str, ...]
) -> None:
    """The soft voices are 20 to 35 dB softer. Without levelling, half of the words are lost."""
    words = deletions = 0
    for name in names:
        recording = corpora.build(name)
        _, language, _, _ = corpora.parse(name)
        samples = (recording.samples / 32768).astype(np.float32)
        found = base.transcribe(samples, language=language, beam_size=1, coverage_threshold=None)
        score = scoring.word_error_rate(recording.text, found.text, language)
        words += score.words
        deletions += score.deletions
    assert deletions <= 0.07 * words
