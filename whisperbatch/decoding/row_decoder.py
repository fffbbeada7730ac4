"""Rows decoded together: encoded, continued from their prompts, and placed."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from whisperbatch.decoding.audit import most_tokens
from whisperbatch.decoding.decoded_row import DecodedRow
from whisperbatch.decoding.prompts import NOTHING, Context
from whisperbatch.decoding.segments import TimedText, by_timestamps, draft, speech_within
from whisperbatch.decoding.tokenizer import WhisperTokenizer
from whisperbatch.decoding.words import place_words
from whisperbatch.options import MOST_TOKENS, Options, Task
from whisperbatch.protocols import Alignment, Encoded, Engine, Sampling
from whisperbatch.rows import Row, grouped, padded
from whisperbatch.types import Chunk, Hypothesis


@dataclass(frozen=True, slots=True, eq=False)
class DecodeRequest:
    """A row, and how to decode it."""

    row: Row
    language: str
    task: Task = "transcribe"
    context: Context = NOTHING


class RowDecoder:
    """Makes parts of rows. What becomes of a row does not depend on the rows beside it.

    Args:
        engine: runs the model.
        options: of the run.
        vocabulary: of the model.
    """

    def __init__(self, engine: Engine, options: Options, vocabulary: WhisperTokenizer) -> None:
        self._engine = engine
        self._options = options
        self._vocabulary = vocabulary

    def encode(self, rows: Sequence[Row]) -> Encoded:
        """What the engine hears in rows of one window.

        Those that were listened to are not encoded again.
        """
        fresh = [row for row in rows if row.encoded is None]
        window = rows[0].window
        if len(fresh) == len(rows):
            return self._engine.encode(padded(rows, window))
        made = iter(self._engine.split(self._engine.encode(padded(fresh, window))) if fresh else ())
        return self._engine.join([row.encoded or next(made) for row in rows])

    def foreign_tokens(self, language: str) -> tuple[int, ...]:
        """Tokens with letters that a text in this language may not have."""
        return self._vocabulary.foreign(language, latin=self._options.latin_names)

    def again(
        self,
        jobs: Sequence[DecodeRequest],
        options: Options | None = None,
        temperature: float = 0.0,
    ) -> list[DecodedRow]:
        """Encode and decode rows that have failed or are suspected, in batches.

        They may have no more tokens than their speech can (`most_tokens`), so they share a call
        only with rows of the same limit: one limit a call, that of its longest row, would make a
        row's text depend on the rows beside it. With more beams than the run has, they are fewer:
        a call holds keys and values for each beam, and is to take no more memory than the others.
        """
        options = options or self._options
        parts: dict[int, DecodedRow] = {}
        size = max(1, self._options.batch_size * self._options.beam_size // options.beam_size)
        for group in grouped([(*alike(job.row, job.context), limit(job)) for job in jobs]):
            for start in range(0, len(group), size):
                numbers = group[start : start + size]
                batch = [jobs[number] for number in numbers]
                encoded = self.encode([job.row for job in batch])
                limited = self._limited(options, limit(batch[0]))
                decoded = self(encoded, batch, limited, temperature)
                parts |= dict(zip(numbers, decoded, strict=True))
        return [parts[number] for number in range(len(jobs))]

    def __call__(
        self,
        encoded: Encoded,
        jobs: Sequence[DecodeRequest],
        options: Options | None = None,
        temperature: float = 0.0,
    ) -> list[DecodedRow]:
        """Decode rows that are encoded already.

        Args:
            encoded: of the jobs' rows.
            jobs: that are `alike`.
            options: in place of the run's.
            temperature: above 0 samples.
        """
        options = options or self._options
        starts = [self._vocabulary.prompt(job.language, job.task) for job in jobs]
        prompts = [
            self._prompt(job.context, start) for job, start in zip(jobs, starts, strict=True)
        ]
        sampling = None
        if temperature > 0:
            sampling = [self._sampling(job.row, temperature) for job in jobs]
        hypotheses = [
            replace(hypothesis, tokens=(*job.context.prefix, *hypothesis.tokens))
            for job, hypothesis in zip(
                jobs, self._engine.generate(encoded, prompts, options, sampling), strict=True
            )
        ]
        alignments = self._engine.align(
            encoded,
            starts,
            [self._vocabulary.text_tokens(hypothesis.tokens) for hypothesis in hypotheses],
            [job.row.features.shape[1] for job in jobs],
        )
        return [
            self._part(job, hypothesis, alignment, temperature)
            for job, hypothesis, alignment in zip(jobs, hypotheses, alignments, strict=True)
        ]

    def _limited(self, options: Options, most: int) -> Options:
        if most < (options.max_new_tokens or MOST_TOKENS):
            return replace(options, max_new_tokens=most)
        return options

    def _prompt(self, context: Context, start: Sequence[int]) -> list[int]:
        prompt = [*context.before, *start]
        if self._options.timestamps == "alignment":
            prompt.append(self._vocabulary.no_timestamps)
        elif context.prefix:
            prompt.append(self._vocabulary.no_timestamps + 1)  # <|0.00|>
        return [*prompt, *context.prefix]

    def _sampling(self, row: Row, temperature: float) -> Sampling:
        """Seeded by what is decoded, so that neither order nor company makes a difference."""
        key = f"{self._options.seed} {temperature}".encode()
        seed = zlib.crc32(row.chunk.samples.tobytes(), zlib.crc32(key))
        return Sampling(temperature, self._options.best_of, seed)

    def _part(
        self, job: DecodeRequest, hypothesis: Hypothesis, alignment: Alignment, temperature: float
    ) -> DecodedRow:
        written = "en" if job.task == "translate" else job.language
        if self._options.timestamps == "tokens":
            drafts = self._by_timestamps(job.row.chunk, hypothesis, alignment, written)
        else:
            tokens = self._vocabulary.text_tokens(hypothesis.tokens)
            words = place_words(tokens, alignment, job.row.chunk, written, self._vocabulary)
            drafts = (draft(words),) if words else ()
        text = self._vocabulary.text(hypothesis.tokens)
        return DecodedRow(job.row, job.language, hypothesis, text, drafts, temperature, job.task)

    def _by_timestamps(
        self, chunk: Chunk, hypothesis: Hypothesis, alignment: Alignment, language: str
    ) -> tuple[TimedText, ...]:
        drafts = []
        position = 0
        for timed, tokens in by_timestamps(hypothesis.tokens, chunk, self._vocabulary):
            part = slice(position, position + len(tokens))
            position += len(tokens)
            own = Alignment(
                alignment.starts[part], alignment.ends[part], alignment.probabilities[part]
            )
            speech = speech_within(chunk.speech, timed.start, timed.end)
            words = place_words(tokens, own, chunk, language, self._vocabulary, speech=speech)
            drafts.append(replace(timed, words=tuple(words)))
        return tuple(drafts)


def alike(row: Row, context: Context) -> tuple[int, int, int]:
    """What rows of one call have in common: engines want windows and prompts of one length."""
    return row.window, len(context.before), len(context.prefix)


def limit(job: DecodeRequest) -> int:
    """How many tokens a row may have."""
    return most_tokens(job.row.chunk)
