import pytest
from typer.testing import CliRunner

from whisperbatch.cli import plans


@pytest.mark.parametrize(("given", "retries"), [([], False), (["--retry-failed"], True)])
def test_failures_are_retried_if_the_flag_says_so(
    monkeypatch: pytest.MonkeyPatch, given: list[str], *, retries: bool
) -> None:
    found: list[bool] = []

    def note(arguments: plans.WorkArguments) -> int:
        found.append(arguments.retry_failed)
        return 0

    monkeypatch.setattr(plans, "work_on_plan", note)
    result = CliRunner().invoke(plans.app, ["work", "a.plan", *given])
    assert result.exit_code == 0, result.output
    assert found == [retries]
