"""Live sessions of several clients: their shares, and audio that is sent faster than spoken."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from tests.unit.server.asgi import connected, in_loop, running
from tests.unit.server.fake_live import fake_live, pcm
from whisperbatch.server.admission import Admission, Limits
from whisperbatch.server.realtime import limits
from whisperbatch.server.realtime.limits import Sessions


def append(seconds: float) -> dict[str, str]:
    audio = base64.b64encode(pcm(seconds)).decode()
    return {"type": "input_audio_buffer.append", "audio": audio}


@in_loop
async def test_the_priority_of_a_key_is_its_share(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_text("k-ann name=ann priority=2.5\nk-bob name=bob\n")
    with fake_live(monkeypatch) as lives:
        async with running(monkeypatch, api_keys_file=keys) as client:
            for key in ("k-ann", "k-bob"):
                headers = {"authorization": f"Bearer {key}"}
                async with connected(client, headers=headers) as socket:
                    socket.send(append(0.1))
                    socket.send("{")
                    await socket.until("error")
    shares = [(live.keywords["group"], live.keywords["weight"]) for live in lives]
    assert shares == [("ann", 2.5), ("bob", 1.0)]


@in_loop
async def test_only_audio_before_its_time_waits_for_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = 0
    in_turn = Sessions.in_turn

    @asynccontextmanager
    async def counted(sessions: Sessions) -> AsyncIterator[None]:
        nonlocal turns
        turns += 1
        async with in_turn(sessions):
            yield

    monkeypatch.setattr(Sessions, "in_turn", counted)
    with fake_live(monkeypatch) as lives:
        async with running(monkeypatch) as client, connected(client) as socket:
            socket.send(append(1.5))
            socket.send("{")
            await socket.until("error")
            assert turns == 0
            socket.send(append(3.0))
            socket.send("{")
            await socket.until("error")
            assert 6 <= turns <= 10  # the pieces of the last 2.5 s, without the time that passed
    assert lives[0].fed == pcm(1.5) + pcm(3.0)


@in_loop
async def test_one_piece_is_heard_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REST", 8.0)
    sessions = Sessions(Admission(Limits(8)), 8)
    spans: list[tuple[float, float]] = []

    async def hear() -> None:
        async with sessions.in_turn():
            began = time.monotonic()
            await asyncio.sleep(0.05)
            spans.append((began, time.monotonic()))

    async def gaps() -> list[float]:
        spans.clear()
        await asyncio.gather(hear(), hear(), hear())
        return [after[0] - before[1] for before, after in pairwise(spans)]

    sessions.active = 3
    assert all(gap >= 0.39 for gap in await gaps())
    sessions.active = 1  # nobody to disturb
    assert all(0 <= gap < 0.35 for gap in await gaps())
