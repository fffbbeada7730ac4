"""Greedy search, beam search and sampling. The decoder is a function (`StepFunction`).

The decoder reads a token as its next input, and returns the candidates for the token after it.

    first candidates -> extend -> advance -> all rows done -> best hypothesis of each row
                          ^          |
                          +-- step <-+

The rules are CTranslate2's, which follow openai/whisper. The score of a hypothesis is its total
log-probability divided by `length ** length_penalty`. A row is done when `beam_size * patience` of
its hypotheses have ended. Beam search with one beam is greedy search. The sampled hypotheses of a
row are decoded side by side, and the row is done when all have ended.

The decoder adds to its logits the biases of suppressed tokens and n-grams, and noise for sampling.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.model_info import SpecialTokens
from whisperbatch.models.config import ModelConfig
from whisperbatch.options import SearchOptions
from whisperbatch.protocols import Hypothesis, Sampling
from whisperbatch.text.loops import LOOP_TOKENS, ends_with_loop

CONFIGURED_TOKENS: Final = -1  # in `suppress_tokens`: the tokens that config.json lists
LOOP_CHECK: Final = 16  # tokens from one check for a loop to the next

MARGIN: Final = 1.5
"""The most that the total natural-log probability of a hypothesis may be below that of the best
hypothesis of its row, in a search that prunes."""

Integers: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The hypothesis that a search found for a row.

    Attributes:
        tokens: token ids, without the end of text.
        logprobs: natural-log probability of each token.
        beams: the beam in which the decoder read each token. A hypothesis that was cut off at
            `max_tokens` has one beam less than tokens, because its last token was never read.
        logprob: total natural-log probability of the tokens. It includes the end of text, unless
            the hypothesis was cut off.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    beams: tuple[int, ...]
    logprob: float

    def to_hypothesis(self, no_speech_prob: float) -> Hypothesis:
        """Return the hypothesis with the mean log-probability of its tokens and the end of text."""
        return Hypothesis(self.tokens, self.logprob / (len(self.tokens) + 1), no_speech_prob)


@dataclass(frozen=True, slots=True, eq=False)
class Extensions:
    """Tokens that extend hypotheses of one row.

    Attributes:
        tokens: token ids, shape (n,).
        sources: the beam whose hypothesis each token extends, shape (n,).
        logprobs: natural-log probability of each token, shape (n,).
        totals: total natural-log probability of each extended hypothesis, shape (n,).
    """

    tokens: Integers
    sources: Integers
    logprobs: Floats
    totals: Floats

    def __getitem__(self, chosen: Sequence[int]) -> "Extensions":
        return Extensions(
            self.tokens[chosen], self.sources[chosen], self.logprobs[chosen], self.totals[chosen]
        )


class RowState(ABC):
    """The state of the search for one row.

    Attributes:
        best: the best hypothesis that has ended; of equally good hypotheses, the first.
        totals: total log-probability of each hypothesis that is followed, shape (beams,).
        followed: the extensions of each step, one for each beam; those that are followed first.
        active: number of hypotheses that are followed.
        done: whether enough hypotheses have ended.
    """

    def __init__(self, end_of_text: int, length_penalty: float) -> None:
        self._end_of_text, self._length_penalty = end_of_text, length_penalty
        self.best = SearchResult((), (), (), -np.inf)
        self.totals: Floats = np.zeros(1, np.float32)  # a single empty hypothesis
        self.followed: list[Extensions] = []
        self.active = 1
        self.done = False

    @abstractmethod
    def advance(self, extensions: Extensions, *, last: bool) -> None:
        """Extend each hypothesis by one token.

        Args:
            extensions: the possible extensions.
            last: whether the hypotheses then have `max_tokens` tokens, so that all of them end.
        """

    def _end_hypothesis(
        self, extensions: Extensions, number: int, *, is_loop: bool = False
    ) -> None:
        """End the hypothesis with extension `number`; store it in `best` if its score is higher.

        The extension is the end of text or the last token that `max_tokens` allows. A loop ends
        before the extension: other rows may continue, and then no step reads this token.
        """
        total = float(extensions.totals[number])
        has_end = is_loop or extensions.tokens[number] == self._end_of_text
        length = len(self.followed) + (not has_end)
        if self._score(total, length) <= self._score(self.best.logprob, len(self.best.tokens)):
            return
        beams = self._beams(int(extensions.sources[number]))
        path = list(zip(self.followed, beams, strict=True))
        tokens = [int(followed.tokens[beam]) for followed, beam in path]
        logprobs = [float(followed.logprobs[beam]) for followed, beam in path]
        if not has_end:
            tokens.append(int(extensions.tokens[number]))
            logprobs.append(float(extensions.logprobs[number]))
        self.best = SearchResult(tuple(tokens), tuple(logprobs), tuple(beams), total)

    def _beams(self, beam: int) -> list[int]:
        """Return the beam in which each token of a hypothesis was read, given the last beam."""
        beams: list[int] = []
        for followed in reversed(self.followed):
            beams.append(beam)
            beam = int(followed.sources[beam])
        beams.reverse()
        return beams

    def _score(self, total: float, length: int) -> float:
        """Return the score of a hypothesis with `length` tokens, end of text not counted."""
        return total / float(max(length, 1) ** self._length_penalty)


class BeamSearchState(RowState):
    """Beam search for one row: the `beam_size` most probable hypotheses are followed.

    Args:
        beam_size: the most hypotheses that are followed.
        required_endings: number of hypotheses after whose end the row is done.
        end_of_text: the token that ends a hypothesis.
        length_penalty: see `search`.
        stops_loop: see `search`.
        prunes: do not follow hypotheses that are far below the best: see `MARGIN`.
    """

    def __init__(
        self,
        beam_size: int,
        required_endings: int,
        end_of_text: int,
        length_penalty: float,
        *,
        stops_loop: bool,
        prunes: bool,
    ) -> None:
        super().__init__(end_of_text, length_penalty)
        self._beam_size, self._required_endings = beam_size, required_endings
        self._stops_loop, self._prunes = stops_loop, prunes
        self._endings = 0  # hypotheses that have ended

    def advance(self, extensions: Extensions, *, last: bool) -> None:
        """Follow the `beam_size` most probable extensions. See `RowState.advance`.

        An end of text among them ends its hypothesis. The next most probable extension that is not
        an end of text takes its place. There always is one: of the 2 * beam_size extensions, at
        most one for each beam is an end of text.
        """
        is_loop = not last and self._has_loop()
        last = last or is_loop
        if self._prunes and not last:
            extensions = self._without_improbable_ends(extensions)
        chosen: list[int] = []
        substitutes = iter(range(self._beam_size, len(extensions.tokens)))
        for number in range(self._beam_size):
            choice = number
            if extensions.tokens[number] == self._end_of_text or last:
                self._endings += 1
                self._end_hypothesis(extensions, number, is_loop=is_loop)
                choice = next(
                    (n for n in substitutes if extensions.tokens[n] != self._end_of_text), number
                )
            chosen.append(choice)
        kept = self._kept(extensions, chosen) if self._prunes else chosen
        self.active = len(kept)
        followed = extensions[kept + [number for number in chosen if number not in kept]]
        self.followed.append(followed)
        self.totals = followed.totals.copy()
        self.totals[self.active :] = -np.inf
        self.done = last or self._endings >= self._required_endings or self._is_decided()

    def _without_improbable_ends(self, extensions: Extensions) -> Extensions:
        """Return the extensions without ends of texts that are far below the best extension.

        If few hypotheses are followed, such ends are among the most probable extensions. They would
        end the search before the text is complete.
        """
        improbable = (extensions.tokens == self._end_of_text) & (
            extensions.totals < extensions.totals[0] - MARGIN
        )
        return extensions[np.nonzero(~improbable)[0].tolist()]

    def _is_decided(self) -> bool:
        """Return whether no hypothesis that is followed has a higher score than the best ended."""
        if not self._prunes or not np.isfinite(self.best.logprob):
            return False
        best = self._score(self.best.logprob, len(self.best.tokens))
        return best >= self._score(float(self.totals[0]), len(self.followed))

    def _kept(self, extensions: Extensions, chosen: Sequence[int]) -> list[int]:
        """Return the extensions that are not far below the best, the most probable first."""
        order = sorted(set(chosen))
        lowest = extensions.totals[order[0]] - MARGIN
        return [number for number in order if extensions.totals[number] >= lowest]

    def _has_loop(self) -> bool:
        """Return whether the most probable hypothesis is a loop; checked at some lengths only."""
        length = len(self.followed)
        if not self._stops_loop or length < LOOP_TOKENS or length % LOOP_CHECK:
            return False
        path = zip(self.followed, self._beams(0), strict=True)
        return ends_with_loop([int(followed.tokens[beam]) for followed, beam in path])


class SamplingState(RowState):
    """Sampling for one row: the sampled hypotheses do not depend on each other.

    A hypothesis that has ended keeps its beam. Tokens that are drawn for this beam are ignored.
    """

    def __init__(self, hypothesis_count: int, end_of_text: int) -> None:
        super().__init__(end_of_text, length_penalty=1.0)
        self._unfinished = set(range(hypothesis_count))

    def advance(self, extensions: Extensions, *, last: bool) -> None:
        """Extend each hypothesis by its drawn token. See `RowState.advance`."""
        for number in sorted(self._unfinished):
            if extensions.tokens[number] == self._end_of_text or last:
                self._end_hypothesis(extensions, number)
                self._unfinished.remove(number)
        self.followed.append(extensions)
        self.totals = extensions.totals
        self.active = len(self.totals)
        self.done = not self._unfinished


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Candidates for the next token: the most probable first, or drawn at random.

    Attributes:
        tokens: token ids, shape (..., k).
        logprobs: natural-log probability of each candidate, shape (..., k).
    """

    tokens: Integers
    logprobs: Floats


