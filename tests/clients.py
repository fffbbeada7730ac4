"""Run other projects' clients, in their newest versions, against `whisperbatch serve`.

    python -m tests.clients                 all clients
    python -m tests.clients litellm ai      these only

Each client gets an environment of its own, `.venv-clients/NAME`: with pip, or with npm. A short
program there calls the client as its documentation says, and prints the texts that it receives. All
clients send one real recording to one server. Each text must be the one that `wb.transcribe` gives.
A client that compresses the recording itself may change punctuation and a tenth of the words, a
live session a fifth. Live sessions go to a second server, with a certificate of its own.

The exit status is 1 if a client fails, or if none passed. A client that cannot be installed is
skipped, with the reason. All environments together take 1.2 GB.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Final

import whisperbatch as wb
from benchmarks import recordings
from tests.model.node_client import LIVE_SUITE, WEB_SOCKET
from tests.model.server import RunningServer, running
from tests.newest import find_interpreter

# ruff: noqa: T201 - a program

FOLDER: Final = Path(__file__).parents[1] / ".venv-clients"
LIMIT: Final = 300.0  # seconds for a client's program
LEAST: Final = 0.9  # likeness of the words if the recording was compressed
LIVE_LEAST: Final = 0.8  # the same, of live sessions: one word in five
# Without the settings of Python and huggingface_hub; LiteLLM would download its list of prices.
ENVIRONMENT: Final = {
    **{name: os.environ[name] for name in os.environ if not name.startswith(("PYTHON", "HF_"))},
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OPENAI_API_KEY": "none",
}
PYTHON: Final = """
import json, sys
url, path = sys.argv[1:]
data = open(path, "rb").read()
def say(case, text):
    print(json.dumps({"case": case, "text": text}), flush=True)
"""
NODE: Final = """
import fs from "node:fs";
const [url, path] = process.argv.slice(2);
const data = fs.readFileSync(path);
const say = (name, text) => console.log(JSON.stringify({ case: name, text }));
"""


@dataclass(frozen=True)
class Client:
    """A client of another project.

    Attributes:
        name: its folder below `FOLDER`.
        packages: what pip or npm installs.
        script: calls `say(case, text)` for each text that it receives from the server at `url`.
        programs: must be on PATH.
        versions: of Python, if this program's own does not do.
        compresses: it does not send the recording as it is.
        live: it opens live sessions, at the server with a certificate.
    """

    name: str
    packages: tuple[str, ...]
    script: str
    programs: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    compresses: bool = False
    live: bool = False

    @property
    def in_node(self) -> bool:
        return "npm" in self.programs


LITELLM: Final = """
import litellm
def ask(model, base, **options):
    with open(path, "rb") as file:
        return litellm.transcription(
            model=model, file=file, api_base=base, api_key="none", **options
        )
for base in (f"{url}/v1", url):
    made = ask("openai/whisper-1", base)
    say(f"json, {base[len(url):] or 'without /v1'}", made.text)
made = ask(
    "openai/gpt-4o-transcribe", f"{url}/v1", response_format="json",
    timestamp_granularities=["word"], language="en", temperature=0,
)
say("granularities with json", made.text)
made = ask(
    "openai/whisper-1", f"{url}/v1", response_format="verbose_json",
    timestamp_granularities=["word", "segment"],
)
assert made["words"] and made["segments"], made
say("granularities with verbose_json", made.text)
say("hosted_vllm", ask("hosted_vllm/tiny.en", f"{url}/v1").text)
"""
LANGCHAIN: Final = """
from langchain_community.document_loaders.parsers.audio import OpenAIWhisperParser
from langchain_core.documents.base import Blob
for options in ({}, {"response_format": "text", "language": "en", "temperature": 0, "prompt": ""}):
    parser = OpenAIWhisperParser(api_key="none", base_url=f"{url}/v1", **options)
    documents = parser.parse(Blob.from_path(path))
    say(f"OpenAIWhisperParser({', '.join(options)})", documents[0].page_content)
"""
LLAMAINDEX: Final = """
import asyncio
from llama_index.readers.whisper import WhisperReader
reader = WhisperReader(api_key="none", client_kwargs={"base_url": f"{url}/v1"})
say("a path", reader.load_data(path)[0].text)
say("bytes", reader.load_data(data)[0].text)
say("asynchronous", asyncio.run(reader.aload_data(data))[0].text)
"""
HUGGING_FACE: Final = """
from huggingface_hub import InferenceClient
for extra in (None, {"return_timestamps": True}, {"return_timestamps": "word"}):
    for base in (url, f"{url}/predict"):
        client = InferenceClient(model=base)
        made = client.automatic_speech_recognition(data, extra_body=extra)
        assert made.chunks, made
        say(f"bytes, {extra}, {base[len(url):] or '/'}", made.text)
