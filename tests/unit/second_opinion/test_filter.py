"""The filter before the decoder: music, and the VAD with a fresh state."""

from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from whisperbatch.second_opinion.checks import (
    MAX_PIECE,
    MIN_PROBABILITY,
    find_possible_speech,
    is_music,
    pieces,
)
from whisperbatch.types import SAMPLING_RATE, Samples, SpeechFrames, to_samples

HOP = 512


class LevelVad:
    """A Vad that takes loud audio for speech, and every audio at its start (an unsettled state)."""

    hop = HOP

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        for block in blocks:
            count = -(-len(block) // HOP)
            probability = 0.5 if float(np.abs(block).max()) > 0.1 else 0.001
            probabilities = np.full(count, probability, np.float32)
            probabilities[:10] = 0.9
            yield SpeechFrames(block, probabilities)


def noise(seconds: float, amplitude: float) -> Samples:
    rng = np.random.default_rng(1)
    samples = amplitude * rng.uniform(-1, 1, to_samples(seconds))
    return samples.astype(np.float32)


def chord(seconds: float) -> Samples:
    time = np.arange(to_samples(seconds)) / SAMPLING_RATE
    tones = [np.sin(2 * np.pi * hertz * time) for hertz in (262, 330, 392)]
    samples: Samples = (np.sum(tones, axis=0) / 4).astype(np.float32)
    return samples


def test_a_chord_is_music_and_noise_is_not() -> None:
    assert is_music(chord(5))
    assert not is_music(noise(5, 0.3))


def test_pitched_sound_with_pauses_may_be_a_narrow_band_voice() -> None:
    syllables = (np.arange(to_samples(5)) // to_samples(0.2)) % 2
    assert not is_music(chord(5) * syllables.astype(np.float32))


@pytest.mark.parametrize("seconds", [0.01, 3, 6, 6.1, 11, 13, 24.5])
def test_pieces_cover_all_samples(seconds: float) -> None:
    samples = noise(seconds, 0.1)
    found = list(pieces(samples))
    assert [piece.start for piece in found] == [0, *(piece.stop for piece in found[:-1])]
    assert found[-1].stop == len(samples)
    assert max(piece.stop - piece.start for piece in found) <= MAX_PIECE
    if seconds > 6:
        assert min(piece.stop - piece.start for piece in found) >= MAX_PIECE // 4


def test_only_probable_pieces_may_be_speech() -> None:
    samples = np.concatenate([noise(6, 0.01), np.zeros(1600, np.float32), noise(5, 0.5)])
    [part] = find_possible_speech(LevelVad(), samples, to_samples(2))
    assert part.end == len(samples)
    assert part.start > to_samples(3)
    assert part.probability == pytest.approx(0.5)
    assert list(find_possible_speech(LevelVad(), noise(10, 0.01), 0)) == []
    assert MIN_PROBABILITY > 0.001


def test_short_parts_and_music_are_no_possible_speech() -> None:
    assert list(find_possible_speech(LevelVad(), noise(1.9, 0.5), to_samples(2))) == []
    assert list(find_possible_speech(LevelVad(), chord(5), to_samples(2))) == []
