"""Conversations between real voices, built with a seed, with exact turns and words.

    from benchmarks.diarization import conversations

    talk = conversations.build("three", seed=0, part="development")  # or part="test"
    talk.samples        float32, shape (n_samples,), 16 kHz
    talk.turns          reference for the diarization error rate: (start, end, speaker), in seconds
    talk.utterances     who says which text; talk.has_text tells whether all text is known
    talk.speakers       names of the speakers, in order of their first turn
    talk.write(path)    as wav; talk.rttm() and talk.stm() return the reference as text

`CLASSES` lists the classes of conversations by name. The voices are those of a set
(`benchmarks.diarization.voices`). The seed decides the voices, their levels, the
turns and the room.

A turn holds whole utterances of one voice. It lasts 0.5 to 20 s: each duration ratio is as likely
as another. Within a turn, pauses longer than 0.3 s are silence in the reference. The next speaker
starts after a gap, or before the end of the turn: then both are in the reference.

    A  [==== ====]         [=======]          pauses within utterances are kept
    B            [=========]      [====]      overlap: at most half of either turn

No utterance is used twice in a conversation. If the voices have too little to say, `build` raises
`VoiceError`: ask for less. Echoes continue after the turns of the reference.
"""

import wave
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import numpy as np

from benchmarks import clips, recordings, speech
from benchmarks.clips import SAMPLING_RATE
from benchmarks.diarization import acoustics, voices
from benchmarks.diarization.voices import Set, Sound, Utterance, Voice

LEVEL: Final = -23.0  # dBFS, of a voice's speech
LEVELS: Final = (-6.0, 6.0)  # dB, added for each voice
SHARES: Final = (0.6, 1.4)  # how readily a voice takes the next turn
PAUSE: Final = (0.1, 0.8)  # seconds between utterances of a turn
GAP: Final = (0.05, 1.5)  # seconds between turns
OVERLAP: Final = (0.2, 4.0)  # seconds by which the next turn is early, if it is
ENOUGH: Final = 1.6  # what a voice can say, relative to an equal share of the conversation


class VoiceError(ValueError):
    """The voices do not suffice for the conversation; the message says which and how far."""


class Turn(NamedTuple):
    """A stretch of speech of one speaker, in seconds."""

    start: float
    end: float
    speaker: str


class Spoken(NamedTuple):
    """An utterance in a conversation, in seconds; `text` is "" if it is unknown."""

    start: float
    end: float
    speaker: str
    text: str


@dataclass(frozen=True)
class Conversation:
    """Samples of shape (n_samples,), 16 kHz, with who speaks when."""

    name: str
    samples: Sound
    turns: tuple[Turn, ...]
    utterances: tuple[Spoken, ...]

    @property
    def duration(self) -> float:
        """The duration in seconds."""
        return len(self.samples) / SAMPLING_RATE

    @cached_property
    def speakers(self) -> tuple[str, ...]:
        """The speakers, in order of their first turn."""
        return tuple(dict.fromkeys(turn.speaker for turn in self.turns))

    @property
    def has_text(self) -> bool:
        """Whether the text of all utterances is known."""
        return all(utterance.text for utterance in self.utterances)

    def write(self, path: Path) -> Path:
        """Write the sound as wav, 16 bits; return `path`."""
        with wave.open(str(path), "wb") as file:
            recordings.set_wave_format(file)
            file.writeframes(np.clip(self.samples * 32768, -32768, 32767).astype("<i2").tobytes())
        return path

    def rttm(self) -> str:
        """Return the turns in the format of NIST's evaluations."""
        return "".join(
            f"SPEAKER {self.name} 1 {t.start:.3f} {t.end - t.start:.3f} "
            f"<NA> <NA> {t.speaker} <NA> <NA>\n"
            for t in self.turns
        )

    def stm(self) -> str:
        """Return the utterances in the format of NIST's evaluations."""
        return "".join(
            f"{self.name} 1 {u.speaker} {u.start:.3f} {u.end:.3f} {u.text}\n"
            for u in self.utterances
        )


