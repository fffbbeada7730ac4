"""Choice of the language, with `multilingual`: doubtful rows are decoded in each possible language.

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
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from whisperbatch.chunking.split import cut_out
from whisperbatch.decoding.audit import DecodedRow
from whisperbatch.decoding.languages.stretches import Stretch, find_stretches, sounds_doubtful
from whisperbatch.decoding.prompts import Context
from whisperbatch.decoding.row_decoder import RowDecoder, RowRequest
from whisperbatch.language.voting import restrict_to
from whisperbatch.options import Options
from whisperbatch.protocols import FeatureExtractor
from whisperbatch.rows import Row
from whisperbatch.scheduling import SharedModel
from whisperbatch.types import Chunk, to_seconds

log = logging.getLogger(__name__)

SURE: Final = 0.9  # probability of a row's language above which only its text can be doubtful
MARGIN: Final = 0.1  # average log-probability by which the row's own language must be better


class LanguageChoice:
    """Decodes doubtful rows in their possible languages. Thread-safe.

    Args:
        model: scores windows.
        decode: decodes rows.
        extractor: computes the features of windows and parts.
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

    def __call__(self, decoded: DecodedRow, context: Context) -> tuple[DecodedRow, ...]:
        """Return the row, or its parts in the languages that fit their speech best.

        Args:
            decoded: the row, in the language of its label.
            context: the context of the row.
        """
        if not (self._options.multilingual and self._is_doubtful(decoded)):
            return (decoded,)
        stretches = find_stretches(
            self._model,
            self._extractor,
            decoded,
            self._options.language_detection_threshold,
            self._options.languages,
        )
        if all(stretch.language == decoded.language for stretch in stretches):
            return (decoded,)
        chosen = self._chosen(stretches, decoded)
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
        unsure = probabilities.get(decoded.language, 0.0) < SURE
        return unsure or sounds_doubtful(decoded) or not decoded.audit.passed

    def _chosen(
        self, stretches: Sequence[Stretch], decoded: DecodedRow
    ) -> list[tuple[str, Stretch]]:
        """Return the language of each stretch: its own, unless the row's fits clearly better.

        A translation is probable in every language, so only the language scores decide.
        """
        own = decoded.language
        other = [stretch for stretch in stretches if stretch.language != own]
        if self._options.code_switching_output == "english":
            return [(stretch.language, stretch) for stretch in stretches]
        rows = [self._row(stretch.chunk, decoded) for stretch in other]
        requests = [
            self._request(row, code, Context())
            for row, stretch in zip(rows, other, strict=True)
            for code in (stretch.language, own)
        ]
        texts = iter(self._decode_rows(requests))
        kept = set()
        for stretch in other:
            in_other, in_own = next(texts), next(texts)
            better = in_own.hypothesis.avg_logprob - in_other.hypothesis.avg_logprob
            if better > MARGIN:
                kept.add(stretch.chunk.start)
            log.info(
                "recording %d, %.2f s to %.2f s: %s (%.2f) instead of %s (%.2f); %s",
                stretch.chunk.recording,
                to_seconds(stretch.chunk.start),
                to_seconds(stretch.chunk.end),
                stretch.language,
                in_other.hypothesis.avg_logprob,
                own,
                in_own.hypothesis.avg_logprob,
                "old language kept" if better > MARGIN else "new language kept",
            )
        return [(own if s.chunk.start in kept else s.language, s) for s in stretches]

    def _decode(
        self, parts: Sequence[tuple[str, Chunk]], decoded: DecodedRow, context: Context
    ) -> tuple[DecodedRow, ...]:
        """Decode each part in its language."""
        contexts = (context, *[replace(context, prefix=())] * (len(parts) - 1))
        requests = [
            self._request(self._row(chunk, decoded), code, part_context)
            for (code, chunk), part_context in zip(parts, contexts, strict=True)
        ]
        return tuple(self._decode_rows(requests))

    def _row(self, chunk: Chunk, decoded: DecodedRow) -> Row:
        """Return the row of a part; the row itself if the part is the whole row."""
        if chunk.length == decoded.chunk.length:
            return decoded.row
        return Row.of(chunk, self._extractor, decoded.row.recording)

    def _request(self, row: Row, language: str, context: Context) -> RowRequest:
        english = self._options.code_switching_output == "english"
        task = "translate" if english and language != "en" else self._options.task
        return RowRequest(row, language, task, context)
