"""Spans found frame by frame are those that a look at the whole recording gives."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whisperbatch.chunking.spans import SpanFinder, cut_costs
from whisperbatch.options import VadOptions
from whisperbatch.types import Samples, SpeechFrames, SpeechSpan, to_samples

HOP = 512
SECOND = 16_000

Probabilities = npt.NDArray[np.float32]

modest = settings(max_examples=120, deadline=None, derandomize=True)


def find(
    samples: Samples, probabilities: Probabilities, options: VadOptions, cuts: tuple[int, ...] = ()
) -> list[SpeechSpan]:
    """The spans, the frames coming in blocks parted at `cuts`; holds `settled` to its promise."""
    finder = SpanFinder(options, HOP)
    spans: list[SpeechSpan] = []
    bounds = sorted({0, len(probabilities), *(cut % (len(probabilities) + 1) for cut in cuts)})
    for first, last in pairwise(bounds):
        before = finder.settled
        new = list(
            finder.push(SpeechFrames(samples[first * HOP : last * HOP], probabilities[first:last]))
        )
        assert all(span.start >= before for span in new)
        assert all(span.end <= last * HOP for span in new)
        assert before <= finder.settled <= last * HOP
        spans += new
    before = finder.settled
    new = list(finder.finish(len(samples)))
    assert all(span.start >= before for span in new)
    assert finder.settled == len(samples)
    return spans + new


def reference(
    samples: Samples, probabilities: Probabilities, options: VadOptions
) -> list[SpeechSpan]:
    """The same from the whole recording at once, step after step, as the module draws it."""
    active, state = [], False  # Schmitt trigger
    for probability in probabilities.tolist():
        state = probability >= (options.vad_offset if state else options.vad_onset)
        active.append(state)

    bridged: list[tuple[int, int]] = []  # short silence does not end speech
    shortest = max(min(options.min_silence_duration, options.max_speech_duration) * SECOND, 1)
    for start, end in runs_of(active):
        if bridged and (start - bridged[-1][1]) * HOP < shortest:
            start, _ = bridged.pop()  # noqa: PLW2901 - one run with the last
        bridged.append((start, end))

    limit = to_samples(options.max_speech_duration - 2 * options.speech_pad) // HOP
    least = options.min_speech_duration * SECOND
    kept = [
        (start, end)
        for start, end in bridged
        if min(end * HOP, len(samples)) - start * HOP >= least or end - start > limit
    ]
    return padded(cut_long(kept, cut_costs(samples, probabilities, HOP), limit), samples, options)


Part = tuple[int, int, bool, bool]  # first frame, frame after its last, cut before it, cut after it


def cut_long(runs: list[tuple[int, int]], costs: npt.NDArray[np.float64], limit: int) -> list[Part]:
    """Runs of more than `limit` frames are cut where it costs least in the later half."""
    parts: list[Part] = []
    for start, end in runs:
        first = start
        while end - first > limit:
            places = range(first + max(limit // 2, 1), first + limit + 1)
            cost = {place: costs[place - 1] + costs[place] for place in places}
            cut = max(place for place in places if cost[place] == min(cost.values()))
            parts.append((first, cut, first != start, True))
            first = cut
        parts.append((first, end, first != start, False))
    return parts


def padded(parts: list[Part], samples: Samples, options: VadOptions) -> list[SpeechSpan]:
    """Margins on either side, at most half the gap, none at a cut."""
    pad = to_samples(options.speech_pad)
    starts = [first * HOP for first, *_ in parts]
    ends = [min(last * HOP, len(samples)) for _, last, *_ in parts]
    gaps = zip(ends, starts[1:], strict=False)
    middles = [0, *((end + start) // 2 for end, start in gaps), len(samples)]
    return [
        SpeechSpan(
            start if cut_before else max(start - pad, middles[number]),
            end if cut_after else min(end + pad, middles[number + 1]),
        )
        for number, (start, end, (_, _, cut_before, cut_after)) in enumerate(
            zip(starts, ends, parts, strict=True)
        )
    ]


def runs_of(active: list[bool]) -> list[tuple[int, int]]:
    """Start and end of each run of True."""
    edges = [
        i
        for i in range(len(active) + 1)
        if (i and active[i - 1]) != (i < len(active) and active[i])
    ]
    return list(zip(edges[::2], edges[1::2], strict=True))


@st.composite
def vad_options(draw: st.DrawFn) -> VadOptions:
    onset = draw(st.sampled_from((0.0, 0.3, 0.5, 0.9, 1.0)))
    longest = draw(st.sampled_from((1.0, 1.5, 2.0, 4.0)))
    return VadOptions(
        vad_onset=onset,
        vad_offset=onset * draw(st.sampled_from((0.0, 0.5, 0.7, 1.0))),
        min_speech_duration=draw(st.sampled_from((0.0, 0.05, 0.1, 0.25, 5.0))),
        min_silence_duration=draw(st.sampled_from((0.0, 0.03, 0.16, 0.5, 3.0, 60.0))),
        speech_pad=draw(st.sampled_from((0.0, 0.01, 0.1, 0.4))) if longest >= 2 else 0.0,
        max_speech_duration=longest,
    )


@st.composite
def recordings(draw: st.DrawFn) -> tuple[Samples, Probabilities]:
    """Stretches of one probability, jittered; the last frame may be part of one."""
    stretches = draw(
        st.lists(
            st.tuples(st.integers(1, 150), st.sampled_from((0.0, 0.2, 0.4, 0.6, 1.0))), max_size=14
        )
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    levels = np.concatenate([np.zeros(0), *(np.full(n, p) for n, p in stretches)])
    jitter = draw(st.sampled_from((0.0, 0.1, 0.5)))
    noisy = levels + jitter * rng.standard_normal(len(levels))
    probabilities = np.clip(noisy, 0, 1).astype(np.float32)
    missing = draw(st.integers(0, HOP - 1)) if stretches else 0
    gains = 10 ** rng.uniform(-4, 0, len(levels))
    samples = (np.repeat(gains, HOP) * rng.standard_normal(len(levels) * HOP)).astype(np.float32)
    return samples[: len(samples) - missing], probabilities


@modest
@given(recordings(), vad_options(), st.lists(st.integers(0, 2000), max_size=12))
def test_spans_are_those_of_the_whole_recording(
    recording: tuple[Samples, Probabilities], options: VadOptions, cuts: list[int]
) -> None:
    assert find(*recording, options, tuple(cuts)) == reference(*recording, options)


@modest
@given(recordings(), vad_options())
def test_frame_by_frame_is_all_at_once(
    recording: tuple[Samples, Probabilities], options: VadOptions
) -> None:
    every = tuple(range(len(recording[1])))
    assert find(*recording, options, every) == find(*recording, options)


@modest
@given(recordings(), vad_options())
def test_spans_are_in_order_short_enough_and_hold_the_speech(
    recording: tuple[Samples, Probabilities], options: VadOptions
) -> None:
    samples, probabilities = recording
    spans = find(samples, probabilities, options)
    assert all(one.end <= other.start for one, other in pairwise(spans))
    for span in spans:
        assert 0 <= span.start < span.end <= len(samples)
        assert span.length <= to_samples(options.max_speech_duration)
    if options.min_speech_duration <= HOP / SECOND:
        for frame in np.flatnonzero(probabilities >= options.vad_onset).tolist():
            first, last = frame * HOP, min((frame + 1) * HOP, len(samples))
            if last - first >= options.min_speech_duration * SECOND:
                assert any(span.start <= first and last <= span.end for span in spans), frame


def of_frames(*stretches: tuple[int, float]) -> tuple[Samples, Probabilities]:
    """Frames of even noise: `count` of them with one probability each."""
    probabilities = np.concatenate([np.full(n, p, np.float32) for n, p in stretches])
    noise = np.tile(np.random.default_rng(1).standard_normal(HOP), len(probabilities))
    return (0.1 * noise).astype(np.float32), probabilities


def spans_of(
    recording: tuple[Samples, Probabilities],
    options: VadOptions | None = None,
) -> list[tuple[int, int]]:
    """In frames: without margins, spans start and end with a frame."""
    found = find(*recording, replace(options or VadOptions(), speech_pad=0))
    assert all(span.start % HOP == 0 and span.end % HOP == 0 for span in found)
    return [(span.start // HOP, span.end // HOP) for span in found]


def test_hysteresis() -> None:
    recording = of_frames((9, 0.4), (5, 0.5), (9, 0.36), (9, 0.34), (9, 0.4))
    assert spans_of(recording) == [(9, 23)]


@pytest.mark.parametrize(("gap", "expected"), [(4, [(3, 27)]), (5, [(3, 13), (18, 28)])])
def test_silence_of_160_ms_ends_speech(gap: int, expected: list[tuple[int, int]]) -> None:
    recording = of_frames((3, 0), (10, 1), (gap, 0), (10, 1), (20, 0))
    assert spans_of(recording, VadOptions(min_silence_duration=0.16)) == expected


@pytest.mark.parametrize(("frames", "expected"), [(3, []), (4, [(10, 14)])])
def test_speech_under_100_ms_is_passed_over(frames: int, expected: list[tuple[int, int]]) -> None:
    recording = of_frames((10, 0), (frames, 1), (30, 0))
    assert spans_of(recording, VadOptions(min_speech_duration=0.1)) == expected


def test_margins_meet_half_way() -> None:
    recording = of_frames((40, 0), (20, 1), (7, 0), (20, 1), (40, 0))
    near, far = 67 * HOP - 7 * HOP // 2, 40 * HOP
    assert find(*recording, VadOptions(speech_pad=0.5)) == [
        SpeechSpan(far - SECOND // 2, near),
        SpeechSpan(near, 87 * HOP + SECOND // 2),
    ]


def test_margins_end_with_the_recording() -> None:
    samples, probabilities = of_frames((2, 0), (20, 1), (1, 0))
    found = find(samples[:-500], probabilities, VadOptions(speech_pad=0.5))
    assert found == [SpeechSpan(0, 23 * HOP - 500)]


def test_no_frames_no_spans() -> None:
    empty = np.zeros(0, np.float32)
    assert find(empty, empty, VadOptions()) == []


def test_a_dip_is_where_the_cut_falls() -> None:
    samples, probabilities = of_frames((1000, 0.95))
    probabilities[400:402] = 0.4  # deeper, but in the earlier half of the limit, 937 frames
    probabilities[700:702] = 0.6
    probabilities[800:802] = 0.7
    assert spans_of((samples, probabilities)) == [(0, 701), (701, 1000)]


def test_of_equal_probability_the_quietest_place_is_cut() -> None:
    samples, probabilities = of_frames((1000, 1.0))
    samples[600 * HOP : 602 * HOP] *= 0.1
    samples[800 * HOP : 802 * HOP] *= 0.2
    assert spans_of((samples, probabilities)) == [(0, 601), (601, 1000)]


def test_nothing_to_choose_by_cuts_as_late_as_may_be() -> None:
    assert spans_of(of_frames((1000, 1.0)), VadOptions(max_speech_duration=16)) == [
        (0, 500),
        (500, 1000),
    ]


@pytest.mark.parametrize("tail", [1, 2, 3, 4])
def test_speech_of_just_the_limit_is_not_cut(tail: int) -> None:
    recording = of_frames((10, 0), (500, 1), (tail, 0))
    recording[1][300:302] = 0  # where a cut would fall
    recording[0][300 * HOP : 302 * HOP] = 0
    after = of_frames((30, 0))
    samples = np.concatenate([recording[0], after[0]])
    probabilities = np.concatenate([recording[1], after[1]])
    assert spans_of((samples, probabilities), VadOptions(max_speech_duration=16)) == [(10, 510)]


def test_speech_that_ends_at_the_limit_keeps_its_margin() -> None:
    recording = of_frames((10, 0), (490, 1), (60, 0))
    pad = to_samples(0.1)
    found = find(*recording, VadOptions(max_speech_duration=16))
    assert found == [SpeechSpan(10 * HOP - pad, 500 * HOP + pad)]


@modest
@given(st.integers(0, 2**32 - 1), st.sampled_from((2.0, 5.0, 10.0)))
def test_never_cut_within_a_word_where_there_is_a_pause(seed: int, longest: float) -> None:
    """Loud bursts of 100 to 600 ms, parted by 60 ms of near silence that no network notices."""
    rng = np.random.default_rng(seed)
    parts: list[npt.NDArray[np.float64]] = []
    pauses: list[tuple[int, int]] = []
    position = 0
    while position < 30 * SECOND:
        burst = int(rng.uniform(0.1, 0.6) * SECOND)
        parts += [0.3 * rng.standard_normal(burst), 1e-4 * rng.standard_normal(960)]
        pauses.append((position + burst, position + burst + 960))
        position += burst + 960
    samples = np.concatenate(parts).astype(np.float32)
    probabilities = np.full(-(-len(samples) // HOP), 0.99, np.float32)
    found = find(samples, probabilities, VadOptions(max_speech_duration=longest))
    cuts = [span.end for span in found[:-1]]
    assert cuts == [span.start for span in found[1:]]
    assert len(cuts) >= len(samples) // to_samples(longest)
    for cut in cuts:
        assert any(start <= cut <= end for start, end in pauses), cut / SECOND


@modest
@given(recordings())
def test_cost_of_a_cut_does_not_depend_on_the_block(
    recording: tuple[Samples, Probabilities],
) -> None:
    samples, probabilities = recording
    whole = cut_costs(samples, probabilities, HOP)
    for frame in range(len(probabilities)):
        one = cut_costs(
            samples[frame * HOP : (frame + 1) * HOP], probabilities[frame : frame + 1], HOP
        )
        assert one[0] == whole[frame]


def test_memory_is_bounded_by_the_longest_speech() -> None:
    finder = SpanFinder(VadOptions(max_speech_duration=4, min_silence_duration=1e6), HOP)
    for number in range(200):
        loud = np.full(64 * HOP, 0.1, np.float32)
        probability = np.full(64, 1 if number < 100 else 0, np.float32)
        spans = list(finder.push(SpeechFrames(loud, probability)))
        assert (number + 1) * 64 * HOP - finder.settled <= 64 * HOP + 3 * 4 * SECOND
        assert all(span.length <= 4 * SECOND for span in spans)
        assert finder._speech is None or len(finder._speech.costs) <= 3 * 4 * SECOND / HOP
