"""The front doors of the library, each as a function from a feature to what the door shows.

    door.transcribe(feature, place)    what comes out of the door
    door.view(transcript)              what must come out, if `transcribe` gives this transcript

A door that has no parameter for an option refuses the option by its name.
"""

import asyncio
import base64
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

import whisperbatch as wb
from tests.unit.compat.drop_in import load_fake
from tests.unit.fakes import FakeEngine
from tests.unit.front_doors.features import COMMON, Feature, speaking_engine
from tests.unit.server.asgi import FORM, form, running
from whisperbatch import Transcriber, Transcript, jobs
from whisperbatch.cli.app import app
from whisperbatch.compat.faster_whisper import WhisperModel
from whisperbatch.huggingface import EndpointHandler, answer_of
from whisperbatch.jobs import PlanFiles, task_to_line
from whisperbatch.options import Options
from whisperbatch.types import to_values
from whisperbatch.writers import render


@dataclass(frozen=True)
class Place:
    """Where a test runs.

    Attributes:
        recordings: folder of the recordings.
        model: folder of a model that no engine can load.
        weights: fingerprint of the model.
        outputs: an empty folder.
        patch: ends with the test.
    """

    recordings: Path
    model: Path
    weights: str
    outputs: Path
    patch: pytest.MonkeyPatch

    def engine(self, **keywords: Any) -> FakeEngine:
        return speaking_engine(fingerprint=self.weights, **keywords)

    def load(self, engine: FakeEngine) -> None:
        """Let `whisperbatch.load` return an engine."""
        self.patch.setattr(wb, "load", lambda *_, **__: Transcriber(engine))

    def path(self, feature: Feature) -> Path:
        return self.recordings / feature.recording

    def options(self, feature: Feature) -> dict[str, Any]:
        """The keywords of `transcribe`, with paths of voices."""
        options = {**COMMON, **feature.options}
        if voices := options.get("known_speakers"):
            options["known_speakers"] = {
                name: str(self.recordings / file) for name, file in voices.items()
            }
        return options


@dataclass(frozen=True)
class Door:
    """A way into the library.

    Attributes:
        name: of the test.
        transcribe: transcribes the recording of a feature, and returns what a user gets.
        view: returns the same for a transcript.
        asked: returns a feature with the options that the door needs to give an equal transcript.
        refused: returns the names of the options that the door has no parameter for.
        needs: a package without which the door is not tested.
    """

    name: str
    transcribe: Callable[[Feature, Place], Any]
    view: Callable[[Transcript], Any]
    asked: Callable[[Feature], Feature] = lambda feature: feature
    refused: Callable[[Feature], list[str]] = lambda _: []
    needs: str | None = None


def _stream(feature: Feature, place: Place) -> Any:
    with Transcriber(place.engine()) as asr:
        with asr.stream(place.path(feature), **place.options(feature)) as stream:
            segments = tuple(stream)
        made = Transcript(
            segments=stream.final_segments or segments,
            language=stream.language,
            language_probability=stream.language_probability,
            duration=stream.duration or 0.0,
            source=stream.source,
            omissions=stream.omissions,
            chunks=stream.chunks,
            redecoded=stream.redecoded,
            checked_duration=stream.checked_duration or 0.0,
            recovered_duration=stream.recovered_duration or 0.0,
            diarization=stream.diarization,
            notices=stream.notices,
        )
    return made.to_dict()


def _submit(feature: Feature, place: Place) -> Any:
    with Transcriber(place.engine()) as asr:
        return asr.submit(place.path(feature), **place.options(feature)).result(60).to_dict()


def _transcribe_many(feature: Feature, place: Place) -> Any:
    sources = [place.path(feature)] * 2
    with Transcriber(place.engine()) as asr:
        one, other = asr.transcribe_many(sources, ordered=False, **place.options(feature))
    assert one == other
    return one.to_dict()


def _command(place: Place, *arguments: object, engine: FakeEngine) -> int:
    place.load(engine)
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code in (0, 1), result.output
    return result.exit_code


