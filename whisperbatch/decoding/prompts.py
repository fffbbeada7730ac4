"""Prompts: the context of a row, with hotwords, initial prompt and previous text, and its prefix.

<|startofprev|> hotwords initial_prompt previous text   <|startoftranscript|> ... prefix
'------------------ context --------------------'       '-- language, task --'
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from whisperbatch.decoding.tokenizer import WhisperTokenizer
from whisperbatch.errors import OptionError
from whisperbatch.options import MAX_NEW_TOKENS, Options

DECODER_TOKENS: Final = 2 * MAX_NEW_TOKENS  # tokens that Whisper's decoder can hold
START_TOKENS: Final = 4  # start of transcript, language, task, no timestamps


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
        # the decoder also holds <|startofprev|>, START_TOKENS and the text of the row
        self._room = DECODER_TOKENS - MAX_NEW_TOKENS - START_TOKENS - 1 - len(self._prefix)
        if self._room < len(self._fixed):
            names = ("hotwords", "initial_prompt", "prefix")
            raise OptionError(
                f"{' and '.join(name for name in names if getattr(options, name))}: "
                f"{len(self._fixed) + len(self._prefix)} tokens, but only "
                f"{DECODER_TOKENS - MAX_NEW_TOKENS - START_TOKENS - 1} fit; shorten the text"
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
