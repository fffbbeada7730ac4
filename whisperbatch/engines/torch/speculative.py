"""Greedy search with a draft model: a smaller model guesses tokens, and the model reads them all.

(Leviathan et al., Fast inference from transformers via speculative decoding, 2023)

    text           ... the quick          one reading of the model
    guesses                    brown fox leaps
    said                       brown fox jumps      two guesses were right: three tokens a reading

What the model says after each guess is what it would have said anyhow, so the text is that of plain
greedy search. Rows go on by as many tokens as were guessed right for each.
"""

import logging
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import torch

from whisperbatch.engines.search.beam_search import Candidates, Integers
from whisperbatch.engines.torch.kv_cache import Sequences
from whisperbatch.engines.torch.logits_processors import NOTHING, Rule
from whisperbatch.engines.torch.steps import Likeliest, Logits

Tensor: TypeAlias = torch.Tensor

GUESSES: Final = 5

log = logging.getLogger(__name__)


class Reader:
    """One of the two models at work on a batch.

    Args:
        sequences: of the batch, nothing read yet.
        logits: of the decoder.
        rules: what may be said.
    """

    def __init__(self, sequences: Sequences, logits: Logits, rules: Sequence[Rule]) -> None:
        self.sequences, self.logits, self._rules = sequences, logits, rules

    def read(self, tokens: Integers, ends: Integers) -> Tensor:
        """Hidden states (rows, length, d_model) of tokens (rows, length).

        Args:
            tokens: the last of each text.
            ends: how long the texts are, shape (rows,). Beyond what there is room for, guesses are
                read in vain: no text is as long.
        """
        length = tokens.shape[1]
        positions = ends[:, None] - length + np.arange(length)
        positions = positions.clip(max=self.sequences.capacity - 1)
        return self.sequences.read(tokens[:, None], positions[:, None])[:, 0]

    def said(self, hidden: Tensor, texts: Sequence[Sequence[int]]) -> Tensor:
        """Logits (rows, vocabulary) of what may follow texts, for hidden states (rows, d_model)."""
        found = self.logits(hidden)
        width = max(map(len, texts))
        padded = [[NOTHING] * (width - len(text)) + [*text] for text in texts]
        given = torch.tensor(padded, device=found.device).reshape(len(texts), width).long()
        for rule in self._rules:
            found = rule(found, given)
        return found


class Guessing:
    """One batch, from its prompts to its last token. See `search.Steps`, and `ahead` there.

    Args:
        model: decides.
        draft_model: guesses.
    """

    def __init__(self, model: Reader, draft_model: Reader) -> None:
        self._model, self._draft_model, self._pick = model, draft_model, Likeliest(2)
        self._prompts: Integers = np.zeros((0, 0), np.int64)
        self._texts: list[list[int]] = []  # of the rows that go on, without their prompts
        self._guesses: Integers = np.zeros((0, 0), np.int64)  # (rows, guesses)
        self._known: list[Candidates] = []  # after each guess, (rows, 1, k)
        self._right: list[int] = []  # guesses of each row that were taken
        self._readings = self._taken = 0

    def first(self, prompts: Integers, start: int) -> tuple[Candidates, Tensor]:
        """As `Reading.first`."""
        rows, length = prompts.shape
        self._prompts, self._texts, self._right = prompts, [[]] * rows, [0] * rows
        self._guesses = np.zeros((rows, 0), np.int64)
        ends = np.full(rows, length)
        self._draft_model.read(prompts, ends)
        hidden = self._model.read(prompts, ends)
        logits = self._model.said(hidden[:, -1], self._texts)
        return self._pick(logits, (), 0), self._model.logits(hidden[:, start])

    def __call__(self, tokens: Integers, sources: Integers, rows: Sequence[int]) -> Candidates:
        """See `search.Steps`."""
        numbers = list(rows)
        self._prompts = self._prompts[numbers]
        self._texts = [
            [*self._texts[row], int(token)] for row, token in zip(rows, tokens[:, 0], strict=True)
        ]
        for one in (self._model, self._draft_model):
            one.sequences.select(numbers, sources)
        self._guesses = self._guessed()
        ends = self._ends() + GUESSES
        hidden = self._model.read(np.concatenate((tokens, self._guesses), axis=1), ends)
        self._known = []
        for count in range(GUESSES + 1):
            logits = self._model.said(hidden[:, count], self._with_guesses(count))
            self._known.append(self._pick(logits[:, None], (), 0))
        self._right = [0] * len(numbers)
        self._readings += len(numbers)
        self._taken += len(numbers)
        return self._known[0]

    def ahead(self, row: int, token: int) -> Candidates | None:
        """See `search.Ahead`."""
        right = self._right[row]
        if right == self._guesses.shape[1] or token != self._guesses[row, right]:
            return None
        self._right[row] += 1
        self._taken += 1
        self._texts[row].append(token)
        known = self._known[right + 1]
        return Candidates(known.tokens[row : row + 1], known.logprobs[row : row + 1])

    def finish(self) -> None:
        """Log how it went."""
        if self._readings:
            log.debug("draft model: %.2f tokens a reading", self._taken / self._readings)

    def _guessed(self) -> Integers:
        """What the draft model would say, shape (rows, GUESSES).

        It may not have read the token before the last: all of its guesses may have been right.
        """
        both = [[*prompt[-1:], *text][-2:] for prompt, text in self._both()]
        last, ends = np.array(both), self._ends()
        found = np.zeros((len(both), GUESSES), np.int64)
        for count in range(GUESSES):
            hidden = self._draft_model.read(last, ends + count)
            self._guesses = found
            logits = self._draft_model.said(hidden[:, -1], self._with_guesses(count))
            found[:, count] = logits.argmax(-1).cpu().numpy()
            last = found[:, count : count + 1]
        return found

    def _both(self) -> list[tuple[list[int], list[int]]]:
        return list(zip(self._prompts.tolist(), self._texts, strict=True))

    def _ends(self) -> Integers:
        return np.array([len(prompt) + len(text) for prompt, text in self._both()])

    def _with_guesses(self, count: int) -> list[list[int]]:
        guesses = self._guesses[:, :count].tolist()
        return [[*text, *more] for text, more in zip(self._texts, guesses, strict=True)]
