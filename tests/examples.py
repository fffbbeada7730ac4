"""How many cases Hypothesis makes: all, or a third of them in a run without the slow tests."""

from hypothesis import settings


def up_to(count: int) -> int:
    """Return the number of cases: `count`, in proportion to the profile (conftest.py)."""
    return max(1, count * settings().max_examples // 100)
