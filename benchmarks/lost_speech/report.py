"""The table and the JSON file of `benchmarks.lost_speech`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import reduce
from operator import add
from typing import Any, NamedTuple

from benchmarks.lost_speech.bootstrap import Difference, compare
from benchmarks.lost_speech.results import Result
from benchmarks.measures import Accuracy

MARKS = {"better": "+", "worse": "!", "same": " ", "unknown": "?"}
TITLES = f"{'corpus':12} {'system':22} {'WER %':>8} {'missed %':>10} {'lost s':>7} "
TITLES += f"{'invented/min':>14} {'speed':>6}"


class Measure(NamedTuple):
    """A measure that is compared: errors in a recording, and the size that divides them."""

    name: str
    scale: float  # 100 for percent

    def errors(self, accuracy: Accuracy) -> float:
        """Return the errors of a recording."""
        if self.name == "wer":
            return accuracy.words.errors
        return accuracy.uncovered if self.name == "missed" else accuracy.made_up

    def size(self, accuracy: Accuracy) -> float:
        """Return the number of words, seconds of speech, or minutes without speech."""
        if self.name == "wer":
            return accuracy.words.words
        return accuracy.speech if self.name == "missed" else accuracy.silence / 60


MEASURES = (Measure("wer", 100), Measure("missed", 100), Measure("invented", 1))


def compared(system: Sequence[Accuracy], reference: Sequence[Accuracy]) -> dict[str, Difference]:
    """Return the differences of all measures that the recordings have."""
    differences = {}
    for measure in MEASURES:
        sizes = [measure.size(accuracy) / measure.scale for accuracy in reference]
        # Recordings without a word have no word errors, only invented words.
        found = compare(
            [measure.errors(accuracy) for accuracy in system],
            [measure.errors(accuracy) for accuracy in reference],
            sizes,
        )
        if found:
            differences[measure.name] = found
    return differences


def rates(accuracies: Iterable[Accuracy]) -> dict[str, float | None]:
    """Return the rate of each measure over recordings; None without anything to divide by."""
    measured = list(accuracies)
    values: dict[str, float | None] = {}
    for measure in MEASURES:
        usable = [accuracy for accuracy in measured if measure.size(accuracy) > 0]
        size = sum(map(measure.size, usable))
        errors = sum(map(measure.errors, usable))
        values[measure.name] = measure.scale * errors / size if size else None
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

    def lines(self, title: str, corpora: Sequence[str]) -> Iterable[str]:
        """Yield the lines of the table for corpora together: one for each system."""
        for system in self._systems:
            row = self._row(corpora, system)
            cells = [f"{title:12} {system:22}"]
            for name, width in (("wer", 8), ("missed", 10), ("invented", 14)):
                value = row["rates"][name]
                verdict = row["against_reference"].get(name, {}).get("verdict", "same")
                text = "-" if value is None else f"{value:.2f}{MARKS[verdict]}"
                cells.append(f"{text:>{width}}")
                if name == "missed":
                    cells.append(f"{row['figures']['missed_seconds'] or 0:>7.1f}")
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
