"""Every front door honours every feature as `transcribe` does, or refuses it by name."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import whisperbatch.vad
from tests.contract.tiny_model import tiny_model
from tests.unit.fake_diarizer import use_fake_diarizer
from tests.unit.fakes import LoudVad
from tests.unit.front_doors.doors import DOORS, Door, Place, json_of, work_on_plan
from tests.unit.front_doors.features import (
    AUDIBLE,
    DIVIDED,
    FEATURES,
    LONG,
    LOUD,
    Feature,
    write_recordings,
)
from whisperbatch import OptionError, Options, Transcriber, Transcript
from whisperbatch.jobs import RecordingWorker
from whisperbatch.models import fingerprint

Expected = Callable[[Feature], Transcript]

pytestmark = pytest.mark.usefixtures("no_threads_left")


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    write_recordings(folder)
    return folder


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def place(recordings: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    use_fake_diarizer(monkeypatch)
    monkeypatch.setattr(whisperbatch.vad, "_silero", lambda: LoudVad({LOUD: 0.9, AUDIBLE: 0.3}))
    monkeypatch.setattr("whisperbatch.cli.app.configure_logging", lambda **_: None)
    outputs = tmp_path / "outputs"
    outputs.mkdir()
    return Place(recordings, model, fingerprint(model), outputs, monkeypatch)


@pytest.fixture(scope="session")
def made() -> dict[str, Transcript]:
    """The transcripts so far."""
    return {}


@pytest.fixture
def expected(place: Place, made: dict[str, Transcript]) -> Expected:
    """A function that returns the transcript of a feature, which is made once."""

    def transcript(feature: Feature) -> Transcript:
        if (key := repr(feature)) not in made:
            with Transcriber(place.engine()) as asr:
                made[key] = asr.transcribe(place.path(feature), **place.options(feature))
        return made[key]

    return transcript


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_the_door_gives_what_transcribe_gives(
    door: Door, feature: Feature, place: Place, expected: Expected
) -> None:
    if door.needs:
        pytest.importorskip(door.needs)
    feature = door.asked(feature)
    if refused := door.refused(feature):
        with pytest.raises((OptionError, TypeError), match="|".join(refused)):
            door.transcribe(feature, place)
    else:
        assert door.transcribe(feature, place) == door.view(expected(feature))


@pytest.mark.parametrize("feature", DIVIDED, ids=lambda feature: feature.name)
def test_the_parts_of_a_recording_give_what_transcribe_gives(
    feature: Feature, place: Place, expected: Expected
) -> None:
    assert work_on_plan(feature, place, spans=2) == json_of(expected(feature))


@pytest.mark.parametrize("feature", [*DIVIDED, *LONG], ids=lambda feature: feature.name)
def test_several_readers_give_what_one_reader_gives(
    feature: Feature, place: Place, expected: Expected
) -> None:
    path, options = place.path(feature), {**place.options(feature), "readers": 3}
    whole = expected(feature).to_dict()
    with Transcriber(place.engine()) as asr:
        assert asr.transcribe(path, **options).to_dict() == whole
        assert asr.submit(path, **options).result(60).to_dict() == whole
        both = asr.transcribe_many([path, path], **options)
        assert [transcript.to_dict() for transcript in both] == [whole, whole]


def test_the_language_of_a_recording_replaces_the_candidates(place: Place) -> None:
    path = place.recordings / "talk.wav"
    with Transcriber(place.engine()) as asr:
        worker = RecordingWorker(asr, Options(languages=("fr", "de")))
        (outcome,) = worker.outcomes([("talk", str(path), "de")])
        assert outcome.transcript == asr.transcribe(path, language="de")


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_each_option_that_is_lost_on_the_way_shows(feature: Feature, expected: Expected) -> None:
    for name in feature.options:
        kept = {key: value for key, value in feature.options.items() if key != name}
        without = replace(feature, options={} if name in feature.needed else kept)
        for door in DOORS:
            if name not in door.refused(feature):
                assert door.view(expected(feature)) != door.view(expected(without)), door.name
