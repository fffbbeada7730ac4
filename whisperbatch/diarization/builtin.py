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
from whisperbatch.diarization.windows import FRAME, SegmentationNetwork, Window, runs, windows
from whisperbatch.products import product
from whisperbatch.types import Diarization, Samples, to_seconds


class BuiltInDiarizer:
    """A Diarizer that runs two networks on onnxruntime. Thread-safe.

    Args:
        segmentation: finds the tracks of windows.
        embedding: computes voice embeddings.
        fbank: computes the features of the embedding network, shape (frames, 80), from samples.
        fingerprint: of the weights.
    """

    same_voice = SAME_VOICE

    def __init__(
        self,
        segmentation: SegmentationNetwork,
        embedding: EmbeddingNetwork,
        fbank: Callable[[Samples], Embeddings],
        fingerprint: str,
    ) -> None:
        self._segmentation, self._embedding = segmentation, embedding
        self._fbank = fbank
        self.fingerprint = fingerprint

    def __call__(
        self, blocks: Iterable[Samples], limits: SpeakerLimits
    ) -> Iterator[Progress | Diarization]:
        """See `protocol.Diarizer`."""
        memory, online = Memory(), OnlineSpeakers(limits)
        for window in windows(blocks, self._segmentation):
            first = len(memory.stretches)
            self._add(memory, window, with_voices=limits.maximum != 1 or limits.needs_voices)
            end = to_seconds((window.start + window.region[1]) * FRAME)
            turns = online.turns(memory, first)
            yield Progress(end, turns, online.embeddings if limits.needs_voices else {})
        yield diarization(memory, limits)

    def voice(self, samples: Samples) -> Embedding:
        """See `protocol.Diarizer`."""
        memory = Memory()
        for window in windows([samples], self._segmentation):
            self._add(memory, window, with_voices=True)
        return voice_of(memory)

    def similarity(self, one: Embedding, other: Embedding) -> float:
        """See `protocol.Diarizer`."""
        return similarity(one, other)

    def close(self) -> None:
        """Free the networks. Safe to call twice."""

    def _add(self, memory: Memory, window: Window, *, with_voices: bool) -> None:
        """Add a window to the memory, with or without the embeddings of its pieces."""
        all_runs = runs(window)
        pieces = list(plan(window, all_runs)) if with_voices else []
        memory.add(window, all_runs, pieces, self._embeddings(window, pieces))

    def _embeddings(self, window: Window, pieces: Sequence[Piece]) -> Embeddings:
        """Return the embeddings of pieces, of length 1, shape (pieces, n_dimensions)."""
        if not pieces:
            return np.empty((0, 1), np.float32)
        low = min(piece.start for piece in pieces)
        low -= low % FBANK_HOP
        high = max(piece.end for piece in pieces)
        features = self._fbank(window.samples[low:high])
        by_length: dict[int, list[int]] = {}
        cuts = []
        for number, piece in enumerate(pieces):
            start, end = frames_of(Piece(piece.run, piece.start - low, piece.end - low))
            cut = features[start:end]
            cuts.append(cut - cut.mean(axis=0))
            by_length.setdefault(len(cut), []).append(number)
        result: list[Embeddings] = [np.empty(0, np.float32)] * len(pieces)
        for numbers in by_length.values():
            stacked = np.stack([cuts[number] for number in numbers])
            for number, vector in zip(numbers, self._embedding(stacked), strict=True):
                result[number] = vector
        return normalised(np.stack(result))


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
