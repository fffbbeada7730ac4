"""Recordings under conditions, named in one line: long pauses, music, noise, telephone, levels.

    KIND:LANGUAGE:SECONDS:SEED          noise_under:en:120:3

Each kind is built from the prompts of `benchmarks.recordings`, and its truth is as exact as theirs:
nobody speaks between utterances, whatever is heard there. Levels are in dB of full scale (dBFS),
root mean square; that of speech is taken within its utterances.

    prompts, dense, sparse, read    clean speech, with pauses of several lengths
    pauses                          groups of 3 to 8 prompts, 2 to 30 s apart
    music_between, noise_between    the same, 10 to 30 s apart, with music or noise there
    music_under, noise_under        music 15 dB, or pink noise 10 dB, below the speech throughout
    telephone, quiet, clipped       300 to 3400 Hz in mu-law; 40 dB lower; 20 dB too loud
    mixed                           a minute or so of each of these, one after the other

python -m benchmarks.corpora --write corpus                    # wav files and their manifest
python -m benchmarks.corpora --write corpus --recordings pauses:en:600:0 telephone:fr:600:0
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import cycle, pairwise
from pathlib import Path
from random import Random
from typing import TypeAlias

import numpy as np

from benchmarks import recordings, speech
from benchmarks.recordings import SAMPLING_RATE, Placed, Recording, Samples, gaps, random_from
from benchmarks.sounds import Sound, at_level, band, hum, level, mu_law, pink, rounded, white

Builder: TypeAlias = Callable[[str, float, int], Recording]  # of language, seconds and seed

GROUP = (3, 8)  # prompts that follow each other closely
WITHIN = (0.3, 1.0)  # seconds between the prompts of a group
LONGEST = 20.0  # seconds: one of the few longer prompts could be all that a group has room for
FADE = 800  # samples, 50 ms
CLEAR = 0.3  # seconds between speech and the music or noise beside it
LEAST_FILLED = 2.0  # seconds: shorter gaps stay as they are
SECTION = 60.0  # seconds that a condition lasts in a mixed recording
WRITES = "Write built recordings as wav, with a manifest for benchmarks.accuracy."
TELEPHONE_BAND = (300.0, 3400.0)  # Hz


class CorpusError(ValueError):
    """A recording cannot be built or read as it is named; the message says what would be right."""


def build(name: str) -> Recording:
    """A recording from KIND:LANGUAGE:SECONDS:SEED; raises CorpusError if there is none."""
    kind, language, seconds, seed = parse(name)
    try:
        recording = KINDS[kind](language, seconds, seed)
    except speech.SpeechError as error:
        raise CorpusError(f"{name}: {error}") from error
    if not recording.utterances:
        raise CorpusError(f"{name}: too short for a single utterance")
    return replace(recording, name=name)


def parse(name: str) -> tuple[str, str, float, int]:
    """Kind, language, seconds and seed of a name; raises CorpusError if it is none."""
    kind, *rest = name.split(":")
    if kind not in KINDS:
        raise CorpusError(f"{name}: the kinds are {', '.join(KINDS)}")
    try:
        language, seconds, seed = rest
        found = kind, language, float(seconds), int(seed)
    except ValueError:
        raise CorpusError(f"{name}: write KIND:LANGUAGE:SECONDS:SEED, as {kind}:en:600:0") from None
    if not 1 <= found[2] <= 86400:
        raise CorpusError(f"{name}: a recording lasts from 1 to 86400 seconds")
    if kind == "read" and language != "en":
        raise CorpusError(f"{name}: the novel is in English, read:en:{seconds}:{seed}")
    return found


def argument(name: str) -> str:
    """A name as an argument of a command: one that `parse` takes, or an error of the command's."""
    try:
        parse(name)
    except CorpusError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return name


def groups(
    kind: str, language: str, duration: float, seed: int, apart: tuple[float, float]
) -> Recording:
    """Groups of prompts, `apart` seconds from each other and from the start."""
    rng = random_from(seed)
    limit = LONGEST * SAMPLING_RATE
    clips = tuple(c for c in recordings.asterisk_clips(language) if len(c.samples) <= limit)

    def placed() -> Iterator[Placed]:
        drawn = recordings.shuffled(clips, rng)
        while True:
            pause = rng.uniform(*apart)
            for _ in range(rng.randint(*GROUP)):
                yield pause, next(drawn)
                pause = rng.uniform(*WITHIN)

    return recordings.record(f"{kind}-{language}-{duration:g}s-{seed}", placed(), seed, duration)


