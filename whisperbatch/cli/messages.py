"""Messages in the words of the command line: with flags, and with what to type instead."""

import re
from collections.abc import Iterable
from typing import Any

from whisperbatch.cli.flags import as_flag
from whisperbatch.errors import WhisperBatchError
from whisperbatch.options import device_hint, hint_for, spell_options


def message_of(error: WhisperBatchError) -> str:
    """Return the message of an error with flags: "without --diarize", "--beam-size 0"."""
    return error.spelled(as_flag)


def usage_message(error: Any, commands: Iterable[Any]) -> str:  # noqa: ANN401 - Typer does not export their types
    """Return the message of a usage error, with what to type instead.

    Typer suggests flags with similar letters: --beam-size for --diarize.

    Args:
        error: of Typer.
        commands: of the program.
    """
    flag, context = getattr(error, "option_name", ""), error.ctx
    message = str(error.format_message()).replace("Value error, ", "")
    argument = getattr(getattr(error, "param", None), "name", "")
    if hasattr(error, "possibilities"):  # there is no such option
        hint = hint_for(flag, _flags_of(context), as_flag, command_line=True)
        return f"{error.message}; {hint or f'{context.command_path} --help lists all options'}"
    if flag:  # an option without its value, or with a value that it does not take
        parameters = [each for command in commands for each in command.params]
        text = next((each.help for each in parameters if flag in each.opts), "")
        return f"{message} {text.partition('. ')[0]}".strip()
    if argument == "inputs":
        return f"{message} Give a recording: whisperbatch talk.mp3"
    if argument == "device" and (given := re.search("'([^']*)' is", message)):
        hint = spell_options(device_hint(given[1]), as_flag)
        return f"{message.removesuffix('.')}; {hint}" if hint else message
    return message


def _flags_of(context: Any) -> set[str]:  # noqa: ANN401 - Typer does not export its type
    """Return the long flags of a command, as keywords."""
    return {
        spelling[2:].replace("-", "_")
        for parameter in context.command.params
        for spelling in (*parameter.opts, *parameter.secondary_opts)
        if spelling.startswith("--")
    }
