"""Messages in the words of the command line: with flags, and with what to type instead."""

import re
from typing import Any

from whisperbatch.cli.flags import as_flag
from whisperbatch.errors import WhisperBatchError, spell_options
from whisperbatch.options import device_hint, hint_for


def message_of(error: WhisperBatchError) -> str:
    """Return the message of an error with flags: "without --diarize", "--beam-size 0"."""
    return error.spelled(as_flag)


def usage_message(error: Any) -> str:  # noqa: ANN401 - Typer does not export its types
    """Return the message of a usage error, with what to type instead.

    Typer suggests flags with similar letters: --beam-size for --diarize.
    """
    context, parameter = error.ctx, getattr(error, "param", None)
    name = getattr(error, "option_name", "")
    if context is None:
        return str(error.format_message())
    if hasattr(error, "possibilities"):  # there is no such option
        hint = hint_for(name, _flags_of(context), as_flag, command_line=True)
        return f"{error.message}; {hint or f'{context.command_path} --help lists all options'}"
    if name:  # an option without its value, or with a value that it does not take
        described = [each for each in context.command.params if name in each.opts]
        help_text = next((each.help for each in described if each.help), "")
        return f"{error.message} {help_text.partition('. ')[0]}".strip()
    message = str(error.format_message())
    if getattr(parameter, "name", "") in {"inputs", "sources"}:  # no recording is given
        return f"{message} Give a recording: {context.command_path} talk.mp3"
    hint = ""
    if getattr(parameter, "name", "") == "device" and (given := re.search("'([^']*)' is", message)):
        hint = device_hint(given[1])
    message = message.replace("Value error, ", "").removesuffix(".")
    return f"{message}; {spell_options(hint, as_flag)}" if hint else message


def _flags_of(context: Any) -> set[str]:  # noqa: ANN401 - Typer does not export its type
    """Return the long flags of a command, as keywords."""
    return {
        spelling[2:].replace("-", "_")
        for parameter in context.command.params
        for spelling in (*parameter.opts, *parameter.secondary_opts)
        if spelling.startswith("--")
    }
