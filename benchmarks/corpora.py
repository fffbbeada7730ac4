"""Recordings under conditions (pauses, music, noise, telephone, levels), built by name.

    KIND:LANGUAGE:SECONDS:SEED          noise_under:en:120:3

Each kind is built from the clips of `benchmarks.clips` and has their exact truth: between
utterances there is no speech, only the music or noise of the condition. Levels are root mean
square, in dB of full scale (dBFS). The level of speech is measured within its utterances.

    prompts, dense, sparse, read    clean speech, with pauses of several lengths
    pauses                          groups of 3 to 8 prompts, 2 to 30 s apart
    music_between, noise_between    groups 10 to 30 s apart, with music or noise in the pauses
    music_under, noise_under        music 15 dB, or pink noise 10 dB, below the speech throughout
    telephone, quiet, clipped       300 to 3400 Hz in mu-law; 40 dB softer; 20 dB too loud
    mixed                           about a minute of each of these conditions, in random order
    untouched, whispered, hoarse, slowed, sped_up, shifted, quieter, distant, cafe, pumping
                                    a difficult voice after a normal voice: lost_speech/turns.py
    hold_music, animals, keyboard, crowd, room
                                    no speech at all: lost_speech/nonspeech.py

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

from benchmarks import clips, recordings, speech
from benchmarks.lost_speech import nonspeech, turns
from benchmarks.recordings import (
    SAMPLING_RATE,
    PausedClip,
    Recording,
    Samples,
    gaps,
    random_from,
)
from benchmarks.sounds import (
    Sound,
    at_level,
    band,
    hum,
    mu_law,
    pink,
    rounded,
    speech_level,
    white,
)

Builder: TypeAlias = Callable[[str, float, int], Recording]  # (language, seconds, seed)

GROUP_SIZE = (3, 8)  # prompts of a group
GROUP_PAUSE = (0.3, 1.0)  # seconds between the prompts of a group
MAX_PROMPT = 20.0  # seconds; a single one of the few longer prompts could fill a recording
FADE = 800  # samples, 50 ms
CLEARANCE = 0.3  # seconds between speech and the music or noise next to it
MIN_FILLED_GAP = 2.0  # seconds; shorter gaps stay unchanged
SECTION = 60.0  # seconds of each condition in a mixed recording
DESCRIPTION = "Write built recordings as wav, with a manifest for benchmarks.accuracy."
TELEPHONE_BAND = (300.0, 3400.0)  # Hz


class CorpusError(ValueError):
    """A recording cannot be built or read by its name; the message says how to write the name."""


def build(name: str) -> Recording:
    """Build the recording KIND:LANGUAGE:SECONDS:SEED; raise CorpusError if it does not exist."""
    kind, language, seconds, seed = parse(name)
    try:
        recording = KINDS[kind](language, seconds, seed)
    except speech.SpeechError as error:
        raise CorpusError(f"{name}: {error}") from error
    if not recording.utterances and kind not in nonspeech.KINDS:
        raise CorpusError(f"{name}: too short for a single utterance")
    return replace(recording, name=name)


def parse(name: str) -> tuple[str, str, float, int]:
    """Return the kind, language, seconds and seed of a name; raise CorpusError for a wrong name."""
    kind, *fields = name.split(":")
    if kind not in KINDS:
        raise CorpusError(f"{name}: the kinds are {', '.join(KINDS)}")
    try:
        language, seconds, seed = fields
        parsed = kind, language, float(seconds), int(seed)
    except ValueError:
        raise CorpusError(f"{name}: write KIND:LANGUAGE:SECONDS:SEED, as {kind}:en:600:0") from None
    if not 1 <= parsed[2] <= 86400:
        raise CorpusError(f"{name}: a recording lasts from 1 to 86400 seconds")
    if kind == "read" and language != "en":
        raise CorpusError(f"{name}: the novel is in English, read:en:{seconds}:{seed}")
    return parsed


def argument(name: str) -> str:
    """Return a valid name for argparse; raise argparse's error for a name that `parse` refuses."""
    try:
        parse(name)
    except CorpusError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return name


