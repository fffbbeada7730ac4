"""Clusters of voices: how many speakers there are, whatever the order and the noise."""

import numpy as np
import pytest

from tests.unit.diarization.synthetic import NOISE, Floats, embeddings, voices
from whisperbatch.diarization.clustering import (
    APART,
    USUAL_CHANGES,
    Group,
    LinkedEmbeddings,
    best_division,
    cluster,
    evidence,
    find_voices,
    similarity,
)
from whisperbatch.diarization.embeddings import Memory
from whisperbatch.diarization.protocol import SpeakerLimits


def talk(speakers: int, pieces: int, seed: int = 0) -> list[int]:
    """Return who speaks in each piece: turns of 1 to 6 pieces, and everyone speaks."""
    random = np.random.default_rng(seed)
    who: list[int] = []
    while len(who) < pieces:
        others = [speaker for speaker in range(speakers) if speaker not in who[-1:]]
        least = min(others or [0], key=who.count)
        who += [least] * int(random.integers(1, 7))
    return who[:pieces]


def remembered(vectors: Floats, centres: list[int], weights: list[float]) -> Memory:
    return Memory(embeddings=[vectors], centres=centres, weights=weights)


def group(vectors: Floats, members: range) -> Group:
    return Group.of(vectors, np.array(members))


def linked(vectors: Floats, chains: list[int] | None = None) -> LinkedEmbeddings:
    """Return embeddings with the number of the chain of each; without numbers, none is linked."""
    return LinkedEmbeddings.of(vectors, np.array(chains or [-1] * len(vectors)))


def clustered(vectors: Floats, limits: SpeakerLimits, chains: list[int] | None = None) -> Floats:
    return cluster(linked(vectors, chains), limits)


@pytest.mark.parametrize("pieces", [1, 2, 3, 8, 20, 100, 600])
@pytest.mark.parametrize("noise", [0.3, NOISE, 1.0])
def test_one_voice_stays_one(pieces: int, noise: float) -> None:
    vectors = embeddings(voices(1), [0] * pieces, noise)
    means = clustered(vectors, SpeakerLimits())
    assert len(means) == 1
    assert float(means[0] @ voices(1)[0]) > 0.6


@pytest.mark.parametrize("count", [2, 3, 4, 6])
@pytest.mark.parametrize("noise", [0.3, NOISE, 1.0])
def test_each_voice_is_a_cluster(count: int, noise: float) -> None:
    who = talk(count, 30 * count)
    means = clustered(embeddings(voices(count), who, noise), SpeakerLimits())
    assert len(means) == count
    nearest = np.argmax(voices(count) @ means.T, axis=1)
    assert sorted(nearest.tolist()) == list(range(count))
    np.testing.assert_allclose(np.linalg.norm(means, axis=1), 1, atol=1e-5)


def test_the_order_of_the_pieces_does_not_change_the_number() -> None:
    who = talk(3, 90)
    for seed in range(4):
        shuffled = np.random.default_rng(seed).permutation(who).tolist()
        assert len(clustered(embeddings(voices(3), shuffled), SpeakerLimits())) == 3


def test_a_few_pieces_are_no_speaker_but_several_are() -> None:
    rare = [0] * 40 + [1] * 3 + [0] * 40
    assert len(clustered(embeddings(voices(2), rare), SpeakerLimits())) == 1
    assert len(clustered(embeddings(voices(2), rare), SpeakerLimits(minimum=2))) == 2
    often = [0] * 40 + [1] * 8 + [0] * 40
    assert len(clustered(embeddings(voices(2), often), SpeakerLimits())) == 2


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (SpeakerLimits(1, 1), (1, 1)),
        (SpeakerLimits(1, 2), (1, 2)),
        (SpeakerLimits(2, 2), (2, 2)),
        (SpeakerLimits(2, None), (2, 3)),
        (SpeakerLimits(5, None), (5, 5)),
        (SpeakerLimits(4, 6), (4, 4)),
        (SpeakerLimits(1, 9), (1, 3)),
    ],
)
def test_limits_are_honoured(count: int, limits: SpeakerLimits, expected: tuple[int, int]) -> None:
    vectors = embeddings(voices(count), talk(count, 60))
    assert len(clustered(vectors, limits)) == expected[0 if count == 1 else 1]


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_there_are_at_most_as_many_speakers_as_pieces(pieces: int) -> None:
    vectors = embeddings(voices(1), [0] * pieces)
    assert len(clustered(vectors, SpeakerLimits(minimum=5))) == pieces


def test_copies_of_a_piece_are_no_error() -> None:
    """They cannot be divided."""
    vectors = np.repeat(voices(1), 30, axis=0)
    assert 1 <= len(clustered(vectors, SpeakerLimits(minimum=3))) <= 3
    assert len(clustered(vectors, SpeakerLimits())) == 1


