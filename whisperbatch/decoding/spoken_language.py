"""The spoken language of doubtful rows: is the text of a row in the language that was spoken?

A row is divided into stretches of one language.

A row of 30 s that straddles a change of language often gets a single language with a probability
above 0.9. Its windows do not: base is right for 99.6 % of the speech in windows of 10 s.

    speech      [===] [====]  [===] [==] [====]
    windows     [  ru .98 ]   [it .97  ] [it .99]
    stretches   [   ru    ]   [       it        ]

`LanguageDoubts` finds speech that sounds like another language than its text.

Without `multilingual`, the whole recording has one language. Where another language is spoken, the
model often invents text. The text is not changed, but the user is told (`Transcript.notices`).

Rows are examined if their text is improbable or has letters of another script. The model may also
write probable text, right or translated, although the language is wrong, so a row every two minutes
is examined in any case. The steps cost more and more, and few rows need the next step:

    language scores of the row          one step of the decoder, 3 % of the time of a row
    language windows of the row         an encoder pass
    stretches in both languages         two decodings

So a recording in one language takes hardly longer, and speech that is only hard to understand
gives no notice. The decision depends on the row alone.

`LanguageChoice` decodes doubtful rows in each possible language, with `multilingual`.

The language stage labels a row before its text is known: by the row's own probabilities, and by the
rows next to it. Near a change of language, the label can be wrong for a part of the row. The text
of this part is then improbable, or has letters of another script:

    row         [ ru: "Чай он салюту Темпуранео"                 -0.36 ]
    stretches   [ it .97                    ] [ ru .98                 ]
    decoded     [ it -0.11, ru -0.62        ] [ ru -0.14               ]
    chosen      [ it                        ] [ ru                     ]

The decision depends on the row alone, so it is the same in every batch and in every span.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from whisperbatch.chunking.split import cut_out
from whisperbatch.decoding.audit import DecodedRow
from whisperbatch.decoding.prompts import NO_CONTEXT, Context
from whisperbatch.decoding.row_decoder import RowDecoder, RowRequest, task_for
from whisperbatch.language.code_switching import best_sequence, most_probable, row_windows
from whisperbatch.language.detection import (
    mean_scores,
    restrict_to,
    restricted,
    score_chunks,
    score_languages,
)
from whisperbatch.options import Options
from whisperbatch.protocols import FeatureExtractor
from whisperbatch.recording import Row
from whisperbatch.scheduling import SharedModel
from whisperbatch.segmentation.timed_text import LanguageDoubt
from whisperbatch.text.languages import foreign_letters
from whisperbatch.types import Chunk, LanguageScores, speech_seconds, to_samples, to_seconds

log = logging.getLogger(__name__)

# probability of a row's language above which only its text can be doubtful
SURE_LANGUAGE: Final = 0.9
MARGIN: Final = 0.1  # average log-probability by which the row's own language must be better
DOUBTFUL: Final = -0.3  # average log-probability: text in a wrong language is nearly always below

SAMPLE_INTERVAL: Final = to_samples(120.0)
FIRST_SAMPLE: Final = to_samples(20.0)
IMPROBABLE: Final = -0.5  # average log-probability: rows that straddle a change are often below
MIN_FOREIGN: Final = 0.1  # fraction of the letters of a text; names are a smaller fraction

# Probability of a language in a row. A row that straddles a change can have any probability; a row
# in which no language is probable is unclear speech.
SURE: Final = 0.9
MIN_MIXED: Final = 0.1

# Both the sound and the text must speak for the other language:
MIN_SPEECH: Final = 3.0  # seconds: the language of less speech is often detected wrongly
EVIDENCE: Final = ((0.8, 0.2), (0.95, 0.0))
"""Lower limits: probability of the other language, and gain in average log-probability of its text.

Base writes Spanish text with language="en", too, and gains only 0.015 with "es".
"""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of a chunk in one language.

    Attributes:
        chunk: the part of the chunk.
        language: its language.
        probability: mean probability of the language in the windows of the stretch.
    """

    chunk: Chunk
    language: str
    probability: float

    @property
    def speech(self) -> float:
        """Seconds of speech."""
        return speech_seconds(self.chunk.speech)


