"""Known speakers: the names of speakers, by recordings of their voices.

The most similar voices get a name first, and each name belongs to one speaker at most:

similarity     Ann   Bob
SPEAKER_00     0.81  0.35      Ann
SPEAKER_01     0.70  0.20      stays without a name, and becomes SPEAKER_00
SPEAKER_02     0.30  0.55      below the limit: SPEAKER_01
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from typing import Final, TypeVar

import numpy as np

from whisperbatch.audio.reader import AudioReader, open_audio
from whisperbatch.diarization import clustering
from whisperbatch.diarization.clustering import MIN_PIECES, Group, best_division, normalise
from whisperbatch.diarization.directions import FORM
from whisperbatch.diarization.embeddings import Memory
from whisperbatch.diarization.protocol import Embedding, VoiceDiarizer
from whisperbatch.errors import AudioError, OptionError, of_recording
from whisperbatch.options import KnownSpeakers, Options
from whisperbatch.text.messages import shown
from whisperbatch.types import SAMPLING_RATE, Diarization, Samples, Source, Turn, unnamed_speaker

One = TypeVar("One")
Other = TypeVar("Other")

MAX_REFERENCE: Final = 600.0  # seconds; half a minute is enough

MIN_SPEECH: Final = 1.0  # seconds
COMPLETE: Final = 0.6  # of a complete piece; shorter pieces do not show that there are two voices
SEVERAL_VOICES: Final = {"plain": 0.65, "rectified": 0.74}[FORM]
"""Corrected similarity of the halves of a reference below which it has several voices. On the
development voices of benchmarks/diarization, with 10, 20 and 40 pieces in three sounds, the halves
of one voice have at least 0.68 (0.77 with the ReLU). Of references with two voices, 70 to 76 % are
below the limit (45 to 55 % with the ReLU)."""


@dataclass(frozen=True, slots=True)
class Names:
    """Gives the speakers of recordings their names.

    Attributes:
        diarizer: compares voices.
        voices: the embedding of each known speaker, by name.
    """

    diarizer: VoiceDiarizer
    voices: Mapping[str, Embedding]

    def __call__(
        self, embeddings: Mapping[str, Embedding], speakers: Iterable[str]
    ) -> dict[str, str]:
        """Return the name of each speaker.

        A speaker gets a known name if the voices are similar enough. The other speakers are
        SPEAKER_00, SPEAKER_01, ... in order.

        Args:
            embeddings: of speakers, by their names without known speakers.
            speakers: all speakers in order, also those without an embedding.
        """
        pairs = [
            (self.diarizer.similarity(voice, embedding), speaker, name)
            for speaker, embedding in embeddings.items()
            for name, voice in self.voices.items()
        ]
        found = match(pair for pair in pairs if pair[0] >= self.diarizer.same_voice)
        others = [speaker for speaker in speakers if speaker not in found]
        return found | {speaker: unnamed_speaker(rank) for rank, speaker in enumerate(others)}


def match(pairs: Iterable[tuple[float, One, Other]]) -> dict[One, Other]:
    """Return pairs of similar voices, the most similar first; a voice is in one pair at most.

    Args:
        pairs: similarity, one voice, and the other voice.
    """
    chosen: dict[One, Other] = {}
    for _, one, other in sorted(pairs, key=lambda pair: pair[0], reverse=True):
        if one not in chosen and other not in chosen.values():
            chosen[one] = other
    return chosen


def name_speakers(diarization: Diarization, names: Names) -> Diarization:
    """Return a diarization in which the known speakers have their names."""
    speakers = diarization.speakers
    embeddings = diarization.embeddings
    voices = {name: embeddings[name] for name in speakers if name in embeddings}
    chosen = names(voices, speakers)
    return replace(
        diarization,
        turns=tuple(rename(diarization.turns, chosen)),
        exclusive=tuple(rename(diarization.exclusive, chosen)),
        embeddings={chosen[name]: vector for name, vector in voices.items()},
    )


def rename(turns: Sequence[Turn], names: Mapping[str, str]) -> list[Turn]:
    """Return turns with other names; a name that is not in the mapping stays."""
    return [replace(turn, speaker=names.get(turn.speaker, turn.speaker)) for turn in turns]


def check_references(options: Options) -> None:
    """Open the recordings of known speakers that are files, and close them.

    Raises:
        AudioError: a recording cannot be read; the message names the speaker.
    """
    for name, source in (options.known_speakers or {}).items():
        if isinstance(source, str | PathLike) and source != "-":
            with _opened(name, source):
                pass


def read_references(known_speakers: KnownSpeakers, diarizer: VoiceDiarizer) -> dict[str, Embedding]:
    """Read the recordings of known speakers, and return the embedding of each voice.

    Args:
        known_speakers: names and recordings.
        diarizer: computes the embeddings.

    Raises:
        AudioError: a recording cannot be read, has less than 1 s of speech, or has several voices.
            The message names the speaker and the recording.
        EngineError: a network failed.
    """
    voices: dict[str, Embedding] = {}
    for name, source in known_speakers.items():
        with _opened(name, source) as reader:
            voices[name] = diarizer.voice(_samples(reader))
    return voices


def _samples(reader: AudioReader) -> Samples:
    blocks = [np.zeros(0, np.float32)]
    for block in reader.blocks():
        blocks.append(block)
        if reader.position > MAX_REFERENCE * SAMPLING_RATE:
            raise AudioError(f"is longer than {MAX_REFERENCE:g} s; give 5 to 30 s of this voice")
    return np.concatenate(blocks)


@contextmanager
def _opened(name: str, source: Source) -> Iterator[AudioReader]:
    """Open the recording of a speaker; errors of the `with` block name both."""
    try:
        with open_audio(source, Options()) as reader:
            try:
                yield reader
            except AudioError as error:
                raise of_recording(error, reader.name)  # noqa: B904 - the same error
    except (AudioError, OptionError) as error:
        named = AudioError(f"`known_speakers`[{shown(name)}]: {error.marked}")
        raise named from error


def voice_of(memory: Memory) -> Embedding:
    """Return the embedding of the voice in a recording.

    Args:
        memory: of the recording.

    Raises:
        AudioError: the recording has less than 1 s of speech by one person at a time, or clearly
            several voices.
    """
    parts = [vectors for vectors in memory.embeddings if len(vectors)]
    seconds = sum(segment.seconds for segment in memory.segments)
    if not parts or seconds < MIN_SPEECH:
        raise AudioError(
            f"has {seconds:.1f} s of speech; give at least {MIN_SPEECH:g} s of this voice, best 5 "
            "to 30 s"
        )
    vectors, weights = np.concatenate(parts), np.array(memory.weights, np.float32)
    complete = vectors[weights >= COMPLETE]
    halves = best_division(complete, Group.of(complete, np.arange(len(complete))), 2, MIN_PIECES)
    if halves and clustering.similarity(*halves) < SEVERAL_VOICES:
        raise AudioError("has several voices; give a recording of one person")
    voice: Embedding = normalise((vectors * weights[:, None]).sum(axis=0))
    return voice
