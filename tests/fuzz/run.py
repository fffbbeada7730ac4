"""The runner of the workers: executes a case of any kind but requests."""

from tests.fuzz import file_cases, option_cases, run_cases
from tests.fuzz.cases import Case, Environment, Result

RUNNERS = {"file": file_cases.run, "option": option_cases.run, "run": run_cases.run}


def run(case: Case, env: Environment) -> Result:
    """Execute a case."""
    return RUNNERS[case.kind](case, env)
