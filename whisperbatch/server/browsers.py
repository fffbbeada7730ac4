"""Which web pages may send requests to a server without keys.

Any page that a user opens can send forms to a server on the user's machine: browsers ask no
permission for forms. Two headers, which pages cannot change, tell such requests apart:

Origin  names the page. It must be the server itself, or an origin that the settings allow.
Host    names the server. For a server that listens on this machine only, it must be an address, or
        a name that nobody can own in the public DNS. The owner of another name can point it at the
        server, so that the server is the origin of a page (DNS rebinding).

Programs such as curl send no origin, and the host that they connect to.
"""

import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from whisperbatch.server.errors import ApiError

PRIVATE: Final = (".localhost", ".internal")
"""Ends of names that are reserved; "host.docker.internal" is the machine of a container."""


class Browsers:
    """Decides which requests of browsers are answered.

    Args:
        origins: origins that are allowed, such as "https://example.com"; "*" allows all.
        local: whether the server listens on this machine only.
    """

    def __init__(self, origins: Iterable[str], *, local: bool) -> None:
        self._origins = {origin.lower().rstrip("/") for origin in origins}
        self._hosts = {urlsplit(origin).hostname for origin in self._origins}
        self._local = local

    def check(self, headers: Headers) -> None:
        """Check the origin and the host of a request.

        Raises:
            ApiError: the request is that of a page that is not allowed (403).
        """
        if "*" in self._origins:
            return
        host, origin = headers.get("host", "").lower(), headers.get("origin", "").lower()
        if self._local and not self._is_known(host):
            raise _refused(f"the host {host[:100]!r} is not this machine")
        if origin and origin not in self._origins and not _is_same(origin, host):
            raise _refused(f"pages of {origin[:100]!r} may not send requests to this server")

    def _is_known(self, host: str) -> bool:
        name = _without_port(host)
        return (
            "." not in name  # "localhost"; HTTP/1.0 may send no host
            or name.endswith(PRIVATE)
            or name in self._hosts
            or is_address(name)
        )


def is_local(host: str) -> bool:
    """Return whether only this machine can reach an address to listen on."""
    return host == "localhost" or (is_address(host) and ip_address(host).is_loopback)


def is_address(host: str) -> bool:
    """Return whether a host is a number, and no name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _without_port(host: str) -> str:
    """Return the name or address in a header `Host`, without its port and brackets."""
    return re.sub(r":\d*\Z", "", host).removeprefix("[").removesuffix("]") if host else ""


def _is_same(origin: str, host: str) -> bool:
    """Return whether an origin is this server, as the header `Host` names it."""
    scheme, _, place = origin.partition("://")
    port = {"http": ":80", "https": ":443"}.get(scheme)
    return port is not None and place.removesuffix(port) == host.removesuffix(port)


def _refused(message: str) -> ApiError:
    return ApiError(
        403,
        f"{message}: name the origin in --allow-origins, or set a key",
        kind="permission_error",
        code="origin_not_allowed",
        may_retry=False,
    )
