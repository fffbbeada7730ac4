"""All options of a transcription in one value.

`make declarations` writes the attributes in the docstring of `Options` from the option groups.
"""

from dataclasses import dataclass, fields

from whisperbatch.errors import OptionError
from whisperbatch.options import checks
from whisperbatch.options.decoding import DecodeOptions
from whisperbatch.options.groups import (
    AudioOptions,
    ChunkOptions,
    FeatureOptions,
    LanguageOptions,
    VadOptions,
)
from whisperbatch.options.search import SearchOptions
from whisperbatch.options.speakers import SpeakerOptions


@dataclass(frozen=True, kw_only=True)
class Options(
    AudioOptions,
    VadOptions,
    ChunkOptions,
    FeatureOptions,
    LanguageOptions,
    SearchOptions,
    DecodeOptions,
    SpeakerOptions,
):
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
            `diarization`. Needs the extra `diarization`, except with `speaker="channel"` and with
            `num_speakers=1`.
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
            s: `{"Ann": "ann.wav"}`. A speaker whose voice is the same as in a recording gets this
            name; the others stay SPEAKER_00, SPEAKER_01, ... In Python, a recording is a path, the
            bytes of a media file, an open binary file, or samples. Refused without `diarize` and
            with `speaker="channel"`.
        diarizer: finds the speakers. "builtin" is the diarizer of the extra `diarization`. "senko"
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

    def __post_init__(self) -> None:
        for group in Options.__bases__:
            group.__post_init__(self)  # type: ignore[attr-defined]  # every group has this method
        checks.room_for_speech("chunk_length", self.chunk_length, self.speech_pad)
        if self.multilingual:
            self._check_multilingual()
        self._check_coverage()
        if self.separates_channels and self.channel != "mix":
            raise OptionError(
                f"channel={self.channel!r} cannot be combined with speaker='channel', which reads "
                "every channel; leave channel out"
            )
        if self.timestamps != "tokens" and self.max_initial_timestamp != 1:
            raise OptionError(
                "max_initial_timestamp has no effect with timestamps='alignment'; "
                "give timestamps='tokens'"
            )

    @property
    def separates_channels(self) -> bool:
        """Whether each channel of the recording is one speaker."""
        return self.speaker == "channel"

    @property
    def search(self) -> SearchOptions:
        """The options that engines read."""
        return SearchOptions(
            **{field.name: getattr(self, field.name) for field in fields(SearchOptions)}
        )

    @property
    def hypotheses(self) -> int:
        """Number of hypotheses in the first decoding of a chunk: sampled texts, or beams."""
        return self.best_of if self.temperatures[0] else self.beam_size

    def _check_multilingual(self) -> None:
        if self.task == "translate":
            raise OptionError(
                "task='translate' cannot be combined with multilingual=True; "
                "give code_switching_output='english', which translates all other languages"
            )
        if self.condition_on_previous_text:
            raise OptionError(
                "condition_on_previous_text cannot be combined with multilingual=True, because "
                "the previous text may be in another language; leave one of the two out"
            )

    def _check_coverage(self) -> None:
        default = checks.default(DecodeOptions, "coverage_threshold")
        if self.coverage_threshold in (None, default):
            return
        if not self.vad:
            raise OptionError(
                "coverage_threshold has no effect with vad=False, because only the voice "
                "activity detector finds speech; leave it out"
            )
        if self.task == "translate":
            raise OptionError(
                "coverage_threshold has no effect with task='translate', because the words of a "
                "translation do not follow the speech; leave it out"
            )
