"""The strict rules by which the text of a stretch proves that the stretch contains speech."""

from typing import Final

from whisperbatch.decoding.audit import DecodedRow, max_tokens_for, normalize_words
from whisperbatch.decoding.hallucinations import BOILERPLATE
from whisperbatch.decoding.words import count_letters
from whisperbatch.text.languages import UNSPACED
from whisperbatch.text.punctuation import ends_sentence
from whisperbatch.types import to_seconds

MIN_WORDS: Final = 3  # music and noise often give one or two words, at up to -0.43 (base)
CHARACTERS_PER_WORD: Final = 2  # in languages without spaces
MAX_COMPRESSION_RATIO: Final = 2.4  # Whisper's own threshold: text that repeats itself
MIN_WORDS_PER_SECOND: Final = 0.6  # from the first to the last word; very slow speech has 1
MAX_LETTERS_PER_SECOND: Final = 30.0  # fast speech has 20


def proves_speech(decoded: DecodedRow, min_logprob: float) -> bool:
    """Return whether the text of a decoded stretch can only come from speech.

    Args:
        decoded: the stretch, decoded greedily once.
        min_logprob: minimum of the average log-probability.
    """
    return (
        decoded.hypothesis.avg_logprob >= min_logprob
        and _count_words(decoded) >= MIN_WORDS
        and len(decoded.hypothesis.tokens) < max_tokens_for(decoded.chunk)
        and decoded.compression_ratio <= MAX_COMPRESSION_RATIO
        and not decoded.repeats
        and not _is_boilerplate(decoded)
        and not decoded.too_fast_words
        and _count_words(decoded) >= MIN_WORDS_PER_SECOND * _seconds(decoded)
        and _count_letters(decoded) <= MAX_LETTERS_PER_SECOND * _seconds(decoded)
    )


def _is_boilerplate(decoded: DecodedRow) -> bool:
    """Return whether every sentence of the text is a stock phrase."""
    sentences = [""]
    for word, text in zip(normalize_words(decoded.words), decoded.words, strict=True):
        sentences[-1] += word
        if ends_sentence(text.text):
            sentences.append("")
    return all(sentence in BOILERPLATE for sentence in sentences if sentence)


def _count_words(decoded: DecodedRow) -> int:
    if decoded.text_language in UNSPACED:
        return _count_letters(decoded) // CHARACTERS_PER_WORD
    return sum(count_letters(word.text) > 0 for word in decoded.words)


def _count_letters(decoded: DecodedRow) -> int:
    return sum(count_letters(word.text) for word in decoded.words)


def _seconds(decoded: DecodedRow) -> float:
    """Return the seconds from the first to the last word."""
    return to_seconds(decoded.words[-1].end - decoded.words[0].start)
