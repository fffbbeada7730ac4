"""The runner of the workers: executes a case of either kind."""

from tests.fuzz import file_cases, option_cases
from tests.fuzz.cases import Case, Environment, Result


def run(case: Case, env: Environment) -> Result:
    """Execute a case."""
    return file_cases.run(case, env) if case.kind == "file" else option_cases.run(case, env)