class _Examination:
    """What the examination of rows needs. Thread-safe.

    Args:
        model: scores rows and windows.
        decode: decodes rows and stretches.
        extractor: computes the features of windows and stretches.
        options: options of the run.
    """

    def __init__(
        self,
        model: SharedModel,
        decode: RowDecoder,
        extractor: FeatureExtractor,
        options: Options,
    ) -> None:
        self._model = model
        self._decode_rows = decode
        self._extractor = extractor
        self._options = options

    def _find_stretches(
        self, decoded: DecodedRow, languages: tuple[str, ...] = ()
    ) -> list[Stretch]:
        """Return the stretches of a row by language, in order.

        Windows without a language of the probability `language_detection_threshold` do not count.

        Args:
            decoded: the row with its language, which is one of the possible languages.
            languages: the possible languages; empty for all languages.
        """
        windows = row_windows(decoded.chunk)
        scored = score_chunks(self._model, self._extractor, windows)
        scores = [restricted(score, languages) for score in scored]
        codes = most_probable([{decoded.language: 1.0}, *(score.probabilities for score in scores)])
        labels = best_sequence(scores, codes, self._options.language_detection_threshold)
        groups = groupby(zip(windows, scores, labels, strict=True), key=lambda each: each[2])
        return [_stretch(decoded.chunk, code, list(group)) for code, group in groups]

    def _decode_in_both(
        self, stretches: Sequence[Stretch], decoded: DecodedRow
    ) -> Iterator[tuple[Stretch, float, float]]:
        """Decode stretches in their own language, and in the language of the row.

        Yields:
            The stretch, and the average log-probabilities of its two texts.
        """
        requests = [
            self._request(row, code)
            for stretch in stretches
            for row in [self._row(stretch.chunk, decoded)]
            for code in (stretch.language, decoded.language)
        ]
        texts = iter(self._decode_rows(requests) if requests else ())
        for stretch in stretches:
            yield stretch, next(texts).hypothesis.avg_logprob, next(texts).hypothesis.avg_logprob

    def _row(self, chunk: Chunk, decoded: DecodedRow) -> Row:
        """Return the row of a part; the row itself if the part is the whole row."""
        if chunk.length == decoded.chunk.length:
            return decoded.row
        return Row.of(chunk, self._extractor, decoded.row.recording)

    def _request(self, row: Row, language: str, context: Context = NO_CONTEXT) -> RowRequest:
        return RowRequest(row, language, task_for(self._options, language), context)


def _stretch(chunk: Chunk, code: str, group: list[tuple[Chunk, LanguageScores, str]]) -> Stretch:
    part = cut_out(chunk, group[0][0].start, group[-1][0].end)
    means = mean_scores([score for _, score, _ in group]).probabilities
    return Stretch(part, code, means.get(code, 0.0))


def sounds_doubtful(decoded: DecodedRow) -> bool:
    """Whether a row has text that is less probable than most text in the spoken language."""
    return bool(decoded.text) and decoded.hypothesis.avg_logprob < DOUBTFUL


