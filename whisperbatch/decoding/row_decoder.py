"""Row decoder: encodes rows, decodes them after their prompts, and aligns their words."""

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from whisperbatch.decoding.audit import DecodedRow, max_tokens_for
from whisperbatch.decoding.prompts import NO_CONTEXT, Context
from whisperbatch.decoding.timestamps import segment_by_timestamps, speech_within
from whisperbatch.decoding.tokenizer import WhisperTokenizer
from whisperbatch.decoding.words import place_words
from whisperbatch.options import MAX_NEW_TOKENS, Options, SearchOptions, Task
from whisperbatch.protocols import (
    Alignment,
    Decoded,
    DecodeRequest,
    Encoded,
    Engine,
    Hypothesis,
    Sampling,
)
from whisperbatch.rows import Row, grouped, padded
from whisperbatch.segmentation.timed_text import TimedText, join_words
from whisperbatch.types import Chunk


@dataclass(frozen=True, slots=True, eq=False)
class RowRequest:
    """A row with language, task and context."""

    row: Row
    language: str
    task: Task = "transcribe"
    context: Context = NO_CONTEXT


@dataclass(frozen=True, slots=True, eq=False)
class Redecoding:
    """Rows to decode again.

    Attributes:
        requests: the rows, of any encoder window and prompt length.
        search: the search.
        temperature: above 0, hypotheses are sampled.
    """

    requests: Sequence[RowRequest]
    search: SearchOptions
    temperature: float = 0.0


LOOP_RATIO: Final = 2.4  # compression ratio that the text of a loop always exceeds

DecodeCall = tuple[Encoded, Sequence[DecodeRequest], SearchOptions]
"""The arguments of `Engine.decode`."""


