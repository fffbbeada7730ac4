"""The built-in diarizer.

    blocks -> windows of 10 s -> tracks        segmentation network: boundaries and overlap
           -> pieces of at most 1.5 s          of one track
           -> embeddings                       embedding network: voices
    at the end:
           -> clusters                         the speakers
           -> speaker of each step             Viterbi, with the evidence of tracks and voices
           -> turns

Only the results for windows are kept, no audio.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import TypeAlias

import numpy as np

from whisperbatch.diarization.clustering import normalised, voices
from whisperbatch.diarization.labelling import confidences, emissions, speakers
from whisperbatch.diarization.naming.voices import SAME_VOICE, similarity, voice_of
from whisperbatch.diarization.online import OnlineSpeakers
from whisperbatch.diarization.pieces import (
    FBANK_HOP,
    EmbeddingNetwork,
    Embeddings,
    Piece,
    frames_of,
    plan,
)
from whisperbatch.diarization.protocol import Embedding, Progress, SpeakerLimits
from whisperbatch.diarization.recorder import Memory
from whisperbatch.diarization.turns import joined, spans
from whisperbatch.diarization.windows import (
    BATCH,
    FRAME,
    STEP,
    Run,
    SegmentationNetwork,
    Window,
    runs,
    windows,
)
from whisperbatch.prefetch import map_ahead
from whisperbatch.runtimes.matrix_products import product
from whisperbatch.types import Diarization, Samples, to_seconds

Analysed: TypeAlias = tuple[Window, list[Run], list[Piece], Embeddings]
"""A window with its runs, its pieces and their embeddings."""


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
        segmentation: SegmentationNetwork,
        embedding: EmbeddingNetwork,
        fbank: Callable[[Samples], Embeddings],
        fingerprint: str,
        workers: int = 1,
    ) -> None:
        self._segmentation, self._embedding = segmentation, embedding
        self._fbank, self._workers = fbank, workers
        self.fingerprint = fingerprint
        held = workers + 1 if workers > 1 else 0  # batches in each of the two stages
        self.reads_ahead = 2 * held * to_seconds(BATCH * STEP)

    def __call__(
        self, blocks: Iterable[Samples], limits: SpeakerLimits
    ) -> Iterator[Progress | Diarization]:
        """See `protocol.Diarizer`."""
        memory, online = Memory(), OnlineSpeakers(limits)
        with_voices = limits.maximum != 1 or limits.needs_voices
        for window, all_runs, pieces, vectors in self._analysed(blocks, with_voices=with_voices):
            first = len(memory.stretches)
            memory.add(window, all_runs, pieces, vectors)
            end = to_seconds((window.start + window.region[1]) * FRAME)
            turns = online.turns(memory, first)
            yield Progress(end, turns, online.embeddings if limits.needs_voices else {})
        yield diarization(memory, limits)

    def voice(self, samples: Samples) -> Embedding:
        """See `protocol.Diarizer`."""
        memory = Memory()
        for analysed in self._analysed([samples], with_voices=True):
            memory.add(*analysed)
        return voice_of(memory)

    def similarity(self, one: Embedding, other: Embedding) -> float:
        """See `protocol.Diarizer`."""
        return similarity(one, other)

    def close(self) -> None:
        """Free the networks. Safe to call twice."""

    def _analysed(self, blocks: Iterable[Samples], *, with_voices: bool) -> Iterator[Analysed]:
        """Yield the windows of a recording with their runs, pieces and embeddings.

        Args:
            blocks: consecutive, of any length.
            with_voices: cut pieces and compute their embeddings.
        """
        analyse = partial(self._with_embeddings, with_voices=with_voices)
        ready = windows(blocks, self._segmentation, self._workers)
        with closing(map_ahead(analyse, ready, workers=self._workers)) as analysed:
            for batch in analysed:
                yield from batch

    def _with_embeddings(self, ready: Sequence[Window], *, with_voices: bool) -> list[Analysed]:
        """Return windows with their runs, pieces and embeddings. See `_analysed`."""
        all_runs = [runs(window) for window in ready]
        pieces: list[list[Piece]] = [
            list(plan(window, own)) if with_voices else []
            for window, own in zip(ready, all_runs, strict=True)
        ]
        return list(zip(ready, all_runs, pieces, self._embeddings(ready, pieces), strict=True))

    def _embeddings(
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
        return np.split(normalised(self._embedding(cuts)), ends[:-1])

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


def diarization(memory: Memory, limits: SpeakerLimits) -> Diarization:
    """Return the turns of a recording."""
    if not memory.stretches:
        return Diarization(())
    parts = [vectors for vectors in memory.embeddings if len(vectors)]
    vectors = np.concatenate(parts) if parts else np.zeros((0, 1), np.float32)
    centres = np.array(memory.centres, np.int64)
    means = voices(memory, limits) if parts else np.zeros((1, 1), np.float32)
    bounds, values, owners = emissions(memory.stretches, centres, product(vectors, means.T))
    labels = speakers(memory.stretches, bounds, values, owners)
    found, exclusive = spans(memory, bounds, labels, confidences(values, labels))
    order = list(dict.fromkeys(span.speaker for span in found))
    names = {number: f"SPEAKER_{rank:02d}" for rank, number in enumerate(order)}
    return Diarization(
        joined(found, names),
        embeddings={name: means[number] for number, name in names.items()} if parts else {},
        exclusive=joined(exclusive, names, gap=0),
    )
