"""Every option, declared once and checked once.

Options are grouped by the stage that reads them; `Options` is all groups together, flat, so that a
stage takes its own group's type and an `Options` serves everywhere:

    Options ── AudioOptions    audio.py       which track, which channel, which ranges
            ├─ VadOptions      vad/           where speech starts and ends
            ├─ ChunkOptions    chunking.py    how speech becomes rows of at most 30 s
            ├─ FeatureOptions  features/      what the encoder sees
            ├─ LanguageOptions language.py    which languages are spoken, and where
            └─ DecodeOptions   engines/, decoding/   how text is found and placed

The groups have no slots: Python cannot combine several slotted bases.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, get_args

from whisperbatch import checks
from whisperbatch.errors import OptionError
from whisperbatch.languages import check_language

MOST_TOKENS: Final = 224  # that Whisper decodes for a chunk: half of its text context

DETECTION: Final = tuple(
    f"language_detection_{name}" for name in ("segments", "length", "threshold")
)

Channel = Literal["mix", "left", "right"]
FeatureKind = Literal["whisper", "kaldi", "kaldi-mel", "kaldi-fbank"]
Timestamps = Literal["alignment", "tokens"]
Task = Literal["transcribe", "translate"]
Output = Literal["hybrid", "english"]


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
        max_pause: silence inside a chunk longer than this many seconds is shortened to it; None
            keeps every pause as it is.
    """

    chunk_length: float = 30.0
    max_pause: float | None = None

    def __post_init__(self) -> None:
        checks.number("chunk_length", self.chunk_length, least=1, most=30)
        if self.max_pause is not None:
            checks.number("max_pause", self.max_pause, least=0)


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
        output: with `multilingual`, "hybrid" writes each chunk in its own language, "english"
            translates all that is not English.
        latin_names: with `multilingual`, words in Latin letters may stand in languages that are
            written in other scripts; otherwise only a language's own scripts are written.
    """

    language: str | None = None
    languages: tuple[str, ...] = ()
    language_detection_segments: int = 8
    language_detection_length: float = 10.0
    language_detection_threshold: float = 0.5
    multilingual: bool = False
    output: Output = "hybrid"
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
        checks.choice("output", self.output, get_args(Output))
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
            checks.without_effect(self, ("output", "latin_names"), "without multilingual=True")
        if self.output == "english":
            checks.without_effect(self, ("latin_names",), "with output='english'")


@dataclass(frozen=True, kw_only=True)
class DecodeOptions:
    """How text is found and placed.

    Attributes:
        task: "transcribe", or "translate" into English.
        batch_size: rows decoded together.
        beam_size: 1 is greedy search.
        patience: beam search goes on until beam_size * patience hypotheses are finished. Not for
            greedy search.
        length_penalty: exponent of the length that a hypothesis' score is divided by. Not for
            greedy search.
        repetition_penalty: above 1 penalises tokens already there.
        no_repeat_ngram_size: forbids repeating n-grams of this many tokens; 0 allows all.
        suppress_blank: no blank at the start of a row.
        suppress_tokens: ids never decoded; -1 stands for the model's own list of symbols.
        max_initial_timestamp: the first timestamp token is at most this many seconds. For
            `timestamps="tokens"`.
        max_new_tokens: most tokens decoded for a chunk; None for Whisper's own limit.
        temperature: 0 is beam or greedy search, above 0 samples. A tuple is a ladder: rows that
            fail a threshold are decoded again at the next, when nothing else has mended them.
        best_of: samples drawn for a row, of which the likeliest counts. Needs a temperature
            above 0.
        seed: of the sampling. Needs a temperature above 0.
        compression_ratio_threshold: text that compresses more than this repeats itself: it is
            decoded again, and what then still repeats is dropped. None accepts it.
        log_prob_threshold: a row of a lower average log-probability is decoded again. None
            accepts it.
        no_speech_threshold: a row of low log-probability and a no-speech probability above this
            is dropped: nobody speaks. None keeps it.
        coverage_threshold: where more than this many seconds of speech in a row have no words,
            the chunk is cut anew and decoded again. None accepts it. There is no such check
            without `vad`, nor of translations.
        hallucination_filter: drop loops, text faster than anybody speaks, boilerplate over music
            and text leaked from a prompt; all of it is listed in `Transcript.dropped`.
        initial_prompt: text (or its token ids) that every chunk is decoded as the continuation
            of: names, spelling, style.
        hotwords: words and phrases to expect, given to every chunk.
        prefix: text that the recording begins with: its first chunk is decoded from there.
        condition_on_previous_text: decode each chunk once more as the continuation of the text
            before it, which may mend words here and there, and loses none.
        timestamps: "alignment" decodes plain text and places it by cross-attention; "tokens"
            lets Whisper predict timestamp tokens.
        word_timestamps: give each segment its words.
    """

    task: Task = "transcribe"
    batch_size: int = 8
    beam_size: int = 5
    patience: float = 1.0
    length_penalty: float = 1.0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    suppress_blank: bool = True
    suppress_tokens: tuple[int, ...] = (-1,)
    max_initial_timestamp: float = 1.0
    max_new_tokens: int | None = None
    temperature: float | tuple[float, ...] = 0.0
    best_of: int = 5
    seed: int = 0
    compression_ratio_threshold: float | None = 2.4
    log_prob_threshold: float | None = -1.0
    no_speech_threshold: float | None = 0.6
    coverage_threshold: float | None = 1.0
    hallucination_filter: bool = True
    initial_prompt: str | tuple[int, ...] | None = None
    hotwords: str | None = None
    prefix: str | None = None
    condition_on_previous_text: bool = False
    timestamps: Timestamps = "alignment"
    word_timestamps: bool = False

    def __post_init__(self) -> None:
        checks.choice("task", self.task, get_args(Task))
        checks.integer("batch_size", self.batch_size, least=1)
        checks.integer("beam_size", self.beam_size, least=1, most=100)
        checks.number("patience", self.patience, least=0.01, most=100)
        checks.number("length_penalty", self.length_penalty, least=-10, most=10)
        checks.beam(self.beam_size, self.patience, self.length_penalty)
        checks.number("repetition_penalty", self.repetition_penalty, least=0.01, most=100)
        checks.integer("no_repeat_ngram_size", self.no_repeat_ngram_size, least=0, most=MOST_TOKENS)
        checks.boolean("suppress_blank", self.suppress_blank)
        checks.tokens("suppress_tokens", self.suppress_tokens, least=-1)
        if self.max_new_tokens is not None:
            checks.integer("max_new_tokens", self.max_new_tokens, least=1, most=MOST_TOKENS)
        self._check_sampling()
        self._check_thresholds()
        self._check_context()
        checks.choice("timestamps", self.timestamps, get_args(Timestamps))
        checks.number("max_initial_timestamp", self.max_initial_timestamp, least=0, most=30)
        if self.timestamps != "tokens" and self.max_initial_timestamp != 1:
            raise OptionError(
                "max_initial_timestamp has no effect on aligned text; give timestamps='tokens'"
            )
        checks.boolean("word_timestamps", self.word_timestamps)

    @property
    def temperatures(self) -> tuple[float, ...]:
        """All of the ladder, the first decode's first."""
        if isinstance(self.temperature, tuple):
            return self.temperature
        return (self.temperature,)

    def _check_sampling(self) -> None:
        if not self.temperatures:
            raise OptionError("temperature=() holds no temperature; 0.0 is the default")
        for temperature in self.temperatures:
            checks.number("temperature", temperature, least=0, most=10)
        if any(later <= earlier for earlier, later in pairwise(self.temperatures)):
            raise OptionError(
                f"temperature={self.temperature!r}: each must be above the one before"
            )
        checks.integer("best_of", self.best_of, least=1, most=100)
        checks.integer("seed", self.seed, least=0, most=2**32 - 1)
        if not any(self.temperatures):
            for name in ("best_of", "seed"):
                if getattr(self, name) != checks.default(DecodeOptions, name):
                    raise OptionError(f"{name} has no effect without a temperature above 0")

    def _check_thresholds(self) -> None:
        if self.compression_ratio_threshold is not None:
            checks.number("compression_ratio_threshold", self.compression_ratio_threshold, least=0)
        if self.log_prob_threshold is not None:
            checks.number(
                "log_prob_threshold", self.log_prob_threshold, least=-checks.LONGEST, most=0
            )
        if self.no_speech_threshold is not None:
            checks.number("no_speech_threshold", self.no_speech_threshold, least=0, most=1)
        if self.coverage_threshold is not None:
            checks.number("coverage_threshold", self.coverage_threshold, least=0)
        checks.boolean("hallucination_filter", self.hallucination_filter)

    def _check_context(self) -> None:
        for name in ("initial_prompt", "hotwords", "prefix"):
            text = getattr(self, name)
            if name == "initial_prompt" and isinstance(text, tuple):
                checks.tokens(name, text, least=0)
            elif text is not None and not isinstance(text, str):
                raise OptionError(f"{name} must be text, not {text!r}")
            if text is not None and not (text.strip() if isinstance(text, str) else text):
                raise OptionError(f"{name} is empty; leave it out")
        checks.boolean("condition_on_previous_text", self.condition_on_previous_text)


