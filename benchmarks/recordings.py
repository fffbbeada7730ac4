"""Recordings of any length with exact truth, built from real speech: the same for the same seed.

The clips of `benchmarks.clips` follow each other with pauses of known length:

    ....[=== utterance ===].........[= utterance =]....[===== utterance =====]......
        start           end  pause

Pauses hold faint noise, -70 dBFS, because no microphone records zeros. All random numbers come from
`random.Random`, whose sequences do not change between versions of Python.
"""

import wave
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from random import Random
from typing import TypeAlias, cast

import av
import numpy as np

from benchmarks import clips, speech
from benchmarks.clips import SAMPLING_RATE, Clip, Samples, Utterance

__all__ = [
    "SAMPLING_RATE",
    "PausedClip",
    "Recording",
    "Samples",
    "Utterance",
    "assemble",
    "dense",
    "gaps",
    "joined",
    "long_wav",
    "nine_languages",
    "prompts",
    "random_from",
    "read_speech",
    "set_wave_format",
    "shuffled",
    "switching",
    "write",
]


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """A built recording: samples of shape (n_samples,), 16 kHz, and its utterances in order."""

    name: str
    samples: Samples
    utterances: tuple[Utterance, ...]

    @property
    def duration(self) -> float:
        """The duration in seconds."""
        return len(self.samples) / SAMPLING_RATE

    @property
    def language(self) -> str:
        """The language of the first utterance; English, for the systems' sake, without speech."""
        return self.utterances[0].language if self.utterances else "en"

    @property
    def text(self) -> str:
        """The text of all utterances."""
        return " ".join(utterance.text for utterance in self.utterances)

    def blocks(self) -> tuple[Utterance, ...]:
        """Return consecutive utterances of one language as one utterance each.

        The blocks cover the whole recording, and meet in the middle of a pause.
        """
        blocks: list[Utterance] = []
        for utterance in self.utterances:
            if blocks and blocks[-1].language == utterance.language:
                text = f"{blocks[-1].text} {utterance.text}"
                blocks[-1] = replace(blocks[-1], end=utterance.end, text=text)
            else:
                blocks.append(utterance)
        borders = [(block.end + following.start) / 2 for block, following in pairwise(blocks)]
        borders = [0.0, *borders, self.duration]
        return tuple(
            replace(block, start=start, end=end)
            for block, (start, end) in zip(blocks, pairwise(borders), strict=True)
        )


def gaps(utterances: Iterable[Utterance], duration: float) -> list[tuple[float, float]]:
    """Return the ranges without speech, in seconds: before, between and after the utterances."""
    ranges = []
    silent_since = 0.0
    for utterance in utterances:
        if utterance.start > silent_since:
            ranges.append((silent_since, min(utterance.start, duration)))
        silent_since = max(silent_since, utterance.end)
    return [*ranges, (silent_since, duration)] if duration > silent_since else ranges


PausedClip: TypeAlias = tuple[float, Clip]  # seconds of pause before the clip, and the clip


def prompts(
    language: str = "en",
    duration: float = 600,
    seed: int = 0,
    pauses: tuple[float, float] = (0.3, 2.0),
) -> Recording:
    """Build a recording of telephone prompts, by one speaker, from one word to 70 s long.

    No prompt is repeated before all prompts have been used.
    """
    rng = random_from(seed)
    paused = _with_pauses(shuffled(clips.asterisk_clips(language), rng), rng, pauses)
    return assemble(f"prompts-{language}-{duration:g}s-{seed}", paused, seed, duration)


def dense(language: str = "en", duration: float = 600, seed: int = 0) -> Recording:
    """Build a recording of prompts with short pauses, as in reading aloud."""
    recording = prompts(language, duration, seed, pauses=(0.15, 0.5))
    return replace(recording, name=f"dense-{language}-{duration:g}s-{seed}")


def read_speech(duration: float = 600, seed: int = 0) -> Recording:
    """Build a recording of a novel read aloud (LibriVox): five utterances in changing order."""
    rng = random_from(seed)
    paused = _with_pauses(shuffled(clips.librivox_clips(), rng), rng, (0.2, 1.0))
    return assemble(f"read-{duration:g}s-{seed}", paused, seed, duration)


def switching(
    languages: tuple[str, ...] = speech.LANGUAGES,
    block: tuple[float, float] = (40, 90),
    duration: float = 600,
    seed: int = 0,
    pauses: tuple[float, float] = (0.3, 2.0),
) -> Recording:
    """Build a recording of prompts whose language changes after every `block` of seconds.

    The languages take turns; the length of each block is drawn from the range `block`.
    """
    rng = random_from(seed)
    sources = [shuffled(clips.asterisk_clips(language), rng) for language in languages]

    def paused_clips() -> Iterator[PausedClip]:
        while True:
            for source in sources:
                remaining = rng.uniform(*block)
                while remaining > 0:
                    pause, clip = rng.uniform(*pauses), next(source)
                    remaining -= pause + len(clip.samples) / SAMPLING_RATE
                    yield pause, clip

    name = f"switching-{'-'.join(languages)}-{duration:g}s-{seed}"
    return assemble(name, paused_clips(), seed, duration)


def nine_languages() -> Recording:
    """Build a recording of three clips in each of nine languages, and 30 s of a call in English."""
    paused: list[PausedClip] = []
    language = ""
    for clip in clips.audioeval_clips():
        paused.append((1.0 if clip.utterances[0].language == language else 3.0, clip))
        language = clip.utterances[0].language
    return assemble("nine-languages", [*paused, (3.0, clips.telephone_clip())], seed=0)


