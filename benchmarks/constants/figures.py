"""The two figures of each check, as counts that add up."""

from dataclasses import dataclass, fields
from typing import Final

from typing_extensions import Self

from benchmarks.constants.inventory import Number


@dataclass(frozen=True, slots=True)
class Figures:
    """What a value of a constant costs: both rates are best at 0.

    Attributes:
        harmed: right rows flagged, speech rejected, words wrong, ...
        speech: the total of which `harmed` is a part.
        passed: faults not flagged, other sound accepted, speech lost, ...
        faults: the total of which `passed` is a part; 0 if the check has only the first figure.
    """

    harmed: float = 0.0
    speech: float = 0.0
    passed: float = 0.0
    faults: float = 0.0

    def __add__(self, other: Self) -> Self:
        values = (getattr(self, f.name) + getattr(other, f.name) for f in fields(self))
        return type(self)(*values)

    @property
    def harm(self) -> float | None:
        """The first figure in percent; None if there is no speech."""
        return 100 * self.harmed / self.speech if self.speech else None

    @property
    def failure(self) -> float | None:
        """The second figure in percent; None if there are no faults."""
        return 100 * self.passed / self.faults if self.faults else None


@dataclass(frozen=True, slots=True)
class Check:
    """A constant with the values that are compared with its own.

    Attributes:
        key: MODULE.NAME of a constant, or "options.NAME" of an option.
        kind: name of the measurement.
        values: a lower and a higher value, in the unit of the constant.
    """

    key: str
    kind: str
    values: tuple[Number, ...]


TITLES: Final = {  # kind: first figure, second figure
    "uncovered": ("complete rows flagged", "rows that lost words not flagged"),
    "fast": ("right rows flagged", "rows with added words not flagged"),
    "limit": ("right rows cut off", "rows with added words not cut off"),
    "threshold": ("right rows flagged", "wrong rows not flagged"),
    "removed": ("right rows with removed text", "invented rows not removed"),
    "second opinion": ("right rows rejected", "invented rows accepted"),
    "sequence": ("rows with the wrong language", "rows with the wrong language near changes"),
    "decision": ("recordings with the wrong language", "rows of long recordings with it"),
    "vad": ("speech rejected", "other sound accepted"),
    "filter": ("rejected speech not passed", "other sound passed"),
    "context": ("word errors", "lost speech"),
    "segments": ("segments that end no sentence", "sentences that end no segment"),
    "phrases": ("phrases that end no sentence", "sentences that end no phrase"),
    "switching": ("speech in the wrong language", ""),
    "detect": ("recordings with the wrong language", ""),
    "run": ("word errors", "lost speech"),
}
