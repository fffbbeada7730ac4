"""The options of the diarization."""

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args, runtime_checkable

from whisperbatch.errors import OptionError
from whisperbatch.options import checks
from whisperbatch.options.known_speakers import KnownSpeakers, references
from whisperbatch.options.values import convert_fields
from whisperbatch.text.messages import shown

MAX_SPEAKERS: Final = 100
MAX_NAME: Final = 4096  # characters of a name or path
BUILTIN: Final = "builtin"
OTHERS: Final = ("senko", "pyannote")
DIARIZERS: Final = (BUILTIN, *OTHERS)
COUNTS: Final = ("num_speakers", "min_speakers", "max_speakers")
VOICES: Final = (*COUNTS, "known_speakers")
"""The options that need a comparison of voices."""


@runtime_checkable
class AnyDiarizer(Protocol):
    """A diarizer of the user. `whisperbatch.diarization.Diarizer` is its contract."""

    @property
    def fingerprint(self) -> str:
        """Identifies everything that the turns depend on."""
        ...

    def __call__(self, blocks: Any, limits: Any, /) -> Iterator[Any]:  # noqa: ANN401 - see there
        """Yield the turns of a recording."""
        ...

    def close(self) -> None:
        """Free the weights."""
        ...


DiarizerChoice: TypeAlias = str | PathLike[str] | AnyDiarizer
SpeakerKind = Literal["voice", "channel"]


@dataclass(frozen=True, kw_only=True)
class SpeakerOptions:
    """Who speaks.

    Attributes:
        diarize: find the speakers: each segment and word has a `speaker`, and the transcript has a
            `diarization`. Needs the extra `diarization`, except with `speaker="channel"` and with
            `num_speakers=1`.
        speaker: "voice" finds the speakers by their voices. "channel": each channel of the
            recording is one speaker, as in recordings of calls. SPEAKER_00 is the first (left)
            channel. A recording with one channel, or a `channel` other than "mix", is refused.
            Only with `diarize`.
        num_speakers: number of speakers, from 1 to 100, if it is known. With 1, the turns are the
            speech that the VAD finds, and the voice is compared with `known_speakers` only. Refused
            without `diarize`, and with `min_speakers` or `max_speakers`.
        min_speakers: smallest number of speakers, from 1 to 100. A recording with less speech has
            fewer. Refused without `diarize`.
        max_speakers: largest number of speakers, from 1 to 100. Refused without `diarize`.
        known_speakers: names of speakers, each with a recording of only this voice, best of 5 to
            30 s: `{"Ann": "ann.wav"}`. A speaker whose voice is the same as in a recording gets
            this name; the others stay SPEAKER_00, SPEAKER_01, ... In Python, a recording is a path,
            the bytes of a media file, an open binary file, or samples. Refused without `diarize`
            and with `speaker="channel"`.
        diarizer: finds the speakers. "builtin" is the diarizer of the extra `diarization`. "senko"
            and "pyannote" use these packages, which need PyTorch (the extras `senko` and
            `pyannote`). A folder or a Hugging Face repository (`owner/name`) contains ONNX files
            for the built-in diarizer, or a pipeline of pyannote.audio. In Python, also an object
            that follows `whisperbatch.diarization.Diarizer`. Refused without `diarize` and with
            `speaker="channel"`; "senko" refuses numbers of speakers, "senko" and "pyannote" refuse
            `known_speakers`.
    """

    diarize: bool = False
    speaker: SpeakerKind = "voice"
    num_speakers: int | None = None
    min_speakers: int | None = None
    max_speakers: int | None = None
    known_speakers: KnownSpeakers | None = None
    diarizer: DiarizerChoice = BUILTIN

    def __post_init__(self) -> None:
        convert_fields(self, SpeakerOptions)
        checks.boolean("diarize", self.diarize)
        checks.choice("speaker", self.speaker, get_args(SpeakerKind))
        object.__setattr__(self, "known_speakers", references(self.known_speakers))
        object.__setattr__(self, "diarizer", _checked_diarizer(self.diarizer))
        for name in COUNTS:
            value = getattr(self, name)
            if value is not None:
                checks.integer(name, value, minimum=1, maximum=MAX_SPEAKERS)
        diarizer = self.diarizer if isinstance(self.diarizer, str) else "object"
        if not self.diarize:
            checks.without_effect(self, ("speaker", *VOICES), "without diarize=True")
        where = "without diarize=True"
        if self.speaker == "channel":
            where = "with speaker='channel', where each channel is one speaker"
            checks.without_effect(self, VOICES, where)
        if diarizer != BUILTIN and (not self.diarize or self.speaker == "channel"):
            raise OptionError(f"diarizer has no effect {where}; leave it out")
        if diarizer in OTHERS:
            checks.without_effect(self, ("known_speakers",), f"with diarizer={diarizer!r}")
        if diarizer == "senko":
            checks.without_effect(self, COUNTS, "with diarizer='senko'")
        if self.num_speakers is not None:
            limits = ("min_speakers", "max_speakers")
            checks.without_effect(self, limits, "with num_speakers")
        if (
            self.min_speakers is not None
            and self.max_speakers is not None
            and self.min_speakers > self.max_speakers
        ):
            raise OptionError(
                f"min_speakers={self.min_speakers} is above max_speakers={self.max_speakers}; "
                "lower min_speakers or raise max_speakers"
            )


def _checked_diarizer(value: object) -> object:
    """Return the name of a diarizer, a folder or repository as text, or an object."""
    expected = (
        f"one of {', '.join(DIARIZERS)}, a folder, a repository, or an object (not a class) with "
    )
    expected += "fingerprint, __call__ and close"
    if type(value) is str:
        checks.text("diarizer", value, max_length=MAX_NAME)
        is_path = value[0] in ".~" or any(mark in value for mark in ("/", "\\"))
        if value not in DIARIZERS and not is_path:
            raise OptionError(
                f"diarizer={shown(value)} is none of {', '.join(DIARIZERS)}; write a folder as "
                "./folder, and a repository as owner/name"
            )
        return value
    try:
        if isinstance(value, PathLike):
            return str(Path(value).expanduser().absolute())
        if isinstance(value, AnyDiarizer) and not isinstance(value, type):
            return value
    except Exception as error:  # a foreign object may raise anything
        raise OptionError(f"diarizer must be {expected}, not {shown(value)}") from error
    raise OptionError(f"diarizer must be {expected}, not {shown(value)}")
