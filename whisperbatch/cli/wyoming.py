"""The command `whisperbatch wyoming`: speech to text for Home Assistant."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import typer

import whisperbatch as wb
from whisperbatch.boundary import describe
from whisperbatch.cli.flags import DEFAULT_MODEL, Model, Verbose
from whisperbatch.cli.printing import ExitOnSignal, loading_status, print_note
from whisperbatch.dependencies import import_failure
from whisperbatch.errors import MissingExtraError, OptionError
from whisperbatch.live import LiveSettings
from whisperbatch.live.settings import live_options, split_keywords
from whisperbatch.text import shown

DEFAULT_URI: Final = "tcp://127.0.0.1:10300"
SCHEMES: Final = ("tcp", "unix")


@dataclass(frozen=True, slots=True, kw_only=True)
class WyomingArguments:
    """The arguments of the command: a flag for each field, and those of the last two."""

    uri: Annotated[
        str,
        typer.Option(
            "--uri",
            metavar="URI",
            help="Address of the server: tcp://0.0.0.0:10300 serves other machines, and "
            "unix:///run/asr a socket. Default: tcp://127.0.0.1:10300.",
            show_default=False,
        ),
    ] = DEFAULT_URI
    model: Model = DEFAULT_MODEL
    verbose: Verbose = False
    load_keywords: Mapping[str, Any]
    options: Mapping[str, Any]


def serve_wyoming(arguments: WyomingArguments) -> None:
    """Serve until Ctrl-C.

    Raises:
        MissingExtraError: the package wyoming is not installed.
        OptionError: an option is wrong, or has no effect, or the address cannot be used.
        WhisperBatchError: the model does not load.
    """
    try:
        from whisperbatch.cli.wyoming_server import serve  # noqa: PLC0415 - an extra
    except ImportError as error:
        message = import_failure(error, "pip install 'whisperbatch[wyoming]'")
        raise MissingExtraError(f"this command needs wyoming: {message}") from error
    settings, others = split_keywords(dict(arguments.options))
    LiveSettings(**settings)
    live_options(None, **others)
    _check(arguments.uri)
    with ExitOnSignal(lambda: None):
        with loading_status(arguments.model, print_note):
            asr = wb.load(arguments.model, **arguments.load_keywords)
        with asr:
            print_note(f"serving {arguments.model} at {arguments.uri}; Ctrl-C ends")
            try:
                asyncio.run(serve(asr, arguments.uri, arguments.model, arguments.options))
            except OSError as error:
                raise OptionError(f"--uri {arguments.uri}: {describe(error)}") from error


def _check(uri: str) -> None:
    """Refuse an address of another form; say if other machines can reach it.

    Raises:
        OptionError: the address has another form.
    """
    parts = urlsplit(uri)
    try:
        complete = parts.path if parts.scheme == "unix" else parts.hostname and parts.port
    except ValueError:  # no number, or too high
        complete = None
    if parts.scheme not in SCHEMES or not complete:
        raise OptionError(f"--uri {shown(uri)} is not of the form {DEFAULT_URI}")
    if parts.scheme == "tcp" and not _is_loopback(parts.hostname or ""):
        print_note(f"the protocol has no password: all machines that reach {uri} can use it")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
