"""The detector also hears the audio without steady sound, only where there is such sound."""

from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from benchmarks.steady_sounds import STEADY, syllables, with_sound
from whisperbatch.chunking.spans import SpanFinder
from whisperbatch.options import Options
from whisperbatch.types import SAMPLING_RATE, Samples, SpeechFrames
from whisperbatch.vad import NoVad
from whisperbatch.vad.levels import BLOCK, FRAME, reblock
from whisperbatch.vad.steady_sound import CleanedVad


class LevelVad:
    """A Vad that holds a block; its probability is high where the level of frames varies."""

    hop = FRAME

    def __init__(self) -> None:
        self.read = 0  # blocks, of all runs

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        held: list[Samples] = []
        for block in reblock(blocks):
            self.read += 1
            held.append(block)
            if len(held) > 1:
                yield self._frames(held.pop(0))
        for block in held:
            yield self._frames(block)

    def _frames(self, block: Samples) -> SpeechFrames:
        powers = np.array(
            [np.mean(frame**2) for frame in np.array_split(block, -(-len(block) // FRAME))]
        )
        varies = powers.max() > 20 * np.quantile(powers, 0.2)
        return SpeechFrames(block, np.full(len(powers), 0.9 if varies else 0.1, np.float32))


def audio(hum_from: int, hum_to: int, blocks: int = 12) -> Samples:
    speech = syllables(blocks * BLOCK / SAMPLING_RATE)
    hum = with_sound(speech, STEADY["hum of 50 Hz"], 17) - speech
    hum[: hum_from * BLOCK] = hum[hum_to * BLOCK :] = 0
    return (speech + hum).astype(np.float32)


def test_speech_under_hum_is_detected() -> None:
    samples = audio(4, 8)
    plain = list(LevelVad()([samples]))
    found = list(CleanedVad(LevelVad())([samples]))
    assert b"".join(f.samples.tobytes() for f in found) == samples.tobytes()
    assert [bool((f.probabilities > 0.5).all()) for f in plain] == [True] * 4 + [False] * 4 + [
        True
    ] * 4
    assert all((f.probabilities > 0.5).all() for f in found)
    assert [f.cleaned is not None for f in found] == [4 <= n < 8 for n in range(12)]
    assert all(f.varying is (f.samples if f.cleaned is None else f.cleaned) for f in found)


def test_without_steady_sound_there_is_no_second_run() -> None:
    vad, plain = LevelVad(), LevelVad()
    samples = audio(0, 0)
    for frames, expected in zip(CleanedVad(vad)([samples]), plain([samples]), strict=True):
        assert frames.probabilities.tobytes() == expected.probabilities.tobytes()
        assert frames.cleaned is None
    assert vad.read == plain.read


def test_the_second_run_ends_with_the_hum() -> None:
    vad = LevelVad()
    list(CleanedVad(vad)([audio(3, 5, blocks=40)]))
    assert vad.read <= 40 + 2 + 2 + 3


def test_hum_that_returns_has_a_new_run() -> None:
    samples = np.concatenate([audio(3, 6), audio(3, 6)])
    found = list(CleanedVad(LevelVad())([samples]))
    assert all((f.probabilities > 0.5).all() for f in found)


@pytest.mark.parametrize("extra", [1, 700, BLOCK - 1])
def test_an_incomplete_last_block(extra: int) -> None:
    samples = audio(0, 12)[: 5 * BLOCK + extra]
    found = list(CleanedVad(LevelVad())([samples]))
    assert b"".join(f.samples.tobytes() for f in found) == samples.tobytes()
    assert all(len(f.probabilities) == -(-len(f.samples) // FRAME) for f in found)


def test_cuts_under_hum_lie_in_pauses() -> None:
    """Without a VAD, long audio is cut where it is quietest; hum must not hide the pauses."""
    samples = audio(0, 40, blocks=40)
    finder = SpanFinder(Options(vad=False, max_speech_duration=20.0), FRAME)
    spans = [span for block in NoVad()([samples]) for span in finder.push(block)]
    assert len(spans) >= 3
    for span in spans:
        assert 2.4 <= span.end / SAMPLING_RATE % 4 <= 4.0  # `syllables` pauses there
