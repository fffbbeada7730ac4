"""Recordings of any length with exact truth, built from real speech: the same for the same seed.

Utterances of `benchmarks.speech` are laid one after the other, with pauses of known length:

    ....[=== utterance ===].........[= utterance =]....[===== utterance =====]......
        start           end  pause

An utterance's start and end are where its own sound starts and ends: the first and the last of
three 10 ms frames in a row within 35 dB of its loudest frame. (The prompts' loudest frames lie at
-8 to -15 dBFS and the studio's silence at -50 to -80.) What lies outside that, but for 50 ms on
either side, is cut off. Pauses hold faint noise, -70 dBFS, since no microphone gives zeros.

Everything drawn comes from `random.Random`, whose sequences do not change between versions.
"""

import gzip
import re
import wave
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from random import Random
from typing import TypeAlias, cast

import av
import numpy as np
import numpy.typing as npt

from benchmarks import speech

Samples: TypeAlias = npt.NDArray[np.int16]

SAMPLING_RATE = 16_000
FRAME = 160  # samples, 10 ms
SOUND_RANGE = 35.0  # dB below the loudest frame that still is the utterance's sound
SOUND_FRAMES = 3  # frames in a row: a click is shorter
MARGIN = 5 * FRAME  # samples kept on either side of the sound: soft onsets and breath
SHORTEST = 0.6  # seconds of sound: "is", "for" and "new" alone are no fair test of words

# Lone digits, letters and spelling words are no sentences; silence/ is what it says.
SUBDIRECTORIES = ("dictate", "followme")
# Notes that nobody speaks, and signs that are spoken differently ("*": star, asterisk, ...).
NOT_SPOKEN = re.compile(r"[\[\]<>(){}*#@]")
SPELLED = re.compile(r"\b[A-Z] [A-Z]\b")  # "N B S": is it one word or three?
# A question mark within a word or a sentence is an accented letter that the text has lost.
LOST_LETTER = re.compile(r"\?\w|\w\? [a-zà-ú]|\ufffd")


@dataclass(frozen=True, slots=True)
class Utterance:
    """What was said, and when: seconds from the start of the recording."""

    start: float
    end: float
    text: str
    language: str


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """A built recording: samples of shape (n_samples,), 16 kHz, and its truth in order."""

    name: str
    samples: Samples
    utterances: tuple[Utterance, ...]

    @property
    def duration(self) -> float:
        """In seconds."""
        return len(self.samples) / SAMPLING_RATE

    @property
    def text(self) -> str:
        """All that is said."""
        return " ".join(utterance.text for utterance in self.utterances)

    def blocks(self) -> tuple[Utterance, ...]:
        """Neighbours in one language as one: they tile the recording, and meet mid-pause."""
        blocks: list[Utterance] = []
        for spoken in self.utterances:
            if blocks and blocks[-1].language == spoken.language:
                text = f"{blocks[-1].text} {spoken.text}"
                blocks[-1] = replace(blocks[-1], end=spoken.end, text=text)
            else:
                blocks.append(spoken)
        joints = [(one.end + other.start) / 2 for one, other in pairwise(blocks)]
        ends = [0.0, *joints, self.duration]
        return tuple(
            replace(block, start=start, end=end)
            for block, (start, end) in zip(blocks, pairwise(ends), strict=True)
        )


def gaps(utterances: Iterable[Utterance], duration: float) -> list[tuple[float, float]]:
    """Where nobody speaks: from the start, between utterances (in order) and to the end."""
    found = []
    silent_since = 0.0
    for spoken in utterances:
        if spoken.start > silent_since:
            found.append((silent_since, min(spoken.start, duration)))
        silent_since = max(silent_since, spoken.end)
    return [*found, (silent_since, duration)] if duration > silent_since else found


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """A stretch of real sound; its utterances count from its own start."""

    samples: Samples
    utterances: tuple[Utterance, ...]


Placed: TypeAlias = tuple[float, Clip]  # seconds of pause before it, and the clip


def prompts(
    language: str = "en",
    duration: float = 600,
    seed: int = 0,
    pauses: tuple[float, float] = (0.3, 2.0),
) -> Recording:
    """Telephone prompts by one speaker, of a word to 70 s; none comes twice before all came."""
    rng = random_from(seed)
    placed = _with_pauses(shuffled(asterisk_clips(language), rng), rng, pauses)
    return record(f"prompts-{language}-{duration:g}s-{seed}", placed, seed, duration)


def dense(language: str = "en", duration: float = 600, seed: int = 0) -> Recording:
    """Prompts with the short pauses of somebody who reads aloud."""
    recording = prompts(language, duration, seed, pauses=(0.15, 0.5))
    return replace(recording, name=f"dense-{language}-{duration:g}s-{seed}")


