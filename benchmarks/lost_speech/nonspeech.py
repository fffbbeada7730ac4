"""Recordings without a word, in which a system must not find any.

    hold_music   music on hold, at -30 to -15 dBFS
    animals      calls of 66 animals, repeated, with pauses
    keyboard     typing on a loud keyboard
    crowd        12 to 30 voices at the same time, in reverse
    room         hum, hiss and household machines at -50 to -25 dBFS

As in `turns`, recordings with an even seed use one half of the tracks, animals, keys and machines,
recordings with an odd seed the other half. The language of the name changes nothing but the seed.
"""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

import numpy as np

from benchmarks import clips, speech
from benchmarks.lost_speech.acoustics import babble
from benchmarks.recordings import SAMPLING_RATE, Recording, random_from
from benchmarks.sounds import Sound, at_level, hum, pink, rounded, white

MUSIC, CALLS, KEYS, CROWD, ROOM = (-30, -15), (-30, -12), (-40, -20), (-35, -15), (-50, -25)  # dBFS
TRACK: Final = (20.0, 60.0)  # seconds of music until the next excerpt
CALL_REPEATS: Final = (1, 4)
CALL_PAUSE, CALL_REPEAT_PAUSE = (0.5, 4.0), (0.1, 0.8)  # seconds
BURST, BURST_PAUSE = (5, 40), (0.5, 5.0)  # keys typed in a row; seconds between bursts
KEY_INTERVAL: Final = (0.08, 0.3)  # seconds: 40 to 150 words per minute
SCENE: Final = (10.0, 30.0)  # seconds until the crowd or the noise of the room changes
FADE: Final = 800  # samples, 50 ms
BACKGROUND: Final = -62.0  # dBFS, pink, in all kinds


def hold_music(count: int, half: int, rng: Random) -> Sound:
    """Return excerpts of the music, one after the other."""
    tracks = _sounds(speech.music)[half::2]

    def excerpt(length: int) -> Sound:
        track = rng.choice(tracks)
        return np.resize(track[rng.randrange(len(track)) :], length)

    return _scenes(count, TRACK, MUSIC, excerpt, rng)


def animals(count: int, half: int, rng: Random) -> Sound:
    """Return calls of animals; an animal repeats its call up to four times."""
    calls = _sounds(speech.animals)[half::2]
    events = []
    position = 0.0
    while position < count:
        position += rng.uniform(*CALL_PAUSE) * SAMPLING_RATE
        call = at_level(rng.choice(calls), rng.uniform(*CALLS))
        for _ in range(rng.randint(*CALL_REPEATS)):
            events.append((round(position), call))
            position += len(call) + rng.uniform(*CALL_REPEAT_PAUSE) * SAMPLING_RATE
    return _placed(count, events)


def keyboard(count: int, half: int, rng: Random) -> Sound:
    """Return bursts of typing: each key is pressed and released 50 to 100 ms later."""
    presses = _keys(1)[half::2]
    releases = _keys(0)[half::2]
    events = []
    position = 0.0
    while position < count:
        position += rng.uniform(*BURST_PAUSE) * SAMPLING_RATE
        for _ in range(rng.randint(*BURST)):
            key = rng.randrange(len(presses))
            held = rng.uniform(0.05, 0.1) * SAMPLING_RATE
            events += [(round(position), presses[key]), (round(position + held), releases[key])]
            position += rng.uniform(*KEY_INTERVAL) * SAMPLING_RATE
    return at_level(_placed(count, events), rng.uniform(*KEYS))


def crowd(count: int, _: int, rng: Random) -> Sound:
    """Return 12 to 30 reversed voices, a new crowd every 10 to 30 s."""
    return _scenes(
        count, SCENE, CROWD, lambda length: babble(length, rng, rng.randint(12, 30)), rng
    )


def room(count: int, half: int, rng: Random) -> Sound:
    """Return hum, hiss, rumble and household machines in turn, each for 10 to 30 s."""
    machines = [sound for sound in _sounds(speech.household) if len(sound) > 0.3 * SAMPLING_RATE]

    def machine(length: int, rng: Random) -> Sound:
        sound = rng.choice(machines[half::2])
        return np.resize(sound, length) + at_level(pink(length, rng), -50)

    noises = (hum, white, pink, machine, machine)
    return _scenes(count, SCENE, ROOM, lambda length: rng.choice(noises)(length, rng), rng)


SOUNDS: dict[str, Callable[[int, int, Random], Sound]] = {
    "hold_music": hold_music,
    "animals": animals,
    "keyboard": keyboard,
    "crowd": crowd,
    "room": room,
}


def build(kind: str, language: str = "en", duration: float = 120, seed: int = 0) -> Recording:
    """Build a recording without speech."""
    rng = random_from(f"{kind} {language} {seed}")
    count = round(duration * SAMPLING_RATE)
    sound = SOUNDS[kind](count, seed % 2, rng) + at_level(pink(count, rng), BACKGROUND)
    return Recording(f"{kind}-{language}-{duration:g}s-{seed}", rounded(sound), ())


def _scenes(
    count: int,
    seconds: tuple[float, float],
    levels: tuple[float, float],
    make: Callable[[int], Sound],
    rng: Random,
) -> Sound:
    """Return sounds one after the other, faded in and out, each with its own level."""
    scenes: list[Sound] = []
    while sum(map(len, scenes)) < count:
        length = round(rng.uniform(*seconds) * SAMPLING_RATE)
        fade = np.minimum(np.arange(length), np.arange(length)[::-1]) / FADE
        scenes.append(np.minimum(fade, 1) * at_level(make(length), rng.uniform(*levels)))
    return np.concatenate(scenes)[:count]


def _placed(count: int, events: list[tuple[int, Sound]]) -> Sound:
    """Return `count` samples with each sound added at its position."""
    total = np.zeros(count)
    for position, sound in events:
        part = sound[: max(count - position, 0)]
        total[position : position + len(part)] += part
    return total


@cache
def _sounds(source: Callable[[], list[Path]]) -> tuple[Sound, ...]:
    """Return the sounds of a source, with the silence at both ends cut off."""
    decoded = (clips.trim(clips.decode(path), "", "en") for path in source())
    return tuple(clip.samples.astype(np.float64) for clip in decoded if clip)


@cache
def _keys(state: int) -> tuple[Sound, ...]:
    """Return the sounds of keys pressed (1) or released (0), in the same order."""
    paths = speech.keyboard()
    names = {path.stem for path in paths}
    keys = sorted(path.stem[:-2] for path in paths if path.stem.endswith("-1"))
    both = [key for key in keys if {f"{key}-0", f"{key}-1"} <= names]
    directory = paths[0].parent
    return tuple(clips.decode(directory / f"{key}-{state}.wav").astype(np.float64) for key in both)


Builder: TypeAlias = Callable[[str, float, int], Recording]  # (language, seconds, seed)

KINDS: dict[str, Builder] = {kind: partial(build, kind) for kind in SOUNDS}
