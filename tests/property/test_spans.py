"""Speech spans found while reading equal the spans found from the whole recording."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import up_to
from whisperbatch.chunking.spans import SpanFinder, cut_costs
from whisperbatch.options import Options
from whisperbatch.types import Samples, SpeechFrames, SpeechSpan, to_samples

HOP = 512
SECOND = 16_000

Probabilities = npt.NDArray[np.float32]

few_examples = settings(max_examples=up_to(120), deadline=None, derandomize=True)


def find(
    samples: Samples, probabilities: Probabilities, options: Options, cuts: tuple[int, ...] = ()
) -> list[SpeechSpan]:
    """Return the spans of VAD frames that come in blocks; check the contract of `settled`.

    Args:
        samples: audio of the recording.
        probabilities: speech probability of each VAD frame.
        options: options of the spans.
        cuts: VAD frames at which a new block begins.
    """
    finder = SpanFinder(options, HOP)
    spans: list[SpeechSpan] = []
    bounds = sorted({0, len(probabilities), *(cut % (len(probabilities) + 1) for cut in cuts)})
    for first, last in pairwise(bounds):
        settled = finder.settled
        new_spans = list(
            finder.push(SpeechFrames(samples[first * HOP : last * HOP], probabilities[first:last]))
        )
        assert all(span.start >= settled for span in new_spans)
        assert all(span.end <= last * HOP for span in new_spans)
        assert settled <= finder.settled <= last * HOP
        spans += new_spans
    settled = finder.settled
    new_spans = list(finder.finish(len(samples)))
    assert all(span.start >= settled for span in new_spans)
    assert finder.settled == len(samples)
    return spans + new_spans


def reference(samples: Samples, probabilities: Probabilities, options: Options) -> list[SpeechSpan]:
    """Return the spans of a whole recording, step by step as in the module's picture."""
    active, state = [], False  # hysteresis
    for probability in probabilities.tolist():
        state = probability >= (options.vad_offset if state else options.vad_onset)
        active.append(state)

    joined: list[tuple[int, int]] = []  # a short silence does not end speech
    min_silence = max(min(options.min_silence_duration, options.max_speech_duration) * SECOND, 1)
    for start, end in runs_of(active):
        if joined and (start - joined[-1][1]) * HOP < min_silence:
            start, _ = joined.pop()  # noqa: PLW2901 - joined with the previous run
        joined.append((start, end))

    limit = to_samples(options.max_speech_duration - 2 * options.speech_pad) // HOP
    min_speech = options.min_speech_duration * SECOND
    long_enough = [
        (start, end)
        for start, end in joined
        if min(end * HOP, len(samples)) - start * HOP >= min_speech or end - start > limit
    ]
    return padded(
        cut_long(long_enough, cut_costs(samples, probabilities, HOP), limit), samples, options
    )


Part = tuple[int, int, bool, bool]  # first frame, frame after its last, cut before it, cut after it


def cut_long(runs: list[tuple[int, int]], costs: npt.NDArray[np.float64], limit: int) -> list[Part]:
    """Cut runs of more than `limit` VAD frames at the cheapest boundary of the later half."""
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


def padded(parts: list[Part], samples: Samples, options: Options) -> list[SpeechSpan]:
    """Return spans with margins of at most half the pause, and no margin at a cut."""
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
    """Return start and end of each run of True."""
    edges = [
        i
        for i in range(len(active) + 1)
        if (i and active[i - 1]) != (i < len(active) and active[i])
    ]
    return list(zip(edges[::2], edges[1::2], strict=True))


@st.composite
def vad_options(draw: st.DrawFn) -> Options:
    onset = draw(st.sampled_from((0.0, 0.3, 0.5, 0.9, 1.0)))
    max_speech = draw(st.sampled_from((1.0, 1.5, 2.0, 4.0)))
    return Options(
        vad_onset=onset,
        vad_offset=onset * draw(st.sampled_from((0.0, 0.5, 0.7, 1.0))),
        min_speech_duration=draw(st.sampled_from((0.0, 0.05, 0.1, 0.25, 5.0))),
        min_silence_duration=draw(st.sampled_from((0.0, 0.03, 0.16, 0.5, 3.0, 30.0))),
        speech_pad=draw(st.sampled_from((0.0, 0.01, 0.1, 0.4))) if max_speech >= 2 else 0.0,
        max_speech_duration=max_speech,
    )


