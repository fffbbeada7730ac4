"""Whisper's vocabulary, and the prompts of rows: context, start of transcript and prefix.

<|startofprev|> hotwords initial_prompt previous text   <|startoftranscript|> ... prefix
'------------------ context --------------------'       '-- language, task --'

With `condition_on_previous_text`, chunks are decoded a second time, with the text of the previous
chunks as context:

first pass     chunk 0       chunk 1       chunk 2        independent of each other
               "caller"      "color"       "the caller"
second pass         '-----> "caller" ----> "the caller"   context: text of the first pass

openai/whisper decodes each window after the final text of the previous window. Then no two windows
of a recording can be decoded in parallel, and the next windows repeat text that an earlier window
made up. Here, the context of a chunk is the text of the previous chunks in the first pass, if
that text passed its audit. The second pass may correct words, but not passages: if the context
changes more than a few words, the model has copied the context, or the context has made the model
ignore the speech.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tokenizers import Tokenizer

from whisperbatch.errors import ModelError, OptionError
from whisperbatch.options import MAX_NEW_TOKENS, Options, Task
from whisperbatch.protocols import Engine
from whisperbatch.recording import RecordingState
from whisperbatch.segmentation.timed_text import TimedText
from whisperbatch.text.languages import foreign_letters
from whisperbatch.threads import cached_property
from whisperbatch.types import Chunk, SpeechSpan, to_samples

if TYPE_CHECKING:
    from faster_whisper.tokenizer import Tokenizer as FasterWhisperTokenizer

TIMESTAMP_STEP: Final = 0.02  # seconds
TIMESTAMP_TOKENS: Final = 1501  # from 0 to 30 s in steps of 20 ms


class WhisperTokenizer:
    """The tokens of one model.

    Args:
        tokenizer: tokenizer of the model.
        multilingual: False for an English-only model, whose prompt has neither language nor task.
    """

    def __init__(self, tokenizer: Tokenizer, *, multilingual: bool) -> None:
        self._tokenizer = tokenizer
        self._multilingual = multilingual
        self.for_language = lru_cache(maxsize=None)(self._for_language)
        self.foreign_tokens = lru_cache(maxsize=None)(self._foreign_tokens)

    def _for_language(self, language: str, task: Task = "transcribe") -> "FasterWhisperTokenizer":
        """Return faster-whisper's tokenizer, which splits text into words for each language."""
        from faster_whisper import tokenizer  # noqa: PLC0415 - heavy

        return tokenizer.Tokenizer(
            self._tokenizer, self._multilingual, task=task, language=language
        )

    def _foreign_tokens(self, language: str, *, latin: bool) -> tuple[int, ...]:
        """Return the text tokens with letters of scripts that the language does not use.

        Args:
            language: language of the text.
            latin: whether Latin letters are allowed in every language.
        """
        return tuple(
            token
            for token in range(self.end_of_text)
            if foreign_letters(str(self._tokenizer.decode([token])), language, latin=latin)
        )

    @cached_property
    def end_of_text(self) -> int:
        """The end-of-text token; all smaller ids are text tokens."""
        return self._special("<|endoftext|>")

    @cached_property
    def no_timestamps(self) -> int:
        """The last token of a prompt that asks for text without timestamp tokens."""
        return self._special("<|notimestamps|>")

    @cached_property
    def start_of_previous(self) -> int:
        """The first token of a row's context."""
        return self._special("<|startofprev|>")

    @property
    def size(self) -> int:
        """Number of all tokens, including the timestamps at the end of the vocabulary.

        Some tokenizers do not list their timestamps.
        """
        return self.no_timestamps + 1 + TIMESTAMP_TOKENS

    def has_language(self, language: str) -> bool:
        """Return whether the model has a token for this language."""
        return self._tokenizer.token_to_id(f"<|{language}|>") is not None

    def _special(self, token: str) -> int:
        token_id = self._tokenizer.token_to_id(token)
        if token_id is None:
            raise ModelError(f"the tokenizer has no {token}: it is not a Whisper tokenizer")
        return token_id

    def prompt(self, language: str, task: Task) -> list[int]:
        """Return start of transcript, language and task: the tokens at which alignment starts."""
        return list(self.for_language(language, task).sot_sequence)

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text that stands in the middle of a transcript."""
        return list(self._tokenizer.encode(f" {text.strip()}", add_special_tokens=False).ids)

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, without special tokens."""
        return str(self._tokenizer.decode(self.text_tokens(tokens)))

    def text_tokens(self, tokens: Sequence[int]) -> list[int]:
        """Return the text tokens, without special tokens and timestamps."""
        return [token for token in tokens if token < self.end_of_text]

    def timestamp(self, token: int) -> float | None:
        """Return the seconds from the start of the chunk; None if `token` is no timestamp."""
        if token > self.no_timestamps:
            return (token - self.no_timestamps - 1) * TIMESTAMP_STEP
        return None

    def words(self, tokens: Sequence[int], language: str) -> list[list[int]]:
        """Return text tokens grouped by word, or by character in languages without spaces."""
        _, groups = self.for_language(language).split_to_word_tokens(list(tokens))
        words = [group for group in groups if group]
        grouped = sum(len(group) for group in words)
        if grouped < len(tokens):  # the groups end at invalid UTF-8; keep the tokens after it
            words.append(list(tokens[grouped:]))
        return words