say("a path", InferenceClient(model=url).automatic_speech_recognition(path).text)
"""
# Home Assistant speaks Wyoming's protocol with this bridge, which asks the server.
HOME_ASSISTANT: Final = """
import asyncio, socket, subprocess, wave
from wyoming.asr import Transcribe, Transcript
from wyoming.audio import wav_to_chunks
from wyoming.client import AsyncTcpClient
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
flags = ["--uri", f"tcp://127.0.0.1:{port}", "--stt-openai-url", f"{url}/v1"]
flags += ["--stt-models", "whisper-1", "--stt-streaming-models", "gpt-4o-transcribe"]
bridge = subprocess.Popen([sys.executable, "-m", "wyoming_openai", *flags])
async def ask(model):
    for _ in range(120):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            await asyncio.sleep(0.5)
    async with AsyncTcpClient("127.0.0.1", port) as client:
        await client.write_event(Transcribe(name=model, language="en").event())
        with wave.open(path) as file:
            for chunk in wav_to_chunks(file, 4096, start_event=True, stop_event=True):
                await client.write_event(chunk.event())
        while event := await client.read_event():
            if Transcript.is_type(event.type):
                return Transcript.from_event(event).text
try:
    for model in ("whisper-1", "gpt-4o-transcribe"):
        say(model, asyncio.run(asyncio.wait_for(ask(model), 100)))
finally:
    bridge.terminate()
"""
OPENAI: Final = """
import OpenAI from "openai";
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
const ask = (fields) => client.audio.transcriptions.create({
  file: fs.createReadStream(path), model: "whisper-1", ...fields });
say("json", (await ask({})).text);
say("text", await ask({ response_format: "text" }));
let text = "";
for await (const event of await ask({ model: "gpt-4o-transcribe", stream: true }))
  if (event.type === "transcript.text.delta") text += event.delta;
say("stream", text);
"""
AI_SDK: Final = """
import { experimental_transcribe as transcribe } from "ai";
import { createOpenAI } from "@ai-sdk/openai";
const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
for (const model of ["gpt-4o-transcribe", "gpt-4o-mini-transcribe", "whisper-1"])
  for (const options of [undefined, { language: "en" }, { timestampGranularities: ["word"] }]) {
    const providerOptions = options && { openai: options };
    const made = await transcribe({ model: openai.transcription(model), audio: data,
                                    providerOptions });
    say(`${model} ${JSON.stringify(options ?? {})}`, made.text);
  }
"""
LIVE_PYTHON: Final = """
import asyncio, base64, os, ssl, wave
from openai import AsyncOpenAI
with wave.open(path) as file:
    rate, samples = file.getframerate(), file.readframes(file.getnframes())
text = "conversation.item.input_audio_transcription"
tls = {"ssl": ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])}
client = AsyncOpenAI(base_url=f"{url}/v1", api_key="none")
async def live(case):
    deltas = final = ""
    query = {"intent": "transcription"}
    connecting = client.realtime.connect(extra_query=query, websocket_connection_options=tls)
    async with connecting as connection:
        audio = {"format": {"type": "audio/pcm", "rate": rate}, "turn_detection": None}
        session = {"type": "transcription", "audio": {"input": audio}}
        await connection.session.update(session=session)
        for start in range(0, len(samples), 8000):
            chunk = base64.b64encode(samples[start : start + 8000]).decode()
            await connection.input_audio_buffer.append(audio=chunk)
        await connection.input_audio_buffer.commit()
        while not final:
            event = await asyncio.wait_for(connection.recv(), 100)
            assert event.type != "error", event
            if event.type == f"{text}.delta":
                deltas += event.delta
            if event.type == f"{text}.completed":
                final = event.transcript
        say(case, final)
        say(f"{case}, deltas", deltas)
asyncio.run(live("PCM"))
"""
HUGGING_FACE_JS: Final = """
import { InferenceClient } from "@huggingface/inference";
const client = new InferenceClient();
const buffer = data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength);
const forms = { "a Blob without a type": new Blob([data]), "an ArrayBuffer": buffer,
                "a Blob with a type": new Blob([data], { type: "audio/wav" }) };
for (const [name, data] of Object.entries(forms))
  for (const endpointUrl of [url, `${url}/predict`])
    say(`${name}, ${endpointUrl.slice(url.length) || "/"}`,
        (await client.automaticSpeechRecognition({ endpointUrl, data })).text);
