"""Messages in the words of the command line: with flags, and with what to type instead."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from whisperbatch.cli.flags import as_flag, own_spelling
from whisperbatch.errors import WhisperBatchError
from whisperbatch.options import device_hint, hint_for, spell_options


def message_of(error: WhisperBatchError) -> str:
    """Return the message of an error with flags: "without --diarize", "--beam-size 0"."""
    return error.spelled(as_flag)


def usage_messages(error: Any, commands: Iterable[Any], arguments: Sequence[str]) -> list[str]:  # noqa: ANN401 - Typer does not export their types
    """Return the messages of a usage error: one for each flag that there is not.

    Typer names the first of them only, and suggests flags with similar letters: --beam-size for
    --diarize.

    Args:
        error: of Typer.
        commands: of the program.
        arguments: of the program, as they were typed.
    """
    if not hasattr(error, "possibilities"):  # another error
        return [_usage_message(error, commands)]
    unknown = _unknown_flags(error.ctx, arguments)
    unknown.setdefault(error.option_name, error.option_name)
    names = _flags_of(error.ctx)
    lists_all = f"{error.ctx.command_path} --help lists all options"
    return [
        f"No such option: {typed}; {hint_for(flag, names, as_flag, command_line=True) or lists_all}"
        for flag, typed in unknown.items()
    ]


def _unknown_flags(context: Any, arguments: Sequence[str]) -> dict[str, str]:  # noqa: ANN401 - as above
    """Return the flags that a command does not have, in our spelling, and as they were typed."""
    takes_value = {
        name: not getattr(parameter, "is_flag", False)
        for parameter in context.command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    unknown: dict[str, str] = {}
    is_value = False
    for argument in arguments:
        if argument == "--":
            break
        typed, equals, _ = argument.partition("=")
        flag = own_spelling(typed)
        if is_value:
            is_value = False
        elif flag.startswith("--") and flag not in {*takes_value, "--help"}:
            unknown.setdefault(flag, typed)
        else:
            is_value = takes_value.get(flag, False) and not equals
    return unknown


def _usage_message(error: Any, commands: Iterable[Any]) -> str:  # noqa: ANN401 - as above
    """Return the message of a usage error, with what to type instead.

    Args:
        error: of Typer.
        commands: of the program.
    """
    flag = getattr(error, "option_name", "")
    message = str(error.format_message()).replace("Value error, ", "")
    argument = getattr(getattr(error, "param", None), "name", "")
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
