"""The health check of the containers: exit status 0 if the server answers."""  # noqa: INP001 - a program

import os
import socket
import ssl
import sys
from http.client import HTTPConnection, HTTPException, HTTPSConnection

SETTINGS = {
    name: os.environ.get(f"WHISPERBATCH_{name}", "") for name in ("HOST", "PORT", "UDS", "TLS_CERT")
}
# 0.0.0.0 and :: are every address of the machine, also these two
HOSTS = ("127.0.0.1", "::1", *filter(None, map(str.strip, SETTINGS["HOST"].split(","))))


def is_healthy(host: str) -> bool:
    """Return whether the server answers at an address."""
    port = int(SETTINGS["PORT"])
    connection = HTTPConnection(host, port, timeout=4)
    if SETTINGS["TLS_CERT"]:  # the certificate is that of another name
        context = ssl._create_unverified_context()  # noqa: S323, SLF001
        connection = HTTPSConnection(host, port, timeout=4, context=context)
    try:
        if SETTINGS["UDS"]:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(4)
            connection.sock.connect(SETTINGS["UDS"])
        connection.request("GET", "/health", headers={"host": "localhost"})
        return connection.getresponse().status == 200  # noqa: PLR2004 - of HTTP
    except (OSError, HTTPException) as error:
        print(f"{host}: {error}", file=sys.stderr)  # noqa: T201 - a program
        return False
    finally:
        connection.close()


sys.exit(not any(map(is_healthy, HOSTS)))