def segment_by_timestamps(
    tokens: Sequence[int], chunk: Chunk, vocabulary: WhisperTokenizer
) -> list[tuple[TimedText, list[int]]]:
    """Return the segments that Whisper's timestamp tokens delimit, each with its text tokens.

    Every text token is in one segment, except blank tokens at the end. No segment begins before or
    ends after the speech of the chunk: a retry may have added silence around it.
    """
    speech = chunk.speech or chunk.pieces
    limits = (speech[0].start, speech[-1].end)
    segments: list[tuple[TimedText, list[int]]] = []
    start, text_tokens = 0.0, list[int]()

    def close(end: int) -> None:
        nonlocal text_tokens
        if text := vocabulary.text(text_tokens).strip():  # blank tokens go to the next segment
            first = chunk.recording_time(to_samples(start))
            span = SpeechSpan(first, max(first, end)).within(*limits)
            segments.append((TimedText(span.start, span.end, text), text_tokens))
            text_tokens = []

    for token in tokens:
        time = vocabulary.timestamp(token)
        if time is None:
            if token < vocabulary.end_of_text:
                text_tokens.append(token)
            continue
        if text_tokens:
            # map the last sample of the segment, so that an end at the joint of two pieces is
            # placed before the pause that was cut out
            close(min(chunk.recording_time(to_samples(time) - 1) + 1, chunk.end))
        start = time
    close(chunk.end)
    return segments


def speech_within(speech: Sequence[SpeechSpan], start: int, end: int) -> list[SpeechSpan]:
    """Return the parts of the spans from `start` to `end`.

    If no speech lies between them, return one span from `start` to `end`.
    """
    clipped = [span.within(start, end) for span in speech]
    return [span for span in clipped if span.length] or [SpeechSpan(start, end)]


DECODER_TOKENS: Final = 2 * MAX_NEW_TOKENS  # tokens that Whisper's decoder can hold
START_TOKENS: Final = 4  # start of transcript, language, task, no timestamps
GIVEN_TOKENS: Final = DECODER_TOKENS - MAX_NEW_TOKENS - START_TOKENS - 1
"""Tokens of hotwords, initial prompt and prefix: the decoder also holds <|startofprev|>,
START_TOKENS and the text of the row."""


@dataclass(frozen=True, slots=True)
class Context:
    """The token ids before a row's start of transcript, and its prefix.

    Attributes:
        before: the context; starts with <|startofprev|> unless it is empty.
        prefix: tokens that the row's text must begin with.
    """

    before: tuple[int, ...] = ()
    prefix: tuple[int, ...] = ()

    def of_parts(self, count: int) -> tuple["Context", ...]:
        """Return the contexts of the parts of a row: only the first part can have the prefix."""
        return (self, *[Context(self.before)] * (count - 1))


NO_CONTEXT: Final = Context()


