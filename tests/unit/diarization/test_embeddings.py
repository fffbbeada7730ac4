"""Pieces of speech that are embedded, and the memory of a diarization."""

import gc
import weakref
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.diarization.synthetic import timeline, window
from whisperbatch.diarization.embeddings import (
    MIN_PIECE,
    PIECE,
    PIECE_FRAMES,
    SHIFT,
    WORD,
    Memory,
    Overlap,
    Piece,
    frames_of,
    plan_pieces,
)
from whisperbatch.diarization.networks import Fbank
from whisperbatch.diarization.segmentation import (
    FIRST_SAMPLE,
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


EDGE = MARGIN + HOP  # end of the region of window 0, and start of the region of window 1
SECOND = EDGE - HOP  # the same frame, counted in window 1


def remembered(*all_windows: Window) -> Memory:
    """Return the memory of windows; each embedding is the number of its window and piece."""
    memory = Memory()
    for number, each in enumerate(all_windows):
        all_runs = find_runs(each)
        pieces = list(plan_pieces(each, all_runs))
        vectors = np.array([[number, n] for n in range(len(pieces))], np.float32)
        memory.add(each, all_runs, pieces, vectors.reshape(-1, 2))
    return memory


def chains(memory: Memory) -> list[int]:
    return [stretch.chain for stretch in memory.segments]


@settings(max_examples=60)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 580), st.integers(1, 200), st.integers(0, 2))),
        min_size=1,
        max_size=4,
    )
)
def test_each_frame_of_speech_is_remembered_once(drawn: list[list[tuple[int, int, int]]]) -> None:
    all_windows = []
    for number, stretches in enumerate(drawn):
        each = window(*((s, s + n, [track]) for s, n, track in stretches), number=number)
        each.activity[each.activity.sum(axis=1) > 2] = [True, True, False]
        all_windows.append(each)
    memory = remembered(*all_windows)
    expected = np.zeros(len(drawn) * HOP + FRAMES, np.int64)
    for each in all_windows:
        low, high = each.region
        expected[each.start + low : each.start + high] = each.activity[low:high].any(axis=1)
    assert timeline(memory, len(expected)) == expected.tolist()
    assert memory.segments == sorted(memory.segments, key=lambda stretch: stretch.start)


def test_stretches_have_the_pieces_of_their_run() -> None:
    memory = remembered(
        window((20, 140, [0]), (150, 300, [1])), window((SECOND, SECOND + 90, [2]), number=1)
    )
    vectors = np.concatenate(memory.embeddings)
    assert len(memory.centres) == len(memory.weights) == len(vectors)
    for stretch in memory.segments:
        assert stretch.pieces
        for piece in stretch.pieces:
            assert stretch.start <= memory.centres[piece] < stretch.end
            assert vectors[piece, 0] == stretch.window
    pieces = [piece for stretch in memory.segments for piece in stretch.pieces]
    assert pieces == list(range(len(vectors)))


def test_overlapping_speech_is_no_stretch() -> None:
    memory = remembered(window((20, 100, [0]), (80, 140, [2])))
    assert [(s.start, s.end, s.track) for s in memory.segments] == [(20, 80, 0), (100, 140, 2)]
    assert memory.overlaps == [Overlap(80, 100, 0, (0, 2), ((80, 100, 0),))]
    assert len(set(chains(memory))) == 2


def test_the_dominant_track_of_overlapping_speech() -> None:
    """A change that is shorter than a word is no change."""
    each = window((20, 200, [0]), (80, 200, [2]))
    each.alone[:, 0] = -3.0
    each.alone[:, 2] = np.where(np.arange(FRAMES) < 140, -4.0, -1.0)
    each.alone[100 : 100 + WORD // 4, 2] = -2.0
    [overlap] = remembered(each).overlaps
    (start, change, first), (again, end, second) = overlap.parts
    assert (start, end, first, second) == (80, 200, 0, 1)
    assert change == again
    assert abs(change - 140) <= WORD // 2


def test_speech_continues_over_the_edge_of_a_region() -> None:
    """The tracks of two windows have different numbers."""
    first, last = EDGE - 42, EDGE + 54
    whole = remembered(window((first, FRAMES, [0])), window((0, last - HOP, [2]), number=1))
    assert [(s.start, s.end) for s in whole.segments] == [(first, EDGE), (EDGE, last)]
    assert len(set(chains(whole))) == 1


def test_a_change_of_track_at_the_edge_is_a_boundary() -> None:
    """Both windows see the change at this frame."""
    memory = remembered(
        window((EDGE - 42, EDGE, [0]), (EDGE, FRAMES, [1])),
        window((0, SECOND, [2]), (SECOND, 300, [0]), number=1),
    )
    assert len(set(chains(memory))) == 2


def test_one_window_that_sees_no_change_is_enough_to_continue() -> None:
    memory = remembered(window((EDGE - 42, FRAMES, [0])), window((SECOND, 300, [0]), number=1))
    assert len(set(chains(memory))) == 1


def test_silence_before_the_edge_ends_the_speech() -> None:
    memory = remembered(window((EDGE - 42, EDGE - 4, [0])), window((SECOND, 300, [0]), number=1))
    assert len(set(chains(memory))) == 2


def test_a_pause_begins_a_phrase_of_the_same_chain() -> None:
    """The network sees one track; only the sound has a pause, in frames 100 to 119."""
    each = window((20, 190, [0]))
    each.samples[:] = np.random.default_rng(0).standard_normal(WINDOW_SAMPLES)
    each.samples[FIRST_SAMPLE + 100 * FRAME : FIRST_SAMPLE + 120 * FRAME] = 0
    memory = remembered(each)
    assert [(s.start, s.end) for s in memory.segments] == [(20, 110), (110, 190)]
    first, second = memory.segments
    assert (first.chain, first.track) == (second.chain, second.track)
    assert second.phrase == first.phrase + 1
    assert first.pieces
    assert second.pieces
    assert not {*first.pieces} & {*second.pieces}


def test_no_audio_is_kept() -> None:
    each = window((20, 140, [0]))
    audio = weakref.ref(each.samples)
    memory = remembered(each)
    del each
    gc.collect()
    assert memory.segments
    assert audio() is None


def test_an_hour_needs_a_few_megabytes() -> None:
    one = remembered(window((0, FRAMES, [0]), number=1))
    views = sum(codes.nbytes for _, codes in one.views)
    vectors = 192 * 4 * len(one.centres)
    windows = 3600 * 16_000 / (HOP * FRAME)
    assert (views + vectors) * windows < 5e6
