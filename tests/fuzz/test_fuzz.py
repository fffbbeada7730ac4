"""A short run of the fuzz program on whisperbatch."""

import pytest

from tests.fuzz import driver, models, report
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
