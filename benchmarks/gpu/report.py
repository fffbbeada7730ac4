"""The table of all stages, in Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.gpu.front_end import CHUNKS as FRONT
from benchmarks.gpu.front_end import OUTLOOK, outlook
from benchmarks.gpu.running import COMPLETE, Figures, Result


def report(results: Sequence[Result], about: Figures, missing: Mapping[str, str]) -> str:
    """Return the machine, its missing parts, and the tables.

    Stages whose names begin with the same words, up to a comma, share a table.
    """
    lines = list(_machine(about, missing))
    groups: dict[str, list[Result]] = {}
    for each in results:
        groups.setdefault(each.name.partition(", ")[0], []).append(each)
    for name, members in groups.items():
        lines += ["", f"### {name}", "", *_table(members)]
    return "\n".join(lines)


def add_outlook(results: Sequence[Result]) -> list[Result]:
    """Return the results with what 16 cores reach, if its figures are there."""
    rows = {name: row for each in results for name, row in each.rows.items()}
    front = rows.get(FRONT)
    simulated = {name: row for name, row in rows.items() if "CPU reading" in row}
    if not (front and simulated):
        return list(results)
    limits = {name: outlook(row, front) for name, row in simulated.items()}
    return [*results, Result(OUTLOOK, COMPLETE, 0.0, limits)]


def _machine(about: Figures, missing: Mapping[str, str]) -> Iterator[str]:
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    yield f"Machine: {about['gpu'] or 'no GPU'}; {about['cores']} cores, {about['machine']}."
    yield f"Versions: {versions}."
    for reason in dict.fromkeys(missing.values()):
        yield f"Missing: {reason}."


def _table(results: Sequence[Result]) -> Iterator[str]:
    """Yield a table whose columns are those of all rows, and why rows are missing."""
    rows = [item for each in results for item in each.rows.items()]
    columns = list(dict.fromkeys(key for _, row in rows for key in row))
    if rows:
        yield _line(["", *columns])
        yield _line(["---"] * (len(columns) + 1))
    for name, row in rows:
        yield _line([name, *(_text(row.get(column, "")) for column in columns)])
    incomplete = [each for each in results if each.state != COMPLETE]
    for number, each in enumerate(incomplete):
        if rows or number:
            yield ""
        yield f"{each.name}: {each.state}."


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(value: Any) -> str:  # noqa: ANN401 - of JSON
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return str(value)
