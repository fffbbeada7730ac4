"""Chunk decoder: turns a row into text.

The steps:

    decode --> second pass with context (`condition_on_previous_text`)
           --> doubts about the language (notices), or choice of the language (`multilingual`)
           --> retries, if the text fails its audit
           --> consensus of several texts, if the text is improbable and the row is noisy
           --> prompt leakage and hallucinations are removed

A thread works on one row until its text is complete. The engine computes the rows of many threads
in one call (`scheduling`). On a CPU, the text of a row is the same in every call.
"""

from collections.abc import Sequence
from dataclasses import replace

from whisperbatch.decoding.audit import DecodedRow, normalize_text, normalize_words
from whisperbatch.decoding.consensus import Consensus
from whisperbatch.decoding.hallucinations import (
    filter_hallucinations,
    keep_words,
    leaked_words,
    omissions_of,
    suspicious_words,
)
from whisperbatch.decoding.prompts import (
    GIVEN_TOKENS,
    Context,
    Prompts,
    WhisperTokenizer,
    advance,
    only_corrects_words,
)
from whisperbatch.decoding.retries import Retry, first_limit
from whisperbatch.decoding.row_decoder import RowDecoder, RowRequest, task_for
from whisperbatch.decoding.spoken_language import LanguageChoice, LanguageDoubts
from whisperbatch.options import PROMPT_RESET_TEMPERATURE, Options
from whisperbatch.protocols import FeatureExtractor
from whisperbatch.recording import Row
from whisperbatch.scheduling import SharedModel
from whisperbatch.segmentation.timed_text import (
    LanguageDoubt,
    RowResult,
    ScoredText,
    Scores,
    TimedText,
)
from whisperbatch.types import Omission, first_section


