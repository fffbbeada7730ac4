"""Is a chunk's text all that is said in it, and no more?

No threshold of Whisper's sees words that are missing: a row that stops early, or leaves out what
is in its middle, is as probable and compresses as well as any. The voice activity detector knows
where there is speech, and the alignment where there are words:

    speech  [============]  [=======]   [==================]
    words    one two three   four
                                        |----- uncovered ---|

Over 427 chunks of prompts and read speech in five languages (base), the longest uncovered stretch
was 3 to 16 s where words were lost and at most 1.25 s where they were not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from whisperbatch.decoding.decoded_row import DecodedRow, normalized
from whisperbatch.decoding.loops import repeats
from whisperbatch.decoding.words import AlignedWord, letters, said_slowly
from whisperbatch.options import MOST_TOKENS, Options
from whisperbatch.text.languages import UNSPACED
from whisperbatch.text.scripts import foreign
from whisperbatch.types import Chunk, SpeechSpan, spoken, to_samples, to_seconds

FASTEST: Final = 50.0  # letters a second that nobody says: for long, nobody says half of it
BRIEF: Final = 0.6  # seconds, margins counted, that a noise may last which was taken for speech
LEAST: Final = 12  # letters in a row that must be as fast; alignments jitter
FASTEST_UNSPACED: Final = 25.0  # characters that are syllables
LEAST_UNSPACED: Final = 6
FORGIVEN: Final = 3.0  # seconds of speech above which silence excuses nothing
TOKENS: Final = 40.0  # a second of speech: eight syllables of a script with five tokens to each
SPARE: Final = 12  # more tokens, for punctuation and for speech that the detector missed
SAID: Final = 15.0  # letters a second, of ordinary speech


@dataclass(frozen=True, slots=True)
class Hole:
    """Speech without words.

    Attributes:
        start: in recording samples.
        end: likewise.
        speech: samples of speech in it; pauses do not count.
    """

    start: int
    end: int
    speech: int


@dataclass(frozen=True, slots=True)
class Audit:
    """What is wrong with a part.

    Attributes:
        holes: speech without words, each longer than the threshold.
        repeats: whether its text repeats itself beyond the threshold.
        improbable: whether its average log-probability is below the threshold, and silence does
            not account for it.
        hurried: letters that there is no time to say.
        foreign: letters of scripts that the language is not written in.
        cut_off: whether decoding stopped at the limit of tokens.
        cost: seconds of the recording that are wrong, about; 0 where nothing is.
    """

    holes: tuple[Hole, ...]
    repeats: bool
    improbable: bool
    hurried: int
    foreign: int
    cut_off: bool
    cost: float

    @property
    def passed(self) -> bool:
        """Nothing is wrong."""
        wrong = self.holes or self.repeats or self.improbable or self.hurried or self.foreign
        return not (wrong or self.cut_off)


def audit(part: DecodedRow, options: Options) -> Audit:
    """Hold a part against its speech and the thresholds."""
    hypothesis = part.hypothesis
    most = most_tokens(part.chunk)
    limited = options.max_new_tokens is not None and options.max_new_tokens <= most
    full = len(hypothesis.tokens) >= min(options.max_new_tokens or MOST_TOKENS, most)
    holes = () if (limited and full) else find_holes(part, options)
    cut_off = full and not limited
    looping = exceeds(part.compression_ratio, options.compression_ratio_threshold)
    improbable = (
        options.log_prob_threshold is not None
        and bool(part.text)
        and hypothesis.avg_logprob < options.log_prob_threshold
        and not (is_silent(part, options) and spoken(part.chunk.speech) < FORGIVEN)
    )
    hurried = sum(letters(part.words[n].text) for n in hurried_words(part))
    foreign = _foreign(part, options)
    cost = sum(to_seconds(hole.speech) for hole in holes) + hurried / SAID
    if foreign:
        cost += 1.0 + foreign / SAID
    if looping:
        again = sum(repeat.again for repeat in repeats(normalized(part.words)))
        cost += 1.0 + again / SAID * 5
    if improbable:
        cost += 0.5 * spoken(part.chunk.speech)
    return Audit(
        holes=holes,
        repeats=looping,
        improbable=improbable,
        hurried=hurried,
        foreign=foreign,
        cut_off=cut_off,
        cost=cost + (1.0 if cut_off else 0.0),
    )


def most_tokens(chunk: Chunk) -> int:
    """How many tokens the speech of a chunk can have, however fast and in whatever script.

    A quarter, a half or all of Whisper's limit. A row with more has failed.
    """
    limits = (MOST_TOKENS // 4, MOST_TOKENS // 2)
    return next((n for n in limits if spoken(chunk.speech) * TOKENS + SPARE <= n), MOST_TOKENS)


def _foreign(part: DecodedRow, options: Options) -> int:
    if not options.multilingual:
        return 0
    return len(foreign(part.text, part.written, latin=options.latin_names))


def exceeds(value: float, threshold: float | None) -> bool:
    """Whether there is a threshold, and the value above it."""
    return threshold is not None and value > threshold


def is_silent(part: DecodedRow, options: Options) -> bool:
    """Whisper's rule: no-speech probability is high, and the text improbable.

    It forgives improbable text and nothing else (in openai/whisper and faster-whisper it also ends
    the retries of text that repeats itself), and only where the voice activity detector too has
    found little: elsewhere the chunk is cut anew before anything of it is given up.
    """
    return exceeds(part.hypothesis.no_speech_prob, options.no_speech_threshold) and (
        options.log_prob_threshold is None
        or part.hypothesis.avg_logprob < options.log_prob_threshold
    )


def find_holes(part: DecodedRow, options: Options) -> tuple[Hole, ...]:
    """Stretches of speech longer than the threshold that no word covers.

    Where there are no words at all, all speech, however short. A translation is not checked: its
    words do not follow the speech.
    """
    if options.coverage_threshold is None or not options.vad or part.task == "translate":
        return ()
    least = to_samples(options.coverage_threshold) if part.words else 0
    found = uncovered(part.words, part.chunk.speech)
    return tuple(hole for hole in found if hole.speech > least)


def uncovered(words: Sequence[AlignedWord], speech: Sequence[SpeechSpan]) -> list[Hole]:
    """All speech that no word covers.

    A word covers no more than it takes to say it slowly, however far the alignment stretches it.
    The spans' margins are not speech.
    """
    holes: list[Hole] = []
    continues = False  # nothing has been said since the last hole
    for span in speech:
        position, end = span.start + span.before, span.end - span.after
        for word in words:
            if word.end <= span.start or word.start >= span.end:
                continue
            if word.start > position:
                _add(holes, position, min(word.start, end), continues=continues)
            continues = False
            position = max(position, covered_until(word))
        if position < end:
            _add(holes, position, end, continues=continues)
            continues = True
    return [hole for hole in holes if hole.speech > 0]


def _add(holes: list[Hole], start: int, end: int, *, continues: bool) -> None:
    if continues and holes:
        before = holes.pop()
        holes.append(Hole(before.start, end, before.speech + end - start))
    else:
        holes.append(Hole(start, end, end - start))


def covered_until(word: AlignedWord) -> int:
    """Where a word ends if it is said slowly and not stretched."""
    return min(word.end, word.start + said_slowly(word))


def hurried_words(part: DecodedRow) -> Sequence[int]:
    """Numbers of the words that there is no time for: some, or all in a very short part."""
    fastest = FASTEST_UNSPACED if part.written in UNSPACED else FASTEST
    count = sum(letters(word.text) for word in part.words)
    length = to_seconds(part.chunk.length)
    if length < BRIEF and count > fastest / 2 * length:
        return range(len(part.words))
    return too_fast(part.words, part.written)


def too_fast(words: Sequence[AlignedWord], language: str) -> list[int]:
    """Numbers of the words that there is no time for: runs of them, in one span.

    Words that nobody says find no place in the alignment: they share what is left of one. In 664
    chunks, noisy ones included, only loops were faster than this.
    """
    fastest, least = (
        (FASTEST_UNSPACED, LEAST_UNSPACED) if language in UNSPACED else (FASTEST, LEAST)
    )
    found: set[int] = set()
    for first, word in enumerate(words):
        count = 0
        for last in range(first, len(words)):
            if words[last].span != word.span:
                break
            count += letters(words[last].text)
            if count >= least:
                if _rate(count, word, words[last]) >= fastest:
                    found.update(range(first, last + 1))
                break
    return [
        number
        for number in sorted(found)
        if _rate(letters(words[number].text), words[number], words[number]) >= fastest / 2
    ]


def _rate(count: int, first: AlignedWord, last: AlignedWord) -> float:
    """Letters a second, by the alignment: moved into speech, words may lie closer than said."""
    start = first.aligned[0] if first.aligned else first.start
    end = last.aligned[1] if last.aligned else last.end
    return count / max(to_seconds(end - start), 0.001)
