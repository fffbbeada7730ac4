"""known_speaker_names[] and known_speaker_references[], with a fake diarizer."""

import base64
import json
from collections.abc import Mapping, Sequence

import pytest

from tests.unit.fake_diarizer import use_fake_diarizer
from tests.unit.server.asgi import BOUNDARY, FORM, Answer, Client, in_loop, running, wav
from tests.unit.server.test_fields import parsed, refused
from tests.unit.server.test_speakers import engine, events_of
from whisperbatch.server.uploads import MAX_FIELD_BYTES, MAX_VOICE_BYTES

FIRST, SECOND = wav(2, seed=1), wav(4, seed=2)  # the voices of the fake diarizer
NAMES, REFERENCES = "known_speaker_names[]", "known_speaker_references[]"
Fields = Sequence[tuple[str, str]]


def url(recording: bytes, kind: str = "audio/wav") -> str:
    return f"data:{kind};base64,{base64.b64encode(recording).decode()}"


async def post(client: Client, *fields: tuple[str, str], response_format: str) -> Answer:
    parts = [("model", "base"), ("response_format", response_format), *fields]
    body = "".join(
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in parts
    )
    file = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    data = (body + file).encode() + wav(10) + f"\r\n--{BOUNDARY}--\r\n".encode()
    path = "/v1/audio/transcriptions"
    return await client.request("POST", path, headers=FORM, pieces=[data])


