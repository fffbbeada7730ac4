"""The options of decoding: how the text of a row is searched, checked and timed."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, get_args

from whisperbatch.errors import OptionError
from whisperbatch.options import checks

MOST_TOKENS: Final = 224  # that Whisper decodes for a chunk: half of its text context

PROMPT_RESET_TEMPERATURE: Final = 0.5
"""Text decoded above this temperature is never the context of the next chunk (openai/whisper)."""

Timestamps = Literal["alignment", "tokens"]
Task = Literal["transcribe", "translate"]


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
            and text leaked from a prompt; all of it is listed in `Transcript.omissions`.
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
