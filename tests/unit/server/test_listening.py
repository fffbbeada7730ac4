"""Where the server listens: addresses, Unix sockets, TLS, and errors before the model is loaded."""

import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.server.process import ROOT, environment, failing, serving
from whisperbatch import OptionError
from whisperbatch.server.listening import listen
from whisperbatch.server.serve import read_certificate, settings_of

HEALTH = ROOT / "docker/health.py"
OPENSSL = shutil.which("openssl")


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


def is_healthy(**variables: str) -> bool:
    done = subprocess.run(
        [sys.executable, str(HEALTH)],
        env=environment({f"WHISPERBATCH_{name}": text for name, text in variables.items()}),
        check=False,
        capture_output=True,
    )
    return done.returncode == 0


@ipv6
@pytest.mark.parametrize(
    ("host", "reached"),
    [
        ("127.0.0.1,::1", {"127.0.0.1", "::1"}),
        ("::1", {"::1"}),
        ("::", {"127.0.0.1", "::1"}),
        ("0.0.0.0", {"127.0.0.1"}),  # noqa: S104
        ("0.0.0.0, ::", {"127.0.0.1", "::1"}),
    ],
)
def test_sockets_of_all_hosts(host: str, reached: set[str]) -> None:
    opened = listen(settings_of(("--port", "0", "--host", host)))
    found = set()
    port = opened[0].getsockname()[1]
    for address in ("127.0.0.1", "::1"):
        try:
            socket.create_connection((address, port), timeout=10).close()
        except ConnectionRefusedError:
            continue
        found.add(address)
    for each in opened:
        each.close()
    assert found == reached


@ipv6
@pytest.mark.parametrize("host", ["127.0.0.1,::1", "::1", "::"])
def test_the_check_of_the_containers(tmp_path: Path, host: str) -> None:
    with serving(tmp_path, "--host", host, "--api-key", "secret") as server:
        assert len({port for _, port in server.addresses}) == 1
        assert [server.get("/health", address)[0] for address, _ in server.addresses] == [200] * (
            host.count(",") + 1
        )
        assert is_healthy(HOST=host, PORT=str(server.addresses[0][1]))
        assert not is_healthy(HOST=host, PORT="1")


def test_a_port_in_use_is_an_error_before_the_model_is_loaded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        status, messages = failing("--port", str(port))
    assert status == 2
    assert f"port {port} is in use" in messages.splitlines()[-1]
    assert "the model is loaded" not in messages
    assert "Traceback" not in messages


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--host", "192.0.2.1"), "cannot listen on 192.0.2.1, port 0"),
        (("--host", ","), "host names no address"),
        (("--upload-directory", "/does/not/exist"), "upload_directory cannot be used"),
        (("--engine-settings", '{"inter_thread": 2}'), "inter_thread"),
        (("--engine-settings", '{"inter_threads": -2}'), "inter_threads"),
        (("--engine-settings", "[]"), "engine_settings must be a JSON object"),
        (("--tls-key", "/some/key"), "tls_key has no effect without tls_cert"),
        (("--tls-cert", "/does/not/exist"), "tls_cert and tls_key cannot be used"),
        (("--uds", "/does/not/exist"), "uds=/does/not/exist cannot be used"),
        (("--uds", "/etc/passwd"), "uds=/etc/passwd cannot be used"),
        (("--root-path", "speech"), "root_path"),
        (("--log-level", "loud"), "log_level"),
    ],
)
def test_a_wrong_setting_is_an_error(flags: tuple[str, str], message: str) -> None:
    def start() -> None:
        settings = settings_of(("--port", "0", *flags))
        settings.check()
        read_certificate(ssl.create_default_context(), settings)
        listen(settings)

    with pytest.raises(OptionError, match=message):
        start()