def read_speech(duration: float = 600, seed: int = 0) -> Recording:
    """A novel read aloud (LibriVox): five utterances over and over, in ever new order."""
    rng = random_from(seed)
    placed = _with_pauses(shuffled(_librivox(), rng), rng, (0.2, 1.0))
    return record(f"read-{duration:g}s-{seed}", placed, seed, duration)


def switching(
    languages: tuple[str, ...] = speech.LANGUAGES,
    block: tuple[float, float] = (40, 90),
    duration: float = 600,
    seed: int = 0,
    pauses: tuple[float, float] = (0.3, 2.0),
) -> Recording:
    """Prompts that change language after every `block` of seconds, the languages in turn."""
    rng = random_from(seed)
    sources = [shuffled(asterisk_clips(language), rng) for language in languages]

    def turns() -> Iterator[Placed]:
        while True:
            for source in sources:
                left = rng.uniform(*block)
                while left > 0:
                    pause, clip = rng.uniform(*pauses), next(source)
                    left -= pause + len(clip.samples) / SAMPLING_RATE
                    yield pause, clip

    return record(f"switching-{'-'.join(languages)}-{duration:g}s-{seed}", turns(), seed, duration)


def demo() -> Recording:
    """Nine languages, three clips in each, then 30 s of a telephone call in English."""
    placed: list[Placed] = []
    language = ""
    for clip in audioeval():
        placed.append((1.0 if clip.utterances[0].language == language else 3.0, clip))
        language = clip.utterances[0].language
    return record("demo", [*placed, (3.0, _telephone())], seed=0)


def long_wav(
    path: Path, hours: float, seed: int = 0, language: str = "en"
) -> tuple[Utterance, ...]:
    """Write prompts of any length as wav, holding one prompt at a time; returns the truth."""
    rng = random_from(seed)
    placed = _with_pauses(shuffled(asterisk_clips(language), rng), rng, (0.3, 2.0))
    spoken: list[Utterance] = []
    with wave.open(str(path), "wb") as file:
        _wave_header(file)
        for samples, utterances in _lay(placed, random_from(seed), hours * 3600):
            file.writeframesraw(samples.astype("<i2").tobytes())
            spoken += utterances
    return tuple(spoken)


def write(recording: Recording, path: Path) -> Path:
    """Write a recording in the format that the file's suffix names; returns `path`."""
    if path.suffix == ".wav":
        with wave.open(str(path), "wb") as file:
            _wave_header(file)
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


def _wave_header(file: wave.Wave_write) -> None:
    file.setnchannels(1)
    file.setsampwidth(2)
    file.setframerate(SAMPLING_RATE)


def random_from(seed: int | str) -> Random:
    """The source of all that is drawn: one sequence for each seed, in every version of Python."""
    return Random(seed)  # noqa: S311 - this draws recordings, not secrets


def shuffled(clips: tuple[Clip, ...], rng: Random) -> Iterator[Clip]:
    """All the clips in random order, and again, without end."""
    while True:
        yield from rng.sample(clips, len(clips))


def _with_pauses(
    clips: Iterable[Clip], rng: Random, pauses: tuple[float, float]
) -> Iterator[Placed]:
    return ((rng.uniform(*pauses), clip) for clip in clips)


def record(
    name: str, placed: Iterable[Placed], seed: int, duration: float | None = None
) -> Recording:
    """Clips with their pauses as a recording of exactly `duration`, or as long as they take."""
    pieces = list(_lay(placed, random_from(seed), duration))
    return Recording(
        name,
        np.concatenate([samples for samples, _ in pieces]),
        tuple(chain.from_iterable(utterances for _, utterances in pieces)),
    )


def _lay(
    placed: Iterable[Placed], noise: Random, duration: float | None
) -> Iterator[tuple[Samples, tuple[Utterance, ...]]]:
    """Clips with their pauses, in pieces that follow each other, and what each piece says.

    Ends at `duration` exactly, before the first clip that would go beyond; without a duration a
    second after the last. A pause runs from sound to sound, the clips' margins included.
    """
    limit = None if duration is None else round(duration * SAMPLING_RATE)
    position = 0  # samples laid so far
    said = 0  # where the last sound ended
    for pause, clip in placed:
        first, last = clip.utterances[0].start, clip.utterances[-1].end
        begin = max(said + round((pause - first) * SAMPLING_RATE), position)
        if limit is not None and begin + len(clip.samples) > limit:
            break
        silence = np.zeros(begin - position, np.int16)
        shift = begin / SAMPLING_RATE
        yield (
            _noisy(np.concatenate([silence, clip.samples]), noise),
            tuple(
                replace(spoken, start=spoken.start + shift, end=spoken.end + shift)
                for spoken in clip.utterances
            ),
        )
        position = begin + len(clip.samples)
        said = begin + round(last * SAMPLING_RATE)
    rest = SAMPLING_RATE if limit is None else limit - position
    yield _noisy(np.zeros(rest, np.int16), noise), ()


