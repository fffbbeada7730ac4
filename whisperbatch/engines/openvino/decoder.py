"""Whisper's decoder on OpenVINO, from the same weights: the extra `openvino`.

    encoder output (1, positions, d_model)       -> cross -> keys and values of each layer
    embedded tokens (rows * beams, length, ...)  -> body  -> hidden states
    hidden states (n, d_model)                   -> words -> the likeliest tokens of each

A step reads the keys and values of every row once, and most of its time is the memory's: they are
kept in bfloat16 where the processor has it, the beams of a row share them, each is laid out as it
is read, and rows that are done leave. What is decoded so far is the state of the body's request.

While it decodes, it keeps the queries of the heads that follow the speech: the text is placed by
them afterwards, without being read again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from queue import LifoQueue
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.layout import Arrays, Layout, alignment_heads
from whisperbatch.engines.openvino.compiler import GraphCompiler
from whisperbatch.engines.openvino.decoder_graphs import FIRST_KEPT, Graphs
from whisperbatch.engines.openvino.graph import Precision
from whisperbatch.engines.search.alignment import Trace
from whisperbatch.engines.search.beam_search import (
    Candidates,
    Floats,
    Integers,
    SearchResult,
    search,
)
from whisperbatch.engines.special_tokens import SpecialTokens, biases
from whisperbatch.models.model_bin import let_go
from whisperbatch.options import MOST_TOKENS, DecodeOptions
from whisperbatch.types import Hypothesis

MOST_BEAMS: Final = 5
"""How many of the likeliest tokens are found is a constant of the graph: twice the beams."""


class OpenVinoDecoder:
    """Decodes for one model. Thread-safe; releases the GIL while it works.

    Args:
        compiler: makes graphs ready to run.
        arrays: "decoder/..." of model.bin, as stored.
        config: config.json of the weights.
        tokens: ids of the special tokens.
        precision: to compute in.
        small: keep the matrices in eight bits.
    """

    def __init__(
        self,
        compiler: GraphCompiler,
        arrays: Arrays,
        config: Mapping[str, Any],
        tokens: SpecialTokens,
        *,
        precision: Precision,
        small: bool,
    ) -> None:
        self._embeddings = arrays["decoder/embeddings/weight"]
        self._scale = arrays.get("decoder/embeddings/weight_scale")
        self._positions = arrays["decoder/position_encodings/encodings"].astype(np.float32)
        self._config, self._tokens = config, tokens
        self.vocabulary = len(self._embeddings)
        self.precision: Precision = precision
        followed = alignment_heads(Layout.of(arrays, "decoder"), config)
        graphs = Graphs(arrays, followed, precision, small=small)
        # of what is decoded so far; eight bits, if nothing is said
        kept = {"KV_CACHE_PRECISION": "f16" if precision == "bf16" else "f32"}
        made = (
            compiler("cross", graphs.cross, precision, **kept),
            # sums over layers and the softmax need more than bfloat16: its products are typed
            compiler("body", graphs.body, "f32", **kept),
            compiler("words", lambda: graphs.words(2 * MOST_BEAMS), precision, **kept),
        )
        self.layout, self.followed = graphs.layout, graphs.followed
        self._lent: LifoQueue[Lent] = LifoQueue()
        for _ in range(compiler.workers):
            self._lent.put(Lent(*(one.create_infer_request() for one in made)))

    def serves(self, prompts: Sequence[Sequence[int]], options: DecodeOptions) -> bool:
        """Whether it can decode so; what it cannot is left to CTranslate2.

        Those are searches that weigh what was said before (penalties, timestamps), and wider
        ones than anybody uses but for a second look.
        """
        return (
            options.beam_size <= MOST_BEAMS
            and options.repetition_penalty == 1
            and all(self._tokens.no_timestamps in prompt for prompt in prompts)
        )

    def generate(
        self, output: Floats, prompts: Sequence[Sequence[int]], options: DecodeOptions
    ) -> tuple[list[Hypothesis], list[Trace]]:
        """Decode a batch.

        Args:
            output: of the encoder, shape (rows, positions, d_model).
            prompts: all of one length.
            options: that `serves` has said yes to.

        Returns:
            The hypothesis of each row, and how it came about.
        """
        most = min(options.max_new_tokens or MOST_TOKENS, len(self._positions) - len(prompts[0]))
        later, first = biases(options, self._config, self._tokens, self.vocabulary)
        lent = self._lent.get()
        try:
            decoding = Decoding(self, lent, output, later, options.no_repeat_ngram_size)
            start = list(prompts[0]).index(self._tokens.start_of_transcript)
            hidden = decoding.read(np.array(prompts), start)
            found = search(
                decoding,
                decoding.likeliest(hidden[:, -1], first[None]),
                beam_size=options.beam_size,
                patience=options.patience if options.beam_size > 1 else 1.0,
                length_penalty=options.length_penalty,
                most=most,
                end=self._tokens.end_of_text,
            )
            decoding.finish(found)
            unsaid = decoding.logprobs(hidden[:, start], self._tokens.no_speech)
            traces = [decoding.trace(row, one) for row, one in enumerate(found)]
        finally:
            self._lent.put(lent)
            let_go(self._embeddings)
        hypotheses = [
            Hypothesis(one.tokens, one.logprob / (len(one.tokens) + 1), float(np.exp(logprob)))
            for one, logprob in zip(found, unsaid, strict=True)
        ]
        return hypotheses, traces

    def languages(self, output: Floats, tokens: Sequence[int]) -> Floats:
        """How probable each language is.

        Args:
            output: of the encoder, shape (rows, positions, d_model).
            tokens: of the languages.

        Returns:
            Shape (rows, languages), each row summing to 1.
        """
        lent = self._lent.get()
        try:
            decoding = Decoding(self, lent, output, np.zeros(self.vocabulary, np.float32))
            start = np.full((len(output), 1), self._tokens.start_of_transcript)
            hidden = decoding.read(start, 0)[:, 0]
        finally:
            self._lent.put(lent)
        logits = hidden @ self._words(np.array(tokens)).T
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        found: Floats = powers / powers.sum(axis=1, keepdims=True)
        return found

    def embedded(self, tokens: Integers, first: int) -> Floats:
        """Tokens (rows, length), of which the first has position `first`: what the body reads."""
        found = self._words(tokens)
        found += self._positions[first : first + tokens.shape[1]]
        return found

    def _words(self, tokens: Integers) -> Floats:
        """Embeddings of tokens, shape (..., d_model)."""
        found: Floats = self._embeddings[tokens].astype(np.float32)
        if self._scale is not None:
            whole = not self._scale.ndim  # one for all, as int16 is stored
            scale = self._scale if whole else self._scale[tokens][..., None]
            found /= scale.astype(np.float32)
        return found


class Decoding:
    """One batch, from its first token to its last.

    Rows that are done leave: the last row takes the place of one that has left.
    """

    def __init__(
        self,
        decoder: OpenVinoDecoder,
        lent: "Lent",
        output: Floats,
        bias: Floats,
        ngram: int = 0,  # tokens in a row that may not come twice
    ) -> None:
        from openvino import Shape, Tensor, Type  # noqa: PLC0415 - an extra

        self._tensor, self._shape = Tensor, Shape
        self._decoder, self._lent, self._bias = decoder, lent, bias[None]
        layout = decoder.layout
        wide = decoder.precision == "f32"
        self._type = Type.f32 if wide else Type.bf16
        rows, positions, _ = output.shape
        shapes = [(positions, layout.size), (layout.size, positions)] * layout.layers
        self._kept = lent.kept([(rows, layout.heads, *s) for s in shapes], wide=wide)
        self._ngram = ngram
        self._texts: list[list[tuple[int, ...]]] = [[()] for _ in range(rows)]  # of each beam
        self._rows = list(range(rows))  # of the batch, in the order of the search
        self._places = list(range(rows))  # of them in what is kept
        self._length = 0
        self._prompt: Floats = np.empty(0, np.float32)  # queries: (rows, heads, tokens, size)
        self._queries: list[tuple[list[int], Floats]] = []  # (rows, heads, beams, size) a step
        self._watched: dict[int, npt.NDArray[Any]] = {}
        for row in range(rows):
            lent.cross.set_input_tensor(0, Tensor(np.ascontiguousarray(output[row : row + 1])))
            for number, kept in enumerate(self._kept):
                lent.cross.set_output_tensor(number, self._view(kept[row : row + 1]))
            lent.cross.infer()
            self._watched[row] = np.stack(
                [self._kept[2 * layer][row, head] for layer, head in decoder.followed]
            )
        self._attach()

    def read(self, prompts: Integers, start: int) -> Floats:
        """Read the prompts.

        Args:
            prompts: shape (rows, length).
            start: the place of the start of transcript in them.

        Returns:
            Hidden states for each of their tokens.
        """
        self._lent.body.reset_state()
        length = prompts.shape[1]
        mask = np.triu(np.full((length, length), -np.inf, np.float32), 1)
        hidden, queries = self._run(prompts, np.arange(len(prompts)), mask)
        self._prompt = queries[:, :, start:].copy()
        return hidden.copy()

    def __call__(self, tokens: Integers, sources: Integers, rows: Sequence[int]) -> Candidates:
        """See `search.Steps`."""
        beams = tokens.shape[1]
        before = self._queries[-1][1].shape[2] if self._queries else 1  # beams a step ago
        flat = np.array([self._places[row] for row in rows])[:, None] * before + sources
        if len(rows) < len(self._rows):
            self._leave(rows)
        order = np.argsort(self._places)  # of the places, the rows
        mask = np.zeros((1, self._length + 1), np.float32)
        hidden, queries = self._run(tokens[order].reshape(-1, 1), flat[order].ravel(), mask)
        places = self._places
        self._queries.append((list(self._rows), queries[places]))
        bias = self._without_repeats(tokens, sources, rows) if self._ngram else self._bias
        return self.likeliest(hidden.reshape(len(rows), beams, -1)[places], bias)

    def finish(self, found: Sequence[SearchResult]) -> None:
        """Read the last tokens of hypotheses that were cut off: they are placed by what follows."""
        cut_off = [row for row, one in enumerate(found) if len(one.beams) < len(one.tokens)]
        if cut_off:
            tokens = np.array([[found[row].tokens[-1]] for row in cut_off])
            sources = np.array([[(0, *found[row].beams)[-1]] for row in cut_off])
            self(tokens, sources, [self._rows.index(row) for row in cut_off])

    def trace(self, row: int, found: SearchResult) -> Trace:
        """How a row's hypothesis came about."""
        beams = (*found.beams, 0)[: len(found.tokens)]
        queries = [
            asked[rows.index(row), :, beam, None]
            for (rows, asked), beam in zip(self._queries, beams, strict=False)
        ]
        whole = np.concatenate((self._prompt[row], *queries), axis=1)
        return Trace(found.tokens, found.logprobs, whole, self._watched[row])

    def _leave(self, rows: Sequence[int]) -> None:
        staying = [self._places[row] for row in rows]
        free = [place for place in range(len(rows)) if place not in staying]
        for number, place in enumerate(staying):
            if place >= len(rows):
                staying[number] = free.pop()
                for kept in self._kept:
                    kept[staying[number]] = kept[place]
        self._kept = [kept[: len(rows)] for kept in self._kept]
        self._rows = [self._rows[row] for row in rows]
        self._places = staying
        self._attach()

    def _without_repeats(self, tokens: Integers, sources: Integers, rows: Sequence[int]) -> Floats:
        """What is added to the logits of each beam: nothing may be said that makes an n-gram again.

        As CTranslate2 has it: only what has been decoded counts, not the prompt.
        """
        self._texts = [
            [(*self._texts[row][source], token) for token, source in zip(read, came, strict=True)]
            for row, read, came in zip(rows, tokens.tolist(), sources.tolist(), strict=True)
        ]
        texts = [text for beams in self._texts for text in beams]
        bias = np.repeat(self._bias, len(texts), axis=0)
        for row, text in zip(bias, texts, strict=True):
            row[repeating(text, self._ngram)] = -np.inf
        return bias

    def likeliest(self, hidden: Floats, bias: Floats) -> Candidates:
        """The likeliest tokens after each of `hidden`, shape (..., d_model)."""
        self._predict(hidden, bias, np.zeros(hidden.size // hidden.shape[-1], np.int64))
        values, tokens, total = (self._lent.words.get_output_tensor(n).data for n in range(3))
        shape = (*hidden.shape[:-1], -1)
        return Candidates(tokens.reshape(shape).astype(np.int64), (values - total).reshape(shape))

    def logprobs(self, hidden: Floats, token: int) -> Floats:
        """The log-probability of one token after each of `hidden`, shape (rows, d_model)."""
        self._predict(hidden, np.zeros_like(self._bias), np.full(len(hidden), token))
        total, asked = (self._lent.words.get_output_tensor(n).data for n in (2, 3))
        found: Floats = (asked - total)[:, 0]
        return found

    def _predict(self, hidden: Floats, bias: Floats, asked: Integers) -> None:
        words = self._lent.words
        flat = np.ascontiguousarray(hidden.reshape(-1, hidden.shape[-1]))
        for number, array in enumerate((flat, bias, asked[:, None])):
            words.set_input_tensor(number, self._tensor(array))
        words.infer()

    def _run(self, tokens: Integers, sources: Integers, mask: Floats) -> tuple[Floats, Floats]:
        """Hidden states and queries, in the order of the places; they last until the next call."""
        body = self._lent.body
        embedded = self._decoder.embedded(tokens, self._length)
        self._length += tokens.shape[1]
        for number, array in enumerate((embedded, sources.astype(np.int32), mask[None, None])):
            body.set_input_tensor(number, self._tensor(array))
        body.infer()
        return body.get_output_tensor(0).data, body.get_output_tensor(1).data

    def _view(self, array: npt.NDArray[Any]) -> Any:  # noqa: ANN401 - OpenVINO's
        return self._tensor(array, self._shape(array.shape), self._type)

    def _attach(self) -> None:
        for number, kept in enumerate(self._kept):
            self._lent.body.set_input_tensor(FIRST_KEPT + number, self._view(kept))


def repeating(text: Sequence[int], size: int) -> list[int]:
    """The tokens that would make `size` tokens come in a row that have come so before."""
    last = tuple(text[len(text) - size + 1 :])
    starts = range(len(text) - size + 1)
    return [text[at + size - 1] for at in starts if tuple(text[at : at + size - 1]) == last]


@dataclass(slots=True)
class Lent:
    """What one batch is worked on with: requests of the graphs, and memory."""

    cross: Any
    body: Any
    words: Any
    _memory: npt.NDArray[Any] = field(default_factory=lambda: np.empty(0, np.uint8))

    def kept(self, shapes: Sequence[tuple[int, ...]], *, wide: bool) -> list[npt.NDArray[Any]]:
        """Arrays for keys and values, in memory that the batch before has had."""
        dtype = np.dtype(np.float32 if wide else np.uint16)
        sizes = [int(np.prod(shape)) * dtype.itemsize for shape in shapes]
        if sum(sizes) > len(self._memory):
            self._memory = np.empty(sum(sizes), np.uint8)
        ends = np.cumsum(sizes)
        return [
            self._memory[end - size : end].view(dtype).reshape(shape)
            for shape, size, end in zip(shapes, sizes, ends, strict=True)
        ]
