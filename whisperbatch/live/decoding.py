"""The texts of a live session: partial texts of the newest audio, and final texts of parts.

    partial   the newest seconds, greedy search, the settled words as prefix     fast, often
    final     the whole part, all options, audit, retries and filters            once, as a chunk

Both are rows of the session's share of the engine, and share calls with all other work.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Final

from whisperbatch.decoding.chunk_decoder import ChunkDecoder
from whisperbatch.decoding.prompts import Prompts, WhisperTokenizer
from whisperbatch.decoding.row_decoder import RowDecoder, RowRequest, task_for
from whisperbatch.features import feature_extractor
from whisperbatch.language.detection import decide, is_loud, score_rows
from whisperbatch.live.ear import CONTEXT, MAX_AGE, Spoken
from whisperbatch.options import Options
from whisperbatch.recording import Decision, End, RecordingState, Row
from whisperbatch.scheduling import SharedModel
from whisperbatch.segmentation import Segmentation
from whisperbatch.segmentation.timed_text import AlignedWord, RowResult, join_words
from whisperbatch.types import Chunk, LanguageScores, Segment

PARTIAL_TOKENS: Final = 100  # one limit for all partial texts, so that their rows share calls
PARTIAL_PADDING: Final = 300
"""Feature frames of silence after the newest audio. In six recordings of 30 s, a partial text took
17 % less processor time than with 500 frames and steps of 500, and 6.8 % of the settled words were
wrong instead of 7.1 %. With 100 frames, more partial texts were loops."""

PARTIAL_STEP: Final = 250  # feature frames; the windows of partial texts are multiples
VOTING_SPEECH: Final = 30.0  # seconds of the latest speech that decide the language
UNHEARD_LANGUAGE: Final = "en"  # of a part that is too quiet for a decision, before any other
MIN_VOTE: Final = 2.0  # seconds of speech before the first text in a detected language


@dataclass(frozen=True, slots=True)
class FinalText:
    """The final text of a part.

    Attributes:
        words: all words, in order, also if segments have no words.
        segments: as in a transcript.
        language: code of the language.
        start: first sample of the part.
        end: sample after the last.
        scores: language scores of the part; None if the language is given.
    """

    words: tuple[AlignedWord, ...]
    segments: tuple[Segment, ...]
    language: str
    start: int
    end: int
    scores: LanguageScores | None = None


class LiveDecoder:
    """Decodes the rows of one session. Used by one thread.

    Args:
        model: the session's share of the engine.
        options: of the session, completed for the model.
    """

    def __init__(self, model: SharedModel, options: Options) -> None:
        self._model = model
        self._segments = 0  # number of segments so far
        self._votes: deque[LanguageScores] = deque()
        self._known: deque[FinalText] = deque()  # of the latest parts
        self.configure(options)

    def configure(self, options: Options) -> None:
        """Change the options. Call this between two turns."""
        self._options = options
        self._vocabulary = WhisperTokenizer(
            self._model.tokenizer, multilingual=self._model.is_multilingual
        )
        self._extractor = feature_extractor(options.features, self._model.n_mels)
        self._chunks = ChunkDecoder(self._model, self._extractor, options)
        self._rows = RowDecoder(self._model, options, self._vocabulary)
        self._context = Prompts(options, self._vocabulary).context()
        self._greedy = replace(options.search, beam_size=1, patience=1.0, length_penalty=1.0)

    def at(self, start: int) -> AbstractContextManager[None]:
        """Give the position of a part to its rows until the end of a `with` block."""
        return self._model.at((0, start))

    def replaceable(self, seconds: float) -> AbstractContextManager[None]:
        """Withdraw rows that wait longer; see `SharedModel.withdrawn_after`."""
        return self._model.withdrawn_after(seconds)

    @property
    def language(self) -> str | None:
        """The language that is given, or that the latest speech has; None before any speech."""
        if self._options.language:
            return self._options.language
        return decide(list(self._votes), self._options).language if self._votes else None

    def row(self, chunk: Chunk) -> Row:
        """Return the row of a chunk, with its features."""
        return Row.of(chunk, self._extractor, RecordingState(0))

    def newest(self, chunk: Chunk) -> Row:
        """Return the row of the newest audio. Its encoder window has less silence than others."""
        row = self.row(chunk)
        self._model.prepare(row, row.padded_window(PARTIAL_PADDING, PARTIAL_STEP))
        return row

    def detect(self, row: Row) -> str | None:
        """Return the language of a partial row from its speech and the latest speech.

        Returns:
            The code of the language; None if the row has too little speech.
        """
        if self._options.language:
            return self._options.language
        if row.chunk.speech_duration < MIN_VOTE:
            return None
        [scored] = score_rows(self._model, [row])
        return self._decide(scored.language_scores).language

    def partial(self, row: Row, language: str, prefix: str) -> Sequence[AlignedWord]:
        """Decode the newest audio.

        Args:
            row: of the newest audio.
            language: of the speech.
            prefix: settled words that the text must begin with.

        Returns:
            The words, those of the prefix included; none if the text is a loop, or too fast.
        """
        tokens = self._vocabulary.encode(prefix) if prefix.strip() else []
        request = RowRequest(
            row,
            language,
            task_for(self._options, language),
            replace(self._context, prefix=tuple(tokens)),
            self._greedy,
            max_tokens=PARTIAL_TOKENS,
        )
        [decoded] = self._rows([request])
        audit = decoded.audit
        return () if audit.repetitive or audit.too_fast else decoded.words

    def final(self, spoken: Spoken) -> FinalText:
        """Decode a part with all options, and check its text.

        The earlier speech before the part helps the model. Its text is known, so that only the
        words after it are searched for. Its words are dropped: their turns have their final texts.
        """
        row = self.row(spoken.chunk)
        if not self._options.language and is_loud(spoken.chunk):
            [row] = score_rows(self._model, [row])
        scores, decision = row.language_scores, self._decide(row.language_scores)
        chunk = spoken.chunk
        known: list[int] = []
        last = self._known[-1].language if self._known else None
        if decision.language == last and spoken.wide is not chunk:
            row = self.row(spoken.wide)
            known = self._known_tokens(spoken, decision.language)
        row = replace(row, language=decision.language, decision=decision)
        result = _from(self._chunks(row, known), chunk.start)
        words = tuple(word for text in result.texts for word in text.words)
        segments = tuple(self._segmented(result, decision))
        return FinalText(words, segments, decision.language, chunk.start, chunk.end, scores)

    def _known_tokens(self, spoken: Spoken, language: str) -> list[int]:
        """Return the text of the speech before a part; none if it is not completely known."""
        before = [span for span in spoken.wide.speech if span.end <= spoken.chunk.start]
        known = [text for text in self._known if text.language == language]
        if not before or not all(
            any(text.start <= span.start and span.end <= text.end for text in known)
            for span in before
        ):
            return []
        start = 2 * before[0].start
        words = [word for text in known for word in text.words if word.start + word.end >= start]
        return self._vocabulary.encode(join_words(words).text) if words else []

    def add(self, text: FinalText) -> tuple[Segment, ...]:
        """Return the segments of the next final text with their numbers, and note its language."""
        self._known.append(text)
        while text.end - self._known[0].end > CONTEXT + MAX_AGE:
            self._known.popleft()
        if text.scores:
            self._votes.append(text.scores)
            while sum(vote.seconds for vote in [*self._votes][1:]) >= VOTING_SPEECH:
                self._votes.popleft()
        numbered = tuple(
            replace(segment, id=self._segments + index)
            for index, segment in enumerate(text.segments)
        )
        self._segments += len(numbered)
        return numbered

    def _decide(self, scores: LanguageScores | None) -> Decision:
        """Decide the language of a part from its speech and the latest speech."""
        if self._options.language:
            return Decision(self._options.language, 1.0)
        votes = [*self._votes, *([scores] if scores else [])]
        return decide(votes, self._options) if votes else Decision(UNHEARD_LANGUAGE, 0.0)

    def _segmented(self, result: RowResult, decision: Decision) -> Iterator[Segment]:
        recording = RecordingState.beginning(0, decision)
        items: list[RowResult | End] = [result, End(recording)]
        for item in Segmentation(self._options)(recording, items):
            if isinstance(item, Segment):
                yield item


def _from(result: RowResult, start: int) -> RowResult:
    """Return the texts of a row from a sample on."""
    texts = []
    for text in result.texts:
        kept = [word for word in text.words if word.start + word.end >= 2 * start]
        if len(kept) == len(text.words):
            texts.append(text)
        elif kept:
            texts.append(replace(text, timed_texts=(join_words(kept),)))
    return replace(result, texts=tuple(texts))
