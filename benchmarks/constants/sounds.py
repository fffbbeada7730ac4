"""Checks on sound alone, without a model: voice activity detection and the second opinion's filter.

    vad       speech with a probability below `vad_onset`, and other sound above it
    filter    of the speech that the VAD rejects for at least a second, how much does not reach the
              decoder; and how much of the other sound does

Other sound is more than `CLEARANCE` seconds from any utterance.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from benchmarks import corpora
from benchmarks.constants.figures import Check, Figures
from benchmarks.constants.inventory import OPTIONS, Number, setting
from benchmarks.lost_speech.calibration import find_regions
from benchmarks.recordings import Recording
from whisperbatch.options import Options
from whisperbatch.protocols import Vad
from whisperbatch.types import SAMPLING_RATE, Samples, SpeechFrames, to_samples
from whisperbatch.vad import levels
from whisperbatch.vad.levels import BLOCK, CalibratedVad
from whisperbatch.vad.silero import SileroVad

CLEARANCE: Final = 0.5  # seconds
MIN_REJECTED: Final = 1.0  # seconds
GAIN: Final = ("TARGET_LEVEL", "MAX_GAIN", "LEVEL_FRAMES", "SMOOTHING_FRAMES")
Mask = npt.NDArray[np.bool_]

CHECKS: Final = (
    Check("options.vad_onset", "vad", (0.4, 0.7)),
    Check("vad.levels.CALIBRATION_WINDOW", "vad", (to_samples(4.0), to_samples(15.0))),
    Check("vad.levels.TARGET_LOGIT", "vad", (3.0, 5.0)),
    Check("vad.levels.MIN_SPEECH", "vad", (0.05, 0.2)),
    Check("vad.levels.CLEAR_SPEECH", "vad", (0.3, 0.7)),
    Check("vad.levels.MIN_CLEAR_SPEECH", "vad", (to_samples(1.0), to_samples(4.0))),
    Check("vad.levels.SHIFT_SHARE", "vad", (0.4, 1.0)),
    Check("vad.levels.MAX_SHIFT", "vad", (1.5, 6.0)),
    Check("vad.levels.TARGET_LEVEL", "vad", (-26.0, -14.0)),
    Check("vad.levels.MAX_GAIN", "vad", (20.0, 40.0)),
    Check("vad.levels.LEVEL_FRAMES", "vad", (32, 96)),
    Check("vad.levels.SMOOTHING_FRAMES", "vad", (8, 30)),
    Check("second_opinion.checks.MAX_PIECE", "filter", (to_samples(3.0), to_samples(12.0))),
    Check("second_opinion.checks.QUIET_FRAME", "filter", (to_samples(0.025), to_samples(0.1))),
    Check("second_opinion.checks.SETTLING", "filter", (to_samples(0.25), to_samples(1.0))),
    Check("second_opinion.checks.MIN_PROBABILITY", "filter", (0.01, 0.04)),
    Check("second_opinion.checks.MIN_FLATNESS", "filter", (0.0065, 0.026)),
    Check("second_opinion.checks.PAUSE_DEPTH", "filter", (10.0, 20.0)),
    Check("second_opinion.checks.MIN_PAUSES", "filter", (0.125, 0.5)),
    Check("second_opinion.regions.MIN_REGION", "filter", (to_samples(1.0), to_samples(4.0))),
    Check("second_opinion.regions.MAX_REGION", "filter", (to_samples(12.0), to_samples(28.0))),
    Check("second_opinion.regions.MAX_PAUSE", "filter", (to_samples(0.75), to_samples(3.0))),
    Check("second_opinion.regions.MAX_GAP", "filter", (to_samples(0.15), to_samples(0.6))),
    Check("second_opinion.regions.MIN_REJECTED", "filter", (to_samples(0.5), to_samples(2.0))),
    Check("second_opinion.regions.LASTING_SPEECH", "filter", (to_samples(0.5), to_samples(2.0))),
    Check("second_opinion.regions.CUT_RANGE", "filter", (to_samples(3.0), to_samples(12.0))),
    Check("second_opinion.regions.PADDING", "filter", (to_samples(0.25), to_samples(1.0))),
    Check("second_opinion.regions.NOISE_MARGIN", "filter", (4.0, 12.0)),
    Check("second_opinion.regions.MIN_LEVEL", "filter", (-75.0, -55.0)),
    Check("second_opinion.regions.FLOOR_GROUP", "filter", (to_samples(0.125), to_samples(0.5))),
    Check("second_opinion.regions.FLOOR_MEMORY", "filter", (to_samples(15.0), to_samples(60.0))),
)


def measure(check: Check, names: Sequence[str], value: Number | None) -> Figures:
    """Return the figures of a value; None is the constant's own value."""
    kind = {"vad": vad_errors, "filter": filter_errors}[check.kind]
    total = Figures()
    for name in names:
        recording = built(name)
        shipped_speech(name)  # before a constant is changed
        with setting(check.key, value) as options:
            total += kind(recording, options)
    return total