class RowDecoder:
    """Decodes rows. The result for a row does not depend on the other rows of its batch.

    Args:
        engine: runs the model.
        options: options of the run.
        vocabulary: tokenizer of the model.
    """

    def __init__(self, engine: Engine, options: Options, vocabulary: WhisperTokenizer) -> None:
        self._engine = engine
        self._options = options
        self._vocabulary = vocabulary
        threshold = options.compression_ratio_threshold
        self._stop_loops = threshold is not None and threshold <= LOOP_RATIO
        # a shared engine computes several calls of a thread at the same time
        self._decode_calls: Callable[[Iterable[DecodeCall]], Iterable[list[Decoded]]] = getattr(
            engine, "decode_all", lambda calls: (engine.decode(*call) for call in calls)
        )

    def encode(self, rows: Sequence[Row]) -> Encoded:
        """Return the encoder output of rows with the same encoder window.

        A row that already has its encoder output is not encoded again.
        """
        new_rows = [row for row in rows if row.encoded is None]
        window = rows[0].window
        if len(new_rows) == len(rows):
            return self._engine.encode(padded(rows, window))
        outputs = iter(
            self._engine.split(self._engine.encode(padded(new_rows, window))) if new_rows else ()
        )
        return self._engine.join([row.encoded or next(outputs) for row in rows])

    def foreign_tokens(self, language: str) -> tuple[int, ...]:
        """Return the tokens with letters that a text in this language may not contain."""
        return self._vocabulary.foreign_tokens(language, latin=self._options.latin_names)

    def redecode(
        self,
        requests: Sequence[RowRequest],
        search: SearchOptions | None = None,
        temperature: float = 0.0,
    ) -> list[DecodedRow]:
        """Encode and decode rows that failed their audit or are suspicious, in batches.

        A row may have at most the tokens that its speech allows (`max_tokens_for`). All rows of an
        engine call have the same limit, because with the limit of the longest row, the text of a
        row would depend on the other rows of the call. A call with more hypotheses for each row
        (beams, or sampled hypotheses) than the first decoding gets fewer rows, because the engine
        holds keys and values for each hypothesis. The memory of a call therefore does not grow.

        Args:
            requests: rows to decode, of any encoder window and prompt length.
            search: replaces the search of the run.
            temperature: above 0, hypotheses are sampled.
        """
        search = search or self._options.search
        [decoded_rows] = self.redecode_all([Redecoding(requests, search, temperature)])
        return decoded_rows

    def redecode_all(self, tasks: Sequence[Redecoding]) -> list[list[DecodedRow]]:
        """Do several tasks of `redecode` at the same time, if the engine computes rows together."""
        parts = [
            (number, indices)
            for number, task in enumerate(tasks)
            for group in grouped([retry_key(request) for request in task.requests])
            for indices in divided(group, self._max_rows(task))
        ]
        results: list[dict[int, DecodedRow]] = [{} for _ in tasks]
        calls = (self._call(tasks[number], indices) for number, indices in parts)
        for (number, indices), decoded in zip(parts, self._decode_calls(calls), strict=True):
            task = tasks[number]
            for index, row in zip(indices, decoded, strict=True):
                request = task.requests[index]
                results[number][index] = self._decoded_row(request, row, task.temperature)
        return [[rows[index] for index in range(len(rows))] for rows in results]

    def _call(self, task: Redecoding, indices: Sequence[int]) -> DecodeCall:
        requests = [task.requests[index] for index in indices]
        return (
            self.encode([request.row for request in requests]),
            [self._engine_request(request, task.temperature) for request in requests],
            limited(task.search, max_tokens_for(requests[0].row.chunk)),
        )

    def __call__(
        self,
        encoded: Encoded,
        requests: Sequence[RowRequest],
        search: SearchOptions | None = None,
        temperature: float = 0.0,
    ) -> list[DecodedRow]:
        """Decode rows that are already encoded, in one engine call.

        Args:
            encoded: encoder output of the rows.
            requests: requests with the same `call_key`.
            search: replaces the search of the run.
            temperature: above 0, hypotheses are sampled.
        """
        decoded = self._engine.decode(
            encoded,
            [self._engine_request(request, temperature) for request in requests],
            search or self._options.search,
        )
        return [
            self._decoded_row(request, row, temperature)
            for request, row in zip(requests, decoded, strict=True)
        ]

    def _max_rows(self, task: Redecoding) -> int:
        """Return the maximum number of rows of a call."""
        options = self._options
        hypotheses = options.best_of if task.temperature else task.search.beam_size
        rows = options.chosen_batch_size * min(options.hypotheses, hypotheses) // hypotheses
        return max(1, rows)

    def _engine_request(self, request: RowRequest, temperature: float) -> DecodeRequest:
        start = self._vocabulary.prompt(request.language, request.task)
        prefix = self._prefix(request.context)
        return DecodeRequest(
            prompt=tuple(self._prompt(request.context, start, prefix)),
            start=tuple(start),
            prefix=prefix,
            frames=request.row.features.shape[1],
            sampling=self._sampling(request.row, temperature) if temperature > 0 else None,
            stop_loops=self._stop_loops,
        )

    def _prefix(self, context: Context) -> tuple[int, ...]:
        """Return the tokens that the text must begin with: before a prefix, its timestamp.

        Without the timestamp, the next token would have to be a timestamp of at most
        `max_initial_timestamp`, and the model would say the prefix again after it.
        """
        if not context.prefix or self._options.timestamps == "alignment":
            return context.prefix
        return self._vocabulary.no_timestamps + 1, *context.prefix  # <|0.00|>

    def _prompt(self, context: Context, start: Sequence[int], prefix: Sequence[int]) -> list[int]:
        prompt = [*context.before, *start]
        if self._options.timestamps == "alignment":
            prompt.append(self._vocabulary.no_timestamps)
        return [*prompt, *prefix]

    def _sampling(self, row: Row, temperature: float) -> Sampling:
        """Return the row's sampling with a seed made from seed option, temperature and audio.

        The text therefore does not depend on the order or the other rows of the batch.
        """
        key = f"{self._options.seed} {temperature}".encode()
        seed = zlib.crc32(row.chunk.samples.tobytes(), zlib.crc32(key))
        return Sampling(temperature, self._options.best_of, seed)

    def _decoded_row(self, request: RowRequest, decoded: Decoded, temperature: float) -> DecodedRow:
        row, language, task = request.row, request.language, request.task
        text_language = "en" if task == "translate" else language
        hypothesis, alignment = decoded.hypothesis, decoded.alignment
        prefix = self._prefix(request.context)
        hypothesis = replace(hypothesis, tokens=(*prefix, *hypothesis.tokens))
        if self._options.timestamps == "tokens":
            timed_texts = self._by_timestamps(row.chunk, hypothesis, alignment, text_language)
        else:
            tokens = self._vocabulary.text_tokens(hypothesis.tokens)
            words = place_words(tokens, alignment, row.chunk, text_language, self._vocabulary)
            timed_texts = (join_words(words),) if words else ()
        text = self._vocabulary.text(hypothesis.tokens)
        return DecodedRow(
            row, language, hypothesis, text, timed_texts, self._options, temperature, task
        )

    def _by_timestamps(
        self, chunk: Chunk, hypothesis: Hypothesis, alignment: Alignment, language: str
    ) -> tuple[TimedText, ...]:
        """Return a timed text for each pair of timestamp tokens, with its words."""
        timed_texts = []
        position = 0
        segments = segment_by_timestamps(hypothesis.tokens, chunk, self._vocabulary)
        for timed_text, tokens in segments:
            part = slice(position, position + len(tokens))
            position += len(tokens)
            token_times = Alignment(
                alignment.starts[part], alignment.ends[part], alignment.probabilities[part]
            )
            speech = speech_within(chunk.speech, timed_text.start, timed_text.end)
            words = place_words(
                tokens, token_times, chunk, language, self._vocabulary, speech=speech
            )
            timed_texts.append(replace(timed_text, words=tuple(words)))
        return tuple(timed_texts)


def divided(indices: Sequence[int], size: int) -> list[Sequence[int]]:
    """Divide a list into parts of at most `size` items."""
    return [indices[start : start + size] for start in range(0, len(indices), size)]


def limited(search: SearchOptions, max_tokens: int) -> SearchOptions:
    """Return the search with a lower maximum number of tokens, if `max_tokens` is lower."""
    if max_tokens < (search.max_new_tokens or MAX_NEW_TOKENS):
        return replace(search, max_new_tokens=max_tokens)
    return search


def call_key(row: Row, context: Context) -> tuple[int, int, int]:
    """Return the key that all rows of an engine call share: encoder window and prompt lengths."""
    return row.window, len(context.before), len(context.prefix)


def retry_key(request: RowRequest) -> tuple[int, ...]:
    """Return the key that all rows share that are decoded again in one engine call."""
    return *call_key(request.row, request.context), max_tokens_for(request.row.chunk)