def _noisy(samples: Samples, rng: Random) -> Samples:
    """Add white noise of -70 dBFS: uniform within 18 of 32,768."""
    drawn = np.frombuffer(rng.randbytes(len(samples)), np.uint8)
    noise = ((drawn.astype(np.int32) * 37) >> 8) - 18
    return np.clip(samples + noise, -32768, 32767).astype(np.int16)


@cache
def asterisk_clips(language: str) -> tuple[Clip, ...]:
    """All prompts of a language whose text is what is spoken, word for word."""
    directory, text = speech.asterisk(language)
    with gzip.open(text, "rt", encoding="utf-8-sig") as file:
        lines = [line.partition(":") for line in file if not line.startswith(";")]
    clips = []
    for name, _, said in sorted(lines):
        folder, _, _ = name.rpartition("/")
        path = directory / f"{name}.g722"
        if (folder and folder not in SUBDIRECTORIES) or not _fair(said) or not path.is_file():
            continue
        clip = _trim(decode(path), said.strip(), language)
        if clip and clip.utterances[0].end - clip.utterances[0].start >= SHORTEST:
            clips.append(clip)
    return tuple(clips)


def _fair(text: str) -> bool:
    """Whether a text is what is spoken, word for word."""
    spoken = any(character.isalpha() for character in text)
    return spoken and not any(flaw.search(text) for flaw in (NOT_SPOKEN, SPELLED, LOST_LETTER))


@cache
def _librivox() -> tuple[Clip, ...]:
    directory = speech.librivox()
    clips = []
    for line in (directory / "transcription").read_text(encoding="utf-8").splitlines():
        text, _, name = line.removesuffix(")").rpartition("(")
        said = text.replace("<s>", "").replace("</s>", "").strip()
        if clip := _trim(decode(directory / f"{name}.wav"), said, "en"):
            clips.append(clip)
    return tuple(clips)


def audioeval() -> Iterator[Clip]:
    """Three clips in each of nine languages."""
    for path in sorted(speech.clips().glob("*/*.wav")):
        text = path.with_suffix(".txt").read_text(encoding="utf-8").strip()
        if clip := _trim(decode(path), text, path.parent.name):
            yield clip


def _telephone() -> Clip:
    directory = speech.telephone()
    utterances = []
    for line in (directory / "sample.stm").read_text(encoding="utf-8").splitlines():
        _, _, _, start, end, text = line.split(maxsplit=5)
        utterances.append(Utterance(float(start), float(end), text, "en"))
    return Clip(decode(directory / "sample.wav"), tuple(utterances))


def decode(path: Path) -> Samples:
    """A whole file as 16 kHz mono; empty if it holds no sound."""
    resampler = av.AudioResampler("s16", "mono", SAMPLING_RATE)
    blocks = [np.zeros(0, np.int16)]
    with av.open(str(path), format="g722" if path.suffix == ".g722" else None) as container:
        for frame in chain(container.decode(audio=0), [None]):
            blocks += [block.to_ndarray()[0] for block in resampler.resample(frame)]
    return np.concatenate(blocks)


def _trim(samples: Samples, text: str, language: str) -> Clip | None:
    """The clip from where its sound starts to where it ends, with a margin; None if silent."""
    count = len(samples) // FRAME
    frames = samples[: count * FRAME].reshape(count, FRAME).astype(np.float64)
    power = (frames**2).mean(axis=1)
    if count < SOUND_FRAMES or power.max() == 0:
        return None
    loud = power > power.max() * 10 ** (-SOUND_RANGE / 10)
    runs = np.convolve(loud, np.ones(SOUND_FRAMES), "valid") == SOUND_FRAMES
    if not runs.any():
        return None
    starts = np.flatnonzero(runs)
    begin, end = int(starts[0]) * FRAME, (int(starts[-1]) + SOUND_FRAMES) * FRAME
    first, last = max(begin - MARGIN, 0), min(end + MARGIN, len(samples))
    spoken = Utterance(
        (begin - first) / SAMPLING_RATE, (end - first) / SAMPLING_RATE, text, language
    )
    return Clip(samples[first:last], (spoken,))
