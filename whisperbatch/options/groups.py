"""The options of the stages before decoding: one group for each stage."""

from dataclasses import dataclass, fields
from typing import Final, Literal, get_args

from whisperbatch.errors import OptionError
from whisperbatch.options import checks
from whisperbatch.options.values import convert_fields
from whisperbatch.text.language_names import given_language
from whisperbatch.types import MAX_DURATION

LANGUAGE_DETECTION_OPTIONS: Final = (
    "language_detection_segments",
    "language_detection_length",
    "language_detection_threshold",
)
"""The options of language detection, which have no effect if the language is given."""

MAX_TRACK: Final = 999  # FFmpeg reads at most 1000 streams of a file
MIN_SAMPLING_RATE: Final = 1_000  # Hz
MAX_SAMPLING_RATE: Final = 768_000  # Hz

Channel = Literal["mix", "left", "right"]
FeatureKind = Literal["whisper", "kaldi", "kaldi-mel", "kaldi-fbank"]
CodeSwitchingOutput = Literal["hybrid", "english"]


@dataclass(frozen=True, kw_only=True)
class AudioOptions:
    """Which part of a recording is read.

    Attributes:
        track: number of the audio track to read, from 0 to 999. An array has only track 0. None
            reads the container's default track, or another if the default track has no speech.
        channel: "mix" mixes all channels: FFmpeg mixes three to eight channels by their positions;
            two channels, or more than eight, are averaged. Where this mix would hide speech,
            inverted channels are turned, and loud channels without speech are lowered. "left" reads
            only the first channel, "right" only the second. An array has one channel, so "right" is
            refused.
        sampling_rate: sampling rate of an array, in Hz, from 1000 to 768000; None means 16000. A
            media file states its own rate, so a value given with a file is refused.
        clip_timestamps: time ranges (start, end) to transcribe, in seconds, in ascending order and
            without overlap, each at least 0.01 s long. The end of the last range may be None: the
            end of the recording. Empty: the whole recording.
        max_duration: longest recording, in seconds, from 0.01 on. A longer recording fails with an
            AudioError when this much of the recording has been read. None means no limit.
    """

    track: int | None = None
    channel: Channel = "mix"
    sampling_rate: int | None = None
    clip_timestamps: tuple[tuple[float, float | None], ...] = ()
    max_duration: float | None = None

    def __post_init__(self) -> None:
        convert_fields(self, AudioOptions)
        if self.track is not None:
            checks.integer("track", self.track, minimum=0, maximum=MAX_TRACK)
        checks.choice("channel", self.channel, get_args(Channel))
        if self.sampling_rate is not None:
            checks.integer(
                "sampling_rate",
                self.sampling_rate,
                minimum=MIN_SAMPLING_RATE,
                maximum=MAX_SAMPLING_RATE,
            )
        checks.clips(self.clip_timestamps)
        if self.max_duration is not None:
            checks.number("max_duration", self.max_duration, minimum=0.01, maximum=MAX_DURATION)

    @property
    def separates_channels(self) -> bool:
        """Whether the channels are read separately; `Options` decides this by its speakers."""
        return False


@dataclass(frozen=True, kw_only=True)
class VadOptions:
    """How speech is found; durations are in seconds.

    Attributes:
        vad: find speech with the voice activity detector (VAD). False treats the whole recording
            as speech and cuts it where it is quietest; `vad_onset`, `vad_offset`,
            `min_silence_duration`, `speech_pad` and `second_opinion` are refused then.
        vad_onset: speech starts where its probability reaches this value, from 0 to 1.
        vad_offset: speech ends where its probability falls below this value for at least
            `min_silence_duration`; from 0 to `vad_onset`.
        min_speech_duration: speech spans shorter than this (0 to 30) are ignored. Margins do not
            count. No effect without `vad`.
        min_silence_duration: silence shorter than this (0 to 30) does not end a speech span.
        speech_pad: margin before and after each speech span, from 0 to 5; at most half of the
            pause between two spans.
        max_speech_duration: longest speech span with its margins, from 1 to 30. A longer span is
            cut where speech is least probable and the audio is quietest. If `chunk_length` is
            smaller, `chunk_length` is the limit.
        second_opinion: let the model check sound that the VAD rejects: hoarse, whispered, slow or
            distant speech. Audio counts as speech if the model finds a sentence in it.
        second_opinion_threshold: minimum of the average log-probability of such a sentence, from
            -10 to 0. Refused with `second_opinion=False`.
    """

    vad: bool = True
    vad_onset: float = 0.5
    vad_offset: float = 0.35
    min_speech_duration: float = 0.1
    min_silence_duration: float = 0.16
    speech_pad: float = 0.1
    max_speech_duration: float = 30.0
    second_opinion: bool = True
    second_opinion_threshold: float = -0.7

    def __post_init__(self) -> None:
        convert_fields(self, VadOptions)
        checks.boolean("vad", self.vad)
        checks.number("vad_onset", self.vad_onset, minimum=0, maximum=1)
        checks.number("vad_offset", self.vad_offset, minimum=0, maximum=1)
        if self.vad_offset > self.vad_onset:
            raise OptionError(
                f"vad_offset={self.vad_offset} is above vad_onset={self.vad_onset}, so speech "
                "would end as soon as it starts; lower vad_offset or raise vad_onset"
            )
        checks.number("min_speech_duration", self.min_speech_duration, minimum=0, maximum=30)
        checks.number("min_silence_duration", self.min_silence_duration, minimum=0, maximum=30)
        checks.number("speech_pad", self.speech_pad, minimum=0, maximum=5)
        checks.number("max_speech_duration", self.max_speech_duration, minimum=1, maximum=30)
        checks.room_for_speech("max_speech_duration", self.max_speech_duration, self.speech_pad)
        checks.boolean("second_opinion", self.second_opinion)
        checks.number(
            "second_opinion_threshold", self.second_opinion_threshold, minimum=-10, maximum=0
        )
        if not self.vad:
            names = ("vad_onset", "vad_offset", "min_silence_duration", "speech_pad")
            checks.without_effect(self, names, "with vad=False")
            names_of_opinion = ("second_opinion", "second_opinion_threshold")
            checks.without_effect(self, names_of_opinion, "with vad=False")
        if not self.second_opinion:
            checks.without_effect(self, ("second_opinion_threshold",), "with second_opinion=False")


