"""Voices: clusters of embeddings, without a given number of speakers.

Two groups of embeddings are two voices if the *corrected similarity* of their means is low:

    mean similarity between the groups / geometric mean of the mean similarities within each group

An embedding of 1.5 s is a voice plus noise. Noise lowers the similarities between and within groups
alike, so that the quotient estimates the similarity of the voices themselves, whatever the sound of
the recording. With a microphone, a telephone or a room, the similarity of two embeddings of one
voice changes from 0.5 to 0.8; the quotient stays.

A group is divided in two (spherical k-means) as long as its halves are two voices. At the end,
groups that are one voice are joined.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.diarization.protocol import SpeakerLimits

Vectors = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.int64]

SAME_VOICE: Final = 0.90  # corrected similarity from which two groups are one voice
MIN_PIECES: Final = 4  # of a speaker, if there are several speakers
STARTS: Final = 8  # pairs of embeddings from which k-means starts
PASSES: Final = 20  # of k-means
ROUNDS: Final = 5  # of the final assignments


def normalised(vectors: Vectors) -> Vectors:
    """Return vectors with length 1."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    result: Vectors = vectors / np.maximum(lengths, 1e-9)
    return result


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Embeddings of one voice, or of several.

    Attributes:
        members: numbers of the embeddings, in order of time.
        total: sum of the embeddings.
        within: mean similarity of two embeddings that do not follow each other.
    """

    members: Numbers
    total: Vectors
    within: float

    @classmethod
    def of(cls, vectors: Vectors, members: Numbers) -> "Group":
        """Return the group of some embeddings, given all embeddings."""
        own = vectors[members].astype(np.float64)
        total = own.sum(axis=0)
        neighbours = own[:-1][np.diff(members) == 1], own[1:][np.diff(members) == 1]
        pairs = len(own) * (len(own) - 1) - 2 * len(neighbours[0])
        similarity = total @ total - np.einsum("ij,ij", own, own)
        similarity -= 2 * np.einsum("ij,ij", *neighbours)
        within = similarity / pairs if pairs > 0 else 1.0
        return cls(members, total, float(within))


def similarity(one: Group, two: Group) -> float:
    """Return the corrected similarity of two groups: 1 for one voice."""
    between = one.total @ two.total / (len(one.members) * len(two.members))
    return float(between / np.sqrt(max(one.within, 0.05) * max(two.within, 0.05)))


def cluster(vectors: Vectors, limits: SpeakerLimits) -> Vectors:
    """Return the mean embeddings of the speakers, shape (speakers, n_dimensions), of length 1.

    Args:
        vectors: embeddings of length 1, shape (n, n_dimensions), in order of time.
        limits: of the number of speakers.
    """
    groups = [Group.of(vectors, np.arange(len(vectors)))]
    groups = _divided(vectors, groups, limits)
    groups = _joined(vectors, groups, limits)
    means = normalised(np.stack([group.total for group in groups]))
    for _ in range(ROUNDS):
        labels = np.argmax(vectors @ means.T, axis=1)
        sums = [vectors[labels == k].sum(axis=0) for k in range(len(means))]
        means = normalised(
            np.stack([s if s.any() else m for s, m in zip(sums, means, strict=True)])
        )
    return means.astype(np.float32)


def _divided(vectors: Vectors, groups: list[Group], limits: SpeakerLimits) -> list[Group]:
    """Divide groups while their halves are two voices, or until there are enough speakers."""
    waiting, done = list(groups), list[tuple[float, Group, tuple[Group, Group] | None]]()
    while waiting:
        group = waiting.pop()
        halves = best_division(vectors, group)
        if halves and similarity(*halves) < SAME_VOICE:
            waiting += halves
        else:
            done.append((similarity(*halves) if halves else np.inf, group, halves))
    while len(done) < limits.minimum:
        number = min(range(len(done)), key=lambda n: done[n][0])
        value, _, halves = done.pop(number)
        if not halves or value == np.inf:
            break
        for half in halves:
            parts = best_division(vectors, half)
            done.append((similarity(*parts) if parts else np.inf, half, parts))
    return [group for _, group, _ in done]


def best_division(vectors: Vectors, group: Group) -> tuple[Group, Group] | None:
    """Return the division of a group whose halves are least similar; None if it is too small."""
    best: tuple[float, tuple[Group, Group]] | None = None
    for first, second in _starts(vectors, group):
        halves = _two_means(vectors, group.members, first, second)
        if halves and (best is None or similarity(*halves) < best[0]):
            best = similarity(*halves), halves
    return best[1] if best else None


def _starts(vectors: Vectors, group: Group) -> Iterator[tuple[Vectors, Vectors]]:
    """Yield pairs of embeddings: an embedding, and the least similar embedding of the group."""
    own = vectors[group.members]
    if len(own) < 2 * MIN_PIECES:
        return
    for start in np.linspace(0, len(own) - 1, STARTS).round().astype(int):
        far = own[int(np.argmin(own @ own[start]))]
        yield own[int(np.argmin(own @ far))], far


def _two_means(
    vectors: Vectors, members: Numbers, first: Vectors, second: Vectors
) -> tuple[Group, Group] | None:
    """Divide embeddings by spherical k-means, given the first means."""
    own = vectors[members]
    means = np.stack([first, second])
    labels = np.zeros(len(own), np.int64)
    for _ in range(PASSES):
        previous, labels = labels, np.argmax(own @ means.T, axis=1)
        if not MIN_PIECES <= labels.sum() <= len(own) - MIN_PIECES:
            return None
        if np.array_equal(labels, previous):
            break
        means = normalised(np.stack([own[labels == k].sum(axis=0) for k in (0, 1)]))
    return Group.of(vectors, members[labels == 0]), Group.of(vectors, members[labels == 1])


def _joined(vectors: Vectors, groups: list[Group], limits: SpeakerLimits) -> list[Group]:
    """Join the most similar groups while they are one voice, or there are too many."""
    maximum = limits.maximum or len(groups)
    while len(groups) > max(limits.minimum, 1):
        pairs = [(a, b) for a in range(len(groups)) for b in range(a)]
        first, second = max(pairs, key=lambda pair: similarity(*(groups[n] for n in pair)))
        close = similarity(groups[first], groups[second]) >= SAME_VOICE
        if not close and len(groups) <= maximum:
            break
        members = np.sort(np.concatenate((groups[first].members, groups[second].members)))
        groups = [group for n, group in enumerate(groups) if n not in {first, second}]
        groups.append(Group.of(vectors, members))
    return groups
