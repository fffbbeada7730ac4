"""Word errors and time of several models or settings, recording by recording."""

import time
from collections import defaultdict
from collections.abc import Mapping
from itertools import product
from typing import Final

import whisperbatch as wb
from benchmarks import corpora, scoring
from benchmarks.lost_speech.bootstrap import Difference, compare
from benchmarks.speech import LANGUAGES

KINDS: Final = ("prompts", "dense", "pauses", "noise_under", "music_under", "telephone")
SEEDS: Final = (11, 12)


def names(*, multilingual: bool) -> list[str]:
    """Return the names of the default recordings: two minutes of each kind, language and seed."""
    languages = LANGUAGES if multilingual else ("en",)
    return [
        f"{kind}:{language}:120:{seed}" for seed, kind, language in product(SEEDS, KINDS, languages)
    ]


class Comparison:
    """The errors and times of loaded models on the same recordings.

    Args:
        models: by name. The first is the baseline.
        beam: number of beams.
    """

    def __init__(self, models: Mapping[str, wb.Transcriber], beam: int) -> None:
        self._models, self._beam = models, beam
        self._baseline = next(iter(models))
        self._words: list[int] = []
        self._errors: dict[str, list[float]] = defaultdict(list)
        self._seconds: dict[str, float] = defaultdict(float)
        print(f"{'recording':28}{'words':>8}" + "".join(f"{name:>13}" for name in models))

    def add(self, name: str) -> None:
        """Transcribe a recording with each model in turn, and print the numbers of errors."""
        recording = corpora.build(name)
        _, language, _, _ = corpora.parse(name)
        order = list(self._models.items())
        for model, asr in order if len(self._words) % 2 else order[::-1]:
            started = time.perf_counter()
            transcript = asr.transcribe(recording.samples, language=language, beam_size=self._beam)
            self._seconds[model] += time.perf_counter() - started
            score = scoring.word_error_rate(recording.text, transcript.text, language)
            self._errors[model].append(score.errors)
        self._words.append(score.words)
        errors = "".join(f"{self._errors[model][-1]:13.0f}" for model in self._models)
        print(f"{name:28}{score.words:8}{errors}", flush=True)

    def difference(self, model: str) -> Difference:
        """Return the difference of the error rate from the baseline."""
        difference = compare(self._errors[model], self._errors[self._baseline], self._words)
        if difference is None:
            raise corpora.CorpusError("the recordings have no words")
        return difference

    def line(self, model: str) -> str:
        """Describe the errors and the time of a model."""
        rate = sum(self._errors[model]) / sum(self._words)
        relative_time = self._seconds[model] / self._seconds[self._baseline]
        return (
            f"{model}: {rate:6.2%} errors, {self.difference(model).points}, "
            f"{relative_time:.2f} of the time"
        )
