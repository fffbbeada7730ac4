"""Requests as existing clients send them: with the client itself, or byte for byte."""

import base64
import io
import json
import wave
from collections.abc import Iterable
from typing import Any

import openai
import pytest

from tests.unit.server.asgi import (
    BOUNDARY,
    FORM,
    Answer,
    Client,
    in_loop,
    running,
    speaking_engine,
    wav,
)

httpx: Any = pytest.importorskip("httpx2" if openai.__version__ >= "3" else "httpx")

MODEL = "whisper-1"
GRANULARITIES = ["word", "segment"]


def transport_to(client: Client) -> Any:
    return httpx.ASGITransport(app=client.server.app)


def openai_client(client: Client) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        base_url="http://test/v1",
        api_key="none",
        max_retries=0,
        http_client=httpx.AsyncClient(transport=transport_to(client)),
    )


def parts(fields: Iterable[tuple[str, str]], recording: bytes, file: str) -> bytes:
    """A form with fields, and the recording in a part with these parameters."""
    texts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields
    ]
    head = f"--{BOUNDARY}\r\nContent-Disposition: form-data; {file}\r\n"
    head += "Content-Type: application/octet-stream\r\n\r\n"
    return ("".join(texts) + head).encode() + recording + f"\r\n--{BOUNDARY}--\r\n".encode()


async def send(
    client: Client,
    body: bytes,
    headers: dict[str, str] | None = None,
    path: str = "/v1/audio/transcriptions",
) -> Answer:
    return await client.request(
        "POST", path, headers=FORM if headers is None else headers, pieces=[body]
    )


NAMED = 'name="file"; filename="talk.wav"'


@in_loop
async def test_every_path_gives_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    body = parts([("model", MODEL)], wav(2), NAMED)
    async with running(monkeypatch) as client:
        for name in ("transcriptions", "translations"):
            bodies = set()
            for prefix in ("/v1", "", "/api/v1"):
                for slash in ("", "/"):
                    answer = await send(client, body, path=f"{prefix}/audio/{name}{slash}")
                    assert answer.status == 200, answer.body
                    assert "location" not in answer.headers
                    bodies.add(answer.body)
            assert len(bodies) == 1
        assert (await client.request("GET", "/v1/models/")).json["object"] == "list"
        paths = (await client.request("GET", "/openapi.json")).json["paths"]
        assert [path for path in paths if path.endswith(("transcriptions", "translations"))] == [
            "/v1/audio/transcriptions",
            "/v1/audio/translations",
        ]


@in_loop
async def test_with_keys_every_path_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch, api_key="secret") as client:
        for path in ("/audio/transcriptions", "/api/v1/audio/transcriptions/", "/v1/models/", "//"):
            assert (await client.request("POST", path)).status == 401


@in_loop
async def test_curl_with_the_file_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example that Hugging Face published; llama.cpp and vLLM need no model, either."""
    async with running(monkeypatch, model="base,tiny") as client:
        for fields in ([], [("model", "")]):
            body = parts(fields, wav(2), NAMED)
            answer = await send(client, body, path="/api/v1/audio/transcriptions")
            assert answer.status == 200
            assert answer.json["text"].startswith("Good morning.")


@in_loop
async def test_vercels_ai_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    """@ai-sdk/openai 3.0 sends its default granularity with json, too."""
    fields = [
        ("model", "gpt-4o-transcribe"),
        ("language", "fr"),
        ("response_format", "json"),
        ("temperature", "0"),
        ("timestamp_granularities[]", "segment"),
    ]
    async with running(monkeypatch) as client:
        answer = await send(client, parts(fields, wav(2), 'name="file"; filename="audio.wav"'))
        assert (answer.status, list(answer.json)) == (200, ["text", "usage", "languages"])


@in_loop
async def test_litellm(monkeypatch: pytest.MonkeyPatch) -> None:
    """It passes timestamp_granularities on to OpenAI's client, whatever the format is."""
    async with running(monkeypatch) as client, openai_client(client) as api:
        for response_format in ("json", "text", "srt", "vtt"):
            made: Any = await api.audio.transcriptions.create(
                model="gpt-4o-transcribe",
                file=("talk.wav", wav(2)),
                response_format=response_format,
                timestamp_granularities=["word"],
            )
            assert "Good morning." in (made if isinstance(made, str) else made.text)


