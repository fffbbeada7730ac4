"""The Python blocks of the documentation and the example programs run."""

import os
import re
import shlex
import subprocess
import sys
import wave
from collections.abc import Iterator
from pathlib import Path
from shutil import copyfile, copytree, which
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from openai import OpenAI

import whisperbatch as wb
from benchmarks import recordings
from tests.model.command_line import run_here
from tests.model.server import running
from whisperbatch.diarization import open_diarizer
from whisperbatch.diarization.networks import networks_state

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# the other blocks have almost the same calls
SLOW = (
    "choose-what-is-read.md-2",
    "choose-what-is-read.md-4",
    "choose-what-is-read.md-5",
    "gpu.md-1",
    "languages.md-2",
    "languages.md-3",
    "many-recordings.md-1",
    "many-recordings.md-2",
    "move-from-faster-whisper.md-2",
    "names-and-spelling.md-2",
    "names-and-spelling.md-3",
    "serve.md-5",
    "speakers.md-3",
    "speakers.md-4",
    "speakers.md-5",
    "write-subtitles.md-2",
)


def marks(name: str, block: str) -> list[pytest.MarkDecorator]:
    found = [pytest.mark.slow] if name in SLOW else []
    if 'engine="torch"' in block or "TorchSettings" in block:
        found.append(pytest.mark.torch)
    if "whisperbatch.ray" in block:
        found.append(pytest.mark.ray)
    return found


BLOCKS = [
    pytest.param(
        block, id=f"{page.relative_to(ROOT)}-{number}", marks=marks(f"{page.name}-{number}", block)
    )
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL), start=1
    )
]


ADDRESS = "127.0.0.1:8000"
CURL_COMMANDS = [
    command
    for page in PAGES
    for command in re.findall(r"^curl .*$", page.read_text(), re.MULTILINE)
    if "url=" not in command  # the tests have no web
]
PRINTED = {
    "/diarization": b'"segments":[{',
    "/vad": b'[{"start":',
    "/load": b'"name":"tiny.en"',
    "/unload": b'"unloaded":true',
    "/client_secrets": b'{"value":"ek_',
}
"""What commands with such a path print; the others print a text."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pages take for granted: a talk, a voice, and a call with a speaker a channel."""
    directory = tmp_path_factory.mktemp("docs")
    speech = recordings.prompts("en", duration=12)
    for name in ("talk.mp3", "lecture.mp3"):
        recordings.write(speech, directory / name)
    recordings.write(recordings.prompts("en", duration=8), directory / "ann.wav")
    other = recordings.prompts("en", duration=12, seed=1)
    length = min(len(speech.samples), len(other.samples))
    with wave.open(str(directory / "call.wav"), "wb") as call:
        call.setparams((2, 2, recordings.SAMPLING_RATE, 0, "NONE", ""))
        call.writeframes(np.stack((speech.samples[:length], other.samples[:length]), 1).tobytes())
    copyfile(ROOT / "whisperbatch/doctor/clip.opus", directory / "talk.opus")
    for name in ("calls/1.wav", "talks/1.wav"):
        (directory / name).parent.mkdir()
        copyfile(directory / "call.wav", directory / name)
    return directory


TRANSCRIPTIONS = sorted(
    {
        line
        for page in PAGES
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
        for line in block.splitlines()
        if re.match(r"whisperbatch (transcribe )?(talk\.mp3|talk\.opus|talks|calls)( |$)", line)
        and "base.en" not in line  # no package has it
    }
)
"""Commands whose recordings are in `folder`."""


@pytest.mark.usefixtures("kept_models")
@pytest.mark.parametrize("command", TRANSCRIPTIONS)
def test_command_transcribes(command: str, folder: Path, tmp_path: Path) -> None:
    if "--diarize" in command and "channel" not in command:
        try:
            open_diarizer()
        except wb.MissingExtraError as error:
            pytest.skip(str(error))
    copytree(folder, tmp_path, dirs_exist_ok=True)
    before = set(tmp_path.rglob("*"))
    done = run_here(*shlex.split(command, comments=True)[1:], cwd=tmp_path)
    assert "failed" not in done.stderr
    written = {path.suffix[1:] for path in set(tmp_path.rglob("*")) - before}
    formats = re.search(
        r"(?:-f|--format|--output_format) (\S+)|(?:-o|--output) \S+\.(\w+)", command
    )
    if not formats or re.search(r"(-o|--output) -", command):
        assert done.stdout or "talks" in command
    else:
        assert written.issuperset((formats[1] or formats[2]).split(","))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a running server, in place of the address in the pages."""
    with running("--admin-key", "admin") as server:
        yield "{}:{}".format(*server.address)


def run_with_ray(block: str) -> None:
    """Run a block as a program, which ends with Ray's threads and processes."""
    with TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "RAY_TMPDIR": folder,
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        subprocess.run([sys.executable, "-c", block], check=True, env=environment)


