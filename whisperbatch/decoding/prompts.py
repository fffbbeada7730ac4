"""What a row is decoded as the continuation of.

<|startofprev|> hotwords initial_prompt previous text   <|startoftranscript|> ... prefix
'------------------ before -------------------------'   '-- language, task --'
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from whisperbatch.decoding.tokenizer import WhisperTokenizer
from whisperbatch.errors import OptionError
from whisperbatch.options import MOST_TOKENS, DecodeOptions

CONTEXT: Final = 2 * MOST_TOKENS  # tokens that Whisper's decoder holds
START: Final = 4  # start of transcript, language, task, no timestamps


@dataclass(frozen=True, slots=True)
class Context:
    """The text around a row's start of transcript, as token ids.

    Attributes:
        before: starts with <|startofprev|>, or empty.
        prefix: that the row's text begins with.
    """

    before: tuple[int, ...] = ()
    prefix: tuple[int, ...] = ()


NOTHING: Final = Context()


class Prompts:
    """The contexts of a run.

    Raises:
        OptionError: an initial prompt, hotwords or a prefix are too long, or hold tokens that the
            model has not.
    """

    def __init__(self, options: DecodeOptions, vocabulary: WhisperTokenizer) -> None:
        self._vocabulary = vocabulary
        given = options.initial_prompt
        if isinstance(given, str):
            initial = vocabulary.encode(given)
        else:
            initial = list(given or ())
            for token in initial:
                if token >= vocabulary.end_of_text:
                    raise OptionError(f"initial_prompt: {token} is not a token of text")
        hotwords = vocabulary.encode(options.hotwords) if options.hotwords else []
        self._given = (*hotwords, *initial)
        self._prefix = tuple(vocabulary.encode(options.prefix)) if options.prefix else ()
        # <|startofprev|>, the row's start and its text must fit beside them
        self._room = CONTEXT - MOST_TOKENS - START - 1 - len(self._prefix)
        if self._room < len(self._given):
            named = [n for n in ("hotwords", "initial_prompt", "prefix") if getattr(options, n)]
            raise OptionError(
                f"{' and '.join(named)}: {len(self._given) + len(self._prefix)} tokens, and "
                f"{CONTEXT - MOST_TOKENS - START - 1} fit; shorten the text"
            )

    def context(self, previous: Sequence[int] = (), *, first: bool = False) -> Context:
        """Of one row.

        Args:
            previous: text tokens of the chunk before it; the last of them that fit are taken.
            first: the row begins its recording.
        """
        room = self._room - len(self._given)
        before = (*self._given, *(previous[-room:] if room else ()))
        return Context(
            (self._vocabulary.start_of_previous, *before) if before else (),
            self._prefix if first else (),
        )
