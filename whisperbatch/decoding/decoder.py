"""A batch of rows becomes segments: encode, detect the language, decode, place."""

import logging
import zlib
from collections.abc import Sequence

import numpy as np

from whisperbatch.batching import Row
from whisperbatch.decoding.segments import Draft, by_sentence, by_timestamps, speech_within
from whisperbatch.decoding.vocabulary import Vocabulary
from whisperbatch.decoding.words import Placed, place_words
from whisperbatch.language import Languages, decide
from whisperbatch.options import MOST_TOKENS, Options
from whisperbatch.protocols import Alignment, Encoded, Engine
from whisperbatch.types import WINDOW_FRAMES, Chunk, Hypothesis, Segment, Word, to_seconds

log = logging.getLogger(__name__)


class Decoder:
    """Decodes batches for one run. Several threads may use one.

    Args:
        engine: runs the model.
        options: of the run.
        languages: of the run's recordings.
    """

    def __init__(self, engine: Engine, options: Options, languages: Languages) -> None:
        self._engine = engine
        self._options = options
        self._languages = languages
        self._vocabulary = Vocabulary(engine.tokenizer, multilingual=engine.is_multilingual)

    def __call__(self, rows: Sequence[Row], claimed: Sequence[int]) -> list[list[Segment]]:
        """The segments of each row, in order, all numbered 0.

        Args:
            rows: at least one.
            claimed: recordings whose language this batch decides.
        """
        try:
            frames = [row.features.shape[1] for row in rows]
            encoded = self._engine.encode(window(rows))
            self._detect(encoded, rows, claimed)
            languages = [self._language(row.chunk.recording) for row in rows]
            starts = [self._vocabulary.prompt(code, self._options.task) for code in languages]
            hypotheses = self._engine.generate(encoded, self._prompts(starts), self._options)
            alignments = self._align(encoded, starts, hypotheses, frames)
        except BaseException as error:
            for recording in claimed:
                self._languages.fail(recording, error)
            raise
        return [
            self._segments(row.chunk, hypothesis, alignment, language)
            for row, hypothesis, alignment, language in zip(
                rows, hypotheses, alignments, languages, strict=True
            )
        ]

    def _detect(self, encoded: Encoded, rows: Sequence[Row], claimed: Sequence[int]) -> None:
        if not claimed:
            return
        heard = self._engine.detect_language(encoded)
        for recording in claimed:
            own = [number for number, row in enumerate(rows) if row.chunk.recording == recording]
            weights = [sum(span.length for span in rows[n].chunk.speech) for n in own]
            self._languages.settle(recording, decide([heard[n] for n in own], weights))

    def _language(self, recording: int) -> str:
        decision = self._languages.of(recording)
        return decision.language if decision else "en"

    def _prompts(self, starts: Sequence[list[int]]) -> list[list[int]]:
        if self._options.timestamps == "tokens":
            return list(starts)
        return [[*start, self._vocabulary.no_timestamps] for start in starts]

    def _align(
        self,
        encoded: Encoded,
        starts: Sequence[list[int]],
        hypotheses: Sequence[Hypothesis],
        frames: Sequence[int],
    ) -> list[Alignment | None]:
        if self._options.timestamps == "tokens" and not self._options.word_timestamps:
            return [None] * len(hypotheses)
        tokens = [self._text_tokens(hypothesis) for hypothesis in hypotheses]
        return list(self._engine.align(encoded, starts, tokens, frames))

    def _text_tokens(self, hypothesis: Hypothesis) -> list[int]:
        return [token for token in hypothesis.tokens if token < self._vocabulary.end_of_text]

    def _segments(
        self, chunk: Chunk, hypothesis: Hypothesis, alignment: Alignment | None, language: str
    ) -> list[Segment]:
        if self._options.timestamps == "tokens":
            drafts = self._by_timestamps(chunk, hypothesis, alignment, language)
        else:
            assert alignment is not None  # noqa: S101 - for the type checker: see _align
            tokens = self._text_tokens(hypothesis)
            words = place_words(tokens, alignment, chunk, language, self._vocabulary)
            drafts = by_sentence(words, chunk.speech)
        self._warn_if_cut_off(chunk, hypothesis)
        ratio = compression_ratio(self._vocabulary.text(hypothesis.tokens))
        return [
            Segment(
                id=0,
                start=to_seconds(draft.start),
                end=to_seconds(draft.end),
                text=draft.text,
                language="en" if self._options.task == "translate" else language,
                avg_logprob=hypothesis.avg_logprob,
                no_speech_prob=hypothesis.no_speech_prob,
                compression_ratio=ratio,
                words=_words(draft.words) if self._options.word_timestamps else None,
            )
            for draft in drafts
        ]

    def _warn_if_cut_off(self, chunk: Chunk, hypothesis: Hypothesis) -> None:
        most = self._options.max_new_tokens or MOST_TOKENS
        if len(hypothesis.tokens) >= most:
            log.warning(
                "recording %d, %.2f s to %.2f s: decoding stopped at %d tokens; what is said after "
                "them is missing, give a shorter chunk_length",
                chunk.recording,
                to_seconds(chunk.start),
                to_seconds(chunk.end),
                most,
            )

    def _by_timestamps(
        self, chunk: Chunk, hypothesis: Hypothesis, alignment: Alignment | None, language: str
    ) -> list[Draft]:
        drafts = []
        position = 0
        for draft, tokens in by_timestamps(hypothesis.tokens, chunk, self._vocabulary):
            words: list[Placed] = []
            if alignment is not None:
                part = slice(position, position + len(tokens))
                own = Alignment(
                    alignment.starts[part], alignment.ends[part], alignment.probabilities[part]
                )
                speech = speech_within(chunk.speech, draft.start, draft.end)
                words = place_words(tokens, own, chunk, language, self._vocabulary, speech=speech)
            position += len(tokens)
            start, end = (words[0].start, words[-1].end) if words else (draft.start, draft.end)
            drafts.append(Draft(start, end, draft.text, tuple(words)))
        return drafts


def window(rows: Sequence[Row]) -> np.ndarray:
    """Features of all rows, each padded with its silence: (batch, n_mels, 3000)."""
    n_mels = rows[0].features.shape[0]
    features = np.empty((len(rows), n_mels, WINDOW_FRAMES), np.float32)
    for target, row in zip(features, rows, strict=True):
        frames = row.features.shape[1]
        target[:, :frames] = row.features
        target[:, frames:] = row.pad_value
    return features


def compression_ratio(text: str) -> float:
    """UTF-8 bytes over zlib bytes: high for text that repeats itself (openai/whisper)."""
    encoded = text.encode()
    return len(encoded) / len(zlib.compress(encoded))


def _words(words: Sequence[Placed]) -> tuple[Word, ...]:
    return tuple(Word(to_seconds(w.start), to_seconds(w.end), w.text, w.probability) for w in words)