def _folder(feature: Feature, place: Place, *, interrupted: bool = False) -> Any:
    """Transcribe with the command line; `interrupted`: at first until the second row fails."""
    arguments = [
        *("transcribe", place.path(feature), "--model", place.model, "--resume", "--quiet"),
        *("--format", "json", "--output-dir", place.outputs, *_flags(place.options(feature))),
    ]
    if interrupted:
        arguments.append("--batch-size=1")
        broken = place.engine(failing={"decode": range(1, 1000)})
        assert _command(place, *arguments, engine=broken) == 1
        assert not list(place.outputs.glob("*.json"))
    assert _command(place, *arguments, engine=place.engine()) == 0
    (output,) = place.outputs.glob("*.json")
    return json.loads(output.read_text())


def _interrupted_folder(feature: Feature, place: Place) -> Any:
    return _folder(feature, place, interrupted=True)


def _flags(options: Mapping[str, Any]) -> list[str]:
    flags = []
    for name, value in options.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            flags.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            flags.append(f"--{flag}={text_of(value)}")
    return flags


def text_of(value: object) -> str:
    """Return an option as the text of a flag or of a field."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, Mapping):
        return ",".join(f"{name}={item}" for name, item in value.items())
    if isinstance(value, tuple):
        return ",".join(text_of(item) for item in value if item is not None)
    return str(value)


def _write_plan(feature: Feature, place: Place) -> Path:
    path = place.outputs / "talks.plan"
    options = {"word_timestamps": False, **place.options(feature)}
    jobs.plan(place.path(feature), path, model=place.model, task_duration=60.0, **options)
    return path


def _join(feature: Feature, place: Place) -> Any:
    jobs.join(place.outputs / "talks.plan", place.outputs / "joined", formats=("json",))
    name = Path(feature.recording).with_suffix(".json")
    return json.loads((place.outputs / "joined" / name).read_text())


def _plan(feature: Feature, place: Place) -> Any:
    return work_on_plan(feature, place)


def work_on_plan(feature: Feature, place: Place, spans: int = 1) -> Any:
    """Transcribe a recording that the plan divides into a number of spans."""
    path = _write_plan(feature, place)
    with Transcriber(place.engine()) as asr:
        report = jobs.work(path, asr=asr)
    assert (report.transcribed, report.failed, report.left) == (spans, 0, 0), report
    return _join(feature, place)


def _interrupted_plan(feature: Feature, place: Place) -> Any:
    place.patch.setattr("whisperbatch.jobs.workers.results.ENGINE_PAUSES", ())
    path = _write_plan(feature, place)
    with Transcriber(place.engine(failing={"decode": range(1000)})) as asr:
        assert jobs.work(path, asr=asr).left == 1
    with Transcriber(place.engine()) as asr:
        assert jobs.work(path, asr=asr).transcribed == 1
    return _join(feature, place)


def _server(feature: Feature, place: Place) -> Any:
    fields = {name: text_of(value) for name, value in place.options(feature).items()}
    kind = "translations" if fields.pop("task", None) == "translate" else "transcriptions"
    if fields.pop("known_speakers", None):
        voice = base64.b64encode((place.recordings / "ann.wav").read_bytes()).decode()
        fields["known_speaker_names[]"] = "Ann"
        fields["known_speaker_references[]"] = f"data:audio/wav;base64,{voice}"
    fields |= {"model": "whisper-1", "response_format": "verbose_json"}
    body = form(fields, place.path(feature).read_bytes(), feature.recording)

    async def ask() -> Any:
        engine = place.engine()
        async with running(place.patch, engine, options={"vad": True}) as client:
            answer = await client.request("POST", f"/v1/audio/{kind}", headers=FORM, pieces=[body])
        assert answer.status == 200, answer.body
        return answer.json

    return _served(asyncio.run(ask()))


def _served(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of an answer that do not depend on the upload or on OpenAI's form."""
    for word in values.get("words", ()):
        word.pop("speaker", None)
    for segment in values["segments"]:
        segment.pop("words", None)
    left_out = ("source", "task", "language", "usage")
    return {name: value for name, value in values.items() if name not in left_out}


def _hugging_face(feature: Feature, place: Place) -> Any:
    place.load(place.engine())
    handler = EndpointHandler(str(place.model))
    try:
        parameters = json.loads(json.dumps(place.options(feature)))
        recording = place.path(feature).read_bytes()
        return handler({"inputs": recording, "parameters": parameters})
    finally:
        handler.close()


