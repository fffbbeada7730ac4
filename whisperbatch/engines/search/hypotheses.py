"""The hypotheses of a row during a search: those that are followed, and the best that has ended."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.text.loops import LOOP_TOKENS, ends_with_loop

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
