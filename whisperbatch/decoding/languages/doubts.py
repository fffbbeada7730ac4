"""Doubts about the language: speech that sounds like another language than its text.

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
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from whisperbatch.decoding.audit import DecodedRow
from whisperbatch.decoding.languages.stretches import Stretch, find_stretches, sounds_doubtful
from whisperbatch.decoding.row_decoder import RowDecoder, RowRequest
from whisperbatch.language.windows import score_languages
from whisperbatch.options import Options
from whisperbatch.protocols import FeatureExtractor
from whisperbatch.rows import Row
from whisperbatch.scheduling import SharedModel
from whisperbatch.segmentation.timed_text import LanguageDoubt
from whisperbatch.text.scripts import foreign_letters
from whisperbatch.types import speech_seconds, to_samples

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


class LanguageDoubts:
    """Finds speech in another language than its text. Thread-safe.

    Args:
        model: scores rows and windows.
        decode: decodes stretches in both languages.
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
        self._threshold = options.language_detection_threshold
        # The text of a translation is English whatever is spoken. Without the VAD, a row may be
        # music or noise, whose language is any language.
        self._enabled = (
            model.is_multilingual
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
        stretches = find_stretches(self._model, self._extractor, decoded, self._threshold)
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
            for stretch, gain in zip(suspicious, self._gains(suspicious, decoded), strict=True)
            if any(
                stretch.probability > probability and gain > least
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
        """Return the probability of each language in a row."""
        scores = row.language_scores
        if scores is None:
            [scores] = score_languages(self._model, [row])
        return scores.probabilities

    def _gains(self, stretches: list[Stretch], decoded: DecodedRow) -> list[float]:
        """Return by how much the text of each stretch is more probable in its own language."""
        if not stretches:
            return []
        recording = decoded.row.recording
        rows = [Row.of(stretch.chunk, self._extractor, recording) for stretch in stretches]
        requests = [
            RowRequest(row, code)
            for row, stretch in zip(rows, stretches, strict=True)
            for code in (stretch.language, decoded.language)
        ]
        logprobs = [row.hypothesis.avg_logprob for row in self._decode_rows(requests)]
        return [own - decided for own, decided in zip(logprobs[::2], logprobs[1::2], strict=True)]


def _may_be_another(decoded: DecodedRow, probabilities: Mapping[str, float]) -> bool:
    """Whether a row, or a part of the row, may be in another language than its text."""
    probability = probabilities.get(decoded.language, 0.0)
    if probability > MIN_MIXED:
        return probability < SURE or decoded.hypothesis.avg_logprob < IMPROBABLE
    return max(probabilities.values()) > SURE  # otherwise the speech is unclear