class LanguageDoubts(_Examination):
    """Finds speech in another language than its text. Thread-safe."""

    @property
    def _enabled(self) -> bool:
        """Whether rows are examined.

        The text of a translation is English whatever is spoken. Without the VAD, a row may be music
        or noise, whose language is any language.
        """
        options = self._options
        return (
            self._model.is_multilingual
            and not options.multilingual
            and options.task == "transcribe"
            and options.vad
        )

    def is_sample(self, row: Row) -> bool:
        """Whether a row is examined whatever its text is: it contains a sample point."""
        if not self._enabled or speech_seconds(row.chunk.speech) < MIN_SPEECH:
            return False
        start, end = row.chunk.start - FIRST_SAMPLE, row.chunk.end - FIRST_SAMPLE
        return -(-start // SAMPLE_INTERVAL) * SAMPLE_INTERVAL < end

    def __call__(self, decoded: DecodedRow) -> tuple[LanguageDoubt, ...]:
        """Return the stretches of a row that sound like another language, in order."""
        if not (self._enabled and self._is_examined(decoded)):
            return ()
        probabilities = self._probabilities(decoded.row)
        if not _may_be_another(decoded, probabilities):
            return ()
        stretches = self._find_stretches(decoded)
        if len(stretches) == 1:  # more speech than a window has gives a better probability
            [whole] = stretches
            of_row = probabilities.get(whole.language, 0.0)
            stretches = [replace(whole, probability=max(whole.probability, of_row))]
        suspicious = [
            stretch
            for stretch in stretches
            if stretch.language != decoded.language
            and stretch.speech >= MIN_SPEECH
            and stretch.probability > EVIDENCE[0][0]
        ]
        return tuple(
            LanguageDoubt(
                stretch.chunk.start,
                stretch.chunk.end,
                stretch.language,
                decoded.language,
                from_start=stretch is stretches[0],
                to_end=stretch is stretches[-1],
            )
            for stretch, own, decided in self._decode_in_both(suspicious, decoded)
            if any(
                stretch.probability > probability and own - decided > least
                for probability, least in EVIDENCE
            )
        )

    def _is_examined(self, decoded: DecodedRow) -> bool:
        if not decoded.text or speech_seconds(decoded.chunk.speech) < MIN_SPEECH:
            return False
        if sounds_doubtful(decoded) or self.is_sample(decoded.row):
            return True
        letters = sum(map(str.isalpha, decoded.text))
        foreign = len(foreign_letters(decoded.text, decoded.language))
        return foreign > MIN_FOREIGN * letters

    def _probabilities(self, row: Row) -> Mapping[str, float]:
        scores = row.language_scores
        if scores is None:
            [scores] = score_languages(self._model, [row])
        return scores.probabilities


def _may_be_another(decoded: DecodedRow, probabilities: Mapping[str, float]) -> bool:
    """Whether a row, or a part of the row, may be in another language than its text."""
    probability = probabilities.get(decoded.language, 0.0)
    if probability > MIN_MIXED:
        return probability < SURE or decoded.hypothesis.avg_logprob < IMPROBABLE
    return max(probabilities.values()) > SURE  # otherwise the speech is unclear


class LanguageChoice(_Examination):
    """Decodes doubtful rows in their possible languages. Thread-safe."""

    def __call__(self, decoded: DecodedRow, context: Context) -> tuple[DecodedRow, ...]:
        """Return the row, or its parts in the languages that fit their speech best.

        Args:
            decoded: the row, in the language of its label.
            context: the context of the row.
        """
        if not (self._options.multilingual and self._is_doubtful(decoded)):
            return (decoded,)
        stretches = self._find_stretches(decoded, self._options.languages)
        if all(stretch.language == decoded.language for stretch in stretches):
            return (decoded,)
        chosen = self._choose(stretches, decoded)
        groups = [(code, list(group)) for code, group in groupby(chosen, key=lambda each: each[0])]
        if [code for code, _ in groups] == [decoded.language]:
            return (decoded,)
        parts = [
            (code, cut_out(decoded.chunk, group[0][1].chunk.start, group[-1][1].chunk.end))
            for code, group in groups
        ]
        return self._decode(parts, decoded, context)

    def _is_doubtful(self, decoded: DecodedRow) -> bool:
        probabilities = {decoded.language: 1.0}
        if scores := decoded.row.language_scores:
            probabilities = restrict_to(scores.probabilities, self._options.languages)
        unsure = probabilities.get(decoded.language, 0.0) < SURE_LANGUAGE
        return unsure or sounds_doubtful(decoded) or not decoded.audit.passed

    def _choose(
        self, stretches: Sequence[Stretch], decoded: DecodedRow
    ) -> list[tuple[str, Stretch]]:
        """Return the language of each stretch: its own, unless the row's fits clearly better.

        A translation is probable in every language, so only the language scores decide.
        """
        own = decoded.language
        other = [stretch for stretch in stretches if stretch.language != own]
        if self._options.code_switching_output == "english":
            return [(stretch.language, stretch) for stretch in stretches]
        kept = set()
        for stretch, in_other, in_own in self._decode_in_both(other, decoded):
            if in_own - in_other > MARGIN:
                kept.add(stretch.chunk.start)
            log.info(
                "recording %d, %.2f s to %.2f s: %s (%.2f) instead of %s (%.2f); %s",
                stretch.chunk.recording,
                to_seconds(stretch.chunk.start),
                to_seconds(stretch.chunk.end),
                stretch.language,
                in_other,
                own,
                in_own,
                "old language kept" if in_own - in_other > MARGIN else "new language kept",
            )
        return [(own if s.chunk.start in kept else s.language, s) for s in stretches]

    def _decode(
        self, parts: Sequence[tuple[str, Chunk]], decoded: DecodedRow, context: Context
    ) -> tuple[DecodedRow, ...]:
        requests = [
            self._request(self._row(chunk, decoded), code, part_context)
            for (code, chunk), part_context in zip(parts, context.of_parts(len(parts)), strict=True)
        ]
        return tuple(self._decode_rows(requests))
