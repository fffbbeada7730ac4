"""The file of keys: names and limits of clients."""

import asyncio
from pathlib import Path

import pytest

from tests.unit.server.asgi import Client as HttpClient
from tests.unit.server.asgi import in_loop, running, settings_with, wav
from whisperbatch import OptionError
from whisperbatch.server.clients import Client, Keys, read_keys

MODEL = {"model": "whisper-1"}


def clients(*lines: str) -> dict[str, Client]:
    return read_keys(lines, "keys")


def test_a_line_has_a_key_and_the_limits_of_its_client() -> None:
    found = clients(
        "# comment",
        "",
        "plain",
        "  full\tname=alice requests=8 requests_per_minute=60 audio_per_day=10h priority=2 ",
        "second-of-bob name=bob audio_per_day=90m",
        "third-of-bob audio_per_day=5400 name=bob",
    )
    assert found == {
        "plain": Client("key3", has_key=True),
        "full": Client("alice", True, 8, 60, 36_000.0, 2.0),  # noqa: FBT003
        "second-of-bob": Client("bob", has_key=True, audio_per_day=5400.0),
        "third-of-bob": Client("bob", has_key=True, audio_per_day=5400.0),
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("secret secret2", "after the key, settings are given: name="),
        ("secret secret=2", "after the key, settings are given: name="),
        ("secret name=", "name has letters"),
        ("secret name=a;b", "name has letters"),
        ("secret name=a name=b", "name is given twice"),
        ("secret requests=0", "requests must be a whole number from 1"),
        ("secret requests=1.5", "requests must be a whole number from 1"),
        ("secret requests=\u0663", "requests must be a whole number from 1"),
        ("secret requests_per_minute=-1", "requests_per_minute must be"),
        ("secret audio_per_day=10d", "audio_per_day must be a time such as 3600 or 10h"),
        ("secret audio_per_day=0", "audio_per_day must be a time"),
        ("secret audio_per_day=nan", "audio_per_day must be a time"),
        ("secret priority=0", "priority must be"),
        ("secret priority=101", "priority must be from 0.01 to 100"),
        ("secret has_key=1", "after the key"),
        ("first", "this key is also in an earlier line"),
        ("secret name=alice requests=2", "the limits of alice differ from an earlier line"),
    ],
)
def test_a_wrong_line_is_named_and_its_key_is_not(line: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        clients("first", "other name=alice requests=1", "", line)
    assert f"keys, line 4: {message}" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_keys_are_compared_as_utf_8() -> None:
    keys = Keys({"gr\u00fc\u00df\u00e0": Client("a"), "plain": Client("b")})
    assert keys.find("gr\u00fc\u00df\u00e0".encode()) == Client("a")
    assert keys.find("gr\u00fc\u00df\u00e0".encode("latin-1")) is None
    assert keys.find(b"plain") == Client("b")
    assert keys.find(b"") is None


def test_the_settings_read_the_key_and_the_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_bytes(b"\xef\xbb\xbffirst name=alice\r\nsecond\r\n")
    keys = settings_with(api_key=" third ", api_keys_file=file).keys()
    names = {
        key: client.name for key in (b"first", b"second", b"third") if (client := keys.find(key))
    }
    assert names == {b"first": "alice", b"second": "key2", b"third": "api_key"}
    file.write_bytes(b"secret\xff")
    with pytest.raises(OptionError, match="must be in UTF-8") as caught:
        settings_with(api_keys_file=file).keys()
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["", "  "])
def test_an_empty_key_is_an_error(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("WHISPERBATCH_API_KEY", key)
    with pytest.raises(OptionError, match="api_key is empty"):
        settings_with().keys()


async def post(client: HttpClient, key: str, seconds: float = 3) -> tuple[int, str | None]:
    """Return the status and the code of the error."""
    answer = await client.post(MODEL, wav(seconds), headers={"authorization": f"Bearer {key}"})
    return answer.status, None if answer.status == 200 else answer.error["code"]


@in_loop
async def test_the_audio_of_a_day_is_limited(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "keys"
    file.write_text("a name=alice audio_per_day=6\nb")
    async with running(monkeypatch, api_keys_file=file) as client:
        now = [1000.0]
        client.server.admission.today = lambda: now[0]
        assert await post(client, "a", 7) == (429, "audio_limit_reached")  # its header says 7 s
        assert [await post(client, "a") for _ in range(3)] == [
            (200, None),
            (200, None),
            (429, "audio_limit_reached"),
        ]
        assert await post(client, "b") == (200, None)
        refused = await client.post(MODEL, wav(1), headers={"authorization": "Bearer a"})
        assert refused.headers["retry-after"] == "85400"  # until midnight
        assert refused.headers["x-should-retry"] == "false"
        assert "6 s of audio a day (UTC), of which 0 s are left" in refused.error["message"]
        file.write_text("new name=alice audio_per_day=9")  # the counts survive
        client.server.reload_keys()
        assert await post(client, "new") == (200, None)
        assert await post(client, "new") == (429, "audio_limit_reached")
        now[0] += 86_400
        assert await post(client, "new") == (200, None)


@in_loop
async def test_the_requests_of_a_minute_are_limited(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "keys"
    file.write_text("a name=alice requests_per_minute=2\nb")
    async with running(monkeypatch, api_keys_file=file) as client:
        now = [1000.0]
        client.server.admission.now = lambda: now[0]
        assert await post(client, "a") == (200, None)
        now[0] += 50
        assert await post(client, "a") == (200, None)
        refused = await client.post(MODEL, wav(1), headers={"authorization": "Bearer a"})
        assert (refused.status, refused.error["code"]) == (429, "rate_limit_reached")
        assert refused.headers["retry-after"] == "10"
        assert await post(client, "b") == (200, None)
        now[0] += 10
        assert await post(client, "a") == (200, None)
        assert await post(client, "a") == (429, "rate_limit_reached")


@in_loop
async def test_audio_that_a_client_has_received_counts_when_it_leaves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "keys"
    file.write_text("a name=alice audio_per_day=1")
    async with running(monkeypatch, api_keys_file=file) as client:
        started = asyncio.Event()
        request = asyncio.ensure_future(
            client.post(
                {**MODEL, "stream": "true", "language": "en"},
                wav(600),
                headers={"authorization": "Bearer a"},
                started=started,
            )
        )
        await started.wait()  # the answer begins with the first segment
        client.gone.set()
        await request
        client.gone.clear()
        assert await post(client, "a") == (429, "audio_limit_reached")


@in_loop
async def test_a_client_has_its_own_number_of_places_and_its_priority(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "keys"
    file.write_text("a name=alice requests=3 priority=2.5\nb name=bob requests=1")
    async with running(monkeypatch, api_keys_file=file, max_requests=4) as client:
        (asr,) = client.server.models.loaded
        given: list[tuple[object, object]] = []
        submit = asr.submit

        def noted(*arguments: object, **keywords: object) -> object:
            given.append((keywords["group"], keywords["weight"]))
            return submit(*arguments, **keywords)  # type: ignore[arg-type]

        monkeypatch.setattr(asr, "submit", noted)
        answers = await asyncio.gather(*(post(client, key) for key in "aaaabb"))
        assert answers == [(200, None)] * 3 + [
            (429, "too_many_requests"),
            (200, None),
            (429, "queue_full"),
        ]
        assert sorted(set(given), key=str) == [("alice", 2.5), ("bob", 1.0)]
