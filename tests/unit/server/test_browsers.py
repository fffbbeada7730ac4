"""Web pages cannot use a server without keys, unless the settings allow them."""

from pathlib import Path

import pytest
from starlette.datastructures import Headers

from tests.unit.server.asgi import Client, in_loop, running, settings_with, wav
from whisperbatch.server.browsers import Browsers, is_local
from whisperbatch.server.errors import ApiError

MODEL = {"model": "whisper-1"}


def is_allowed(*origins: str, local: bool = True, **headers: str | None) -> bool:
    given = {name: text for name, text in headers.items() if text is not None}
    try:
        Browsers(origins, local=local).check(Headers(given))
    except ApiError:
        return False
    return True


@pytest.mark.parametrize(
    ("host", "local", "everywhere"),
    [
        ("127.0.0.1:8000", True, True),
        ("localhost:8000", True, True),
        ("LOCALHOST", True, True),
        ("speech.localhost:8000", True, True),
        ("[::1]:8000", True, True),
        ("192.168.1.7:8000", True, True),
        ("host.docker.internal:8000", True, True),
        ("machine:8000", True, True),
        ("", True, True),
        ("page.example:8000", False, True),
        ("page.example", False, True),
        ("localhost.page.example:8000", False, True),
        ("127.0.0.1.page.example", False, True),
    ],
)
def test_hosts(host: str, local: bool, everywhere: bool) -> None:
    assert is_allowed(host=host or None) == local
    assert is_allowed(local=False, host=host or None) == everywhere


@pytest.mark.parametrize(
    ("origin", "host", "allowed"),
    [
        ("http://page.example", "127.0.0.1:8000", False),
        ("null", "127.0.0.1:8000", False),
        ("chrome-extension://abc", "127.0.0.1:8000", False),
        ("http://127.0.0.1:8000", "127.0.0.1:8000", True),
        ("http://127.0.0.1:8001", "127.0.0.1:8000", False),
        ("http://localhost:8000", "127.0.0.1:8000", False),
        ("http://localhost", "localhost:80", True),
        ("https://localhost", "localhost", True),
        ("http://localhost", "localhost:8000", False),
        ("http://[::1]:8000", "[::1]:8000", True),
        ("http://page.example:8000", "page.example:8000", False),  # DNS rebinding
        ("https://ours.example", "127.0.0.1:8000", True),
        ("https://ours.example", "ours.example", True),
        ("https://ours.example.evil", "127.0.0.1:8000", False),
    ],
)
def test_origins(origin: str, host: str, allowed: bool) -> None:
    assert is_allowed("https://ours.example/", origin=origin, host=host) == allowed


def test_all_origins_can_be_allowed() -> None:
    assert is_allowed("*", origin="http://page.example", host="page.example")


def test_addresses_of_this_machine() -> None:
    assert all(map(is_local, ("127.0.0.1", "127.1.2.3", "::1", "localhost")))
    assert not any(map(is_local, ("0.0.0.0", "::", "192.168.1.7", "example.com")))  # noqa: S104
    assert settings_with(host="127.0.0.1,::1").is_local
    assert not settings_with(host="127.0.0.1,0.0.0.0").is_local
    assert settings_with(host="0.0.0.0", uds=Path("socket")).is_local  # noqa: S104


@in_loop
async def test_a_page_of_another_origin_cannot_send_a_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = {"origin": "http://page.example", "host": "127.0.0.1:8000"}
    async with running(monkeypatch) as client:
        refused = await client.post(MODEL, wav(1), headers=page)
        assert (refused.status, refused.error["code"]) == (403, "origin_not_allowed")
        assert "--allow-origins" in refused.error["message"]
        assert refused.headers["x-should-retry"] == "false"
        rebound = await client.request("GET", "/v1/models", headers={"host": "page.example:8000"})
        assert rebound.status == 403
        own = {"origin": "http://127.0.0.1:8000", "host": "127.0.0.1:8000"}
        assert (await client.post(MODEL, wav(1), headers=own)).status == 200
        assert (await client.post(MODEL, wav(1))).status == 200
    async with running(monkeypatch, allow_origins="http://page.example") as client:
        answer = await client.post(MODEL, wav(1), headers=page)
        assert answer.status == 200
        assert answer.headers["access-control-allow-origin"] == "http://page.example"
        exposed = {
            name.strip() for name in answer.headers["access-control-expose-headers"].split(",")
        }
        assert exposed == {"x-request-id", "retry-after", "x-should-retry", "x-whisperbatch-prompt"}
    async with running(monkeypatch, api_key="secret") as client:
        key = {"authorization": "Bearer secret"}
        assert (await client.post(MODEL, wav(1), headers={**page, **key})).status == 200


@in_loop
async def test_a_server_for_other_machines_answers_by_any_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def status(client: Client) -> int:
        return (await client.request("GET", "/health", headers={"host": "speech.example"})).status

    async with running(monkeypatch, host="0.0.0.0") as client:  # noqa: S104
        assert await status(client) == 200
    async with running(monkeypatch, uds=Path("socket")) as client:
        assert await status(client) == 200
    async with running(monkeypatch) as client:
        assert await status(client) == 403
