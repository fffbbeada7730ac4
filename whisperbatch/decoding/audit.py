"""Decoded rows and their audit: does a text have all words spoken in its chunk, and no others?

None of Whisper's thresholds detects missing words. A row that stops early or skips its middle is as
probable as a complete row, and compresses equally well. But the VAD knows where there is speech,
and the alignment knows where there are words:

    speech  [============]  [=======]   [==================]
    words    one two three   four
                                        |---- uncovered ---|

In 427 chunks of prompts and read speech in five languages (model base), the longest uncovered
speech was 3 to 16 s if words were lost, and at most 1.25 s otherwise.
"""

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from whisperbatch.decoding.repeats import Repeat, Verdict, find_repeats, judge, times_of
from whisperbatch.decoding.words import count_letters, slow_duration
from whisperbatch.options import MAX_NEW_TOKENS, Options, Task
from whisperbatch.protocols import Hypothesis
from whisperbatch.recording import Row
from whisperbatch.segmentation.timed_text import AlignedWord, TimedText
from whisperbatch.text.languages import UNSPACED, foreign_letters
from whisperbatch.text.loops import ends_with_loop
from whisperbatch.threads import cached_property
from whisperbatch.types import Chunk, SpeechSpan, speech_seconds, to_samples, to_seconds

# Impossible rates of speech: of a few words, whose times jitter (65 letters per second in a right
# row of tiny.en), and of a whole row. Characters are syllables: in languages without spaces.
MAX_LETTERS_PER_SECOND: Final = 75.0
MAX_CHARACTERS_PER_SECOND: Final = 25.0
MAX_SUSTAINED_LETTERS: Final = 25.0
MAX_SUSTAINED_CHARACTERS: Final = 12.5
# A run of words is too fast only with this many letters, because the times of words jitter.
MIN_LETTERS: Final = 12
MIN_CHARACTERS: Final = 6  # in languages without spaces

MAX_NOISE: Final = 0.6  # seconds, with margins: longest noise that the VAD takes for speech
MAX_SILENT_SPEECH: Final = 3.0  # seconds: with more speech, Whisper's silence rule does not apply
TOKENS_PER_SECOND: Final = 40.0  # eight syllables a second in a script with five tokens for each
SPARE_TOKENS: Final = 12  # for punctuation, and for speech that the VAD missed
LETTERS_PER_SECOND: Final = 15.0  # of ordinary speech


@dataclass(frozen=True, slots=True)
class UncoveredSpeech:
    """Speech that no word covers.

    Attributes:
        start: first recording sample.
        end: recording sample after the last.
        speech: number of samples of speech between them, without pauses.
    """

    start: int
    end: int
    speech: int


@dataclass(frozen=True, slots=True)
class Audit:
    """The faults of a decoded row.

    Attributes:
        uncovered: uncovered speech, each longer than the threshold.
        repetitive: whether the text repeats itself more than the threshold allows.
        improbable: whether the average log-probability is below the threshold, and silence does
            not explain the low value.
        too_fast: number of letters that cannot be spoken in the time of their words.
        foreign: number of letters of scripts that the language is not written in.
        cut_off: whether decoding stopped at the token limit.
        cost: approximate seconds of the recording that are wrong; 0 if nothing is wrong. At most
            one second more than the row has speech: the length of a loop says nothing about the
            speech that the row has lost.
    """

    uncovered: tuple[UncoveredSpeech, ...]
    repetitive: bool
    improbable: bool
    too_fast: int
    foreign: int
    cut_off: bool
    cost: float

    @property
    def passed(self) -> bool:
        """Whether the row has no fault."""
        return not (
            self.uncovered
            or self.repetitive
            or self.improbable
            or self.too_fast
            or self.foreign
            or self.cut_off
        )


