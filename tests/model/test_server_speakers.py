"""OpenAI's Python client and the server: speakers, as with gpt-4o-transcribe-diarize."""

import base64
import io
import json
import wave
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import openai
import pytest
from openai.types.audio import (
    TranscriptionDiarized,
    TranscriptionTextDeltaEvent,
    TranscriptionTextDoneEvent,
    TranscriptionTextSegmentEvent,
)

import whisperbatch as wb
from benchmarks import speech
from tests.model.server import running
from whisperbatch.diarization import open_diarizer

GREEDY: Any = {"beam_size": 1, "language": "en"}
DIARIZING = "gpt-4o-transcribe-diarize"
LETTERS = {"SPEAKER_00": "A", "SPEAKER_01": "B", "SPEAKER_02": "C"}
Row = tuple[str, float, float, str]


@pytest.fixture(scope="module")
def client() -> Iterator[openai.OpenAI]:
    try:
        open_diarizer()
    except wb.MissingExtraError as error:
        pytest.skip(str(error))
    with (
        running(model=("--model", "tiny.en", "--options", json.dumps(GREEDY))) as server,
        openai.OpenAI(base_url=server.api, api_key="none", max_retries=0) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def call() -> Path:
    """A recorded telephone call: 30 s, two men."""
    return speech.telephone() / "sample.wav"


@pytest.fixture(scope="module")
def expected(tiny: wb.Transcriber, call: Path) -> wb.Transcript:
    return tiny.transcribe(call, diarize=True, word_timestamps=True, **GREEDY)


def rows(transcript: wb.Transcript) -> list[Row]:
    """Speaker, start, end and text of each segment, with OpenAI's labels."""
    return [(LETTERS[str(s.speaker)], s.start, s.end, s.text) for s in transcript.segments]


def test_diarized_json(client: openai.OpenAI, call: Path, expected: wb.Transcript) -> None:
    result = client.audio.transcriptions.create(
        model=DIARIZING, file=call, response_format="diarized_json", chunking_strategy="auto"
    )
    assert type(result) is TranscriptionDiarized
    assert [(s.speaker, s.start, s.end, s.text) for s in result.segments] == rows(expected)
    assert {s.speaker for s in result.segments} == {"A", "B"}
    assert result.segments[0].speaker == "A"
    assert len({s.id for s in result.segments}) == len(result.segments)
    assert {s.type for s in result.segments} == {"transcript.text.segment"}
    assert (result.task, result.text) == ("transcribe", expected.text)
    assert result.duration == pytest.approx(30, abs=0.1)
    assert result.usage
    assert result.usage.type == "duration"


def test_verbose_json(client: openai.OpenAI, call: Path, expected: wb.Transcript) -> None:
    result = client.audio.transcriptions.create(
        model=DIARIZING,
        file=call,
        response_format="verbose_json",
        timestamp_granularities=["word", "segment"],
    )
    assert result.segments
    assert result.words
    found = [cast("Any", segment).speaker for segment in result.segments]
    assert found == [segment.speaker for segment in expected.segments]
    words = [word for segment in expected.segments for word in segment.words or ()]
    assert [cast("Any", word).speaker for word in result.words] == [word.speaker for word in words]


def test_events(client: openai.OpenAI, call: Path, expected: wb.Transcript) -> None:
    stream = client.audio.transcriptions.create(
        model=DIARIZING, file=call, response_format="diarized_json", stream=True
    )
    events = list(stream)
    *before, done = events
    assert isinstance(done, TranscriptionTextDoneEvent)
    deltas = [event for event in before if isinstance(event, TranscriptionTextDeltaEvent)]
    segments = [event for event in before if isinstance(event, TranscriptionTextSegmentEvent)]
    assert len(deltas) + len(segments) == len(before)
    assert "".join(delta.delta for delta in deltas) == done.text == expected.text
    assert [delta.segment_id for delta in deltas] == [segment.id for segment in segments]
    assert " ".join(segment.text for segment in segments) == expected.text
    assert all(segment.speaker in LETTERS.values() for segment in segments)
    assert all(cast("Any", segment).provisional for segment in segments)
    assert segments[-1].end == expected.segments[-1].end
    final = cast("Any", done).segments
    assert [(s["speaker"], s["start"], s["end"], s["text"]) for s in final] == rows(expected)


@pytest.mark.slow
def test_the_same_requests_at_once_and_alone(
    client: openai.OpenAI, call: Path, expected: wb.Transcript
) -> None:
    """Speakers of one request do not depend on other requests."""

    def ask(_: int) -> list[Row]:
        result = client.audio.transcriptions.create(
            model="whisper-1", file=call, response_format="diarized_json"
        )
        return [(s.speaker, s.start, s.end, s.text) for s in result.segments]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(4))) == [rows(expected)] * 4


def test_silence_has_no_speakers(client: openai.OpenAI, tmp_path: Path) -> None:
    path = tmp_path / "silence.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(bytes(2 * 16_000 * 5))
    result = client.audio.transcriptions.create(
        model=DIARIZING, file=path, response_format="diarized_json"
    )
    assert (result.segments, result.text) == ([], "")


def voice(path: Path, turns: Sequence[wb.Turn], speaker: str) -> str:
    """Return 8 s in which only this speaker speaks, as a data: URL."""
    with wave.open(str(path)) as file:
        rate = file.getframerate()
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    speaking = {name: np.zeros(len(samples), bool) for name in (speaker, "others")}
    for turn in turns:
        name = speaker if turn.speaker == speaker else "others"
        speaking[name][int(turn.start * rate) : int(turn.end * rate)] = True
    alone = samples[speaking[speaker] & ~speaking["others"]][: 8 * rate]
    assert len(alone) > 5 * rate
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(alone.tobytes())
    return f"data:audio/wav;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def test_known_speakers(client: openai.OpenAI, call: Path, expected: wb.Transcript) -> None:
    assert expected.diarization
    turns = expected.diarization.turns
    names = {"agent": "SPEAKER_01", "A": "SPEAKER_00"}
    for known in (["agent", "A"], ["agent"], ["A"]):
        result = client.audio.transcriptions.create(
            model=DIARIZING,
            file=call,
            response_format="diarized_json",
            known_speaker_names=known,
            known_speaker_references=[voice(call, turns, names[name]) for name in known],
        )
        labels = {names[name]: name for name in known}
        if "A" not in known:
            labels["SPEAKER_00"] = "A"
        if "agent" not in known:
            labels["SPEAKER_01"] = "B"  # "A" is the name of another speaker
        found = [segment.speaker for segment in result.segments]
        assert found == [labels[str(segment.speaker)] for segment in expected.segments]


def test_known_speakers_in_a_stream(
    client: openai.OpenAI, call: Path, expected: wb.Transcript
) -> None:
    assert expected.diarization
    reference = voice(call, expected.diarization.turns, "SPEAKER_00")
    *_, done = client.audio.transcriptions.create(
        model=DIARIZING,
        file=call,
        response_format="diarized_json",
        stream=True,
        known_speaker_names=["customer"],
        known_speaker_references=[reference],
    )
    labels = {"SPEAKER_00": "customer", "SPEAKER_01": "A"}
    found = [segment["speaker"] for segment in cast("Any", done).segments]
    assert found == [labels[str(segment.speaker)] for segment in expected.segments]
