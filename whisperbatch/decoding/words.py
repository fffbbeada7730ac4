"""Words with times: tokens are grouped into words, joined with punctuation and moved into speech.

The steps of `place_words`:

    tokens --> words with times --> words with punctuation --> words inside speech spans
         alignment        merge_punctuation         move_into_speech
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, groupby
from typing import Final

from whisperbatch.decoding.prompts import WhisperTokenizer
from whisperbatch.protocols import Alignment
from whisperbatch.segmentation.timed_text import AlignedWord
from whisperbatch.text.sentences import ends_sentence
from whisperbatch.types import Chunk, SpeechSpan, to_samples

# openai/whisper's sets with more marks: PREPENDED join the next word, APPENDED the previous word.
PREPENDED: Final = frozenset("\"'“¿([{-")
APPENDED: Final = frozenset("\"'.。,，!！?？:：”)]}、" + "’»」』》…;；؟،؛।۔")

# The VAD reports the start of speech this much too late, and its end this much too early.
VAD_ERROR: Final = to_samples(0.02)
# The last word of a span is extended to the end of the speech by at most this.
MAX_EXTENSION: Final = to_samples(0.5)
# A slow word lasts SLOW_WORD (a breath, a drawl) and SLOW_LETTER for each letter.
SLOW_WORD: Final = to_samples(0.5)
SLOW_LETTER: Final = to_samples(0.12)


def place_words(
    tokens: Sequence[int],
    alignment: Alignment,
    chunk: Chunk,
    language: str,
    vocabulary: WhisperTokenizer,
    *,
    speech: Sequence[SpeechSpan] = (),
) -> list[AlignedWord]:
    """Return the words of a chunk in order, each within a speech span.

    Starts and ends never decrease from word to word.

    Args:
        tokens: text tokens of the chunk.
        alignment: times of these tokens.
        chunk: the chunk that the tokens were decoded from.
        language: language of the text.
        vocabulary: tokenizer of the model.
        speech: spans in which the words may lie; by default all speech spans of the chunk.
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
    return move_into_speech(merge_punctuation(words), speech or chunk.speech)


def merge_punctuation(words: Sequence[AlignedWord]) -> list[AlignedWord]:
    """Join each punctuation mark to its word, as openai/whisper does.

    The mark does not change the times of the word.
    """
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


def move_into_speech(
    words: Sequence[AlignedWord], speech: Sequence[SpeechSpan]
) -> list[AlignedWord]:
    """Move each word into the span that it overlaps most, keeping the order of the words.

    Cross-attention stretches the words beside a pause over the pause, or ends them before the
    pause starts. The VAD knows where the pause is. Therefore no word lies in the margins of a span,
    and the last word of a span is extended to the end of the span's speech if that end is near.
    """
    assigned: list[AlignedWord] = []
    current = 0
    for word, previous in zip(words, (None, *words), strict=False):
        compact = _unstretch(word, previous)
        candidates = range(current, len(speech))
        current = max(candidates, key=lambda index: (_overlap(compact, speech[index]), -index))
        assigned.append(replace(word, span=current))
    result: list[AlignedWord] = []
    for index, group in groupby(assigned, key=lambda word: word.span):
        result += _fit_into_span(list(group), speech[index])
        result[-1] = _extend_to_speech_end(result[-1], speech[index])
    return result


def _unstretch(word: AlignedWord, previous: AlignedWord | None) -> AlignedWord:
    """Shorten the first word of a sentence at its start, and the last word at its end.

    Only a word longer than its slow duration is shortened. openai/whisper does the same. A
    stretched word could land in another span than its sentence.
    """
    slow = slow_duration(word)
    start, end = word.aligned or (word.start, word.end)  # without pauses that were cut out
    if end - start <= slow:
        return word
    if previous is None or ends_sentence(previous.text):
        return replace(word, start=word.end - slow)
    if ends_sentence(word.text):
        return replace(word, end=word.start + slow)
    return word


def _without_margins(span: SpeechSpan) -> SpeechSpan:
    """Return the span without its margins, but with VAD_ERROR of each margin.

    Each side loses at most a quarter of the span.
    """
    quarter = span.length // 4
    return SpeechSpan(
        span.start + min(max(span.before - VAD_ERROR, 0), quarter),
        span.end - min(max(span.after - VAD_ERROR, 0), quarter),
    )


def _extend_to_speech_end(word: AlignedWord, span: SpeechSpan) -> AlignedWord:
    """Extend the last word of a span to the end of the speech, if at most MAX_EXTENSION is missing.

    The alignment ends the last word 0.2 s too early.
    """
    end = _without_margins(span).end
    return replace(word, end=end) if word.end < end <= word.end + MAX_EXTENSION else word


def slow_duration(word: AlignedWord) -> int:
    """Return the number of samples that a slow speaker needs for a word."""
    return SLOW_WORD + SLOW_LETTER * count_letters(word.text)


def count_letters(text: str) -> int:
    """Return how many characters of a text are letters or digits."""
    return sum(character.isalnum() for character in text)


def _fit_into_span(words: Sequence[AlignedWord], span: SpeechSpan) -> list[AlignedWord]:
    """Cut words to fit the speech of their span, without its margins.

    A word outside this speech has no time left. It shares the time of the next word that has time,
    or else of the previous word. If no word has time, all words share the whole span. The shares
    are proportional to the lengths of the texts.
    """
    span = _without_margins(span)
    clipped = []
    for word in words:
        start = min(max(word.start, span.start), span.end)
        clipped.append(replace(word, start=start, end=max(start, min(word.end, span.end))))
    if all(word.start == word.end for word in clipped):
        return _share_time(clipped, span.start, span.end)
    result: list[AlignedWord] = []
    waiting: list[AlignedWord] = []  # words without time, for the next word that has time
    for word in clipped:
        waiting.append(word)
        if word.start < word.end:
            result += _share_time(waiting, waiting[0].start, word.end)
            waiting = []
    if waiting:
        last = result.pop()
        result += _share_time([last, *waiting], last.start, last.end)
    return result


def _share_time(words: Sequence[AlignedWord], start: int, end: int) -> list[AlignedWord]:
    """Place words one after the other from `start` to `end`, in proportion to their texts."""
    if len(words) == 1:
        return [replace(words[0], start=start, end=end)]
    weights = [len(word.text.strip()) + 1 for word in words]
    ends = [start + (end - start) * weight // sum(weights) for weight in accumulate(weights)]
    starts = [start, *ends[:-1]]
    return [
        replace(word, start=first, end=last)
        for word, first, last in zip(words, starts, ends, strict=True)
    ]


def _overlap(word: AlignedWord, span: SpeechSpan) -> int:
    """Return the samples that a word and a span share; negative: the distance between them."""
    return min(word.end, span.end) - max(word.start, span.start)
