"""Which revision of a model on the hub is loaded, recorded, and refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import huggingface_hub
import numpy as np
import pytest
from huggingface_hub import constants

import whisperbatch as wb
from tests.unit.models.model_files import write_model
from whisperbatch import jobs
from whisperbatch.compat.faster_whisper import WhisperModel
from whisperbatch.engines import loading
from whisperbatch.engines.settings import SETTINGS, setting_parameters, settings_of
from whisperbatch.errors import ModelError, OptionError
from whisperbatch.huggingface import with_draft_model
from whisperbatch.jobs.plans import settings
from whisperbatch.jobs.plans.format import from_lines, to_lines
from whisperbatch.jobs.plans.settings import make_header
from whisperbatch.jobs.workers import worker
from whisperbatch.models import find_model, is_of_hub, loaded_revision, packages
from whisperbatch.models.packages import PACKAGES
from whisperbatch.options import Options

REPOSITORY: Final = "Systran/faster-whisper-small"
OLD, NEW = "a" * 40, "b" * 40


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with two revisions of a model: "v1" and "main"."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(packages, "PACKAGES", {})
    monkeypatch.setattr(settings, "measured_kept_frames", lambda _: 1.0)  # needs real weights
    folder = tmp_path / "hub" / "models--Systran--faster-whisper-small"
    (folder / "refs").mkdir(parents=True)
    for name, commit in (("v1", OLD), ("main", NEW)):
        (folder / "refs" / name).write_text(commit)
        write_model(folder / "snapshots" / commit)
    (folder / "snapshots" / OLD / "config.json").write_text('{"suppress_ids": [1]}')
    return folder / "snapshots"


@pytest.mark.parametrize(
    ("revision", "commit"), [(None, NEW), ("main", NEW), ("v1", OLD), (OLD, OLD), (NEW, NEW)]
)
def test_a_revision_is_found_in_the_cache(hub: Path, revision: str | None, commit: str) -> None:
    found = find_model("small", revision=revision)
    assert found == hub / commit
    assert loaded_revision(found) == commit


def test_a_revision_that_is_not_cached_is_named(hub: Path) -> None:
    with pytest.raises(ModelError, match="model small in revision v2 is not in the Hugging Face"):
        find_model("small", revision="v2")


def test_a_revision_is_downloaded(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    asked: list[tuple[str | None, bool]] = []

    def download(repository: str, *, local_files_only: bool, **given: Any) -> str:
        asked.append((given.get("revision"), local_files_only))
        if local_files_only:
            raise huggingface_hub.errors.LocalEntryNotFoundError("not cached")
        return str(hub / OLD)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setattr(huggingface_hub, "HfApi", None)  # no size of the download
    assert loaded_revision(find_model("small", revision="v9")) == OLD
    assert asked == [("v9", True), ("v9", False)]


@pytest.mark.parametrize("revision", ["", " ", "a b", "../x", "a//b", 7, b"main", "x" * 300, "a?b"])
def test_values_that_are_not_revisions(hub: Path, revision: Any) -> None:
    with pytest.raises(OptionError, match="revision="):
        find_model("small", revision=revision)
    with pytest.raises(OptionError, match="revision="):
        wb.load("small", revision=revision)
    for kind in SETTINGS.values():
        with pytest.raises(OptionError, match="revision="):
            kind(revision=revision)


def test_a_revision_of_a_directory_is_refused_at_every_door(hub: Path, tmp_path: Path) -> None:
    directory = str(write_model(tmp_path / "mine"))
    doors = (
        lambda: find_model(directory, revision="v1"),
        lambda: find_model(hub / OLD, revision="v1"),
        lambda: wb.load(directory, revision="v1"),
        lambda: wb.load(directory, engine=wb.CTranslate2Settings(revision="v1")),
        lambda: wb.transcribe(np.zeros(16_000, np.float32), model=directory, revision="v1"),
        lambda: jobs.plan("a.wav", tmp_path / "a.plan", model=directory, revision="v1"),
        lambda: WhisperModel(directory, revision="v1"),
    )
    for door in doors:
        with pytest.raises(OptionError, match=r"revision='v1'.*is a directory"):
            door()


def test_a_revision_of_a_packaged_model_is_refused() -> None:
    with pytest.raises(OptionError, match=r"revision='v1' .*package; give model='Systran/.*-base'"):
        find_model("base", revision="v1")
    assert not is_of_hub("base")


@pytest.mark.parametrize(
    ("directory", "revision"),
    [
        (f"/hub/models--a--b/snapshots/{OLD}", OLD),
        (f"/hub/models--a--b/snapshots/{OLD}/", OLD),
        (f"/hub/models--a--b/blobs/{OLD}", None),
        ("/hub/models--a--b/snapshots/main", None),
        (f"/my/snapshots/{OLD}", None),
        (OLD, None),
        ("/", None),
    ],
)
def test_the_revision_of_a_directory(directory: str, revision: str | None) -> None:
    assert loaded_revision(Path(directory)) == revision


def test_every_engine_and_door_declares_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    from whisperbatch.cli.app import LOAD_KEYWORDS  # noqa: PLC0415 - an extra
    from whisperbatch.cli.plans import PLAN_KEYWORDS  # noqa: PLC0415 - an extra

    assert "revision" in setting_parameters()
    assert "revision" in LOAD_KEYWORDS
    assert "revision" in PLAN_KEYWORDS
    assert "revision" not in jobs.MACHINE_KEYWORDS  # it belongs to the plan
    found: list[object] = []

    def find(*_: object, revision: object, **__: object) -> Path:
        found.append(revision)
        raise ModelError("found")

    monkeypatch.setattr(loading, "find_model", find)
    for engine in ("auto", "ctranslate2", "onnxruntime", "openvino"):
        with pytest.raises(ModelError, match="found"):
            wb.load("small", engine=engine, revision="v1")
    assert found == ["v1"] * 4


def test_the_server_passes_the_setting_on(monkeypatch: pytest.MonkeyPatch) -> None:
    from whisperbatch.server.settings import ServerSettings  # noqa: PLC0415 - an extra

    given: list[dict[str, Any]] = []
    monkeypatch.setattr(wb, "load", lambda _, **keywords: given.append(keywords))
    settings = ServerSettings.model_validate({"engine_settings": '{"revision": "v1"}'})
    settings.load("small")
    assert given[0]["revision"] == "v1"


def test_a_draft_model_leaves_the_revision() -> None:
    for keywords in (
        {"revision": "v1", "device": "cpu"},
        {"engine": "torch", "revision": "v1"},
        {"engine": wb.CTranslate2Settings(revision="v1")},
        {"engine": wb.TorchSettings(revision="v1")},
    ):
        assert settings_of(with_draft_model("tiny", keywords)).revision == "v1"  # type: ignore[arg-type]


def test_a_plan_records_the_commit_and_workers_load_it(
    hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = make_header("small", Options(), {"revision": "v1"}, 60.0)
    assert header.revision == OLD
    assert "revision" not in header.load
    plan = from_lines(to_lines(jobs.Plan(header, (), ())), "a.plan")
    assert plan.header == header
    loaded: list[dict[str, Any]] = []
    monkeypatch.setattr(worker, "load", lambda _, **keywords: loaded.append(keywords))
    worker.load_model(header)
    worker.load_model(replace(header, revision=None))
    worker.load_model(replace(header, model=str(hub / OLD)))
    assert loaded == [{"revision": OLD}, {}, {}]
    monkeypatch.setattr("whisperbatch.models.registry.PACKAGES", PACKAGES)
    worker.load_model(replace(header, model="base"))  # a package here: its weights are compared
    assert loaded[-1] == {}


def test_results_of_equal_weights_stay_valid_in_another_revision(hub: Path) -> None:
    new = make_header("small", Options(), {}, 60.0)
    old = make_header("small", Options(), {"revision": "v1"}, 60.0)
    assert (new.revision, old.revision) == (NEW, OLD)
    assert new.fingerprint != old.fingerprint  # another config.json
    (hub / OLD / "config.json").write_bytes((hub / NEW / "config.json").read_bytes())
    same = make_header("small", Options(), {"revision": "v1"}, 60.0)
    assert (same.revision, same.fingerprint) == (OLD, new.fingerprint)
    given = make_header("small", Options(), {"revision": NEW}, 60.0)
    assert given.fingerprint == new.fingerprint
