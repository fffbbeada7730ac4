"""WebSockets are refused by the same rules as requests, with an HTTP answer."""

from pathlib import Path

import pytest

from tests.unit.server.asgi import Client, connected, in_loop, running

KEY = "openai-insecure-api-key."


async def answer_to(client: Client, path: str = "/nothing", **headers: str) -> tuple[int, str]:
    """Status and code of the answer to the handshake for an unknown path."""
    given = {name.replace("_", "-"): text for name, text in headers.items()}
    async with connected(client, path, headers=given) as socket:
        return socket.status, socket.answer.error["code"]


KEYS: tuple[tuple[dict[str, str], bool], ...] = (
    ({}, False),
    ({"authorization": "Bearer wrong"}, False),
    ({"authorization": "Bearer secret"}, True),
    ({"authorization": "bearer  secret "}, True),
    ({"authorization": "Basic secret"}, False),
    ({"sec_websocket_protocol": "realtime"}, False),
    ({"sec_websocket_protocol": f"realtime, {KEY}secret"}, True),
    ({"sec_websocket_protocol": f"realtime,{KEY}secret,openai-organization.o"}, True),
    ({"sec_websocket_protocol": f"{KEY}secre"}, False),
    ({"sec_websocket_protocol": f"{KEY}"}, False),
    ({"sec_websocket_protocol": "secret"}, False),
    # the header counts, if there are both
    ({"authorization": "Bearer x", "sec_websocket_protocol": f"{KEY}secret"}, False),
    ({"origin": "http://page.example", "sec_websocket_protocol": f"{KEY}secret"}, True),
)
PAGES: tuple[tuple[dict[str, str], bool], ...] = (
    ({}, True),
    ({"host": "127.0.0.1:8000"}, True),
    ({"host": "127.0.0.1:8000", "origin": "http://127.0.0.1:8000"}, True),
    ({"host": "127.0.0.1:8000", "origin": "http://page.example"}, False),
    ({"host": "127.0.0.1:8000", "origin": "null"}, False),
    ({"host": "page.example:8000", "origin": "http://page.example:8000"}, False),
    ({"host": "127.0.0.1:8000", "origin": "https://friend.example"}, True),
)


@in_loop
async def test_a_websocket_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch, api_key="secret") as client:
        for headers, allowed in KEYS:
            for path in ("/nothing", "/", "/health"):  # no WebSocket is public
                found = await answer_to(client, path, **headers)
                expected = (404, "not_found") if allowed else (401, "invalid_api_key")
                assert found == expected, headers


@in_loop
async def test_a_page_needs_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch, allow_origins="https://friend.example") as client:
        for headers, allowed in PAGES:
            found = await answer_to(client, **headers)
            expected = (404, "not_found") if allowed else (403, "origin_not_allowed")
            assert found == expected, headers


@in_loop
async def test_a_refused_key_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        running(monkeypatch, api_key="secret") as client,
        connected(client, headers={"x-request-id": "mine"}) as socket,
    ):
        assert socket.status == 401
        assert socket.answer.headers["www-authenticate"] == "Bearer"
        assert socket.answer.headers["x-request-id"] == "mine"


@in_loop
async def test_a_server_without_the_extension_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ASGI server that cannot answer with HTTP closes: the client gets the status 403."""
    async with (
        running(monkeypatch, api_key="secret") as client,
        connected(client, can_answer=False) as socket,
    ):
        assert socket.status == 403
        assert socket.answer.body == b""


@in_loop
async def test_keys_may_be_reloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("old")
    async with running(monkeypatch, api_keys_file=keys) as client:
        assert (await answer_to(client, authorization="Bearer old"))[0] == 404
        keys.write_text("new")
        client.server.reload_keys()
        assert (await answer_to(client, authorization="Bearer old"))[0] == 401
        assert (await answer_to(client, sec_websocket_protocol=f"{KEY}new"))[0] == 404