@pytest.mark.usefixtures("kept_models")
@pytest.mark.parametrize("block", BLOCKS)
def test_block_runs(
    block: str, folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if ADDRESS in block:
        block = block.replace(ADDRESS, request.getfixturevalue("address"))
    if "diarize" in block:
        try:
            open_diarizer()
        except wb.MissingExtraError as error:
            pytest.skip(str(error))
    if 'features="kaldi' in block:
        pytest.importorskip("torchaudio")
    monkeypatch.chdir(folder)
    if "whisperbatch.ray" in block:
        pytest.importorskip("ray.data")
        run_with_ray(block)
        return
    names: dict[str, object] = {"__name__": "__main__"}
    exec(compile(block, "<docs>", "exec"), names)  # noqa: S102 - our own pages
    if isinstance(client := names.get("client"), OpenAI):
        client.close()


@pytest.mark.usefixtures("kept_models")
def test_the_tutorial_prints_what_it_shows(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its words are the same on every processor; its times may differ a little."""
    monkeypatch.chdir(folder)
    page = (ROOT / "docs/tutorial/first-transcript.md").read_text()
    shown = re.findall(r"```python\n(.*?)```(?:(?!```).)*```text\n(.*?)```", page, re.DOTALL)
    shown = [(code, text) for code, text in shown if "print(" in code]
    assert len(shown) == 5
    for code, text in shown:
        if "diarize" in code and networks_state()[0] == "missing":
            continue
        exec(compile(code, "<tutorial>", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own page
        printed = capsys.readouterr().out
        assert re.findall(r"[a-zA-Z_]+", printed) == re.findall(r"[a-zA-Z_]+", text)
        numbers = [float(number) for number in re.findall(r"\d+\.\d", printed)]
        expected = [float(number) for number in re.findall(r"\d+\.\d", text)]
        assert numbers == pytest.approx(expected, abs=0.11)


@pytest.mark.skipif(not which("curl"), reason="curl is not installed")
@pytest.mark.parametrize("command", CURL_COMMANDS)
def test_curl_command_prints_its_result(command: str, folder: Path, address: str) -> None:
    arguments = shlex.split(
        command.replace(ADDRESS, address)
        .replace("model=base", "model=whisper-1")
        .replace("$ADMIN", "admin")
    )
    result = subprocess.run(
        [*arguments, "--silent", "--fail-with-body"], cwd=folder, capture_output=True, check=False
    )
    assert result.returncode == 0, result.stdout
    printed = [text for path, text in PRINTED.items() if f"{path} " in command] or [b'"text":"']
    assert printed[0] in result.stdout


def run(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "examples" / "demo.py"), *arguments]
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env=environment
    )


@pytest.mark.slow
def test_demo_shows_each_part_and_writes_files(tmp_path: Path) -> None:
    done = run(folder=tmp_path)
    assert done.returncode == 0, done.stderr
    sentences = done.stdout.splitlines()
    for language in ("en", "es", "fr", "it", "ru"):
        assert sum(line.startswith(f"{language}  ") for line in sentences) >= 2
    first = re.search(r"First sentence after ([\d.]+) s, with (\d+) MB of memory", done.stdout)
    assert first
    assert int(first[2]) < 1500
    wrong = re.search(r"(\d+) of 266 words wrong; faster-whisper: (\d+), and (\d+)", done.stdout)
    assert wrong
    assert int(wrong[1]) < int(wrong[2]) < int(wrong[3])
    assert all(f"[-{word}-]" in done.stdout for word in ("missed", "blacklist"))
    files = {path.name for path in (tmp_path / "build/demo").iterdir()}
    assert {"difficult.srt", "difficult.timeline.png", "difficult.wav"} <= files


def test_demo_transcribes_a_file(tmp_path: Path) -> None:
    path = recordings.write(recordings.prompts("en", duration=20), tmp_path / "talk.mp3")
    done = run(str(path), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "talk.srt" in done.stdout
    subtitles = (tmp_path / "build/demo/talk.srt").read_text()
    assert subtitles.startswith("1\n00:00:")
    assert "password" in subtitles
    assert (tmp_path / "build/demo/talk.timeline.png").read_bytes().startswith(b"\x89PNG")
