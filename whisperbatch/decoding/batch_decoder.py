"""Batch decoder: turns a batch of rows into segments.

The steps for each batch:

    encode --> detect languages --> decode --> second pass with context (optional)
           --> audit and retry --> remove prompt leakage and hallucinations --> segments
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from whisperbatch.decoding.audit import audit
from whisperbatch.decoding.continuation import History, only_corrects_words
from whisperbatch.decoding.decoded_row import DecodedRow, normalize_text, normalize_words
from whisperbatch.decoding.hallucinations import filter_hallucinations, keep_words, omissions_of
from whisperbatch.decoding.prompt_leakage import leaked_words, suspicious_words
from whisperbatch.decoding.prompts import Context, Prompts
from whisperbatch.decoding.retry import Retry
from whisperbatch.decoding.row_decoder import RowDecoder, RowRequest, call_key
from whisperbatch.decoding.segments import TimedText, segment_by_sentence
from whisperbatch.decoding.tokenizer import WhisperTokenizer
from whisperbatch.decoding.words import AlignedWord
from whisperbatch.language.decisions import LanguageDecisions
from whisperbatch.language.voting import decide
from whisperbatch.language.windows import score_languages
from whisperbatch.options import PROMPT_RESET_TEMPERATURE, Options
from whisperbatch.protocols import Encoded, Engine, FeatureExtractor
from whisperbatch.rows import Row, grouped
from whisperbatch.types import LanguageScores, Omission, Segment, Word, to_seconds

ScoresByChunk = dict[tuple[int, int], LanguageScores]
"""Language scores by recording number and chunk index."""


@dataclass(frozen=True, slots=True)
class RowResult:
    """The segments and omissions of a row.

    Attributes:
        segments: segments in order, all with id 0.
        omissions: removed text, and speech without text.
        redecoded: whether the row was retried because its text failed the audit.
    """

    segments: tuple[Segment, ...]
    omissions: tuple[Omission, ...]
    redecoded: bool


class BatchDecoder:
    """Decodes the batches of one run. Thread-safe.

    Args:
        engine: runs the model.
        extractor: computes the features of chunks that are split or shifted for a retry.
        options: options of the run.
        languages: language decisions of the run's recordings.
    """

    def __init__(
        self,
        engine: Engine,
        extractor: FeatureExtractor,
        options: Options,
        languages: LanguageDecisions,
    ) -> None:
        self._engine = engine
        self._options = options
        self._languages = languages
        self._vocabulary = WhisperTokenizer(engine.tokenizer, multilingual=engine.is_multilingual)
        self._prompts = Prompts(options, self._vocabulary)
        self._history = History()
        self._row_decoder = RowDecoder(engine, options, self._vocabulary)
        self._retry = Retry(self._row_decoder, extractor, options)

    def __call__(self, rows: Sequence[Row]) -> list[RowResult]:
        """Decode a batch and return one result for each row, in order.

        A row with voters also decides the language of its recording. If the batch fails, the error
        is raised here and in all threads that wait for the language of one of its recordings.

        Args:
            rows: at least one row.
        """
        try:
            contexts = [self._prompts.context(first=not row.chunk.index) for row in rows]
            decoded_rows = self._first_pass(rows, contexts)
            if self._options.condition_on_previous_text:
                decoded_rows = self._second_pass(decoded_rows, contexts)
            retried_rows = self._retry(decoded_rows, contexts)
            results = [
                self._result(parts, context, redecoded=redecoded)
                for (parts, redecoded), context in zip(retried_rows, contexts, strict=True)
            ]
        except BaseException as error:
            for row in rows:
                self._languages.fail(row.chunk.recording, error)
            self.skip(rows)
            raise
        return results

    def ended(self, recording: int) -> None:
        """Free the history of a recording whose rows have all been decoded."""
        self._history.forget(recording)

    def skip(self, rows: Sequence[Row]) -> None:
        """Skip rows that will not be decoded, so that no later row waits for their text."""
        if self._options.condition_on_previous_text:
            for row in rows:
                self._history.advance(row.chunk, ())

    def _first_pass(self, rows: Sequence[Row], contexts: Sequence[Context]) -> list[DecodedRow]:
        """Encode the rows, detect their languages and decode them."""
        groups = grouped([call_key(*pair) for pair in zip(rows, contexts, strict=True)])
        encoded = [self._row_decoder.encode([rows[index] for index in group]) for group in groups]
        self._detect_languages(rows, groups, encoded)
        decoded_rows: dict[int, DecodedRow] = {}
        for group, output in zip(groups, encoded, strict=True):
            group_rows = [rows[index] for index in group]
            if self._options.condition_on_previous_text:
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
            results = self._row_decoder(output, requests, temperature=self._options.temperatures[0])
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
            before = self._history.advance(decoded.chunk, tokens)
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

    def _detect_languages(
        self, rows: Sequence[Row], groups: Sequence[Sequence[int]], encoded: Sequence[Encoded]
    ) -> None:
        """Score the languages of the rows, and decide for the recordings that begin here.

        Voters that belong to other batches are encoded as well.
        """
        if not any(self._languages.needs_scores(*_key(row)) for row in rows):
            return
        scores: ScoresByChunk = {}
        for group, output in zip(groups, encoded, strict=True):
            scores |= self._score([rows[index] for index in group], output)
        deciding = [row for row in rows if row.voters]
        missing = [voter for row in deciding for voter in row.voters if _key(voter) not in scores]
        size = self._options.batch_size
        for group in grouped([row.window for row in missing]):
            for start in range(0, len(group), size):
                batch = [missing[index] for index in group[start : start + size]]
                scores |= self._score(batch, self._row_decoder.encode(batch))
        for row in deciding:
            decision = decide([scores[_key(voter)] for voter in row.voters], self._options)
            self._languages.set_decision(row.chunk.recording, decision)
        for row in rows:
            if self._languages.needs_scores(*_key(row)):
                self._languages.add_scores(*_key(row), scores[_key(row)])

    def _score(self, rows: Sequence[Row], encoded: Encoded) -> ScoresByChunk:
        return dict(zip(map(_key, rows), score_languages(self._engine, rows, encoded), strict=True))

    def _request(self, row: Row, context: Context) -> RowRequest:
        language = row.language
        if language is None:
            decision = self._languages.decision_for(*_key(row))
            language = decision.language if decision else "en"
        translated = self._options.code_switching_output == "english" and language != "en"
        return RowRequest(row, language, "translate" if translated else self._options.task, context)

    def _result(
        self, parts: Sequence[DecodedRow], context: Context, *, redecoded: bool
    ) -> RowResult:
        """Filter the parts of a row and divide them into segments."""
        segments: list[Segment] = []
        omissions: list[Omission] = []
        for part in parts:
            decoded, leaked = self._remove_prompt_leakage(part, context)
            filtered = filter_hallucinations(decoded, self._options)
            omissions += [*leaked, *filtered.omissions]
            segments += self._segments(decoded, filtered.timed_texts)
        omissions.sort(key=lambda omission: (omission.start, omission.end))
        return RowResult(tuple(segments), tuple(omissions), redecoded)

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

    def _segments(self, decoded: DecodedRow, timed_texts: Sequence[TimedText]) -> list[Segment]:
        options, hypothesis = self._options, decoded.hypothesis
        if options.timestamps == "alignment":
            timed_texts = [
                sentence
                for timed_text in timed_texts
                for sentence in segment_by_sentence(timed_text.words, decoded.chunk.speech)
            ]
        return [
            Segment(
                id=0,
                start=to_seconds(timed_text.start),
                end=to_seconds(timed_text.end),
                text=timed_text.text,
                language=decoded.text_language,
                avg_logprob=hypothesis.avg_logprob,
                no_speech_prob=hypothesis.no_speech_prob,
                compression_ratio=decoded.compression_ratio,
                temperature=decoded.temperature,
                words=_to_words(timed_text.words) if options.word_timestamps else None,
            )
            for timed_text in timed_texts
        ]


def _key(row: Row) -> tuple[int, int]:
    return row.chunk.recording, row.chunk.index


def _to_words(words: Sequence[AlignedWord]) -> tuple[Word, ...]:
    return tuple(Word(to_seconds(w.start), to_seconds(w.end), w.text, w.probability) for w in words)