def pauses(language: str = "en", duration: float = 600, seed: int = 0) -> Recording:
    """Groups of prompts with 2 to 30 s of silence between them."""
    return groups("pauses", language, duration, seed, (2, 30))


def music_between(language: str = "en", duration: float = 600, seed: int = 0) -> Recording:
    """Music on hold, at its own level, in pauses of 10 to 30 s between groups of prompts."""
    rng = random_from(f"music {seed}")
    quiet = groups("music_between", language, duration, seed, (10, 30))
    return _fill(quiet, lambda count: _excerpt(count, rng))


def noise_between(language: str = "en", duration: float = 600, seed: int = 0) -> Recording:
    """White noise, pink noise and mains hum in turn, -35 to -20 dBFS, in such pauses."""
    rng = random_from(f"noise {seed}")
    colours = cycle((white, pink, hum))
    quiet = groups("noise_between", language, duration, seed, (10, 30))
    return _fill(quiet, lambda count: at_level(next(colours)(count, rng), rng.uniform(-35, -20)))


def music_under(language: str = "en", duration: float = 600, seed: int = 0) -> Recording:
    """Prompts with music 15 dB below them from the first second to the last."""
    clean = recordings.prompts(language, duration, seed)
    rng = random_from(f"music {seed}")
    pieces = [piece for _ in range(1 + len(clean.samples) // _music_length()) for piece in _music()]
    music = np.concatenate(rng.sample(pieces, len(pieces)))[: len(clean.samples)]
    return _under("music_under", clean, music.astype(np.float64), 15)


def noise_under(language: str = "en", duration: float = 600, seed: int = 0) -> Recording:
    """Prompts in pink noise, at a signal-to-noise ratio of 10 dB."""
    clean = recordings.prompts(language, duration, seed)
    noise = pink(len(clean.samples), random_from(f"noise {seed}"))
    return _under("noise_under", clean, noise, 10)


def telephone(language: str = "en", duration: float = 600, seed: int = 0) -> Recording:
    """Prompts over a telephone line: 300 to 3400 Hz, 8 kHz, eight bits of mu-law."""
    clean = recordings.prompts(language, duration, seed)
    narrow = band(clean.samples.astype(np.float64), *TELEPHONE_BAND)[::2]
    wide = np.zeros(len(clean.samples))
    wide[::2] = 2 * mu_law(narrow)
    return _changed("telephone", clean, band(wide, *TELEPHONE_BAND))


def quiet(language: str = "en", duration: float = 600, seed: int = 0) -> Recording:
    """Prompts 40 dB below what they were, in 16 bits: a microphone at the far end of a room."""
    clean = recordings.prompts(language, duration, seed)
    return _changed("quiet", clean, clean.samples.astype(np.float64) * 10 ** (-40 / 20))


def clipped(language: str = "en", duration: float = 600, seed: int = 0) -> Recording:
    """Prompts 20 dB above what they were, cut off at full scale: a microphone far too close."""
    clean = recordings.prompts(language, duration, seed)
    return _changed("clipped", clean, clean.samples.astype(np.float64) * 10 ** (20 / 20))


def mixed(language: str = "en", duration: float = 600, seed: int = 0) -> Recording:
    """All the conditions in random order, about a minute each, one after the other."""
    rng = random_from(f"mixed {seed}")
    count = max(round(duration / SECTION), 2)
    kinds = [kind for _ in range(1 + count // len(CONDITIONS)) for kind in _drawn(rng)]
    bounds = np.linspace(0, duration * SAMPLING_RATE, count + 1).round().astype(int)
    samples, utterances = [], []
    for number, (kind, (start, end)) in enumerate(zip(kinds, pairwise(bounds), strict=False)):
        shift = float(start) / SAMPLING_RATE
        section = CONDITIONS[kind](
            language, float(end - start) / SAMPLING_RATE, 1000 * seed + number
        )
        samples.append(section.samples)
        utterances += [
            replace(spoken, start=spoken.start + shift, end=spoken.end + shift)
            for spoken in section.utterances
        ]
    name = f"mixed-{language}-{duration:g}s-{seed}"
    return Recording(name, np.concatenate(samples), tuple(utterances))


def speech_level(recording: Recording) -> float:
    """Of all its utterances together, in dBFS."""
    spoken = [
        recording.samples[round(u.start * SAMPLING_RATE) : round(u.end * SAMPLING_RATE)]
        for u in recording.utterances
    ]
    return level(np.concatenate(spoken).astype(np.float64))


def _fill(recording: Recording, filler: Callable[[int], Sound]) -> Recording:
    """Put what `filler` gives for a count of samples into every long gap, faded in and out."""
    sound = recording.samples.astype(np.float64)
    for start, end in gaps(recording.utterances, recording.duration):
        if end - start < LEAST_FILLED:
            continue
        first = round((start + CLEAR) * SAMPLING_RATE)
        last = round((end - CLEAR) * SAMPLING_RATE)
        fade = np.ones(last - first)
        fade[:FADE] = np.linspace(0, 1, FADE)
        fade[-FADE:] = np.linspace(1, 0, FADE)
        sound[first:last] += fade * filler(last - first)
    return replace(recording, samples=rounded(sound))


def _under(kind: str, clean: Recording, sound: Sound, below: float) -> Recording:
    """Add a sound that is `below` dB softer than the speech."""
    if not clean.utterances:
        return clean
    added = at_level(sound, speech_level(clean) - below)
    return _changed(kind, clean, clean.samples + added)


def _changed(kind: str, clean: Recording, sound: Sound) -> Recording:
    """The same words under another name, in another sound."""
    name = clean.name.replace("prompts", kind, 1)
    return replace(clean, name=name, samples=rounded(sound))


@cache
def _music() -> tuple[Samples, ...]:
    return tuple(recordings.decode(path) for path in speech.music())


def _music_length() -> int:
    return sum(len(piece) for piece in _music())


def _excerpt(count: int, rng: Random) -> Sound:
    """Music from the middle of a piece that is long enough, or of all of them in a row."""
    pieces = [piece for piece in _music() if len(piece) > 2 * count] or [np.concatenate(_music())]
    piece = rng.choice(pieces)
    start = rng.randint(count // 2, max(len(piece) - count - count // 2, count // 2))
    return np.resize(piece[start:], count).astype(np.float64)


def _drawn(rng: Random) -> list[str]:
    return rng.sample(list(CONDITIONS), len(CONDITIONS))


def _sparse(language: str, duration: float, seed: int) -> Recording:
    return recordings.prompts(language, duration, seed, pauses=(1.0, 8.0))


def _read(_: str, duration: float, seed: int) -> Recording:
    return recordings.read_speech(duration, seed)


CONDITIONS: dict[str, Builder] = {
    "prompts": recordings.prompts,
    "pauses": pauses,
    "music_between": music_between,
    "noise_between": noise_between,
    "music_under": music_under,
    "noise_under": noise_under,
    "telephone": telephone,
    "quiet": quiet,
    "clipped": clipped,
}
KINDS: dict[str, Builder] = {
    **CONDITIONS,
    "dense": recordings.dense,
    "sparse": _sparse,
    "read": _read,
    "mixed": mixed,
}
DEFAULT = tuple(f"{kind}:en:300:0" for kind in CONDITIONS)


def main(argv: Sequence[str] | None = None) -> int:
    """Write recordings and their manifest; 2 if that cannot be done."""
    from benchmarks.manifest import write_manifest  # noqa: PLC0415 - which needs this module

    parser = argparse.ArgumentParser(prog="python -m benchmarks.corpora", description=WRITES)
    parser.add_argument("--write", type=Path, metavar="DIRECTORY", required=True)
    parser.add_argument(
        "--recordings", nargs="+", type=argument, metavar="KIND:LANG:S:SEED", default=DEFAULT
    )
    chosen = parser.parse_args(argv)
    try:
        print(write_manifest(map(build, chosen.recordings), chosen.write))
    except CorpusError as error:
        print(f"corpora: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