@dataclass(frozen=True, slots=True)
class Kind:
    """A class of conversations.

    Attributes:
        count: how many speakers.
        minutes: duration unless another is asked for.
        sex: of all voices; None for any.
        one_language: whether all voices speak the same language.
        turn: seconds of a turn, from and to.
        overlap: share of the turns that start before the last one ends.
        talkative: whether those who have the most to say speak, each in proportion.
        sound: changes what a voice says (`acoustics`): (sound, room of the voice).
        around: changes the whole conversation.
    """

    count: int
    minutes: float = 5.0
    sex: str | None = None
    one_language: bool = False
    turn: tuple[float, float] = (0.5, 20.0)
    overlap: float = 0.2
    talkative: bool = False
    sound: Callable[[Sound, Sound], Sound] = acoustics.dry
    around: Callable[[Sound, Random], Sound] = acoustics.quiet


CLASSES: Final = {
    "one": Kind(1),
    "two": Kind(2),
    "two-women": Kind(2, sex="f"),
    "two-men": Kind(2, sex="m"),
    "two-english": Kind(2, one_language=True),
    "three": Kind(3),
    "four": Kind(4, minutes=10),
    "six": Kind(6, minutes=10),
    "overlap": Kind(3, overlap=0.9),
    "quick": Kind(2, turn=(0.5, 3.0)),
    "telephone-two": Kind(2, around=acoustics.telephone),
    "far-two": Kind(2, sound=acoustics.far, around=acoustics.noisy),
    "far-four": Kind(4, minutes=10, sound=acoustics.far, around=acoustics.noisy),
    "long": Kind(5, minutes=60, talkative=True),
}
SAMPLE: Final = "sample"  # 30 s of a telephone call, recorded, not built


def build(
    name: str,
    seed: int = 0,
    part: Set = "test",
    minutes: float | None = None,
    *,
    with_text: bool = False,
) -> Conversation:
    """Build a conversation: always the same for the same arguments.

    Args:
        name: of a class, or "sample", the only recorded conversation.
        seed: of all that is drawn.
        part: the set whose voices speak.
        minutes: duration; None for that of the class.
        with_text: whether only voices with written text speak.

    Raises:
        VoiceError: if the voices of the set do not suffice.
    """
    if name == SAMPLE:
        return sample()
    kind = CLASSES[name]
    rng = recordings.random_from(f"{name} {part} {seed}")
    limit = round((kind.minutes if minutes is None else minutes) * 60 * SAMPLING_RATE)
    speakers = [
        Speaker(voice, rng, talkative=kind.talkative)
        for voice in cast(kind, part, limit / SAMPLING_RATE, rng, with_text=with_text)
    ]
    turns: list[Turn] = []
    spoken: list[Spoken] = []
    mixed = np.zeros(limit, np.float32)
    for start, speaker, utterance in _schedule(kind, speakers, limit, rng):
        sound = kind.sound(utterance.samples * speaker.gain, speaker.room)[: limit - start]
        mixed[start : start + len(sound)] += sound
        first, person = start / SAMPLING_RATE, speaker.voice.person
        spoken.append(Spoken(first, first + utterance.duration, person, utterance.text))
        for begin, end in utterance.spans:
            turns.append(Turn(first + begin / SAMPLING_RATE, first + end / SAMPLING_RATE, person))
    samples = np.clip(kind.around(mixed, rng), -1, 1).astype(np.float32)
    return Conversation(
        f"{name}-{part}-{limit / SAMPLING_RATE:g}s-{seed}",
        samples,
        tuple(sorted(turns)),
        tuple(sorted(spoken)),
    )


def sample() -> Conversation:
    """Return a recorded telephone call: 30 s, two men, English."""
    clip = clips.telephone_clip()
    directory = speech.telephone()
    lines = [line.split() for line in (directory / "sample.stm").read_text("utf-8").splitlines()]
    spoken = tuple(Spoken(float(x[3]), float(x[4]), x[2], " ".join(x[5:])) for x in lines)
    lines = [line.split() for line in (directory / "sample.rttm").read_text("utf-8").splitlines()]
    turns = (Turn(float(x[3]), float(x[3]) + float(x[4]), x[7]) for x in lines)
    samples = (clip.samples / 32768).astype(np.float32)
    return Conversation(SAMPLE, samples, tuple(sorted(turns)), spoken)