class StepFunction(Protocol):
    """A decoder that has already read the prompt of each row."""

    def __call__(
        self, tokens: Integers, sources: Integers, rows: Sequence[int], active: Sequence[int]
    ) -> Candidates:
        """Read one more token of each beam.

        Args:
            tokens: the token of each beam, shape (rows, beams).
            sources: for each token, the beam of the previous step whose hypothesis the token
                extends, within the same row; shape (rows, beams). Before the first step, each row
                has a single beam, 0.
            rows: the rows that continue, as indices into the rows of the previous step.
            active: for each row, how many of its beams are followed: the first ones. The decoder
                may leave out the other beams. No later source is one of them.

        Returns:
            The same number of candidates after each token, shape (rows, beams, k). Those of beams
            that are not followed do not matter.
        """
        ...


Lookahead: TypeAlias = Callable[[int, int], Candidates | None]
"""Returns the candidates after a token, if the decoder has already read the token as a guess.

Speculative decoding reads several guessed tokens of a row in one step.

Args:
    row: index into the rows of the previous step.
    token: the token that the search chose for the row.

Returns:
    The candidates after the token, shape (1, 1, k), or None if the token is not the next guess. If
    candidates are returned, the guess is accepted: the next call for the row refers to the next
    guess.
"""


def search(
    step: StepFunction,
    first: Candidates,
    options: SearchOptions,
    *,
    max_tokens: int,
    end_of_text: int,
    stop_loops: Sequence[bool] | None = None,
    lookahead: Lookahead | None = None,
    prunes: bool = False,
) -> list[SearchResult]:
    """Return the best hypothesis of each row, by greedy or beam search.

    Args:
        step: the decoder. It returns at least 2 * beam_size candidates for each beam.
        first: candidates after each row's prompt, shape (rows, k), k at least 2 * beam_size.
        options: `beam_size` hypotheses of a row are followed at the same time. A row is done when
            beam_size * `patience` hypotheses (rounded, at least 1) have ended. A hypothesis is
            scored by logprob / length ** `length_penalty`.
        max_tokens: a hypothesis that reaches this number of tokens is cut off.
        end_of_text: the token that ends a hypothesis.
        stop_loops: for each row, whether its hypotheses are cut off when the most probable
            hypothesis is a loop; None for no row.
        lookahead: for a decoder that reads guessed tokens; requires beam_size 1.
        prunes: see `BeamSearchState`.

    Returns:
        One result for each row of `first`, in the same order.
    """
    beam_size = options.beam_size
    required_endings = max(1, int(beam_size * options.patience + 0.5))
    rows = [
        BeamSearchState(
            beam_size,
            required_endings,
            end_of_text,
            options.length_penalty,
            stops_loop=stops_loop,
            prunes=prunes,
        )
        for stops_loop in stop_loops or [False] * len(first.tokens)
    ]
    return _run_search(rows, step, first, 2 * beam_size, max_tokens=max_tokens, lookahead=lookahead)


