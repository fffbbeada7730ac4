"""Options checked and completed for the model of one engine."""

import logging
from dataclasses import replace
from typing import Final

from whisperbatch.decoding.prompts import Prompts, WhisperTokenizer
from whisperbatch.errors import OptionError
from whisperbatch.options import LANGUAGE_DETECTION_OPTIONS, Options, checks
from whisperbatch.protocols import Engine, EngineTraits
from whisperbatch.runtimes.machine import available_cpus

log = logging.getLogger(__name__)

MIN_TEXT_TOKENS: Final = 10  # digits alone are a sensible vocabulary


def options_for(engine: Engine, options: Options) -> Options:
    """Return the options for this engine's model.

    The engine chooses the batch size if it is None, and its device the number of readers: the
    result always has both. An English-only model gets `language="en"` and the defaults of
    language detection.

    Raises:
        OptionError: the model does not support an option.
    """
    vocabulary = WhisperTokenizer(engine.tokenizer, multilingual=engine.is_multilingual)
    Prompts(options, vocabulary)
    _check_suppressed(engine, options, vocabulary)
    traits = EngineTraits.of(engine)
    if options.batch_size is None:
        options = replace(options, batch_size=traits.default_batch_size(options.hypotheses))
        log.debug("model %s: batch size %d", engine.name, options.batch_size)
    if options.readers is None:
        options = replace(options, readers=default_readers(on_gpu=traits.on_gpu))
    if engine.is_multilingual:
        for name, codes in (("language", (options.language,)), ("languages", options.languages)):
            for code in filter(None, codes):
                if not vocabulary.has_language(code):
                    instead = ", or 'zh' for Chinese" if code == "yue" else ""
                    raise OptionError(
                        f"`{name}={code!r}`: model {engine.name} does not know this language; "
                        f"use a newer model such as 'large-v3'{instead}"
                    )
        _check_translation(engine, options)
        return options
    refused = {
        f"language={options.language!r}": options.language not in (None, "en"),
        "languages": bool(options.languages),
        "multilingual": options.multilingual,
        "task='translate'": options.task == "translate",
    }
    if given := next((text for text, is_given in refused.items() if is_given), None):
        raise OptionError(
            f"`{given}`: model {engine.name} is English-only; use a multilingual model such as "
            "'base'"
        )
    # no language is detected, so the options of language detection have no effect
    defaults = {name: checks.default(Options, name) for name in LANGUAGE_DETECTION_OPTIONS}
    return replace(options, language="en", **defaults)  # type: ignore[arg-type]  # mixed types


def default_readers(*, on_gpu: bool) -> int:
    """Return the number of sections that are read at the same time.

    On a CPU, the model needs the cores, and one reader is seldom too slow.
    """
    cpus = available_cpus()
    readers, most = (cpus // 2, 8) if on_gpu else (cpus // 8, 4)
    return min(max(readers, 1), most)


def _check_suppressed(engine: Engine, options: Options, vocabulary: WhisperTokenizer) -> None:
    """Refuse tokens that the model does not have, and tokens that every text needs."""
    suppressed = set(options.suppress_tokens)
    if (largest := max(suppressed, default=0)) >= vocabulary.size:
        raise OptionError(
            f"`suppress_tokens`: model {engine.name} has no token {largest}; "
            f"the last token is {vocabulary.size - 1}"
        )
    if vocabulary.end_of_text in suppressed:
        raise OptionError(
            f"`suppress_tokens` contains {vocabulary.end_of_text}, the end of the text, without "
            "which no text ends; leave it out"
        )
    text_tokens = sum(0 <= token < vocabulary.end_of_text for token in suppressed)
    if vocabulary.end_of_text - text_tokens < MIN_TEXT_TOKENS:
        raise OptionError(
            f"`suppress_tokens` contains {text_tokens} of the {vocabulary.end_of_text} tokens of "
            f"text; leave at least {MIN_TEXT_TOKENS}"
        )


def _check_translation(engine: Engine, options: Options) -> None:
    """Refuse translation by a multilingual model that was not trained to translate."""
    if engine.can_translate:
        return
    for name, value in (
        ("task", "translate"),
        ("code_switching_output", "english"),
    ):
        if getattr(options, name) == value:
            raise OptionError(
                f"`{name}={value!r}`: model {engine.name} was trained for transcription only, as "
                "all turbo and distil models; use a model such as 'large-v3' or 'medium'"
            )
