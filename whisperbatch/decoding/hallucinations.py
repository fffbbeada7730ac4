"""Hallucination filter: removes words that are not spoken and keeps the sound text around them.

The filter runs after all retries. It removes loops, words that are too fast, and text over silence,
music and noise. Several signals decide together; a stock phrase alone is never enough. All removed
text is listed in `Transcript.omissions`.

Prompt leakage: words of the prompt that appear in the text but are not spoken.

A word of the prompt in the text proves nothing, because a prompt contains words that are expected.
If the text contains a run of the prompt's words, the row is decoded again without the prompt:

    prompt          Kubernetes, Istio and Envoy
    with prompt     Kubernetes Istio and Envoy  Today we talk of Istio and Envoy.
    without prompt                              Today we talk of each toe and convoy.
                    '-------- leaked -------'                  '- spoken, misspelled -'
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from whisperbatch.decoding.audit import (
    MAX_SILENT_SPEECH,
    DecodedRow,
    covered_until,
    exceeds,
    normalize_words,
)
from whisperbatch.decoding.repeats import Repeat, Verdict, has_room, times_of
from whisperbatch.decoding.words import count_letters
from whisperbatch.segmentation.timed_text import AlignedWord, TimedText, join_words
from whisperbatch.text.languages import foreign_letters
from whisperbatch.types import Omission, Reason, speech_seconds, to_seconds

MIN_RUN: Final = 3  # consecutive words of the prompt that are suspicious
MIN_COVERAGE: Final = 0.3  # spoken text covers at least this fraction of its speech
# Boilerplate, and text that is one loop from the first word to the last, is doubtful below this
# average log-probability, and above this no-speech probability. A loop in speech is more probable:
# the model expects each repetition.
BOILERPLATE_LOGPROB: Final = -0.7
BOILERPLATE_NO_SPEECH: Final = 0.5

# Phrases that Whisper learnt from subtitles and produces on music, noise and silence.
BOILERPLATE: Final = frozenset(
    (
        *("you", "bye", "byebye", "thankyou", "thankyouverymuch", "thankyousomuch"),
        *("thanksforwatching", "thankyouforwatching", "thankyouforlistening", "pleasesubscribe"),
        *("pleasesubscribetomychannel", "dontforgettosubscribe", "seeyouinthenextvideo"),
        *("music", "musicplaying", "applause", "subtitlesbytheamaraorgcommunity"),
        *("soustitresréalisésparlacommunautédamaraorg", "mercidavoirregardécettevidéo"),
        *("untertitelderamaraorgcommunity", "untertiteldesamaraorgcommunity"),
        *("untertitelungdeszdffürfunk2017", "vielendankfürszuschauen"),
        *("subtítulosrealizadosporlacomunidaddeamaraorg", "graciasporverelvideo"),
        *("legendaspelacomunidadeamaraorg", "sottotitolicreatidallacomunitàamaraorg"),
        *("sottotitolierevisioneacuradiqtss", "ondertitelsingedienddoordeamaraorggemeenschap"),
        *("napisystworzoneprzezspołecznośćamaraorg", "субтитрысделалdimatorzok"),
        *("продолжениеследует", "спасибозапросмотр", "altyazımk"),
        *("ご視聴ありがとうございました", "字幕由amaraorg社区提供"),
        *("请不吝点赞订阅转发打赏支持明镜与点点栏目", "시청해주셔서감사합니다"),
    )
)


Finding = tuple[Sequence[int], Reason, float]
"""Indices of words to remove, the reason, and the score of the evidence."""


def suspicious_words(words: Sequence[str], prompt: Sequence[str]) -> list[int]:
    """Return the indices of words that belong to a run of the prompt's words.

    A text of fewer than MIN_RUN words is suspicious if all its words are a run of the prompt.

    Args:
        words: normalised words of the text.
        prompt: normalised words of the prompt.
    """
    suspicious: set[int] = set()
    length = min(MIN_RUN, len(words))
    prompt_runs = {
        tuple(prompt[start : start + length]) for start in range(len(prompt) - length + 1)
    }
    for start in range(len(words) - length + 1):
        if length and tuple(words[start : start + length]) in prompt_runs:
            suspicious.update(range(start, start + length))
    return sorted(suspicious)


def leaked_words(
    words: Sequence[str], without_prompt: Sequence[str], suspicious: Sequence[int]
) -> list[int]:
    """Return the suspicious words that the text without the prompt does not replace.

    Words are leaked if the text without the prompt has nothing in their place, or has fewer than
    half as many words.

    Args:
        words: normalised words of the text with the prompt.
        without_prompt: normalised words of the text without the prompt.
        suspicious: indices of `words` from `suspicious_words`.
    """
    matcher = SequenceMatcher(None, words, without_prompt, autojunk=False)
    absent: set[int] = set()
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        if kind == "delete" or (kind == "replace" and 2 * (other_end - other_start) < end - start):
            absent.update(range(start, end))
    return [index for index in suspicious if index in absent]


@dataclass(frozen=True, slots=True)
class FilteredText:
    """The text of a decoded row after filtering, and the omissions."""

    timed_texts: tuple[TimedText, ...]
    omissions: tuple[Omission, ...]


def filter_hallucinations(decoded: DecodedRow) -> FilteredText:
    """Remove the words of a decoded row that are not spoken.

    Uncovered speech is listed as missed, unless text was removed with the reason "no speech".
    """
    reasons: dict[int, tuple[Reason, float]] = {}
    findings = (*_foreign_words(decoded), *_hallucinated_words(decoded))
    for indices, reason, score in findings:
        for index in indices:
            reasons.setdefault(index, (reason, score))
    omissions = list(omissions_of(decoded.words, reasons))
    if not any(reason == "no speech" for reason, _ in reasons.values()):
        omissions += _missed_speech(decoded, omissions)
    return FilteredText(
        keep_words(decoded, [index not in reasons for index in range(len(decoded.words))]),
        tuple(sorted(omissions, key=lambda omission: (omission.start, omission.end))),
    )


def keep_words(decoded: DecodedRow, flags: Sequence[bool]) -> tuple[TimedText, ...]:
    """Return the timed texts of a decoded row with only some of their words.

    A timed text is divided where words are removed.

    Args:
        decoded: the decoded row.
        flags: for each word, whether to keep the word.
    """
    timed_texts: list[TimedText] = []
    position = 0
    for text in decoded.timed_texts:
        text_flags = flags[position : position + len(text.words)]
        position += len(text.words)
        if all(text_flags):
            timed_texts.append(text)
            continue
        run: list[AlignedWord] = []
        for word, flag in zip((*text.words, None), (*text_flags, False), strict=True):
            if flag and word:
                run.append(word)
            elif run:
                timed_texts.append(join_words(run))
                run = []
    return tuple(timed_texts)


def _foreign_words(decoded: DecodedRow) -> Iterator[Finding]:
    """Yield words with letters of other scripts, if rows have their own languages."""
    if decoded.options.multilingual:
        language = decoded.text_language
        for index, word in enumerate(decoded.words):
            if letters := foreign_letters(word.text, language, latin=decoded.options.latin_names):
                yield (index,), "script", float(len(letters))


def _hallucinated_words(decoded: DecodedRow) -> Iterator[Finding]:
    """Yield words over silence, loops, words that are too fast, and boilerplate."""
    all_words = range(len(decoded.words))
    if decoded.words and decoded.is_silent:
        yield all_words, "no speech", decoded.hypothesis.no_speech_prob
    if not decoded.options.hallucination_filter:
        return
    spoken = _spoken_words(decoded)
    too_fast = [index for index in decoded.too_fast_words if index not in spoken]
    score, no_speech_prob = decoded.hypothesis.avg_logprob, decoded.hypothesis.no_speech_prob
    doubtful = score < BOILERPLATE_LOGPROB or no_speech_prob > BOILERPLATE_NO_SPEECH
    yield from _loops(decoded, spoken, set(too_fast), doubtful=doubtful)
    if too_fast:
        letters = sum(count_letters(decoded.words[index].text) for index in too_fast)
        time = sum(decoded.words[index].end - decoded.words[index].start for index in too_fast)
        yield too_fast, "too fast", letters / max(to_seconds(time), 0.001)
    if not decoded.words:
        return
    coverage, improbable = _coverage(decoded), decoded.has_low_probability
    is_boilerplate = "".join(normalize_words(decoded.words)) in BOILERPLATE
    if is_boilerplate and (improbable or (coverage < MIN_COVERAGE and doubtful)):
        yield all_words, "boilerplate", 1.0 - coverage
    if (improbable and coverage < MIN_COVERAGE) or _is_doubtful(decoded):
        yield all_words, "no speech", no_speech_prob


def _spoken_words(decoded: DecodedRow) -> set[int]:
    """Return the indices of words in repetitions that are spoken; none without the VAD."""
    return {
        index
        for repeat, verdict in _judge(decoded)
        for number, (start, end) in enumerate(times_of(repeat))
        if number in verdict.spoken
        for index in range(start, end)
    }


def _judge(decoded: DecodedRow) -> Iterator[tuple[Repeat, Verdict]]:
    """Yield each repeat and what speaks for its times; nothing without the VAD."""
    verdicts = decoded.verdicts if decoded.options.vad else [Verdict()] * len(decoded.repeats)
    yield from zip(decoded.repeats, verdicts, strict=True)


def _loops(
    decoded: DecodedRow, spoken: set[int], too_fast: set[int], *, doubtful: bool
) -> Iterator[Finding]:
    """Yield the words of loops.

    Repetitions that are spoken stay. The first time of a loop stays, too: it may have been spoken.
    Only of doubtful text that is one loop, the first time goes, too, unless the VAD finds speech
    there. Further words with the sound of a spoken repetition are removed: the model has written
    this sound twice.
    """
    repetitive = exceeds(decoded.compression_ratio, decoded.options.compression_ratio_threshold)
    for repeat, verdict in _judge(decoded):
        first = decoded.words[repeat.start : repeat.start + repeat.period]
        found = decoded.options.vad and has_room(first, decoded.chunk.speech, decoded.text_language)
        indices = range(repeat.start, repeat.end)
        repetition = [index for index in indices[repeat.period :] if index not in spoken]
        if doubtful and repeat.end - repeat.start == len(decoded.words):
            removed = (
                repetition
                if found or repeat.start in spoken
                else [*indices[: repeat.period], *repetition]
            )
            yield removed, "loop", repeat.times
        if repetitive or any(index in too_fast for index in repetition):
            yield repetition, "loop", repeat.times
        times = times_of(repeat)
        excess = [index for number in sorted(verdict.excess) for index in range(*times[number])]
        yield excess, "loop", repeat.times


def _is_doubtful(decoded: DecodedRow) -> bool:
    """Return whether text on little speech is doubtful by the sum of Whisper's two measures.

    On base, with chunks of at most 3 s, one of 121 texts on speech in five languages was doubtful
    (a wrong word).
    """
    little = speech_seconds(decoded.chunk.speech) < MAX_SILENT_SPEECH
    return little and decoded.doubt_beyond_thresholds > 0


def _coverage(decoded: DecodedRow) -> float:
    """Return the fraction of the speech that the words cover, each at most its slow duration."""
    time = sum(covered_until(word) - word.start for word in decoded.words)
    return to_seconds(time) / max(speech_seconds(decoded.chunk.speech), 0.001)


def omissions_of(
    words: Sequence[AlignedWord], reasons: Mapping[int, tuple[Reason, float]]
) -> tuple[Omission, ...]:
    """Return one omission for each run of words that are removed for the same reason.

    Args:
        words: words of a decoded row.
        reasons: reason and score, by the index of the word.
    """
    found = []
    for first, (reason, score) in sorted(reasons.items()):
        if first and reasons.get(first - 1) == (reason, score):
            continue
        last = first
        while reasons.get(last + 1) == (reason, score):
            last += 1
        text = "".join(word.text for word in words[first : last + 1]).strip()
        start, end = to_seconds(words[first].start), to_seconds(words[last].end)
        found.append(Omission(start, end, text, reason, score))
    return tuple(found)


def _missed_speech(decoded: DecodedRow, omissions: Sequence[Omission]) -> list[Omission]:
    """Return the uncovered speech that no other omission overlaps."""
    missed = [
        Omission(to_seconds(gap.start), to_seconds(gap.end), "", "missed", to_seconds(gap.speech))
        for gap in decoded.uncovered_speech
    ]
    return [
        gap
        for gap in missed
        if not any(omission.start < gap.end and gap.start < omission.end for omission in omissions)
    ]