def test_warnings_of_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WHISPERBATCH_SPEECH", raising=False)  # of the tests
    assert list(settings_of(("--host", "127.0.0.1,::1")).warnings()) == []
    assert list(settings_of(("--host", "0.0.0.0", "--api-key", "a")).warnings()) == []  # noqa: S104
    assert list(settings_of(("--host", "0.0.0.0", "--uds", "a")).warnings()) == []  # noqa: S104
    monkeypatch.setenv("WHISPERBATCH_PORT", "1")
    monkeypatch.setenv("WHISPERBATCH_CACHE", "a")
    assert list(settings_of(()).warnings()) == []
    variables = {"WHISPERBATCH_MAX_REQUEST": "7"}
    with serving(tmp_path, "--host", "0.0.0.0", **variables) as server:  # noqa: S104
        warnings = [line for line in server.messages.splitlines() if " WARNING " in line]
    assert len(warnings) == 2
    assert "everybody who reaches 0.0.0.0 can use this server" in warnings[0]
    assert "WHISPERBATCH_MAX_REQUEST has no effect" in warnings[1]
    assert "did you mean WHISPERBATCH_MAX_REQUESTS?" in warnings[1]


def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as old:  # of a server that was killed
        old.bind(str(path))
    with serving(tmp_path, "--uds", str(path)) as server:
        forwarded = {"host": "example.com", "x-forwarded-for": "192.0.2.7"}
        assert server.get("/health", uds=path, headers=forwarded)[0] == 200
        server.wait_for("client=192.0.2.7")
        assert is_healthy(UDS=str(path), PORT="1")
        assert f"the Unix socket {path}" in server.messages
        with pytest.raises(OptionError, match="cannot be used"):
            listen(settings_of(("--uds", str(path))))
    assert not path.exists()


def certificate(folder: Path, name: str, *flags: str) -> tuple[Path, Path]:
    """Make a certificate for localhost, and its key."""
    if not OPENSSL:
        pytest.skip("openssl is not installed")
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        [
            *(OPENSSL, "req", "-x509", "-newkey", "rsa:2048", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", str(key), "-out", str(certificate), *(flags or ("-nodes",))),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


def test_tls(tmp_path: Path) -> None:
    first, key = certificate(tmp_path, "first")
    second, second_key = certificate(tmp_path, "second")
    trusting = {path: ssl.create_default_context(cafile=path) for path in (first, second)}
    current, current_key = tmp_path / "cert", tmp_path / "key"
    shutil.copy(first, current)
    shutil.copy(key, current_key)
    flags = ("--tls-cert", str(current), "--tls-key", str(current_key))
    with serving(tmp_path, *flags) as server:
        port = server.addresses[0][1]
        assert f"https://127.0.0.1:{port}" in server.messages
        assert server.get("/health", "localhost", tls=trusting[first])[0] == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            server.get("/health", "localhost", tls=trusting[second])
        assert is_healthy(PORT=str(port), TLS_CERT=str(current))
        shutil.copy(second, current)
        shutil.copy(second_key, current_key)
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("the keys are reloaded")
        assert server.get("/health", "localhost", tls=trusting[second])[0] == 200
        current.write_text("no certificate")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("the certificate is not reloaded")
        assert server.get("/health", "localhost", tls=trusting[second])[0] == 200


def test_a_key_of_tls_with_a_password_is_an_error(tmp_path: Path) -> None:
    locked, key = certificate(tmp_path, "locked", "-passout", "pass:secret")
    settings = settings_of(("--tls-cert", str(locked), "--tls-key", str(key)))
    with pytest.raises(OptionError, match="tls_cert and tls_key cannot be used"):
        read_certificate(ssl.create_default_context(), settings)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system with signals")
def test_keys_are_reloaded_at_a_signal(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("old")
    with serving(tmp_path, "--api-keys-file", str(keys)) as server:
        keys.write_text("new requests=none")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("line 1: requests must be")
        assert "new" not in server.messages.split("not reloaded")[1].splitlines()[0]
        assert server.get("/v1/models", headers={"authorization": "Bearer old"})[0] == 200
        keys.write_text("new")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("the keys are reloaded")
        assert server.get("/v1/models", headers={"authorization": "Bearer new"})[0] == 200
        assert server.get("/v1/models", headers={"authorization": "Bearer old"})[0] == 401
