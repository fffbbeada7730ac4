"""Recordings by URL: what is refused, that only checked addresses are connected to, limits."""

import asyncio
import json
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import whisperbatch as wb
from tests.unit.server.asgi import BOUNDARY, FORM, Answer, Client, form, in_loop, running, wav
from tests.unit.server.test_app import MODEL, until
from whisperbatch.server import downloads
from whisperbatch.server.downloads import is_public, prefix_of, target_of

PUBLIC = "93.184.216.34"
ALLOWED = "http://media.example.org/,https://*.example.com/open/,http://*.wild.example/"
Reply = Callable[[str], list[bytes]]
CONNECT = asyncio.open_connection


def ok(body: bytes, *headers: str) -> list[bytes]:
    return [_head("200 OK", f"content-length: {len(body)}", *headers), body]


def moved(location: str, status: str = "302 Found") -> list[bytes]:
    return [_head(status, f"location: {location}", "content-length: 0")]


def _head(status: str, *headers: str) -> bytes:
    return "\r\n".join((f"HTTP/1.1 {status}", *headers, "", "")).encode()


class Web:
    """The web, for the server: a local server that answers for all hosts.

    Attributes:
        addresses: of each host; other hosts are not known.
        replies: what is sent for each URL without its scheme; None waits for ever.
        resolved: the hosts that were resolved.
        connected: the addresses that were connected to.
        requests: the heads of the requests.
    """

    def __init__(self) -> None:
        self.addresses: dict[str, list[str]] = {"media.example.org": [PUBLIC]}
        self.replies: dict[str, list[bytes] | None] = {}
        self.resolved: list[str] = []
        self.connected: list[str] = []
        self.requests: list[str] = []
        self.ended = 0
        self.port = 0
        self.pause = 0.0

    async def resolve(self, host: str, _port: int) -> list[str]:
        self.resolved.append(host)
        if host not in self.addresses:
            raise OSError("not known")
        return self.addresses[host]

    async def connect(self, address: str, _port: int, **keywords: Any) -> Any:
        self.connected.append(address)
        return await CONNECT("127.0.0.1", self.port, **keywords)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.requests.append(head)
            path = head.split(" ")[1]
            host = head.lower().partition("host: ")[2].partition("\r\n")[0]
            reply = self.replies.get(f"{host}{path}", [_head("404 Not Found", "content-length: 0")])
            if reply is None:
                await reader.read()
            for piece in reply or ():
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(self.pause)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.ended += 1
            writer.close()


@asynccontextmanager
async def web(
    monkeypatch: pytest.MonkeyPatch, context: ssl.SSLContext | None = None
) -> AsyncIterator[Web]:
    made = Web()
    server = await asyncio.start_server(made.answer, "127.0.0.1", 0, ssl=context)
    made.port = server.sockets[0].getsockname()[1]
    monkeypatch.setattr(downloads, "resolve", made.resolve)
    monkeypatch.setattr(asyncio, "open_connection", made.connect)
    try:
        yield made
    finally:
        server.close()


async def post(client: Client, url: str, path: str = "transcriptions", **fields: str) -> Answer:
    """Post a form with a URL and without a file."""
    values = {"url": url, **(MODEL if path == "transcriptions" else {}), **fields}
    body = "".join(
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in values.items()
    )
    return await client.request(
        "POST",
        f"/v1/audio/{path}",
        headers=FORM,
        pieces=[f"{body}--{BOUNDARY}--\r\n".encode()],
    )


async def predict(client: Client, url: str) -> Answer:
    body = json.dumps({"inputs": url, "parameters": {}}).encode()
    halves = [body[:17], body[17:]]
    headers = {"content-type": "application/json"}
    return await client.request("POST", "/predict", headers=headers, pieces=halves)


