"""Text that nobody says, taken out word by word; the sound text around it stays.

What is left after every retry: loops, words that there is no time for, and text over silence,
music and noise. Several signals together decide; no list of phrases does so alone. All of it goes
into `Transcript.omissions`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from whisperbatch.decoding.audit import covered_until, exceeds, find_holes, hurried_words, is_silent
from whisperbatch.decoding.decoded_row import DecodedRow, normalized
from whisperbatch.decoding.loops import repeats
from whisperbatch.decoding.segments import TimedText, draft
from whisperbatch.decoding.words import AlignedWord, letters
from whisperbatch.options import Options
from whisperbatch.text.scripts import foreign
from whisperbatch.types import Omission, Reason, spoken, to_seconds

COVERED: Final = 0.3  # of its speech is the least that text over speech covers
DOUBTFUL: Final = -0.7  # average log-probability below which a stock phrase is not believed
UNLIKELY: Final = 0.5  # no-speech probability above which it is not

# What Whisper has learnt from subtitles and says over music, noise and silence.
BOILERPLATE: Final = frozenset(
    (
        "you",
        "bye",
        "byebye",
        "thankyou",
        "thankyouverymuch",
        "thankyousomuch",
        "thanksforwatching",
        "thankyouforwatching",
        "thankyouforlistening",
        "pleasesubscribe",
        "pleasesubscribetomychannel",
        "dontforgettosubscribe",
        "seeyouinthenextvideo",
        "music",
        "musicplaying",
        "applause",
        "subtitlesbytheamaraorgcommunity",
        "soustitresréalisésparlacommunautédamaraorg",
        "mercidavoirregardécettevidéo",
        "untertitelderamaraorgcommunity",
        "untertiteldesamaraorgcommunity",
        "untertitelungdeszdffürfunk2017",
        "vielendankfürszuschauen",
        "subtítulosrealizadosporlacomunidaddeamaraorg",
        "graciasporverelvideo",
        "legendaspelacomunidadeamaraorg",
        "sottotitolicreatidallacomunitàamaraorg",
        "sottotitolierevisioneacuradiqtss",
        "ondertitelsingedienddoordeamaraorggemeenschap",
        "napisystworzoneprzezspołecznośćamaraorg",
        "субтитрысделалdimatorzok",
        "продолжениеследует",
        "спасибозапросмотр",
        "altyazımk",
        "ご視聴ありがとうございました",
        "字幕由amaraorg社区提供",
        "请不吝点赞订阅转发打赏支持明镜与点点栏目",
        "시청해주셔서감사합니다",
    )
)


@dataclass(frozen=True, slots=True)
class Filtered:
    """A part's text: what is kept, and what is not."""

    drafts: tuple[TimedText, ...]
    omissions: tuple[Omission, ...]


def filter_part(part: DecodedRow, options: Options) -> Filtered:
    """DecodedRow a part's sound text from what nobody says; list speech without words as missed."""
    reasons: dict[int, tuple[Reason, float]] = {}
    for numbers, reason, score in (*_strange(part, options), *_findings(part, options)):
        for number in numbers:
            reasons.setdefault(number, (reason, score))
    dropped = list(listed(part.words, reasons))
    if not any(reason == "no speech" for reason, _ in reasons.values()):
        dropped += _missed(part, options, dropped)
    return Filtered(
        keep(part, [number not in reasons for number in range(len(part.words))]),
        tuple(sorted(dropped, key=lambda one: (one.start, one.end))),
    )


def keep(part: DecodedRow, kept: Sequence[bool]) -> tuple[TimedText, ...]:
    """The part's drafts with the words that are kept, broken where some are not."""
    drafts: list[TimedText] = []
    position = 0
    for whole in part.drafts:
        flags = kept[position : position + len(whole.words)]
        position += len(whole.words)
        if all(flags):
            drafts.append(whole)
            continue
        run: list[AlignedWord] = []
        for word, flag in zip((*whole.words, None), (*flags, False), strict=True):
            if flag and word:
                run.append(word)
            elif run:
                drafts.append(draft(run))
                run = []
    return tuple(drafts)


def _strange(part: DecodedRow, options: Options) -> Iterator[tuple[Sequence[int], Reason, float]]:
    """Words with letters of other scripts, where rows have their own languages."""
    if options.multilingual:
        for number, word in enumerate(part.words):
            if found := foreign(word.text, part.written, latin=options.latin_names):
                yield (number,), "script", float(len(found))


def _findings(part: DecodedRow, options: Options) -> Iterator[tuple[Sequence[int], Reason, float]]:
    """Numbers of words that are not to be believed, why, and how strong the evidence is."""
    everything = range(len(part.words))
    if part.words and is_silent(part, options):
        yield everything, "no speech", part.hypothesis.no_speech_prob
    if not options.hallucination_filter:
        return
    hurried = hurried_words(part)
    looping = exceeds(part.compression_ratio, options.compression_ratio_threshold)
    for repeat in repeats(normalized(part.words)):
        again = range(repeat.start + repeat.period, repeat.end)
        if looping or any(number in hurried for number in again):
            yield again, "loop", repeat.times
    if hurried:
        count = sum(letters(part.words[number].text) for number in hurried)
        time = sum(part.words[number].end - part.words[number].start for number in hurried)
        yield hurried, "too fast", count / max(to_seconds(time), 0.001)
    if not part.words:
        return
    share, score = _covered(part), part.hypothesis.avg_logprob
    improbable = options.log_prob_threshold is not None and score < options.log_prob_threshold
    if "".join(normalized(part.words)) in BOILERPLATE:
        doubtful = score < DOUBTFUL or part.hypothesis.no_speech_prob > UNLIKELY
        if improbable or (share < COVERED and doubtful):
            yield everything, "boilerplate", 1.0 - share
    if improbable and share < COVERED:
        yield everything, "no speech", part.hypothesis.no_speech_prob


def _covered(part: DecodedRow) -> float:
    """How much of a part's speech its words take, each no longer than it takes to say it slowly."""
    time = sum(covered_until(word) - word.start for word in part.words)
    return to_seconds(time) / max(spoken(part.chunk.speech), 0.001)


def listed(
    words: Sequence[AlignedWord], reasons: Mapping[int, tuple[Reason, float]]
) -> tuple[Omission, ...]:
    """An entry for each run of words that are dropped for one reason.

    Args:
        words: of a part.
        reasons: why, and the score, by the number of the word.
    """
    return tuple(_runs(words, reasons))


def _runs(
    words: Sequence[AlignedWord], reasons: Mapping[int, tuple[Reason, float]]
) -> Iterator[Omission]:
    for number, (reason, score) in sorted(reasons.items()):
        if number and reasons.get(number - 1) == (reason, score):
            continue
        last = number
        while reasons.get(last + 1) == (reason, score):
            last += 1
        text = "".join(word.text for word in words[number : last + 1]).strip()
        yield Omission(
            to_seconds(words[number].start), to_seconds(words[last].end), text, reason, score
        )


def _missed(part: DecodedRow, options: Options, dropped: Sequence[Omission]) -> list[Omission]:
    """Speech that no words were found for, but for that under dropped ones."""
    missed = [
        Omission(
            to_seconds(hole.start), to_seconds(hole.end), "", "missed", to_seconds(hole.speech)
        )
        for hole in find_holes(part, options)
    ]
    return [
        one
        for one in missed
        if not any(other.start < one.end and one.start < other.end for other in dropped)
    ]
