"""Recordings that a request names by a URL, for servers with the setting `allow_urls`.

    url ──> allowed? ──> addresses of the host ──> all public? ──> connect to one of them ──> Spool
     ^                                                                  │
     └───────────────────────────── redirect ───────────────────────────┘

The host is resolved once, and the connection is made to an address that was checked: a host that
changes its address in between (DNS rebinding) gains nothing. Errors name no addresses. The
recording is written to disk, with the limits of an upload; FFmpeg never opens a URL.

h11 is the parser of HTTP that Uvicorn brings.
"""

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import Awaitable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

import h11

import whisperbatch as wb
from whisperbatch.server.errors import ApiError, invalid
from whisperbatch.server.submitting import before
from whisperbatch.server.uploads import (
    FILE,
    Form,
    Spool,
    base_name,
    disk_full,
    in_time,
    new_spool,
    too_large,
)
from whisperbatch.text import shown

if TYPE_CHECKING:
    from whisperbatch.server.settings import ServerSettings

T = TypeVar("T")

URL: Final = "url"
"""The field of a form."""
SCHEMES: Final = {"http": 80, "https": 443}
CHARACTERS: Final = re.compile(r"[A-Za-z0-9\-._~:/?\[\]!$&'()*+,;=%]+")
"""Of a URL, in RFC 3986; without the marks of users and fragments."""
HOST: Final = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)*|\[[0-9a-f:.]+\]")
PATTERN: Final = re.compile(r"(\*|(\*\.)?[a-z0-9-]+(\.[a-z0-9-]+)*|\[[0-9a-f:.]+\])")
MAX_URL: Final = 4096  # characters
MAX_REDIRECTS: Final = 5
REDIRECTS: Final = (301, 302, 303, 307, 308)
OK: Final = 200
MAX_HEADERS: Final = 65_536  # bytes
PIECE: Final = 65_536  # bytes
ANY_HOST: Final = "*"
IPV6: Final = 6
INNER: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            *("192.0.0.0/24", "192.88.99.0/24"),  # protocols; some versions of Python know fewer
            "168.63.129.16",  # the inner server of Azure's machines looks public
            *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),  # protocols, examples, 6to4
        ),
    )
)
"""Networks that are not public, beside those that `ipaddress` knows."""
UNICAST: Final = ipaddress.ip_network("2000::/3")
"""All public addresses of IPv6. Those that contain an address of IPv4 are outside, or in `INNER`:
the network decides where they lead."""


@dataclass(frozen=True, slots=True)
class Target:
    """A part of URLs: an allowed prefix, or a URL itself.

    Attributes:
        scheme: "http" or "https".
        host: in small letters; in a prefix perhaps with "*" at its start.
        port: of the server.
        path: with the query.
    """

    scheme: str
    host: str
    port: int
    path: str

    def allows(self, other: "Target") -> bool:
        """Return whether this prefix allows a URL."""
        if (self.scheme, self.port) != (other.scheme, other.port):
            return False
        if self.host.startswith("*."):
            fits = other.host.endswith(self.host[1:])
        else:
            fits = self.host in (ANY_HOST, other.host)
        folder = self.path.removesuffix("/")
        return fits and (other.path in (self.path, folder) or other.path.startswith(f"{folder}/"))


def prefix_of(text: str) -> Target:
    """Return the prefix that a part of the setting `allow_urls` names.

    Raises:
        OptionError: it is no prefix of URLs.
    """
    wrong = wb.OptionError(
        f"allow_urls: {shown(text)} is no prefix of URLs, such as https://example.com/ or "
        "https://*.example.org/media/"
    )
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise wrong from error
    host, path = _host_of(parts), parts.path or "/"
    if parts.scheme not in SCHEMES or not PATTERN.fullmatch(host) or "@" in parts.netloc:
        raise wrong
    if parts.query or parts.fragment or "*" in path or _decoded(path) != path:
        raise wrong
    return Target(parts.scheme, host, port or SCHEMES[parts.scheme], path)


