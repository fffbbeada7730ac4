"""Does a rejected region contain speech? A cheap filter before the decoder, and rules for its text.

Steady sound such as hum is removed from a region, and the region is divided into pieces, which
pass two tests:

1. Sound of clear pitches without pauses is music. This test takes a tenth of the time of the other.
2. The VAD runs again, with a fresh state. In the recording, the state of its network carries what
   the network has taken for silence. The mean probability of a piece separates better than the
   thresholds of speech: it compares with a value far below them.

Of 167 pieces of music (12 minutes that the VAD rejects), 11 % of the time passes; of 70 pieces of
speech that the VAD rejects (whispered, slowed, distant, band-limited, under noise), all pass but
one.

The decoder then writes the text of what passes. Strict rules decide whether the text proves that
the region contains speech.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from whisperbatch.decoding.audit import DecodedRow, max_tokens_for, normalize_words
from whisperbatch.decoding.hallucinations import BOILERPLATE
from whisperbatch.decoding.words import count_letters
from whisperbatch.protocols import Vad
from whisperbatch.text.languages import UNSPACED
from whisperbatch.text.sentences import ends_sentence
from whisperbatch.types import SAMPLING_RATE, Samples, to_samples, to_seconds
from whisperbatch.vad.steady_sound import without_steady_sound

MAX_PIECE: Final = to_samples(6.0)  # samples
QUIET_FRAME: Final = to_samples(0.05)  # samples over which the quietest place is measured
SETTLING: Final = to_samples(0.5)  # samples until a fresh state of the VAD has settled
# Mean probability after the settling time. Rejected speech: 0.019 at least, 0.26 in half of the
# pieces. Music: 0.014 in half of the pieces, 0.039 in a tenth. Breathing, keyboard: 0.007 at most.
MIN_PROBABILITY: Final = 0.02

SPECTRUM_FRAME: Final = 512  # samples (32 ms)
SPECTRUM_HOP: Final = to_samples(0.04)  # samples; all frames would not separate better
BAND: Final = (200, 3400)  # Hz; telephones transmit it, too
# Spectral flatness (geometric by arithmetic mean of the power): 0 for pure tones, 0.56 for noise.
# Median of the louder frames: 0.015 at least for rejected speech, 0.013 for 90 % of the music.
MIN_FLATNESS: Final = 0.013
PAUSE_DEPTH: Final = 15.0  # decibels below the loud frames (95th percentile): a short pause
# Fraction of frames in short pauses: 0.26 at least in rejected speech, below in 90 % of the music.
MIN_PAUSES: Final = 0.25

MIN_WORDS: Final = 3  # music and noise often give one or two words, at up to -0.43 (base)
CHARACTERS_PER_WORD: Final = 2  # in languages without spaces
MAX_COMPRESSION_RATIO: Final = 2.4  # Whisper's own threshold: text that repeats itself
MIN_WORDS_PER_SECOND: Final = 0.6  # from the first to the last word; very slow speech has 1
MAX_LETTERS_PER_SECOND: Final = 30.0  # fast speech has 20


@dataclass(frozen=True, slots=True)
class PossibleSpeech:
    """A range of samples that may contain speech.

    Attributes:
        start: first sample.
        end: the sample after the last.
        probability: mean probability of speech, with a fresh state of the VAD.
    """

    start: int
    end: int
    probability: float


def find_possible_speech(vad: Vad, samples: Samples, min_length: int) -> Iterator[PossibleSpeech]:
    """Yield the parts of a region that may contain speech.

    Args:
        vad: runs again on each piece of the region.
        samples: the region, shape (n_samples,). Positions of the parts count from its start.
        min_length: samples of the shortest part.
    """
    samples = without_steady_sound(samples)
    start, length, weighted = 0, 0, 0.0
    for piece in (*pieces(samples), None):
        probability = _probability(vad, samples[piece]) if piece else 0.0
        if piece and probability >= MIN_PROBABILITY:
            start = start if length else piece.start
            length += piece.stop - piece.start
            weighted += probability * (piece.stop - piece.start)
        elif length:
            if length >= min_length:
                yield PossibleSpeech(start, start + length, weighted / length)
            length, weighted = 0, 0.0


def pieces(samples: Samples) -> Iterator[slice]:
    """Divide samples into pieces of at most `MAX_PIECE`, cut at quiet places."""
    start = 0
    while (remaining := len(samples) - start) > MAX_PIECE:
        limit = MAX_PIECE if remaining >= 2 * MAX_PIECE else remaining - MAX_PIECE // 2
        limit = min(limit, MAX_PIECE)  # two pieces of similar length, rather than a short rest
        first = start + limit // 2
        window = samples[first : start + limit]
        frames = window[: len(window) // QUIET_FRAME * QUIET_FRAME].reshape(-1, QUIET_FRAME)
        quietest = int(np.argmin(np.einsum("ij,ij->i", frames, frames)))
        end = first + quietest * QUIET_FRAME + QUIET_FRAME // 2
        yield slice(start, end)
        start = end
    if remaining:
        yield slice(start, len(samples))


def is_music(samples: Samples) -> bool:
    """Return whether samples are sound of clear pitches without pauses."""
    if len(samples) < SPECTRUM_FRAME:
        return False
    frames = np.lib.stride_tricks.sliding_window_view(samples, SPECTRUM_FRAME)[::SPECTRUM_HOP]
    first, last = (hertz * SPECTRUM_FRAME // SAMPLING_RATE for hertz in BAND)
    spectrum = np.abs(np.fft.rfft(frames * np.hanning(SPECTRUM_FRAME))[:, first:last])
    powers = np.square(spectrum) + 1e-14
    energies = powers.sum(axis=1)
    loud = powers[energies >= np.median(energies) / 3]
    flatness = np.exp(np.log(loud).mean(axis=1)) / loud.mean(axis=1)
    quiet = energies < np.percentile(energies, 95) / 10 ** (PAUSE_DEPTH / 10)
    return bool(np.median(flatness) < MIN_FLATNESS and np.mean(quiet) < MIN_PAUSES)


def _probability(vad: Vad, samples: Samples) -> float:
    """Return the mean probability of speech, with a fresh state; 0 for music."""
    if is_music(samples):
        return 0.0
    probabilities = np.concatenate([frames.probabilities for frames in vad([samples])])
    settled = probabilities[SETTLING // vad.hop :]
    return float((settled if len(settled) else probabilities).mean())


def proves_speech(decoded: DecodedRow, min_logprob: float) -> bool:
    """Return whether the text of a decoded region can only come from speech.

    Args:
        decoded: the region, decoded greedily once.
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
    return to_seconds(decoded.words[-1].end - decoded.words[0].start)