@dataclass(frozen=True, kw_only=True)
class ChunkOptions:
    """How speech spans are joined to chunks.

    Attributes:
        chunk_length: longest chunk, in seconds, from 1 to 30 (Whisper's window). It must leave at
            least 1 s between two margins of `speech_pad`.
        max_silence: longest pause inside a chunk, in seconds, from 0 to 30; a longer pause is
            shortened to this length. None keeps all pauses unchanged.
    """

    chunk_length: float = 30.0
    max_silence: float | None = None

    def __post_init__(self) -> None:
        convert_fields(self, ChunkOptions)
        checks.number("chunk_length", self.chunk_length, minimum=1, maximum=30)
        if self.max_silence is not None:
            checks.number("max_silence", self.max_silence, minimum=0, maximum=30)


@dataclass(frozen=True, kw_only=True)
class FeatureOptions:
    """The input of the encoder.

    Attributes:
        features: "whisper" is Whisper's log-mel spectrogram. "kaldi-mel" applies Whisper's mel
            filters to Kaldi's spectrogram. "kaldi-fbank" is Kaldi's filter bank, normalised;
            Whisper was not trained on these features. "kaldi" is an alias of "kaldi-mel". All but
            "whisper" need the extra `kaldi`.
    """

    features: FeatureKind = "whisper"

    def __post_init__(self) -> None:
        convert_fields(self, FeatureOptions)
        checks.choice("features", self.features, get_args(FeatureKind))


@dataclass(frozen=True, kw_only=True)
class LanguageOptions:
    """How the language of a recording is decided.

    Attributes:
        language: the spoken language, as a code ("en", "eng"), a tag ("en-US", "pt_BR") or an
            English name ("English"). None and "auto" detect the language.
        languages: the languages that detection chooses from, named like `language`. Empty: all
            languages of the model. Refused with `language`.
        language_detection_segments: number of language windows, from 1 to 1000: stretches from all
            parts of the recording, which vote for its language. A recording without random access
            (a pipe), or not longer than four times `chunk_length`, has no windows: its first four
            chunks vote, and later chunks may revise the decision. Refused with `language` or
            `multilingual`.
        language_detection_length: length of a language window, in seconds, from 2 to 30. Refused
            with `language` or `multilingual`.
        language_detection_threshold: a window or chunk votes only if its most probable language
            has at least this probability, from 0 to 1. With `multilingual`, an uncertain chunk
            takes the language of the chunks next to it. Refused with `language`.
        multilingual: allow the language to change within the recording (code-switching): detect
            the language of each chunk, and split chunks where the language changes. Cannot be
            combined with `language`, `task="translate"` or `condition_on_previous_text`.
        code_switching_output: with `multilingual`, "hybrid" writes each chunk in its spoken
            language; "english" translates all chunks that are not English. Refused without
            `multilingual`.
        latin_names: with `multilingual`, allow words in Latin letters (brand names) in languages
            with another script. False allows only letters of the language's own scripts. Refused
            without `multilingual` and with `code_switching_output="english"`.
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
        convert_fields(self, LanguageOptions)
        if self.language is not None:
            object.__setattr__(self, "language", given_language(self.language))
        object.__setattr__(self, "languages", checks.languages(self.languages))
        checks.integer(
            "language_detection_segments", self.language_detection_segments, minimum=1, maximum=1000
        )
        checks.number(
            "language_detection_length", self.language_detection_length, minimum=2, maximum=30
        )
        checks.number(
            "language_detection_threshold", self.language_detection_threshold, minimum=0, maximum=1
        )
        checks.boolean("multilingual", self.multilingual)
        checks.choice(
            "code_switching_output", self.code_switching_output, get_args(CodeSwitchingOutput)
        )
        checks.boolean("latin_names", self.latin_names)
        self._check_effect()

    def _check_effect(self) -> None:
        """Refuse options that have no effect together with the other options."""
        if self.language and self.multilingual:
            raise OptionError(
                f"multilingual=True cannot be combined with language={self.language!r}; leave "
                "language out, or list the spoken languages: languages=('en', 'fr')"
            )
        if self.language:
            names = ("languages", *LANGUAGE_DETECTION_OPTIONS)
            checks.without_effect(self, names, "if the language is given")
        if self.multilingual:
            checks.without_effect(
                self,
                ("language_detection_segments", "language_detection_length"),
                "with multilingual=True, which detects the language of every chunk",
            )
        else:
            checks.without_effect(
                self, ("code_switching_output", "latin_names"), "without multilingual=True"
            )
        if self.code_switching_output == "english":
            checks.without_effect(self, ("latin_names",), "with code_switching_output='english'")


def _names(group: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(group))


DETECTION_OPTIONS: Final = (
    *_names(AudioOptions),
    *("vad", "vad_onset", "vad_offset", "min_speech_duration", "min_silence_duration"),
    *("speech_pad", "second_opinion", "second_opinion_threshold"),
    *_names(FeatureOptions),
    "languages",
    *LANGUAGE_DETECTION_OPTIONS,
)
"""The options that have an effect on `detect_language`."""
