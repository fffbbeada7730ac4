"""Which speaker of a recording has which name: best pairs first, each name once.

similarity     Ann   Bob
SPEAKER_00     0.81  0.35      Ann
SPEAKER_01     0.70  0.20      stays without a name, and becomes SPEAKER_00
SPEAKER_02     0.30  0.55      below the limit: SPEAKER_01
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from whisperbatch.diarization.protocol import Embedding, VoiceDiarizer
from whisperbatch.types import Diarization, Turn


def unnamed(rank: int) -> str:
    """Return the name of a speaker without a known name, numbered from 0."""
    return f"SPEAKER_{rank:02d}"


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
            (self.diarizer.similarity(voice, embedding), name, speaker)
            for speaker, embedding in embeddings.items()
            for name, voice in self.voices.items()
        ]
        pairs.sort(key=lambda pair: pair[0], reverse=True)
        found: dict[str, str] = {}
        for similarity, name, speaker in pairs:
            is_free = speaker not in found and name not in found.values()
            if is_free and similarity >= self.diarizer.same_voice:
                found[speaker] = name
        others = [speaker for speaker in speakers if speaker not in found]
        return found | {speaker: unnamed(rank) for rank, speaker in enumerate(others)}


def with_names(diarization: Diarization, names: Names) -> Diarization:
    """Return a diarization in which the known speakers have their names."""
    speakers = diarization.speakers
    embeddings = diarization.embeddings
    voices = {name: embeddings[name] for name in speakers if name in embeddings}
    chosen = names(voices, speakers)
    return replace(
        diarization,
        turns=tuple(renamed(diarization.turns, chosen)),
        exclusive=tuple(renamed(diarization.exclusive, chosen)),
        embeddings={chosen[name]: vector for name, vector in voices.items()},
    )


def renamed(turns: Sequence[Turn], names: Mapping[str, str]) -> list[Turn]:
    """Return turns with other names; a name that is not in the mapping stays."""
    return [replace(turn, speaker=names.get(turn.speaker, turn.speaker)) for turn in turns]
