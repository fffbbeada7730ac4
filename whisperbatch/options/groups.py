"""The options of every stage before decoding, a group for each stage."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

from whisperbatch.errors import OptionError
from whisperbatch.options import checks
from whisperbatch.text.languages import check_language

DETECTION: Final = tuple(
    f"language_detection_{name}" for name in ("segments", "length", "threshold")
)

Channel = Literal["mix", "left", "right"]
FeatureKind = Literal["whisper", "kaldi", "kaldi-mel", "kaldi-fbank"]
CodeSwitchingOutput = Literal["hybrid", "english"]


@dataclass(frozen=True, kw_only=True)
class AudioOptions:
    """What of a recording is read.

    Attributes:
        track: which audio track of a file, from 0.
        channel: "mix" averages two channels, and mixes more as FFmpeg does; "left" and "right"
            take the first or second.
        sampling_rate: of samples given as a bare array, in Hz; None means 16000. A file states
            its own, so giving one with a file is an error.
        clip_timestamps: ranges (start, end) in seconds to work on, in order, without overlap;
            the end of the last may be None for the end of the recording. Empty: all of it.
    """

    track: int = 0
    channel: Channel = "mix"
    sampling_rate: int | None = None
    clip_timestamps: tuple[tuple[float, float | None], ...] = ()

    def __post_init__(self) -> None:
        checks.integer("track", self.track, least=0)
        checks.choice("channel", self.channel, get_args(Channel))
        if self.sampling_rate is not None:
            checks.integer("sampling_rate", self.sampling_rate, least=1)
        checks.clips(self.clip_timestamps)


@dataclass(frozen=True, kw_only=True)
class VadOptions:
    """Where speech starts and ends. Durations are in seconds.

    Attributes:
        vad: False takes everything for speech and cuts it where it is quietest; onset, offset,
            silence and pad then are refused.
        vad_onset: speech starts where its probability reaches this.
        vad_offset: speech ends where its probability falls below this.
        min_speech_duration: shorter speech is passed over.
        min_silence_duration: shorter silence does not end speech.
        speech_pad: margin kept on either side of speech, at most half the gap between two.
        max_speech_duration: longer speech is cut where its probability is lowest; so is speech
            longer than `chunk_length`.
    """

    vad: bool = True
    vad_onset: float = 0.5
    vad_offset: float = 0.35
    min_speech_duration: float = 0.1
    min_silence_duration: float = 0.16
    speech_pad: float = 0.1
    max_speech_duration: float = 30.0

    def __post_init__(self) -> None:
        checks.boolean("vad", self.vad)
        checks.number("vad_onset", self.vad_onset, least=0, most=1)
        checks.number("vad_offset", self.vad_offset, least=0, most=1)
        if self.vad_offset > self.vad_onset:
            raise OptionError(
                f"vad_offset={self.vad_offset} is above vad_onset={self.vad_onset}: "
                "speech would end as it starts; give a vad_offset at or below it"
            )
        checks.number("min_speech_duration", self.min_speech_duration, least=0)
        checks.number("min_silence_duration", self.min_silence_duration, least=0)
        checks.number("speech_pad", self.speech_pad, least=0, most=5)
        checks.number("max_speech_duration", self.max_speech_duration, least=1, most=30)
        checks.room("max_speech_duration", self.max_speech_duration, self.speech_pad)
        if not self.vad:
            names = ("vad_onset", "vad_offset", "min_silence_duration", "speech_pad")
            checks.without_effect(self, names, "with vad=False")


@dataclass(frozen=True, kw_only=True)
class ChunkOptions:
    """How speech spans become rows of a batch.

    Attributes:
        chunk_length: the longest chunk, in seconds, at most Whisper's 30.
        max_silence: silence inside a chunk longer than this many seconds is shortened to it; None
            keeps every pause as it is.
    """

    chunk_length: float = 30.0
    max_silence: float | None = None

    def __post_init__(self) -> None:
        checks.number("chunk_length", self.chunk_length, least=1, most=30)
        if self.max_silence is not None:
            checks.number("max_silence", self.max_silence, least=0)


@dataclass(frozen=True, kw_only=True)
class FeatureOptions:
    """What the encoder sees.

    Attributes:
        features: "whisper" is Whisper's log-mel; "kaldi" (extra `kaldi`) is the better of the
            two that follow; "kaldi-mel" is Whisper's mel filters on Kaldi's frames;
            "kaldi-fbank" is Kaldi's own filter bank, normalised.
    """

    features: FeatureKind = "whisper"

    def __post_init__(self) -> None:
        checks.choice("features", self.features, get_args(FeatureKind))


@dataclass(frozen=True, kw_only=True)
class LanguageOptions:
    """Which languages are spoken, and where.

    Attributes:
        language: Whisper's code or English name; None detects it.
        languages: the only ones that are detected; empty for all.
        language_detection_segments: windows, spread over the recording, that are listened to. A
            recording that cannot be read out of order is judged by its first chunks, and again
            as it is read.
        language_detection_length: of each of them, in seconds.
        language_detection_threshold: a window or chunk whose best language is less probable than
            this does not vote; with `multilingual` it goes by its neighbours.
        multilingual: the language may change within the recording: it is detected for each chunk,
            and chunks are cut where it changes.
        code_switching_output: with `multilingual`, "hybrid" writes each chunk in its own language;
            "english" translates every other language into English.
        latin_names: with `multilingual`, words in Latin letters may stand in languages that are
            written in other scripts; otherwise only a language's own scripts are written.
    """

    language: str | None = None
    languages: tuple[str, ...] = ()
    language_detection_segments: int = 8
    language_detection_length: float = 10.0
    language_detection_threshold: float = 0.5
    multilingual: bool = False
    code_switching_output: CodeSwitchingOutput = "hybrid"
    latin_names: bool = False

    def __post_init__(self) -> None:
        if self.language is not None:
            object.__setattr__(self, "language", check_language(self.language))
        object.__setattr__(self, "languages", checks.languages(self.languages))
        checks.integer(
            "language_detection_segments", self.language_detection_segments, least=1, most=1000
        )
        checks.number("language_detection_length", self.language_detection_length, least=2, most=30)
        checks.number(
            "language_detection_threshold", self.language_detection_threshold, least=0, most=1
        )
        checks.boolean("multilingual", self.multilingual)
        checks.choice(
            "code_switching_output", self.code_switching_output, get_args(CodeSwitchingOutput)
        )
        checks.boolean("latin_names", self.latin_names)
        self._check_effect()

    def _check_effect(self) -> None:
        """Refuse what the other options leave no room for."""
        named = ("languages", *DETECTION)
        if self.language and self.multilingual:
            raise OptionError(
                f"multilingual=True with language={self.language!r}: give the languages that may "
                "be spoken as languages=('en', 'fr'), or none"
            )
        if self.language:
            checks.without_effect(self, named, "where the language is given")
        if self.multilingual:
            checks.without_effect(
                self, named[1:3], "with multilingual=True: every chunk is listened to"
            )
        else:
            checks.without_effect(
                self, ("code_switching_output", "latin_names"), "without multilingual=True"
            )
        if self.code_switching_output == "english":
            checks.without_effect(self, ("latin_names",), "with code_switching_output='english'")
