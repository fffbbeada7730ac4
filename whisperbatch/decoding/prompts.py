"""Prompts: the context of a row, with hotwords, initial prompt and previous text, and its prefix.

<|startofprev|> hotwords initial_prompt previous text   <|startoftranscript|> ... prefix
'------------------ context --------------------'       '-- language, task --'

Second decoding of chunks, with the text of the previous chunks as context.

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
from typing import Final

from whisperbatch.decoding.tokenizer import WhisperTokenizer
from whisperbatch.errors import OptionError
from whisperbatch.options import MAX_NEW_TOKENS, Options
from whisperbatch.protocols import Engine
from whisperbatch.recording import RecordingState

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
                        f"initial_prompt: {token} is not a text token; "
                        f"text tokens are below {vocabulary.end_of_text}"
                    )
        hotwords = vocabulary.encode(options.hotwords) if options.hotwords else []
        self._fixed = (*hotwords, *initial)
        self._prefix = tuple(vocabulary.encode(options.prefix)) if options.prefix else ()
        self._room = GIVEN_TOKENS - len(self._prefix)
        if self._room < len(self._fixed):
            names = ("hotwords", "initial_prompt", "prefix")
            raise OptionError(
                f"{' and '.join(name for name in names if getattr(options, name))}: "
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