@pytest.mark.parametrize(
    "fields",
    [
        [("timestamp_granularities[0]", "word"), ("timestamp_granularities[1]", "segment")],
        [("timestamp_granularities[]", "word"), ("timestamp_granularities[]", "segment")],
        [("timestamp_granularities", "word,segment")],
        [("timestamp_granularities", '["word", "segment"]')],
        [("timestamp_granularities[]", '["word","segment"]')],
    ],
    ids=["PHP's CURLFile; axios with indexes", "OpenAI", "LibreChat", "n8n's JSON", "Make"],
)
def test_lists(monkeypatch: pytest.MonkeyPatch, fields: list[tuple[str, str]]) -> None:
    @in_loop
    async def test(monkeypatch: pytest.MonkeyPatch) -> None:
        form = [("model", MODEL), ("response_format", "verbose_json"), *fields]
        async with running(monkeypatch) as client:
            answer = await send(client, parts(form, wav(2), NAMED))
            assert answer.status == 200
            assert answer.json["words"]
            assert answer.json["segments"]

    test(monkeypatch)


@in_loop
async def test_extra_body_of_openais_client(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = speaking_engine()
    async with running(monkeypatch, engine) as client, openai_client(client) as api:
        made = await api.audio.transcriptions.create(
            model=MODEL,
            file=("talk.wav", wav(9)),
            response_format="verbose_json",
            extra_body={
                "temperature": [0, 0.2],
                "clip_timestamps": [[0, 4], [5, 7.5]],
                "suppress_tokens": [-1, 50],
                "beam_size": 2,
            },
        )
        assert made.segments
        assert made.segments[-1].end <= 7.5
        assert engine.calls[-1].options.suppress_tokens == (-1, 50)
        assert engine.calls[-1].options.beam_size == 2
        with pytest.raises(openai.BadRequestError, match="beam_sise is not a field") as caught:
            await api.audio.transcriptions.create(
                model=MODEL, file=("talk.wav", wav(1)), extra_body={"beam_sise": [1]}
            )
        assert caught.value.param == "beam_sise"


@in_loop
async def test_home_assistant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its integrations send the language of the user's settings, with or without the region."""
    engine = speaking_engine()
    codes = ("en-US", "en_US", "en", "zh-CN", "fil", "no", "mi", "nb-NO", "auto", "null", "")
    async with running(monkeypatch, engine) as client, openai_client(client) as api:
        for language in codes:
            made = await api.audio.transcriptions.create(
                model="gpt-4o-mini-transcribe",
                file=("a.wav", wav(2)),
                response_format="json",
                language=language,
                prompt="The following conversation is a smart home user talking.",
            )
            assert made.text.startswith("Good morning.")


@in_loop
async def test_langchain_and_llamaindex(monkeypatch: pytest.MonkeyPatch) -> None:
    """They give OpenAI's client a BytesIO with a name."""
    async with running(monkeypatch) as client, openai_client(client) as api:
        file = io.BytesIO(wav(2))
        file.name = "part_0.mp3"
        made: Any = await api.audio.transcriptions.create(
            model=MODEL, file=file, language="fr", prompt="", temperature=0, response_format="text"
        )
        assert made.startswith("Good morning.")


@in_loop
async def test_open_webui(monkeypatch: pytest.MonkeyPatch) -> None:
    """`requests` with the model, a language or none, and a file with its name."""
    requests: Any = pytest.importorskip("requests")
    async with running(monkeypatch) as client:
        for data in ({"model": ""}, {"model": MODEL, "language": "en"}):
            made = requests.Request(
                "POST",
                "http://test/v1/audio/transcriptions",
                files={"file": ("b4f2.wav", io.BytesIO(wav(2)))},
                data=data,
            ).prepare()
            answer = await send(client, made.body, dict(made.headers))
            assert answer.json["text"].startswith("Good morning.")


@in_loop
async def test_n8n(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = [("model", MODEL), ("language", "en-GB"), ("temperature", "0.3")]
    async with running(monkeypatch) as client:
        assert (await send(client, parts(fields, wav(2), NAMED))).status == 200


@in_loop
async def test_a_file_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """`form-data` of Node.js with a Buffer; aiohttp with bytes."""
    long = wav(40)
    assert len(long) > 1_000_000  # the limit of a field
    async with running(monkeypatch) as client:
        for recording in (wav(2), long):
            answer = await send(client, parts([("model", MODEL)], recording, 'name="file"'))
            assert answer.status == 200
        answer = await send(client, parts([], b"@talk.mp3", 'name="file"'))
        assert (answer.status, answer.error["param"]) == (400, "file")
        assert 'filename="talk.mp3"' in answer.error["message"]


@in_loop
async def test_a_body_that_is_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    body = parts([("model", MODEL)], wav(2), NAMED)
    async with running(monkeypatch) as client:
        for encoding in ("gzip", "br", "gzip, identity"):
            answer = await send(client, body, {**FORM, "content-encoding": encoding})
            assert (answer.status, answer.error["code"]) == (415, "invalid_content_encoding")
            assert encoding in answer.error["message"]
        for encoding in ("identity", ""):
            answer = await send(client, body, {**FORM, "content-encoding": encoding})
            assert answer.status == 200


@in_loop
async def test_silence_has_a_language_for_openais_type(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch, options={"vad": True}) as client, openai_client(client) as api:
        silence = io.BytesIO()
        with wave.open(silence, "wb") as file:
            file.setparams((1, 2, 16_000, 0, "NONE", ""))
            file.writeframes(bytes(64_000))
        made = await api.audio.transcriptions.create(
            model=MODEL, file=("a.wav", silence.getvalue()), response_format="verbose_json"
        )
        assert (made.text, made.language, made.segments) == ("", "", [])


@in_loop
async def test_the_end_of_a_long_prompt_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = speaking_engine()
    words = [f"number {index}" for index in range(9000)]
    async with running(monkeypatch, engine) as client, openai_client(client) as api:
        create: Any = api.audio.transcriptions.with_raw_response.create
        for prompt, cut in ((". ".join(words), True), ("A short prompt.", False)):
            for more in ({}, {"stream": True}):
                made = await create(model=MODEL, file=("a.wav", wav(2)), prompt=prompt, **more)
                assert made.headers.get("x-whisperbatch-prompt") == ("truncated" if cut else None)
                used = engine.tokenizer.decode(list(engine.prompts[-1]))
                assert used.strip().endswith(prompt[-9:])
                assert cut == (len(engine.prompts[-1]) > 200)
        headers = {"content-type": "application/json"}
        body = {
            "inputs": base64.b64encode(wav(2)).decode(),
            "parameters": {"initial_prompt": ". ".join(words[:1000])},
        }
        answer = await send(client, json.dumps(body).encode(), headers, "/predict")
        assert answer.headers["x-whisperbatch-prompt"] == "truncated"
        keywords = {"keywords": words[:150]}  # an argument in newer versions of the client
        with pytest.raises(openai.BadRequestError, match="keywords: "):
            await create(model=MODEL, file=("a.wav", wav(1)), extra_body=keywords)


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # of the client itself
@in_loop
async def test_the_python_client_of_hugging_face(monkeypatch: pytest.MonkeyPatch) -> None:
    hub: Any = pytest.importorskip("huggingface_hub")
    if not hasattr(hub, "set_async_client_factory"):
        pytest.skip("an earlier client, with another transport")
    utils: Any = hub.utils._http
    async with running(monkeypatch) as client:
        monkeypatch.setattr(
            utils,
            "_GLOBAL_ASYNC_CLIENT_FACTORY",
            lambda: httpx.AsyncClient(transport=transport_to(client)),
        )
        api = hub.AsyncInferenceClient(model="http://test/predict")
        extras: list[dict[str, Any] | None] = [
            None,
            {"return_timestamps": True},
            {"return_timestamps": "word", "generate_kwargs": {"num_beams": 1, "language": "fr"}},
            {"sampling_rate": 16_000, "generation_parameters": {"temperature": 0.1, "top_k": 50}},
        ]
        answers = [
            await api.automatic_speech_recognition(wav(2), extra_body=extra) for extra in extras
        ]
        assert all(answer.text.startswith("Good morning.") for answer in answers)
        assert [len(answer.chunks) for answer in answers] == [1, 1, 2, 1]
        with pytest.raises(Exception, match="return_timestamp is not a parameter; did you mean"):
            await api.automatic_speech_recognition(wav(2), extra_body={"return_timestamp": True})


@pytest.mark.parametrize(
    "headers",
    [
        {},  # @huggingface/inference with an ArrayBuffer
        {"content-type": "*/*"},
        {"content-type": "binary/octet-stream"},
        {"content-type": "application/ogg"},
        {"content-type": "Audio/X-Wav; codec=1"},
    ],
    ids=str,
)
def test_bytes_for_hugging_faces_path(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    @in_loop
    async def test(monkeypatch: pytest.MonkeyPatch) -> None:
        async with running(monkeypatch) as client:
            for path in ("/", "/predict", "/predict/"):
                answer = await send(client, wav(2), headers, path)
                assert answer.status == 200
                assert answer.json["text"].startswith("Good morning.")

    test(monkeypatch)
