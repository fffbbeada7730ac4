"""Live sessions with OpenAI's client for Node.js: the package `ws`, and the WebSocket of browsers.

The native WebSocket gives the key as a subprotocol. Both open `wss://` addresses only.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from benchmarks import recordings
from tests.clients import LIVE_LEAST, NODE, alike
from tests.model import node_client
from tests.model.server import running

CASES = {
    *("ws, commits", "ws, commits, deltas", "ws, pauses"),
    *("ws, G.711 after mistakes", "ws, G.711 after mistakes, deltas"),
    *("native, commits", "native, commits, deltas", "native, pauses"),
    *("native, G.711 after mistakes", "native, G.711 after mistakes, deltas"),
    *("native, client secret", "native, client secret, deltas"),
}


@pytest.mark.slow
def test_the_suite(tmp_path: Path) -> None:
    if reason := node_client.install():
        pytest.skip(reason)
    if not node_client.has_web_socket():
        pytest.skip("this Node.js has no WebSocket")
    speech = recordings.prompts("en", duration=12)
    path = recordings.write(speech, tmp_path / "talk.wav")
    script = node_client.write_script(NODE + node_client.LIVE_SUITE)
    try:
        with running("--api-key", "secret", tls=True) as server:
            done = subprocess.run(
                ["node", node_client.WEB_SOCKET, str(script), server.url, str(path)],  # noqa: S607
                env={
                    **os.environ,
                    "NODE_EXTRA_CA_CERTS": str(server.certificate),
                    "OPENAI_API_KEY": "secret",
                },
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
            messages = server.messages()
    finally:
        script.unlink()
    assert not done.returncode, done.stderr[-3000:]
    texts = {made["case"]: made["text"] for made in map(json.loads, done.stdout.splitlines())}
    assert texts.keys() == CASES
    for case, text in texts.items():
        assert alike(text, speech.text) >= LIVE_LEAST - 0.1, (case, text)
    assert texts["ws, commits"] == texts["native, commits"] == texts["native, client secret"]
    assert "secret" not in messages.replace("client_secrets", "")
    assert "Traceback" not in messages
