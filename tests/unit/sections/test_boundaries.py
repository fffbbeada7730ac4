"""The point between two sections lies in a pause, and in the quietest place without a pause."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import up_to
from whisperbatch.sections.boundaries import find_boundary
from whisperbatch.types import SpeechFrames

HOP = 512
OFFSET = 0.35  # of VAD frames with speech

Part = tuple[int, float, float]
"""Number of VAD frames, probability of speech, amplitude."""


def window(*parts: Part) -> SpeechFrames:
    rng = np.random.default_rng(0)
    noise = np.tile(rng.standard_normal(HOP), sum(count for count, *_ in parts))
    levels = np.repeat([level for *_, level in parts], [count * HOP for count, *_ in parts])
    probabilities = np.concatenate([np.full(count, p, np.float32) for count, p, _ in parts])
    return SpeechFrames((levels * noise).astype(np.float32), probabilities)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([(50, 0.9, 0.1), (10, 0.1, 0.001), (50, 0.9, 0.1)], 55),  # the middle of a pause
        ([(20, 0.9, 0.1), (6, 0.1, 1e-4), (20, 0.9, 0.1), (20, 0.1, 0.01), (9, 0.9, 0.1)], 56),
        ([(31, 0.1, 0.01), (20, 0.9, 0.1), (90, 0.1, 1e-3)], 96),  # the quietest long pause
        ([(60, 0.1, 0.05), (60, 0.1, 0.001), (60, 0.1, 0.05)], 90),  # a whisper is no pause
        ([(100, 0.9, 0.1), (2, 0.9, 0.01), (100, 0.9, 0.1)], 101),  # no pause
        ([(100, 0.9, 0.1), (2, 0.6, 0.1), (100, 0.9, 0.1)], 101),
        ([(200, 1.0, 0.0)], 100),  # digital silence without a VAD
        ([(200, 0.0, 0.0)], 100),
    ],
)
def test_places(parts: list[Part], expected: int) -> None:
    assert abs(find_boundary(window(*parts), HOP, OFFSET) - expected) <= 1


@settings(max_examples=up_to(200), deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 60),
            st.sampled_from((0.0, 0.2, 0.34, 0.35, 0.9, 1.0)),
            st.sampled_from((0.0, 1e-3, 0.1)),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_no_point_is_within_speech_if_there_is_a_pause(parts: list[Part]) -> None:
    frames = window(*parts, (1, 0.9, 0.1))
    point = find_boundary(frames, HOP, OFFSET)
    probabilities: npt.NDArray[np.float32] = frames.probabilities
    assert 0 <= point < len(probabilities)
    if (probabilities < OFFSET).any():
        assert probabilities[point] < OFFSET
    else:
        assert point > 0