def target_of(url: str) -> Target:
    """Return the parts of a URL that a client gave.

    Only plain forms are accepted: programs understand unusual forms in different ways.

    Raises:
        ApiError: the URL has another form.
    """
    if len(url) > MAX_URL or not CHARACTERS.fullmatch(url):
        raise _refused("must be a plain URL: no users, fragments, spaces or other characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _refused("is not a URL") from error
    if parts.scheme not in SCHEMES or not parts.netloc:
        raise _refused("must begin with http:// or https://")
    host = _host_of(parts)
    if not HOST.fullmatch(host) or port == 0:
        raise _refused("has no host name")
    steps = re.split(r"[/\\]", _decoded(parts.path))
    if ".." in steps or "." in steps:
        raise _refused("must not have the steps . and ..")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, host, port or SCHEMES[parts.scheme], path)


def _host_of(parts: SplitResult) -> str:
    """Return the host in small letters; an IPv6 address with its brackets."""
    host = (parts.hostname or "").lower()
    return f"[{host}]" if parts.netloc.startswith("[") else host


def _decoded(path: str) -> str:
    """Return a path without any encoding, however often it is encoded."""
    while (decoded := unquote(path)) != path:
        path = decoded
    return path


def is_public(address: str) -> bool:
    """Return whether an IP address is one of the public internet."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if any(ip in network for network in INNER) or (ip.version == IPV6 and ip not in UNICAST):
        return False
    inner = ip.is_private or ip.is_loopback or ip.is_link_local or ip.is_unspecified
    return ip.is_global and not (inner or ip.is_multicast or ip.is_reserved)


class Downloads:
    """Reads the recordings that requests name by a URL.

    Args:
        settings: of the server.

    Raises:
        OptionError: the setting `allow_urls` is wrong.
    """

    def __init__(self, settings: "ServerSettings") -> None:
        self._settings = settings
        self._prefixes = [prefix_of(text) for text in settings.allowed_urls]

    @property
    def enabled(self) -> bool:
        """Whether the settings allow any URL."""
        return bool(self._prefixes)

    async def complete(self, form: Form, gone: "asyncio.Future[None]") -> None:
        """Read the recording that the field `url` names; check that a form has a recording.

        Args:
            form: that has been received. It then has a file, and no field `url`.
            gone: `disconnect` of the request.

        Raises:
            ApiError: there is no recording, or it is empty; or see `fetch`.
        """
        urls = [url for url in form.fields.pop(URL, []) if url]
        if urls and not self.enabled:
            raise invalid(
                "url is refused: this server opens no URLs (setting allow_urls)",
                URL,
                "unsupported_parameter",
            )
        if len(urls) > 1 or (urls and form.file):
            raise invalid("send one recording: a file, or one url", URL)
        if urls:
            form.file = await self.fetch(urls[0], gone)
        if form.file is None or not form.file.complete:
            raise invalid("file is missing: send the recording as a file", FILE, "missing")
        if not form.file.size:
            raise invalid("file is empty", FILE, "invalid_audio")

    async def fetch(self, url: str, gone: "asyncio.Future[None]", param: str = URL) -> Spool:
        """Read a recording.

        Args:
            url: as the client gave it.
            gone: `disconnect` of the request.
            param: name of the field, for errors.

        Returns:
            The recording, complete.

        Raises:
            ApiError: the URL is not allowed, the recording cannot be read or is too large, or the
                client is gone.
        """
        try:
            spool = await before(gone, self._fetch(url), self._settings.upload_timeout)
        except ApiError as error:
            error.param = error.param and param
            raise
        if spool is None:
            raise _too_slow()
        return spool

    async def _fetch(self, url: str) -> Spool:
        for _ in range(MAX_REDIRECTS + 1):
            target = self._check(url)
            reader, writer = await self._connect(target)
            try:
                answer = _Answer(reader, target)
                writer.write(answer.request())
                status, location = await self._timed(answer.head())
                if status == OK:
                    return await self._store(
                        answer, base_name(unquote(target.path.partition("?")[0]))
                    )
            except (OSError, h11.RemoteProtocolError) as error:
                raise _failed("cannot be read: the connection broke") from error
            finally:
                writer.transport.abort()
            if status not in REDIRECTS or location is None:
                raise _failed(f"cannot be read: its server answers with the status {status}")
            url = urljoin(url, location)
        raise _failed(f"has more than {MAX_REDIRECTS} redirects")

    def _check(self, url: str) -> Target:
        """Return the parts of a URL.

        Raises:
            ApiError: the URL is not allowed.
        """
        target = target_of(url)
        if not any(prefix.allows(target) for prefix in self._prefixes):
            raise _refused("is not one that this server allows")
        return target

    async def _connect(self, target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to an address of a host, if all addresses of the host are public.

        Raises:
            ApiError: there are no addresses, one is not public, or no connection can be made.
        """
        try:
            addresses = await self._timed(resolve(target.host.strip("[]"), target.port))
        except (OSError, UnicodeError) as error:
            raise _failed("cannot be read: its host is not known") from error
        if not addresses or not all(map(is_public, addresses)):
            raise _refused("is not at a public address")
        secure = target.scheme == "https"
        for address in addresses:
            try:
                return await self._timed(
                    asyncio.open_connection(
                        address,
                        target.port,
                        ssl=ssl.create_default_context() if secure else None,
                        server_hostname=target.host.strip("[]") if secure else None,
                    )
                )
            except ssl.SSLError as error:
                raise _failed("cannot be read: its certificate is not valid") from error
            except OSError:
                continue
        raise _failed("cannot be read: its server cannot be reached")

    async def _timed(self, work: Awaitable[T]) -> T:
        """Wait for a step before the body.

        Raises:
            ApiError: it takes too long.
        """
        try:
            return await asyncio.wait_for(work, self._settings.idle_timeout)
        except asyncio.TimeoutError as error:
            raise _too_slow() from error

    async def _store(self, answer: "_Answer", name: str) -> Spool:
        """Write the body of an answer to disk."""
        settings = self._settings
        spool = new_spool(name, settings.upload_directory)
        try:
            async with aclosing(in_time(answer.read, settings.upload_limits)) as body:
                async for data in body:
                    _write(spool, data, int(settings.max_upload))
            spool.finish()
        except BaseException:
            spool.close()
            raise
        return spool


