"""`make clients` fails if a client fails, and names the clients that it skips."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import clients
from tests.clients import Client
from tests.model.server import RunningServer

EXPECTED = "Good morning. You are number two in the queue, so please wait."


def outcome(
    monkeypatch: pytest.MonkeyPatch,
    *texts: str,
    reason: str = "",
    error: str = "",
    compresses: bool = False,
) -> str:
    def ask(
        client: Client, url: str, recording: Path, certificate: Path | None
    ) -> Iterator[tuple[str, str]]:
        for text in texts:
            yield "a case", text
        if error:
            raise subprocess.SubprocessError(error)

    monkeypatch.setattr(clients, "install", lambda client: reason)
    monkeypatch.setattr(clients, "ask", ask)
    client = Client("one", ("one",), "", compresses=compresses)
    process: Any = None
    server = RunningServer("http://127.0.0.1", process, Path("log"))
    return clients.check(client, server, Path("talk.wav"), EXPECTED)


def test_all_texts_must_be_right(monkeypatch: pytest.MonkeyPatch) -> None:
    assert outcome(monkeypatch, EXPECTED, EXPECTED) == "passed"
    assert outcome(monkeypatch, EXPECTED, "Good morning.") == "failed"
    assert outcome(monkeypatch) == "failed"
    assert outcome(monkeypatch, EXPECTED, error="a traceback") == "failed"


def test_a_client_that_compresses(monkeypatch: pytest.MonkeyPatch) -> None:
    other = EXPECTED.lower().replace(".", "")
    assert outcome(monkeypatch, other, compresses=True) == "passed"
    assert outcome(monkeypatch, other) == "failed"
    assert outcome(monkeypatch, "Good morning.", compresses=True) == "failed"


def test_a_client_that_cannot_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert outcome(monkeypatch, EXPECTED, reason="No matching dist") == "skipped: No matching dist"
    client = Client("one", ("one",), "", programs=("a program that nobody has",))
    monkeypatch.undo()
    assert clients.install(client) == "a program that nobody has is not installed"


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        (("passed", "passed"), 0),
        (("passed", "skipped: no npm"), 0),
        (("passed", "failed"), 1),
        (("skipped: no npm",), 1),
        ((), 1),
    ],
)
def test_the_status(
    outcomes: tuple[str, ...], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"client {number}" for number in range(len(outcomes))]
    assert clients.report(dict(zip(names, outcomes, strict=True))) == status
    assert capsys.readouterr().out.splitlines() == [
        f"{name}: {outcome}" for name, outcome in zip(names, outcomes, strict=True)
    ]


def test_an_unknown_client(capsys: pytest.CaptureFixture[str]) -> None:
    assert clients.main(["litelm"]) == 1
    assert capsys.readouterr().out == "unknown clients: litelm\n"