def sample(
    step: StepFunction, first: Candidates, *, max_tokens: int, end_of_text: int
) -> list[SearchResult]:
    """Return the sampled hypothesis of each row with the highest logprob / number of tokens.

    Args:
        step: the decoder. It returns one drawn token for each sampled hypothesis (k = 1).
        first: tokens drawn after each row's prompt, shape (rows, sampled hypotheses).
        max_tokens: a hypothesis that reaches this number of tokens is cut off.
        end_of_text: the token that ends a hypothesis.

    Returns:
        One result for each row of `first`, in the same order.
    """
    row_count, hypothesis_count = first.tokens.shape
    rows = [SamplingState(hypothesis_count, end_of_text) for _ in range(row_count)]
    return _run_search(rows, step, first, None, max_tokens=max_tokens)


def _run_search(
    rows: Sequence[RowState],
    step: StepFunction,
    first: Candidates,
    count: int | None,
    *,
    max_tokens: int,
    lookahead: Lookahead | None = None,
) -> list[SearchResult]:
    """Extend the hypotheses until all rows are done. A row that is done leaves the batch.

    `count` is that of `_extend`.
    """
    active = list(rows)
    candidates = Candidates(first.tokens[:, None], first.logprobs[:, None])
    while True:
        extensions = _extend(candidates, np.stack([row.totals for row in active]), count)
        for number, row in enumerate(active):
            row.advance(extensions[number], last=len(row.followed) + 1 == max_tokens)
            while lookahead and not row.done:
                next_candidates = lookahead(number, int(row.followed[-1].tokens[0]))
                if next_candidates is None:
                    break
                [row_extensions] = _extend(next_candidates, row.totals[None], count)
                row.advance(row_extensions, last=len(row.followed) + 1 == max_tokens)
        continuing = [number for number, row in enumerate(active) if not row.done]
        if not continuing:
            return [row.best for row in rows]
        active = [active[number] for number in continuing]
        tokens = np.stack([row.followed[-1].tokens for row in active])
        sources = np.stack([row.followed[-1].sources for row in active])
        candidates = step(tokens, sources, continuing, [row.active for row in active])