def groups(
    kind: str, language: str, duration: float, seed: int, apart: tuple[float, float]
) -> Recording:
    """Build groups of prompts, `apart` seconds from each other and from the start."""
    rng = random_from(seed)
    limit = MAX_PROMPT * SAMPLING_RATE
    short = tuple(clip for clip in clips.asterisk_clips(language) if len(clip.samples) <= limit)

    def paused_clips() -> Iterator[PausedClip]:
        drawn = recordings.shuffled(short, rng)
        while True:
            pause = rng.uniform(*apart)
            for _ in range(rng.randint(*GROUP_SIZE)):
                yield pause, next(drawn)
                pause = rng.uniform(*GROUP_PAUSE)

    name = f"{kind}-{language}-{duration:g}s-{seed}"
    return recordings.assemble(name, paused_clips(), seed, duration)


def pauses(language: str = "en", duration: float = 600, seed: int = 0) -> Recording:
    """Build groups of prompts with 2 to 30 s of silence between them."""
    return groups("pauses", language, duration, seed, (2, 30))


def music_between(language: str = "en", duration: float = 600, seed: int = 0) -> Recording:
    """Build groups of prompts with 10 to 30 s of hold music, at its own level, between them."""
    rng = random_from(f"music {seed}")
    silent = groups("music_between", language, duration, seed, (10, 30))
    return _fill(silent, lambda count: _excerpt(count, rng))


def noise_between(language: str = "en", duration: float = 600, seed: int = 0) -> Recording:
    """Build groups of prompts with 10 to 30 s of noise between them.

    The noise is white, pink and mains hum in turn, at -35 to -20 dBFS.
    """
    rng = random_from(f"noise {seed}")
    colours = cycle((white, pink, hum))
    silent = groups("noise_between", language, duration, seed, (10, 30))
    return _fill(silent, lambda count: at_level(next(colours)(count, rng), rng.uniform(-35, -20)))


def music_under(language: str = "en", duration: float = 600, seed: int = 0) -> Recording:
    """Build prompts with music 15 dB below the speech, from the first second to the last."""
    clean = recordings.prompts(language, duration, seed)
    rng = random_from(f"music {seed}")
    repeats = 1 + len(clean.samples) // _music_length()
    tracks = [track for _ in range(repeats) for track in _music()]
    music = np.concatenate(rng.sample(tracks, len(tracks)))[: len(clean.samples)]
    return _under("music_under", clean, music.astype(np.float64), 15)


def noise_under(language: str = "en", duration: float = 600, seed: int = 0) -> Recording:
    """Build prompts in pink noise, at a signal-to-noise ratio of 10 dB."""
    clean = recordings.prompts(language, duration, seed)
    noise = pink(len(clean.samples), random_from(f"noise {seed}"))
    return _under("noise_under", clean, noise, 10)


def telephone(language: str = "en", duration: float = 600, seed: int = 0) -> Recording:
    """Build prompts over a telephone line: 300 to 3400 Hz, 8 kHz, 8-bit mu-law."""
    clean = recordings.prompts(language, duration, seed)
    narrow = band(clean.samples.astype(np.float64), *TELEPHONE_BAND)[::2]
    wide = np.zeros(len(clean.samples))
    wide[::2] = 2 * mu_law(narrow)
    return _with_sound("telephone", clean, band(wide, *TELEPHONE_BAND))


def quiet(language: str = "en", duration: float = 600, seed: int = 0) -> Recording:
    """Build prompts 40 dB softer, in 16 bits, as from a microphone at the far end of a room."""
    clean = recordings.prompts(language, duration, seed)
    return _with_sound("quiet", clean, clean.samples.astype(np.float64) * 10 ** (-40 / 20))


