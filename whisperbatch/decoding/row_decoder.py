"""Row decoder: decodes rows after their prompts, and gives their words times."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from whisperbatch.decoding.audit import DecodedRow, max_tokens_for
from whisperbatch.decoding.prompts import (
    NO_CONTEXT,
    Context,
    WhisperTokenizer,
    segment_by_timestamps,
    speech_within,
)
from whisperbatch.decoding.words import place_words
from whisperbatch.options import MAX_NEW_TOKENS, Options, SearchOptions, Task
from whisperbatch.protocols import Alignment, Decoded, DecodeRequest, Hypothesis, Sampling
from whisperbatch.recording import Row
from whisperbatch.scheduling import SharedModel
from whisperbatch.segmentation.timed_text import TimedText, join_words
from whisperbatch.types import Chunk

LOOP_RATIO: Final = 2.4  # compression ratio that the text of a loop always exceeds


@dataclass(frozen=True, slots=True, eq=False)
class RowRequest:
    """A row to decode.

    Attributes:
        row: of any encoder window.
        language: language of the speech.
        task: whether to translate.
        context: what the prompt has before and after the start of the transcript.
        search: replaces the search of the run.
        temperature: above 0, hypotheses are sampled.
        max_tokens: of the text; None for the tokens that the speech allows (`max_tokens_for`).
    """

    row: Row
    language: str
    task: Task = "transcribe"
    context: Context = NO_CONTEXT
    search: SearchOptions | None = None
    temperature: float = 0.0
    max_tokens: int | None = None


def task_for(options: Options, language: str) -> Task:
    """Return the task of a row in a language: with English output, other speech is translated."""
    translated = options.code_switching_output == "english" and language != "en"
    return "translate" if translated else options.task


class RowDecoder:
    """Decodes rows. The result for a row does not depend on the other rows of its batch.

    Args:
        model: runs the model.
        options: options of the run.
        vocabulary: tokenizer of the model.
    """

    def __init__(self, model: SharedModel, options: Options, vocabulary: WhisperTokenizer) -> None:
        self._model = model
        self._options = options
        self._vocabulary = vocabulary
        threshold = options.compression_ratio_threshold
        self._stop_loops = threshold is not None and threshold <= LOOP_RATIO

    def foreign_tokens(self, language: str) -> tuple[int, ...]:
        """Return the tokens with letters that a text in this language may not contain."""
        return self._vocabulary.foreign_tokens(language, latin=self._options.latin_names)

    def __call__(self, requests: Sequence[RowRequest]) -> list[DecodedRow]:
        """Decode rows, and give their words times. Return one result per request, in order.

        Rows of an engine call have the same limit of tokens, because with the limit of the longest
        row, the text of a row would depend on the other rows of the call.
        """
        decoded = self._model.decode(
            [
                (request.row, self._engine_request(request), self._search(request))
                for request in requests
            ]
        )
        return list(map(self._decoded_row, requests, decoded))

    def _search(self, request: RowRequest) -> SearchOptions:
        """Return the search of a request, with its limit of tokens."""
        search = request.search or self._options.search
        limit = request.max_tokens or max_tokens_for(request.row.chunk)
        if limit < (search.max_new_tokens or MAX_NEW_TOKENS):
            return replace(search, max_new_tokens=limit)
        return search

    def _engine_request(self, request: RowRequest) -> DecodeRequest:
        start = self._vocabulary.prompt(request.language, request.task)
        prefix = self._prefix(request.context)
        return DecodeRequest(
            prompt=tuple(self._prompt(request.context, start, prefix)),
            start=tuple(start),
            prefix=prefix,
            frames=request.row.features.shape[1],
            sampling=self._sampling(request) if request.temperature > 0 else None,
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

    def _sampling(self, request: RowRequest) -> Sampling:
        """Return the row's sampling with a seed made from seed option, temperature and audio.

        The text therefore does not depend on the order or the other rows of the batch.
        """
        key = f"{self._options.seed} {request.temperature}".encode()
        seed = zlib.crc32(request.row.chunk.samples.tobytes(), zlib.crc32(key))
        return Sampling(request.temperature, self._options.best_of, seed)

    def _decoded_row(self, request: RowRequest, decoded: Decoded) -> DecodedRow:
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
            row, language, hypothesis, text, timed_texts, self._options, request.temperature, task
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