def test_noise_does_not_change_the_corrected_similarity() -> None:
    who = [0, 0, 1, 1] * 100
    halves = [np.flatnonzero(np.array(who) == speaker) for speaker in (0, 1)]
    pair = voices(2, likeness=0.5)
    found = []
    for noise in (0.2, NOISE, 1.2):
        vectors = embeddings(pair, who, noise)
        found.append(similarity(*(Group.of(vectors, half) for half in halves)))
    assert found == pytest.approx([float(pair[0] @ pair[1])] * 3, abs=0.05)


def test_a_smaller_group_must_differ_more() -> None:
    vectors = embeddings(voices(2, likeness=0.72), [0] * 80 + [1] * 80)
    large = group(vectors, range(80))
    assert evidence(linked(vectors), large, group(vectors, range(80, 160))) < 0
    assert evidence(linked(vectors), large, group(vectors, range(80, 84))) > 0


def test_links_are_between_neighbours_of_one_chain() -> None:
    vectors = embeddings(voices(1), [0] * 7)
    found = linked(vectors, [0, 0, 1, -1, -1, 2, 2]).linked
    assert found.tolist() == [True, False, False, False, False, True]
    assert not linked(vectors).linked.any()


@pytest.mark.parametrize(
    ("who", "low", "high"),
    [
        ([0, 0, 0, 0, 1, 1, 1, 1] * 20, 0, 0.05),  # only between chains
        ([0, 1, 0, 1, 1, 0, 1, 0] * 20, 1.2, 2),
        (np.random.default_rng(0).integers(0, 2, 160).tolist(), 0.75, 1.15),
    ],
)
def test_changes_within_chains_are_relative_to_chance(
    who: list[int], low: float, high: float
) -> None:
    vectors = embeddings(voices(1), [0] * 160)
    groups = [Group.of(vectors, np.flatnonzero(np.array(who) == number)) for number in (0, 1)]
    chained = linked(vectors, [number // 4 for number in range(160)])
    assert low <= chained.changes(*groups) <= high
    assert linked(vectors).changes(*groups) == pytest.approx(USUAL_CHANGES)


def test_a_voice_in_two_manners_is_one_voice_if_the_manner_changes_within_chains() -> None:
    pair = voices(2, likeness=0.8)
    chains = [number // 6 for number in range(240)]
    within = np.random.default_rng(1).integers(0, 2, 240).tolist()
    assert len(clustered(embeddings(pair, within), SpeakerLimits(), chains)) == 1
    between = [chain % 2 for chain in chains]
    assert len(clustered(embeddings(pair, between), SpeakerLimits(), chains)) == 2


def test_pieces_that_follow_each_other_do_not_count_within_a_group() -> None:
    """They share a third of their sound, so they are more similar than their voice."""
    vectors = embeddings(voices(1), [0] * 60)
    vectors[1::2] = vectors[::2]  # each two are equal
    apart = group(vectors, range(0, 60, 2)).within
    scattered = Group.of(vectors, np.arange(60)).within
    assert scattered == pytest.approx(apart, abs=0.02)


def test_a_division_has_the_asked_number_of_parts() -> None:
    vectors = embeddings(voices(3), talk(3, 45))
    everything = group(vectors, range(45))
    for count in (2, 3, 4):
        parts = best_division(vectors, everything, count, 4)
        assert len(parts) == count
        members = np.concatenate([part.members for part in parts])
        assert sorted(members.tolist()) == list(range(45))
        assert min(len(part.members) for part in parts) >= 4
    assert best_division(vectors, everything, 4, 12) == []  # 45 pieces are too few


def test_short_pieces_do_not_shape_the_clusters() -> None:
    """Their embeddings are unreliable: here, another voice."""
    vectors = embeddings(voices(2), [0, 1] * 30)
    centres = [number * APART for number in range(60)]
    memory = remembered(vectors, centres, [1.0, 0.4] * 30)
    assert len(find_voices(memory, SpeakerLimits())) == 1
    memory = remembered(vectors, centres, [0.4] * 60)
    assert len(find_voices(memory, SpeakerLimits())) == 2  # there are no others


def test_a_limited_number_of_pieces_is_clustered(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.arange(100, dtype=np.float32)[:, None]
    memory = remembered(vectors, [number * APART for number in range(100)], [1.0] * 100)
    seen: list[list[float]] = []
    monkeypatch.setattr(
        "whisperbatch.diarization.clustering.cluster",
        lambda embeddings, _: seen.append(embeddings.vectors[:, 0].tolist()),
    )
    for most in (10, 100, None):
        find_voices(memory, SpeakerLimits(), most)
    assert seen == [[0, 24, 47, 70, 94, 95, 96, 97, 98, 99], [*range(100)], [*range(100)]]


def test_pieces_in_one_place_count_once() -> None:
    """Two windows may contain the same piece."""
    vectors = embeddings(voices(2), [0] * 40 + [1] * 12)
    apart = [number * APART for number in range(52)]
    assert len(find_voices(remembered(vectors, apart, [1.0] * 52), SpeakerLimits())) == 2
    same_place = [*apart[:40], *range(apart[40], apart[40] + 12)]
    assert len(find_voices(remembered(vectors, same_place, [1.0] * 52), SpeakerLimits())) == 1
