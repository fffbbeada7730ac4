"""Known speakers: what the sound changes in a voice embedding, and from where two voices are one.

    python -m benchmarks.diarization.known_voices            about ten minutes on two cores
    python -m benchmarks.diarization.known_voices --write    also writes the values

Each voice is embedded in five sounds: a clean recording, a telephone, a distant microphone, a quiet
room, and noise. The program compares references of 2 to 20 pieces with speakers of 5 to 40 pieces,
in equal and in different sounds. A piece has 1.5 s.

`directions.py` gets the values of the development voices: the mean embedding, the directions in
which an embedding changes with the sound, and the similarity that at most `FALSE` of the pairs of
different persons reach. For this similarity, the two voices of a pair are left out of the mean and
the directions. The second line shows the test voices with the values of the development voices.

--form tells whether the embeddings end with a ReLU ("rectified") or not ("plain"); "built-in" is
the form that the built-in diarizer has now.
"""

import argparse
import base64
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from benchmarks import recordings
from benchmarks.clips import SAMPLING_RATE
from benchmarks.diarization import acoustics, conversations, voices
from benchmarks.diarization.voices import Set, Sound
from whisperbatch.diarization import directions as written
from whisperbatch.diarization import open_diarizer
from whisperbatch.diarization.builtin import BuiltInDiarizer
from whisperbatch.diarization.clustering import CLUSTERED, normalise
from whisperbatch.diarization.directions import Directions
from whisperbatch.diarization.embeddings import Memory

Vectors: TypeAlias = npt.NDArray[np.float32]

SOUNDS: Final[Mapping[str, tuple[Callable[..., Sound], Callable[[Sound, Random], Sound]]]] = {
    "clean": (acoustics.dry, acoustics.quiet),
    "telephone": (acoustics.dry, acoustics.telephone),
    "far": (acoustics.far, acoustics.noisy),
    "room": (acoustics.far, acoustics.quiet),
    "noise": (acoustics.dry, acoustics.noisy),
}
SECONDS: Final = 100  # of each voice in each sound
PAUSE: Final = 0.4  # seconds between utterances
DIRECTIONS: Final = 4  # 2 are worse; 6, 8 and 12 are not better
REFERENCES: Final = (2, 5, 10, 20)  # pieces
SPEAKERS: Final = (5, 15, 40)  # pieces
DRAWN: Final = 3  # references of each size
FALSE: Final = 0.0005  # of the pairs of different persons
FORMS: Final = ("rectified", "plain")
LENGTH: Final = 192  # of an embedding
TARGET: Final = Path(written.__file__)


@dataclass(slots=True)
class Similarities:
    """Similarities of references and speakers: of one person, by equal sounds and size; of two."""

    same: dict[tuple[bool, int], list[float]] = field(default_factory=dict)
    different: list[float] = field(default_factory=list)

    def limit(self) -> float:
        """Return the similarity that `FALSE` of the pairs of different persons reach."""
        return float(np.quantile(self.different, 1 - FALSE))

    def line(self, limit: float) -> str:
        """Return false and missing names in percent."""
        false = 100 * float(np.mean(np.array(self.different) >= limit))
        parts = [
            f"{100 * float(np.mean(np.array(self.same[equal, size]) < limit)):5.1f}"
            for equal in (True, False)
            for size in REFERENCES
        ]
        return f"{limit:.2f}  {false:6.3f}  {' '.join(parts)}"


def embedded(part: Set) -> dict[tuple[str, str], tuple[Vectors, Vectors]]:
    """Return the plain embeddings of each voice in each sound, and the weights of the pieces."""
    diarizer = built_in()
    network = diarizer._embedding  # noqa: SLF001 - its output before the ReLU

    def both_signs(features: Sequence[Vectors], /) -> Vectors:
        """Return an output that a ReLU does not change: positive parts, then negative parts."""
        output = network(features)
        return np.concatenate((np.maximum(output, 0), np.maximum(-output, 0)), axis=1)

    signed = BuiltInDiarizer(
        diarizer._segmentation,  # noqa: SLF001 - the same network
        both_signs,
        diarizer._fbank,  # noqa: SLF001 - the same features
        "",
    )
    found = {}
    for voice in voices.of_set(part):
        for sound in SOUNDS:
            memory = Memory()
            for analysed in signed._analyse([recording(voice.name, sound)], with_voices=True):  # noqa: SLF001 - pieces with the outputs of `both_signs`
                memory.add(*analysed)
            parts = np.concatenate([vectors for vectors in memory.embeddings if len(vectors)])
            plain = parts[:, :LENGTH] - parts[:, LENGTH:]
            found[voice.name, sound] = plain, np.array(memory.weights, np.float32)
        print(f"{part}: {voice.name}", flush=True)
    return found


def recording(voice: str, sound: str) -> Sound:
    """Return the speech of a voice in a sound."""
    rng = recordings.random_from(f"{voice} {sound}")
    change, around = SOUNDS[sound]
    pool = voices.pool(voice)
    power = np.mean(np.concatenate([each.samples for each in pool]).astype(np.float64) ** 2)
    gain = np.float32(10 ** ((conversations.LEVEL - 10 * np.log10(power)) / 20))
    response = acoustics.room(rng)
    parts: list[Sound] = []
    for utterance in rng.sample(pool, len(pool)):
        parts.append(change(utterance.samples * gain, response))
        parts.append(np.zeros(round(PAUSE * SAMPLING_RATE), np.float32))
        if sum(map(len, parts)) > SECONDS * SAMPLING_RATE:
            break
    heard: Sound = np.clip(around(np.concatenate(parts), rng), -1, 1).astype(np.float32)
    return heard


