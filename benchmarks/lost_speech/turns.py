"""Recordings in which difficult voices follow normal voices, as in conversations and broadcasts.

    [normal voice] pause [difficult voice] pause [normal voice] pause [difficult voice] ...

The truth is known for both. A normal turn has 3 to 8 s of the language's prompts, a difficult turn
5 to 15 s by the same speaker or by other speakers of the language. The level of the difficult voice
is relative to the normal voice before it. Pink noise, -70 to -58 dBFS, is in the whole recording.

No clip is repeated in a recording, except when all prompts have been used: few clips are by other
speakers, and a decoder that uses the text of the preceding window would copy a repeated sentence
instead of recognizing the sentence. After the last clip by another speaker, the speaker of the
prompts continues the turn.

A clip has no inner pause above 0.7 s, so that an utterance is speech from its start to its end (up
to 1 s at 0.7 times the tempo).

Recordings with an even seed use one half of the clips, recordings with an odd seed the other half:
thresholds that are set on even seeds (development) are tested on odd seeds, with other words.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from random import Random
from typing import Final, TypeAlias

import numpy as np

from benchmarks import clips, recordings
from benchmarks.clips import FRAME, SOUND_RANGE, Clip
from benchmarks.lost_speech import voices
from benchmarks.lost_speech.acoustics import babble, gain_controlled
from benchmarks.recordings import SAMPLING_RATE, PausedClip, Recording
from benchmarks.sounds import Sound, at_level, level, pink, rounded, speech_level

MIN_CLIP, MAX_CLIP = 1.0, 12.0  # seconds
MAX_INNER_PAUSE: Final = 0.7  # seconds
NORMAL_TURN, DIFFICULT_TURN = (3.0, 8.0), (5.0, 15.0)  # seconds of speech
PAUSE_IN_TURN, PAUSE_BETWEEN_TURNS = (0.3, 1.0), (0.7, 4.0)  # seconds
OTHER_SPEAKERS: Final = 0.4  # how much of the difficult speech is by other speakers, at most
NOISE: Final = (-70.0, -58.0)  # dBFS, of the room in the whole recording
CAFE: Final = 5.0  # dB by which the speech is louder than the babble


@dataclass(frozen=True, slots=True)
class Voice:
    """A difficult voice.

    Attributes:
        effect: changes a clip's sound.
        levels: range of its level relative to the normal voice before it, in dB.
        tempo: how many times as fast the effect makes the voice.
        around: changes the sound of the whole recording, whose level of speech is the second
            argument.
    """

    effect: voices.Effect
    levels: tuple[float, float]
    tempo: float = 1.0
    around: Callable[[Sound, float, Random], Sound] | None = None


def cafe(sound: Sound, speech_dbfs: float, rng: Random) -> Sound:
    """Return the recording in the noise of many voices, at a signal-to-noise ratio of 5 dB."""
    return sound + at_level(babble(len(sound), rng), speech_dbfs - CAFE)


def pumping(sound: Sound, _: float, rng: Random) -> Sound:
    """Return the recording after a gain control that pumps, in a room with noise at -50 dBFS."""
    return gain_controlled(sound + at_level(pink(len(sound), rng), -50))


# The levels are those of the issue that these corpora are about: hoarse speech at -25 to -37 dBFS
# after a normal voice of -17 dBFS, and speech 20 to 35 dB softer than the preceding voice.
VOICES: dict[str, Voice] = {
    "untouched": Voice(voices.unchanged, (-8, 0)),
    "whispered": Voice(voices.whispered, (-20, -10)),
    "hoarse": Voice(voices.hoarse, (-20, -8), voices.TEMPO_HOARSE),
    "slowed": Voice(voices.slowed, (-8, 0), voices.TEMPO_SLOW),
    "sped_up": Voice(voices.sped_up, (-8, 0), voices.TEMPO_FAST),
    "shifted": Voice(voices.shifted, (-8, 0)),
    "quieter": Voice(voices.unchanged, (-35, -20)),
    "distant": Voice(voices.distant, (-20, -8)),
    "cafe": Voice(voices.unchanged, (-8, 0), around=cafe),
    "pumping": Voice(voices.unchanged, (-20, -5), around=pumping),
}


def build(kind: str, language: str = "en", duration: float = 120, seed: int = 0) -> Recording:
    """Build a recording of alternating normal voices and a difficult voice."""
    voice = VOICES[kind]
    rng = recordings.random_from(f"{kind} {language} {seed}")
    same, others = speakers(language, half=seed % 2, telephone=kind == "untouched")
    name = f"{kind}-{language}-{duration:g}s-{seed}"
    recording = recordings.assemble(name, _turns(voice, same, others, rng), seed, duration)
    if not recording.utterances:
        return recording
    sound = recording.samples + at_level(pink(len(recording.samples), rng), rng.uniform(*NOISE))
    if voice.around:
        sound = voice.around(sound, speech_level(recording), rng)
    return replace(recording, samples=rounded(sound))


def speakers(
    language: str, half: int, *, telephone: bool = False
) -> tuple[tuple[Clip, ...], tuple[Clip, ...]]:
    """Return one half of the clips: by the speaker of the prompts, and by other speakers."""
    others = [c for c in clips.audioeval_clips() if c.utterances[0].language == language]
    if language == "en":
        others += clips.librivox_clips()
    usable = [clip for clip in others if is_usable(clip)][half::2]
    if telephone and language == "en":
        usable.append(clips.telephone_clip())
    prompts = [clip for clip in clips.asterisk_clips(language) if is_usable(clip)]
    return tuple(prompts[half::2]), tuple(usable)


def is_usable(clip: Clip) -> bool:
    """Return whether a clip has a fitting length and no long inner pause."""
    if not MIN_CLIP <= len(clip.samples) / SAMPLING_RATE <= MAX_CLIP:
        return False
    count = len(clip.samples) // FRAME
    frames = clip.samples[: count * FRAME].reshape(count, FRAME).astype(np.float64)
    power = (frames**2).mean(axis=1)
    sounding = np.flatnonzero(power > power.max() * 10 ** (-SOUND_RANGE / 10))
    return bool(np.diff(sounding).max(initial=0) * FRAME <= MAX_INNER_PAUSE * SAMPLING_RATE)


def changed(clip: Clip, voice: Voice, dbfs: float, rng: Random) -> Clip:
    """Return a clip by another voice, at a level: the times follow the tempo."""
    sound = voice.effect(clip.samples.astype(np.float64), rng)
    utterances = tuple(
        replace(u, start=u.start / voice.tempo, end=u.end / voice.tempo) for u in clip.utterances
    )
    spoken = sound[: round(utterances[-1].end * SAMPLING_RATE)]
    return Clip(rounded(sound * 10 ** ((dbfs - level(spoken)) / 20)), utterances)


def _turns(
    voice: Voice, same: tuple[Clip, ...], others: tuple[Clip, ...], rng: Random
) -> Iterator[PausedClip]:
    """Yield the clips of normal and difficult turns by turns, each with the pause before it."""
    prompts = recordings.shuffled(same, rng)
    other_speakers = chain(rng.sample(others, len(others)), prompts)
    normal_dbfs = 0.0
    while True:
        for pause, clip in _turn(prompts, NORMAL_TURN, rng):
            normal_dbfs = level(clip.samples.astype(np.float64))
            yield pause, clip
        source = other_speakers if rng.random() < OTHER_SPEAKERS else prompts
        dbfs = normal_dbfs + rng.uniform(*voice.levels)
        speaker = rng.random()
        for pause, clip in _turn(source, DIFFICULT_TURN, rng):
            yield pause, changed(clip, voice, dbfs, recordings.random_from(f"{speaker}"))


def _turn(
    source: Iterator[Clip], seconds: tuple[float, float], rng: Random
) -> Iterator[PausedClip]:
    """Yield clips until they last long enough."""
    remaining = rng.uniform(*seconds)
    pause = rng.uniform(*PAUSE_BETWEEN_TURNS)
    while remaining > 0:
        clip = next(source)
        yield pause, clip
        remaining -= len(clip.samples) / SAMPLING_RATE
        pause = rng.uniform(*PAUSE_IN_TURN)


Builder: TypeAlias = Callable[[str, float, int], Recording]  # (language, seconds, seed)
KINDS: dict[str, Builder] = {kind: partial(build, kind) for kind in VOICES}