class RememberingVad:
    """A wrapper of a Vad that runs only once on the same samples with the same constants.

    Args:
        vad: with gain control, without calibration.
    """

    def __init__(self, vad: Vad) -> None:
        self._vad = vad
        self._known: dict[tuple[object, ...], npt.NDArray[np.float32]] = {}
        self.hop = vad.hop

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        """See `protocols.Vad`."""
        samples = np.concatenate(list(blocks))
        key = (
            *(getattr(levels, name) for name in GAIN),
            hashlib.sha256(samples.tobytes()).digest(),
        )
        if key not in self._known:
            frames = [block.probabilities for block in self._vad([samples])]
            self._known[key] = np.concatenate([np.zeros(0, np.float32), *frames])
        for start in range(0, len(samples), BLOCK):
            first = start // self.hop
            probabilities = self._known[key][first : first + BLOCK // self.hop]
            yield SpeechFrames(samples[start : start + BLOCK], probabilities)


@cache
def recorded_vad() -> Vad:
    """Return whisperbatch's VAD, which remembers the results of its network."""
    return CalibratedVad(RememberingVad(levels.GainControlledVad(SileroVad())))


@cache
def built(name: str) -> Recording:
    """Return a recording; building a difficult voice takes longer than the checks."""
    return corpora.build(name)


def vad_errors(recording: Recording, options: Options) -> Figures:
    """Return the seconds of speech that are rejected, and of other sound that are accepted."""
    samples = _samples(recording)
    speech, other = masks(recording, len(samples))
    accepted = _accepted(samples, options)
    return _figures(speech & ~accepted, speech, other & accepted, other)


def filter_errors(recording: Recording, options: Options) -> Figures:
    """Return the seconds of rejected speech that do not pass, and of other sound that pass."""
    samples = _samples(recording)
    speech, other = masks(recording, len(samples))
    rejected = _long_runs(speech & ~shipped_speech(recording.name))
    passed = np.zeros(len(samples), bool)
    for part in find_regions(samples, recorded_vad(), options)[1]:
        passed[part.start : part.end] = True
    return _figures(rejected & ~passed, rejected, other & passed, other)


@cache
def shipped_speech(name: str) -> Mask:
    """Return which samples the VAD accepts with the shipped constants."""
    return _accepted(_samples(built(name)), OPTIONS)


def masks(recording: Recording, count: int) -> tuple[Mask, Mask]:
    """Return which samples are within utterances, and which are far from all utterances."""
    speech = np.zeros(count, bool)
    near = np.zeros(count, bool)
    for utterance in recording.utterances:
        speech[to_samples(utterance.start) : to_samples(utterance.end)] = True
        start = max(to_samples(utterance.start - CLEARANCE), 0)
        near[start : to_samples(utterance.end + CLEARANCE)] = True
    return speech, ~near


def _accepted(samples: Samples, options: Options) -> Mask:
    vad = recorded_vad()
    probabilities = np.concatenate([frames.probabilities for frames in vad([samples])])
    return np.repeat(probabilities >= options.vad_onset, vad.hop)[: len(samples)]


def _long_runs(mask: Mask) -> Mask:
    """Return the runs of at least `MIN_REJECTED` seconds."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.astype(np.int8), [0]))))
    result = np.zeros_like(mask)
    for start, end in edges.reshape(-1, 2):
        if end - start >= MIN_REJECTED * SAMPLING_RATE:
            result[start:end] = True
    return result


def _samples(recording: Recording) -> Samples:
    return (recording.samples / 32768).astype(np.float32)


def _figures(*parts: Mask) -> Figures:
    return Figures(*(float(np.count_nonzero(mask) / SAMPLING_RATE) for mask in parts))
