"""The options as one engine's model takes them."""

from dataclasses import replace

from whisperbatch.decoding.prompts import Prompts
from whisperbatch.decoding.tokenizer import WhisperTokenizer
from whisperbatch.errors import OptionError
from whisperbatch.options import DETECTION, LanguageOptions, Options, checks
from whisperbatch.protocols import Engine


def options_for(engine: Engine, options: Options) -> Options:
    """The options as this engine will take them.

    Raises:
        OptionError: the model cannot honour one.
    """
    vocabulary = WhisperTokenizer(engine.tokenizer, multilingual=engine.is_multilingual)
    Prompts(options, vocabulary)
    for token in options.suppress_tokens:
        if token >= vocabulary.size:
            raise OptionError(
                f"suppress_tokens: model {engine.name} has no token {token}; "
                f"its last is {vocabulary.size - 1}"
            )
    if engine.is_multilingual:
        for name, codes in (("language", (options.language,)), ("languages", options.languages)):
            for code in filter(None, codes):
                if not vocabulary.knows(code):
                    raise OptionError(
                        f"{name}={code!r}: model {engine.name} does not know it; "
                        "use a newer model such as 'large-v3'"
                    )
        return options
    if options.language not in (None, "en"):
        raise OptionError(
            f"language={options.language!r}: model {engine.name} is English-only; "
            "use a multilingual model such as 'base'"
        )
    if options.languages or options.multilingual:
        named = "languages" if options.languages else "multilingual"
        raise OptionError(
            f"{named}: model {engine.name} is English-only; use a multilingual model such as 'base'"
        )
    if options.task == "translate":
        raise OptionError(
            f"task='translate': model {engine.name} is English-only; "
            "use a multilingual model such as 'base'"
        )
    # nothing is detected, so what says how has no effect
    usual = {name: checks.default(LanguageOptions, name) for name in DETECTION}
    return replace(options, language="en", **usual)  # type: ignore[arg-type]  # each its own
