"""Decode stretches as if they were speech: greedily, once, without prompts."""

from collections.abc import Sequence
from dataclasses import replace

from whisperbatch.decoding.decoded_row import DecodedRow
from whisperbatch.decoding.row_decoder import RowDecoder, RowRequest
from whisperbatch.decoding.tokenizer import WhisperTokenizer
from whisperbatch.language.voting import restrict_to
from whisperbatch.language.windows import score_languages
from whisperbatch.options import Options
from whisperbatch.protocols import Engine, FeatureExtractor
from whisperbatch.recording import RecordingState
from whisperbatch.rows import Row, padded
from whisperbatch.types import Chunk


class StretchDecoder:
    """Decodes stretches. Thread-safe. A result does not depend on the other stretches.

    Args:
        engine: runs the model.
        extractor: computes the features of the stretches.
        options: options of the run.
    """

    def __init__(self, engine: Engine, extractor: FeatureExtractor, options: Options) -> None:
        self._engine = engine
        self._extractor = extractor
        # defaults: options that favour or forbid some text must not decide whether there is speech
        self._options = Options(
            beam_size=1, batch_size=options.batch_size, languages=options.languages
        )
        vocabulary = WhisperTokenizer(engine.tokenizer, multilingual=engine.is_multilingual)
        self._decode = RowDecoder(engine, self._options, vocabulary)

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
            return self._decode.redecode([RowRequest(row, language) for row in rows])
        return self._decode.redecode([self._in_own_language(row) for row in rows])

    def _in_own_language(self, row: Row) -> RowRequest:
        encoded = self._engine.encode(padded([row], row.window))
        [scores] = score_languages(self._engine, [row], encoded)
        probabilities = restrict_to(scores.probabilities, self._options.languages)
        scored = replace(row, encoded=self._engine.split(encoded)[0])
        return RowRequest(scored, max(probabilities, key=lambda code: probabilities[code]))
