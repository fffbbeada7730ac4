"""How right a diarization is: error rates of turns, speakers and words.

The diarization error rate is the sum of missed speech, false alarms and confusions, divided by the
speech of the reference, where two who speak at once count twice. It is measured with
pyannote.metrics twice: exactly, and without 0.25 s on each side of every start and end of the
reference. (pyannote calls the latter collar=0.5: its collar is the width of the gap.) Overlaps
always count.

cpWER, by meeteval, joins the words of each speaker, finds the assignment of speakers with the
fewest errors, and then counts wrong, missing and additional words: a word by a wrong speaker is two
errors.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from typing_extensions import Self

from benchmarks.diarization.conversations import Spoken, Turn

COLLAR: Final = 0.25  # seconds on each side


@dataclass(frozen=True, slots=True)
class Errors:
    """The parts of a diarization error rate, in seconds; they add up.

    Attributes:
        speech: of the reference; seconds with two speakers count twice.
        missed: speech that the system gives to no speaker.
        false_alarm: non-speech that the system gives to a speaker.
        confusion: speech given to somebody else.
    """

    speech: float = 0.0
    missed: float = 0.0
    false_alarm: float = 0.0
    confusion: float = 0.0

    @property
    def rate(self) -> float:
        """The diarization error rate: 0 without speech and without errors."""
        wrong = self.missed + self.false_alarm + self.confusion
        return wrong / self.speech if self.speech else float(wrong > 0)

    def __add__(self, other: Self) -> Self:
        values = {name: getattr(self, name) + getattr(other, name) for name in self.__slots__}
        return replace(self, **values)


@dataclass(frozen=True, slots=True)
class Diarization:
    """The measurements of some conversations; the sum is about all of them.

    Attributes:
        exact: errors without collar.
        tolerant: errors with COLLAR.
        speakers: (true, found) number of speakers of each conversation.
        seconds: duration of the audio.
        took: seconds that the system took.
    """

    exact: Errors = field(default_factory=Errors)
    tolerant: Errors = field(default_factory=Errors)
    speakers: tuple[tuple[int, int], ...] = ()
    seconds: float = 0.0
    took: float = 0.0

    @property
    def right_counts(self) -> int:
        """In how many conversations the number of speakers is right."""
        return sum(true == found for true, found in self.speakers)

    def __add__(self, other: Self) -> Self:
        values = {name: getattr(self, name) + getattr(other, name) for name in self.__slots__}
        return replace(self, **values)


def measure(
    reference: Sequence[Turn], found: Sequence[Turn], seconds: float, took: float = 0.0
) -> Diarization:
    """Return the measurements of a conversation of some seconds."""
    counts = (len({turn.speaker for turn in reference}), len({turn.speaker for turn in found}))
    exact, tolerant = (errors(reference, found, seconds, collar) for collar in (0.0, COLLAR))
    return Diarization(exact, tolerant, (counts,), seconds, took)


def errors(
    reference: Iterable[Turn], found: Iterable[Turn], seconds: float, collar: float = 0.0
) -> Errors:
    """Return the diarization errors in a recording.

    Args:
        reference: who speaks when.
        found: who was heard when; the names of the speakers may differ.
        seconds: duration of the recording.
        collar: seconds on each side of the reference's starts and ends that do not count.
    """
    from pyannote.core import Segment, Timeline  # noqa: PLC0415 - only for this measure
    from pyannote.metrics.diarization import (  # noqa: PLC0415 - only for this measure
        DiarizationErrorRate,
    )

    metric = DiarizationErrorRate(collar=2 * collar, skip_overlap=False)
    everything = Timeline([Segment(0, seconds)])
    parts = metric(_annotation(reference), _annotation(found), uem=everything, detailed=True)
    names = ("total", "missed detection", "false alarm", "confusion")
    return Errors(*(float(parts[name]) for name in names))


def _annotation(turns: Iterable[Turn]) -> Any:  # noqa: ANN401 - an optional package
    from pyannote.core import Annotation, Segment  # noqa: PLC0415 - only for this measure

    annotation = Annotation()
    for number, turn in enumerate(turns):
        annotation[Segment(turn.start, turn.end), number] = turn.speaker
    return annotation.support()  # a system's touching or doubled turns of one speaker are one turn


def word_error_rate(reference: Iterable[Spoken], found: Iterable[Spoken]) -> float:
    """Return the cpWER of texts by speaker; both are normalized by lower case and no punctuation.

    Overlapping utterances of one speaker are joined in order of their start.
    """
    from meeteval.wer.wer.cp import cp_word_error_rate  # noqa: PLC0415 - only for this measure

    return float(cp_word_error_rate(_by_speaker(reference), _by_speaker(found)).error_rate)


def _by_speaker(spoken: Iterable[Spoken]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for utterance in sorted(spoken):
        words = normalized(utterance.text)
        texts[utterance.speaker] = f"{texts.get(utterance.speaker, '')} {words}".strip()
    return texts


def normalized(text: str) -> str:
    """Return a text in lower case, with letters, digits and apostrophes only."""
    kept = (letter if letter.isalnum() or letter == "'" else " " for letter in text.lower())
    return " ".join("".join(kept).split())
