"""The built-in diarizer.

    blocks -> windows of 10 s -> tracks        segmentation network: boundaries and overlap
           -> pieces of at most 1.5 s          of one track
           -> embeddings                       embedding network: voices
    at the end:
           -> clusters                         the speakers
           -> speaker of each step             Viterbi, with the evidence of tracks and voices
           -> turns

Only the results for windows are kept, no audio.

While a recording is read, the speakers are provisional: the clusters of the voices so far.

    pieces so far   1      11     21     31     ...     each time 10 % more, at least 10 more
                    |      |      |      |
                  clusters, whose names follow those before: similar voices keep their names

Between two clusterings, a voice gets the name of the most similar cluster.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from whisperbatch.diarization.clustering import Vectors, find_voices, normalise
from whisperbatch.diarization.directions import SAME_VOICE, measured
from whisperbatch.diarization.embeddings import (
    FBANK_HOP,
    Embedder,
    Embeddings,
    Memory,
    Piece,
    frames_of,
    plan_pieces,
)
from whisperbatch.diarization.naming import match, voice_of
from whisperbatch.diarization.protocol import Embedding, Progress, SpeakerLimits
from whisperbatch.diarization.segmentation import (
    BATCH,
    FRAME,
    STEP,
    Run,
    Segmenter,
    Window,
    find_runs,
    find_windows,
)
from whisperbatch.diarization.turns import (
    find_frames,
    join_frames,
    label_steps,
    rate_labels,
    score_steps,
    time_of,
)
from whisperbatch.prefetch import map_ahead
from whisperbatch.runtimes.matrix_products import product
from whisperbatch.text.messages import brief, description
from whisperbatch.types import Diarization, Samples, Turn, to_seconds, unnamed_speaker

Analysed: TypeAlias = tuple[Window, list[Run], list[Piece], Embeddings]
"""A window with its runs, its pieces and their embeddings."""

MORE: Final = 10  # pieces until the voices are clustered again
GROWTH: Final = 1.1  # and relative to the number of pieces
# Pieces that are clustered. In three hours, clustering all pieces each time took a third of the
# time of the networks.
MOST: Final = 500
CONFIDENCE: Final = 0.5  # the number of voices is not known yet


class BuiltInDiarizer:
    """A Diarizer that runs two networks. Thread-safe.

    Args:
        segmentation: finds the tracks of windows.
        embedding: computes voice embeddings.
        fbank: computes the features of the embedding network, shape (frames, 80), from samples.
        fingerprint: of the weights.
        workers: calls of each network that are computed at a time, for each recording. The turns do
            not depend on them.

    Attributes:
        reads_ahead: seconds of audio that are taken before they are needed: see `Listener`.
    """

    same_voice = SAME_VOICE

    def __init__(
        self,
        segmentation: Segmenter,
        embedding: Embedder,
        fbank: Callable[[Samples], Embeddings],
        fingerprint: str,
        workers: int = 1,
    ) -> None:
        self._segmentation, self._embedding = segmentation, embedding
        self._fbank, self._workers = fbank, workers
        self.fingerprint = fingerprint
        held = workers + 1 if workers > 1 else 0  # batches in each of the two stages
        self.reads_ahead = 2 * held * to_seconds(BATCH * STEP)

    def __repr__(self) -> str:
        return description(self, brief(self.fingerprint))

    def __call__(
        self, blocks: Iterable[Samples], limits: SpeakerLimits
    ) -> Iterator[Progress | Diarization]:
        """See `protocol.Diarizer`."""
        memory, online = Memory(), OnlineSpeakers(limits)
        with_voices = limits.maximum != 1 or limits.needs_voices
        for window, all_runs, pieces, vectors in self._analyse(blocks, with_voices=with_voices):
            first = len(memory.segments)
            memory.add(window, all_runs, pieces, vectors)
            end = to_seconds((window.start + window.region[1]) * FRAME)
            turns = online.turns(memory, first)
            yield Progress(end, turns, online.embeddings if limits.needs_voices else {})
        yield diarize(memory, limits)

    def voice(self, samples: Samples) -> Embedding:
        """See `protocol.Diarizer`."""
        memory = Memory()
        for analysed in self._analyse([samples], with_voices=True):
            memory.add(*analysed)
        return voice_of(memory)

    def similarity(self, one: Embedding, other: Embedding) -> float:
        """See `protocol.Diarizer`."""
        return measured().similarity(one, other)

    def close(self) -> None:
        """Free the networks. Safe to call twice."""

    def _analyse(self, blocks: Iterable[Samples], *, with_voices: bool) -> Iterator[Analysed]:
        """Yield the windows of a recording with their runs, pieces and embeddings.

        Args:
            blocks: consecutive, of any length.
            with_voices: cut pieces and compute their embeddings.
        """
        analyse = partial(self._analyse_batch, with_voices=with_voices)
        ready = find_windows(blocks, self._segmentation, self._workers)
        with closing(map_ahead(analyse, ready, workers=self._workers)) as analysed:
            for batch in analysed:
                yield from batch

    def _analyse_batch(self, ready: Sequence[Window], *, with_voices: bool) -> list[Analysed]:
        """Return windows with their runs, pieces and embeddings. See `_analyse`."""
        all_runs = [find_runs(window) for window in ready]
        pieces: list[list[Piece]] = [
            list(plan_pieces(window, own)) if with_voices else []
            for window, own in zip(ready, all_runs, strict=True)
        ]
        return list(zip(ready, all_runs, pieces, self._embed(ready, pieces), strict=True))

    def _embed(
        self, ready: Sequence[Window], pieces: Sequence[Sequence[Piece]]
    ) -> list[Embeddings]:
        """Return the embeddings of the pieces of each window.

        Pieces of several windows are computed together.

        Returns:
            For each window an array of shape (pieces, n_dimensions), with rows of length 1.
        """
        cuts = [
            cut
            for window, own in zip(ready, pieces, strict=True)
            for cut in self._features(window, own)
        ]
        if not cuts:
            return [np.empty((0, 1), np.float32) for _ in ready]
        ends = np.cumsum([len(own) for own in pieces])
        return np.split(normalise(self._embedding(cuts)), ends[:-1])

    def _features(self, window: Window, pieces: Sequence[Piece]) -> Iterator[Embeddings]:
        """Yield the features of each piece, less their mean, shape (frames, 80)."""
        if not pieces:
            return
        low = min(piece.start for piece in pieces)
        low -= low % FBANK_HOP
        high = max(piece.end for piece in pieces)
        features = self._fbank(window.samples[low:high])
        for piece in pieces:
            start, end = frames_of(Piece(piece.run, piece.start - low, piece.end - low))
            cut = features[start:end]
            yield cut - cut.mean(axis=0)


def diarize(memory: Memory, limits: SpeakerLimits) -> Diarization:
    """Return the turns of a recording."""
    if not memory.segments:
        return Diarization(())
    parts = [vectors for vectors in memory.embeddings if len(vectors)]
    vectors = np.concatenate(parts) if parts else np.zeros((0, 1), np.float32)
    centres = np.array(memory.centres, np.int64)
    means = find_voices(memory, limits) if parts else np.zeros((1, 1), np.float32)
    bounds, values, owners = score_steps(memory.segments, centres, product(vectors, means.T))
    labels = label_steps(memory.segments, bounds, values, owners)
    found, exclusive = find_frames(memory, bounds, labels, rate_labels(values, labels))
    order = list(dict.fromkeys(span.speaker for span in found))
    names = {number: unnamed_speaker(rank) for rank, number in enumerate(order)}
    return Diarization(
        join_frames(found, names),
        embeddings={name: means[number] for number, name in names.items()} if parts else {},
        exclusive=join_frames(exclusive, names, gap=0),
    )


class OnlineSpeakers:
    """The speakers so far.

    Args:
        limits: of the number of speakers.
    """

    def __init__(self, limits: SpeakerLimits) -> None:
        self._limits = limits
        self._means: dict[int, Vectors] = {}
        self._names = 0
        self._enough = 1.0  # pieces from which the voices are clustered again
        self._last = 0

    @property
    def embeddings(self) -> dict[str, Vectors]:
        """The mean voice of each speaker so far, of length 1."""
        return {unnamed_speaker(name): mean for name, mean in sorted(self._means.items())}

    def turns(self, memory: Memory, first: int) -> tuple[Turn, ...]:
        """Return the turns of the last window.

        Args:
            memory: of the recording, with the window.
            first: number of the first segment of the window.
        """
        vectors = memory.embeddings[-1]
        pieces = len(memory.centres)
        if pieces >= self._enough:
            self._cluster(memory)
            self._enough = max(pieces + MORE, pieces * GROWTH)
        turns = []
        for segment in memory.segments[first:]:
            own = vectors[[piece - pieces + len(vectors) for piece in segment.pieces]]
            if len(own):
                total = own.sum(axis=0)
                self._last = max(self._means, key=lambda name: float(self._means[name] @ total))
            name = unnamed_speaker(self._last)
            turns.append(Turn(time_of(segment.start), time_of(segment.end), name, CONFIDENCE))
        return tuple(turns)

    def _cluster(self, memory: Memory) -> None:
        """Find the voices so far. The voices that are most similar to those before keep names."""
        found = list(find_voices(memory, self._limits, MOST))
        pairs = [
            (float(m @ v), name, n) for name, m in self._means.items() for n, v in enumerate(found)
        ]
        numbers = match(sorted(pairs, reverse=True))
        for number in range(len(found)):
            if number not in numbers.values():
                numbers[self._names] = number
                self._names += 1
        self._means = {name: found[number] for name, number in numbers.items()}
