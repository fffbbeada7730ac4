"""Clips of real speech with their text, from the sources of `benchmarks.speech`.

The start and end of a prompt are where its sound starts and ends: at the first and the last of
three consecutive 10 ms frames within 35 dB of its loudest frame. (The loudest frames of the prompts
are at -8 to -15 dBFS, the silence of the studio at -50 to -80.) Samples more than 50 ms outside the
sound are cut off.
"""

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import av
import numpy as np
import numpy.typing as npt

from benchmarks import speech

Samples: TypeAlias = npt.NDArray[np.int16]

SAMPLING_RATE = 16_000
FRAME = 160  # samples, 10 ms
SOUND_RANGE = 35.0  # dB below the loudest frame; softer frames are silence
SOUND_FRAMES = 3  # consecutive frames of sound; a click is shorter
MARGIN = 5 * FRAME  # samples kept on each side of the sound, for soft onsets and breath
MIN_SOUND = 0.6  # seconds; alone, "is", "for" or "new" is no fair test of words

# Other directories hold digits, letters, spelling words, or silence: no sentences.
SUBDIRECTORIES = ("dictate", "followme")
# Notes that are not spoken, and signs with several spoken forms ("*": star, asterisk, ...).
NOT_SPOKEN = re.compile(r"[\[\]<>(){}*#@]")
SPELLED = re.compile(r"\b[A-Z] [A-Z]\b")  # "N B S": one word or three
# A question mark within a word or a sentence replaces an accented letter that the text has lost.
LOST_LETTER = re.compile(r"\?\w|\w\? [a-zà-ú]|\ufffd")


@dataclass(frozen=True, slots=True)
class Utterance:
    """A text with the time when it is spoken, in seconds from the start of the recording."""

    start: float
    end: float
    text: str
    language: str


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """A stretch of real sound; the times of its utterances count from its own start."""

    samples: Samples
    utterances: tuple[Utterance, ...]


@cache
def asterisk_clips(language: str) -> tuple[Clip, ...]:
    """Return all prompts of a language whose text is spoken word for word."""
    directory, text_path = speech.asterisk(language)
    with gzip.open(text_path, "rt", encoding="utf-8-sig") as file:
        lines = [line.partition(":") for line in file if not line.startswith(";")]
    clips = []
    for name, _, text in sorted(lines):
        folder, _, _ = name.rpartition("/")
        path = directory / f"{name}.g722"
        if folder and folder not in SUBDIRECTORIES:
            continue
        if not is_verbatim(text) or not path.is_file():
            continue
        clip = trim(decode(path), text.strip(), language)
        if clip and clip.utterances[0].end - clip.utterances[0].start >= MIN_SOUND:
            clips.append(clip)
    return tuple(clips)


def is_verbatim(text: str) -> bool:
    """Return whether a text has letters, and can be spoken word for word in only one way."""
    has_letters = any(character.isalpha() for character in text)
    return has_letters and not any(
        pattern.search(text) for pattern in (NOT_SPOKEN, SPELLED, LOST_LETTER)
    )


@cache
def librivox_clips() -> tuple[Clip, ...]:
    """Return five utterances of a novel, read aloud."""
    directory = speech.librivox()
    clips = []
    for line in (directory / "transcription").read_text(encoding="utf-8").splitlines():
        text, _, name = line.removesuffix(")").rpartition("(")
        text = text.replace("<s>", "").replace("</s>", "").strip()
        if clip := trim(decode(directory / f"{name}.wav"), text, "en"):
            clips.append(clip)
    return tuple(clips)


def audioeval_clips() -> Iterator[Clip]:
    """Yield three clips in each of nine languages."""
    for path in sorted(speech.clips().glob("*/*.wav")):
        text = path.with_suffix(".txt").read_text(encoding="utf-8").strip()
        if clip := trim(decode(path), text, path.parent.name):
            yield clip


def telephone_clip() -> Clip:
    """Return 30 s of a telephone call in English, between two speakers."""
    directory = speech.telephone()
    utterances = []
    for line in (directory / "sample.stm").read_text(encoding="utf-8").splitlines():
        _, _, _, start, end, text = line.split(maxsplit=5)
        utterances.append(Utterance(float(start), float(end), text, "en"))
    return Clip(decode(directory / "sample.wav"), tuple(utterances))


def decode(path: Path) -> Samples:
    """Return the samples of a complete file, 16 kHz mono; none if the file has no sound."""
    resampler = av.AudioResampler("s16", "mono", SAMPLING_RATE)
    blocks = [np.zeros(0, np.int16)]
    with av.open(str(path), format="g722" if path.suffix == ".g722" else None) as container:
        for frame in chain(container.decode(audio=0), [None]):
            blocks += [block.to_ndarray()[0] for block in resampler.resample(frame)]
    return np.concatenate(blocks)


def trim(samples: Samples, text: str, language: str) -> Clip | None:
    """Return a clip of the sound, with MARGIN samples on each side; None if all is silent."""
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
    sound_start, sound_end = int(starts[0]) * FRAME, (int(starts[-1]) + SOUND_FRAMES) * FRAME
    clip_start, clip_end = max(sound_start - MARGIN, 0), min(sound_end + MARGIN, len(samples))
    utterance = Utterance(
        (sound_start - clip_start) / SAMPLING_RATE,
        (sound_end - clip_start) / SAMPLING_RATE,
        text,
        language,
    )
    return Clip(samples[clip_start:clip_end], (utterance,))
