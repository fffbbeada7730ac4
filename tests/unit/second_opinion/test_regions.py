"""Sound without lasting speech, its text, and sound in which nothing shows any speech."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pytest

from tests.unit.synthetic_speech import chunk, rows
from whisperbatch.decoding.audit import DecodedRow
from whisperbatch.options import Options
from whisperbatch.protocols import Hypothesis
from whisperbatch.second_opinion.checks import (
    MAX_PIECE,
    MIN_PROBABILITY,
    find_possible_speech,
    is_music,
    pieces,
    proves_speech,
)
from whisperbatch.second_opinion.regions import (
    MAX_REGION,
    PADDING,
    RegionFinder,
    RejectedRegion,
    SampleFinder,
)
from whisperbatch.segmentation.timed_text import AlignedWord, join_words
from whisperbatch.types import SAMPLING_RATE, Samples, SpeechFrames, to_samples

HOP = 512
SECOND = SAMPLING_RATE / HOP  # VAD frames

Part = tuple[float, float, float]
"""Seconds, level in dBFS, and speech probability."""

SILENCE = -80.0
FAINT = -40.0


def frames_of(parts: Sequence[Part], hum: float = SILENCE) -> SpeechFrames:
    """Return noise with these levels, over constant noise of the level `hum`."""
    rng = np.random.default_rng(0)
    samples, probabilities = [], []
    for seconds, level, probability in parts:
        count = round(seconds * SECOND)
        power = 10 ** (level / 10) + 10 ** (hum / 10)
        samples.append(np.sqrt(power) * rng.standard_normal(count * HOP))
        probabilities.append(np.full(count, probability))
    return SpeechFrames(
        np.concatenate(samples).astype(np.float32), np.concatenate(probabilities).astype(np.float32)
    )


def regions(parts: Sequence[Part], hum: float = SILENCE, block: int = 64) -> list[RejectedRegion]:
    finder = RegionFinder(Options(), HOP)
    whole = frames_of(parts, hum)
    found: list[RejectedRegion] = []
    for start in range(0, len(whole.probabilities), block):
        samples = whole.samples[start * HOP : (start + block) * HOP]
        for region in finder.push(
            SpeechFrames(samples, whole.probabilities[start : start + block])
        ):
            assert region.end <= finder.frame + 1
            found.append(region)
        assert not found or found[-1].end <= finder.settled
    return found + list(finder.finish())


def seconds(found: Sequence[RejectedRegion]) -> list[tuple[float, float]]:
    return [(region.start / SECOND, region.end / SECOND) for region in found]


def test_sound_that_the_vad_rejects_is_a_region_with_padding() -> None:
    found = regions([(3, SILENCE, 0.0), (4, FAINT, 0.05), (3, SILENCE, 0.0)])
    padding = PADDING / SAMPLING_RATE
    assert seconds(found) == [pytest.approx((3 - padding, 7 + padding), abs=0.07)]


@pytest.mark.parametrize(
    "parts",
    [
        [(10, SILENCE, 0.0)],
        [(3, SILENCE, 0.0), (6, FAINT, 0.9), (3, SILENCE, 0.0)],
        [(3, SILENCE, 0.0), (1.4, FAINT, 0.0), (3, SILENCE, 0.0)],
        # words that the VAD detects, with breaths between them
        [(3, SILENCE, 0.0), *[(0.6, FAINT, 0.9), (0.5, -55.0, 0.0)] * 6, (3, SILENCE, 0.0)],
    ],
    ids=["silence", "speech", "too short", "single words"],
)
def test_silence_speech_and_short_sounds_are_no_regions(parts: list[Part]) -> None:
    assert regions(parts) == []


def test_a_word_that_the_vad_detects_is_part_of_the_region() -> None:
    parts = [(3, SILENCE, 0.0), (2, FAINT, 0.1), (0.6, FAINT, 0.9), (2, FAINT, 0.1)]
    assert len(regions([*parts, (3, SILENCE, 0.0)])) == 1


def test_padding_does_not_reach_into_speech() -> None:
    speech = (2, -20.0, 0.9)
    [found] = regions([(1, SILENCE, 0.0), speech, (4, FAINT, 0.05), speech])
    assert found.start / SECOND == pytest.approx(3, abs=0.07)
    assert found.end / SECOND == pytest.approx(7, abs=0.07)


def test_a_pause_divides_regions() -> None:
    sound = (3, FAINT, 0.0)
    assert len(regions([(1, SILENCE, 0.0), sound, (1, SILENCE, 0.0), sound])) == 1
    assert len(regions([(1, SILENCE, 0.0), sound, (2, SILENCE, 0.0), sound])) == 2


def test_steady_noise_is_the_noise_floor() -> None:
    assert regions([(20, SILENCE, 0.0)], hum=-30) == []
    assert len(regions([(5, SILENCE, 0.0), (4, -15.0, 0.0), (5, SILENCE, 0.0)], hum=-30)) == 1


def test_long_sound_is_cut_where_it_is_quietest() -> None:
    parts = [(1, SILENCE, 0.0), (21, FAINT, 0.0), (0.2, -60.0, 0.0), (21, FAINT, 0.0)]
    first, second = regions(parts)
    assert first.end / SECOND == pytest.approx(22.1, abs=0.15)
    assert second.start == first.end
    for region in (first, second):
        assert region.end - region.start <= (MAX_REGION + 2 * PADDING) / HOP


def test_regions_do_not_depend_on_the_size_of_blocks() -> None:
    parts = [(2, SILENCE, 0.0), (4, FAINT, 0.1), (2, -20.0, 0.9), (20, FAINT, 0.2)]
    expected = regions(parts)
    assert len(expected) == 2
    assert regions(parts, block=1) == regions(parts, block=999) == expected


BLOCK = 64


def block(level: float = 0.1, probability: float = 0.01) -> SpeechFrames:
    return SpeechFrames(
        np.full(BLOCK * HOP, level, np.float32), np.full(BLOCK, probability, np.float32)
    )


def samples(
    blocks: list[SpeechFrames], regions: frozenset[int] = frozenset()
) -> list[tuple[int, int]]:
    finder = SampleFinder(0.5, HOP)
    found = [
        region
        for number, each in enumerate(blocks)
        for region in finder.push(each, in_region=number in regions)
    ]
    found += finder.finish()
    assert all((region.end - region.start) * HOP <= MAX_REGION for region in found)
    return [(region.start, region.end) for region in found]


def test_even_sound_has_one_sample() -> None:
    assert samples([block()] * 200) == [(0, 11 * BLOCK)]


def test_a_sample_with_text_is_followed_by_another() -> None:
    finder = SampleFinder(0.5, HOP)
    found = []
    for _ in range(40):
        found += list(finder.push(block(), in_region=False))
        finder.wanted = True
    assert len(found) == 3
    assert [region.start for region in found] == [0, found[0].end, found[1].end]


@pytest.mark.parametrize(
    "breaks", [block(level=1e-4), block(probability=0.9)], ids=["silence", "speech"]
)
def test_silence_and_speech_begin_a_new_range(breaks: SpeechFrames) -> None:
    assert samples(([block()] * 8 + [breaks]) * 9) == []
    assert samples([block()] * 5 + [breaks] + [block()] * 30) == [(6 * BLOCK, 17 * BLOCK)]


def test_regions_are_checked_elsewhere() -> None:
    assert samples([block()] * 30, frozenset(range(0, 30, 5))) == []


def test_a_short_recording_of_even_sound_is_its_own_sample() -> None:
    assert samples([block()] * 3) == [(0, 3 * BLOCK)]
    assert samples([block(probability=0.9), *[block()] * 3]) == []
    assert samples([block(level=0.0)] * 3) == []


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


def decoded(
    text: str, avg_logprob: float = -0.3, language: str = "en", pace: float = 0.4, tokens: int = 10
) -> DecodedRow:
    """A region of 10 s with this text; each word takes `pace` seconds."""
    words = [
        AlignedWord(word, to_samples(number * pace), to_samples((number + 1) * pace), 0.9, 0)
        for number, word in enumerate(text.split("|"))
    ]
    [row] = rows(chunk([(0.0, 10.0)]))
    hypothesis = Hypothesis((1,) * tokens, avg_logprob, 0.1)
    texts = (join_words(words),)
    return DecodedRow(row, language, hypothesis, text.replace("|", ""), texts, Options())


@pytest.mark.parametrize(
    ("text", "language"),
    [(" He| was| not| there.", "en"), ("他|不|在|那|里|啊", "zh"), (" 1,| 2,| 3,| 4.", "en")],
)
def test_a_probable_sentence_proves_speech(text: str, language: str) -> None:
    assert proves_speech(decoded(text, language=language), -0.7)


@pytest.mark.parametrize(
    "row",
    [
        decoded(" He| was| not| there.", avg_logprob=-0.71),
        decoded(" Thank| you."),
        decoded("他|不|在", language="zh"),
        decoded(" Thank| you| very| much."),
        decoded(" Thank| you.| Thanks| for| watching!| Bye."),
        decoded(" oh| my| oh| my| oh| my"),
        decoded("| ".join(["", *["a b c d e f g h"] * 9]), pace=1.0),
        decoded(" He| was| not| there.", pace=2.4),
        decoded(" Incomprehensibilities| characteristically| counterrevolutionary", pace=0.3),
        decoded(" He| was| not| there.", tokens=224),
        decoded(""),
    ],
    ids=(
        *("improbable", "two words", "three characters", "boilerplate", "stock phrases", "loop"),
        *("compression", "slow", "fast", "cut off", "empty"),
    ),
)
def test_other_text_does_not(row: DecodedRow) -> None:
    assert not proves_speech(row, -0.7)
