"""Short runs of the fuzz program on whisperbatch."""

import pytest

from tests.fuzz import driver, models, report, request_cases, session_cases
from tests.fuzz.cases import Case

SEED = 300


@pytest.mark.slow
def test_damaged_media_and_random_options_give_transcripts_or_clear_errors() -> None:
    models.random_model_folder()
    cases = [Case(SEED, "file", number) for number in range(200)]
    cases += [Case(SEED, "option", number) for number in range(100)]
    records = driver.run(cases, driver.Settings(workers=1))
    failures = [report.failure(record, SEED) for record in records if record.failed]
    assert not failures, "\n".join(failures)
    verdicts = {record.verdict for record in records}
    assert {"transcript", "AudioError", "OptionError"} <= verdicts
    assert len({record.container for record in records} - {""}) >= 10


@pytest.mark.slow
def test_other_recordings_change_nothing() -> None:
    cases = [Case(SEED, "run", number) for number in range(40)]
    records = driver.run(cases, driver.Settings(workers=1))
    failures = [report.failure(record, SEED) for record in records if record.failed]
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("count", [60, pytest.param(2000, marks=pytest.mark.slow)])
def test_hostile_requests_get_clear_errors_and_leave_nothing(count: int) -> None:
    records = request_cases.run([Case(SEED, "request", number) for number in range(count)])
    failures = [report.failure(record, SEED) for record in records if record.failed]
    assert not failures, "\n".join(failures)
    statuses = [record.verdict for record in records]
    assert statuses.count("200") > count / 20
    assert statuses.count("400") > count / 5


@pytest.mark.slow
def test_hostile_live_sessions_leave_nothing() -> None:
    """Times are not compared: other tests may use the machine."""
    cases = [Case(SEED, "session", number) for number in range(24)]
    records = session_cases.run(cases, alone=0.0)
    failures = [report.failure(record, SEED) for record in records if record.failed]
    assert not failures, "\n".join(failures)
    kinds = {record.notes[0] for record in records[:-1]}
    assert len(kinds) >= 8
    assert {record.verdict.partition(": ")[2] for record in records} >= {"left", "goes on"}