def _write(spool: Spool, data: bytes, max_bytes: int) -> None:
    if spool.size + len(data) > max_bytes:
        raise too_large(max_bytes)
    try:
        spool.write(data)
    except OSError as error:
        raise disk_full(error) from error


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host.

    Raises:
        OSError: the host is not known.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class _Answer:
    """The answer of a server to one request.

    Args:
        reader: of the connection.
        target: what is requested.
    """

    def __init__(self, reader: asyncio.StreamReader, target: Target) -> None:
        self._reader, self._target = reader, target
        self._connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEADERS)

    def request(self) -> bytes:
        """Return the bytes of the request."""
        target = self._target
        port = "" if target.port == SCHEMES[target.scheme] else f":{target.port}"
        headers = [
            ("Host", f"{target.host}{port}"),
            ("User-Agent", "whisperbatch"),
            ("Accept", "*/*"),
            ("Accept-Encoding", "identity"),
            ("Connection", "close"),
        ]
        request = h11.Request(method="GET", target=target.path, headers=headers)
        return b"".join(self._connection.send(e) or b"" for e in (request, h11.EndOfMessage()))

    async def head(self) -> tuple[int, str | None]:
        """Return the status, and where a redirect leads.

        Raises:
            ApiError: the body is compressed.
            RemoteProtocolError: the answer is not HTTP.
        """
        event = await self._event()
        while isinstance(event, h11.InformationalResponse):
            event = await self._event()
        if not isinstance(event, h11.Response):
            raise _failed("cannot be read: the connection broke")
        headers = {name.decode(): value.decode("latin-1") for name, value in event.headers}
        if headers.get("content-encoding", "identity") != "identity":
            raise _failed("cannot be read: its server compresses the answer")
        return event.status_code, headers.get("location")

    async def read(self) -> bytes:
        """Return the next bytes of the body; none at its end.

        Raises:
            RemoteProtocolError: the connection ends before the body does.
        """
        event = await self._event()
        return bytes(event.data) if isinstance(event, h11.Data) else b""

    async def _event(self) -> object:
        while (event := self._connection.next_event()) is h11.NEED_DATA:
            self._connection.receive_data(await self._reader.read(PIECE))
        return event


def _refused(reason: str) -> ApiError:
    return ApiError(400, f"url {reason}", param=URL, code="url_refused", may_retry=False)


def _failed(reason: str) -> ApiError:
    return ApiError(400, f"url {reason}", param=URL, code="url_failed")


def _too_slow() -> ApiError:
    return ApiError(408, "url: its server is too slow", param=URL, code="upload_timeout")
