"""The clients of the server: names, keys and limits, from the file of keys.

    # key        settings of its client, in any order
    kJ2n8xQ...
    p81LmZq...   name=alice requests=8 requests_per_minute=60 audio_per_day=10h priority=2

name                 in logs and figures; by default "key" and the number of the line
requests             number of requests that are uploaded, wait or are transcribed
requests_per_minute  number of requests that may begin within 60 s
audio_per_day        length of the recordings of a day (UTC): seconds, or a number with s, m or h
priority             share of the places and of the engine, relative to other clients

Lines with # are comments. Several keys may have the same name: they are one client.
"""

import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Final

import whisperbatch as wb

NAME: Final = re.compile(r"[\w.@+-]{1,64}")
AMOUNT: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smh]?)", re.ASCII)
SECONDS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
MAX_PRIORITY: Final = 100.0  # as in `Transcriber.submit`
MIN_PRIORITY: Final = 0.01
SECRET_PREFIX: Final = "ek_"  # noqa: S105 - of the short-lived keys of live sessions


@dataclass(frozen=True, slots=True)
class Client:
    """A client, and its limits.

    Attributes:
        name: in logs and figures. The limits count what all requests with this name do.
        has_key: whether the name is that of a key; otherwise it is an address.
        requests: number of requests that are uploaded, wait or are transcribed; None for the limit
            of the server.
        requests_per_minute: number of requests that may begin within 60 s; None for no limit.
        audio_per_day: seconds of audio that are transcribed in a day (UTC); None for no limit.
        priority: share of the places and of the engine, relative to other clients.
    """

    name: str = ""
    has_key: bool = False
    requests: int | None = None
    requests_per_minute: int | None = None
    audio_per_day: float | None = None
    priority: float = 1.0


SETTINGS: Final = tuple(field.name for field in fields(Client) if field.name != "has_key")


class Keys:
    """The keys that clients may send; none if no key is needed.

    Args:
        clients: client of each key.
    """

    def __init__(self, clients: Mapping[str, Client]) -> None:
        self._clients = [(key.encode(), client) for key, client in clients.items()]

    def __bool__(self) -> bool:
        return bool(self._clients)

    def find(self, given: bytes) -> Client | None:
        """Return the client with a key, as it was sent; None if there is none.

        All keys are compared, so that the time does not depend on the key.
        """
        found = None
        for key, client in self._clients:
            if hmac.compare_digest(given, key):
                found = client
        return found


def read_keys(lines: Iterable[str], place: str) -> dict[str, Client]:
    """Return the clients of a file of keys.

    Args:
        lines: of the file.
        place: name of the file in messages.

    Returns:
        The client of each key.

    Raises:
        OptionError: a line is wrong. The message names the line, and never contains its key.
    """
    found: dict[str, Client] = {}
    by_name: dict[str, Client] = {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        key, *settings = words
        try:
            client = _client_of(settings, f"key{number}")
        except wb.OptionError as error:
            raise wb.OptionError(f"{place}, line {number}: {error}") from error
        if key in found:
            raise wb.OptionError(f"{place}, line {number}: this key is also in an earlier line")
        if by_name.setdefault(client.name, client) != client:
            raise wb.OptionError(
                f"{place}, line {number}: the limits of {client.name} differ from an earlier line"
            )
        found[key] = client
    return found


def _client_of(settings: Iterable[str], name: str) -> Client:
    """Return the client that the words after a key describe.

    Args:
        settings: the words.
        name: if the words give none.

    Raises:
        OptionError: a word is wrong. A word without "=" may be part of a key: it is not shown.
    """
    given: dict[str, str] = {"name": name}
    seen = set[str]()
    for word in settings:
        setting, equals, value = word.partition("=")
        if not equals or setting not in SETTINGS:
            raise wb.OptionError(f"after the key, settings are given: {'=, '.join(SETTINGS)}=")
        if setting in seen:
            raise wb.OptionError(f"{setting} is given twice")
        seen.add(setting)
        given[setting] = value
    if not NAME.fullmatch(given["name"]):
        raise wb.OptionError("name has letters, digits and . _ @ + - only, at most 64")
    priority = _amount(given.get("priority", "1"), "priority", ("",))
    if not MIN_PRIORITY <= priority <= MAX_PRIORITY:
        raise wb.OptionError(f"priority must be from {MIN_PRIORITY:g} to {MAX_PRIORITY:g}")
    return Client(
        given["name"],
        has_key=True,
        requests=_count(given, "requests"),
        requests_per_minute=_count(given, "requests_per_minute"),
        audio_per_day=_amount(given["audio_per_day"], "audio_per_day", tuple(SECONDS))
        if "audio_per_day" in given
        else None,
        priority=priority,
    )


def _count(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    text = given[name]
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text)):  # noqa: PLR2004 - digits
        raise wb.OptionError(f"{name} must be a whole number from 1")
    return int(text)


def _amount(text: str, name: str, units: tuple[str, ...]) -> float:
    """Return a number, in seconds if it has a unit."""
    match = AMOUNT.fullmatch(text)
    if not match or match[2] not in units or not float(match[1]):
        example = (
            "a number above 0, such as 0.5" if units == ("",) else "a time such as 3600 or 10h"
        )
        raise wb.OptionError(f"{name} must be {example}")
    return float(match[1]) * SECONDS[match[2]]