def _extend(candidates: Candidates, totals: Floats, count: int | None) -> list[Extensions]:
    """Return the possible extensions of each row.

    Args:
        candidates: for the next token of each beam, shape (rows, beams, k).
        totals: total log-probability of each beam's hypothesis, shape (rows, beams).
        count: number of extensions of a row, those with the highest totals first; None for all, in
            the order of the candidates.
    """
    rows, _, k = candidates.tokens.shape
    tokens, logprobs = (
        array.reshape(rows, -1) for array in (candidates.tokens, candidates.logprobs)
    )
    new_totals = (totals[..., None] + candidates.logprobs).reshape(rows, -1)
    if count is None:
        order = np.tile(np.arange(tokens.shape[1]), (rows, 1))
    else:
        order = np.argsort(-new_totals, axis=1, kind="stable")[:, :count]
    return [
        Extensions(tokens[row, best], best // k, logprobs[row, best], new_totals[row, best])
        for row, best in enumerate(order)
    ]


def logit_biases(
    options: SearchOptions,
    config: ModelConfig,
    special_tokens: SpecialTokens,
    vocabulary_size: int,
    *,
    timestamps: bool = False,
) -> tuple[Floats, Floats]:
    """Return the biases to add to the logits: minus infinity for suppressed tokens, else 0.

    Args:
        options: suppress_tokens and suppress_blank.
        config: settings of the weights.
        special_tokens: ids of the special tokens.
        vocabulary_size: number of tokens.
        timestamps: allow timestamp tokens.

    Returns:
        The biases of every token but a row's first, and of a row's first token; both of shape
        (vocabulary_size,).
    """
    biases = np.zeros(vocabulary_size, np.float32)
    suppressed = set(options.suppress_tokens)
    if CONFIGURED_TOKENS in suppressed:
        suppressed |= set(config.suppress_ids)
    biases[sorted(suppressed - {CONFIGURED_TOKENS})] = -np.inf
    no_timestamps = special_tokens.no_timestamps  # timestamp tokens follow it in the vocabulary
    biases[no_timestamps : no_timestamps + 1 if timestamps else None] = -np.inf
    first_biases = biases.copy()
    if options.suppress_blank:
        first_biases[list(config.suppress_ids_begin)] = -np.inf
    return biases, first_biases


def blocked_by_ngrams(text: Sequence[int], size: int) -> list[int]:
    """Return the tokens that would complete an n-gram of `size` tokens that `text` contains.

    As in CTranslate2, `text` is the decoded text without its prompt.
    """
    last = tuple(text[len(text) - size + 1 :])
    starts = range(len(text) - size + 1)
    return [
        text[start + size - 1] for start in starts if tuple(text[start : start + size - 1]) == last
    ]


class TokenNoise:
    """Noise for the tokens of the sampled hypotheses of a batch.

    The Gumbel-max trick: the token with the highest `logit + temperature * noise` is a sample of
    the distribution softmax(logits / temperature), if the noise of each token is an independent
    number from the standard Gumbel distribution (Gumbel, Statistical theory of extreme values,
    1954; Maddison et al., A* sampling, 2014). A decoder that returns the most probable tokens can
    thus sample, without the probabilities of all tokens.

    Each hypothesis has its own generator (Philox: Salmon et al., Parallel random numbers: as easy
    as 1, 2, 3, 2011), whose key is the row's seed and the number of the hypothesis. A sampled
    hypothesis therefore depends neither on earlier batches nor on the other rows.

    Args:
        sampling: for each row of the batch; `best_of` is equal for all rows.
        vocabulary_size: number of tokens.

    Attributes:
        best_of: number of sampled hypotheses of a row.
    """

    def __init__(self, sampling: Sequence[Sampling], vocabulary_size: int) -> None:
        self._vocabulary_size = vocabulary_size
        self._temperatures = [row.temperature for row in sampling]
        self.best_of = sampling[0].best_of
        self._generators = [
            [random_generator(row.seed, hypothesis) for hypothesis in range(row.best_of)]
            for row in sampling
        ]

    def __call__(self, row: int, hypothesis: int) -> Floats:
        """Return the noise for the next token of a hypothesis, shape (vocabulary,).

        The noise is already multiplied by the row's temperature. The logarithm of an exponentially
        distributed number is the negative of a number with the Gumbel distribution. The exponential
        numbers are float64: in float32 one of 2**23 would be 0, whose noise is infinite.
        """
        exponential = self._generators[row][hypothesis].standard_exponential(self._vocabulary_size)
        noise: Floats = np.log(exponential.astype(np.float32))
        noise *= -self._temperatures[row]
        return noise


def random_generator(seed: int, hypothesis: int) -> np.random.Generator:
    """Return the generator of a sampled hypothesis, from the row's seed and its number."""
    return np.random.Generator(np.random.Philox(key=np.array([seed, hypothesis], np.uint64)))
