"""Voices: clusters of embeddings, without a given number of speakers.

Two groups of embeddings are two voices if the *corrected similarity* of their means is low:

    mean similarity between the groups / geometric mean of the mean similarities within each group

An embedding of 1.5 s is a voice plus noise. Noise lowers the similarities between and within groups
alike, so that the quotient estimates the similarity of the voices themselves, whatever the sound of
the recording. With a microphone, a telephone or a room, the similarity of two embeddings of one
voice changes from 0.5 to 0.8; the quotient stays.

A person who speaks in two manners, for example normally and loudly, can look like two voices. The
tracks of the segmentation network help: they see no change of speaker within a *chain* of pieces.

    chains    [= = = =] [= = = = =] [= = =] [= = = =]
    groups     a a a a   b b b b b   a a a   b b b b      change only between chains: two voices
    groups     a b b a   b a a b a   a b a   b b a b      change within chains: one voice

So two groups that change within chains as often as by chance are one voice at a lower similarity.

A group is divided in two to four (spherical k-means) as long as its parts are different voices.
At the end, groups that are one voice are joined.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from whisperbatch.diarization.embeddings import Memory
from whisperbatch.diarization.protocol import SpeakerLimits
from whisperbatch.runtimes.matrix_products import product

Vectors = npt.NDArray[np.float32]
Sums = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

CLUSTERED: Final = 0.6  # of a complete piece; shorter pieces do not shape the clusters
APART: Final = 25  # frames, 0.4 s, between the middles of two pieces that shape the clusters
# `evidence`, chosen on development conversations: 130 of 5 and 10 minutes, 16 with a third speaker
# of 3 to 30 s, 128 of 30 and 60 s. The number of speakers is wrong in 4, 6 and 34 of them; before,
# with 0.83 - 0.8 / size, in 10, 5 and 40. (Many speakers of the 128 have fewer than MIN_PIECES.)
SAME_VOICE: Final = 0.88  # corrected similarity from which two large groups are one voice
SELECTION: Final = 0.7  # weight of the size of the smaller group
CHANGES: Final = 0.04  # times the log of the changes within chains, relative to USUAL_CHANGES
USUAL_CHANGES: Final = 0.2  # of two groups without evidence, relative to chance
PRIOR_CHANGES: Final = 8.0  # changes by chance with the weight of USUAL_CHANGES
MIN_PIECES: Final = 4  # of a speaker; fewer only where the caller asks for more speakers
STARTS: Final = 8  # sets of embeddings from which k-means starts
PARTS: Final = 4  # into which a group is divided at a time
PASSES: Final = 20  # of k-means
ROUNDS: Final = 5  # of the final assignments


def normalise(vectors: Vectors | Sums) -> Vectors:
    """Return vectors with length 1."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    divided: Any = vectors / np.maximum(lengths, 1e-9)  # float64 to the types of NumPy 2.5
    result: Vectors = divided
    return result