def cast(
    kind: Kind, part: Set, duration: float, rng: Random, *, with_text: bool = False
) -> list[Voice]:
    """Draw the voices of a conversation: different persons, with enough to say."""
    fitting = [
        voice
        for voice in voices.of_set(part)
        if (kind.sex is None or voice.sex == kind.sex)
        and (not kind.one_language or voice.language == "en")
        and (voice.has_text or not with_text)
    ]
    enough = 0.0 if kind.talkative else ENOUGH * duration / kind.count
    candidates = rng.sample(fitting, len(fitting))
    if kind.talkative:
        candidates.sort(key=lambda voice: voices.seconds(voice.name), reverse=True)
    drawn: list[Voice] = []
    for voice in candidates:
        known = voice.person in {other.person for other in drawn}
        if not known and voices.seconds(voice.name) >= enough:
            drawn.append(voice)
        if len(drawn) == kind.count:
            return drawn
    raise VoiceError(
        f"only {len(drawn)} of {kind.count} voices of the {part} set have enough to say in "
        f"{duration / 60:g} minutes; ask for a shorter conversation"
    )


class Speaker:
    """A voice in a conversation: its level, its place in the room, and its remaining utterances."""

    def __init__(self, voice: Voice, rng: Random, *, talkative: bool) -> None:
        self.voice = voice
        pool = voices.pool(voice.name)
        self.left = rng.sample(pool, len(pool))
        power = np.mean(np.concatenate([each.samples for each in pool]).astype(np.float64) ** 2)
        decibels = LEVEL + rng.uniform(*LEVELS) - 10 * np.log10(power)
        self.gain = np.float32(10 ** (decibels / 20))
        self.share = voices.seconds(voice.name) if talkative else rng.uniform(*SHARES)
        self.room = acoustics.room(rng)

    @property
    def is_silent(self) -> bool:
        """Whether the voice has said nothing yet."""
        return len(self.left) == len(voices.pool(self.voice.name))

    @property
    def weight(self) -> float:
        """How readily the voice takes the next turn: less and less, so that it does not run dry."""
        left = sum(each.duration for each in self.left)
        return self.share * left / voices.seconds(self.voice.name)

    def say(self, shortest: float, longest: float) -> list[Utterance]:
        """Take whole utterances for a turn of `shortest` to `longest` seconds, if possible.

        Raises:
            VoiceError: if no utterance is left.
        """
        said: list[Utterance] = []
        remaining = longest
        for candidate in list(self.left):
            if candidate.duration <= remaining:
                said.append(candidate)
                remaining -= candidate.duration + PAUSE[1]
            if longest - remaining >= shortest or remaining < voices.MIN_SPEECH:
                break
        if not said and self.left:
            said = [min(self.left, key=lambda each: each.duration)]
        if not said:
            raise VoiceError(f"{self.voice.name} has nothing left to say; ask for fewer minutes")
        taken = {id(each) for each in said}
        self.left = [each for each in self.left if id(each) not in taken]
        return said


def _schedule(
    kind: Kind, speakers: Sequence[Speaker], limit: int, rng: Random
) -> Iterator[tuple[int, Speaker, Utterance]]:
    """Yield utterances with their speaker and first sample, until `limit`.

    Everybody speaks once before anybody speaks twice.
    """
    turn_start, turn_end = 0, 0
    speaker: Speaker | None = None
    while True:
        others = [each for each in speakers if each is not speaker] or list(speakers)
        silent = [each for each in others if each.is_silent]
        others = silent or others
        speaker = rng.choices(others, [each.weight + 1e-9 for each in others])[0]
        turn = _turn(kind, speaker, rng)
        length = turn[-1][0] + len(turn[-1][1].samples)
        start = turn_end + round(rng.uniform(*GAP) * SAMPLING_RATE)
        if len(speakers) > 1 and turn_end and rng.random() < kind.overlap:
            early = round(rng.uniform(*OVERLAP) * SAMPLING_RATE)
            start = turn_end - min(early, (turn_end - turn_start) // 2, length // 2)
        if start + length > limit:
            return
        for offset, utterance in turn:
            yield start + offset, speaker, utterance
        turn_start, turn_end = start, start + length


def _turn(kind: Kind, speaker: Speaker, rng: Random) -> list[tuple[int, Utterance]]:
    """Return the utterances of a turn, each with its first sample counted from the turn's."""
    low, high = kind.turn
    wanted = low * (high / low) ** rng.random()
    turn: list[tuple[int, Utterance]] = []
    offset = 0
    for utterance in speaker.say(0.7 * wanted, max(1.2 * wanted, 1.0)):
        turn.append((offset, utterance))
        offset += len(utterance.samples) + round(rng.uniform(*PAUSE) * SAMPLING_RATE)
    return turn