@dataclass(frozen=True, eq=False)  # no slots: cached properties need a __dict__
class DecodedRow:
    """A row with its text and aligned words.

    Attributes:
        row: the row that was decoded.
        language: language in which the row was decoded.
        hypothesis: result of the engine, with the prefix.
        text: text of the hypothesis.
        timed_texts: the aligned words: with timestamp tokens, a timed text for each pair of
            timestamps, otherwise a single timed text.
        options: of the run; their thresholds decide what is a fault.
        temperature: temperature at which the row was decoded.
        task: task for which the row was decoded.
    """

    row: Row
    language: str
    hypothesis: Hypothesis
    text: str
    timed_texts: tuple[TimedText, ...] = field(repr=False)
    options: Options = field(repr=False)
    temperature: float = 0.0
    task: Task = "transcribe"

    @property
    def text_language(self) -> str:
        """Language of the text: English for a translation."""
        return "en" if self.task == "translate" else self.language

    @property
    def chunk(self) -> Chunk:
        """The chunk of the row."""
        return self.row.chunk

    @cached_property
    def words(self) -> tuple[AlignedWord, ...]:
        """All words, in order."""
        return tuple(word for text in self.timed_texts for word in text.words)

    @cached_property
    def compression_ratio(self) -> float:
        """Compression ratio of the text."""
        return compression_ratio(self.text)

    @cached_property
    def repeats(self) -> tuple[Repeat, ...]:
        """Places where the same words occur at least three times in a row."""
        return tuple(find_repeats(normalize_words(self.words)))

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What speaks for each of the repeats. The words of a translation do not follow speech."""
        if self.task == "translate":
            return tuple(Verdict() for _ in self.repeats)
        return judge(self.words, self.chunk, self.language, self.repeats)

    @cached_property
    def audit(self) -> Audit:
        """The check of the row against its speech and the thresholds of the options."""
        return _audit(self)

    @cached_property
    def too_fast_words(self) -> Sequence[int]:
        """The indices of words that cannot be spoken in their time.

        In a row of less than MAX_NOISE seconds, all words together can be too fast.
        """
        letters = sum(count_letters(word.text) for word in self.words)
        duration = to_seconds(self.chunk.length)
        if duration < MAX_NOISE and letters > _sustained_rate(self.text_language) * duration:
            return range(len(self.words))
        return too_fast_runs(self.words, self.text_language)

    @cached_property
    def uncovered_speech(self) -> tuple[UncoveredSpeech, ...]:
        """Uncovered speech longer than the threshold.

        If the row has no words at all, its speech is uncovered however short it is. A translation
        is not checked, because its words do not follow the speech.
        """
        limit = self.options.coverage_threshold
        if limit is None or not self.options.vad or self.task == "translate":
            return ()
        threshold = to_samples(limit) if self.words else 0
        gaps = all_uncovered_speech(self.words, self.chunk.speech)
        return tuple(gap for gap in gaps if gap.speech > threshold)

    @property
    def has_low_probability(self) -> bool:
        """Whether there is a threshold and the average log-probability is below it."""
        threshold = self.options.log_prob_threshold
        return threshold is not None and self.hypothesis.avg_logprob < threshold

    @property
    def is_silent(self) -> bool:
        """Whisper's silence rule: a high no-speech probability and improbable text.

        In the audit, silence excuses improbable text and nothing else. (In openai/whisper and
        faster-whisper, silence also ends the retries of text that repeats itself.) Silence is an
        excuse only if the VAD found little speech as well. Otherwise the chunk is split before any
        text is removed.
        """
        return exceeds(self.hypothesis.no_speech_prob, self.options.no_speech_threshold) and (
            self.options.log_prob_threshold is None or self.has_low_probability
        )

    @property
    def doubt_beyond_thresholds(self) -> float:
        """How far Whisper's two measures together are beyond their thresholds.

        The doubt is the no-speech probability minus the average log-probability. Either value alone
        is a weak sign, because one value may be far beyond its threshold and the other just below.
        The value is the doubt minus the doubt at both thresholds; minus infinity if a threshold is
        off.
        """
        no_speech, log_prob = self.options.no_speech_threshold, self.options.log_prob_threshold
        if no_speech is None or log_prob is None:
            return -math.inf
        return self.hypothesis.no_speech_prob - self.hypothesis.avg_logprob - (no_speech - log_prob)


def compression_ratio(text: str) -> float:
    """Return UTF-8 bytes over zlib bytes: high for text that repeats itself (openai/whisper)."""
    encoded = text.encode()
    return len(encoded) / len(zlib.compress(encoded))


def normalize_words(words: Sequence[AlignedWord]) -> list[str]:
    """Return the words in lower case with only letters and digits, for comparisons."""
    return [_normalize(word.text) for word in words]


def normalize_text(text: str) -> list[str]:
    """Return the words of a text in lower case with only letters and digits."""
    return [_normalize(word) for word in text.split()]


def _normalize(word: str) -> str:
    return "".join(character for character in word.casefold() if character.isalnum())


def _audit(decoded: DecodedRow) -> Audit:
    speech_limit = max_tokens_for(decoded.chunk)
    user_limit = decoded.options.max_new_tokens
    limited_by_user = user_limit is not None and user_limit <= speech_limit
    full = len(decoded.hypothesis.tokens) >= min(user_limit or MAX_NEW_TOKENS, speech_limit)
    uncovered = () if (limited_by_user and full) else decoded.uncovered_speech
    cut_off = full and not limited_by_user
    repetitive = _is_repetitive(decoded)
    improbable = _is_improbable(decoded)
    too_fast = sum(count_letters(decoded.words[n].text) for n in decoded.too_fast_words)
    foreign_count = _count_foreign_letters(decoded)
    cost = sum(to_seconds(gap.speech) for gap in uncovered) + too_fast / LETTERS_PER_SECOND
    if foreign_count:
        cost += 1.0 + foreign_count / LETTERS_PER_SECOND
    if repetitive:
        repeated_words = sum(repeat.repeated_words for repeat in decoded.repeats)
        cost += 1.0 + repeated_words / LETTERS_PER_SECOND * 5
    if improbable:
        cost += 0.5 * speech_seconds(decoded.chunk.speech)
    most = speech_seconds(decoded.chunk.speech) + 1.0
    if repetitive and ends_with_loop(decoded.hypothesis.tokens):
        cost = most  # an engine may have cut off the loop
    return Audit(
        uncovered=uncovered,
        repetitive=repetitive,
        improbable=improbable,
        too_fast=too_fast,
        foreign=foreign_count,
        cut_off=cut_off,
        cost=min(cost + (1.0 if cut_off else 0.0), most),
    )


def max_tokens_for(chunk: Chunk) -> int:
    """Return the maximum number of tokens for the speech of a chunk, at any rate, in any script.

    The result is a quarter, half or all of Whisper's limit. A row with more tokens has failed.
    """
    limits = (MAX_NEW_TOKENS // 4, MAX_NEW_TOKENS // 2)
    needed = speech_seconds(chunk.speech) * TOKENS_PER_SECOND + SPARE_TOKENS
    return next((limit for limit in limits if needed <= limit), MAX_NEW_TOKENS)


def _is_improbable(decoded: DecodedRow) -> bool:
    """Return whether the text is improbable, and silence does not explain its low probability."""
    excused = decoded.is_silent and speech_seconds(decoded.chunk.speech) < MAX_SILENT_SPEECH
    return bool(decoded.text) and decoded.has_low_probability and not excused


def _count_foreign_letters(decoded: DecodedRow) -> int:
    """Return the number of letters of other scripts; 0 unless rows have their own languages."""
    if not decoded.options.multilingual:
        return 0
    latin = decoded.options.latin_names
    return len(foreign_letters(decoded.text, decoded.text_language, latin=latin))


def exceeds(value: float, threshold: float | None) -> bool:
    """Return whether there is a threshold and `value` is above the threshold."""
    return threshold is not None and value > threshold


def _is_repetitive(decoded: DecodedRow) -> bool:
    """Return whether the compression ratio of the text, or of a repeat in the text, is too high.

    openai/whisper computes the ratio of a whole window. A short loop in a long text has little
    effect on this ratio, so the ratio of each repeat is computed, too. Repetitions that are all
    spoken do not count, unless the engine may have cut off a loop.
    """
    threshold = decoded.options.compression_ratio_threshold
    if not any(exceeds(ratio, threshold) for ratio in _ratios(decoded, decoded.repeats, ())):
        return False
    if not decoded.options.vad or ends_with_loop(decoded.hypothesis.tokens):
        return True
    pairs = list(zip(decoded.repeats, decoded.verdicts, strict=True))
    spoken = [
        repeat for repeat, verdict in pairs if verdict.spoken >= set(range(len(times_of(repeat))))
    ]
    others = [repeat for repeat in decoded.repeats if repeat not in spoken]
    return any(exceeds(ratio, threshold) for ratio in _ratios(decoded, others, spoken))


def _ratios(
    decoded: DecodedRow, repeats: Sequence[Repeat], spoken: Sequence[Repeat]
) -> Iterator[float]:
    """Yield the compression ratio of a row and of each repeat.

    Of spoken repeats, the text of the row has only the first time.
    """
    if spoken:
        left_out = {n for one in spoken for n in range(one.start + one.period, one.end)}
        words = [word.text for n, word in enumerate(decoded.words) if n not in left_out]
        yield compression_ratio("".join(words))
    else:
        yield decoded.compression_ratio
    for repeat in repeats:
        words = [word.text for word in decoded.words[repeat.start : repeat.end]]
        yield compression_ratio("".join(words))


def all_uncovered_speech(
    words: Sequence[AlignedWord], speech: Sequence[SpeechSpan]
) -> list[UncoveredSpeech]:
    """Return all speech that no word covers, however short.

    A word covers at most its slow duration, even if the alignment stretches the word. The margins
    of the spans are not speech. Uncovered speech continues across a pause.
    """
    gaps: list[UncoveredSpeech] = []
    continues = False  # no word since the last gap
    for span in speech:
        position, end = span.start + span.before, span.end - span.after
        for word in words:
            if word.end <= span.start or word.start >= span.end:
                continue
            if word.start > position:
                _add_gap(gaps, position, min(word.start, end), continues=continues)
            continues = False
            position = max(position, covered_until(word))
        if position < end:
            _add_gap(gaps, position, end, continues=continues)
            continues = True
    return [gap for gap in gaps if gap.speech > 0]


def _add_gap(gaps: list[UncoveredSpeech], start: int, end: int, *, continues: bool) -> None:
    if continues and gaps:
        previous = gaps.pop()
        gaps.append(UncoveredSpeech(previous.start, end, previous.speech + end - start))
    else:
        gaps.append(UncoveredSpeech(start, end, end - start))


def covered_until(word: AlignedWord) -> int:
    """Return the recording sample up to which a word covers speech."""
    return min(word.end, word.start + slow_duration(word))


def too_fast_runs(words: Sequence[AlignedWord], language: str) -> list[int]:
    """Return the indices of words in runs that are too fast; each run lies in one speech span.

    Words that are not spoken find no place in the alignment and share the time that is left of a
    span. In 664 chunks, including noisy ones, only loops were faster than the maximum rates.
    """
    max_rate, min_letters = (
        (MAX_CHARACTERS_PER_SECOND, MIN_CHARACTERS)
        if language in UNSPACED
        else (MAX_LETTERS_PER_SECOND, MIN_LETTERS)
    )
    fast: set[int] = set()
    for first, word in enumerate(words):
        letters = 0
        for last in range(first, len(words)):
            if words[last].span != word.span:
                break
            letters += count_letters(words[last].text)
            if letters >= min_letters:
                if _letters_per_second(letters, word, words[last]) >= max_rate:
                    fast.update(range(first, last + 1))
                break
    return [
        index
        for index in sorted(fast)
        if _letters_per_second(count_letters(words[index].text), words[index], words[index])
        >= _sustained_rate(language)
    ]


def _sustained_rate(language: str) -> float:
    return MAX_SUSTAINED_CHARACTERS if language in UNSPACED else MAX_SUSTAINED_LETTERS


def _letters_per_second(letters: int, first: AlignedWord, last: AlignedWord) -> float:
    """Return the rate by the alignment, because moving words into speech can compress them."""
    start = first.aligned[0] if first.aligned else first.start
    end = last.aligned[1] if last.aligned else last.end
    return letters / max(to_seconds(end - start), 0.001)