@pytest.mark.parametrize("ending", ["", "[]"])
def test_the_fields_are_the_option(ending: str) -> None:
    form = {
        "response_format": "diarized_json",
        f"known_speaker_names{ending}": ["Ann", "Bob"],
        f"known_speaker_references{ending}": [url(FIRST), url(SECOND, "audio/mpeg; codecs=mp3")],
    }
    options = parsed(form).options
    assert options.diarize
    assert dict(options.known_speakers or {}) == {"Ann": FIRST, "Bob": SECOND}
    assert parsed(form) == parsed(form), "an early submission is not repeated"


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({NAMES: ["Ann"]}, "known_speaker_references", "1 names and 0 references"),
        ({REFERENCES: [url(FIRST)]}, "known_speaker_names", "0 names and 1 references"),
        ({NAMES: ["Ann", ""], REFERENCES: [url(FIRST)] * 2}, "known_speaker_names", "1 names"),
        ({NAMES: ["Ann", "Ann"], REFERENCES: [url(FIRST)] * 2}, "known_speaker_names", "twice"),
        ({NAMES: ["Ann", "ann"], REFERENCES: [url(FIRST)] * 2}, "known_speaker_names", "same name"),
        ({NAMES: ["SPEAKER_01"], REFERENCES: [url(FIRST)]}, "known_speaker_names", "gives to"),
        ({NAMES: ["a\nb"], REFERENCES: [url(FIRST)]}, "known_speaker_names", "line break"),
        ({NAMES: ["Ann"], REFERENCES: ["/etc/passwd"]}, "known_speaker_references", "data: URL"),
        (
            {NAMES: ["Ann"], REFERENCES: ["https://example.com/a.wav"]},
            "known_speaker_references",
            "other URLs are not opened",
        ),
        (
            {NAMES: ["Ann"], REFERENCES: [base64.b64encode(FIRST).decode()]},
            "known_speaker_references",
            "data: URL",
        ),
        (
            {NAMES: ["Ann"], REFERENCES: ["data:audio/wav,abc"]},
            "known_speaker_references",
            "data: URL",
        ),
        (
            {NAMES: ["Ann"], REFERENCES: ["data:audio/wav;base64,"]},
            "known_speaker_references",
            "data: URL",
        ),
        (
            {NAMES: ["Ann", "Bob"], REFERENCES: [url(FIRST), "data:audio/wav;base64,???"]},
            "known_speaker_references",
            "known_speaker_references[1]",
        ),
        ({"known_speakers": ["Ann=/etc/passwd"]}, "known_speakers", "is not a field"),
        ({"diarizer": ["pyannote/speaker-diarization-3.1"]}, "diarizer", "is not a field"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_refused(fields: Mapping[str, Sequence[str]], param: str, words: str) -> None:
    error = refused({"response_format": "diarized_json", **fields})
    assert error.param == param
    assert words in error.message


@pytest.mark.parametrize("count", [5, 100, 101])
def test_there_may_be_up_to_a_hundred_voices(count: int) -> None:
    """OpenAI's API accepts four."""
    names = [f"person {number}" for number in range(count)]
    form = {"response_format": "diarized_json", NAMES: names, REFERENCES: [url(FIRST)] * count}
    if count <= 100:
        assert list(parsed(form).options.known_speakers or {}) == names
        return
    error = refused(form)
    assert (error.status, error.param) == (400, "known_speaker_names")
    assert "101 names; give at most 100" in error.message


def test_without_speakers_in_the_answer_the_fields_are_refused() -> None:
    fields = {NAMES: ["Ann"], REFERENCES: [url(FIRST)]}
    for response_format in ("json", "text", "srt"):
        error = refused({"response_format": response_format, **fields})
        assert error.param == "known_speaker_names"
        assert "without diarize=true" in error.message
    fields["speaker"] = ["channel"]
    error = refused({"response_format": "diarized_json", **fields})
    assert error.param == "known_speaker_names"
    assert "each channel is one speaker" in error.message


@in_loop
async def test_names_in_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    use_fake_diarizer(monkeypatch)
    both = ((NAMES, "Bob"), (NAMES, "Ann"), (REFERENCES, url(SECOND)), (REFERENCES, url(FIRST)))
    one = ((NAMES, "A"), (REFERENCES, url(SECOND)))
    async with running(monkeypatch, engine()) as client:
        answer = await post(client, *both, response_format="diarized_json")
        assert [s["speaker"] for s in answer.json["segments"]] == ["Ann", "Bob"]
        answer = await post(client, *one, response_format="diarized_json")
        assert [s["speaker"] for s in answer.json["segments"]] == ["B", "A"]
        diarize = ("diarize", "true")
        answer = await post(client, diarize, *one, response_format="verbose_json")
        assert answer.json["speakers"] == ["SPEAKER_00", "A"]
        answer = await post(client, diarize, *both, response_format="vtt")
        assert b"<v Ann>Good morning to you." in answer.body
        answer = await post(client, ("stream", "true"), *both, response_format="diarized_json")
        events = events_of(answer)
        assert [event["speaker"] for event in events[1:4:2]] == ["Ann", "Ann"]  # not final
        assert [s["speaker"] for s in events[-1]["segments"]] == ["Ann", "Bob"]


@in_loop
async def test_a_voice_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    use_fake_diarizer(monkeypatch)
    async with running(monkeypatch, engine()) as client:
        for reference, words in ((wav(0.5), "0.5 s of speech"), (b"no media" * 99, "Ann")):
            fields = ((NAMES, "Ann"), (REFERENCES, url(reference)))
            answer = await post(client, *fields, response_format="diarized_json")
            assert answer.status == 400
            assert answer.error["param"] == "known_speaker_references"
            assert answer.error["code"] == "invalid_audio"
            assert "known_speakers['Ann']" in answer.error["message"]
            assert words in answer.error["message"]
        assert client.server.admission.active == 0


@in_loop
async def test_voices_may_be_larger_than_the_other_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    use_fake_diarizer(monkeypatch)
    large = url(wav(80, seed=3))
    assert MAX_FIELD_BYTES < len(large) < MAX_VOICE_BYTES
    async with running(monkeypatch, engine()) as client:
        fields = ((NAMES, "Ann"), (REFERENCES, large))
        answer = await post(client, *fields, response_format="diarized_json")
        assert json.loads(answer.body)["segments"][-1]["speaker"] == "Ann"
        answer = await post(client, *fields * 2, response_format="diarized_json")
        assert (answer.status, answer.error["code"]) == (413, "field_too_large")
        assert answer.error["param"] == "known_speaker_references"