def joined(name: str, parts: Iterable[Recording]) -> Recording:
    """Return recordings as one recording, each part directly after the part before."""
    samples: list[Samples] = []
    utterances: list[Utterance] = []
    length = 0
    for part in parts:
        shift = length / SAMPLING_RATE
        samples.append(part.samples)
        utterances += [
            replace(utterance, start=utterance.start + shift, end=utterance.end + shift)
            for utterance in part.utterances
        ]
        length += len(part.samples)
    return Recording(name, np.concatenate(samples), tuple(utterances))


def long_wav(
    path: Path, hours: float, seed: int = 0, language: str = "en"
) -> tuple[Utterance, ...]:
    """Write prompts of any length as wav, with one prompt in memory at a time; return the truth."""
    rng = random_from(seed)
    paused = _with_pauses(shuffled(clips.asterisk_clips(language), rng), rng, (0.3, 2.0))
    truth: list[Utterance] = []
    with wave.open(str(path), "wb") as file:
        set_wave_format(file)
        for samples, utterances in _lay_out(paused, random_from(seed), hours * 3600):
            file.writeframesraw(samples.astype("<i2").tobytes())
            truth += utterances
    return tuple(truth)


def write(recording: Recording, path: Path) -> Path:
    """Write a recording in the format of the file's suffix; return `path`."""
    if path.suffix == ".wav":
        with wave.open(str(path), "wb") as file:
            set_wave_format(file)
            file.writeframes(recording.samples.astype("<i2").tobytes())
        return path
    with av.open(str(path), "w") as container:
        opus = "libopus" if path.suffix in (".ogg", ".webm") else None  # not FFmpeg's own opus
        codec = opus or container.default_audio_codec
        stream = container.add_stream(codec, rate=SAMPLING_RATE, layout="mono")
        stream = cast("av.AudioStream", stream)
        for start in range(0, len(recording.samples), SAMPLING_RATE):
            second = recording.samples[None, start : start + SAMPLING_RATE]
            frame = av.AudioFrame.from_ndarray(second, format="s16", layout="mono")
            frame.sample_rate, frame.pts = SAMPLING_RATE, start
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def set_wave_format(file: wave.Wave_write) -> None:
    """Set the format of a wav file: 16 kHz, mono, 16 bits."""
    file.setnchannels(1)
    file.setsampwidth(2)
    file.setframerate(SAMPLING_RATE)


def random_from(seed: int | str) -> Random:
    """Return a random generator: one sequence for each seed, in every version of Python."""
    return Random(seed)  # noqa: S311 - recordings need no cryptographic randomness


def shuffled(source: tuple[Clip, ...], rng: Random) -> Iterator[Clip]:
    """Yield all clips in random order, then again in another order, without end."""
    while True:
        yield from rng.sample(source, len(source))


def _with_pauses(
    source: Iterable[Clip], rng: Random, pauses: tuple[float, float]
) -> Iterator[PausedClip]:
    return ((rng.uniform(*pauses), clip) for clip in source)


def assemble(
    name: str, paused: Iterable[PausedClip], seed: int, duration: float | None = None
) -> Recording:
    """Return clips and their pauses as a recording.

    Args:
        name: of the recording.
        paused: clips, each with the pause before it.
        seed: of the noise in the pauses.
        duration: exact duration in seconds; None for the duration of all clips.
    """
    parts = list(_lay_out(paused, random_from(seed), duration))
    return Recording(
        name,
        np.concatenate([samples for samples, _ in parts]),
        tuple(chain.from_iterable(utterances for _, utterances in parts)),
    )


def _lay_out(
    paused: Iterable[PausedClip], noise: Random, duration: float | None
) -> Iterator[tuple[Samples, tuple[Utterance, ...]]]:
    """Yield consecutive parts of a recording: a pause and a clip, with the clip's utterances.

    The recording ends exactly at `duration`, before the first clip that would end later. Without a
    duration, it ends one second after the last clip. A pause lasts from the end of one sound to the
    start of the next sound, so it includes the margins of the clips.
    """
    limit = None if duration is None else round(duration * SAMPLING_RATE)
    position = 0  # samples yielded so far
    sound_end = 0  # sample at which the last sound ended
    for pause, clip in paused:
        first, last = clip.utterances[0].start, clip.utterances[-1].end
        start = max(sound_end + round((pause - first) * SAMPLING_RATE), position)
        if limit is not None and start + len(clip.samples) > limit:
            break
        silence = np.zeros(start - position, np.int16)
        shift = start / SAMPLING_RATE
        yield (
            _add_noise(np.concatenate([silence, clip.samples]), noise),
            tuple(
                replace(utterance, start=utterance.start + shift, end=utterance.end + shift)
                for utterance in clip.utterances
            ),
        )
        position = start + len(clip.samples)
        sound_end = start + round(last * SAMPLING_RATE)
    remaining = SAMPLING_RATE if limit is None else limit - position
    yield _add_noise(np.zeros(remaining, np.int16), noise), ()


def _add_noise(samples: Samples, rng: Random) -> Samples:
    """Add white noise of -70 dBFS: uniform from -18 to 18, where full scale is 32,768."""
    drawn = np.frombuffer(rng.randbytes(len(samples)), np.uint8)
    noise = ((drawn.astype(np.int32) * 37) >> 8) - 18
    return np.clip(samples + noise, -32768, 32767).astype(np.int16)
