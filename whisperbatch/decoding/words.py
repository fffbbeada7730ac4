"""Words with times: tokens and their alignment, grouped, punctuated and put where speech is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from typing import Final

from whisperbatch.decoding.tokenizer import WhisperTokenizer
from whisperbatch.protocols import Alignment
from whisperbatch.text.punctuation import ends_sentence
from whisperbatch.types import Chunk, SpeechSpan, to_samples

# openai/whisper's sets, and more: marks that belong to the word after, and to the word before
PREPENDED: Final = frozenset("\"'“¿([{-")
APPENDED: Final = frozenset("\"'.。,，!！?？:：”)]}、" + "’»」』》…;；؟،؛।۔")

FRAME: Final = to_samples(0.02)  # the detector finds speech that much late, and too early its end
EARLY: Final = to_samples(0.5)  # more speech than that after the last word is not the word's
WORD: Final = to_samples(0.5)  # of a slow word: a breath, a drawl, and for each letter as below
LETTER: Final = to_samples(0.12)


@dataclass(frozen=True, slots=True)
class AlignedWord:
    """A word in the recording.

    Attributes:
        text: with the space before it, if any.
        start: in recording samples.
        end: likewise, not before `start`.
        probability: mean of its tokens'.
        span: number of the chunk's speech span that it lies in.
        aligned: its start and end in the chunk's samples, by the alignment alone.
    """

    text: str
    start: int
    end: int
    probability: float
    span: int
    aligned: tuple[int, int] | None = None


def place_words(
    tokens: Sequence[int],
    alignment: Alignment,
    chunk: Chunk,
    language: str,
    vocabulary: WhisperTokenizer,
    *,
    speech: Sequence[SpeechSpan] = (),
) -> list[AlignedWord]:
    """The words of a chunk, in order, each within a speech span, starts and ends not decreasing.

    `speech` stands for the spans that they may lie in; by default all of the chunk's.
    """
    words = []
    position = 0
    for group in vocabulary.words(tokens, language):
        first, last = position, position + len(group) - 1
        position = last + 1
        aligned = to_samples(alignment.starts[first]), to_samples(alignment.ends[last])
        start, end = map(chunk.recording_time, aligned)
        probability = float(alignment.probabilities[first : last + 1].mean())
        text = vocabulary.text(group)
        words.append(AlignedWord(text, start, max(start, end), probability, 0, aligned))
    return into_speech(merge_punctuation(words), speech or chunk.speech)


def merge_punctuation(words: Sequence[AlignedWord]) -> list[AlignedWord]:
    """Punctuation joined to its word, as openai/whisper does; it does not stretch the word."""
    result: list[AlignedWord] = []
    for word in words:
        mark = word.text.strip()
        if result and mark and all(c in APPENDED for c in mark) and not word.text.startswith(" "):
            result[-1] = replace(result[-1], text=result[-1].text + word.text)
        elif result and (before := result[-1].text.strip()) and all(c in PREPENDED for c in before):
            result[-1] = replace(word, text=result[-1].text + word.text.lstrip())
        else:
            result.append(word)
    return result


def into_speech(words: Sequence[AlignedWord], speech: Sequence[SpeechSpan]) -> list[AlignedWord]:
    """Each word moved into the span it overlaps most, in order.

    Cross-attention stretches the words beside a pause over the pause, or ends them before it. The
    voice activity detector knows where the pause is: no word lies in a span's margins, and the
    last word of a span lasts until its speech ends, if that is soon.
    """
    numbered: list[AlignedWord] = []
    current = 0
    for word, before in zip(words, (None, *words), strict=False):
        heard = _unstretched(word, before)
        choices = range(current, len(speech))
        current = max(choices, key=lambda number: (_overlap(heard, speech[number]), -number))
        numbered.append(replace(word, span=current))
    result: list[AlignedWord] = []
    for number, group in groupby(numbered, key=lambda word: word.span):
        result += _within(list(group), speech[number])
        result[-1] = _lasting(result[-1], speech[number])
    return result


def _unstretched(word: AlignedWord, before: AlignedWord | None) -> AlignedWord:
    """The first word of a sentence without what was stretched before it, the last without after.

    So does openai/whisper. Otherwise a word may land in another span than its sentence.
    """
    slowly = said_slowly(word)
    start, end = word.aligned or (word.start, word.end)  # without pauses that were cut out
    if end - start <= slowly:
        return word
    if before is None or ends_sentence(before.text):
        return replace(word, start=word.end - slowly)
    if ends_sentence(word.text):
        return replace(word, end=word.start + slowly)
    return word


def _core(span: SpeechSpan) -> SpeechSpan:
    """A span without its margins, but for what the detector's frames may have cut off."""
    spare = span.length // 4
    return SpeechSpan(
        span.start + min(max(span.before - FRAME, 0), spare),
        span.end - min(max(span.after - FRAME, 0), spare),
    )


def _lasting(word: AlignedWord, span: SpeechSpan) -> AlignedWord:
    """The last word of a span, until its speech ends: the alignment ends it 0.2 s too early."""
    end = _core(span).end
    return replace(word, end=end) if word.end < end <= word.end + EARLY else word


def said_slowly(word: AlignedWord) -> int:
    """Samples that it takes to say a word slowly."""
    return WORD + LETTER * letters(word.text)


def letters(text: str) -> int:
    """How many characters of a text are spoken."""
    return sum(character.isalnum() for character in text)


def _within(words: Sequence[AlignedWord], span: SpeechSpan) -> list[AlignedWord]:
    """Words cut to fit the span that they belong to.

    Its margins are not speech. Words that lie outside it have nothing left: they share the time of
    the next word that has, or of the one before, or the whole span, by the length of their text.
    """
    span = _core(span)
    cut = []
    for word in words:
        start = min(max(word.start, span.start), span.end)
        cut.append(replace(word, start=start, end=max(start, min(word.end, span.end))))
    if all(word.start == word.end for word in cut):
        return _share(cut, span.start, span.end)
    result: list[AlignedWord] = []
    waiting: list[AlignedWord] = []
    for word in cut:
        waiting.append(word)
        if word.start < word.end:
            result += _share(waiting, waiting[0].start, word.end)
            waiting = []
    if waiting:
        last = result.pop()
        result += _share([last, *waiting], last.start, last.end)
    return result


def _share(words: Sequence[AlignedWord], start: int, end: int) -> list[AlignedWord]:
    """Words one after the other from `start` to `end`, each as long as its text is."""
    if len(words) == 1:
        return [replace(words[0], start=start, end=end)]
    weights = [len(word.text.strip()) + 1 for word in words]
    joints = [start + (end - start) * part // sum(weights) for part in accumulate(weights)]
    starts = [start, *joints[:-1]]
    return [
        replace(word, start=first, end=last)
        for word, first, last in zip(words, starts, joints, strict=True)
    ]


def _overlap(word: AlignedWord, span: SpeechSpan) -> int:
    """Samples in common; negative, the distance."""
    return min(word.end, span.end) - max(word.start, span.start)
