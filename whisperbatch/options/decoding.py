"""The options of decoding: how the text of a chunk is chosen, checked and timed."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal, cast, get_args

from whisperbatch.errors import OptionError
from whisperbatch.options import checks
from whisperbatch.options.values import convert_fields
from whisperbatch.text.messages import shown

DEFAULT_BATCH_SIZE: Final = 8
"""The batch size on a CPU, where 16 was no faster (docs/explanation/performance.md), and of engines
that choose none."""

PROMPT_RESET_TEMPERATURE: Final = 0.5
"""Text sampled above this temperature is never the context of the next chunk (openai/whisper)."""

MAX_TEMPERATURE: Final = 2.0  # above it, sampled tokens are all but unrelated to the speech
MAX_TEMPERATURES: Final = 20
MAX_CONTEXT_LENGTH: Final = 30_000  # characters: 219 tokens of at most 128 characters

Timestamps = Literal["alignment", "tokens"]
Task = Literal["transcribe", "translate"]
Segments = Literal["sentence", "phrase", "chunk"]


@dataclass(frozen=True, kw_only=True)
class DecodeOptions:
    """How the text of a chunk is chosen, checked and timed.

    Attributes:
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
        coverage_threshold: if no word covers a stretch of more than this many seconds of speech
            (0 to 30), the chunk is split in two and decoded again. None switches this check off. No
            effect without `vad` or with `task="translate"`: a value other than the default is
            refused then.
        hallucination_filter: remove loops, text faster than a person can speak, text on silence,
            boilerplate on music and noise, and prompt leakage. The transcript's `omissions` list
            the removed text.
        initial_prompt: text that precedes every chunk as context: names, spelling, style. In
            Python, also the token ids of this text. `hotwords`, `initial_prompt` and `prefix`
            together have at most 219 tokens.
        hotwords: words and phrases to expect; they precede `initial_prompt` in the context of
            every chunk.
        prefix: text that the first chunk of the recording must begin with, if there is speech in
            the first 5 minutes.
        condition_on_previous_text: decode each chunk again, with the text of the preceding chunks
            (up to 64 tokens) as context. The text with context is used only if a few words differ
            from the text without context. About every 5 minutes, a chunk has no context. Cannot be
            combined with `multilingual`.
        timestamps: "alignment" decodes text without timestamps and finds the time of each word
            from the cross-attention; "tokens" lets Whisper predict timestamp tokens.
        segments: "sentence" ends a segment where a sentence ends, or at a pause of 2 s. A sentence
            may continue in the next chunk. A segment lasts at most 30 s; a longer sentence is
            divided, if possible at the end of a clause. "phrase" also ends a segment at every pause
            of 0.4 s and at the end of every chunk; with `timestamps="tokens"`, the timestamp tokens
            delimit the phrases. "chunk" gives one segment for each chunk.
        word_timestamps: give each segment its `words`, with their times and probabilities.
    """

    task: Task = "transcribe"
    batch_size: int | None = None
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

    def __post_init__(self) -> None:
        convert_fields(self, DecodeOptions)
        checks.choice("task", self.task, get_args(Task))
        if self.batch_size is not None:
            checks.integer("batch_size", self.batch_size, minimum=1, maximum=1024)
        self._check_sampling()
        self._check_thresholds()
        self._check_context()
        checks.choice("timestamps", self.timestamps, get_args(Timestamps))
        checks.choice("segments", self.segments, get_args(Segments))
        checks.boolean("word_timestamps", self.word_timestamps)

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

    def _check_sampling(self) -> None:
        if not 1 <= len(self.temperatures) <= MAX_TEMPERATURES:
            raise OptionError(
                f"temperature has {len(self.temperatures)} values; give from 1 to "
                f"{MAX_TEMPERATURES}, for example (0.0, 0.2, 0.4)"
            )
        for temperature in self.temperatures:
            checks.number("temperature", temperature, minimum=0, maximum=MAX_TEMPERATURE)
        if any(later <= earlier for earlier, later in pairwise(self.temperatures)):
            raise OptionError(
                f"temperature={shown(self.temperature)}: the values must be in ascending order"
            )
        checks.integer("best_of", self.best_of, minimum=1, maximum=100)
        checks.integer("seed", self.seed, minimum=0, maximum=2**32 - 1)
        if not any(self.temperatures):
            for name in ("best_of", "seed"):
                if getattr(self, name) != checks.default(DecodeOptions, name):
                    raise OptionError(f"{name} has no effect without a temperature above 0")

    def _check_thresholds(self) -> None:
        if self.compression_ratio_threshold is not None:
            checks.number(
                "compression_ratio_threshold",
                self.compression_ratio_threshold,
                minimum=0,
                maximum=1000,  # zlib's limit is 1032
            )
        if self.log_prob_threshold is not None:
            checks.number(
                "log_prob_threshold",
                self.log_prob_threshold,
                minimum=-1000,
                maximum=0,
            )
        if self.no_speech_threshold is not None:
            checks.number("no_speech_threshold", self.no_speech_threshold, minimum=0, maximum=1)
        if self.coverage_threshold is not None:
            checks.number("coverage_threshold", self.coverage_threshold, minimum=0, maximum=30)
        checks.boolean("hallucination_filter", self.hallucination_filter)

    def _check_context(self) -> None:
        for name in ("initial_prompt", "hotwords", "prefix"):
            text = getattr(self, name)
            if name == "initial_prompt" and type(text) is tuple:
                checks.tokens(name, text, minimum=0)
                if not text:
                    raise OptionError(f"{name} is empty; leave it out")
            elif text is not None:
                checks.text(name, text, max_length=MAX_CONTEXT_LENGTH)
        checks.boolean("condition_on_previous_text", self.condition_on_previous_text)