"""
NPM: Final = ("node", "npm")
CLIENTS: Final = (
    Client("litellm", ("litellm",), LITELLM),
    Client(
        "langchain",
        # pydub needs a module that Python 3.13 no longer has
        ("langchain-community", "openai", "pydub", "audioop-lts; python_version >= '3.13'"),
        LANGCHAIN,
        programs=("ffmpeg",),
        compresses=True,
    ),
    Client("llama-index", ("llama-index-readers-whisper",), LLAMAINDEX),
    Client("huggingface_hub", ("huggingface_hub",), HUGGING_FACE),
    Client(
        "wyoming-openai", ("wyoming-openai",), HOME_ASSISTANT, versions=("3.14", "3.13", "3.12")
    ),
    Client("openai-node", ("openai",), OPENAI, programs=NPM),
    Client("openai-live", ("openai[realtime]",), LIVE_PYTHON, compresses=True, live=True),
    Client(
        "openai-node-live", ("openai", "ws"), LIVE_SUITE, programs=NPM, compresses=True, live=True
    ),
    Client("ai", ("ai", "@ai-sdk/openai"), AI_SDK, programs=NPM),
    Client("huggingface-inference", ("@huggingface/inference",), HUGGING_FACE_JS, programs=NPM),
)


def install(client: Client) -> str:
    """Install the newest versions; return the reason if that is not possible, or ""."""
    for program in client.programs:
        if not shutil.which(program):
            return f"{program} is not installed"
    folder = FOLDER / client.name
    folder.mkdir(parents=True, exist_ok=True)
    if client.in_node:
        (folder / "package.json").write_text('{"private": true}')
        newest = [f"{package}@latest" for package in client.packages]
        flags = ("--no-fund", "--no-audit", "--ignore-scripts")
        return _refusal("npm", "install", *flags, *newest, folder=folder)
    if not (folder / "bin/pip").exists():
        found = next(filter(None, map(find_interpreter, client.versions)), sys.executable)
        refusal = _refusal(found, "-m", "venv", "--clear", folder)
        if refusal:
            return refusal
    pip = (folder / "bin/python", "-m", "pip", "--disable-pip-version-check", "-q")
    upgrade = ("--upgrade", "--upgrade-strategy", "eager")
    return _refusal(*pip, "install", *upgrade, *client.packages)


def _refusal(*command: str | Path, folder: Path | None = None) -> str:
    """Return the errors that a command prints if it fails, in one line; "" if it succeeds."""
    done = subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    errors = [line for line in done.stderr.splitlines() if "error" in line.lower()]
    return (" ".join(errors)[:200] or f"status {done.returncode}") if done.returncode else ""


def ask(
    client: Client, url: str, recording: Path, certificate: Path | None
) -> Iterator[tuple[str, str]]:
    """Run the client's program; yield its cases and their texts.

    Raises:
        subprocess.SubprocessError: it fails, or needs more than `LIMIT`.
    """
    folder = FOLDER / client.name
    script = folder / ("ask.mjs" if client.in_node else "ask.py")
    script.write_text((NODE if client.in_node else PYTHON) + client.script)
    program = ["node", WEB_SOCKET] if client.in_node and client.live else ["node"]
    if not client.in_node:
        program = [str(folder / "bin/python")]
    trusted = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE") if certificate else ()
    done = subprocess.run(
        [*program, script, url, recording],
        env={**ENVIRONMENT, **dict.fromkeys(trusted, str(certificate))},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    for line in done.stdout.splitlines():
        if line.startswith('{"case"'):
            made = json.loads(line)
            yield made["case"], made["text"].strip()
    if done.returncode:
        raise subprocess.SubprocessError(f"{done.stdout[-1000:]}\n{done.stderr[-2000:]}")


def check(client: Client, server: RunningServer, recording: Path, expected: str) -> str:
    """Install a client and compare its texts; return "passed", "failed", or why it was skipped."""
    reason = install(client)
    if reason:
        return f"skipped: {reason}"
    results = []
    try:
        for case, text in ask(client, server.url, recording, server.certificate):
            least = LIVE_LEAST if client.live else LEAST
            is_right = alike(text, expected) >= least if client.compresses else text == expected
            results.append(is_right)
            shown = repr(text[:40]) if results[-1] else f"failed: {text!r}, not {expected!r}"
            print(f"  {client.name}, {case}: {shown}", flush=True)
    except subprocess.SubprocessError as error:
        print(f"  {client.name}: {error}")
        return "failed"
    return "passed" if results and all(results) else "failed"


def alike(text: str, expected: str) -> float:
    """Return the likeness of the words of two texts, from 0 to 1."""
    words, right = (re.findall(r"\w+", either.lower()) for either in (text, expected))
    return SequenceMatcher(None, words, right, autojunk=False).ratio()


def report(outcomes: dict[str, str]) -> int:
    """Print the outcome of each client, and return the exit status."""
    for name, outcome in outcomes.items():
        print(f"{name}: {outcome}")
    results = set(outcomes.values())
    return int("passed" not in results or "failed" in results)


def main(names: list[str]) -> int:
    """Check each client, and return the exit status."""
    unknown = set(names) - {client.name for client in CLIENTS}
    if unknown:
        print(f"unknown clients: {', '.join(sorted(unknown))}")
        return 1
    chosen = [client for client in CLIENTS if not names or client.name in names]
    outcomes = {}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        servers = {
            live: stack.enter_context(running(tls=live)) for live in {each.live for each in chosen}
        }
        recording = recordings.write(recordings.prompts(duration=10), Path(folder, "talk.wav"))
        expected = wb.transcribe(recording, model="tiny.en", beam_size=1).text
        for client in chosen:
            outcomes[client.name] = check(client, servers[client.live], recording, expected)
    return report(outcomes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