@in_loop
async def test_a_recording_by_url_has_the_text_of_the_upload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with web(monkeypatch) as net, running(monkeypatch, allow_urls=ALLOWED) as client:
        net.replies["media.example.org/talks/my%20talk.wav?x=1"] = ok(wav(3))
        url = "http://media.example.org/talks/my%20talk.wav?x=1"
        uploaded = await client.post(MODEL, wav(3))
        assert (await post(client, url)).json == uploaded.json
        assert (await predict(client, url)).json["text"] == uploaded.json["text"]
        answer = await post(client, url, "vad")
        assert answer.status == 200
        assert net.connected == [PUBLIC] * 3
        assert "Accept-Encoding: identity" in net.requests[0]
        assert client.server.admission.active == 0


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_urls_are_refused_without_the_setting(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    async def test() -> None:
        async with web(monkeypatch) as net, running(monkeypatch) as client:
            url = f"{scheme}://media.example.org/a.wav"
            for path in ("transcriptions", "translations", "diarization", "vad"):
                answer = await post(client, url, path)
                assert (answer.status, answer.error["param"]) == (400, "url"), answer.body
                assert "allow_urls" in answer.error["message"]
            answer = await predict(client, url)
            assert (answer.status, answer.error["param"]) == (400, "inputs")
            assert "other URLs are not opened" in answer.error["message"]
            assert net.resolved == []

    asyncio.run(test())


HOSTILE = (
    "http://127.0.0.1/a.wav",
    "http://2130706433/a.wav",
    "http://0177.0.0.1/a.wav",
    "http://0x7f.0.0.1/a.wav",
    "http://0x7f000001/a.wav",
    "http://127.1/a.wav",
    "http://0/a.wav",
    "http://[::1]/a.wav",
    "http://[::ffff:127.0.0.1]/a.wav",
    "http://[::ffff:7f00:1]/a.wav",
    "http://[fe80::1%25eth0]/a.wav",
    "http://localhost/a.wav",
    "http://169.254.169.254/latest/meta-data/",
    "http://media.example.org@127.0.0.1/a.wav",
    "http://user:word@media.example.org/a.wav",
    "http://127.0.0.1#media.example.org/a.wav",
    "http://media.example.org#@127.0.0.1/",
    "http://media.example.org\\@127.0.0.1/a.wav",
    "http://127.0.0.1\\media.example.org/a.wav",
    "http:///media.example.org/a.wav",
    "http:media.example.org/a.wav",
    "//media.example.org/a.wav",
    "media.example.org/a.wav",
    "file:///etc/passwd",
    "ftp://media.example.org/a.wav",
    "gopher://media.example.org/a",
    "concat:http://media.example.org/a",
    "HTTP://127.0.0.1/a.wav",
    "http://media.example.org:8080/a.wav",
    "http://media.example.org:99999/a.wav",
    "http://media.example.org.evil.test/a.wav",
    "http://evilmedia.example.org/a.wav",
    "http://media.example.org./a.wav",
    "http://media.example.org%00.evil.test/a.wav",
    "http://media.example.org\t/a.wav",
    "http://media.example.org/a b.wav",
    "http://media.example.org/a.wav\r\nHost: evil.test",
    "http://mediа.example.org/a.wav",  # noqa: RUF001 - a Cyrillic letter
    "http://①②⑦.0.0.1/a.wav",
    "https://media.example.org/a.wav",
    "https://a.example.com/open/../secret/a.wav",
    "https://a.example.com/open/%2e%2e/secret/a.wav",
    "https://a.example.com/open/%252e%252e/secret/a.wav",
    "https://a.example.com/open/..%2fsecret/a.wav",
    "https://a.example.com/open/..%5csecret/a.wav",
    "https://a.example.com/openly/a.wav",
    "https://example.com/open/a.wav",
    "http://media.example.org/" + "a" * 5000,
)


@in_loop
async def test_hostile_urls_are_refused_before_any_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with web(monkeypatch) as net, running(monkeypatch, allow_urls=ALLOWED) as client:
        for url in HOSTILE:
            answer = await post(client, url)
            assert answer.status == 400, url
            assert (answer.error["param"], answer.error["code"]) == ("url", "url_refused"), url
        answer = await predict(client, HOSTILE[0])
        assert (answer.error["param"], answer.error["code"]) == ("inputs", "url_refused")
        assert (net.resolved, net.connected) == ([], [])


INNER = (
    *("127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1"),  # noqa: S104
    *("169.254.169.254", "100.64.0.1", "100.100.100.200", "192.0.0.192", "198.18.0.1"),
    *("224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "192.0.2.1", "168.63.129.16"),
    *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1"),
    *("::ffff:127.0.0.1", "::ffff:93.184.216.34", "::127.0.0.1", "64:ff9b::7f00:1"),
    *("2002:7f00:1::", "2002:5db8:d822::", "2001:0:7f00:1::", "2001:db8::1"),
)


@pytest.mark.parametrize("address", INNER)
def test_inner_addresses(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", [PUBLIC, "1.1.1.1", "2606:4700::1111"])
def test_public_addresses(address: str) -> None:
    assert is_public(address)


@in_loop
async def test_hosts_with_an_inner_address_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with web(monkeypatch) as net, running(monkeypatch, allow_urls=ALLOWED) as client:
        for address in INNER:
            for addresses in ([address], [PUBLIC, address], [address, PUBLIC]):
                net.addresses["x.wild.example"] = addresses
                answer = await post(client, "http://x.wild.example/a.wav")
                assert (answer.status, answer.error["code"]) == (400, "url_refused")
                assert address not in answer.error["message"]
        assert net.connected == []


@in_loop
async def test_any_host_is_not_any_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the pattern `*`, only the check of the addresses protects the network."""
    numbers = ("127.0.0.1", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "localhost")
    connected: list[str] = []

    async def connect(address: str, *_: object, **__: object) -> None:
        connected.append(address)
        raise OSError

    monkeypatch.setattr(asyncio, "open_connection", connect)
    async with running(monkeypatch, allow_urls="http://*/,https://*/") as client:
        for number in numbers:
            for scheme in ("http", "https"):
                answer = await post(client, f"{scheme}://{number}/a.wav")
                assert answer.status == 400
                assert answer.error["code"] in {"url_refused", "url_failed"}, number
    assert connected == []


@in_loop
async def test_redirects_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with web(monkeypatch) as net, running(monkeypatch, allow_urls=ALLOWED) as client:
        net.addresses |= {"in.wild.example": ["10.0.0.1"], "out.wild.example": [PUBLIC]}
        net.replies["out.wild.example/b.wav"] = ok(wav(3))
        start = "http://media.example.org/a.wav"
        for location in (
            "http://127.0.0.1/",
            "http://in.wild.example/",
            "//127.0.0.1/",
            "file:///etc/passwd",
            "https://media.example.org/a.wav",
            "http://other.test/",
            "http://user@out.wild.example/b.wav",
        ):
            net.replies["media.example.org/a.wav"] = moved(location)
            answer = await post(client, start)
            assert (answer.status, answer.error["code"]) == (400, "url_refused"), location
        assert set(net.connected) == {PUBLIC}
        for status in ("301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"):
            net.replies["media.example.org/a.wav"] = moved("http://out.wild.example/b.wav", status)
            assert (await post(client, start)).status == 200
        net.replies["media.example.org/a.wav"] = moved("/c.wav")
        net.replies["media.example.org/c.wav"] = ok(wav(3))
        assert (await post(client, start)).status == 200
        net.replies["media.example.org/c.wav"] = moved("/a.wav")
        assert "redirects" in (await post(client, start)).error["message"]


@in_loop
async def test_a_host_is_resolved_once_for_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async with web(monkeypatch) as net, running(monkeypatch, allow_urls=ALLOWED) as client:
        net.replies["media.example.org/a.wav"] = ok(wav(3))

        async def rebinding(host: str, _port: int) -> list[str]:
            net.resolved.append(host)
            return [PUBLIC] if len(net.resolved) == 1 else ["127.0.0.1"]

        monkeypatch.setattr(downloads, "resolve", rebinding)
        assert (await post(client, "http://media.example.org/a.wav")).status == 200
        assert (len(net.resolved), net.connected) == (1, [PUBLIC])
        assert (await post(client, "http://media.example.org/a.wav")).status == 400
        assert net.connected == [PUBLIC]


@in_loop
async def test_answers_that_are_no_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"allow_urls": ALLOWED, "max_upload": 200_000, "idle_timeout": 0.5}
    async with web(monkeypatch) as net, running(monkeypatch, **settings) as client:
        large = wav(10)
        chunked = _head("200 OK", "transfer-encoding: chunked")
        for reply, status, code in (
            ([_head("404 Not Found", "content-length: 0")], 400, "url_failed"),
            ([_head("500 Oops", "content-length: 0")], 400, "url_failed"),
            ([_head("302 Found", "content-length: 0")], 400, "url_failed"),
            ([b"no http\r\n\r\n"], 400, "url_failed"),
            ([b""], 400, "url_failed"),
            ([_head("200 OK", "content-length: 90000"), wav(1)], 400, "url_failed"),
            ([chunked, b"5\r\nabcde\r\n"], 400, "url_failed"),
            (ok(wav(1), "content-encoding: gzip"), 400, "url_failed"),
            ([_head("200 OK", f"x: {'a' * 300_000}")], 400, "url_failed"),
            (ok(b""), 400, "invalid_audio"),
            (ok(b"no media" * 9), 400, "invalid_audio"),
            (ok(b"#EXTM3U\nhttp://127.0.0.1/a.wav\n"), 400, "invalid_audio"),
            (ok(large), 413, "file_too_large"),
            ([_head("200 OK", "connection: close"), large], 413, "file_too_large"),
            ([chunked, b"50000\r\n" + large[:0x50000] + b"\r\n"], 413, "file_too_large"),
            (None, 408, "upload_timeout"),
        ):
            net.replies["media.example.org/a.wav"] = reply
            answer = await post(client, "http://media.example.org/a.wav")
            assert (answer.status, answer.error["code"]) == (status, code), reply and reply[0][:80]
            assert "127.0.0.1" not in answer.error["message"]
        assert (await post(client, "http://no.wild.example/")).error["code"] == "url_failed"
        net.replies["media.example.org/a.wav"] = [_head("200 OK", "connection: close"), wav(1)]
        assert (await post(client, "http://media.example.org/a.wav")).status == 200
        assert client.server.admission.active == 0


@in_loop
async def test_slow_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"allow_urls": ALLOWED, "idle_timeout": 0.4, "upload_timeout": 0.8}
    async with web(monkeypatch) as net, running(monkeypatch, **settings) as client:
        net.pause = 0.1
        body = wav(3)
        slow = [body[at : at + 10] for at in range(0, 400, 10)]
        head = _head("200 OK", f"content-length: {len(body)}")
        net.replies["media.example.org/a.wav"] = [head, *slow]
        answer = await post(client, "http://media.example.org/a.wav")
        assert (answer.status, answer.error["code"]) == (408, "upload_timeout")
        large = [body[at : at + 1000] for at in range(0, 40_000, 1000)]
        net.replies["media.example.org/a.wav"] = [head, *large]
        answer = await post(client, "http://media.example.org/a.wav")
        assert (answer.status, answer.error["code"]) == (408, "upload_timeout")


@in_loop
async def test_a_client_that_is_gone_ends_the_download(monkeypatch: pytest.MonkeyPatch) -> None:
    async with web(monkeypatch) as net, running(monkeypatch, allow_urls=ALLOWED) as client:
        net.replies["media.example.org/a.wav"] = None
        request = asyncio.ensure_future(post(client, "http://media.example.org/a.wav"))
        await until(lambda: net.requests)
        client.gone.set()
        assert (await request).status == 499
        assert client.server.admission.active == 0
        await until(lambda: net.ended == 1)


@in_loop
async def test_one_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    async with web(monkeypatch) as net, running(monkeypatch, allow_urls=ALLOWED) as client:
        url = "http://media.example.org/a.wav"
        both = await client.request(
            "POST",
            "/v1/audio/vad",
            headers=FORM,
            pieces=[form({"url": url}, wav(1))],
        )
        assert (both.status, both.error["param"]) == (400, "url")
        assert (await post(client, "")).error["param"] == "file"
        assert net.resolved == []


@pytest.mark.parametrize(
    "setting",
    [
        *("example.com", "ftp://example.com/", "http://", "http://a*b.com/", "http://a:x/"),
        *("http://user@example.com/", "http://example.com/?a", "http://example.com/*"),
        *("http://*example.com/", "https://example.com/a%20b/"),
    ],
)
def test_wrong_prefixes(setting: str) -> None:
    with pytest.raises(wb.OptionError, match="allow_urls"):
        prefix_of(setting)


@pytest.mark.parametrize(
    ("prefix", "url", "allowed"),
    [
        ("https://example.com", "https://example.com/a", True),
        ("https://example.com", "https://EXAMPLE.com", True),
        ("https://example.com", "https://a.example.com/", False),
        ("https://*.example.com", "https://a.b.example.com/", True),
        ("https://*.example.com", "https://example.com/", False),
        ("https://example.com/a", "https://example.com/a", True),
        ("https://example.com/a", "https://example.com/a/b", True),
        ("https://example.com/a", "https://example.com/ab", False),
        ("https://example.com/a/", "https://example.com/a/b?c=d", True),
        ("https://example.com:8443/", "https://example.com:8443/a", True),
        ("https://example.com:8443/", "https://example.com/a", False),
        ("https://example.com:443/", "https://example.com/a", True),
        ("http://[2606:4700::1111]/", "http://[2606:4700::1111]/a", True),
    ],
)
def test_prefixes(prefix: str, url: str, *, allowed: bool) -> None:
    assert prefix_of(prefix).allows(target_of(url)) is allowed


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate")
def test_certificates_are_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", str(key), "-out", str(certificate), "-subj", "/CN=a.example.com"),
            *("-addext", "subjectAltName=DNS:a.example.com"),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def test() -> None:
        async with (
            web(monkeypatch, context) as net,
            running(monkeypatch, allow_urls=ALLOWED) as client,
        ):
            net.addresses |= {"a.example.com": [PUBLIC], "b.example.com": [PUBLIC]}
            for host in ("a", "b"):
                net.replies[f"{host}.example.com/open/a.wav"] = ok(wav(3))
            answer = await post(client, "https://a.example.com/open/a.wav")
            assert "certificate" in answer.error["message"]
            trusting = ssl.create_default_context(cafile=str(certificate))
            monkeypatch.setattr(ssl, "create_default_context", lambda: trusting)
            assert (await post(client, "https://a.example.com/open/a.wav")).status == 200
            answer = await post(client, "https://b.example.com/open/a.wav")
            assert "certificate" in answer.error["message"]

    asyncio.run(test())