def _ray_tasks(feature: Feature, place: Place) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - an extra

    from whisperbatch.ray.actors import TASK, TaskActor, TaskSettings  # noqa: PLC0415 - an extra

    class Actor(TaskActor):
        def load_model(self, settings: TaskSettings) -> Transcriber:
            return Transcriber(place.engine())

    path = _write_plan(feature, place)
    plan = PlanFiles.at(str(path)).read()
    actor = Actor(TaskSettings(str(path), plan.header, None, {}))
    return _row(actor(pa.table({TASK: [task_to_line(task) for task in plan.tasks]})))


def _ray_recordings(feature: Feature, place: Place) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - an extra

    from whisperbatch.ray.actors import RecordingActor, RecordingSettings  # noqa: PLC0415

    class Actor(RecordingActor):
        def load_model(self, settings: RecordingSettings) -> Transcriber:
            return Transcriber(place.engine())

    actor = Actor(RecordingSettings("fake", Options(**place.options(feature)), {}))
    return _row(actor(pa.table({"uri": [str(place.path(feature))]})))


def _row(tables: Any) -> Any:
    (row,) = (row for table in tables for row in table.to_pylist())
    assert row["error"] is None
    return {name: row[name] for name in ("text", "language", "segments")}


def _row_view(transcript: Transcript) -> Any:
    segments = to_values(transcript.segments)
    return {"text": transcript.text, "language": transcript.language, "segments": segments}


DROP_IN: Final[Mapping[str, Any]] = {"vad": "vad_filter"}
"""Options with another name in faster-whisper."""
PARAMETERS: Final = frozenset(inspect.signature(WhisperModel.transcribe).parameters)


def _drop_in(feature: Feature, place: Place) -> Any:
    options = {"temperature": 0.0, **place.options(feature)}
    if clips := options.get("clip_timestamps"):
        options["clip_timestamps"] = [time for clip in clips for time in clip if time is not None]
    keywords = {DROP_IN.get(name, name): value for name, value in options.items()}
    model = load_fake(place.patch, place.engine())
    segments, info = model.transcribe(str(place.path(feature)), **keywords)
    return info.language, list(map(_segment, segments))


def _drop_in_view(transcript: Transcript) -> Any:
    return transcript.language, list(map(_segment, transcript.segments))


def _segment(segment: Any) -> Any:
    words = [(word.start, word.end, word.word) for word in segment.words or ()]
    scores = (segment.avg_logprob, segment.temperature, segment.compression_ratio)
    return segment.text.strip(), *scores, *words


def _not_of_faster_whisper(feature: Feature) -> list[str]:
    return [name for name in feature.options if DROP_IN.get(name, name) not in PARAMETERS]


def _known_speakers(feature: Feature) -> list[str]:
    return [name for name in feature.options if name == "known_speakers"]


def _with_language(feature: Feature) -> Feature:
    """Return the feature with a language: the drop-in detects it in chunks of 30 s."""
    if "multilingual" in feature.options:
        return feature
    return replace(feature, options={"language": "fr", **feature.options})


def json_of(transcript: Transcript) -> Any:
    """Return the content of a JSON file."""
    return json.loads(render(transcript, "json"))


DOORS: Final = (
    Door("stream", _stream, Transcript.to_dict),
    Door("submit", _submit, Transcript.to_dict),
    Door("transcribe_many", _transcribe_many, Transcript.to_dict),
    Door("command line", _folder, json_of),
    Door("command line, continued", _interrupted_folder, json_of),
    Door("plan", _plan, json_of),
    Door("plan, continued", _interrupted_plan, json_of),
    Door("server", _server, lambda transcript: _served(json_of(transcript))),
    Door("Hugging Face", _hugging_face, answer_of, refused=_known_speakers),
    Door("Ray, plan", _ray_tasks, _row_view, needs="pyarrow"),
    Door("Ray, recordings", _ray_recordings, _row_view, needs="pyarrow"),
    Door("drop-in", _drop_in, _drop_in_view, _with_language, _not_of_faster_whisper),
)
