"""The page for browsers: who gets it, its headers, and that it loads nothing from elsewhere."""

import re
from importlib.resources import files
from typing import Final

import pytest
from starlette.datastructures import Headers

from tests.unit.server.asgi import Answer, Client, in_loop, running
from tests.unit.server.test_operation import Page as Parsed
from whisperbatch.server import page
from whisperbatch.server.page import FILES, PATHS, wants_page
from whisperbatch.text import LANGUAGES

BROWSER: Final = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
HEALTH: Final = {"status": "ok"}
LIMIT: Final = 60_000  # bytes of all files


async def open_page(client: Client, accept: str = BROWSER, **headers: str) -> Answer:
    return await client.request("GET", "/", headers={"accept": accept, **headers})


def is_page(answer: Answer) -> bool:
    return answer.headers["content-type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (BROWSER, True),
        ("text/html", True),
        ("TEXT/HTML; charset=utf-8", True),
        ("application/json;q=0.5, text/html;q=0.8", True),
        ("image/avif, text/html;q=0.1", True),
        ("", False),
        ("*/*", False),
        ("text/*", False),
        ("application/json", False),
        ("application/json, text/plain, */*", False),
        ("application/json, text/html", False),
        ("text/html;q=0", False),
        ("text/html;q=high", False),
        ("text/html;q=0.5, application/json;q=0.6", False),
        ("text/htmlx", False),
        (",;,", False),
    ],
)
def test_who_gets_the_page(accept: str, wanted: bool) -> None:
    assert wants_page(Headers({"accept": accept})) == wanted


def test_the_header_may_be_repeated_or_missing() -> None:
    raw = [(b"accept", b"application/xml"), (b"accept", b"text/html")]
    assert wants_page(Headers(raw=raw))
    assert not wants_page(Headers({}))


@in_loop
async def test_browsers_get_the_page_and_programs_the_health(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(monkeypatch) as client:
        assert is_page(await open_page(client))
        for accept in ("*/*", "application/json"):
            assert (await open_page(client, accept)).json == HEALTH
        assert (await client.request("GET", "/")).json == HEALTH
        for path in ("/health", "/health/"):
            answer = await client.request("GET", path, headers={"accept": BROWSER})
            assert answer.json == HEALTH
        head = await client.request("HEAD", "/", headers={"accept": BROWSER})
        assert head.status == 200
        document = (await client.request("GET", "/openapi.json")).json
        assert set(document["paths"]["/"]) == {"get", "post"}
        assert not [path for path in document["paths"] if path.startswith("/page")]


@in_loop
async def test_the_headers_keep_everything_on_this_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(monkeypatch) as client:
        answer = await open_page(client, host="127.0.0.1:8000")
        policy = dict(part.split(" ", 1) for part in answer.headers[POLICY].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == "'self'"
        assert policy["connect-src"] == "'self' ws://127.0.0.1:8000 wss://127.0.0.1:8000"
        assert policy["frame-ancestors"] == policy["form-action"] == "'none'"
        assert "unsafe" not in answer.headers[POLICY]
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["vary"] == "Accept"
        assert "microphone=(self)" in answer.headers["permissions-policy"]
        for path in ("/", *PATHS):
            got = await client.request("GET", path, headers={"accept": BROWSER})
            assert got.headers["x-content-type-options"] == "nosniff"
            assert got.headers["cache-control"] == "no-cache"


POLICY: Final = "content-security-policy"


@pytest.mark.parametrize("host", ["[::1]:8000", "a;script-src *", "", "müller:1", "a b"])
@in_loop
async def test_a_strange_host_is_not_in_the_policy(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    async with running(monkeypatch, host="0.0.0.0") as client:  # noqa: S104
        policy = (await open_page(client, host=host)).headers[POLICY]
        assert "connect-src 'self'; " in policy


@in_loop
async def test_the_page_loads_its_own_files_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch) as client:
        text = (await open_page(client)).body.decode()
        links = [link for link in Parsed(text).links if not link.startswith("data:image/svg+xml,")]
        assert links == ["page/page.css", "page/page.js"]
        assert "<base" not in text
        assert not re.search(r"\sstyle=|<style|\son\w+=", text)  # the policy refuses them
        served = {name: await client.request("GET", f"/page/{name}") for name in FILES}
        for name, answer in served.items():
            assert answer.status == 200
            assert answer.headers["content-type"] == FILES[name]
            assert b"://" not in answer.body, name
        imported = re.findall(r'from "\./([\w.]+)"', served["page.js"].body.decode())
        assert imported == ["speech.js"]
        assert b"page/recorder.js" in served["page.js"].body
        missing = await client.request("GET", "/page/other.js")
        assert (missing.status, missing.error["code"]) == (404, "not_found")
        above = await client.request("GET", "/page/../__init__.py")
        assert above.status == 404
        assert len(text) + sum(len(answer.body) for answer in served.values()) < LIMIT


def test_the_folder_has_only_files_that_are_served() -> None:
    names = {path.name for path in files(page).iterdir() if path.is_file()}
    assert names == {"__init__.py", "index.html", *FILES}


@in_loop
async def test_every_language_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch) as client:
        text = (await open_page(client)).body.decode()
        (codes,) = re.findall(r'id="language" data-codes="([\w ]+)"', text)
        assert codes.split(" ") == list(LANGUAGES)


@in_loop
async def test_every_element_that_the_script_names_exists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(monkeypatch) as client:
        text = (await open_page(client)).body.decode()
        script = (await client.request("GET", "/page/page.js")).body.decode()
        named = set(re.findall(r'\$\("(\w+)"\)', script))
        assert len(named) > 15
        assert named <= set(re.findall(r'id="(\w+)"', text))


@in_loop
async def test_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch, page=False) as client:
        assert (await open_page(client)).json == HEALTH
        assert (await client.request("GET", PATHS[0])).status == 404


@in_loop
async def test_the_page_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch, api_key="secret") as client:
        assert is_page(await open_page(client))
        for path in PATHS:
            assert (await client.request("GET", path)).status == 200
        for path in ("/page/other.js", "/v1/models", "/docs"):
            assert (await client.request("GET", path, headers={"accept": BROWSER})).status == 401
        post = await client.request("POST", PATHS[0])
        assert post.status == 401


@in_loop
async def test_a_page_of_another_host_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch) as client:
        assert (await open_page(client, host="page.example:8000")).status == 403


@in_loop
async def test_below_a_path_of_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch, root_path="/speech", api_key="secret") as client:
        for path in ("/", "/speech/"):
            answer = await client.request("GET", path, headers={"accept": BROWSER})
            assert '<base href="/speech/">' in answer.body.decode()
        for path in PATHS:
            assert (await client.request("GET", f"/speech{path}")).status == 200
