"""Pieces: never across a boundary of a track, and enough of them."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.diarization.synthetic import window
from whisperbatch.diarization.embeddings import (
    MIN_PIECE,
    PIECE,
    PIECE_FRAMES,
    SHIFT,
    Piece,
    frames_of,
    plan_pieces,
)
from whisperbatch.diarization.networks import Fbank
from whisperbatch.diarization.segmentation import (
    FRAME,
    FRAMES,
    HOP,
    MARGIN,
    WINDOW_SAMPLES,
    Window,
    find_runs,
)

stretches = st.lists(
    st.tuples(st.integers(0, 12), st.sampled_from((3, 17, 18, 40, 89, 95, 200, 589))),
    min_size=1,
    max_size=12,
)
TRACKS: tuple[list[int], ...] = (
    [],
    [],
    [0],
    [0],
    [0],
    [1],
    [1],
    [1],
    [2],
    [2],
    [0, 1],
    [1, 2],
    [0, 2],
)


@st.composite
def any_window(draw: st.DrawFn) -> Window:
    at, parts = draw(st.integers(0, 60)), []
    for choice, length in draw(stretches):
        parts.append((at, min(at + length, FRAMES), TRACKS[choice]))
        at += length
    number = draw(st.integers(0, 5))
    return window(*parts, number=number, end=draw(st.sampled_from((0, 0, FRAMES, 300))))


def pieces_of(every: Window) -> list[Piece]:
    return list(plan_pieces(every, find_runs(every)))


@settings(max_examples=200)
@given(any_window())
def test_no_piece_crosses_a_boundary_of_a_track(every: Window) -> None:
    all_runs = find_runs(every)
    for piece in pieces_of(every):
        run = all_runs[piece.run]
        assert len(run.tracks) == 1
        assert run.start * FRAME <= piece.start < piece.end <= run.end * FRAME
        assert piece.end - piece.start == min(PIECE, (run.end - run.start) * FRAME)
        assert piece.end - piece.start >= MIN_PIECE


@settings(max_examples=200)
@given(any_window())
def test_each_run_in_the_region_has_a_piece_unless_it_is_short(every: Window) -> None:
    low, high = every.region
    expected = {
        number
        for number, run in enumerate(find_runs(every))
        if len(run.tracks) == 1
        and (run.end - run.start) * FRAME >= MIN_PIECE
        and max(run.start, low) < min(run.end, high)
    }
    assert {piece.run for piece in pieces_of(every)} == expected


@settings(max_examples=200)
@given(any_window())
def test_pieces_are_in_order_and_about_a_second_apart(every: Window) -> None:
    for one, other in pairwise(pieces_of(every)):
        if one.run == other.run:
            assert SHIFT / 2 <= other.centre - one.centre <= SHIFT * 1.5


def test_two_windows_divide_long_speech_at_the_same_places() -> None:
    """So speech by one person has one piece each second, and none is computed twice."""
    places = []
    for number in range(4):
        every = window((0, FRAMES, [number % 3]), number=number)
        places += [piece.start + every.start * FRAME for piece in pieces_of(every)]
    inner = places[1:]
    assert set(np.diff(inner).tolist()) == {SHIFT}
    assert all(place % SHIFT == 0 for place in inner)
    assert inner[-1] + PIECE > (3 * HOP + MARGIN + HOP) * FRAME - SHIFT


def test_a_run_at_the_edge_of_the_region_has_its_nearest_piece() -> None:
    """Its pieces have their middles outside of the region."""
    every = window((0, MARGIN + 5, [0]), number=1)
    (piece,) = pieces_of(every)
    end = (MARGIN + 5) * FRAME
    assert end - SHIFT // 2 <= piece.end <= end
    assert piece.centre < MARGIN * FRAME


@pytest.mark.parametrize("length", [MIN_PIECE, 5_000, 12_345, PIECE])
@pytest.mark.parametrize("start", [0, 270, 135_000])
def test_frames_of_a_piece_exist(start: int, length: int) -> None:
    features = Fbank()(np.zeros(WINDOW_SAMPLES, np.float32))
    first, last = frames_of(Piece(0, start, start + length))
    assert 0 <= first < last <= len(features)
    assert first * 160 >= start
    assert (last - 1) * 160 + 400 <= start + length
    if length == PIECE:
        assert last - first == PIECE_FRAMES
