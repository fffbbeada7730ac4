"""A batch of rows becomes segments: encode, detect the language, decode, audit, filter, place."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from whisperbatch.decoding.audit import audit
from whisperbatch.decoding.continuation import History, corrects
from whisperbatch.decoding.decoded_row import DecodedRow, normalized, normalized_text
from whisperbatch.decoding.hallucinations import filter_part, keep, listed
from whisperbatch.decoding.prompt_leakage import echoes, suspects
from whisperbatch.decoding.prompts import Context, Prompts
from whisperbatch.decoding.retry import Retry
from whisperbatch.decoding.row_decoder import DecodeRequest, RowDecoder, alike
from whisperbatch.decoding.segments import TimedText, by_sentence
from whisperbatch.decoding.tokenizer import WhisperTokenizer
from whisperbatch.decoding.words import AlignedWord
from whisperbatch.language.decisions import LanguageDecisions
from whisperbatch.language.voting import decide
from whisperbatch.language.windows import score_languages
from whisperbatch.options import PROMPT_RESET_TEMPERATURE, Options
from whisperbatch.protocols import Encoded, Engine, FeatureExtractor
from whisperbatch.rows import Row, grouped
from whisperbatch.types import LanguageScores, Omission, Segment, Word, to_seconds


@dataclass(frozen=True, slots=True)
class RowResult:
    """What has become of a row.

    Attributes:
        segments: in order, all numbered 0.
        omissions: what was left out, and speech that no words were found for.
        redecoded: whether it was decoded more than once.
    """

    segments: tuple[Segment, ...]
    omissions: tuple[Omission, ...]
    redecoded: bool


class BatchDecoder:
    """Decodes batches for one run. Several threads may use one.

    Args:
        engine: runs the model.
        extractor: makes features, for chunks that are cut anew.
        options: of the run.
        languages: of the run's recordings.
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
        self._rows = RowDecoder(engine, options, self._vocabulary)
        self._retry = Retry(self._rows, extractor, options)

    def __call__(self, rows: Sequence[Row]) -> list[RowResult]:
        """What becomes of each row, in order; at least one.

        A row with others to listen to decides its recording's language.
        """
        try:
            contexts = [self._prompts.context(first=not row.chunk.index) for row in rows]
            parts = self._first(rows, contexts)
            if self._options.condition_on_previous_text:
                parts = self._continued(parts, contexts)
            mended = self._retry(parts, contexts)
            found = [
                self._decoded(finished, context, redecoded=again)
                for (finished, again), context in zip(mended, contexts, strict=True)
            ]
        except BaseException as error:
            for row in rows:
                self._languages.fail(row.chunk.recording, error)
            self.skip(rows)
            raise
        return found

    def ended(self, recording: int) -> None:
        """All rows of a recording have been decoded: let go of what is known of it."""
        self._history.forget(recording)

    def skip(self, rows: Sequence[Row]) -> None:
        """Rows that will not be decoded: nobody is to wait for their text."""
        if self._options.condition_on_previous_text:
            for row in rows:
                self._history.follow(row.chunk, ())

    def _first(self, rows: Sequence[Row], contexts: Sequence[Context]) -> list[DecodedRow]:
        """The parts that the rows are at first."""
        groups = grouped([alike(*pair) for pair in zip(rows, contexts, strict=True)])
        encoded = [self._rows.encode([rows[number] for number in group]) for group in groups]
        self._listen(rows, groups, encoded)
        parts: dict[int, DecodedRow] = {}
        for group, output in zip(groups, encoded, strict=True):
            own = [rows[number] for number in group]
            if self._options.condition_on_previous_text:  # most are decoded again
                split = self._engine.split(output)
                own = [replace(row, encoded=one) for row, one in zip(own, split, strict=True)]
            jobs = [self._job(row, contexts[n]) for row, n in zip(own, group, strict=True)]
            decoded = self._rows(output, jobs, temperature=self._options.temperatures[0])
            parts |= dict(zip(group, decoded, strict=True))
        return [parts[number] for number in range(len(rows))]

    def _continued(
        self, parts: Sequence[DecodedRow], contexts: Sequence[Context]
    ) -> list[DecodedRow]:
        """The parts as the continuation of the text before them, where that mends words."""
        temperature = self._options.temperatures[0]
        found = list(parts)
        jobs: dict[int, DecodeRequest] = {}
        for number, part in enumerate(parts):
            sound = audit(part, self._options).passed and temperature <= PROMPT_RESET_TEMPERATURE
            tokens = self._vocabulary.text_tokens(part.hypothesis.tokens) if sound else ()
            before = self._history.follow(part.chunk, tokens)
            context = self._prompts.context(before)  # may have no room for it
            if sound and before and context != contexts[number]:
                jobs[number] = DecodeRequest(part.row, part.language, part.task, context)
        again = self._rows.again(list(jobs.values()), temperature=temperature)
        for number, part in zip(jobs, again, strict=True):
            plain, continued = normalized(found[number].words), normalized(part.words)
            if corrects(plain, continued) and audit(part, self._options).passed:
                found[number] = part
        return found

    def _listen(
        self, rows: Sequence[Row], groups: Sequence[Sequence[int]], encoded: Sequence[Encoded]
    ) -> None:
        """Hear what languages the rows are in, and decide for the recordings that begin here.

        Those first chunks of them that are in other batches are encoded for it.
        """
        if not any(self._languages.needs_scores(*_key(row)) for row in rows):
            return
        heard: dict[tuple[int, int], LanguageScores] = {}
        for group, output in zip(groups, encoded, strict=True):
            heard |= self._heard([rows[number] for number in group], output)
        deciding = [row for row in rows if row.voters]
        missing = [row for first in deciding for row in first.voters if _key(row) not in heard]
        size = self._options.batch_size
        for group in grouped([row.window for row in missing]):
            for start in range(0, len(group), size):
                others = [missing[number] for number in group[start : start + size]]
                heard |= self._heard(others, self._rows.encode(others))
        for first in deciding:
            decision = decide([heard[_key(row)] for row in first.voters], self._options)
            self._languages.settle(first.chunk.recording, decision)
        for row in rows:
            if self._languages.needs_scores(*_key(row)):
                self._languages.add_scores(*_key(row), heard[_key(row)])

    def _heard(
        self, rows: Sequence[Row], encoded: Encoded
    ) -> dict[tuple[int, int], LanguageScores]:
        return dict(zip(map(_key, rows), score_languages(self._engine, rows, encoded), strict=True))

    def _job(self, row: Row, context: Context) -> DecodeRequest:
        language = row.language
        if language is None:
            decision = self._languages.decision_for(*_key(row))
            language = decision.language if decision else "en"
        translated = self._options.code_switching_output == "english" and language != "en"
        return DecodeRequest(
            row, language, "translate" if translated else self._options.task, context
        )

    def _decoded(
        self, parts: Sequence[DecodedRow], context: Context, *, redecoded: bool
    ) -> RowResult:
        segments: list[Segment] = []
        dropped: list[Omission] = []
        for decoded in parts:
            part, leaked = self._without_echoes(decoded, context)
            filtered = filter_part(part, self._options)
            dropped += [*leaked, *filtered.omissions]
            segments += self._segments(part, filtered.drafts)
        dropped.sort(key=lambda one: (one.start, one.end))
        return RowResult(tuple(segments), tuple(dropped), redecoded)

    def _without_echoes(
        self, part: DecodedRow, context: Context
    ) -> tuple[DecodedRow, tuple[Omission, ...]]:
        """The part without words of its prompt that nobody says, and those words."""
        if not context.before or not self._options.hallucination_filter:
            return part, ()
        said = normalized(part.words)
        prompt = normalized_text(self._vocabulary.text(context.before))
        if not (suspicious := suspects(said, prompt)):
            return part, ()
        bare = Context(prefix=context.prefix)
        [plain] = self._rows.again([DecodeRequest(part.row, part.language, part.task, bare)])
        leaked = echoes(said, normalized(plain.words), suspicious)
        if not leaked:
            return part, ()
        score = float(len(leaked))
        dropped = listed(part.words, dict.fromkeys(leaked, ("prompt", score)))
        if audit(plain, self._options).passed:
            return plain, dropped
        kept = keep(part, [number not in leaked for number in range(len(part.words))])
        return replace(part, drafts=kept), dropped

    def _segments(self, part: DecodedRow, drafts: Sequence[TimedText]) -> list[Segment]:
        options, hypothesis = self._options, part.hypothesis
        if options.timestamps == "alignment":
            drafts = [
                one for whole in drafts for one in by_sentence(whole.words, part.chunk.speech)
            ]
        return [
            Segment(
                id=0,
                start=to_seconds(draft.start),
                end=to_seconds(draft.end),
                text=draft.text,
                language=part.written,
                avg_logprob=hypothesis.avg_logprob,
                no_speech_prob=hypothesis.no_speech_prob,
                compression_ratio=part.compression_ratio,
                temperature=part.temperature,
                words=_words(draft.words) if options.word_timestamps else None,
            )
            for draft in drafts
        ]


def _key(row: Row) -> tuple[int, int]:
    return row.chunk.recording, row.chunk.index


def _words(words: Sequence[AlignedWord]) -> tuple[Word, ...]:
    return tuple(Word(to_seconds(w.start), to_seconds(w.end), w.text, w.probability) for w in words)