@dataclass(frozen=True, slots=True, eq=False)
class LinkedEmbeddings:
    """Embeddings in order of time.

    Attributes:
        vectors: of length 1, shape (n, n_dimensions).
        linked: whether each embedding but the last is in one chain with the next, shape (n - 1,).
    """

    vectors: Vectors
    linked: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, vectors: Vectors, chains: Numbers) -> "LinkedEmbeddings":
        """Return embeddings, given the number of the chain of each; -1 is no chain."""
        return cls(vectors, (chains[1:] == chains[:-1]) & (chains[1:] >= 0))

    def changes(self, one: "Group", two: "Group") -> float:
        """Return how often two groups change within chains, relative to chance.

        The ratio is between 0 (never) and about 1 (by chance); with few links, it is near
        `USUAL_CHANGES`.
        """
        side = np.zeros(len(self.vectors), np.int8)
        side[one.members], side[two.members] = 1, 2
        before, after = side[:-1], side[1:]
        both = self.linked & (before > 0) & (after > 0)
        share = len(one.members) / (len(one.members) + len(two.members))
        by_chance = 2 * share * (1 - share) * np.count_nonzero(both)
        found = np.count_nonzero(both & (before != after)) + PRIOR_CHANGES * USUAL_CHANGES
        return float(found / (by_chance + PRIOR_CHANGES))


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Embeddings of one voice, or of several.

    Attributes:
        members: numbers of the embeddings, in order of time.
        total: sum of the embeddings.
        within: mean similarity of two embeddings that do not follow each other.
    """

    members: Numbers
    total: Sums
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


def evidence(embeddings: LinkedEmbeddings, one: Group, two: Group) -> float:
    """Return the evidence that two groups of embeddings are one voice: two voices below 0.

    k-means finds the few embeddings that differ most from the others. The smaller a group, and the
    more embeddings it was chosen from, the more it differs by chance. So a small group needs a
    lower similarity to be a voice.
    """
    size = min(len(one.members), len(two.members))
    chance = SELECTION * np.log(len(embeddings.vectors) / size) / size
    changes = CHANGES * np.log(embeddings.changes(one, two) / USUAL_CHANGES)
    return float(similarity(one, two) - SAME_VOICE + chance + changes)


def find_voices(memory: Memory, limits: SpeakerLimits, most: int | None = None) -> Vectors:
    """Return the mean embeddings of the speakers so far, as `cluster` does.

    Short pieces are unreliable, and take part only if there are no others. Copies would form a
    cluster of their own, so pieces in the same place count once: two windows may contain them.

    Args:
        memory: with at least one piece.
        limits: of the number of speakers.
        most: maximum number of pieces: one half are the latest pieces, where a new voice may have
            begun, the other half come from all of the recording before. None for all pieces.
    """
    weights = np.array(memory.weights, np.float32)
    chosen: list[int] = []
    for number in np.flatnonzero(weights >= min(CLUSTERED, float(weights.max()))).tolist():
        if not chosen or memory.centres[number] - memory.centres[chosen[-1]] >= APART:
            chosen.append(number)
    if most is not None and len(chosen) > most:
        before, latest = chosen[: -most // 2], chosen[-most // 2 :]
        spread = np.linspace(0, len(before) - 1, most - len(latest)).round().astype(int)
        chosen = [*(before[number] for number in spread), *latest]
    vectors = np.concatenate([each for each in memory.embeddings if len(each)])
    return cluster(LinkedEmbeddings.of(vectors[chosen], memory.chain_of_pieces()[chosen]), limits)


def cluster(embeddings: LinkedEmbeddings, limits: SpeakerLimits) -> Vectors:
    """Return the mean embeddings of the speakers, shape (speakers, n_dimensions), of length 1.

    Args:
        embeddings: at least one.
        limits: of the number of speakers.
    """
    vectors = embeddings.vectors
    groups = _join(embeddings, _divide(embeddings, limits), limits)
    means = normalise(np.stack([group.total for group in groups]))
    for _ in range(ROUNDS):
        labels = np.argmax(product(vectors, means.T), axis=1)
        sums = [vectors[labels == k].sum(axis=0) for k in range(len(means))]
        means = normalise(np.stack([s if s.any() else m for s, m in zip(sums, means, strict=True)]))
    return means.astype(np.float32)


def _divide(embeddings: LinkedEmbeddings, limits: SpeakerLimits) -> list[Group]:
    """Divide all embeddings while the parts are different voices, or there are too few speakers."""
    vectors = embeddings.vectors
    waiting, done = [Group.of(vectors, np.arange(len(vectors)))], list[Group]()
    while waiting:
        group = waiting.pop()
        parts = _divide_voices(embeddings, group)
        if parts:
            waiting += parts
        else:
            done.append(group)
    while len(done) < limits.minimum:
        divisions = [(best_division(vectors, group, 2, 1), n) for n, group in enumerate(done)]
        possible = [(closeness(parts), n, parts) for parts, n in divisions if parts]
        if not possible:
            break
        _, number, parts = min(possible, key=lambda item: item[:2])
        done[number : number + 1] = parts
    return done


def _divide_voices(embeddings: LinkedEmbeddings, group: Group) -> list[Group]:
    """Return the different voices in a group; an empty list if it is one voice, or seems to be.

    Two parts of a mixture of three voices may seem to be one voice, as both contain the third.
    """
    for count in range(2, PARTS + 1):
        parts = best_division(embeddings.vectors, group, count, MIN_PIECES)
        if parts and all(evidence(embeddings, *two) < 0 for two in combinations(parts, 2)):
            return parts
    return []


def closeness(parts: Sequence[Group]) -> float:
    """Return the similarity of the two most similar groups."""
    return max(similarity(a, b) for a, b in combinations(parts, 2))


def best_division(vectors: Vectors, group: Group, count: int, smallest: int) -> list[Group]:
    """Return the division of a group whose parts are least similar.

    The list is empty if there is no division in which each part has `smallest` embeddings.
    """
    best: tuple[float, list[Group]] | None = None
    if len(group.members) < count * smallest:
        return []
    for means in _starts(vectors[group.members], count):
        parts = _by_means(vectors, group.members, means, smallest)
        if parts and (best is None or closeness(parts) < best[0]):
            best = closeness(parts), parts
    return best[1] if best else []


def _starts(own: Vectors, count: int) -> Iterator[Vectors]:
    """Yield first means: embeddings, each as far as possible from those before it."""
    for start in np.linspace(0, len(own) - 1, STARTS).round().astype(int):
        nearest = _similarities(own, start)
        chosen = [int(np.argmin(nearest))]  # the first is an extreme, too
        nearest = _similarities(own, chosen[0])
        while len(chosen) < count:
            chosen.append(int(np.argmin(nearest)))
            nearest = np.maximum(nearest, _similarities(own, chosen[-1]))
        yield own[chosen]


def _similarities(own: Vectors, number: int) -> Vectors:
    """Return the similarity of each embedding and one of them, shape (n,)."""
    return product(own, own[number][:, None])[:, 0]


def _by_means(vectors: Vectors, members: Numbers, means: Vectors, smallest: int) -> list[Group]:
    """Divide embeddings by spherical k-means, given the first means; nothing if a part is small."""
    own = vectors[members]
    labels = np.zeros(len(own), np.int64)
    for _ in range(PASSES):
        previous, labels = labels, np.argmax(product(own, means.T), axis=1)
        if np.bincount(labels, minlength=len(means)).min() < smallest:
            return []
        if np.array_equal(labels, previous):
            break
        means = normalise(np.stack([own[labels == k].sum(axis=0) for k in range(len(means))]))
    return [Group.of(vectors, members[labels == k]) for k in range(len(means))]


def _join(embeddings: LinkedEmbeddings, groups: list[Group], limits: SpeakerLimits) -> list[Group]:
    """Join the two groups that are most likely one voice, while they are, or are too many."""
    maximum = limits.maximum or len(groups)
    while len(groups) > max(limits.minimum, 1):
        pairs = combinations(range(len(groups)), 2)
        found = {pair: evidence(embeddings, *(groups[n] for n in pair)) for pair in pairs}
        pair = max(found, key=found.__getitem__)
        if found[pair] < 0 and len(groups) <= maximum:
            break
        members = np.sort(np.concatenate([groups[n].members for n in pair]))
        groups = [group for n, group in enumerate(groups) if n not in pair]
        groups.append(Group.of(embeddings.vectors, members))
    return groups