def clipped(language: str = "en", duration: float = 600, seed: int = 0) -> Recording:
    """Build prompts 20 dB louder, clipped at full scale, as from a microphone far too close."""
    clean = recordings.prompts(language, duration, seed)
    return _with_sound("clipped", clean, clean.samples.astype(np.float64) * 10 ** (20 / 20))


def mixed(language: str = "en", duration: float = 600, seed: int = 0) -> Recording:
    """Build a recording of all conditions in random order, about a minute each."""
    rng = random_from(f"mixed {seed}")
    count = max(round(duration / SECTION), 2)
    kinds = [
        kind for _ in range(1 + count // len(CONDITIONS)) for kind in _shuffled_conditions(rng)
    ]
    bounds = np.linspace(0, duration * SAMPLING_RATE, count + 1).round().astype(int)
    parts = (
        CONDITIONS[kind](language, float(end - start) / SAMPLING_RATE, 1000 * seed + number)
        for number, (kind, (start, end)) in enumerate(zip(kinds, pairwise(bounds), strict=False))
    )
    return recordings.joined(f"mixed-{language}-{duration:g}s-{seed}", parts)


def _fill(recording: Recording, filler: Callable[[int], Sound]) -> Recording:
    """Add sound to every long gap, faded in and out; `filler` makes a number of samples."""
    sound = recording.samples.astype(np.float64)
    for start, end in gaps(recording.utterances, recording.duration):
        if end - start < MIN_FILLED_GAP:
            continue
        first = round((start + CLEARANCE) * SAMPLING_RATE)
        last = round((end - CLEARANCE) * SAMPLING_RATE)
        fade = np.ones(last - first)
        fade[:FADE] = np.linspace(0, 1, FADE)
        fade[-FADE:] = np.linspace(1, 0, FADE)
        sound[first:last] += fade * filler(last - first)
    return replace(recording, samples=rounded(sound))


def _under(kind: str, clean: Recording, sound: Sound, below: float) -> Recording:
    """Add a sound `below` dB softer than the speech."""
    if not clean.utterances:
        return clean
    added = at_level(sound, speech_level(clean) - below)
    return _with_sound(kind, clean, clean.samples + added)


def _with_sound(kind: str, clean: Recording, sound: Sound) -> Recording:
    """Return the recording with another sound and name, and the same utterances."""
    name = clean.name.replace("prompts", kind, 1)
    return replace(clean, name=name, samples=rounded(sound))


@cache
def _music() -> tuple[Samples, ...]:
    return tuple(clips.decode(path) for path in speech.music())


def _music_length() -> int:
    return sum(len(track) for track in _music())


def _excerpt(count: int, rng: Random) -> Sound:
    """Return music from the middle of a long enough track, or of all tracks joined."""
    tracks = [track for track in _music() if len(track) > 2 * count] or [np.concatenate(_music())]
    track = rng.choice(tracks)
    start = rng.randint(count // 2, max(len(track) - count - count // 2, count // 2))
    return np.resize(track[start:], count).astype(np.float64)


def _shuffled_conditions(rng: Random) -> list[str]:
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
    **turns.KINDS,
    **nonspeech.KINDS,
}
DEFAULT = tuple(f"{kind}:en:300:0" for kind in CONDITIONS)


def main(argv: Sequence[str] | None = None) -> int:
    """Write recordings and their manifest; return exit code 0, or 2 after an error."""
    from benchmarks.manifest import write_manifest  # noqa: PLC0415 - it imports this module

    parser = argparse.ArgumentParser(prog="python -m benchmarks.corpora", description=DESCRIPTION)
    parser.add_argument("--write", type=Path, metavar="DIRECTORY", required=True)
    parser.add_argument(
        "--recordings", nargs="+", type=argument, metavar="KIND:LANG:S:SEED", default=DEFAULT
    )
    arguments = parser.parse_args(argv)
    try:
        print(write_manifest(map(build, arguments.recordings), arguments.write))
    except CorpusError as error:
        print(f"corpora: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
