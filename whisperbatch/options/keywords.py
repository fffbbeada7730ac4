"""Options as keyword arguments: the `Options` value made from them."""

from dataclasses import fields, replace

from typing_extensions import Unpack

from whisperbatch.errors import OptionError
from whisperbatch.options.groups import DETECTION_OPTIONS
from whisperbatch.options.hints import hint_for
from whisperbatch.options.keyword_types import DetectionKeywords, OptionKeywords
from whisperbatch.options.options import Options
from whisperbatch.text.messages import one_line


def for_detection(**keywords: Unpack[DetectionKeywords]) -> Options:
    """Return the options of a language detection.

    Raises:
        OptionError: an option is unknown, wrong, or has no effect on `detect_language`.
    """
    names = {field.name for field in fields(Options)}
    for name in keywords:
        if name in names and name not in DETECTION_OPTIONS:
            raise OptionError(f"{name} has no effect on detect_language; leave it out")
    return resolve(None, **keywords)


def resolve(options: Options | None, **keywords: Unpack[OptionKeywords]) -> Options:
    """Return `options` (None: the defaults) with the fields that `keywords` name replaced.

    Raises:
        OptionError: an option is unknown or wrong, or `options` is not an Options value.
    """
    if options is not None and not issubclass(type(options), Options):
        raise OptionError(f"options must be an Options value, not {type(options).__name__}")
    names = {field.name for field in fields(Options)}
    for name in keywords:
        if name not in names:
            hint = hint_for(name) or "help(whisperbatch.Options) lists all options"
            raise OptionError(f"{one_line(name)} is not an option; {hint}")
    return replace(options or Options(), **keywords)
