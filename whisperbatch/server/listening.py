"""The sockets that the server listens on. They are opened before a model is loaded.

host="127.0.0.1"        IPv4
host="127.0.0.1,::1"    IPv4 and IPv6, at the same port
host="::"               IPv6 and IPv4
uds="/run/speech.sock"  a file; its permissions are those that the umask leaves
"""

import errno
import os
import socket
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import whisperbatch as wb
from whisperbatch.server.settings import ServerSettings

BACKLOG: Final = 2048  # connections that wait to be accepted
ANY_ADDRESS: Final = "::"


def listen(settings: ServerSettings) -> list[socket.socket]:
    """Open the sockets.

    Args:
        settings: host and port, or uds.

    Returns:
        Sockets that accept connections.

    Raises:
        OptionError: an address does not exist, or is in use.
    """
    if settings.uds:
        return [_listen_on_file(settings.uds)]
    opened: list[socket.socket] = []
    port = settings.port
    try:
        for family, address in _found(settings.hosts, port):
            opened.append(_open(family, (address[0], port, *address[2:]), settings.hosts))
            port = opened[0].getsockname()[1]  # the same for all, also if the system chooses it
    except OSError as error:
        for each in opened:
            each.close()
        if error.errno == errno.EADDRINUSE:
            raise wb.OptionError(
                f"port {port} is in use: stop the other program, or give another port"
            ) from error
        raise wb.OptionError(f"cannot listen on {settings.host}, port {port}: {error}") from error
    return opened


def addresses(settings: ServerSettings, opened: Iterable[socket.socket]) -> Iterator[str]:
    """Yield the addresses of sockets, for the log."""
    scheme = "https" if settings.tls_cert else "http"
    for each in opened:
        if settings.uds:
            yield f"the Unix socket {settings.uds}"
            continue
        host, port = each.getsockname()[:2]
        yield f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _found(
    hosts: Iterable[str], port: int
) -> Iterator[tuple[socket.AddressFamily, tuple[Any, ...]]]:
    seen = set[tuple[Any, ...]]()
    for host in hosts:
        flags = socket.AI_PASSIVE
        for family, *_, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=flags
        ):
            if address not in seen:
                seen.add(address)
                yield family, address


def _open(
    family: socket.AddressFamily, address: tuple[Any, ...], hosts: tuple[str, ...]
) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # on Windows, two programs could then use the port
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            both = hosts == (ANY_ADDRESS,)
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not both)
        opened.bind(address)
        opened.listen(BACKLOG)
    except OSError:
        opened.close()
        raise
    return opened


def _listen_on_file(path: Path) -> socket.socket:
    """Open a Unix socket; replace that of a server that does not run any more.

    Raises:
        OptionError: the path cannot be used, or another server listens on it.
    """
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.exists() and not _is_in_use(path):
            path.unlink()
        opened.bind(str(path))
        opened.listen(BACKLOG)
    except OSError as error:
        opened.close()
        raise wb.OptionError(f"uds={path} cannot be used: {error}") from error
    return opened


def _is_in_use(path: Path) -> bool:
    """Return whether a file is no socket, or a server listens on it."""
    if not stat.S_ISSOCK(path.stat().st_mode):
        return True
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        return other.connect_ex(str(path)) == 0
