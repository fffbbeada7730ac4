"""Batch decoder: turns a batch of rows into text.

The steps for each batch:

    encode --> decode --> second pass with context (optional) --> audit
        passed:                --> remove prompt leakage and hallucinations
        failed: later, retry   --> the same

Rows that fail their audit wait for the failed rows of the next batches (`scheduling.groups`),
so that the calls of retries have more rows. The text of a row is the same in every batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from whisperbatch.decoding.audit import audit
from whisperbatch.decoding.continuation import advance, only_corrects_words
from whisperbatch.decoding.decoded_row import DecodedRow, normalize_text, normalize_words
from whisperbatch.decoding.hallucinations import filter_hallucinations, keep_words, omissions_of
from whisperbatch.decoding.prompt_leakage import leaked_words, suspicious_words
from whisperbatch.decoding.prompts import Context, Prompts
from whisperbatch.decoding.retries import Retry
from whisperbatch.decoding.retries.work import first_limit
from whisperbatch.decoding.row_decoder import RowDecoder, RowRequest, call_key, limited
from whisperbatch.decoding.tokenizer import WhisperTokenizer
from whisperbatch.options import PROMPT_RESET_TEMPERATURE, Options
from whisperbatch.protocols import Engine, FeatureExtractor
from whisperbatch.rows import Row, grouped
from whisperbatch.segmentation.timed_text import RowResult, ScoredText, Scores, TimedText
from whisperbatch.types import Omission


@dataclass(frozen=True, slots=True, eq=False)
class FailedRow:
    """A decoded row that failed its audit and waits for its retries.

    Attributes:
        decoded: the row with its text.
        context: the context of the row.
    """

    decoded: DecodedRow
    context: Context

    @property
    def row(self) -> Row:
        """The row."""
        return self.decoded.row


class BatchDecoder:
    """Decodes the batches of one run. Thread-safe.

    Args:
        engine: runs the model.
        extractor: computes the features of chunks that are split or shifted for a retry.
        options: options of the run.
    """

    def __init__(self, engine: Engine, extractor: FeatureExtractor, options: Options) -> None:
        self._engine = engine
        self._options = options
        self._vocabulary = WhisperTokenizer(engine.tokenizer, multilingual=engine.is_multilingual)
        self._prompts = Prompts(options, self._vocabulary)
        self._row_decoder = RowDecoder(engine, options, self._vocabulary)
        self._retry = Retry(self._row_decoder, extractor, options)

    def __call__(self, rows: Sequence[Row]) -> list[RowResult | FailedRow]:
        """Decode a batch and return one result for each row, in order.

        Args:
            rows: at least one row, each with its language.
        """
        try:
            contexts = [self._prompts.context(first=not row.chunk.index) for row in rows]
            decoded_rows = self._first_pass(rows, contexts)
            if self._options.condition_on_previous_text:
                decoded_rows = self._second_pass(decoded_rows, contexts)
            return [
                self._result(decoded.row, (decoded,), context, redecoded=False)
                if audit(decoded, self._options).passed
                else FailedRow(decoded, context)
                for decoded, context in zip(decoded_rows, contexts, strict=True)
            ]
        except BaseException:
            if self._options.condition_on_previous_text:
                for row in rows:  # no row of another batch waits for the text of this batch
                    advance(row.recording, row.chunk.index, ())
            raise

    def retry(self, failed: Sequence[FailedRow]) -> list[RowResult]:
        """Decode failed rows of any batches again, and return one result for each, in order."""
        retried = self._retry([row.decoded for row in failed], [row.context for row in failed])
        return [
            self._result(row.row, parts, row.context, redecoded=redecoded)
            for row, (parts, redecoded) in zip(failed, retried, strict=True)
        ]

    def _first_pass(self, rows: Sequence[Row], contexts: Sequence[Context]) -> list[DecodedRow]:
        """Encode the rows, except rows that have their encoder output, and decode them."""
        decoded_rows: dict[int, DecodedRow] = {}
        options = self._options
        temperature = options.temperatures[0]
        hypotheses = options.best_of if temperature else options.beam_size
        limits = [first_limit(row.chunk, hypotheses) for row in rows]
        keys = [call_key(*pair) for pair in zip(rows, contexts, strict=True)]
        for group in grouped(list(zip(keys, limits, strict=True))):
            group_rows = [rows[index] for index in group]
            output = self._row_decoder.encode(group_rows)
            if options.condition_on_previous_text:
                # most rows are decoded twice: keep their encoder output
                outputs = self._engine.split(output)
                group_rows = [
                    replace(row, encoded=row_output)
                    for row, row_output in zip(group_rows, outputs, strict=True)
                ]
            requests = [
                self._request(row, contexts[index])
                for row, index in zip(group_rows, group, strict=True)
            ]
            search = limited(options.search, limits[group[0]])
            results = self._row_decoder(output, requests, search, temperature)
            decoded_rows |= dict(zip(group, results, strict=True))
        return [decoded_rows[index] for index in range(len(rows))]

    def _second_pass(
        self, decoded_rows: Sequence[DecodedRow], contexts: Sequence[Context]
    ) -> list[DecodedRow]:
        """Decode rows again with the text of the previous chunks as context.

        The new text is used only if it passes its audit and only corrects words.
        """
        temperature = self._options.temperatures[0]
        results = list(decoded_rows)
        requests: dict[int, RowRequest] = {}
        for index, decoded in enumerate(decoded_rows):
            passed = audit(decoded, self._options).passed
            passed = passed and temperature <= PROMPT_RESET_TEMPERATURE
            tokens = self._vocabulary.text_tokens(decoded.hypothesis.tokens) if passed else ()
            before = advance(decoded.row.recording, decoded.chunk.index, tokens)
            context = self._prompts.context(before)  # has no previous text if nothing fits
            if passed and before and context != contexts[index]:
                requests[index] = RowRequest(decoded.row, decoded.language, decoded.task, context)
        redecoded = self._row_decoder.redecode(list(requests.values()), temperature=temperature)
        for index, decoded in zip(requests, redecoded, strict=True):
            first_words = normalize_words(results[index].words)
            second_words = normalize_words(decoded.words)
            corrects = only_corrects_words(first_words, second_words)
            if corrects and audit(decoded, self._options).passed:
                results[index] = decoded
        return results

    def _request(self, row: Row, context: Context) -> RowRequest:
        language = row.language
        if language is None:
            raise ValueError("BatchDecoder needs rows with their language")
        translated = self._options.code_switching_output == "english" and language != "en"
        return RowRequest(row, language, "translate" if translated else self._options.task, context)

    def _result(
        self, row: Row, parts: Sequence[DecodedRow], context: Context, *, redecoded: bool
    ) -> RowResult:
        """Filter the parts of a row."""
        texts: list[ScoredText] = []
        omissions: list[Omission] = []
        for part in parts:
            decoded, leaked = self._remove_prompt_leakage(part, context)
            filtered = filter_hallucinations(decoded, self._options)
            omissions += [*leaked, *filtered.omissions]
            texts.append(_scored_text(decoded, filtered.timed_texts))
        omissions.sort(key=lambda omission: (omission.start, omission.end))
        return RowResult(tuple(texts), tuple(omissions), redecoded, row.decision)

    def _remove_prompt_leakage(
        self, decoded: DecodedRow, context: Context
    ) -> tuple[DecodedRow, tuple[Omission, ...]]:
        """Return the row without the prompt's words that are not spoken, and their omissions.

        The text that was decoded without the prompt replaces the row if it passes its audit.
        """
        if not context.before or not self._options.hallucination_filter:
            return decoded, ()
        words = normalize_words(decoded.words)
        prompt = normalize_text(self._vocabulary.text(context.before))
        if not (suspicious := suspicious_words(words, prompt)):
            return decoded, ()
        no_prompt = Context(prefix=context.prefix)
        request = RowRequest(decoded.row, decoded.language, decoded.task, no_prompt)
        [without_prompt] = self._row_decoder.redecode([request])
        leaked = leaked_words(words, normalize_words(without_prompt.words), suspicious)
        if not leaked:
            return decoded, ()
        score = float(len(leaked))
        omissions = omissions_of(decoded.words, dict.fromkeys(leaked, ("prompt", score)))
        if audit(without_prompt, self._options).passed:
            return without_prompt, omissions
        flags = [index not in leaked for index in range(len(decoded.words))]
        return replace(decoded, timed_texts=keep_words(decoded, flags)), omissions


def _scored_text(decoded: DecodedRow, timed_texts: tuple[TimedText, ...]) -> ScoredText:
    """Return the text without the row, whose features and samples can then be freed."""
    hypothesis = decoded.hypothesis
    scores = Scores(
        hypothesis.avg_logprob,
        hypothesis.no_speech_prob,
        decoded.compression_ratio,
        decoded.temperature,
    )
    return ScoredText(decoded.text_language, scores, timed_texts, decoded.chunk.speech)
