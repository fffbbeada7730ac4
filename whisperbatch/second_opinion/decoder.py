"""Decode stretches as if they were speech: greedily, once, without prompts."""

from collections.abc import Sequence

from whisperbatch.decoding.audit import DecodedRow
from whisperbatch.decoding.row_decoder import RowDecoder, RowRequest
from whisperbatch.decoding.tokenizer import WhisperTokenizer
from whisperbatch.language.decisions import restrict_to
from whisperbatch.language.stage import score_rows
from whisperbatch.options import Options
from whisperbatch.protocols import FeatureExtractor
from whisperbatch.recording import RecordingState
from whisperbatch.rows import Row
from whisperbatch.scheduling import SharedModel
from whisperbatch.types import Chunk


class StretchDecoder:
    """Decodes stretches. Thread-safe. A result does not depend on the other stretches.

    Args:
        model: runs the model.
        extractor: computes the features of the stretches.
        options: options of the run.
    """

    def __init__(self, model: SharedModel, extractor: FeatureExtractor, options: Options) -> None:
        self._model = model
        self._extractor = extractor
        # defaults: options that favour or forbid some text must not decide whether there is speech
        self._options = Options(
            beam_size=1, batch_size=options.batch_size, languages=options.languages
        )
        vocabulary = WhisperTokenizer(model.tokenizer, multilingual=model.is_multilingual)
        self._decode = RowDecoder(model, self._options, vocabulary)

    def __call__(self, chunks: Sequence[Chunk], language: str | None) -> list[DecodedRow]:
        """Return the text of each chunk, in order.

        Args:
            chunks: stretches of one recording.
            language: language of the recording, if it is final; otherwise each row is decoded in
                its own most probable language.
        """
        state = RecordingState(chunks[0].recording)  # these rows have no part in the votes
        rows: Sequence[Row] = [Row.of(chunk, self._extractor, state) for chunk in chunks]
        if language:
            return self._decode([RowRequest(row, language) for row in rows])
        scored = score_rows(self._model, rows)
        return self._decode([RowRequest(row, self._most_probable(row)) for row in scored])

    def _most_probable(self, row: Row) -> str:
        if row.language_scores is None:
            raise ValueError("every row of a stretch needs its language scores")
        scores = restrict_to(row.language_scores.probabilities, self._options.languages)
        return max(scores, key=lambda code: scores[code])
