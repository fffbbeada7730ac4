"""The table and the JSON file of `benchmarks.lost_speech`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import reduce
from operator import add
from typing import Any, NamedTuple

from benchmarks.lost_speech.bootstrap import Difference, compare
from benchmarks.lost_speech.results import Result
from benchmarks.measures import Accuracy

MARKS = {"better": "+", "worse": "!", "same": " ", "unknown": "?"}
TITLES = (
    f"{'corpus':12} {'system':22} {'WER % ':>8} {'missed % ':>9} {'lost % ':>8} "
    f"{'invented/min ':>13} {'speed':>6}"
)


class Measure(NamedTuple):
    """A measure that is compared.

    Attributes:
        scale: 100 for percent.
        errors: number of errors in a recording.
        size: what the errors are divided by: words, seconds of speech, minutes without speech.
        width: of its column.
    """

    scale: float
    errors: Callable[[Accuracy], float]
    size: Callable[[Accuracy], float]
    width: int


MEASURES = {
    "wer": Measure(100, lambda a: a.words.errors, lambda a: a.words.words, 8),
    "missed": Measure(100, lambda a: a.uncovered, lambda a: a.speech, 9),
    "lost": Measure(100, lambda a: a.missed, lambda a: a.speech, 8),
    "invented": Measure(1, lambda a: a.made_up, lambda a: a.silence / 60, 13),
}


def compared(system: Sequence[Accuracy], reference: Sequence[Accuracy]) -> dict[str, Difference]:
    """Return the differences of the measures: recordings without a word have no word errors."""
    differences = {}
    for name, measure in MEASURES.items():
        sizes = [measure.size(accuracy) / measure.scale for accuracy in reference]
        errors, expected = (list(map(measure.errors, values)) for values in (system, reference))
        if difference := compare(errors, expected, sizes):
            differences[name] = difference
    return differences


def rates(accuracies: Sequence[Accuracy]) -> dict[str, float | None]:
    """Return the rate of each measure over recordings; None without anything to divide by."""
    values: dict[str, float | None] = {}
    for name, measure in MEASURES.items():
        usable = [accuracy for accuracy in accuracies if measure.size(accuracy) > 0]
        size, errors = sum(map(measure.size, usable)), sum(map(measure.errors, usable))
        values[name] = measure.scale * errors / size if size else None
    return values


class Report:
    """The results of several corpora, compared with those of the reference system."""

    def __init__(self, about: Mapping[str, Any], systems: Sequence[str], reference: str) -> None:
        self._about = about
        self._systems = systems
        self._reference = reference
        self._corpora: dict[str, dict[str, dict[str, Result]]] = {}

    def add(self, corpus: str, system: str, recording: str, result: Result) -> None:
        """Add the result of a recording."""
        self._corpora.setdefault(corpus, {}).setdefault(system, {})[recording] = result

    def lines(self, title: str, corpora: Sequence[str]) -> Iterator[str]:
        """Yield the lines of the table for corpora together: one for each system."""
        for system in self._systems:
            row = self._row(corpora, system)
            cells = [f"{title:12} {system:22}"]
            for name, measure in MEASURES.items():
                value = row["rates"][name]
                verdict = row["against_reference"].get(name, {}).get("verdict", "same")
                text = "-" if value is None else f"{value:.2f}{MARKS[verdict]}"
                cells.append(f"{text:>{measure.width}}")
            yield " ".join([*cells, f"{row['figures']['speed']:>6.1f}"])

    def _row(self, corpora: Sequence[str], system: str) -> dict[str, Any]:
        measured, reference = (
            [
                result.accuracy
                for corpus in corpora
                for result in self._corpora[corpus][name].values()
            ]
            for name in (system, self._reference)
        )
        differences = {} if system == self._reference else compared(measured, reference)
        return {
            "rates": rates(measured),
            "figures": reduce(add, measured).figures(),
            "against_reference": {
                name: {**asdict(difference), "verdict": difference.verdict}
                for name, difference in differences.items()
            },
        }

    def value(self, groups: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Return everything for the JSON file; `groups` are corpora that are also added up."""
        sets = {**{corpus: [corpus] for corpus in self._corpora}, **groups}
        recordings = {
            recording: {
                "corpus": corpus,
                **{name: _single(self._corpora[corpus][name][recording]) for name in self._systems},
            }
            for corpus, systems in self._corpora.items()
            for recording in systems[self._reference]
        }
        rows = {
            title: {system: self._row(corpora, system) for system in self._systems}
            for title, corpora in sets.items()
        }
        return {**self._about, "corpora": rows, "recordings": recordings}


def _single(result: Result) -> dict[str, Any]:
    return {**result.accuracy.figures(), **result.counts, "text": result.text}
