"""The settings of a plan: model and options, as JSON, and their fingerprint."""

from collections.abc import Mapping
from dataclasses import fields, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

from whisperbatch.engines.settings import settings_of
from whisperbatch.errors import ModelError, OptionError
from whisperbatch.jobs.inputs import absolute
from whisperbatch.jobs.names import digest, references_fingerprint
from whisperbatch.jobs.plans.format import Header
from whisperbatch.models import find_model, fingerprint, loaded_revision, measured_kept_frames
from whisperbatch.models.config import MEASURED
from whisperbatch.options import Options, resolve
from whisperbatch.protocols import Engine
from whisperbatch.types import CHUNK_RULES
from whisperbatch.vad import vad_fingerprint

MACHINE_KEYWORDS: Final = ("device", "device_index", "inter_threads", "intra_threads", "compile")
"""Keywords of `load` that each worker chooses for its machine; the others belong to the plan."""

TO_THE_WORKER: Final = ("batch_size", "readers", "reader_processes")
"""The options that each worker chooses for its machine."""


def make_header(
    model: str | PathLike[str],
    options: Options,
    load: Mapping[str, Any],
    task_duration: float,
) -> Header:
    """Return the settings of a plan.

    Args:
        model: as in `load`. The weights must be on this machine, or downloadable.
        options: of the transcription.
        load: keywords of `load`.
        task_duration: seconds of audio of a task.

    Raises:
        OptionError: an option cannot be stored, or belongs to the worker.
        AudioError: the recording of a known speaker cannot be read.
        ModelError: the weights cannot be found.
    """
    for name in load:
        if name in MACHINE_KEYWORDS:
            raise OptionError(f"`{name}` has no effect on a plan; give `{name}` to work")
    engine = settings_of(load)
    engine.check(options.search)
    directory = find_model(model, transformers=engine.reads_transformers, revision=engine.revision)
    references = references_fingerprint(options)
    if references is None:
        raise OptionError(
            "`known_speakers`: a plan needs recordings that are files; give their paths"
        )
    # the content of the weights says which results are equal, whatever the revision is called
    keywords = {key: value for key, value in load.items() if key != "revision"}
    weights = fingerprint(directory)
    detector = vad_fingerprint(options)
    kept = measured_kept_frames(directory)
    name = fspath(model)
    header = Header(
        model=str(Path(name).absolute()) if Path(name).is_dir() else name,
        weights=weights,
        speech_detector=detector,
        references=references,
        load=keywords,
        options=stored_options(options),
        task_duration=task_duration,
        fingerprint="",
        chunk_rules=CHUNK_RULES,
        revision=loaded_revision(directory),
    )
    return replace(header, fingerprint=settings_fingerprint(header, kept, options))


def settings_fingerprint(header: Header, kept: float, options: Options) -> str:
    """Return the hash of everything that changes the text; see `Header.fingerprint`.

    Args:
        header: its fingerprint and counts are ignored.
        kept: see `measured_kept_frames`.
        options: those of the header.
    """
    return digest(
        header.chunk_rules,
        header.weights,
        kept,
        header.speech_detector,
        header.references,
        options,
        sorted(header.load.items()),
    )


def stored_options(options: Options) -> dict[str, Any]:
    """Return the options that are not at their defaults, as JSON.

    Raises:
        OptionError: an option has a value that JSON cannot hold, or belongs to the worker.
    """
    stored = {
        field.name: _plain(getattr(options, field.name))
        for field in fields(options)
        if getattr(options, field.name) != field.default
    }
    if speakers := stored.get("known_speakers"):
        stored["known_speakers"] = {
            name: absolute(source) if isinstance(source, str) else source
            for name, source in speakers.items()
        }
    for name in TO_THE_WORKER:
        if name in stored:
            raise OptionError(f"`{name}` has no effect on a plan; give it to work")
    for name, value in stored.items():
        if not _is_json(value):
            raise OptionError(f"`{name}`: a plan cannot store this value; give text or numbers")
    return stored


def options_of(
    header: Header,
    batch_size: int | None = None,
    readers: int | None = None,
    *,
    reader_processes: bool = False,
) -> Options:
    """Return the options of a plan, with those of `TO_THE_WORKER`.

    Raises:
        OptionError: this version of whisperbatch lacks an option of the plan.
    """
    options = resolve(None, **{name: _tuples(value) for name, value in header.options.items()})
    return resolve(
        options, batch_size=batch_size, readers=readers, reader_processes=reader_processes
    )


def check_machine(header: Header, engine: Engine, options: Options) -> None:
    """Check that this machine computes what the plan says.

    Raises:
        OptionError: another version of whisperbatch, with other chunks, has made the plan, or its
            settings were edited: the results of both settings would have the same ids.
        ModelError: the weights of the model or of the voice activity detector are others, or the
            recordings of known speakers have changed.
    """
    if header.chunk_rules != CHUNK_RULES:
        raise OptionError(
            "the plan was made by a version of whisperbatch that divides recordings at other "
            "boundaries; use this version, or make the plan again"
        )
    if not engine.fingerprint.startswith(header.weights):
        raise ModelError(
            f"model {header.model}: the weights on this machine are not those of the plan; install "
            "the same weights, or make the plan again"
        )
    if vad_fingerprint(options) != header.speech_detector:
        raise ModelError(
            "the voice activity detector on this machine is not that of the plan: install the "
            "package silero-vad in the same version on all machines, or on none"
        )
    if references_fingerprint(options) != header.references:
        raise ModelError(
            "known_speakers: the recordings have changed since the plan was made; make it again"
        )
    # the header does not state the share of the frames, but few exist
    shares = {1.0, *MEASURED.values()}
    expected = [settings_fingerprint(header, kept, options) for kept in shares]
    if header.fingerprint not in expected:
        raise OptionError(
            "the settings of the plan are not those that it was made with; make the plan again "
            "with: whisperbatch plan"
        )


def _plain(value: Any) -> Any:  # noqa: ANN401 - any option
    """Return tuples as lists, and mappings and paths as JSON has them."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _tuples(value: Any) -> Any:  # noqa: ANN401 - any option
    """Return lists as tuples: options contain no lists."""
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _is_json(value: object) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(_is_json, value))
    return value is None or isinstance(value, str | int | float)
