"""The handler for Hugging Face Inference Endpoints, with real weights."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import whisperbatch as wb
from whisperbatch.huggingface import EndpointHandler

ROOT = Path(__file__).parents[2]
VARIABLES = ("ASR_MODEL", "HF_MODEL_DIR", "ASSISTANT_MODEL", "DIARIZATION_MODEL")

CALL = """
import json, runpy, sys
handler = runpy.run_path("examples/huggingface/handler.py")["EndpointHandler"]("/repository")
request = {"inputs": open(sys.argv[1], "rb").read(), "parameters": json.loads(sys.argv[2])}
print(json.dumps(handler(request)))
"""


@pytest.fixture(scope="module")
def handler(base_model: str) -> Iterator[EndpointHandler]:
    with pytest.MonkeyPatch.context() as patch:
        for name in VARIABLES:
            patch.delenv(name, raising=False)
        made = EndpointHandler(base_model, device="cpu")
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parameters", "encode"),
    [
        ({}, bytes),
        (
            {"language": "en", "batch_size": 3, "beam_size": 1},
            lambda data: "data:audio/wav;base64," + base64.b64encode(data).decode(),
        ),
    ],
)
def test_the_text_is_that_of_transcribe(
    handler: EndpointHandler,
    base: wb.Transcriber,
    speech_wav: Path,
    parameters: dict[str, Any],
    encode: Callable[[bytes], object],
) -> None:
    transcript = base.transcribe(speech_wav, options=wb.Options(**parameters))
    answer = handler({"inputs": encode(speech_wav.read_bytes()), "parameters": parameters})
    assert answer["text"] == transcript.text
    assert answer["speakers"] == []
    assert [(chunk["text"], *chunk["timestamp"]) for chunk in answer["chunks"]] == [
        (segment.text, segment.start, segment.end) for segment in transcript.segments
    ]
    assert json.loads(json.dumps(answer)) == answer


def test_the_example_in_a_process_of_its_own(base: wb.Transcriber, speech_wav: Path) -> None:
    parameters = {"clip_timestamps": [[0, 10]], "language": "en"}
    environment = {name: text for name, text in os.environ.items() if name not in VARIABLES}
    done = subprocess.run(
        [sys.executable, "-c", CALL, str(speech_wav), json.dumps(parameters)],
        env={**environment, "ASR_MODEL": "base"},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    transcript = base.transcribe(speech_wav, clip_timestamps=((0, 10),), language="en")
    assert transcript.text
    assert json.loads(done.stdout)["text"] == transcript.text


@pytest.mark.torch
def test_base_as_its_own_draft_model_gives_the_text_of_greedy_search(
    monkeypatch: pytest.MonkeyPatch, base_model: str, speech_wav: Path
) -> None:
    monkeypatch.setenv("ASR_MODEL", base_model)
    monkeypatch.setenv("ASSISTANT_MODEL", base_model)
    settings = wb.TorchSettings(compute_type="float32")
    handler = EndpointHandler("/repository", device="cpu", engine=settings)
    parameters = {"clip_timestamps": [[0, 15]], "language": "en"}
    try:
        data = speech_wav.read_bytes()
        greedy = handler({"inputs": data, "parameters": {**parameters, "beam_size": 1}})
        assisted = handler({"inputs": data, "parameters": {**parameters, "assisted": True}})
    finally:
        handler.close()
    assert greedy["text"]
    assert assisted == greedy
