"""Voices for conversations: real recordings, each voice one person, its utterances cut out exactly.

    development   asterisk-prompt-it-menardi-wav   Italian   one woman, 14 minutes
                  asterisk-prompt-fr-armelle       French    one woman, 9 minutes
                  asterisk-prompt-es-co            Spanish   one woman, 8 minutes
                  flight-of-the-amazon-queen       English   seven actors, 2 to 20 minutes each
    test          asterisk-core-sounds-XX          four persons, five languages, exact text;
                                                   15 minutes each
                  flight-of-the-amazon-queen       English   four other actors, 4 to 7 minutes each
                  drascula                         English   three roles, 2 to 19 minutes each

All are Debian packages; `benchmarks.speech` fetches them. No person is in both sets: thresholds are
set with one set and tested with the other. Asterisk's English and Spanish prompts are by the same
woman. The actors (`games`) speak as in a film, not as on the telephone or in a meeting.

    pool("asterisk-en")     her utterances, in a fixed order
    of_set("test")          the voices of a set
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from benchmarks import clips, speech
from benchmarks.clips import FRAME, SAMPLING_RATE
from benchmarks.diarization import games

Sound: TypeAlias = npt.NDArray[np.float32]
Set: TypeAlias = Literal["development", "test"]
Span: TypeAlias = tuple[int, int]  # samples

WITH_TEXT: Final = "asterisk-"  # start of the names of these voices
MAX_PAUSE: Final = 0.3  # seconds; a longer pause within an utterance is silence in the reference
MIN_SPEECH, MAX_LENGTH = 0.5, 20.0  # seconds of an utterance
SOUND_RANGE: Final = 35.0  # dB below the loudest frame: softer is silence
ABOVE_NOISE: Final = 8.0  # dB above the softest tenth of the frames
MIN_RUN: Final = 3  # frames of 10 ms; a click is shorter


@dataclass(frozen=True, slots=True, eq=False)
class Utterance:
    """An utterance of a voice.

    Attributes:
        samples: shape (n_samples,), 16 kHz, full scale is 1; they start and end with speech.
        spans: the speech, in samples; the pauses between spans last longer than MAX_PAUSE.
        text: the exact words; "" if there is no written text.
    """

    samples: Sound
    spans: tuple[Span, ...]
    text: str

    @property
    def duration(self) -> float:
        """The duration in seconds, with its pauses."""
        return len(self.samples) / SAMPLING_RATE


@dataclass(frozen=True, slots=True)
class Voice:
    """A voice. Two voices with the same `person` are not two speakers."""

    name: str
    set: Set
    language: str
    sex: Literal["f", "m"]
    person: str

    @property
    def has_text(self) -> bool:
        """Whether the words of the utterances are known."""
        return self.name.startswith(WITH_TEXT)


def _listed() -> dict[str, Voice]:
    """Return all voices by name."""
    asterisk = {"en": "Allison", "es": "Allison", "fr": "June", "it": "Carlo", "ru": "IVR Voice"}
    voices = [
        Voice(WITH_TEXT + language, "test", language, "m" if language == "it" else "f", person)
        for language, person in asterisk.items()
    ]
    voices += [
        Voice(name, "development", language, "f", name)
        for name, language in (("menardi", "it"), ("armelle", "fr"), ("colombia", "es"))
    ]
    voices += [
        Voice(role.name, role.part, "en", role.sex, role.person)
        for role in (*games.DRASCULA, *games.AMAZON)
    ]
    return {voice.name: voice for voice in voices}


VOICES: Final = _listed()


def of_set(name: Set) -> tuple[Voice, ...]:
    """Return the voices of a set."""
    return tuple(voice for voice in VOICES.values() if voice.set == name)


@cache
def pool(name: str) -> tuple[Utterance, ...]:
    """Return the utterances of a voice, none of them twice, always in the same order."""
    made = (utterance(samples, text) for samples, text in _recorded(name))
    usable = [u for u in made if u is not None and u.duration <= MAX_LENGTH]
    return tuple({u.samples.tobytes(): u for u in usable}.values())


def seconds(name: str) -> float:
    """Return how much a voice says."""
    return sum(each.duration for each in pool(name))


def utterance(samples: npt.NDArray[np.int16], text: str = "") -> Utterance | None:
    """Return a recording from its first to its last sound; None if there is hardly any."""
    spans = speech_spans(samples)
    if sum(end - start for start, end in spans) < MIN_SPEECH * SAMPLING_RATE:
        return None
    first, last = spans[0][0], spans[-1][1]
    return Utterance(
        (samples[first:last] / 32768).astype(np.float32),
        tuple((start - first, end - first) for start, end in spans),
        text,
    )


def speech_spans(samples: npt.NDArray[np.int16]) -> list[Span]:
    """Return where there is sound, in samples; pauses up to MAX_PAUSE belong to it."""
    count = len(samples) // FRAME
    if count < MIN_RUN:
        return []
    frames = samples[: count * FRAME].reshape(count, FRAME).astype(np.float64)
    decibels = 10 * np.log10((frames**2).mean(axis=1) + 1)
    # Digital silence is no noise: only frames with some sound tell how loud the noise is.
    audible = decibels[decibels > 1]
    if not audible.size:
        return []
    noise = float(np.quantile(audible, 0.1)) + ABOVE_NOISE
    threshold = max(decibels.max() - SOUND_RANGE, min(noise, decibels.max() - SOUND_RANGE / 2))
    loud = np.concatenate([[False], decibels > threshold, [False]])
    edges = np.flatnonzero(loud[1:] != loud[:-1])
    spans: list[Span] = []
    for start, end in zip(edges[::2] * FRAME, edges[1::2] * FRAME, strict=True):
        if end - start < MIN_RUN * FRAME:
            continue
        if spans and start - spans[-1][1] <= MAX_PAUSE * SAMPLING_RATE:
            spans[-1] = (spans[-1][0], int(end))
        else:
            spans.append((int(start), int(end)))
    return spans


def _recorded(name: str) -> list[tuple[npt.NDArray[np.int16], str]]:
    """Return the recordings of a voice, each with its text."""
    if name.startswith(WITH_TEXT):
        found = clips.asterisk_clips(name.removeprefix(WITH_TEXT))
        return [(clip.samples, clip.utterances[0].text) for clip in found]
    if name in PROMPTS:
        return [(games.decode(p.read_bytes(), p.suffix[1:]), "") for p in _prompts(name)]
    return [(samples, "") for samples in games.recordings(name)]


MIN_FILE: Final = 900  # bytes: half a second of GSM
NO_SPEECH: Final = frozenset({"tt-monkeys"})  # prompts with the sound of animals
SOUNDS: Final = "usr/share/asterisk/sounds"
PROMPTS: Final = {  # package, and one of its prompts
    "menardi": ("asterisk-prompt-it-menardi-wav", f"{SOUNDS}/it_IT_f_Menardi/conf-muted.wav"),
    "armelle": ("asterisk-prompt-fr-armelle", f"{SOUNDS}/fr/conf-usermenu.gsm"),
    "colombia": ("asterisk-prompt-es-co", f"{SOUNDS}/es/conf-usermenu.gsm"),
}


def _prompts(name: str) -> list[Path]:
    """Return the prompts of a package that are not digits or letters; some files are empty."""
    package, pattern = PROMPTS[name]
    prompt = speech.debian(package, pattern)
    paths = sorted(prompt.parent.glob(f"*{prompt.suffix}"))
    return [path for path in paths if path.stat().st_size > MIN_FILE and path.stem not in NO_SPEECH]
