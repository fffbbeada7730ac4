"""Plans for a fake engine, whose weights no file has."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from whisperbatch.jobs.names import references_fingerprint
from whisperbatch.jobs.plans.format import Header, Plan, PlanFiles
from whisperbatch.jobs.plans.planning import make_plan
from whisperbatch.jobs.plans.settings import settings_fingerprint, stored_options
from whisperbatch.options import Options, resolve
from whisperbatch.types import CHUNK_RULES
from whisperbatch.vad import vad_fingerprint


def header(task_duration: float = 10.0, **options: Any) -> Header:
    """Return the settings of a plan for `FakeEngine`; without VAD, every recording has text."""
    given: dict[str, Any] = {"vad": False, "language": "en", "word_timestamps": True, **options}
    resolved: Options = resolve(None, **given)
    made = Header(
        model="fake",
        weights="fake",
        speech_detector=vad_fingerprint(resolved),
        references=references_fingerprint(resolved) or "",
        load={},
        options=stored_options(resolved),
        task_duration=task_duration,
        fingerprint="",
        chunk_rules=CHUNK_RULES,
    )
    return replace(made, fingerprint=settings_fingerprint(made, 1.0, resolved))


def write_plan(
    path: str | Path, sources: Sequence[str | Path], task_duration: float = 10.0, **options: Any
) -> Plan:
    """Write a plan for `FakeEngine`, and return it."""
    plan = make_plan([str(source) for source in sources], header(task_duration, **options))
    PlanFiles.at(str(path)).write(plan)
    return plan
