"""OpenAI's client for Node.js: its installation, and a suite of live sessions in JavaScript."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

PACKAGES: Final = ("openai@6", "ws@8")
CACHE: Final = Path(__file__).parents[2] / ".cache" / "node"
WEB_SOCKET: Final = "--experimental-websocket"
"""Gives Node.js 20 the WebSocket of browsers; later versions have it, and accept the flag."""

LIVE_SUITE: Final = """
import assert from "node:assert";
import OpenAI from "openai";
import { OpenAIRealtimeWebSocket } from "openai/realtime/websocket";
import { OpenAIRealtimeWS } from "openai/realtime/ws";

const TEXT = "conversation.item.input_audio_transcription";
const rate = data.readUInt32LE(24);
const pcm = data.subarray(44);  // after the header of the WAV file
const key = process.env.OPENAI_API_KEY;

const open = async (Kind, apiKey = key) => {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey });
  const session = new Kind({ model: "whisper-1" }, client);
  const events = [];
  let wake = () => {};
  const add = (event) => { events.push(event); wake(); };
  session.on("event", add);
  session.on("error", ({ error, message }) => { if (!error) add({ type: "broken", message }); });
  session.socket.addEventListener("close", ({ code }) => add({ type: "closed", code }));
  session.next = async (type) => {
    for (;;) {
      while (!events.length) await new Promise((resolve) => { wake = resolve; });
      const event = events.shift();
      if (!type || event.type === type) return event;
      assert(!["broken", "closed", "error", `${TEXT}.failed`].includes(event.type),
             JSON.stringify(event));
    }
  };
  session.append = (bytes) => {
    for (let start = 0; start < bytes.length; start += 8000)
      session.send({ type: "input_audio_buffer.append",
                     audio: bytes.subarray(start, start + 8000).toString("base64") });
  };
  session.update = (input, include = []) => session.send({ type: "session.update",
    session: { type: "transcription", audio: { input }, include } });
  session.first = await session.next();
  return session;
};

const finish = async (name, session) => {  // the text of one item, after a commit
  let deltas = "";
  for (;;) {
    const event = await session.next();
    assert.notEqual(event.type, "error", JSON.stringify(event));
    if (event.type === `${TEXT}.delta`) deltas += event.delta;
    if (event.type === `${TEXT}.completed`) {
      say(name, event.transcript);
      say(`${name}, deltas`, deltas);
      return;
    }
  }
};

const manual = async (name, Kind, apiKey) => {
  const session = await open(Kind, apiKey);
  session.update({ format: { type: "audio/pcm", rate }, turn_detection: null });
  await session.next("session.updated");
  session.append(pcm);
  session.send({ type: "input_audio_buffer.commit" });
  await finish(name, session);
  session.close();
  assert.equal((await session.next("closed")).code, 1000);
};

const telephone = async (name, Kind) => {  // each mistake is answered, and the session goes on
  const session = await open(Kind);
  session.update({ format: { type: "audio/pcmu" }, turn_detection: null });
  await session.next("session.updated");
  const mistakes = { input_audio_buffer_commit_empty: { type: "input_audio_buffer.commit" },
                     invalid_audio: { type: "input_audio_buffer.append", audio: "?" },
                     unknown_event: { type: "nothing" },
                     unsupported_event: { type: "response.create" } };
  for (const [code, event] of Object.entries(mistakes)) {
    session.send({ ...event, event_id: code });
    const { error } = await session.next("error");
    assert.deepEqual([error.code, error.event_id], [code, code]);
  }
  session.append(muLaw(pcm));
  session.send({ type: "input_audio_buffer.commit" });
  await finish(name, session);
  session.close();
};

