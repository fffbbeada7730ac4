"""OpenAI's Python client and the server: all forms of answers, and all fields."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import openai
import pytest

import whisperbatch as wb
from benchmarks import recordings
from benchmarks.recordings import Recording
from tests.model.forms import Pipe, form, post
from tests.model.server import RunningServer, running
from whisperbatch.writers import render

Save = Callable[[Recording, str], Path]
Transcribe = Callable[..., wb.Transcript]
GREEDY: Any = {"beam_size": 1}


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running(model=("--model", "base", "--options", json.dumps(GREEDY))) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.api, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def english() -> Recording:
    return recordings.prompts("en", duration=7)


@pytest.fixture(scope="module")
def mp3(english: Recording, save: Save) -> Path:
    return save(english, ".mp3")


@pytest.fixture(scope="module")
def spanish(save: Save) -> Path:
    return save(recordings.prompts("es", duration=8), ".flac")


@pytest.fixture(scope="module")
def transcribe(base: wb.Transcriber, mp3: Path) -> Transcribe:
    """Return a function that transcribes the mp3; for equal options once."""
    found: dict[str, wb.Transcript] = {}

    def transcribe_once(**options: Any) -> wb.Transcript:
        key = repr(sorted(options.items()))
        if key not in found:
            found[key] = base.transcribe(mp3, **{**GREEDY, **options})
        return found[key]

    return transcribe_once


def pipe(path: Path) -> BinaryIO:
    return cast("BinaryIO", Pipe(path.read_bytes(), path.name))


def test_json(client: openai.OpenAI, transcribe: Transcribe, mp3: Path) -> None:
    result = client.audio.transcriptions.create(model="whisper-1", file=mp3)
    expected = transcribe()
    assert result.text == expected.text
    assert result.languages
    assert [language.code for language in result.languages] == ["en"]
    assert result.usage
    assert result.usage.type == "duration"
    assert result.usage.seconds == pytest.approx(expected.duration, abs=1e-3)
    assert result._request_id


@pytest.mark.parametrize("response_format", ["text", "srt", "vtt"])
def test_text_and_subtitles(
    client: openai.OpenAI, transcribe: Transcribe, mp3: Path, response_format: Any
) -> None:
    result = client.audio.transcriptions.create(
        model="whisper-1", file=mp3, response_format=response_format
    )
    words = response_format != "text"
    expected = transcribe(word_timestamps=words)
    assert result == (render(expected, response_format) if words else f"{expected.text}\n")


@pytest.mark.parametrize("granularities", [[], ["segment"], ["word"], ["word", "segment"]], ids=str)
def test_verbose_json(
    client: openai.OpenAI, transcribe: Transcribe, mp3: Path, granularities: list[Any]
) -> None:
    result = client.audio.transcriptions.create(
        model="whisper-1",
        file=mp3,
        response_format="verbose_json",
        timestamp_granularities=granularities or openai.omit,
    )
    expected = transcribe(word_timestamps="word" in granularities)
    assert result.text == expected.text
    assert result.language == "english"
    assert result.to_dict()["task"] == "transcribe"
    assert type(result.duration) is float
    assert (result.segments is None) == (granularities == ["word"])
    assert (result.words is None) == ("word" not in granularities)
    for given, segment in zip(result.segments or (), expected.segments, strict=False):
        assert (given.id, given.text.strip()) == (segment.id, segment.text)
        assert (given.start, given.end) == pytest.approx((segment.start, segment.end), abs=1e-2)
        assert given.avg_logprob == pytest.approx(segment.avg_logprob, abs=1e-3)
        assert given.tokens is not None
    words = [word for segment in expected.segments for word in segment.words or ()]
    assert [word.word.strip() for word in result.words or ()] == [w.word.strip() for w in words]


@pytest.mark.parametrize(
    "suffix",
    [
        ".wav",
        ".mp3",
        ".webm",
        *(pytest.param(s, marks=pytest.mark.slow) for s in (".ogg", ".flac")),
    ],
)
def test_with_a_language_the_text_is_that_of_a_pipe(
    client: openai.OpenAI, base: wb.Transcriber, english: Recording, save: Save, suffix: str
) -> None:
    path = save(english, suffix)
    result = client.audio.transcriptions.create(model="whisper-1", file=path, language="en")
    assert result.text == base.transcribe(pipe(path), language="en", **GREEDY).text


def test_mp4_with_its_index_at_the_end(
    client: openai.OpenAI, base: wb.Transcriber, english: Recording, save: Save
) -> None:
    path = save(english, ".m4a")
    result = client.audio.transcriptions.create(model="whisper-1", file=path, language="en")
    assert result.text == base.transcribe(path, language="en", **GREEDY).text != ""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
def test_translations(client: openai.OpenAI, base: wb.Transcriber, spanish: Path) -> None:
    expected = base.transcribe(spanish, task="translate", **GREEDY)
    create = client.audio.translations.create
    result = create(model="whisper-1", file=spanish)
    assert result.text == expected.text != ""
    text: Any = create(model="whisper-1", file=spanish, response_format="text")
    assert text == f"{expected.text}\n"
    verbose = create(model="whisper-1", file=spanish, response_format="verbose_json")
    assert verbose.text == expected.text
    assert verbose.language == "english"
    assert verbose.segments
    for response_format in ("srt", "vtt"):
        subtitles: Any = create(
            model="whisper-1", file=spanish, response_format=cast("Any", response_format)
        )
        assert "-->" in subtitles
        assert subtitles.startswith("WEBVTT" if response_format == "vtt" else "1\n")


def test_a_stream(client: openai.OpenAI, transcribe: Transcribe, mp3: Path) -> None:
    with client.audio.transcriptions.create(
        model="gpt-4o-transcribe", file=mp3, stream=True
    ) as stream:
        events = list(stream)
    expected = transcribe()
    *deltas, done = events
    assert {event.type for event in deltas} == {"transcript.text.delta"}
    assert len(deltas) == len(expected.segments)
    assert "".join(event.to_dict()["delta"] for event in deltas) == expected.text  # type: ignore[misc]
    assert done.type == "transcript.text.done"
    assert done.text == expected.text
    usage = done.to_dict()["usage"]
    assert usage == {"type": "duration", "seconds": pytest.approx(expected.duration, abs=1e-3)}


def test_a_stream_with_times(client: openai.OpenAI, mp3: Path) -> None:
    with client.audio.transcriptions.create(
        model="whisper-1", file=mp3, stream=True, response_format=cast("Any", "verbose_json")
    ) as stream:
        events = [event.to_dict() for event in stream]
    segments = [event for event in events if event["type"] == "transcript.text.segment"]
    assert segments
    assert all(cast("float", e["start"]) < cast("float", e["end"]) for e in segments)


def test_log_probabilities(client: openai.OpenAI, transcribe: Transcribe, mp3: Path) -> None:
    result = client.audio.transcriptions.create(
        model="gpt-4o-mini-transcribe", file=mp3, include=["logprobs"]
    )
    assert result.text == transcribe(word_timestamps=True).text
    assert result.logprobs
    for item in result.logprobs:
        assert item.token is not None
        assert bytes(int(code) for code in item.bytes or ()) == item.token.encode()
        assert item.logprob is not None
        assert item.logprob <= 0
    with client.audio.transcriptions.create(
        model="gpt-4o-mini-transcribe", file=mp3, include=["logprobs"], stream=True
    ) as stream:
        done = list(stream)[-1].to_dict()
    assert done["logprobs"] == result.to_dict()["logprobs"]


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({"prompt": "Telephone prompts."}, {"initial_prompt": "Telephone prompts."}),
        ({"keywords": ["mailbox", "MGCP"]}, {"hotwords": "mailbox, MGCP"}),
        ({"languages": ["en", "de"]}, {"languages": ("en", "de")}),
        ({"temperature": 0.0}, {"temperature": 0.0}),
        ({"chunking_strategy": "auto"}, {}),
        (
            {
                "chunking_strategy": {
                    "type": "server_vad",
                    "threshold": 0.6,
                    "prefix_padding_ms": 150,
                    "silence_duration_ms": 300,
                }
            },
            {"vad_onset": 0.6, "vad_offset": 0.45, "speech_pad": 0.15, "min_silence_duration": 0.3},
        ),
        (
            {"extra_body": {"beam_size": 2, "segments": "phrase"}},
            {"beam_size": 2, "segments": "phrase"},
        ),
    ],
    ids=lambda value: next(iter(value), "none"),
)
def test_fields_set_options(
    client: openai.OpenAI, transcribe: Transcribe, mp3: Path, fields: Any, options: Any
) -> None:
    result = client.audio.transcriptions.create(
        model="gpt-transcribe", file=mp3, response_format="verbose_json", **fields
    )
    expected = transcribe(**options)
    assert result.text == expected.text
    assert result.segments is not None
    assert [item.text.strip() for item in result.segments] == [s.text for s in expected.segments]


@pytest.mark.parametrize(
    "name",
    [
        *("whisper-1", "gpt-4o-transcribe", "gpt-4o-mini-transcribe", "gpt-transcribe", "base"),
        *("gpt-4o-mini-transcribe-2025-12-15", "gpt-4o-transcribe-diarize"),
    ],
)
def test_names_of_models(client: openai.OpenAI, name: str) -> None:
    assert client.models.retrieve(name).id == "base"


@pytest.mark.parametrize(
    "name", ["whisperbatch-1", "whisper-2", "gpt-4o", "gpt-4o-diarize", "../base"]
)
def test_unknown_models(client: openai.OpenAI, mp3: Path, name: str) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.audio.transcriptions.create(model=name, file=mp3)
    assert caught.value.param == "model"
    assert caught.value.code == "model_not_found"
    assert caught.value.request_id


def test_the_list_of_models_and_the_page_of_the_api(
    client: openai.OpenAI, server: RunningServer
) -> None:
    assert [model.id for model in client.models.list()] == ["base"]
    assert b"POST /v1/audio/transcriptions" in server.get("/docs")[1]


def test_the_request_id_of_the_client_is_kept(server: RunningServer) -> None:
    answer = post(server.address, form(), {"x-request-id": "my-request.1"})
    assert answer.status == 400
    assert answer.headers["x-request-id"] == "my-request.1"
    answer = post(server.address, form(), {"x-request-id": 'not "valid"'})
    assert answer.headers["x-request-id"].startswith("req_")