class Prompts:
    """The contexts of the rows of a run.

    Raises:
        OptionError: the initial prompt, the hotwords or the prefix are too long, or contain tokens
            that the model does not have.
    """

    def __init__(self, options: Options, vocabulary: WhisperTokenizer) -> None:
        self._vocabulary = vocabulary
        prompt = options.initial_prompt
        if isinstance(prompt, str):
            initial = vocabulary.encode(prompt)
        else:
            initial = list(prompt or ())
            for token in initial:
                if token >= vocabulary.end_of_text:
                    raise OptionError(
                        f"`initial_prompt`: {token} is not a text token; "
                        f"text tokens are below {vocabulary.end_of_text}"
                    )
        hotwords = vocabulary.encode(options.hotwords) if options.hotwords else []
        self._fixed = (*hotwords, *initial)
        self._prefix = tuple(vocabulary.encode(options.prefix)) if options.prefix else ()
        self._room = GIVEN_TOKENS - len(self._prefix)
        if self._room < len(self._fixed):
            names = ("hotwords", "initial_prompt", "prefix")
            raise OptionError(
                f"{' and '.join(f'`{name}`' for name in names if getattr(options, name))}: "
                f"{len(self._fixed) + len(self._prefix)} tokens, but only "
                f"{GIVEN_TOKENS} fit; shorten the text"
            )

    def context(self, previous: Sequence[int] = (), *, first: bool = False) -> Context:
        """Return the context of one row.

        Args:
            previous: text tokens before the row's chunk; only the last tokens that fit are used.
            first: whether the row is the first of its recording and gets the prefix.
        """
        room = self._room - len(self._fixed)
        before = (*self._fixed, *(previous[-room:] if room else ()))
        return Context(
            (self._vocabulary.start_of_previous, *before) if before else (),
            self._prefix if first else (),
        )


def with_end_of_prompt(options: Options, engine: Engine) -> Options:
    """Return options with the end of the initial prompt, if the prompt is too long.

    Args:
        options: of a run.
        engine: has the tokenizer of the model.

    Returns:
        The same options, if the prompt fits, or if hotwords and prefix leave no room for a prompt.
        Otherwise `initial_prompt` has the last tokens of the prompt that fit.
    """
    vocabulary = WhisperTokenizer(engine.tokenizer, multilingual=engine.is_multilingual)
    prompt = options.initial_prompt or ()
    tokens = vocabulary.encode(prompt) if isinstance(prompt, str) else prompt
    others = (text for text in (options.hotwords, options.prefix) if text)
    room = GIVEN_TOKENS - sum(len(vocabulary.encode(text)) for text in others)
    if len(tokens) <= room or room <= 0:
        return options
    return replace(options, initial_prompt=tuple(tokens[-room:]))


MAX_CONTEXT: Final = 64  # tokens of text before a chunk; 220 tokens made as few errors
MAX_CHANGED_WORDS: Final = 5  # consecutive words that a context may change
# A change may add or remove at most this many words; three in a row can be prompt leakage
# (`leaked_words`).
MAX_LENGTH_CHANGE: Final = 2


def advance(
    recording: RecordingState, index: int, tokens: Sequence[int], *, section: int = 0
) -> tuple[int, ...]:
    """Return the last tokens before a chunk in its section, and add the tokens of the chunk.

    The chunks of a recording come in order, but on several threads. Each chunk waits until the
    previous chunk has added its tokens. The wait ends, because the decoding of chunks begins in
    order, and a chunk whose decoding fails adds no tokens.

    Args:
        recording: state of the recording, with the tokens of the previous chunks.
        index: index of the chunk.
        tokens: text tokens of the chunk; empty if the text must not be used as context.
        section: number of the section of the chunk.

    Returns:
        At most MAX_CONTEXT tokens.
    """
    history = recording.history
    with recording.changed:
        recording.changed.wait_for(lambda: history.index >= index - 1)
        before = history.tokens if history.section == section else ()
        if history.index < index:
            history.index, history.section = index, section
            history.tokens = (*before, *tokens)[-MAX_CONTEXT:]
            recording.changed.notify_all()
        return before


def only_corrects_words(without_context: Sequence[str], with_context: Sequence[str]) -> bool:
    """Return whether the two texts differ in a few words here and there at most.

    Args:
        without_context: normalised words of the text that was decoded without context.
        with_context: normalised words of the text that was decoded with context.
    """
    matcher = SequenceMatcher(None, without_context, with_context, autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind == "equal":
            continue
        removed, added = end - start, new_end - new_start
        if max(removed, added) > MAX_CHANGED_WORDS or abs(removed - added) > MAX_LENGTH_CHANGE:
            return False
    return True
