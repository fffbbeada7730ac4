"""How text is divided into segments: sentences and phrases.

Sentences end with a sentence or at a long pause, across the rows of a recording.

The end of a row that is no end of a sentence is held back until the next row:

    row 0    [I found a quarter in my pocket. The purpose of this test]
    row 1    [is to give you an idea. Thank]
    row 2    [you.]

    after row 0   "I found a quarter in my pocket."
    after row 1   "The purpose of this test is to give you an idea."
    after row 2   "Thank you."

Phrases end with a sentence or at a short pause, within one row.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import Final

from whisperbatch.segmentation.timed_text import (
    AlignedWord,
    ScoredText,
    Scores,
    TimedText,
    join_words,
)
from whisperbatch.text.languages import UNSPACED
from whisperbatch.text.sentences import (
    CLAUSE_ENDS,
    FULL_STOP,
    Ending,
    begins_with_closing_mark,
    ending,
    ends_sentence,
    last_mark,
)
from whisperbatch.types import SpeechSpan, to_samples

MIN_SEGMENT: Final = to_samples(1.0)  # dividing leaves no shorter segment, if possible

Pause = Callable[[AlignedWord, AlignedWord], int]
"""`pause(before, after)` returns the samples of silence between two words. A mark at the end of a
clause counts as silence, too."""

MAX_PAUSE: Final = to_samples(2.0)  # a pause of this length between two words ends a segment
MAX_SENTENCE: Final = to_samples(30.0)  # longer sentences are divided, best at the end of a clause
# The first segment of a recording waits for no other row if the row has this much text.
MAX_FIRST: Final = to_samples(15.0)
COMMA_PAUSE: Final = to_samples(2.0)  # a comma counts as this much silence for dividing
MIN_SENTENCE_PAUSE: Final = to_samples(0.3)  # after an abbreviation that ends its sentence
FOLLOWING: Final = 4  # words that are enough to see how the text continues

MIN_PAUSE: Final = to_samples(0.4)  # silence between two words that ends a phrase
MAX_PHRASE: Final = to_samples(15.0)  # longer phrases are divided at a comma or the longest pause
PHRASE_COMMA: Final = to_samples(0.5)  # a comma counts as this much silence for dividing


def divide(words: Sequence[AlignedWord], limit: int, pause: Pause) -> list[list[AlignedWord]]:
    """Divide words into groups of at most `limit` samples, at the most natural boundaries.

    A single word may be longer than the limit.

    Args:
        words: at least one word.
        limit: longest group in samples.
        pause: the pause between two words.
    """
    if words[-1].end - words[0].start <= limit or len(words) == 1:
        return [list(words)]
    best = best_boundary(words, pause)
    return [*divide(words[:best], limit, pause), *divide(words[best:], limit, pause)]


def best_boundary(words: Sequence[AlignedWord], pause: Pause, first: int = 1) -> int:
    """Return the most natural boundary: it has a long pause, and is near the middle.

    Args:
        words: more than `first` words.
        pause: the pause between two words.
        first: index of the first possible boundary. Boundary n is before word n.
    """

    def score(boundary: int) -> float:
        before, after = words[boundary - 1], words[boundary]
        shorter = min(before.end - words[0].start, words[-1].end - after.start)
        middle = abs((before.end + after.start) - (words[0].start + words[-1].end)) / 20
        too_short = words[-1].end - words[0].start if shorter < MIN_SEGMENT else 0
        return pause(before, after) - middle - too_short

    return max(range(first, len(words)), key=score)


@dataclass(frozen=True, slots=True)
class Sentence:
    """The words of a segment.

    Attributes:
        language: Whisper's code.
        words: at least one, in order.
        scores: for each word the scores of its row.
    """

    language: str
    words: tuple[AlignedWord, ...]
    scores: tuple[Scores, ...]

    @property
    def text(self) -> str:
        """The text with the space at its start."""
        return "".join(word.text for word in self.words)

    @property
    def duration(self) -> int:
        """Samples from the start of the first word to the end of the last."""
        return self.words[-1].end - self.words[0].start

    @property
    def timed_text(self) -> TimedText:
        """The text and words with their start and end."""
        return join_words(self.words)

    @property
    def mean_scores(self) -> Scores:
        """The scores of the sentence, from the scores of its rows.

        The probabilities are means, weighted by the characters from each row. The compression
        ratio and the temperature are the highest.
        """
        weights: dict[Scores, int] = {}
        for word, scores in zip(self.words, self.scores, strict=True):
            weights[scores] = weights.get(scores, 0) + len(word.text.strip())
        if len(weights) == 1:
            return self.scores[0]
        total = sum(weights.values())
        return Scores(
            sum(scores.avg_logprob * weight for scores, weight in weights.items()) / total,
            sum(scores.no_speech_prob * weight for scores, weight in weights.items()) / total,
            max(scores.compression_ratio for scores in weights),
            max(scores.temperature for scores in weights),
        )

    def clause_pause(self, before: AlignedWord, after: AlignedWord) -> int:
        """Return the pause between two words; the end of a clause counts as COMMA_PAUSE.

        In languages without spaces between words, a space ends a clause.
        """
        space = self.language in UNSPACED and after.text[:1].isspace()
        clause = space or last_mark(before.text) in CLAUSE_ENDS
        return _pause(before, after) + (COMMA_PAUSE if clause else 0)

    def __getitem__(self, part: slice) -> "Sentence":
        return replace(self, words=self.words[part], scores=self.scores[part])


@dataclass(frozen=True, slots=True)
class Step:
    """The sentences that are complete after a row.

    Attributes:
        earlier: the words that were held back, if this row does not continue them.
        sentences: the sentences with words of this row; the first may begin in the row before.
        held: the beginning of a sentence at the end of this row, for the next row.
    """

    earlier: tuple[Sentence, ...] = ()
    sentences: tuple[Sentence, ...] = ()
    held: Sentence | None = None


def next_row(
    held: Sentence | None,
    row: Sentence,
    *,
    clip_starts: Sequence[int] = (),
    cut: bool = False,
    first: bool = False,
) -> Step:
    """Return the sentences that are complete after a row.

    Whisper ends the text of a row with a full stop, even if the row was cut within a sentence. At a
    cut, a finished sentence therefore waits, too: the next row may continue in lower case. No word
    waits for a second row.

    Args:
        held: the words that were held back from the row before.
        row: all words of the row.
        clip_starts: first samples of the ranges of `clip_timestamps`.
        cut: whether the speech goes on right after the row.
        first: whether the recording has no segments yet.
    """
    if held and not _continues(held, row, clip_starts):
        return replace(next_row(None, row, cut=cut), earlier=(held,))
    text = join(held, row) if held else row
    *complete, last = _sentences(text)
    parts = [part for sentence in complete for part in _divide(sentence)]
    is_first = first and not parts
    waited = len(held.words) - sum(len(part.words) for part in complete) if held else 0
    may_wait = cut and waited <= 0 and not is_first
    if ending(last.text, "", last.language) is Ending.SENTENCE and not may_wait:
        return Step(sentences=(*parts, *_divide(last)))
    *divided, rest = _divide(last)
    waited -= sum(len(part.words) for part in divided)
    parts += divided
    if waited > 0 or (is_first and not parts and rest.duration > MAX_FIRST and len(rest.words) > 1):
        boundary = best_boundary(rest.words, rest.clause_pause, max(waited, 1))
        parts, rest = [*parts, rest[:boundary]], rest[boundary:]
    return Step(sentences=tuple(parts), held=rest)


def join_texts(texts: Sequence[ScoredText]) -> Sentence | None:
    """Return all words of texts in one language as one sentence; None if there is no text."""
    sentences = [
        Sentence(text.language, text.words, (text.scores,) * len(text.words))
        for text in texts
        if any(word.text.strip() for word in text.words)
    ]
    return reduce(join, sentences) if sentences else None


def join(before: Sentence, after: Sentence) -> Sentence:
    """Return two texts as one, with a space between them if the language has spaces."""
    space = "" if after.language in UNSPACED else " "
    first, *words = after.words
    first = replace(first, text=space + first.text.lstrip())
    return replace(
        before, words=(*before.words, first, *words), scores=(*before.scores, *after.scores)
    )


def _continues(held: Sentence, row: Sentence, clip_starts: Sequence[int]) -> bool:
    """Return whether a row may continue the sentence of the row before."""
    before, after = held.words[-1], row.words[0]
    same_clip = bisect_right(clip_starts, before.start) == bisect_right(clip_starts, after.start)
    return held.language == row.language and same_clip and _pause(before, after) < MAX_PAUSE


def _sentences(text: Sentence) -> list[Sentence]:
    bounds = [0, *_boundaries(text), len(text.words)]
    return [text[start:end] for start, end in pairwise(bounds)]


def _boundaries(text: Sentence) -> Iterator[int]:
    """Yield the indices of the words, except the first word, that begin a segment."""
    sentence = ""
    for index, (before, after) in enumerate(pairwise(text.words), 1):
        sentence += before.text
        following = "".join(word.text for word in text.words[index : index + FOLLOWING])
        if _ends_between(sentence, following, text.language, _pause(before, after)):
            yield index
            sentence = ""


def _ends_between(before: str, after: str, language: str, pause: int) -> bool:
    """Return whether a segment ends between two texts with a pause between them."""
    if not before.strip() or not after.strip() or begins_with_closing_mark(after):
        return False
    if pause >= MAX_PAUSE:
        return True
    kind = ending(before, after, language)
    return kind is Ending.SENTENCE or (kind is Ending.IF_PAUSE and pause >= MIN_SENTENCE_PAUSE)


def _divide(sentence: Sentence) -> list[Sentence]:
    parts, position = [], 0
    for words in divide(sentence.words, MAX_SENTENCE, sentence.clause_pause):
        parts.append(sentence[position : position + len(words)])
        position += len(words)
    return parts


def _pause(before: AlignedWord, after: AlignedWord) -> int:
    return after.start - before.end


def divide_phrases(
    words: Sequence[AlignedWord], speech: Sequence[SpeechSpan], language: str
) -> list[TimedText]:
    """Divide words into phrases.

    A phrase ends with a sentence or at a pause in the speech of at least MIN_PAUSE. A phrase
    longer than MAX_PHRASE is divided.
    """
    groups: list[list[AlignedWord]] = []
    for index, word in enumerate(words):
        if (
            not index
            or _ends_phrase(groups[-1], word, language)
            or _silence(words[index - 1], word, speech) >= MIN_PAUSE
        ):
            groups.append([])
        groups[-1].append(word)

    def pause(before: AlignedWord, after: AlignedWord) -> int:
        comma = PHRASE_COMMA if last_mark(before.text) in CLAUSE_ENDS else 0
        return comma + max(_silence(before, after, speech), after.start - before.end)

    parts = [part for group in groups for part in divide(group, MAX_PHRASE, pause)]
    return [phrase for phrase in map(join_words, parts) if phrase.text]


def _silence(word: AlignedWord, following: AlignedWord, speech: Sequence[SpeechSpan]) -> int:
    """Return the samples between two words that lie in no speech span."""
    spans = speech[word.span : following.span + 1]
    return sum(after.start - before.end for before, after in pairwise(spans))


def _ends_phrase(words: Sequence[AlignedWord], following: AlignedWord, language: str) -> bool:
    """Return whether a sentence ends between two words; the marks but the full stop always do."""
    if last_mark(words[-1].text) != FULL_STOP:
        return ends_sentence(words[-1].text)
    text = "".join(word.text for word in words)
    kind = ending(text, following.text, language)
    pauses = _pause(words[-1], following) >= MIN_SENTENCE_PAUSE
    return kind is Ending.SENTENCE or (kind is Ending.IF_PAUSE and pauses)