@dataclass(frozen=True, kw_only=True)
class Options(
    AudioOptions, VadOptions, ChunkOptions, FeatureOptions, LanguageOptions, DecodeOptions
):
    """All options of a transcription, flat: `Options(language="en", beam_size=1)`.

    Frozen; `dataclasses.replace` gives a changed copy. Raises OptionError, naming the option, for
    a value of the wrong type or out of range.
    """

    def __post_init__(self) -> None:
        for group in Options.__bases__:
            group.__post_init__(self)  # type: ignore[attr-defined]  # each group has one
        checks.room("chunk_length", self.chunk_length, self.speech_pad)
        if self.multilingual:
            self._check_multilingual()
        usual = checks.default(DecodeOptions, "coverage_threshold")
        if self.coverage_threshold not in (None, usual):
            if not self.vad:
                raise OptionError(
                    "coverage_threshold has no effect with vad=False, since nobody then knows "
                    "where speech is; leave it out"
                )
            if self.task == "translate":
                raise OptionError(
                    "coverage_threshold has no effect with task='translate', since a translation's "
                    "words do not follow the speech; leave it out"
                )

    def _check_multilingual(self) -> None:
        if self.task == "translate":
            raise OptionError(
                "task='translate' with multilingual=True: give output='english', which translates "
                "all but English"
            )
        if self.condition_on_previous_text:
            raise OptionError(
                "condition_on_previous_text does not go with multilingual=True: the text before "
                "may be in another language; leave either out"
            )