@st.composite
def recordings(draw: st.DrawFn) -> tuple[Samples, Probabilities]:
    """Sections of constant probability with jitter; the last VAD frame may be incomplete."""
    sections = draw(
        st.lists(
            st.tuples(st.integers(1, 150), st.sampled_from((0.0, 0.2, 0.4, 0.6, 1.0))), max_size=14
        )
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    levels = np.concatenate([np.zeros(0), *(np.full(n, p) for n, p in sections)])
    jitter = draw(st.sampled_from((0.0, 0.1, 0.5)))
    noisy = levels + jitter * rng.standard_normal(len(levels))
    probabilities = np.clip(noisy, 0, 1).astype(np.float32)
    missing = draw(st.integers(0, HOP - 1)) if sections else 0
    gains = 10 ** rng.uniform(-4, 0, len(levels))
    samples = (np.repeat(gains, HOP) * rng.standard_normal(len(levels) * HOP)).astype(np.float32)
    return samples[: len(samples) - missing], probabilities


@few_examples
@given(recordings(), vad_options(), st.lists(st.integers(0, 2000), max_size=12))
def test_spans_equal_those_of_the_whole_recording(
    recording: tuple[Samples, Probabilities], options: Options, cuts: list[int]
) -> None:
    assert find(*recording, options, tuple(cuts)) == reference(*recording, options)


@few_examples
@given(recordings(), vad_options())
def test_spans_do_not_depend_on_the_blocks(
    recording: tuple[Samples, Probabilities], options: Options
) -> None:
    all_frames = tuple(range(len(recording[1])))
    assert find(*recording, options, all_frames) == find(*recording, options)


@few_examples
@given(recordings(), vad_options())
def test_spans_are_in_order_and_short_enough_and_contain_the_speech(
    recording: tuple[Samples, Probabilities], options: Options
) -> None:
    samples, probabilities = recording
    spans = find(samples, probabilities, options)
    assert all(span.end <= following.start for span, following in pairwise(spans))
    for span in spans:
        assert 0 <= span.start < span.end <= len(samples)
        assert span.length <= to_samples(options.max_speech_duration)
    if options.min_speech_duration <= HOP / SECOND:
        for frame in np.flatnonzero(probabilities >= options.vad_onset).tolist():
            first, last = frame * HOP, min((frame + 1) * HOP, len(samples))
            if last - first >= options.min_speech_duration * SECOND:
                assert any(span.start <= first and last <= span.end for span in spans), frame


def of_frames(*sections: tuple[int, float]) -> tuple[Samples, Probabilities]:
    """Return VAD frames of constant noise; a section is a number of frames and a probability."""
    probabilities = np.concatenate([np.full(n, p, np.float32) for n, p in sections])
    noise = np.tile(np.random.default_rng(1).standard_normal(HOP), len(probabilities))
    return (0.1 * noise).astype(np.float32), probabilities


def spans_of(
    recording: tuple[Samples, Probabilities], options: Options | None = None
) -> list[tuple[int, int]]:
    """Return spans in VAD frames; without margins, spans start and end with a frame."""
    spans = find(*recording, replace(options or Options(), speech_pad=0))
    assert all(span.start % HOP == 0 and span.end % HOP == 0 for span in spans)
    return [(span.start // HOP, span.end // HOP) for span in spans]


def test_hysteresis() -> None:
    recording = of_frames((9, 0.4), (5, 0.5), (9, 0.36), (9, 0.34), (9, 0.4))
    assert spans_of(recording) == [(9, 23)]


@pytest.mark.parametrize(("gap", "expected"), [(4, [(3, 27)]), (5, [(3, 13), (18, 28)])])
def test_silence_of_160_ms_ends_speech(gap: int, expected: list[tuple[int, int]]) -> None:
    recording = of_frames((3, 0), (10, 1), (gap, 0), (10, 1), (20, 0))
    assert spans_of(recording, Options(min_silence_duration=0.16)) == expected


@pytest.mark.parametrize(("frames", "expected"), [(3, []), (4, [(10, 14)])])
def test_speech_shorter_than_100_ms_is_ignored(
    frames: int, expected: list[tuple[int, int]]
) -> None:
    recording = of_frames((10, 0), (frames, 1), (30, 0))
    assert spans_of(recording, Options(min_speech_duration=0.1)) == expected


def test_margins_meet_in_the_middle_of_a_pause() -> None:
    recording = of_frames((40, 0), (20, 1), (7, 0), (20, 1), (40, 0))
    start, middle = 40 * HOP, 67 * HOP - 7 * HOP // 2
    assert find(*recording, Options(speech_pad=0.5)) == [
        SpeechSpan(start - SECOND // 2, middle),
        SpeechSpan(middle, 87 * HOP + SECOND // 2),
    ]


def test_margins_end_at_the_ends_of_the_recording() -> None:
    samples, probabilities = of_frames((2, 0), (20, 1), (1, 0))
    spans = find(samples[:-500], probabilities, Options(speech_pad=0.5))
    assert spans == [SpeechSpan(0, 23 * HOP - 500)]


def test_an_empty_recording_has_no_spans() -> None:
    empty = np.zeros(0, np.float32)
    assert find(empty, empty, Options()) == []


def test_long_speech_is_cut_where_the_probability_is_lowest() -> None:
    samples, probabilities = of_frames((1000, 0.95))
    probabilities[400:402] = 0.4  # lower, but in the earlier half of the limit of 937 frames
    probabilities[700:702] = 0.6
    probabilities[800:802] = 0.7
    assert spans_of((samples, probabilities)) == [(0, 701), (701, 1000)]


def test_at_equal_probability_the_cut_is_at_the_quietest_place() -> None:
    samples, probabilities = of_frames((1000, 1.0))
    samples[600 * HOP : 602 * HOP] *= 0.1
    samples[800 * HOP : 802 * HOP] *= 0.2
    assert spans_of((samples, probabilities)) == [(0, 601), (601, 1000)]


def test_at_equal_cost_the_cut_is_as_late_as_possible() -> None:
    assert spans_of(of_frames((1000, 1.0)), Options(max_speech_duration=16)) == [
        (0, 500),
        (500, 1000),
    ]


@pytest.mark.parametrize("tail", [1, 2, 3, 4])
def test_speech_of_exactly_the_maximum_length_is_not_cut(tail: int) -> None:
    recording = of_frames((10, 0), (500, 1), (tail, 0))
    recording[1][300:302] = 0  # the cheapest place for a cut
    recording[0][300 * HOP : 302 * HOP] = 0
    silence = of_frames((30, 0))
    samples = np.concatenate([recording[0], silence[0]])
    probabilities = np.concatenate([recording[1], silence[1]])
    assert spans_of((samples, probabilities), Options(max_speech_duration=16)) == [(10, 510)]


def test_speech_that_ends_at_the_maximum_length_keeps_its_margin() -> None:
    recording = of_frames((10, 0), (490, 1), (60, 0))
    pad = to_samples(0.1)
    spans = find(*recording, Options(max_speech_duration=16))
    assert spans == [SpeechSpan(10 * HOP - pad, 500 * HOP + pad)]


@few_examples
@given(st.integers(0, 2**32 - 1), st.sampled_from((2.0, 5.0, 10.0)))
def test_cuts_are_in_the_pauses_between_words(seed: int, max_speech: float) -> None:
    """Loud bursts of 100 to 600 ms with pauses of 60 ms, which the probabilities do not show."""
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
    spans = find(samples, probabilities, Options(max_speech_duration=max_speech))
    cuts = [span.end for span in spans[:-1]]
    assert cuts == [span.start for span in spans[1:]]
    assert len(cuts) >= len(samples) // to_samples(max_speech)
    for cut in cuts:
        assert any(start <= cut <= end for start, end in pauses), cut / SECOND


@few_examples
@given(recordings())
def test_the_cost_of_a_cut_does_not_depend_on_the_block(
    recording: tuple[Samples, Probabilities],
) -> None:
    samples, probabilities = recording
    costs = cut_costs(samples, probabilities, HOP)
    for frame in range(len(probabilities)):
        frame_costs = cut_costs(
            samples[frame * HOP : (frame + 1) * HOP], probabilities[frame : frame + 1], HOP
        )
        assert frame_costs[0] == costs[frame]


def test_memory_is_limited_by_the_maximum_speech_duration() -> None:
    finder = SpanFinder(Options(max_speech_duration=4, min_silence_duration=30), HOP)
    for number in range(200):
        loud = np.full(64 * HOP, 0.1, np.float32)
        probability = np.full(64, 1 if number < 100 else 0, np.float32)
        spans = list(finder.push(SpeechFrames(loud, probability)))
        assert (number + 1) * 64 * HOP - finder.settled <= 64 * HOP + 3 * 4 * SECOND
        assert all(span.length <= 4 * SECOND for span in spans)
        assert finder._speech is None or len(finder._speech.costs) <= 3 * 4 * SECOND / HOP