class ChunkDecoder:
    """Decodes the rows of one run. Thread-safe.

    Args:
        model: runs the model.
        extractor: computes the features of chunks that are split or shifted for a retry.
        options: options of the run.
    """

    def __init__(self, model: SharedModel, extractor: FeatureExtractor, options: Options) -> None:
        self._options, self._model = options, model
        self._vocabulary = WhisperTokenizer(model.tokenizer, multilingual=model.is_multilingual)
        self._prompts = Prompts(options, self._vocabulary)
        self._decode = RowDecoder(model, options, self._vocabulary)
        self._choose = LanguageChoice(model, self._decode, extractor, options)
        self._doubts = LanguageDoubts(model, self._decode, extractor, options)
        self._retry = Retry(self._decode, extractor, options, at_once=model.on_gpu)
        self._consensus = Consensus(self._decode, extractor, options)

    def __call__(self, row: Row, known: Sequence[int] = ()) -> RowResult:
        """Decode a row, which has its language. Retry the row if its text fails the audit.

        Args:
            row: of the chunk.
            known: tokens of the text of the first speech of the row, which was decoded before. If
                the text after them fails the audit, the row is decoded without them.
        """
        try:
            decoded, context = self._first_text(row, known)
            if self._options.condition_on_previous_text:
                decoded = self._second_pass(decoded, context)
        except BaseException:
            if self._options.condition_on_previous_text:  # the next row does not wait for the text
                advance(row.recording, row.chunk.index, (), section=row.chunk.section)
            raise
        doubts = self._doubts(decoded)
        in_languages = self._choose(decoded, context)
        parts, redecoded = self._retry_row(in_languages, context)
        if len(in_languages) == 1:
            parts, compared = self._consensus(row, parts, context)
            redecoded = redecoded or compared
        redecoded = redecoded or in_languages != (decoded,)
        return self._result(row, parts, context, doubts, redecoded=redecoded)

    def _retry_row(
        self, in_languages: Sequence[DecodedRow], context: Context
    ) -> tuple[tuple[DecodedRow, ...], bool]:
        """Return the parts of a row after their retries, and whether a part was decoded again."""
        parts: list[DecodedRow] = []
        retried = False
        contexts = context.of_parts(len(in_languages))
        for decoded, part_context in zip(in_languages, contexts, strict=True):
            if decoded.audit.passed:
                parts.append(decoded)
                continue
            new_parts, decoded_again = self._retry(decoded, part_context)
            parts += new_parts
            retried = retried or decoded_again
        return tuple(parts), retried

    def _is_first(self, row: Row) -> bool:
        in_first_section = row.chunk.section == first_section(self._options.clip_timestamps)
        return in_first_section and not row.chunk.index

    def _first_text(self, row: Row, known: Sequence[int]) -> tuple[DecodedRow, Context]:
        """Return the first text of a row, and the context with which it was decoded."""
        context = self._prompts.context(first=self._is_first(row))
        if known and len(context.before) + len(known) <= GIVEN_TOKENS:
            row.encoding.keep = True
            with_known = replace(context, prefix=tuple(known))
            decoded = self._first_pass(row, with_known)
            if decoded.audit.passed:
                return decoded, with_known
        return self._first_pass(row, context), context

    def _first_pass(self, row: Row, context: Context) -> DecodedRow:
        """Decode a row once, with the limit of tokens of all first decodings (`first_limit`)."""
        options = self._options
        temperature = options.temperatures[0]
        hypotheses = options.best_of if temperature else options.beam_size
        # most rows are decoded twice, or the language scores need the output, too
        if options.condition_on_previous_text or self._doubts.is_sample(row):
            row.encoding.keep = True
        request = replace(
            self._request(row, context),
            temperature=temperature,
            max_tokens=first_limit(row.chunk, hypotheses),
        )
        with self._model.first_decoding():
            [decoded] = self._decode([request])
        return decoded

    def _second_pass(self, first: DecodedRow, context: Context) -> DecodedRow:
        """Decode a row again with the text of the previous chunks as context.

        The new text is used only if it passes its audit and only corrects words.
        """
        temperature = self._options.temperatures[0]
        passed = first.audit.passed and temperature <= PROMPT_RESET_TEMPERATURE
        tokens = self._vocabulary.text_tokens(first.hypothesis.tokens) if passed else ()
        chunk = first.chunk
        before = advance(first.row.recording, chunk.index, tokens, section=chunk.section)
        new_context = self._prompts.context(before)  # has no previous text if nothing fits
        if not (passed and before and new_context != context):
            return first
        request = RowRequest(
            first.row, first.language, first.task, new_context, temperature=temperature
        )
        [second] = self._decode([request])
        corrects = only_corrects_words(normalize_words(first.words), normalize_words(second.words))
        return second if corrects and second.audit.passed else first

    def _request(self, row: Row, context: Context) -> RowRequest:
        language = row.language
        if language is None:
            raise ValueError("ChunkDecoder needs rows with their language")
        return RowRequest(row, language, task_for(self._options, language), context)

    def _result(
        self,
        row: Row,
        parts: Sequence[DecodedRow],
        context: Context,
        doubts: tuple[LanguageDoubt, ...],
        *,
        redecoded: bool,
    ) -> RowResult:
        texts: list[ScoredText] = []
        omissions: list[Omission] = []
        for part in parts:
            decoded, leaked = self._remove_prompt_leakage(part, context)
            filtered = filter_hallucinations(decoded)
            omissions += [*leaked, *filtered.omissions]
            texts.append(_scored_text(decoded, filtered.timed_texts))
        omissions.sort(key=lambda omission: (omission.start, omission.end))
        return RowResult(
            tuple(texts),
            tuple(omissions),
            redecoded,
            row.decision,
            row.chunk.section,
            doubts,
            row.chunk.channel,
            row.chunk.completes,
        )

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
        [without_prompt] = self._decode([request])
        leaked = leaked_words(words, normalize_words(without_prompt.words), suspicious)
        if not leaked:
            return decoded, ()
        score = float(len(leaked))
        omissions = omissions_of(decoded.words, dict.fromkeys(leaked, ("prompt", score)))
        if without_prompt.audit.passed:
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