def in_form(
    found: Mapping[tuple[str, str], tuple[Vectors, Vectors]], form: str
) -> dict[tuple[str, str], tuple[Vectors, Vectors]]:
    """Return embeddings with or without a ReLU."""
    if form == "plain":
        return dict(found)
    return {key: (normalise(np.maximum(v, 0)), weights) for key, (v, weights) in found.items()}


def fitted(means: Mapping[tuple[str, str], Vectors], names: Sequence[str]) -> Directions:
    """Return the mean of some voices, and the directions in which their sounds differ most."""
    stacked = np.stack([[means[name, sound] for sound in SOUNDS] for name in names])
    differences = (stacked - stacked.mean(axis=1, keepdims=True)).reshape(-1, stacked.shape[-1])
    _, _, axes = np.linalg.svd(differences, full_matrices=False)
    return Directions(
        stacked.mean(axis=(0, 1)).astype(np.float32), axes[:DIRECTIONS].astype(np.float32)
    )


def compared(
    found: Mapping[tuple[str, str], tuple[Vectors, Vectors]], given: Directions | None = None
) -> Similarities:
    """Compare references with speakers: references are the first halves of the recordings.

    Args:
        found: embeddings and weights of each voice in each sound.
        given: the directions; None for those of the other voices of the set.
    """
    rng = np.random.default_rng(0)
    names = sorted({name for name, _ in found})
    means = {key: normalise(vectors.mean(axis=0)) for key, (vectors, _) in found.items()}
    known: dict[frozenset[str], Directions] = {}
    result = Similarities()
    for (one, sound), two, other in (
        (key, two, other) for key in found for two in names for other in SOUNDS
    ):
        if one != two and voices.VOICES[one].person == voices.VOICES[two].person:
            continue
        pair = frozenset((one, two))
        if pair not in known:
            known[pair] = given or fitted(means, [name for name in names if name not in pair])
        for size, reference in references(*found[one, sound], rng):
            for speaker in speakers(*found[two, other], rng):
                similarity = known[pair].similarity(reference, speaker)
                if one == two:
                    result.same.setdefault((sound == other, size), []).append(similarity)
                else:
                    result.different.append(similarity)
    return result


def references(
    vectors: Vectors, weights: Vectors, rng: np.random.Generator
) -> Iterator[tuple[int, Vectors]]:
    """Yield the number of pieces and the embedding of references."""
    for size in REFERENCES:
        for _ in range(DRAWN):
            at = int(rng.integers(0, len(vectors) // 2 - size + 1))
            cut = slice(at, at + size)
            yield size, normalise((vectors[cut] * weights[cut, None]).sum(axis=0))


def speakers(vectors: Vectors, weights: Vectors, rng: np.random.Generator) -> Iterator[Vectors]:
    """Yield the embeddings of speakers, of pieces that shape clusters."""
    complete = vectors[len(vectors) // 2 :][weights[len(vectors) // 2 :] >= CLUSTERED]
    for size in SPEAKERS:
        at = int(rng.integers(0, max(len(complete) - size, 0) + 1))
        yield normalise(complete[at : at + size].sum(axis=0))


def built_in() -> BuiltInDiarizer:
    """Return the built-in diarizer."""
    diarizer = open_diarizer()
    if not isinstance(diarizer, BuiltInDiarizer):
        raise TypeError("the built-in diarizer is needed")
    return diarizer


def current_form() -> str:
    """Return the form of the built-in diarizer's embeddings."""
    samples = recording(voices.of_set("development")[0].name, "clean")[: 10 * SAMPLING_RATE]
    return "rectified" if built_in().voice(samples).min() >= 0 else "plain"


def source(directions: Directions, limit: float, form: str) -> str:
    """Return directions.py with these values."""
    values = np.concatenate((directions.mean[None], directions.axes)).astype("<f2")
    lines = textwrap.wrap(base64.b64encode(values.tobytes()).decode(), 88)
    text = "\n".join(f'    "{line}"' for line in lines)
    kept = TARGET.read_text(encoding="utf-8").partition("SAME_VOICE: Final")[0]
    constants = f'SAME_VOICE: Final = {limit:.2f}\nFORM: Final = "{form}"\n'
    return f"{kept}{constants}_VALUES: Final = (\n{text}\n)\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table for both forms, and write the values of one."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.diarization.known_voices",
        description=(__doc__ or "").partition("\n")[0],
    )
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--form", choices=("built-in", *FORMS), default="built-in")
    options = parser.parse_args(arguments)
    development, test = embedded("development"), embedded("test")
    print("                        limit  false   missing by pieces of the reference: 2, 5, 10, 20")
    print("                               names      equal sounds          different sounds")
    for form in FORMS:
        found = in_form(development, form)
        similarities = compared(found)
        limit = round(similarities.limit() + 0.005, 2)
        means = {key: normalise(vectors.mean(axis=0)) for key, (vectors, _) in found.items()}
        directions = fitted(means, sorted({name for name, _ in found}))
        print(f"{form:10} development  {similarities.line(limit)}")
        print(f"{form:10} test         {compared(in_form(test, form), directions).line(limit)}")
        wanted = current_form() if options.form == "built-in" else options.form
        if options.write and form == wanted:
            TARGET.write_text(source(directions, limit, form), encoding="utf-8")
            print(f"wrote {TARGET.name}")


if __name__ == "__main__":
    main()