const muLaw = (bytes) => {  // G.711 at 8 kHz, of samples at 16 kHz
  const samples = Array.from({ length: bytes.length >> 2 }, (_, i) =>
    (bytes.readInt16LE(4 * i) + bytes.readInt16LE(4 * i + 2)) >> 1);
  return Buffer.from(samples.map((sample) => {
    const size = Math.min(Math.abs(sample), 32635) + 132;
    const exponent = 31 - Math.clz32(size) - 7;
    return ~((sample < 0 ? 0x80 : 0) | (exponent << 4) | ((size >> (exponent + 3)) & 15)) & 0xff;
  }));
};

const pauses = async (name, Kind) => {  // with an update in the middle
  const session = await open(Kind);
  const half = pcm.length >> 2 << 1;
  session.update({ format: { type: "audio/pcm", rate }, turn_detection: { type: "server_vad" } });
  session.append(pcm.subarray(0, half));
  session.update({}, ["item.input_audio_transcription.words"]);
  session.append(pcm.subarray(half));
  session.append(Buffer.alloc(2 * rate));
  session.send({ type: "the end", event_id: "end" });
  const texts = {};
  let ended = false, updates = 0, last;
  while (!ended || Object.values(texts).includes(null)) {
    const event = await session.next();
    if (event.type === "error") {
      assert.equal(event.error.event_id, "end", JSON.stringify(event));
      await new Promise((resolve) => setTimeout(resolve, 500));  // for a turn that has just begun
      ended = true;
    }
    updates += event.type === "session.updated";
    if (event.type.endsWith("speech_started")) texts[event.item_id] = null;
    if (event.type === `${TEXT}.completed`) {
      assert.equal(texts[event.item_id], null);
      texts[event.item_id] = event.transcript;
      last = event;
    }
  }
  assert.equal(updates, 2);
  assert.equal(last.words.map((word) => word.word).join("").trim(), last.transcript);
  say(name, Object.values(texts).join(" "));
  session.close();
};

assert.equal((await (await open(OpenAIRealtimeWebSocket)).first).type, "session.created");
if (key !== "none") {
  assert.equal((await open(OpenAIRealtimeWebSocket, "wrong")).first.type, "broken");
  assert.equal((await open(OpenAIRealtimeWS, "wrong")).first.type, "broken");
}
for (const [name, Kind] of [["ws", OpenAIRealtimeWS], ["native", OpenAIRealtimeWebSocket]]) {
  await manual(`${name}, commits`, Kind);
  await telephone(`${name}, G.711 after mistakes`, Kind);
  await pauses(`${name}, pauses`, Kind);
}
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key });
const secret = await client.realtime.clientSecrets.create({ session: { type: "transcription" } });
assert.match(secret.value, /^ek_/);
await manual("native, client secret", OpenAIRealtimeWebSocket, secret.value);
process.exit(0);
"""


def install() -> str:
    """Install the packages, if they are not there; return the reason if that is impossible."""
    npm = shutil.which("npm")
    if not npm or not shutil.which("node"):
        return "Node.js and npm are not installed"
    CACHE.mkdir(parents=True, exist_ok=True)
    names = [package.partition("@")[0] for package in PACKAGES]
    if all((CACHE / "node_modules" / name / "package.json").exists() for name in names):
        return ""
    (CACHE / "package.json").write_text('{"private": true}')
    done = subprocess.run(
        [npm, "install", "--no-fund", "--no-audit", "--ignore-scripts", *PACKAGES],
        cwd=CACHE,
        capture_output=True,
        text=True,
        check=False,
    )
    return f"npm cannot install: {done.stderr.strip()[-300:]}" if done.returncode else ""


def has_web_socket() -> bool:
    """Return whether Node.js has the WebSocket of browsers."""
    done = subprocess.run(
        ["node", WEB_SOCKET, "-e", "new WebSocket('ws://127.0.0.1:1').onerror = () => {}"],  # noqa: S607
        capture_output=True,
        check=False,
    )
    return not done.returncode


def write_script(text: str) -> Path:
    """Write a program beside the packages, for this process alone; return its path."""
    path = CACHE / f"client-{os.getpid()}.mjs"
    path.write_text(text)
    return path
